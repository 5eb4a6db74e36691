//! Guaranteed file streams: a program says "1 MB/s of this file" and gets it, whatever else the disk does.
//!
//! This is the Active Block I/O Scheduling System (ABISS, 2004) in user space, on an unmodified kernel. A [`Station`] serves the streams
//! of one disk with one thread: it fetches batches of their files ahead into locked memory, past the page cache, at real-time I/O
//! priority, the stream first whose buffer is empty first, and never has more than some batches in the device. A stream's [credit](surety_model::playout::Credit)
//! holds it to its rate, however fast the program reads. What a program writes goes the other way: from locked memory, in batches, to room allocated in advance.
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
//! Writing:
//!
//! ```no_run
//! # use std::io::Write;
//! # use surety_stream::{Contract, Station, StationSettings};
//! # use surety_units::{Nanos, Rate};
//! # let (station, frame) = (Station::start(StationSettings::default())?, [0; 100]);
//! let contract = Contract::new(Rate(4_000_000)).with_length(1 << 30).with_flush(Nanos::from_secs(1));
//! let mut recording = station.create("camera.raw".as_ref(), &contract)?;
//! recording.write_all(&frame)?;
//! recording.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Walk a byte through it: `source` opens the file and has its extents mapped; `track` says when a batch of it is wanted; `station` takes the
//! batch that is due first from the `desk` to the `mover`, and brings what comes back to its track; the program's [`Reader`] takes it from
//! there. On the way out the program's [`Writer`] fills a batch, `sink` says when it is wanted, and the `target` is the file.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod account;
mod contract;
mod desk;
mod error;
mod failure;
mod mode;
mod mover;
mod reader;
mod sink;
mod source;
mod station;
mod stats;
mod target;
mod track;
mod writer;

pub use contract::Contract;
pub use error::StreamError;
pub use failure::{TransferError, errno_of};
pub use mode::{Mode, Rest};
pub use reader::{Caller, Reader};
pub use station::{Station, StationSettings};
pub use stats::{Batch, Cause, Stats, UnderRun, Waits};
pub use surety_model::playout::Level;
pub use writer::Writer;
