//! The entry of `cargo fuzz` to what `fuzz/bodies/trace_perfetto.rs` says.

#![no_main]

#[path = "../bodies/trace_perfetto.rs"]
mod trace_perfetto;

libfuzzer_sys::fuzz_target!(|input: &[u8]| trace_perfetto::survives(input));
