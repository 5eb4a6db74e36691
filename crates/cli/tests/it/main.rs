//! The program as its users run it.

mod bad_input;
mod common;
mod guarantee;
mod leaves_nothing;
