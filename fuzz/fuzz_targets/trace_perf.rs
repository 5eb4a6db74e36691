//! The entry of `cargo fuzz` to what `fuzz/bodies/trace_perf.rs` says.

#![no_main]

#[path = "../bodies/trace_perf.rs"]
mod trace_perf;

libfuzzer_sys::fuzz_target!(|input: &[u8]| trace_perf::survives(input));
