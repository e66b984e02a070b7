//! The slice of a web cache that the workload `web-cache` extracts and removes: which objects it holds,
//! the archive that is made of them once and kept, and whether they arrived. What is measured is left to
//! [`crate::catalog::web_cache`].
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | sizes and names of the objects |
//! | [`generate`] | the archive, as bytes |
//! | [`store`] | where it is kept from run to run |
//! | [`verify`] | a sample of what was extracted, compared with the archive |

pub mod generate;
pub mod model;
pub mod store;
pub mod verify;
