//! The user's own words for mkfs and mount: they may shape the filesystem, but name no device and no
//! file to write to, because those that a filesystem stands on are fields of the target, where they
//! are checked. What each mkfs accepts is in the catalogue; running it is left to [`crate::stand`].

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::filesystem::FilesystemDef;

/// The options of one mkfs, as its manual has them: short ones with one dash, long ones with two. What
/// is in none of the lists is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Those without a value.
    pub flags: &'static [&'static str],
    /// Those whose next word, or the rest of whose own, is a value.
    pub valued: &'static [&'static str],
    /// Those of `valued` whose value may be a path: mkfs only reads what is there, or stores the text.
    pub paths: &'static [&'static str],
    /// Those that are refused, and why.
    pub refused: &'static [(&'static str, &'static str)],
    /// Those of `paths` that name a file of further options, and the directory in which mkfs looks for
    /// it too.
    pub configuration: Option<(&'static str, &'static str)>,
}

/// Why an option is refused that makes mkfs tell something, or try, and make nothing.
pub const MAKES_NOTHING: &str = "with it mkfs makes no filesystem";
/// Why an option is refused that names what is written to.
pub const NAMES_A_DEVICE: &str = "it names another device or file to write to";

/// Looks through the user's arguments for mkfs and mount options.
///
/// # Errors
/// Which one is refused, why, and what to do instead.
pub fn check(definition: &FilesystemDef, mkfs: &[String], mount: &str) -> Result<(), String> {
    check_mkfs(definition, mkfs)?;
    let options: Vec<&str> = mount.split(',').map(str::trim).collect();
    if options.contains(&"ro") {
        return Err("a target must be writable: leave out ro".to_owned());
    }
    for option in std::iter::once(mount).chain(options) {
        if leads_to_device(option) {
            return Err(leads_away("mount option", option));
        }
    }
    Ok(())
}

fn leads_away(what: &str, word: &str) -> String {
    format!(
        "{what} `{}` leads to a device: devices are named in the target (@DEVICE, or journal= / log= in \
         a plan), where they are checked",
        word.escape_debug()
    )
}

/// One option of the user's with its value.
#[derive(Debug, PartialEq, Eq)]
struct Given<'a> {
    /// With its dashes.
    option: String,
    value: Option<&'a str>,
}

fn check_mkfs(definition: &FilesystemDef, words: &[String]) -> Result<(), String> {
    let options = &definition.mkfs_options;
    let program = definition.tools.first().map_or("mkfs", |tool| tool.name);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        for given in parse_word(word, &mut words, options, program)? {
            if let Some(value) = given.value {
                check_value(&given.option, value, options)?;
            }
        }
    }
    Ok(())
}

/// What one word means to getopt: a bundle of short options (`-qL`, the last with the rest of the word
/// or the next word as its value) or a long one (`--label=x`).
fn parse_word<'a>(
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
    options: &MkfsOptions,
    program: &str,
) -> Result<Vec<Given<'a>>, String> {
    let shown = word.escape_debug();
    if word == "-" || word == "--" || !word.starts_with('-') {
        return Err(if leads_to_device(word) {
            leads_away("mkfs argument", word)
        } else {
            format!(
                "mkfs argument `{shown}` is no option: {program} would take it for a second device or \
                 a size; the device and --size are named in the target"
            )
        });
    }
    let mut value_of = |option: &str, attached: Option<&'a str>| {
        let value = attached.or_else(|| rest.next());
        value.ok_or_else(|| format!("mkfs argument `{option}` takes a value: put it behind it"))
    };
    if word.starts_with("--") {
        let (option, attached) =
            word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        let value = if takes_value(option, options, program)? {
            Some(value_of(option, attached)?)
        } else {
            None
        };
        return Ok(vec![Given { option: option.to_owned(), value }]);
    }
    let mut given = Vec::new();
    for (at, letter) in word.char_indices().skip(1) {
        let option = format!("-{letter}");
        if takes_value(&option, options, program)? {
            let attached = &word[at + letter.len_utf8()..];
            let attached = Some(attached).filter(|attached| !attached.is_empty());
            let value = Some(value_of(&option, attached)?);
            given.push(Given { option, value });
            break;
        }
        given.push(Given { option, value: None });
    }
    Ok(given)
}

fn takes_value(option: &str, options: &MkfsOptions, program: &str) -> Result<bool, String> {
    if let Some((_, why)) = options.refused.iter().find(|(refused, _)| *refused == option) {
        return Err(format!("mkfs argument `{option}` is refused: {why}"));
    }
    if options.valued.contains(&option) {
        return Ok(true);
    }
    if options.flags.contains(&option) {
        return Ok(false);
    }
    Err(format!(
        "mkfs argument `{}` is none of {program}'s that fsdyno knows: write options in full, as in its \
         manual",
        option.escape_debug()
    ))
}

