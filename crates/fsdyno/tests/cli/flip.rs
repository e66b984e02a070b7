//! One byte that the device returns wrong, behind the filesystem's back: reading back finds it, in the
//! files that a workload left and in those that it reads back itself before it deletes them.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sandbox::can_format;
use fsdyno_lab::quiesce::Patience;
use fsdyno_lab::stand::{Limits, Stand};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::param::Params;
use fsdyno_model::target::TargetSpec;
use fsdyno_model::wire::{
    self, Manifest, MeasureSpec, Message, Reply, Spec, Task, VerifySpec, Watch,
};
use fsdyno_workload::{catalog, runner};

const SIZE_BYTES: u64 = 512 << 20;
/// Data of files begin at multiples of this on the device.
const BLOCK_BYTES: usize = 4096;
/// Enough of a block to know it by: no two blocks of the payload are alike.
const NEEDLE_BYTES: usize = 64;

/// What a runner said that was attended to by `remount`.
fn attend(task: Task, mut remount: impl FnMut()) -> Vec<Message> {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let input = theirs.try_clone().unwrap();
    let runner = std::thread::spawn(move || runner::serve(input, theirs));
    wire::write_frame(&mut ours, &Spec { version: wire::VERSION, task }).unwrap();
    let mut messages = Vec::new();
    while let Some(message) = wire::read_frame::<Message>(&mut ours).unwrap() {
        if message == Message::Remount {
            remount();
            wire::write_frame(&mut ours, &Reply::Remounted).unwrap();
        }
        messages.push(message);
        if matches!(messages.last(), Some(Message::Finished | Message::Failed { .. })) {
            break;
        }
    }
    runner.join().unwrap();
    messages
}

/// The largest file below `directory`.
fn largest_file(directory: &Path) -> PathBuf {
    let mut directories = vec![directory.to_owned()];
    let mut largest = (0, PathBuf::new());
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                directories.push(entry.path());
            } else if facts.is_file() && facts.len() > largest.0 {
                largest = (facts.len(), entry.path());
            }
        }
    }
    assert!(largest.0 >= BLOCK_BYTES as u64, "no file is as long as a block");
    largest.1
}

/// The first bytes of a file.
fn needle(path: &Path) -> [u8; NEEDLE_BYTES] {
    let mut bytes = [0; NEEDLE_BYTES];
    std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Changes one bit in the block of an unmounted device that begins with `needle`.
fn flip(device: &Path, needle: &[u8]) {
    let device = std::fs::OpenOptions::new().read(true).write(true).open(device).unwrap();
    let mut window = vec![0; 4 << 20];
    for start in (0..SIZE_BYTES).step_by(window.len()) {
        device.read_exact_at(&mut window, start).unwrap();
        let blocks = window.chunks(BLOCK_BYTES);
        let Some(index) = blocks.enumerate().find(|(_, block)| block.starts_with(needle)) else {
            continue;
        };
        let position = start + (index.0 * BLOCK_BYTES) as u64 + 77;
        let mut byte = [0];
        device.read_exact_at(&mut byte, position).unwrap();
        device.write_all_at(&[byte[0] ^ 4], position).unwrap();
        (&device).flush().unwrap();
        device.sync_all().unwrap();
        return;
    }
    panic!("the block is not on the device");
}

/// A filesystem on a fresh image, and the damage to be done to it.
struct Bench<'w> {
    stand: Stand<'w>,
    device: PathBuf,
}

impl<'w> Bench<'w> {
    fn new(workspace: &'w Workspace, filesystem: &str) -> Bench<'w> {
        let target = fsdyno::catalogue::with_names(|names| TargetSpec::parse(filesystem, names));
        let quiesce = Patience { idle: Duration::from_millis(100), limit: Duration::from_secs(60) };
        let limits = Limits { command: Duration::from_secs(120), quiesce, ..Default::default() };
        let mut stand = Stand::provision(workspace, &target.unwrap(), SIZE_BYTES, &limits).unwrap();
        stand.mkfs().unwrap();
        stand.mount().unwrap();
        let (_, minor) = stand.watch().devices[0];
        Bench { stand, device: format!("/dev/loop{minor}").into() }
    }

    fn spec(&self, text: &str) -> MeasureSpec {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let info = catalog::find(kind).unwrap().info();
        let mut params = Params::defaults(info.params, true);
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap();
            params.set(info.params, name, value).unwrap();
        }
        MeasureSpec {
            root: self.stand.root().to_owned(),
            workload: kind.to_owned(),
            definition: None,
            params,
            seed: 3,
            may_drop_caches: false,
            may_remount: true,
            has_own_cache: false,
            watch: Watch::default(),
        }
    }

