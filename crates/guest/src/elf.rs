//! What an ELF file says of itself: the libraries that it needs and where it looks for them, a module's
//! description of itself, the note by which a kernel can be booted at once. Where files lie is left to
//! others.

use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_INTERP, PT_LOAD, PT_NOTE,
};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _};

use crate::Result;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// What a program or a library is linked with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// The program that loads its libraries, such as `/lib64/ld-linux-x86-64.so.2`.
    pub interpreter: Option<String>,
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Directories in which it looks first; `$ORIGIN` is its own.
    pub search: Vec<String>,
    /// The machine that it is for, as its header has it.
    pub machine: u16,
}

fn no_elf(error: object::Error) -> String {
    format!("it is no ELF file of 64 bits, or is damaged: {error}")
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads what a program or a library is linked with. A static program needs nothing.
///
/// # Errors
/// It is no ELF file of 64 bits, or is damaged.
pub fn links(data: &[u8]) -> Result<Links> {
    let header = Header::parse(data).map_err(no_elf)?;
    let endian = header.endian().map_err(no_elf)?;
    let programs = header.program_headers(endian, data).map_err(no_elf)?;
    let mut links = Links { machine: header.e_machine(endian), ..Links::default() };
    let mut entries = Vec::new();
    for program in programs {
        if program.p_type(endian) == PT_INTERP {
            let found = program.data(endian, data).unwrap_or_default();
            links.interpreter = Some(text(found));
        }
        if let Some(found) = program.dynamic(endian, data).map_err(no_elf)? {
            entries =
                found.iter().map(|entry| (entry.d_tag(endian), entry.d_val(endian))).collect();
        }
    }
    let value = |tag: u32| entries.iter().find(|(found, _)| *found == u64::from(tag));
    let (Some((_, address)), Some((_, size))) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        return Ok(links);
    };
    let strings = programs.iter().filter(|program| program.p_type(endian) == PT_LOAD);
    let strings = strings.filter_map(|it| it.data_range(endian, data, *address, *size).ok()?);
    let strings: &[u8] = strings.into_iter().next().unwrap_or_default();
    for (tag, value) in entries {
        let Some(name) = usize::try_from(value).ok().and_then(|at| strings.get(at..)) else {
            continue;
        };
        if tag == u64::from(DT_NEEDED) {
            links.needed.push(text(name));
        } else if tag == u64::from(DT_RPATH) || tag == u64::from(DT_RUNPATH) {
            let directories = text(name);
            links.search.extend(directories.split(':').map(str::to_owned));
        }
    }
    Ok(links)
}

/// The fields of a module's description in their order: `depends`, `softdep`, `alias`, …
///
/// # Errors
/// It is no module, or is damaged.
pub fn module_info(data: &[u8]) -> Result<Vec<(String, String)>> {
    let file = object::read::elf::ElfFile64::<LittleEndian>::parse(data).map_err(no_elf)?;
    let section = file.section_by_name(".modinfo").ok_or("it is no module of the kernel")?;
    let bytes = section.data().map_err(no_elf)?;
    let fields = bytes.split(|byte| *byte == 0).filter_map(|field| {
        let (name, value) = std::str::from_utf8(field).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Ok(fields.collect())
}

/// Whether a kernel has the entry (PVH) through which QEMU can boot its ELF.
#[must_use]
pub fn has_pvh_entry(data: &[u8]) -> bool {
    /// `XEN_ELFNOTE_PHYS32_ENTRY`.
    const ENTRY: u32 = 18;
    let Ok(header) = Header::parse(data) else { return false };
    let programs = header.program_headers(LE, data).unwrap_or_default();
    let notes = programs.iter().filter(|program| program.p_type(LE) == PT_NOTE);
    notes.into_iter().any(|program| {
        let Ok(Some(mut notes)) = program.notes(LE, data) else { return false };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"Xen" && note.n_type(LE) == ENTRY {
                return true;
            }
        }
        false
    })
}

/// The first bytes of a program, up to the end of what is loaded: what follows serves debuggers. The
/// whole where it cannot be told.
#[must_use]
pub fn loaded_part(mut data: Vec<u8>) -> Vec<u8> {
    /// Where the header keeps the place, the number and the names of the sections.
    const SECTION_OFFSET: std::ops::Range<usize> = 40..48;
    const SECTION_COUNTS: std::ops::Range<usize> = 60..64;
    let Ok(header) = Header::parse(data.as_slice()) else { return data };
    let programs = header.program_headers(LE, data.as_slice()).unwrap_or_default();
    let ends = programs.iter().map(|it| it.p_offset(LE).saturating_add(it.p_filesz(LE)));
    let end = ends.max().and_then(|end| usize::try_from(end).ok());
    if let Some(end) = end.filter(|end| (64..data.len()).contains(end)) {
        data.truncate(end);
        data[SECTION_OFFSET].fill(0);
        data[SECTION_COUNTS].fill(0);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_tells_its_libraries() {
        let links = links(&own()).unwrap();
        assert!(links.needed.iter().any(|name| name.starts_with("libc.so")), "{links:?}");
        assert!(links.interpreter.unwrap().starts_with("/lib"));
        assert!(!has_pvh_entry(&own()));
        assert!(module_info(&own()).unwrap_err().contains("no module"));
    }

    #[test]
    fn what_is_loaded_is_kept_and_runs() {
        use std::os::unix::fs::PermissionsExt;
        let whole = own();
        let size_bytes = whole.len();
        let kept = loaded_part(whole);
        assert!(kept.len() < size_bytes);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, &kept).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let output = std::process::Command::new(&path).arg("--list").output().unwrap();
        assert!(output.status.success());
        assert_eq!(loaded_part(b"text".to_vec()), b"text");
    }

    #[test]
    fn damage_is_told() {
        for cut in [0, 1, 16, 63, 64, 100, 1000] {
            let bytes = &own()[..cut];
            let _ = (links(bytes), module_info(bytes), has_pvh_entry(bytes));
        }
        assert!(links(b"#!/bin/sh\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(patches in proptest::collection::vec((0usize..2048, proptest::prelude::any::<u8>()), 1..30)) {
            let mut bytes = own();
            bytes.truncate(1 << 16);
            for (at, byte) in patches {
                bytes[at] = byte;
            }
            let _ = (links(&bytes), module_info(&bytes), has_pvh_entry(&bytes));
            let _ = loaded_part(bytes);
        }
    }
}
