//! The ELF inside a kernel image of the x86 boot protocol. An emulated processor takes seconds to
//! decompress it, so that it is done here, once.
//!
//! Source: the kernel's Documentation/arch/x86/boot.rst (setup header, `payload_offset` from protocol
//! 2.08 on).

use std::io::Read;

use crate::Result;

/// No kernel is larger than this, in bytes.
const LIMIT_BYTES: u64 = 1 << 30;
/// Where the setup header keeps its fields.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const VERSION_TEXT: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Whether `bytes` begin as a kernel image does.
#[must_use]
pub fn is_kernel_image(bytes: &[u8]) -> bool {
    bytes.get(MAGIC..MAGIC + 4) == Some(b"HdrS".as_slice())
}

/// The release that the image states, such as `6.1.0-18-amd64`.
#[must_use]
pub fn release(image: &[u8]) -> Option<String> {
    let at = usize::from(u16_at(image, VERSION_TEXT)?).checked_add(0x200)?;
    let text = image.get(at..)?;
    let end = text.iter().take(256).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Decompresses the ELF out of an image.
///
/// # Errors
/// A sentence: it is no such image, is damaged, or is compressed in a way that is not known here.
pub fn elf_of(image: &[u8]) -> Result<Vec<u8>> {
    if !is_kernel_image(image) {
        return Err("it is no kernel image of x86 (a vmlinuz)".to_owned());
    }
    let damaged = || "the kernel image is damaged".to_owned();
    if u16_at(image, PROTOCOL).ok_or_else(damaged)? < 0x208 {
        return Err("the kernel is too old: its image does not say where its code lies".to_owned());
    }
    // 0 stands for 4.
    let sectors = usize::from(*image.get(SETUP_SECTORS).ok_or_else(damaged)?);
    let setup_bytes = (if sectors == 0 { 4 } else { sectors } + 1) * 512;
    let offset = u32_at(image, PAYLOAD_OFFSET).ok_or_else(damaged)? as usize;
    let length = u32_at(image, PAYLOAD_LENGTH).ok_or_else(damaged)? as usize;
    let begin = setup_bytes.checked_add(offset).ok_or_else(damaged)?;
    let end = begin.checked_add(length).ok_or_else(damaged)?;
    let elf = decompress(image.get(begin..end).ok_or_else(damaged)?)?;
    if !elf.starts_with(b"\x7fELF") {
        return Err("the kernel image holds no ELF".to_owned());
    }
    Ok(elf)
}

/// Decompresses by the magic number; what follows the compressed data is ignored.
fn decompress(payload: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            liblzma::read::XzDecoder::new(payload).take(LIMIT_BYTES).read_to_end(&mut out)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::Decoder::new(payload)
            .and_then(|stream| stream.single_frame().take(LIMIT_BYTES).read_to_end(&mut out)),
        [0x1f, 0x8b, ..] => {
            flate2::read::GzDecoder::new(payload).take(LIMIT_BYTES).read_to_end(&mut out)
        }
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => return lz4_blocks(blocks),
        [0x7f, b'E', b'L', b'F', ..] => return Ok(payload.to_vec()),
        _ => {
            return Err(
                "the kernel is compressed neither by xz, zstd, gzip nor lz4: choose another one \
                 with --kernel"
                    .to_owned(),
            );
        }
    };
    read.map_err(|error| format!("decompress the kernel: {error}"))?;
    Ok(out)
}

/// The old form of LZ4 that kernels use: blocks of up to 8 MiB, each after its compressed size. The size
/// of the whole follows the last block.
fn lz4_blocks(mut rest: &[u8]) -> Result<Vec<u8>> {
    const BLOCK_BYTES: usize = 8 << 20;
    let mut out = Vec::new();
    while let Some(size) = u32_at(rest, 0) {
        let Some(block) = rest.get(4..4 + size as usize) else { break };
        rest = &rest[4 + size as usize..];
        let block = lz4_flex::block::decompress(block, BLOCK_BYTES)
            .map_err(|error| format!("decompress the kernel: {error}"))?;
        out.extend_from_slice(&block);
        if out.len() as u64 > LIMIT_BYTES {
            return Err("the kernel is too large to be one".to_owned());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x20fu16.to_le_bytes());
        image[VERSION_TEXT..VERSION_TEXT + 2].copy_from_slice(&0x180u16.to_le_bytes());
        image[0x380..0x38f].copy_from_slice(b"6.1.0-1 (x@y) #");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(&[0; 16]);
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn every_compression_gives_the_elf() {
        let mut elf = b"\x7fELF and a kernel ".repeat(100);
        elf.extend_from_slice(b"end");
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&elf).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&elf).unwrap();
        let block = lz4_flex::block::compress(&elf);
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        lz4.extend_from_slice(&u32::try_from(block.len()).unwrap().to_le_bytes());
        lz4.extend_from_slice(&block);
        let zstd = zstd::encode_all(elf.as_slice(), 1).unwrap();
        for mut payload in [xz.finish().unwrap(), gzip.finish().unwrap(), lz4, zstd, elf.clone()] {
            let is_plain = payload == elf;
            if !is_plain {
                // The size of the whole, as kernels append it.
                payload.extend_from_slice(&u32::try_from(elf.len()).unwrap().to_le_bytes());
            }
            assert_eq!(elf_of(&image(&payload)).unwrap(), elf);
        }
        assert_eq!(release(&image(b"")).as_deref(), Some("6.1.0-1"));
    }

    #[test]
    fn what_is_no_kernel_is_told() {
        assert!(elf_of(b"").unwrap_err().contains("no kernel image"));
        assert!(elf_of(&image(b"BZh9")).unwrap_err().contains("neither"));
        assert!(elf_of(&image(&zstd::encode_all(&b"text"[..], 1).unwrap())).is_err());
        let mut cut = image(&[0; 100]);
        cut.truncate(1050);
        assert!(elf_of(&cut).unwrap_err().contains("damaged"));
    }

    proptest::proptest! {
        #[test]
        fn no_image_panics(patches in proptest::collection::vec((0usize..1300, proptest::prelude::any::<u8>()), 0..20)) {
            let mut bytes = image(&zstd::encode_all(&b"\x7fELF"[..], 1).unwrap());
            for (at, byte) in patches {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let _ = (elf_of(&bytes), release(&bytes));
        }
    }
}