fn check_value(option: &str, value: &str, options: &MkfsOptions) -> Result<(), String> {
    let pieces = || value.split(',').map(str::trim);
    if leads_to_device(value) {
        return Err(leads_away("mkfs argument", &format!("{option} {value}")));
    }
    let shown = value.escape_debug();
    if let Some(piece) = pieces().find(|piece| ["list-all", "journal_dev"].contains(piece)) {
        return Err(format!("mkfs argument `{option} {piece}` is refused: {MAKES_NOTHING}"));
    }
    if pieces().any(|piece| piece == "file" || piece.starts_with("file=")) {
        return Err(format!("mkfs argument `{option} {shown}` is refused: {NAMES_A_DEVICE}"));
    }
    if !options.paths.contains(&option) && (value.contains('/') || value.starts_with('.')) {
        return Err(format!(
            "mkfs argument `{option} {shown}` is refused: {option} takes no path, and what is written \
             to is named in the target"
        ));
    }
    match options.configuration {
        Some((known, directory)) if known == option => check_configuration(value, directory),
        _ => Ok(()),
    }
}

/// A file of options may name a device too.
fn check_configuration(value: &str, directory: &str) -> Result<(), String> {
    for piece in value.split(',') {
        let name = piece.split_once('=').map_or(piece, |(_, name)| name);
        // Programs run in the root directory.
        for path in [Path::new("/").join(name), Path::new(directory).join(name)] {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            for line in String::from_utf8_lossy(&bytes).lines() {
                let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
                let comment = line.starts_with(['#', ';']);
                if !comment && (leads_to_device(&line) || line.starts_with("file=")) {
                    return Err(leads_away(&format!("{}:", path.display()), &line));
                }
            }
        }
    }
    Ok(())
}

/// Options whose value is a device, however it is written (a number, a UUID, a label).
const DEVICE_KEYS: [&str; 8] =
    ["device", "logdev", "rtdev", "journal_dev", "journal_path", "name", "logname", "rtname"];

/// Whether the whole word, or what follows a comma or an equals sign in it, is a device or an option
/// that names one. A path may hold commas and equals signs itself.
fn leads_to_device(word: &str) -> bool {
    let keyed = word.split(',').any(|pair| {
        let key = pair.split_once('=').map(|(key, _)| key.trim());
        // `-Jdevice=` and `-ldevice=` are written without a blank too.
        key.is_some_and(|key| {
            DEVICE_KEYS.iter().any(|known| key.trim_start_matches('-').ends_with(known))
        })
    });
    let starts = word.match_indices([',', '=']).map(|(at, _)| at + 1);
    let tails = std::iter::once(0).chain(starts).map(|at| &word[at..]);
    keyed || tails.chain(word.split([',', '='])).any(names_device)
}

