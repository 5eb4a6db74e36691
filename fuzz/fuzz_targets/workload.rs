//! The entry of `cargo fuzz` to what `fuzz/bodies/workload.rs` says.

#![no_main]

#[path = "../bodies/workload.rs"]
mod workload;

libfuzzer_sys::fuzz_target!(|input: &[u8]| workload::survives(input));
