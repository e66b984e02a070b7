//! ext2: no journal. Most kernels of today let the ext4 driver serve it.

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, ext_family};
use crate::tools::ToolDef;

const MKFS: &str = "mkfs.ext2";
const TOOLS: &[ToolDef] =
    &[ext_family::mkfs_tool(MKFS), ext_family::E2FSCK, ext_family::DUMPE2FS, ext_family::MKE2FS];

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "ext2",
        summary: "The classic without a journal: what a filesystem costs when nothing protects it",
        external_journal: None,
    },
    tools: TOOLS,
    drivers: &["ext2", "ext4"],
    mkfs: |members, user| ext_family::mkfs(MKFS, members, user),
    mkfs_options: ext_family::MKFS_OPTIONS,
    fsck: ext_family::FSCK,
    read_back: ext_family::read_back,
    kernel_threads: ext_family::kernel_threads,
    unrest: ext_family::unrest,
    ..FilesystemDef::USUAL
};
