//! What was measured: requests with the instants at which they were issued and completed, in groups.

use surety_stats::quantile_rank;
use surety_units::Nanos;

use crate::model::{Request, SECTOR};

/// What a group of requests is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The device leaves whatever rest it was in; not looked at.
    WarmUp,
    /// Reads of 4 KiB at random places, one at a time.
    Random,
    /// So many random places over and over, in about the same order, one at a time: reads of a sector that is not held come at the same angle again.
    Again(u32),
    /// So many sectors read, and at once again.
    Repeat(u32),
    /// Reads of 4 KiB, each about so many sectors beyond the one before.
    Distance(u64),
    /// Reads of 4 KiB at random places, so many at a time.
    Depth(u32),
    /// Reads of so many sectors at random places, one at a time.
    Size(u32),
    /// One read behind the other from a sector on, one at a time.
    Sequential(u64),
    /// One read behind the other, many at a time.
    Stream,
    /// Writes of 4 KiB at random places, so many at a time.
    Write(u32),
    /// One write behind the other.
    WriteStream,
    /// What the cache of the device holds goes to the medium, after a write.
    Flush,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub request: Request,
    pub issued: Nanos,
    pub completed: Nanos,
    /// It is what the group is about; the others bring the device to where it begins.
    pub counts: bool,
}

impl Sample {
    /// Nanoseconds from issue to completion.
    pub fn response(&self) -> f64 {
        (self.completed - self.issued).get() as f64
    }
}

/// Requests of one kind, in the order of their issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub part: Part,
    /// Requests at a time.
    pub depth: usize,
    pub samples: Vec<Sample>,
}

impl Group {
    /// Response times of what counts, in nanoseconds, rising.
    pub fn responses(&self) -> Vec<f64> {
        sorted(self.samples.iter().filter(|sample| sample.counts).map(Sample::response).collect())
    }

    /// Nanoseconds of a request at the group's pace: from the first completion to the last, or with one at a time the mean
    /// response of what counts; `None` with fewer than four that count.
    pub fn interval(&self) -> Option<f64> {
        let counted = || self.samples.iter().filter(|sample| sample.counts);
        let count = counted().count();
        if count < 4 {
            return None;
        }
        if self.depth == 1 {
            return Some(counted().map(Sample::response).sum::<f64>() / count as f64);
        }
        let done = || self.samples.iter().map(|sample| sample.completed);
        let (first, last) = (done().min()?, done().max()?);
        Some((last - first).get() as f64 / (self.samples.len() - 1) as f64)
    }

    /// Bytes of a request.
    pub fn bytes(&self) -> u64 {
        self.samples.first().map_or(0, |sample| u64::from(sample.request.sectors) * SECTOR)
    }
}

/// Rising.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The quantile of rising values; 0 of none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = quantile_rank(q, sorted.len() as u64).unwrap_or(0) as usize;
    if rank == 0 { 0.0 } else { sorted[rank - 1] }
}
