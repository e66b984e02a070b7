//! The table as users see it, at several widths and with several kinds of results.

use fsdyno_model::workload::WorkloadSpec;

use super::*;
use crate::fixture;

const PLAIN: TableOptions = TableOptions { width: 80, color: false, unicode: true };

#[track_caller]
fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(text::width(line) <= width, "{} columns: {line}", text::width(line));
        assert_eq!(line, line.trim_end(), "trailing space");
    }
}

#[test]
fn nothing_is_wider_than_asked_for() {
    let labels = ["ext4", "xfs/-d agcount=1 -l size=128m:logbsize=256k", "btrfs:compress=zstd"];
    for width in [60, 72, 80, 100, 132] {
        for unicode in [true, false] {
            let options = TableOptions { width, color: false, unicode };
            for count in 1..=3 {
                for trials in 1..=4 {
                    let result = fixture::targets_with_trials(&labels[..count], trials);
                    assert_fits(&render(&result, options), width);
                }
            }
            assert_fits(&render(&fixture::seven_targets(), options), width);
            assert_fits(&render(&fixture::with_failures(), options), width);
        }
    }
}

#[test]
fn plain_text_is_ascii_and_has_no_escapes() {
    let options = TableOptions { width: 80, color: false, unicode: false };
    let text = render(&fixture::three_targets(), options);
    assert!(text.is_ascii(), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let result = fixture::with_failures();
    let coloured = render(&result, TableOptions { color: true, ..PLAIN });
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    stripped.push_str(rest);
    let plain = render(&result, PLAIN);
    let stripped: Vec<&str> = stripped.lines().map(str::trim_end).collect();
    assert_eq!(stripped, plain.lines().collect::<Vec<_>>());
    assert!(coloured.contains("\u{1b}[1m"));
}

#[test]
fn a_narrow_terminal_still_gets_everything() {
    let text = render(&fixture::three_targets(), TableOptions { width: 20, ..PLAIN });
    for label in ["ext4", "xfs", "btrfs", "initial-create", "Verdict:"] {
        assert!(text.contains(label), "{text}");
    }
}

#[test]
fn the_verdict_is_last() {
    let text = render(&fixture::three_targets(), PLAIN);
    let last = text.rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("Verdict: "), "{text}");
}

#[test]
fn the_title_comes_first() {
    let mut result = fixture::three_targets();
    result.run.title = Some("Which one for the mail server?".to_owned());
    let text = render(&result, PLAIN);
    assert!(text.starts_with("Which one for the mail server?\nrun 2026"), "{text}");
    let markdown = crate::markdown::render(&result);
    assert!(markdown.starts_with("## Which one for the mail server?\n\n### "), "{markdown}");
}

#[test]
fn targets_are_shared_out_evenly() {
    assert_eq!(even_ranges(7, 3), [0..2, 2..4, 4..7]);
    assert_eq!(even_ranges(3, 2), [0..1, 1..3]);
    assert_eq!((letter(0), letter(25), letter(26)), ("A".into(), "Z".into(), "27".into()));
}

