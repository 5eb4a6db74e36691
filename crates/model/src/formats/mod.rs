//! Workload files: reading and writing. TOML is the native format.

pub mod toml;
