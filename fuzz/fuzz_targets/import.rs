//! The entry of `cargo fuzz` to what `fuzz/bodies/import.rs` says.

#![no_main]

#[path = "../bodies/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|input: &[u8]| import::survives(input));
