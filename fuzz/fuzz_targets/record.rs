//! The entry of `cargo fuzz` to what `fuzz/bodies/record.rs` says.

#![no_main]

#[path = "../bodies/record.rs"]
mod record;

libfuzzer_sys::fuzz_target!(|input: &[u8]| record::survives(input));
