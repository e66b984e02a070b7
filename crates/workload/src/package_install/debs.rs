//! Real packages: found in a directory, copied without their maintainer scripts, installed by dpkg into
//! a root of their own and compared with the digests that they bring. The scripts are left out because
//! they would run as the user, on a root that lacks a shell; what is unpacked stays byte for byte the
//! same. What is timed is left to [`crate::catalog::package_install`].

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use fsdyno_sys::child::find_program;

use super::unpack::FsyncPolicy;
use crate::failure::{Unavailable, check_interrupt};
use crate::program::Program;

const MAGIC: &[u8; 8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;
/// More than this in one member of control files is no package.
const CONTROL_LIMIT_BYTES: u64 = 64 << 20;
const SCRIPTS: [&str; 5] = ["preinst", "postinst", "prerm", "postrm", "config"];
/// What dpkg says on the first bytes of a file that differs is told up to here.
const TOLD_LINES: usize = 3;

/// The packages in `directory`, sorted by name.
///
/// # Errors
/// The directory cannot be read, holds no package, or a file that is called so is none.
pub fn find(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let told = || format!("packages={}", directory.display());
    let entries = std::fs::read_dir(directory).with_context(told)?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(told)?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let mut magic = [0; 8];
            let read = File::open(&path).and_then(|mut file| file.read_exact(&mut magic));
            ensure!(read.is_ok() && magic == *MAGIC, "{} is no Debian package", path.display());
            found.push(path);
        }
    }
    ensure!(
        !found.is_empty(),
        "{}: there is no .deb file in it: give a directory with some",
        told()
    );
    found.sort_unstable();
    Ok(found)
}

/// A member of the archive that a package is.
struct Member {
    header: [u8; HEADER_BYTES],
    name: String,
    size_bytes: u64,
}

impl Member {
    /// The next member of `package`; `None` at its end.
    fn next(package: &mut impl Read) -> anyhow::Result<Option<Member>> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            match package.read(&mut header[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => bail!("it is cut short"),
                count => filled += count,
            }
        }
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]);
        let name = text(0..16).trim_end().trim_end_matches('/').to_owned();
        let size = text(48..58).trim().parse().ok().filter(|_| header.ends_with(b"`\n"));
        let size_bytes = size.context("a member has no size: it is damaged")?;
        Ok(Some(Member { header, name, size_bytes }))
    }

    /// Bytes up to the next member: sizes are rounded up to even ones.
    fn stored_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(self.size_bytes % 2)
    }

    /// The control files, decompressed; `None` for another member, which is left unread.
    fn control(&self, package: &mut impl Read) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(compression) = self.name.strip_prefix("control.tar") else { return Ok(None) };
        ensure!(self.size_bytes <= CONTROL_LIMIT_BYTES, "its control files are too large");
        let mut stored = Vec::new();
        package.take(self.stored_bytes()).read_to_end(&mut stored)?;
        stored.truncate(self.size_bytes as usize);
        let stored = stored.as_slice();
        let mut control = Vec::new();
        let decompressed: Box<dyn Read + '_> = match compression {
            "" => Box::new(stored),
            ".gz" => Box::new(flate2::read::MultiGzDecoder::new(stored)),
            ".xz" => Box::new(liblzma::read::XzDecoder::new_multi_decoder(stored)),
            ".zst" => Box::new(zstd::Decoder::new(stored)?),
            other => bail!("its control files are compressed as {other}, which is not known here"),
        };
        decompressed.take(CONTROL_LIMIT_BYTES).read_to_end(&mut control)?;
        Ok(Some(control))
    }
}

fn open(package: &Path) -> anyhow::Result<BufReader<File>> {
    let mut reader = BufReader::new(File::open(package)?);
    let mut magic = [0; 8];
    reader.read_exact(&mut magic)?;
    ensure!(magic == *MAGIC, "it is no Debian package");
    Ok(reader)
}

