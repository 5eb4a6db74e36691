//! Files: workloads (TOML is the native format), results read back, and recorded start-up I/O.

pub mod foreign;
pub mod io_trace;
pub mod record;
pub mod toml;
