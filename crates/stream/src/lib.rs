//! Guaranteed file streams: a program says "1 MB/s of this file" and gets it, whatever else the disk does.
//!
//! This is the Active Block I/O Scheduling System (ABISS, 2004) in user space, on an unmodified kernel. A [`Station`] serves the streams
//! of one disk with one thread: it fetches batches of their files ahead into locked memory, past the page cache, at real-time I/O
//! priority, the stream first whose buffer is empty first, and never has more than some batches in the device. A stream's [credit](surety_model::playout::Credit)
//! holds it to its rate, however fast the program reads.
//!
//! ```no_run
//! use std::io::Read;
//! use surety_stream::{Contract, Station, StationSettings};
//! use surety_units::{Nanos, Rate};
//!
//! let station = Station::start(StationSettings::default())?;
//! let contract = Contract::new(Rate(1_000_000)).with_access(64 << 10).with_jitter(Nanos::from_millis(100));
//! let mut movie = station.open("movie.mpg".as_ref(), &contract)?;
//! let mut frame = vec![0; 64 << 10];
//! movie.read_exact(&mut frame)?;
//! println!("{}: {:?}", movie.level(), movie.stats());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Walk a byte through it: `source` opens the file and has its extents mapped; `track` says when a batch of it is wanted; `station` takes the
//! batch that is due first from the `desk` to the `mover`, and brings what comes back to its track; the program's [`Reader`] takes it from
//! there.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod contract;
mod desk;
mod error;
mod mover;
mod order;
mod reader;
mod source;
mod station;
mod stats;
mod track;

pub use contract::Contract;
pub use error::StreamError;
pub use reader::{Caller, Reader};
pub use station::{Station, StationSettings};
pub use stats::{Batch, Cause, Stats};
pub use surety_model::playout::Level;
