//! `libsurety-stream`: the streams of [`surety_stream`] for C and C++, shaped like stdio and like `abiss_fopen` of the reference.
//!
//! What each function does for C is said in `include/surety-stream.h`; `tests/c_programs.rs` holds header and library together. Walk a
//! call through it: `border` takes pointers and gives them a type, and no panic leaves it; `table` knows what a handle stands for, or that it was closed;
//! `open` is an open stream; `stations` has one thread for each disk; `failure` is what a call that failed says in this thread.
//!
//! A handle is a number that looks like a pointer. Nothing is ever read through it, so a handle that was closed, or never was
//! one, is an error and not somebody else's memory.

#![deny(unsafe_code)]
#![deny(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod abi;
#[allow(unsafe_code, reason = "C gives addresses; this module alone turns them into references")]
mod border;
mod failure;
mod open;
mod stations;
mod table;

pub use abi::{Contract, PAUSED, REPEATS, Stats};
pub use border::*;
