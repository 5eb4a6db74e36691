//! The entry of `cargo fuzz` to what `fuzz/bodies/foreign.rs` says.

#![no_main]

#[path = "../bodies/foreign.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::survives(input));
