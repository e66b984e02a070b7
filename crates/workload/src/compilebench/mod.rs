//! compilebench: the life of source trees, from the sequence of operations to their execution.
//!
//! | module | holds |
//! |---|---|
//! | [`sequence`] | which operation on which tree: every random draw, no file |
//! | [`run`] | the whole run: stages, syncing, caches, which sample belongs to which phase |
//! | [`tree`] | one operation on one tree |
//! | [`manifest`] | what the trees that are left hold |
//! | [`peak`] | how much a run needs at its fullest, before it is started |

pub mod manifest;
pub mod peak;
pub mod run;
pub mod sequence;
pub mod tree;
