//! [`Parameters`]: all that a hard disk is made from.

use surety_units::Nanos;

use super::geometry::Geometry;
use super::seek::SeekCurve;

/// Sectors of a read segment, and of reading ahead, at most: 64 MiB.
pub const SEGMENT_MAX: u32 = 1 << 17;
/// Read segments of a drive at most.
pub const SEGMENTS_MAX: u32 = 4096;
/// Runs of written sectors that a drive holds at most.
pub const RUNS_MAX: u32 = 1 << 16;

/// Milliseconds the controller takes for a command, by what it is and by what the one before it was: `[after a read, after a write]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overheads {
    /// Of a read that the buffer has.
    pub read_hit: [f64; 2],
    /// Of a read that it has not; the arm moves after it.
    pub read_miss: [f64; 2],
    /// Of a write.
    pub write: [f64; 2],
    /// After the data of a read.
    pub read_completion: f64,
    /// After the data of a write.
    pub write_completion: f64,
}

/// How far the drive reads on after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// So many sectors after the request.
    Sectors(u64),
    /// To the end of the track, and of one more when the segment began before this track.
    TrackThenNext,
}

/// Writes that are reported before they are on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Runs of sectors it may hold at a time; adjacent ones are one.
    pub runs: usize,
    /// Sectors it may hold.
    pub sectors: u64,
    /// A write goes on where the one before it ended without a new run.
    pub combines: bool,
}

/// Accesses that fail and are tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retries {
    /// Of an access to the medium.
    pub probability: f64,
    /// A retried access takes between 1 and so many revolutions longer.
    pub most_revolutions: u32,
}

/// All that a hard disk is made from. Times are milliseconds.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub geometry: Geometry,
    pub seek: SeekCurve,
    pub head_switch: f64,
    /// What a write takes longer after a movement of the arm; may be negative.
    pub write_settle: f64,
    pub revolution: f64,
    pub overheads: Overheads,
    /// Of one sector over the interface.
    pub sector_transfer: f64,
    /// Runs of sectors the buffer holds.
    pub segments: usize,
    pub segment_sectors: u64,
    pub read_ahead: ReadAhead,
    /// It reads on after a read that the buffer had, too.
    pub read_ahead_after_hit: bool,
    /// A read of the sector that is being read ahead at that moment goes on with the stream.
    pub joins_stream: bool,
    /// Sectors that pass before the wanted ones come are read too.
    pub reads_while_waiting: bool,
    pub zero_latency_read: bool,
    pub zero_latency_write: bool,
    /// Sectors that were written can be read from the buffer.
    pub hits_on_writes: bool,
    /// `None`: a write is complete when it is on the medium.
    pub write_back: Option<WriteBack>,
    /// The buffer answers while the moving parts are busy.
    pub answers_while_busy: bool,
    /// Commands it takes at a time.
    pub depth: usize,
    /// A command that has waited so long goes first.
    pub age_limit: Nanos,
    pub retries: Option<Retries>,
}
