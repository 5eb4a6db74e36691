//! [`Recorder`]: a stream with a `batch` that writes gives its blocks to a buffer, from which one [`Station`] for each disk writes them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use surety_model::record::{StreamAccess, over_with_batches};
use surety_model::workload::Stream;
use surety_model::world::WorldError;
use surety_stream::{Station, Writer};
use surety_units::{Bytes, Nanos};

use super::ahead::{Fetched, Stations, contract_of, refused, rest_of};
use crate::window::Window;

/// A stream's buffer with who empties it.
#[derive(Debug)]
pub(super) struct Recorder {
    station: Station,
    writer: Writer,
    block: Vec<u8>,
    jitter: Nanos,
}

impl Recorder {
    /// Over a file that is there.
    pub(super) fn open(
        stations: &mut Stations,
        (stream, batch): (&Stream, Bytes),
        file: &File,
        path: &Path,
    ) -> Result<Recorder, WorldError> {
        let contract = contract_of(stream, batch);
        let in_words = |error| refused(stream, "written from a buffer", &error);
        let station = stations.of(stream).map_err(in_words)?.clone();
        let writer = station.write_over(file, path, &contract).map_err(in_words)?;
        let block = vec![0xa5; usize::try_from(stream.access_bytes()).unwrap_or(usize::MAX)];
        Ok(Recorder { station, writer, block, jitter: contract.jitter })
    }

    /// One block is given to the buffer.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.block)
    }

    /// What failed so far.
    pub(super) fn check(&self) -> io::Result<()> {
        self.writer.check()
    }

    /// What there is to say of it.
    pub(super) fn fetched(&mut self) -> Fetched {
        let writer = &mut self.writer;
        Fetched {
            level: writer.level(),
            caveats: writer.caveats(),
            buffer: writer.buffer(),
            jitter: self.jitter,
            stats: writer.stats(),
            open: writer.waits(),
            batches: writer.take_batches(),
            writes: true,
            rest: rest_of(&self.station),
            under_runs: writer.take_under_runs(),
            served_by: self.station.tid(),
        }
    }
}

/// A block is over when the batch with its last byte is at the device, not when the buffer has it.
pub(super) fn settle(accesses: &mut [StreamAccess], block: u64, fetched: &Fetched, window: &Window) {
    over_with_batches(accesses, block, &fetched.in_order(window));
}