    /// Runs the workload; a byte is flipped while the filesystem is unmounted for the `nth` time.
    fn run(&mut self, text: &str, nth: usize) -> Vec<Message> {
        let task = Task::Measure(self.spec(text));
        let (stand, device) = (&mut self.stand, self.device.clone());
        let mut count = 0;
        attend(task, || {
            count += 1;
            let needle = (count == nth).then(|| needle(&largest_file(stand.root())));
            stand.unmount().unwrap();
            if let Some(needle) = needle {
                flip(&device, &needle);
            }
            stand.mount().unwrap();
        })
    }
}

fn with_bench(filesystem: &str, test: impl FnOnce(&mut Bench<'_>)) {
    let place = tempfile::Builder::new().prefix("fsdyno-test-").tempdir_in("/var/tmp").unwrap();
    let state = place.path().join("state");
    let workspace = Workspace::open("flip", &place.path().join("images"), &state, &[]).unwrap();
    let mut bench = Bench::new(&workspace, filesystem);
    test(&mut bench);
    bench.stand.teardown().unwrap();
    drop(bench);
    workspace.close().unwrap();
}

fn can_run() -> bool {
    if !can_format(&["ext4", "xfs", "btrfs"]) {
        return false;
    }
    fsdyno_sys::mount::private_namespace().unwrap();
    true
}

/// Workloads that leave files, with what must be told of the damaged one.
#[test]
fn in_files_that_are_left() {
    if !can_run() {
        return;
    }
    for (filesystem, workload, told) in [
        ("ext4", "package-install:count=3", "differs at byte 77"),
        ("xfs", "read-speed:size=8MiB", "differs at byte 77"),
        // The checksum of btrfs finds it first.
        ("btrfs", "package-install:count=3", "EIO"),
    ] {
        with_bench(filesystem, |bench| {
            let messages = bench.run(workload, 0);
            assert_eq!(messages.last(), Some(&Message::Finished), "{workload}: {messages:?}");
            let manifest = messages.iter().find_map(|message| match message {
                Message::Manifest(manifest) => Some(manifest.clone()),
                _ => None,
            });
            let manifest: Manifest = manifest.unwrap();
            let root = bench.stand.root().to_owned();
            // One that is in the sample.
            let file = manifest.files.iter().max_by_key(|file| file.size_bytes).unwrap();
            let needle = needle(&root.join(&file.path));
            bench.stand.unmount().unwrap();
            flip(&bench.device, &needle);
            bench.stand.mount_read_only().unwrap();
            let path = file.path.clone();
            let messages = attend(Task::Verify(VerifySpec { root, manifest }), || ());
            let mismatches = messages.iter().find_map(|message| match message {
                Message::Verified(record) => Some(record.mismatches.clone()),
                _ => None,
            });
            let [mismatch] = &mismatches.unwrap()[..] else {
                panic!("{filesystem} {workload}: {messages:?}");
            };
            assert!(mismatch.contains(&path) && mismatch.contains(told), "{mismatch}");
        });
    }
}

/// Workloads that read back before they delete, with the cold start before that.
#[test]
fn in_files_that_are_deleted() {
    if !can_run() {
        return;
    }
    for (filesystem, workload, nth, told) in [
        ("ext4", "small-files:files=300,cold=remount", 1, "differs at byte 77"),
        ("xfs", "million-files:files=300,size=4KiB,cold=remount", 1, "differs at byte 77"),
        ("ext4", "web-cache:size=1MiB,cold=remount", 1, "differs at byte 77"),
        ("btrfs", "small-files:files=300,size=8KiB,cold=remount", 1, "EIO"),
    ] {
        with_bench(filesystem, |bench| {
            let messages = bench.run(workload, nth);
            match messages.last() {
                Some(Message::Failed { error, .. }) => {
                    assert!(error.contains(told), "{filesystem} {workload}: {error}");
                }
                other => panic!("{filesystem} {workload}: {other:?}"),
            }
        });
    }
}