#[test]
fn one_target() {
    insta::assert_snapshot!(render(&fixture::targets_with_trials(&["ext4"], 3), PLAIN), @r"
run 20260102-030405 · 1 target × 3 trials ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit      ext4
───────────────────────────────────────────
initial-create   MiB/s      122   [119–125]
create           MiB/s      105   [101–108]
patch            MiB/s     68.3 [66.9–70.1]
compile          MiB/s      482   [477–488]
clean            MiB/s     5572 [5533–5626]
read             MiB/s     91.5 [91.0–92.1]
read-compiled    MiB/s      218   [214–220]
delete           ms/tree    614   [601–630]
delete-compiled  ms/tree    846   [823–869]
stat             ms/tree    342   [334–352]
stat-compiled    ms/tree    410   [396–433]
fsck             ms         714   [700–724]

Median of 3 trials [95 % interval]. Higher is better for MiB/s; lower for
ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 181 ns per operation, measured on a target that does
nothing.

Verdict: ext4 completed 3 of 3 trials. With one target there is nothing to
compare: name a second, such as another filesystem or other options.
");
}

#[test]
fn one_trial() {
    insta::assert_snapshot!(render(&fixture::targets_with_trials(&["ext4", "xfs"], 1), PLAIN), @r"
run 20260102-030405 · 2 targets × 1 trial ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit      ext4   xfs
──────────────────────────────────────
initial-create   MiB/s     *123    115
create           MiB/s      106   *112
patch            MiB/s    *68.0   62.4
compile          MiB/s      480   *501
clean            MiB/s    *5572   4186
read             MiB/s    *91.4   90.6
read-compiled    MiB/s     *216    215
delete           ms/tree   *622    877
delete-compiled  ms/tree   *846   1288
stat             ms/tree   *342    370
stat-compiled    ms/tree   *409    464
fsck             ms        *715    966

* best of its row by a single trial, which tells nothing apart. One trial each,
so there are no intervals. Higher is better for MiB/s; lower for ms/tree and ms.
Order of the trials: random, seed 1.
The harness itself takes 181 ns per operation, measured on a target that does
nothing.

Verdict: ext4 came out ahead over all 11 phases by the geometric mean: 1.13 × as
fast as xfs. One trial cannot tell a difference from chance: take at least 3
(--trials 3) before relying on this.
");
}

#[test]
fn three_targets() {
    insta::assert_snapshot!(render(&fixture::three_targets(), PLAIN), @r"
run 20260102-030405 · 3 targets × 3 trials ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit     ext4              xfs               btrfs
──────────────────────────────────────────────────────────────────────────────
initial-create   MiB/s    *122   [119–125]   115   [110–122]    99    [97–102]
create           MiB/s     105   [101–108]  *112   [108–118]    81     [79–83]
patch            MiB/s   *68.3 [66.9–70.1]  62.4 [61.0–63.5]  41.3 [40.5–42.3]
compile          MiB/s    ~482   [477–488]  *498   [472–518]   426   [411–447]
clean            MiB/s   *5572 [5533–5626]  4186 [4029–4298]  2566 [2442–2672]
read             MiB/s   *91.5 [91.0–92.1] ~90.6 [87.8–93.5]  62.3 [60.3–64.3]
read-compiled    MiB/s    *218   [214–220]  ~217   [209–227]   173   [165–178]
delete           ms/tree  *614   [601–630]   877   [825–919]  1261 [1230–1302]
delete-compiled  ms/tree  *846   [823–869]  1288 [1256–1309]  1956 [1874–2010]
stat             ms/tree   342   [334–352]   373   [365–380]  *254   [253–256]
stat-compiled    ms/tree   410   [396–433]   458   [445–472]  *294   [283–308]
fsck             ms       *714   [700–724]   966   [957–975]  2866 [2831–2893]

* best of its row, ~ not told apart from the best (paired by trial, at 5 % for
the row). Median of 3 trials [95 % interval]. Higher is better for MiB/s; lower
for ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 184 ns per operation, measured on a target that does
nothing.

warning: the processor's frequency governor is powersave, not performance: run
  cpupower frequency-set -g performance.

Verdict: ext4 was fastest over all 11 phases by the geometric mean: 1.13 × as
fast as xfs (95 % interval 1.11–1.14), 1.36 × btrfs (1.35–1.38). xfs won create;
btrfs won stat and stat-compiled.
");
}

#[test]
fn three_targets_in_plain_text() {
    let options = TableOptions { unicode: false, ..PLAIN };
    insta::assert_snapshot!(render(&fixture::three_targets(), options), @r"
run 20260102-030405, 3 targets x 3 trials,
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1), seed 1,
  host bench, Linux 6.18.44

compilebench

phase            unit     ext4              xfs               btrfs
------------------------------------------------------------------------------
initial-create   MiB/s    *122   [119-125]   115   [110-122]    99    [97-102]
create           MiB/s     105   [101-108]  *112   [108-118]    81     [79-83]
patch            MiB/s   *68.3 [66.9-70.1]  62.4 [61.0-63.5]  41.3 [40.5-42.3]
compile          MiB/s    ~482   [477-488]  *498   [472-518]   426   [411-447]
clean            MiB/s   *5572 [5533-5626]  4186 [4029-4298]  2566 [2442-2672]
read             MiB/s   *91.5 [91.0-92.1] ~90.6 [87.8-93.5]  62.3 [60.3-64.3]
read-compiled    MiB/s    *218   [214-220]  ~217   [209-227]   173   [165-178]
delete           ms/tree  *614   [601-630]   877   [825-919]  1261 [1230-1302]
delete-compiled  ms/tree  *846   [823-869]  1288 [1256-1309]  1956 [1874-2010]
stat             ms/tree   342   [334-352]   373   [365-380]  *254   [253-256]
stat-compiled    ms/tree   410   [396-433]   458   [445-472]  *294   [283-308]
fsck             ms       *714   [700-724]   966   [957-975]  2866 [2831-2893]

* best of its row, ~ not told apart from the best (paired by trial, at 5 % for
the row). Median of 3 trials [95 % interval]. Higher is better for MiB/s; lower
for ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 184 ns per operation, measured on a target that does
nothing.

warning: the processor's frequency governor is powersave, not performance: run
  cpupower frequency-set -g performance.

Verdict: ext4 was fastest over all 11 phases by the geometric mean: 1.13 x as
fast as xfs (95 % interval 1.11-1.14), 1.36 x btrfs (1.35-1.38). xfs won create;
btrfs won stat and stat-compiled.
");
}

#[test]
fn three_targets_with_room() {
    insta::assert_snapshot!(render(
        &fixture::three_targets(),
        TableOptions { width: 100, ..PLAIN }
    ), @r"
run 20260102-030405 · 3 targets × 3 trials · images of 3 GiB in /var/tmp (ext4 on /dev/sda1) ·
  seed 1 · host bench, Linux 6.18.44

compilebench

phase            unit      ext4                 xfs                  btrfs
───────────────────────────────────────────────────────────────────────────────────────
initial-create   MiB/s     *122   [119–125] a    115   [110–122] b     99    [97–102] c
create           MiB/s      105   [101–108] b   *112   [108–118] a     81     [79–83] c
patch            MiB/s    *68.3 [66.9–70.1] a   62.4 [61.0–63.5] b   41.3 [40.5–42.3] c
compile          MiB/s     ~482   [477–488] a   *498   [472–518] a    426   [411–447] b
clean            MiB/s    *5572 [5533–5626] a   4186 [4029–4298] b   2566 [2442–2672] c
read             MiB/s    *91.5 [91.0–92.1] a  ~90.6 [87.8–93.5] a   62.3 [60.3–64.3] b
read-compiled    MiB/s     *218   [214–220] a   ~217   [209–227] a    173   [165–178] b
delete           ms/tree   *614   [601–630] a    877   [825–919] b   1261 [1230–1302] c
delete-compiled  ms/tree   *846   [823–869] a   1288 [1256–1309] b   1956 [1874–2010] c
stat             ms/tree    342   [334–352] b    373   [365–380] c   *254   [253–256] a
stat-compiled    ms/tree    410   [396–433] b    458   [445–472] c   *294   [283–308] a
fsck             ms        *714   [700–724] a    966   [957–975] b   2866 [2831–2893] c

* best of its row, ~ not told apart from the best (paired by trial, at 5 % for the row). Median of
3 trials [95 % interval]. Figures of a row that share a letter are not told apart. Higher is better
for MiB/s; lower for ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 184 ns per operation, measured on a target that does nothing.

warning: the processor's frequency governor is powersave, not performance: run cpupower
  frequency-set -g performance.

Verdict: ext4 was fastest over all 11 phases by the geometric mean: 1.13 × as fast as xfs
(95 % interval 1.11–1.14), 1.36 × btrfs (1.35–1.38). xfs won create; btrfs won stat and
stat-compiled.
");
}

#[test]
fn failures() {
    insta::assert_snapshot!(render(&fixture::with_failures(), PLAIN), @r"
run 20260102-030405 · 3 targets × 3 trials ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit      ext4               xfs                btrfs
──────────────────────────────────────────────────────────────────────
initial-create   MiB/s     *122   [119–125]   ~117    [98–138]   –
create           MiB/s     ~105   [101–108]   *114    [98–132]   –
patch            MiB/s    *68.3 [66.9–70.1]  ~62.5 [61.2–63.9]   –
compile          MiB/s     ~482   [477–488]   *500   [479–521]   –
clean            MiB/s    *5572 [5533–5626]   4192 [4115–4271]   –
read             MiB/s    *91.5 [91.0–92.1]  ~91.1 [84.1–98.8]   –
read-compiled    MiB/s     ~218   [214–220]   *219   [179–267]   –
delete           ms/tree   *614   [601–630]    863  [708–1053]   –
delete-compiled  ms/tree   *846   [823–869]   1279 [1170–1398]   –
stat             ms/tree   *342   [334–352]   ~371   [354–390]   –
stat-compiled    ms/tree   *410   [396–433]   ~459   [395–532]   –
fsck             ms        *714   [700–724]    964   [944–984]   –

xfs: 2 of 3 trials completed; failed in create: cannot write
  kernel-3/fs/xfs/xfs_aops.c: no space left on device; give a larger --size
btrfs: 0 of 3 trials completed; skipped: mkfs.btrfs is not installed; install
  btrfs-progs

* best of its row, ~ not told apart from the best (paired by trial, at 5 % for
the row). Median of the completed trials [95 % interval]. Higher is better for
MiB/s; lower for ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 184 ns per operation, measured on a target that does
nothing.

warning: caches were not dropped before reading (6 of 9 trials): run as root.

Verdict: ext4 was fastest over all 11 phases by the geometric mean: 1.12 × as
fast as xfs (95 % interval 1.06–1.18). xfs completed 2 of 3 trials (failed in
create, see the notes). Left out: btrfs (skipped, see the notes).
");
}

#[test]
fn seven_targets() {
    insta::assert_snapshot!(render(&fixture::seven_targets(), PLAIN), @r"
run 20260102-030405 · 7 targets × 3 trials ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit     ext2              ext3:data=writeback,barrier=1
─────────────────────────────────────────────────────────────────────────
initial-create   MiB/s    *122   [119–125]  ~115   [110–122]
create           MiB/s    ~105   [101–108]  *112   [108–118]
patch            MiB/s   ~68.3 [66.9–70.1] ~62.4 [61.0–63.5]
compile          MiB/s    ~482   [477–488]  *498   [472–518]
clean            MiB/s   *5572 [5533–5626]  4186 [4029–4298]
read             MiB/s   ~91.5 [91.0–92.1] ~90.6 [87.8–93.5]
read-compiled    MiB/s    ~218   [214–220]  ~217   [209–227]
delete           ms/tree  ~614   [601–630]   877   [825–919]
delete-compiled  ms/tree  ~846   [823–869]  1288 [1256–1309]
stat             ms/tree   342   [334–352]   373   [365–380]
stat-compiled    ms/tree   410   [396–433]   458   [445–472]
fsck             ms       *714   [700–724]   966   [957–975]

phase            unit     ext4              xfs
────────────────────────────────────────────────────────────
initial-create   MiB/s      99    [97–102]  ~121   [119–125]
create           MiB/s      81     [79–83]  ~105   [101–108]
patch            MiB/s    41.3 [40.5–42.3] *69.0 [64.6–72.6]
compile          MiB/s    ~426   [411–447]  ~479   [462–496]
clean            MiB/s    2566 [2442–2672] ~5548 [5265–5947]
read             MiB/s    62.3 [60.3–64.3] ~91.2 [87.7–95.7]
read-compiled    MiB/s     173   [165–178]  ~219   [213–223]
delete           ms/tree  1261 [1230–1302]  ~617   [587–641]
delete-compiled  ms/tree  1956 [1874–2010]  ~845   [821–868]
stat             ms/tree  *254   [253–256]   346   [341–350]
stat-compiled    ms/tree  ~294   [283–308]   413   [400–424]
fsck             ms       2866 [2831–2893]   724   [705–736]

phase            unit     E xfs/-d agcount…  btrfs             G btrfs:compress…
────────────────────────────────────────────────────────────────────────────────
initial-create   MiB/s    ~117   [109–122]    100    [99–101]  ~122   [119–126]
create           MiB/s    ~112   [108–115]     80     [78–81]   104   [101–106]
patch            MiB/s   ~61.5 [60.6–62.8]   41.3 [40.3–42.0] ~67.5 [65.4–70.3]
compile          MiB/s    ~497   [482–514]    428   [417–435]  ~477   [461–496]
clean            MiB/s    4194 [4148–4229]   2566 [2519–2616] ~5567 [5311–5899]
read             MiB/s   ~89.8 [87.4–92.8]   61.3 [59.6–62.9] *92.0 [91.2–92.9]
read-compiled    MiB/s    ~216   [214–219]    171   [166–174]  *221   [217–224]
delete           ms/tree   866   [848–890]   1251 [1197–1313]  *611   [593–639]
delete-compiled  ms/tree  1263 [1223–1328]   1948 [1830–2055]  *838   [820–857]
stat             ms/tree   366   [356–379]   ~255   [246–264]   346   [339–355]
stat-compiled    ms/tree   460   [440–477]   *291   [275–311]   415   [413–419]
fsck             ms        949   [917–981]   2896 [2776–2990]  ~715   [699–727]

E = xfs/-d agcount=1 -l size=128m:logbsize=256k
G = btrfs:compress=zstd
* best of its row, ~ not told apart from the best (paired by trial, at 5 % for
the row). Median of 3 trials [95 % interval]. Higher is better for MiB/s; lower
for ms/tree and ms. Order of the trials: random, seed 1.
The harness itself takes 190 ns per operation, measured on a target that does
nothing.

Verdict: ext2, xfs and btrfs:compress=zstd were fastest over all 11 phases by
the geometric mean. ext2 was ahead: 1.00 × as fast as xfs (95 % interval
0.99–1.01: not told apart with 3 trials), 1.00 × btrfs:compress=zstd (0.99–1.01:
not told apart with 3 trials), 1.12 × xfs/-d agcount=1 -l
size=128m:logbsize=256k (1.11–1.14), 1.13 × ext3:data=writeback,barrier=1
(1.11–1.14), 1.36 × ext4 (1.35–1.38), 1.37 × btrfs (1.35–1.38). ext4 won stat;
btrfs won stat-compiled.
");
}

#[test]
fn what_explains_is_shown_apart_and_without_marks() {
    let result = fixture::with_explanations();
    let text = render(&result, PLAIN);
    insta::assert_snapshot!(text, @r"
run 20260102-030405 · 3 targets × 3 trials ·
  images of 3 GiB in /var/tmp (ext4 on /dev/sda1) · seed 1 ·
  host bench, Linux 6.18.44

compilebench

phase            unit     ext4              xfs               btrfs
──────────────────────────────────────────────────────────────────────────────
initial-create   MiB/s    *122   [119–125]   115   [110–122]    99    [97–102]
create           MiB/s     105   [101–108]  *112   [108–118]    81     [79–83]
patch            MiB/s   *68.3 [66.9–70.1]  62.4 [61.0–63.5]  41.3 [40.5–42.3]
compile          MiB/s    ~482   [477–488]  *498   [472–518]   426   [411–447]
clean            MiB/s   *5572 [5533–5626]  4186 [4029–4298]  2566 [2442–2672]
read             MiB/s   *91.5 [91.0–92.1] ~90.6 [87.8–93.5]  62.3 [60.3–64.3]
read-compiled    MiB/s    *218   [214–220]  ~217   [209–227]   173   [165–178]
delete           ms/tree  *614   [601–630]   877   [825–919]  1261 [1230–1302]
delete-compiled  ms/tree  *846   [823–869]  1288 [1256–1309]  1956 [1874–2010]
stat             ms/tree   342   [334–352]   373   [365–380]  *254   [253–256]
stat-compiled    ms/tree   410   [396–433]   458   [445–472]  *294   [283–308]
fsck             ms       *714   [700–724]   966   [957–975]  2866 [2831–2893]

why: fragmentation       unit           ext4    xfs     btrfs
─────────────────────────────────────────────────────────────
extents_per_file         extents/file     3.0    15.0    1348
extents_per_file_p99     extents/file       3      15    1349
fragmented_share         share          0.002   0.007   0.674
free_extent_largest_mib  MiB             2890    2890    2890

why: layout                unit          ext4    xfs     btrfs
───────────────────────────────────────────────────────────────
readdir_inode_correlation  correlation   0.002   0.999   -0.504

Read from memory, not from the device: read (ext4, xfs, btrfs); read-compiled
  (ext4).

* best of its row, ~ not told apart from the best (paired by trial, at 5 % for
the row). Median of 3 trials [95 % interval]. Higher is better for MiB/s; lower
for ms/tree and ms. Order of the trials: random, seed 1.
Why: how files and free space lie on the device (medians); `fsdyno list metrics`
explains each.
The harness itself takes 184 ns per operation, measured on a target that does
nothing.

Verdict: ext4 was fastest over all 11 phases by the geometric mean: 1.13 × as
fast as xfs (95 % interval 1.11–1.14), 1.36 × btrfs (1.35–1.38). xfs won create;
btrfs won stat and stat-compiled.
");
    assert!(!text.contains("created_files"), "{text}");
    for width in [60, 72, 80, 132] {
        assert_fits(&render(&result, TableOptions { width, ..PLAIN }), width);
    }
    let mut several = fixture::with_explanations();
    for row in several.summary.iter_mut() {
        row.primary &= row.phase == "layout" || row.phase == "fragmentation";
    }
    let alone = render(&several, PLAIN);
    assert!(alone.contains("why: layout") && !alone.contains("No trial completed"), "{alone}");
}

#[test]
fn nothing_completed() {
    let mut result = fixture::with_failures();
    result.summary.clear();
    let text = render(&result, PLAIN);
    assert!(text.contains("No trial completed.\n"), "{text}");
    assert!(text.contains("xfs: 2 of 3 trials completed"), "{text}");
}

#[test]
fn several_workloads_have_a_verdict_each() {
    let mut result = fixture::three_targets();
    let one = result.workloads[0].clone();
    let mut narrow: Vec<_> =
        result.summary.iter().filter(|row| row.phase == "stat").cloned().collect();
    for row in &mut narrow {
        row.workload = "second".to_owned();
    }
    result.summary.extend(narrow);
    result.workloads.push(WorkloadSpec { label: "second".to_owned(), ..one });
    let mut verdict = result.verdicts[0].clone();
    verdict.workload = "second".to_owned();
    result.verdicts.push(verdict);
    let text = render(&result, PLAIN);
    for words in ["\nsecond\n\nphase", "Verdict, compilebench: ext4", "Verdict, second: ext4"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(text.matches("* best of its row").count(), 1, "{text}");
    assert_fits(&text, 80);
}
