//! The modules that a driver needs, in the order in which they must be loaded, read from the modules
//! themselves: neither depmod nor modprobe is needed, so that a kernel which was only unpacked serves as
//! well. Loading them is left to [`crate::inside`].

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Result, elf, read};

/// No module is larger, in bytes.
const LIMIT_BYTES: u64 = 256 << 20;
/// Where modules lie that the kernel did not come with, in a release's directory; they count more than its own, and
/// the last most. Source: depmod.d(5), `search`, and where DKMS and distributions put them.
const ADDED: [&str; 2] = ["extra", "updates"];
/// Modules that need each other deeper than this are a circle.
const DEPTH: usize = 32;

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    /// By name, with `_` for `-`.
    files: BTreeMap<String, PathBuf>,
    /// Names of those that are built into the kernel.
    builtin: Vec<String>,
    /// Modules of the kernel's library of algorithms by alias; read at the first need.
    algorithms: OnceCell<BTreeMap<String, String>>,
}

/// A module to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// Its name, with `_` for `-`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

impl Modules {
    /// Looks at the directory of a release, such as `/lib/modules/6.1.0-18-amd64`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(directory: &Path) -> Result<Modules> {
        let mut files = BTreeMap::new();
        add_files(&directory.join("kernel"), &mut files)?;
        for added in ADDED.iter().map(|name| directory.join(name)).filter(|path| path.is_dir()) {
            add_files(&added, &mut files)?;
        }
        let builtin = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Modules { files, builtin, algorithms: OnceCell::new() })
    }

    /// The first of `drivers` that this kernel has; the modules that must be loaded for it, in order,
    /// none where it is built in.
    ///
    /// # Errors
    /// It has none of them; a module that one of them needs is missing or damaged.
    pub fn of_driver(&self, drivers: &[&str]) -> Result<Vec<Module>> {
        for driver in drivers {
            let name = driver.replace('-', "_");
            if self.builtin.contains(&name) {
                return Ok(Vec::new());
            }
            if self.files.contains_key(&name) {
                let mut order = Vec::new();
                self.add(&name, &mut order, DEPTH)?;
                return Ok(order);
            }
        }
        Err(format!("it has no {}", drivers.last().unwrap_or(&"such module")))
    }

    /// Adds what `name` depends on and what it wishes to be loaded before it, then itself.
    fn add(&self, name: &str, order: &mut Vec<Module>, depth: usize) -> Result<()> {
        if order.iter().any(|module| module.name == name)
            || self.builtin.iter().any(|it| it == name)
        {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| format!("its module {name} is missing"))?;
        let depth = depth.checked_sub(1).ok_or_else(|| format!("module {name} needs itself"))?;
        let info = elf::module_info(&contents(path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let values = |wanted: &'static str| {
            info.iter().filter(move |(field, _)| field == wanted).map(|(_, value)| value.as_str())
        };
        for needed in values("depends").flat_map(|value| value.split(',')) {
            if !needed.is_empty() {
                self.add(&needed.replace('-', "_"), order, depth)?;
            }
        }
        for wish in values("softdep").filter_map(|value| value.strip_prefix("pre:")) {
            let wish = wish.split(" post:").next().unwrap_or_default();
            for word in wish.split_whitespace() {
                // A wish that this kernel cannot fulfil is none of ours: modprobe goes on too.
                if let Some(name) = self.wished(word) {
                    self.add(&name, order, depth)?;
                }
            }
        }
        if !order.iter().any(|module| module.name == name) {
            order.push(Module { name: name.to_owned(), path: path.clone() });
        }
        Ok(())
    }

    /// The module that a wish names: mostly an algorithm by its alias (`crypto-crc32c`), which several
    /// modules may have; a module of the algorithm's very name may be something else.
    fn wished(&self, word: &str) -> Option<String> {
        let algorithms = self.algorithms.get_or_init(|| self.algorithms());
        if let Some(name) = algorithms.get(word) {
            return Some(name.clone());
        }
        let name = word.replace('-', "_");
        (self.files.contains_key(&name) && !self.builtin.contains(&name)).then_some(name)
    }

    /// Aliases of the algorithms that run on every processor; of several, that of the generic module.
    fn algorithms(&self) -> BTreeMap<String, String> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let is_of_library =
            |path: &Path| path.components().any(|part| part.as_os_str() == "crypto");
        let is_of_processor = |path: &Path| path.components().any(|it| it.as_os_str() == "arch");
        for (name, path) in &self.files {
            if !is_of_library(path) || is_of_processor(path) {
                continue;
            }
            let info = contents(path).and_then(|data| elf::module_info(&data)).unwrap_or_default();
            for (_, alias) in info.iter().filter(|(field, _)| field == "alias") {
                if name.ends_with("generic") || !found.contains_key(alias) {
                    found.insert(alias.clone(), name.clone());
                }
            }
        }
        found
    }
}

/// Adds the modules below a directory, in place of others of their names.
fn add_files(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("read {}: {error}", directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if let Some(name) = module_name(&path) {
                files.insert(name, path);
            }
        }
    }
    Ok(())
}

/// `crc32c_generic` of `…/crc32c-generic.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"]
        .into_iter()
        .find_map(|ending| name.strip_suffix(ending))?;
    Some(stem.replace('-', "_"))
}

