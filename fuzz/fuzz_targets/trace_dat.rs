//! The entry of `cargo fuzz` to what `fuzz/bodies/trace_dat.rs` says.

#![no_main]

#[path = "../bodies/trace_dat.rs"]
mod trace_dat;

libfuzzer_sys::fuzz_target!(|input: &[u8]| trace_dat::survives(input));
