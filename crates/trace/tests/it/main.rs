//! The readers, the machines above them and the writers, against recordings, other programs and published schemas.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod buffers_and_prints;
mod golden;
mod perfdata;
mod perfetto;
mod perfetto_schema;
mod schema;
#[path = "../support/mod.rs"]
mod support;
mod synthetic;
mod text;
mod text_formats;
mod tracedat;
mod tracedat_v7;
mod written_events;
