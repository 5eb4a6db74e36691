//! The entry of `cargo fuzz` to what `fuzz/bodies/plan.rs` says.

#![no_main]

#[path = "../bodies/plan.rs"]
mod plan;

libfuzzer_sys::fuzz_target!(|input: &[u8]| plan::survives(input));
