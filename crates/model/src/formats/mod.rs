//! Files: workloads (TOML is the native format) and results read back.

pub mod record;
pub mod toml;
