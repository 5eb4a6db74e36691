//! The program as its users run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod bad_input;
mod common;
mod comparing;
mod fitting;
mod guarantee;
mod latency;
mod leaves_nothing;
mod programs;
mod recording;
mod reports;
mod simulated;
mod truth;
