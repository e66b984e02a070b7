//! How much memory there is to cache files in: that of the machine, or less where a control group
//! limits it. What follows from it for the size of a file is left to [`super::settings`].

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_sys::kernel::memory_bytes;

/// Memory that this process can use, in bytes: that of the machine or the lowest limit of its control
/// groups (v1 and v2); `None` where neither can be read.
#[must_use]
pub fn usable_bytes() -> Option<u64> {
    let machine = memory_bytes();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.into_iter().chain(group_limit_bytes(&groups, Path::new("/sys/fs/cgroup"))).min()
}

/// The lowest limit in force on the groups that `groups`, the text of `/proc/self/cgroup`, names, and
/// on those above them, below the directory `mounted`.
fn group_limit_bytes(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| limit_files(line, mounted));
    limits.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).min()
}

/// Where the limits of one line `ID:CONTROLLERS:PATH` are: of the group itself and all above it. In a
/// container the path may not be visible from inside; then the root of what is mounted is the group.
fn limit_files(line: &str, mounted: &Path) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (roots, file): (&[&str], &str) = match controllers {
        "" => (&["", "unified"], "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => {
            (&["memory"], "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let inside = Path::new(path.trim_start_matches('/'));
    let mut files = Vec::new();
    for root in roots {
        let root = mounted.join(root);
        // The last ancestor is the empty path: the root itself.
        files.extend(inside.ancestors().map(|group| root.join(group).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_a_group_and_those_above_it_counts() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| group_limit_bytes(groups, directory.path());
        let (v1, v2) = ("5:cpu,memory:/a/b\n1:name=systemd:/z", "0::/job/step\n");
        assert_eq!((limit(v1), limit(v2), limit("")), (None, None, None));
        write("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(v1), Some(9_223_372_036_854_771_712));
        write("memory/a/memory.limit_in_bytes", "4096000\n");
        assert_eq!(limit(v1), Some(4_096_000));
        write("job/step/memory.max", "max\n");
        assert_eq!(limit(v2), None);
        write("job/memory.max", "2048\n");
        assert_eq!(limit(v2), Some(2048));
        write("unified/job/memory.max", "1024\n");
        assert_eq!(limit(&format!("{v1}\n{v2}")), Some(1024));
        // Inside a container only the root may be there.
        write("memory/memory.limit_in_bytes", "512\n");
        assert_eq!(limit("7:memory:/docker/0123"), Some(512));
    }

    #[test]
    fn odd_lines_are_no_limits() {
        for line in ["x", "::", "1:memory", "0::/../../etc", "9:cpuset:/a"] {
            assert_eq!(group_limit_bytes(line, Path::new("/nonexistent")), None, "{line}");
        }
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(usable_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
