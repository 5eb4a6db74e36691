//! The entry of `cargo fuzz` to what `fuzz/bodies/trace_pages.rs` says.

#![no_main]

#[path = "../bodies/trace_pages.rs"]
mod trace_pages;

libfuzzer_sys::fuzz_target!(|input: &[u8]| trace_pages::survives(input));
