//! A directory's files as guaranteed streams for programs that know nothing of it: a FUSE mount to play out from.
//!
//! ```text
//! player: read() -> FUSE READ -> receiver -> queue of the open file -> its worker -> Reader of `stream` -> locked buffer <- disk, past the page cache
//!                                        \-> clerks: names, attributes, directories, links
//! ```
//!
//! One read walked through it: files are opened past the page cache of the mount (`FOPEN_DIRECT_IO`), so each `read` of a program comes as it was made,
//! one after another, with nothing read ahead of need between: what is ahead is in the stream's buffer. The `server`'s receiver only sorts
//! requests. A read goes into the `queue` of its open file, where one thread (`worker`) serves it from the [`surety_stream::Reader`] of that open file (`feed`), in an
//! order that goes with the stream. Everything else, which may have to wait for a disk, goes to the clerks, who answer from `tree`. So no read waits for
//! another file's, nor for names. An open file has a stream, and its memory, from its first read on until it is closed.
//!
//! Who waits and is killed is let go at once: the kernel says that a signal came (INTERRUPT), the `guard` looks whether it is one that ends the thread, and
//! calls the worker back. Other signals interrupt no read, as with any file.
//!
//! [`Mount`] is all of that together. Its place in the file system is in the journal, so that the next start takes away what a kill -9 leaves.

#![forbid(unsafe_code)]

mod account;
mod error;
mod feed;
mod guard;
mod mount;
mod nodes;
mod past;
mod queue;
mod server;
mod shared;
mod tree;
mod worker;

pub use account::{How, Served};
pub use error::MountError;
pub use mount::{Mount, Plan};