fn names_device(piece: &str) -> bool {
    let is_device = |path: &str| {
        // Programs run in the root directory.
        !path.is_empty()
            && std::fs::metadata(Path::new("/").join(path))
                .is_ok_and(|found| found.file_type().is_block_device())
    };
    let from_slash = piece.find('/').map_or("", |at| &piece[at..]);
    let normal = from_slash.replace("/./", "/").replace("//", "/");
    normal.starts_with("/dev/") || is_device(from_slash) || is_device(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem;

    fn ask(filesystem: &str, mkfs: &[&str], mount: &str) -> Result<(), String> {
        let mkfs: Vec<String> = mkfs.iter().map(|word| (*word).to_owned()).collect();
        check(filesystem::by_name(filesystem).unwrap(), &mkfs, mount)
    }

    #[test]
    fn arguments_that_lead_to_devices_are_refused() {
        for (filesystem, mkfs, mount) in [
            ("btrfs", &["/dev/sdb"][..], ""),
            ("btrfs", &["/./dev/sdb"], ""),
            ("btrfs", &["--rootdir", "/dev/sdb"], ""),
            ("ext4", &["-Jdevice=/dev/sdb"], ""),
            ("ext4", &["-J", "device=UUID=1234"], ""),
            ("ext4", &["-J", "size=4,device=LABEL=x"], ""),
            ("xfs", &["-l", "size=64m,logdev=sdb"], ""),
            ("xfs", &["-d", "name=x"], ""),
            ("xfs", &["-r", "rtdev=x"], ""),
            ("xfs", &["-p", "/dev/sdb"], ""),
            ("ext4", &[], "noatime,logdev=/dev/sdb"),
            ("btrfs", &[], "device=/dev/sdb"),
            ("ext4", &[], "journal_dev=0x0801"),
        ] {
            let error = ask(filesystem, mkfs, mount).unwrap_err();
            assert!(error.contains("leads to a device"), "{mkfs:?} {mount}: {error}");
        }
    }

    #[test]
    fn what_mkfs_would_take_for_a_device_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("precious.img");
        std::fs::write(&file, "x").unwrap();
        let file = file.to_str().unwrap();
        for definition in filesystem::ALL {
            let name = definition.info.name;
            let options = &definition.mkfs_options;
            let flag = if options.flags.contains(&"-q") { "-q" } else { options.flags[0] };
            let label = if options.valued.contains(&"-L") { "-L" } else { options.valued[0] };
            for words in [&[file][..], &[flag, file], &[label, "x", "tmp"], &["100"], &["-"]] {
                let error = ask(name, words, "").unwrap_err();
                assert!(error.contains("is no option"), "{name} {words:?}: {error}");
            }
            for (words, why) in [
                (&[flag, "--", file][..], "is no option"),
                (&[label], "takes a value"),
                (&["-@"], "none of"),
                (&["--labe=x"], "none of"),
                (&["-é"], "none of"),
            ] {
                let error = ask(name, words, "").unwrap_err();
                assert!(error.contains(why), "{name} {words:?}: {error}");
            }
            for (option, why) in options.refused {
                let error = ask(name, &[option], "").unwrap_err();
                assert!(error.contains(why), "{name} {option}: {error}");
            }
        }
        let error = ask("btrfs", &["--label=", file], "").unwrap_err();
        assert!(error.contains("is no option"), "an empty value is one: {error}");
        for (filesystem, words) in [
            ("ext4", &["-z", file][..]),
            ("ext4", &["-qz", file]),
            ("ext2", &["-z/tmp/undo"]),
            ("ext4", &["-n"]),
            ("ext4", &["-qn"]),
            ("ext4", &["-S"]),
            ("ext4", &["-t", "ext2"]),
            ("ext4", &["-O", "journal_dev"]),
            ("ext4", &["-E", file]),
            ("xfs", &["-N"]),
            ("xfs", &["-d", "file"]),
            ("xfs", &["-d", "agcount=1,file=1"]),
            ("btrfs", &["-O", "list-all"]),
            ("btrfs", &["--data=/x"]),
            ("btrfs", &["-d", file]),
        ] {
            let error = ask(filesystem, words, "").unwrap_err();
            assert!(error.contains("refused"), "{filesystem} {words:?}: {error}");
        }
    }

    #[test]
    fn options_with_their_values_are_accepted() {
        for (filesystem, mkfs, mount) in [
            ("ext4", &["-O", "^has_journal"][..], "noatime,data=writeback"),
            ("ext4", &["-m", "0", "-I256", "-E", "lazy_itable_init=0,root_owner=0:0"], ""),
            ("ext3", &["-qFL", "tmp", "-M", "/mnt", "-d", "/usr/share"], ""),
            ("ext4", &["-J", "size=64", "-b", "-1024"], ""),
            ("xfs", &["-d", "agcount=1", "-lsize=128m", "-m", "crc=1,reflink=0"], "logbsize=256k"),
            ("xfs", &["-c", "options=/no/such/file", "-p", "/etc/hostname", "-K"], ""),
            ("btrfs", &["-n", "16k", "--csum=xxhash", "--data", "single"], "compress=zstd:3"),
            ("btrfs", &["--rootdir", "/usr/share", "-M", "-Lx"], "subvol=/a"),
            ("btrfs", &[], "rw,errors=continue"),
        ] {
            assert_eq!(ask(filesystem, mkfs, mount), Ok(()), "{filesystem} {mkfs:?} {mount}");
        }
    }

    #[test]
    fn a_file_of_options_is_looked_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("options");
        let word = format!("options={}", path.display());
        for (text, accepted) in [
            ("# logdev=/dev/sdb\n[block]\nsize = 4k\n", true),
            ("[log]\n logdev = /dev/sdb\n", false),
            ("[data]\nname=x\n", false),
            ("[data]\nfile=1\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ask("xfs", &["-c", &word], "").is_ok(), accepted, "{text}");
        }
    }

    #[test]
    fn a_target_is_writable() {
        for mount in ["ro", "noatime,ro", " ro ,norecovery"] {
            let error = ask("xfs", &[], mount).unwrap_err();
            assert_eq!(error, "a target must be writable: leave out ro");
        }
    }

    #[test]
    fn a_device_behind_a_name_with_commas_is_seen() {
        let Some(device) = crate::devices::list().ok().and_then(|list| list.into_iter().next())
        else {
            println!("skipped: there is no block device");
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        for name in ["a,b", "a=b", "a=,/b,", "plain"].map(|name| name.replace('/', "_")) {
            let link = directory.path().join(name);
            std::os::unix::fs::symlink(&device.path, &link).unwrap();
            let link = link.to_str().unwrap();
            for word in [link.to_owned(), format!("x={link}"), format!("a,b={link}")] {
                assert!(leads_to_device(&word), "{word}");
            }
            assert!(ask("btrfs", &[link], "").unwrap_err().contains("leads to a device"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(words in proptest::collection::vec("(-|--|é|[a-zA-Z]|[,=/.]){0,8}", 0..4)) {
            let text = words.join(",");
            for definition in filesystem::ALL {
                let _ = check(definition, &words, &text);
            }
        }
    }
}