/// Copies `package` to `copy` without its maintainer scripts.
///
/// # Errors
/// It is damaged, or cannot be read or written; the path is named.
pub fn copy_without_scripts(package: &Path, copy: &Path) -> anyhow::Result<()> {
    let mut reader = open(package).with_context(|| format!("read {}", package.display()))?;
    let mut target =
        File::create_new(copy).with_context(|| format!("create {}", copy.display()))?;
    let mut write =
        |bytes: &[u8]| target.write_all(bytes).with_context(|| format!("write {}", copy.display()));
    write(MAGIC)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        check_interrupt()?;
        let member = Member::next(&mut reader);
        let member = member.with_context(|| format!("read {}", package.display()))?;
        let Some(member) = member else { return Ok(()) };
        let control = member.control(&mut reader);
        if let Some(control) = control.with_context(|| format!("read {}", package.display()))? {
            let control = strip(&control).with_context(|| format!("read {}", package.display()))?;
            let mut header = member.header;
            let fields = format!("{:<16}", "control.tar");
            header[..16].copy_from_slice(fields.as_bytes());
            header[48..58].copy_from_slice(format!("{:<10}", control.len()).as_bytes());
            write(&header)?;
            // A tar archive is a multiple of 512 bytes, an even number.
            write(&control)?;
            continue;
        }
        write(&member.header)?;
        let mut left = member.stored_bytes();
        while left > 0 {
            let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match reader
                .read(&mut buffer[..count])
                .with_context(|| package.display().to_string())?
            {
                // The padding of the last member may be left out.
                0 if left == 1 => break,
                0 => bail!("read {}: it is cut short", package.display()),
                count => {
                    write(&buffer[..count])?;
                    left -= count as u64;
                }
            }
        }
    }
}

/// Control files without the maintainer scripts.
fn strip(control: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Archive::new(control);
    let mut builder = tar::Builder::new(Vec::new());
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path_bytes().into_owned();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
        if SCRIPTS.iter().any(|script| script.as_bytes() == name) {
            continue;
        }
        let header = entry.header().clone();
        builder.append(&header, entry)?;
    }
    builder.into_inner()
}

/// Upper estimate of what `package` takes once it is installed, in bytes, by its own words; `None`
/// where it does not tell.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn installed_bytes(package: &Path) -> anyhow::Result<Option<u64>> {
    let told = || format!("read {}", package.display());
    let mut reader = open(package).with_context(told)?;
    while let Some(member) = Member::next(&mut reader).with_context(told)? {
        if let Some(control) = member.control(&mut reader).with_context(told)? {
            return stated_bytes(&control).with_context(told);
        }
        io::copy(&mut reader.by_ref().take(member.stored_bytes()), &mut io::sink())
            .with_context(told)?;
    }
    Ok(None)
}

fn stated_bytes(control: &[u8]) -> anyhow::Result<Option<u64>> {
    let mut archive = tar::Archive::new(control);
    let (mut stated, mut files) = (None, 0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path_bytes().into_owned();
        let mut text = String::new();
        if path.ends_with(b"control") {
            entry.read_to_string(&mut text)?;
            let field = text.lines().find_map(|line| line.strip_prefix("Installed-Size:"));
            stated = field.and_then(|kib| kib.trim().parse::<u64>().ok());
        } else if path.ends_with(b"md5sums") {
            entry.read_to_string(&mut text)?;
            files = text.lines().count() as u64;
        }
    }
    // It is stated in KiB, each file rounded up to one; blocks are larger.
    Ok(stated.map(|kib| kib.saturating_mul(1024).saturating_add(files * 3072)))
}

/// dpkg, told to work below `root`.
///
/// # Errors
/// [`Unavailable`] where it is not installed.
pub fn dpkg(root: &Path) -> anyhow::Result<Program> {
    if find_program("dpkg").is_none() {
        let reason = "dpkg is not installed, which packages=DIRECTORY needs: install it, or leave \
                      packages=model";
        return Err(Unavailable(reason.to_owned()).into());
    }
    // What the machine's own configuration says otherwise is overruled.
    let program = Program::new(["dpkg"])
        .arg(format!("--root={}", root.display()))
        .arg("--log=/dev/null")
        .arg("--path-include=/*")
        .env("LC_ALL", "C.UTF-8")
        .env("DEBIAN_FRONTEND", "noninteractive");
    Ok(program)
}

/// The same, about to install all packages in `directory`.
///
/// # Errors
/// As [`dpkg`].
pub fn installation(root: &Path, directory: &Path, policy: FsyncPolicy) -> anyhow::Result<Program> {
    let unsafe_io = match policy {
        FsyncPolicy::Database => "--force-unsafe-io",
        _ => "--refuse-unsafe-io",
    };
    let forced =
        "--force-depends,conflicts,breaks,overwrite,architecture,confnew,bad-path,not-root";
    let program = dpkg(root)?.arg(unsafe_io).arg(forced);
    Ok(program.arg("--install").arg("--recursive").arg(directory.to_string_lossy()))
}

