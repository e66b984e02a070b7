//! The files in an RPM package: a lead, two headers and a compressed archive (cpio in its "newc" form). What
//! the headers say is not needed: how the archive is compressed, its first bytes tell.
//!
//! Source: "RPM V4 Package format" of rpm.org; the archive as in the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Read};

use crate::Result;

/// The first bytes of a package.
pub const MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
/// The first bytes of a header.
const HEADER_MAGIC: [u8; 3] = [0x8e, 0xad, 0xe8];
const LEAD_BYTES: usize = 96;
/// Bytes of a header before its index, and of an entry of the index.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
/// Bytes before the name of a file of the archive.
const FILE_HEADER_BYTES: usize = 110;
/// No path is longer.
const NAME_LIMIT_BYTES: u32 = 4096;
/// The bits of a mode that tell what a file is, and a plain one's.
const KIND_BITS: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;

/// Hands every plain file of the package `bytes` to `take`: its path and its contents, of which it may leave
/// as much as it likes.
///
/// # Errors
/// It is damaged, or compressed in a way that is not known here; what `take` says.
pub fn each_file(
    bytes: &[u8],
    take: &mut dyn FnMut(&str, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let payload = payload(bytes).ok_or("it is damaged: its headers end early")?;
    let stream: Box<dyn Read + '_> = match payload {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::Decoder::new(payload).map_err(|error| error.to_string())?)
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(liblzma::read::XzDecoder::new_multi_decoder(payload))
        }
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(payload)),
        [b'0', b'7', b'0', b'7', ..] => Box::new(payload),
        _ => return Err("it is compressed neither by zstd, xz nor gzip".to_owned()),
    };
    each_of_archive(stream, take)
}

/// What follows the headers: that of the signature ends at a multiple of 8 bytes.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let signature = header_bytes(bytes.get(LEAD_BYTES..)?)?;
    let second = LEAD_BYTES.checked_add(signature.checked_next_multiple_of(8)?)?;
    let header = header_bytes(bytes.get(second..)?)?;
    bytes.get(second.checked_add(header)?..)
}

/// How long the header is that begins here.
fn header_bytes(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    if !bytes.starts_with(&HEADER_MAGIC) {
        return None;
    }
    let (entries, store) = (number(8)?, number(12)?);
    HEADER_BYTES.checked_add(entries.checked_mul(ENTRY_BYTES)?)?.checked_add(store)
}

fn each_of_archive(
    mut stream: impl Read,
    take: &mut dyn FnMut(&str, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let damaged = |error: io::Error| format!("it is damaged: {error}");
    loop {
        let mut header = [0; FILE_HEADER_BYTES];
        stream.read_exact(&mut header).map_err(damaged)?;
        if !header.starts_with(b"070701") && !header.starts_with(b"070702") {
            return Err("its archive is of a form that is not known here".to_owned());
        }
        let field = |number: usize| {
            let digits = &header[6 + 8 * number..14 + 8 * number];
            let digits = std::str::from_utf8(digits).ok();
            let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            value.ok_or("it is damaged: a header of its archive holds no numbers")
        };
        let (mode, size, name_bytes) = (field(1)?, field(6)?, field(11)?);
        if name_bytes > NAME_LIMIT_BYTES {
            return Err("it is damaged: a name in its archive has no end".to_owned());
        }
        let mut name = vec![0; name_bytes as usize];
        stream.read_exact(&mut name).map_err(damaged)?;
        skip(&mut stream, padding(FILE_HEADER_BYTES as u64 + u64::from(name_bytes)))
            .map_err(damaged)?;
        let name = String::from_utf8_lossy(&name);
        let name = name.trim_end_matches('\0');
        if name == "TRAILER!!!" {
            return Ok(());
        }
        let mut contents = (&mut stream).take(u64::from(size));
        if mode & KIND_BITS == PLAIN {
            take(name, &mut contents)?;
        }
        let left = contents.limit();
        skip(&mut stream, left + padding(u64::from(size))).map_err(damaged)?;
    }
}

/// Everything in the archive begins at a multiple of four bytes.
fn padding(bytes: u64) -> u64 {
    bytes.next_multiple_of(4) - bytes
}

fn skip(stream: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut stream.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A package with `files`, each of which holds its own path.
    pub(crate) fn package(files: &[&str]) -> Vec<u8> {
        let mut archive = Vec::new();
        let mut add = |name: &str, mode: u32, contents: &[u8]| {
            let sizes = [contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
            archive.extend_from_slice(b"070701");
            for field in [1, mode, 0, 0, 1, 0] {
                archive.extend_from_slice(format!("{field:08x}").as_bytes());
            }
            for field in sizes {
                archive.extend_from_slice(format!("{field:08x}").as_bytes());
            }
            archive.extend_from_slice(name.as_bytes());
            archive.push(0);
            // The header is two bytes longer than a multiple of four.
            archive.resize((archive.len()).next_multiple_of(4), 0);
            archive.extend_from_slice(contents);
            archive.resize(archive.len().next_multiple_of(4), 0);
        };
        add("./lib", 0o040_755, b"");
        for name in files {
            add(name, 0o100_644, name.as_bytes());
        }
        add("TRAILER!!!", 0, b"");
        let mut out = MAGIC.to_vec();
        out.resize(LEAD_BYTES, 0);
        for store in [5, 4] {
            out.extend_from_slice(&[0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, store]);
            out.resize(out.len() + ENTRY_BYTES + usize::from(store), 7);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        // The second header is not padded: 16 + 16 + 4 bytes and a padding of 4 were written.
        out.truncate(out.len() - 4);
        out.extend_from_slice(&zstd::encode_all(archive.as_slice(), 1).unwrap());
        out
    }

    fn files(bytes: &[u8]) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        each_file(bytes, &mut |name, contents| {
            let mut text = String::new();
            contents.take(6).read_to_string(&mut text).map_err(|error| error.to_string())?;
            found.push((name.to_owned(), text));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn plain_files_are_handed_over() {
        let found = files(&package(&["./lib/a", "./lib/abc"])).unwrap();
        let expected = [("./lib/a", "./lib/"), ("./lib/abc", "./lib/")];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn damage_is_told() {
        let good = package(&["./a"]);
        for cut in [4, 96, 110, 130, good.len() - 9] {
            assert!(files(&good[..cut]).unwrap_err().contains("damaged"), "{cut}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_package_panics(patches in proptest::collection::vec((0usize..300, proptest::prelude::any::<u8>()), 0..20)) {
            let mut bytes = package(&["./lib/x"]);
            for (at, byte) in patches {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let _ = files(&bytes);
        }
    }
}
