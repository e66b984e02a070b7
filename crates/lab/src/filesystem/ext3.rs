//! ext3: ext2 with a journal, inside or on another device. Since Linux 4.3 the ext4 driver serves it.

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, ext_family};
use crate::tools::ToolDef;

const MKFS: &str = "mkfs.ext3";
const TOOLS: &[ToolDef] =
    &[ext_family::mkfs_tool(MKFS), ext_family::E2FSCK, ext_family::DUMPE2FS, ext_family::MKE2FS];

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "ext3",
        summary: "ext2 with a journal: block maps, directory indexes, ordered data",
        external_journal: Some("journal"),
    },
    tools: TOOLS,
    min_size_bytes: 16 << 20,
    min_journal_bytes: 8 << 20,
    drivers: &["ext3", "ext4"],
    mkfs: |members, user| ext_family::mkfs(MKFS, members, user),
    mkfs_options: ext_family::MKFS_OPTIONS,
    fsck: ext_family::FSCK,
    read_back: ext_family::read_back,
    kernel_threads: ext_family::kernel_threads,
    unrest: ext_family::unrest,
    ..FilesystemDef::USUAL
};
