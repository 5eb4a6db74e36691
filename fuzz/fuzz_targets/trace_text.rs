//! The entry of `cargo fuzz` to what `fuzz/bodies/trace_text.rs` says.

#![no_main]

#[path = "../bodies/trace_text.rs"]
mod trace_text;

libfuzzer_sys::fuzz_target!(|input: &[u8]| trace_text::survives(input));