/// What ends a module with a signature.
const SIGNED: &[u8] = b"~Module signature appended~\n";
/// What lies before that: the kind of the signature, and in the last four bytes its length (`struct module_signature`
/// of the kernel).
const SIGNATURE_INFO_BYTES: usize = 12;

/// A module without its signature, decompressed. Checking the signatures of ext4 and what it needs is a third of
/// all instructions of an emulated boot. A kernel that takes none without (`CONFIG_MODULE_SIG_FORCE`, which those of
/// distributions do not have) refuses it.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn contents(path: &Path) -> Result<Vec<u8>> {
    let mut module = decompressed(path)?;
    let kept = unsigned_bytes(&module);
    module.truncate(kept);
    Ok(module)
}

/// How many bytes of a module lie before its signature.
fn unsigned_bytes(module: &[u8]) -> usize {
    let signature = || {
        let info = module.strip_suffix(SIGNED)?;
        let (rest, info) = info.split_at_checked(info.len().checked_sub(SIGNATURE_INFO_BYTES)?)?;
        let bytes = u32::from_be_bytes(*info.last_chunk()?);
        rest.len().checked_sub(usize::try_from(bytes).ok()?)
    };
    signature().unwrap_or(module.len())
}

fn decompressed(path: &Path) -> Result<Vec<u8>> {
    let stored = read(path)?;
    let mut out = Vec::new();
    let stream = stored.as_slice();
    let read = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(stream).take(LIMIT_BYTES).read_to_end(&mut out),
        Some("zst") => zstd::Decoder::new(stream)
            .and_then(|stream| stream.take(LIMIT_BYTES).read_to_end(&mut out)),
        Some("gz") => flate2::read::GzDecoder::new(stream).take(LIMIT_BYTES).read_to_end(&mut out),
        _ => return Ok(stored),
    };
    read.map_err(|error| format!("decompress {}: {error}", path.display()))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    /// A module with nothing but a description.
    fn module(directory: &Path, place: &str, info: &str) {
        let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let segment = file.segment_name(StandardSegment::Data).to_vec();
        let section = file.add_section(segment, b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        file.append_section_data(section, info.replace('|', "\0").as_bytes(), 1);
        let mut bytes = file.write().unwrap();
        if place.ends_with("zst") {
            bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        }
        let path = directory.join("kernel").join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn signatures_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.ko");
        let of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            contents(&path).unwrap()
        };
        let signed = |length: u32| {
            let info = [&[0, 0, 2, 0, 0, 0, 0, 0][..], &length.to_be_bytes(), SIGNED].concat();
            [&b"module and signature"[..], &info].concat()
        };
        assert_eq!(of(&signed(14)), b"module");
        // Not what the kernel would take for one.
        for whole in [signed(1000), SIGNED.to_vec(), b"module".to_vec(), Vec::new()] {
            assert_eq!(of(&whole), whole);
        }
    }

    fn names(modules: &Modules, drivers: &[&str]) -> Vec<String> {
        modules.of_driver(drivers).unwrap().into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn the_order_follows_from_the_modules() {
        let directory = tempfile::tempdir().unwrap();
        let of = |place: &str, info: &str| module(directory.path(), place, info);
        of("fs/ext4.ko.zst", "depends=jbd2,mbcache|softdep=pre: crc32c|alias=fs-ext4");
        of("fs/jbd2.ko", "depends=built-in");
        of("fs/mbcache.ko", "depends=");
        of("lib/crc32c.ko", "depends=");
        of("arch/x86/crypto/crc32c-intel.ko", "alias=crc32c");
        of("crypto/crc32c_generic.ko", "alias=crc32c|alias=crypto-crc32c");
        of("crypto/crc32c_alternative.ko", "alias=crc32c");
        of("fs/broken.ko", "depends=nowhere");
        of("fs/circle.ko", "depends=circle2");
        of("fs/circle2.ko", "depends=circle");
        of("../updates/dkms/pool.ko", "depends=jbd2");
        of("../updates/fs/mbcache.ko", "depends=");
        of("fs/wishful.ko", "softdep=pre: no-such post: mbcache");
        fs::write(directory.path().join("modules.builtin"), "kernel/x/built-in.ko\n").unwrap();
        let modules = Modules::of(directory.path()).unwrap();
        assert_eq!(
            names(&modules, &["ext3", "ext4"]),
            ["jbd2", "mbcache", "crc32c_generic", "ext4"]
        );
        assert_eq!(names(&modules, &["built_in"]), Vec::<String>::new());
        assert_eq!(names(&modules, &["wishful"]), ["wishful"]);
        assert_eq!(names(&modules, &["pool"]), ["jbd2", "pool"]);
        assert!(modules.files["mbcache"].ends_with("updates/fs/mbcache.ko"), "an update counts");
        for (driver, words) in
            [("reiserfs", "has no reiserfs"), ("broken", "nowhere"), ("circle", "needs itself")]
        {
            let error = modules.of_driver(&[driver]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(Modules::of(Path::new("/no/such")).is_err());
    }

    #[test]
    fn names_are_those_that_the_kernel_uses() {
        for (path, name) in [
            ("/x/crc32c-generic.ko.xz", Some("crc32c_generic")),
            ("ext4.ko", Some("ext4")),
            ("modules.dep", None),
        ] {
            assert_eq!(module_name(Path::new(path)).as_deref(), name);
        }
    }
}
