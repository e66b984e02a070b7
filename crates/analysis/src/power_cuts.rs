//! Which tests of power cuts speak of a target of a run, and what they say together.
//!
//! A test speaks of a target that has the same filesystem with the same arguments of mkfs and the same mount
//! options, as far as these can bear on what is kept, on a kernel of the same release. What lies under it
//! does not count: power is cut under a disk that keeps what it was told to flush. Only tests that hold a
//! filesystem to what it documents, on such a disk and with its check, are of one kind and counted together.

use fsdyno_model::power_cuts::{HeldTo, PowerCutTest, TargetPowerCuts, stripped};
use fsdyno_model::target::{FreshSpec, Ground, TargetSpec, join_mkfs};

/// Mount options that bear on times of files and on what may be run, which is not judged.
const WITHOUT_BEARING: [&str; 18] = [
    "atime",
    "diratime",
    "dev",
    "exec",
    "lazytime",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "nolazytime",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "relatime",
    "rw",
    "strictatime",
    "suid",
    "defaults",
];

/// What `tests`, the oldest first, say of each target under which power can be cut; `kernel` is that of the run.
#[must_use]
pub fn of_targets(
    targets: &[TargetSpec],
    kernel: Option<&str>,
    tests: &[PowerCutTest],
) -> Vec<TargetPowerCuts> {
    let of_target = |target: &TargetSpec| {
        let bare = stripped(target)?;
        let Ground::Fresh(spec) = &bare.ground else { return None };
        let alike = || tests.iter().filter(|test| is_usual(test) && is_alike(spec, &test.spec));
        let own: Vec<&PowerCutTest> =
            alike().filter(|test| Some(test.kernel.as_str()) == kernel).collect();
        let mut other_kernels: Vec<String> = Vec::new();
        for test in alike().filter(|test| Some(test.kernel.as_str()) != kernel) {
            if !other_kernels.contains(&test.kernel) {
                other_kernels.push(test.kernel.clone());
            }
        }
        let broken = own.iter().rev().find(|test| test.first_broken.is_some());
        let shown = broken.or(own.last());
        let words = ["fsdyno".to_owned(), "durability".to_owned(), bare.unlabelled()];
        Some(TargetPowerCuts {
            target: target.label.clone(),
            cuts: own.iter().map(|test| test.cuts).sum(),
            kept: own.iter().map(|test| test.kept).sum(),
            tests: u32::try_from(own.len()).unwrap_or(u32::MAX),
            finished: shown.map(|test| test.finished.clone()),
            first_broken: broken.and_then(|test| test.first_broken.clone()),
            other_kernels,
            command: join_mkfs(&words),
        })
    };
    targets.iter().filter_map(of_target).collect()
}

fn is_usual(test: &PowerCutTest) -> bool {
    test.held_to == HeldTo::Documented && !test.ignores_flushes && test.checked && test.cuts > 0
}

fn is_alike(a: &FreshSpec, b: &FreshSpec) -> bool {
    (&a.filesystem, &a.mkfs, bearing(&a.mount)) == (&b.filesystem, &b.mkfs, bearing(&b.mount))
}

/// The options that count, sorted by name; of one that is given again the order stays.
fn bearing(options: &str) -> Vec<&str> {
    let counts = |option: &&str| !option.is_empty() && !WITHOUT_BEARING.contains(option);
    let mut options: Vec<&str> = options.split(',').filter(counts).collect();
    options.sort_by_key(|option| option.split('=').next());
    options
}

#[cfg(test)]
mod tests {
    use fsdyno_model::device::DeviceSpec;
    use fsdyno_model::power_cuts::BrokenPromise;

    use super::*;

    fn spec(filesystem: &str, mount: &str) -> FreshSpec {
        FreshSpec {
            filesystem: filesystem.to_owned(),
            mkfs: Vec::new(),
            mount: mount.to_owned(),
            device: DeviceSpec::LoopImage { size_bytes: None },
            journal: None,
            age: None,
            kernel: None,
        }
    }

    fn target(filesystem: &str, mount: &str) -> TargetSpec {
        let ground = Ground::Fresh(spec(filesystem, mount));
        TargetSpec { label: filesystem.to_owned(), ground }
    }

    fn test(mount: &str, kernel: &str, cuts: u64, kept: u64) -> PowerCutTest {
        let broken = || BrokenPromise {
            promise: "durable data stay".to_owned(),
            what: "w0a/f1".to_owned(),
            call: None,
            cut: 3,
            recording: None,
            again: None,
        };
        PowerCutTest {
            fsdyno_version: "0".to_owned(),
            target: "ext4".to_owned(),
            spec: spec("ext4", mount),
            kernel: kernel.to_owned(),
            size_bytes: 64 << 20,
            disk_model: "ram".to_owned(),
            block_bytes: 4096,
            cache_bytes: 64 << 20,
            ignores_flushes: false,
            held_to: HeldTo::Documented,
            checked: true,
            workload: String::new(),
            seed: 1,
            calls: 1200,
            cuts,
            kept,
            finished: format!("2026-01-{cuts:02}"),
            first_broken: (kept < cuts).then(broken),
        }
    }

    #[test]
    fn tests_of_the_same_target_and_kernel_count_together() {
        let tests = [
            test("", "6.18.1", 20, 18),
            test("relatime", "6.18.1", 10, 10),
            test("", "6.12.0", 9, 9),
            test("barrier=0", "6.18.1", 8, 1),
            PowerCutTest { ignores_flushes: true, ..test("", "6.18.1", 7, 1) },
            PowerCutTest { held_to: HeldTo::UnsyncedRename, ..test("", "6.18.1", 6, 1) },
        ];
        let targets = [target("ext4", "noatime"), target("xfs", "")];
        let found = of_targets(&targets, Some("6.18.1"), &tests);
        assert_eq!((found[0].cuts, found[0].kept, found[0].tests), (30, 28, 2));
        // What was broken once stays broken, whatever came later.
        assert!(found[0].is_broken());
        assert_eq!(found[0].finished.as_deref(), Some("2026-01-20"));
        assert_eq!(found[0].other_kernels, ["6.12.0"]);
        assert_eq!((found[1].cuts, found[1].is_broken()), (0, false));
        assert_eq!(found[1].command, "fsdyno durability xfs");
        let found = of_targets(&targets, None, &tests);
        assert_eq!((found[0].cuts, found[0].other_kernels.len()), (0, 2));
    }

    #[test]
    fn options_count_in_any_order() {
        assert_eq!(bearing("noatime,data=ordered,barrier=1"), bearing("barrier=1,data=ordered,rw"));
        assert_ne!(bearing("barrier=1,barrier=0"), bearing("barrier=0,barrier=1"));
        assert_ne!(bearing("barrier=0"), bearing(""));
    }
}
