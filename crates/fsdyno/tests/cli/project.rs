//! A small C project with the interface of a kernel's source: `make tinyconfig` writes a configuration,
//! `make vmlinux` compiles what it names. Real sources for a real compiler, small enough for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

const MAKEFILE: &str = "\
CC ?= cc
OBJECTS := $(patsubst %.c,%.o,$(wildcard */*.c))

vmlinux: .config $(OBJECTS)
\t$(CC) -o $@ $(OBJECTS)

tinyconfig defconfig:
\techo CONFIG_TINY=y > .config

%.o: %.c
\t$(CC) -O1 -c -o $@ $<

prepare scripts: .config

.PHONY: tinyconfig defconfig prepare scripts
";

/// Makes the project below `place` and gives its archive.
pub fn archive(place: &Path) -> PathBuf {
    let archive = place.join("project-1.0.tar.gz");
    let tree = place.join("project-1.0");
    for directory in ["init", "kernel", "mm"] {
        std::fs::create_dir_all(tree.join(directory)).unwrap();
        for index in 0..4 {
            let name = format!("{directory}_{index}");
            let body = format!("int {name}(int x) {{ return x * {index} + 1; }}\n");
            std::fs::write(tree.join(directory).join(format!("{name}.c")), body).unwrap();
        }
    }
    let main = "int kernel_1(int x);\nint main(void) { return kernel_1(0) - 1; }\n";
    std::fs::write(tree.join("init/main.c"), main).unwrap();
    std::fs::write(tree.join("Makefile"), MAKEFILE).unwrap();
    let packed = Command::new("tar")
        .args(["-C", &place.display().to_string(), "-czf"])
        .arg(&archive)
        .arg("project-1.0")
        .status()
        .unwrap();
    assert!(packed.success());
    std::fs::remove_dir_all(tree).unwrap();
    archive
}
