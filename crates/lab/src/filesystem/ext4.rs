//! ext4: extents, delayed allocation, journal inside or on another device.

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, ext_family};
use crate::tools::ToolDef;

const MKFS: &str = "mkfs.ext4";
const TOOLS: &[ToolDef] =
    &[ext_family::mkfs_tool(MKFS), ext_family::E2FSCK, ext_family::DUMPE2FS, ext_family::MKE2FS];

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "ext4",
        summary: "Extents, delayed allocation, checksummed metadata; the default of many distributions",
        external_journal: Some("journal"),
    },
    tools: TOOLS,
    min_size_bytes: 16 << 20,
    min_journal_bytes: 8 << 20,
    drivers: &["ext4"],
    mkfs: |members, user| ext_family::mkfs(MKFS, members, user),
    mkfs_options: ext_family::MKFS_OPTIONS,
    fsck: ext_family::FSCK,
    read_back: ext_family::read_back,
    kernel_threads: ext_family::kernel_threads,
    unrest: ext_family::unrest,
    ..FilesystemDef::USUAL
};
