//! The parts of the workload `package-install`: the model of a base system, the way a package manager
//! unpacks it, real packages through dpkg, and the listing of what was installed. Its definition and
//! its phases are in [`crate::catalog::package_install`].

pub mod debs;
pub mod distribution;
pub mod list;
pub mod model;
pub mod unpack;
