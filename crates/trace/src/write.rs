//! Writers of trace files: one format is one file beside this module. They fill a [`std::io::Write`]; the file is the
//! caller's.

pub mod tracedat;