/// Compares what is installed below `root` with the digests of the packages.
///
/// # Errors
/// A file differs or is gone; or dpkg fails.
pub fn verify(root: &Path) -> anyhow::Result<()> {
    let finished = dpkg(root)?.arg("--verify").run()?;
    let mut lines = finished.stdout.lines().filter(|line| !line.trim().is_empty());
    let told: Vec<&str> = lines.by_ref().take(TOLD_LINES).map(str::trim).collect();
    ensure!(
        told.is_empty(),
        "installed files differ from their packages, by `dpkg --verify`: {} (and {} more); check the \
         device and the kernel log",
        told.join("; "),
        lines.count()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package with a script and one data member, made by hand.
    fn package(control_name: &str, compress: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let files = [
            ("./control", "Package: a\nInstalled-Size: 10\n"),
            ("./md5sums", "0 x\n0 y\n"),
            ("./preinst", "#!/bin/sh\nrm -rf /\n"),
        ];
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o755);
            builder.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let control = compress(&builder.into_inner().unwrap());
        let mut package = MAGIC.to_vec();
        let members: [(&str, &[u8]); 3] =
            [("debian-binary", b"2.0\n"), (control_name, &control), ("data.tar", b"odd")];
        for (name, bytes) in members {
            let header =
                format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 0, bytes.len());
            package.extend_from_slice(header.as_bytes());
            package.extend_from_slice(bytes);
            package.resize(package.len().next_multiple_of(2), b'\n');
        }
        package
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        liblzma::read::XzEncoder::new(bytes, 1).read_to_end(&mut out).unwrap();
        out
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let level = flate2::Compression::fast();
        flate2::read::GzEncoder::new(bytes, level).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn scripts_are_left_out_and_the_rest_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        type Compress = fn(&[u8]) -> Vec<u8>;
        let forms: [(&str, Compress); 4] = [
            ("control.tar", <[u8]>::to_vec),
            ("control.tar.gz/", gzip),
            ("control.tar.xz", xz),
            ("control.tar.zst", |bytes| zstd::encode_all(bytes, 1).unwrap()),
        ];
        for (index, (name, compress)) in forms.into_iter().enumerate() {
            let source = directory.path().join(format!("{index}.deb"));
            std::fs::write(&source, package(name, compress)).unwrap();
            assert_eq!(installed_bytes(&source).unwrap(), Some(10 * 1024 + 2 * 3072));
            let copy = directory.path().join(format!("{index}.copy"));
            copy_without_scripts(&source, &copy).unwrap();
            let bytes = std::fs::read(&copy).unwrap();
            assert!(bytes.ends_with(b"`\nodd\n"));
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("rm -rf") && text.contains("Installed-Size: 10"));
            assert_eq!(installed_bytes(&copy).unwrap(), Some(10 * 1024 + 2 * 3072));
        }
        assert_eq!(find(directory.path()).unwrap().len(), 4);
    }

    #[test]
    fn damaged_packages_are_errors_that_name_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.deb");
        let copy = directory.path().join("copy");
        assert!(find(directory.path()).unwrap_err().to_string().contains("no .deb file"));
        assert!(find(&path).unwrap_err().to_string().contains("a.deb"));
        let whole = package("control.tar", <[u8]>::to_vec);
        for length in [0, 7, 30, 100, 300, 600, whole.len() - 3] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let _ = std::fs::remove_file(&copy);
            let error = copy_without_scripts(&path, &copy).unwrap_err();
            assert!(format!("{error:#}").contains("a.deb"), "{length}: {error:#}");
            let _ = installed_bytes(&path);
        }
        std::fs::write(&path, "no package at all").unwrap();
        assert!(find(directory.path()).unwrap_err().to_string().contains("is no Debian package"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("a.deb");
            let mut package = MAGIC.to_vec();
            package.extend(bytes);
            std::fs::write(&path, package).unwrap();
            let _ = installed_bytes(&path);
            let _ = copy_without_scripts(&path, &directory.path().join("copy"));
        }
    }
}
