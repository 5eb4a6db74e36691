//! [`gap`]: whether best effort may get in between batches of a stream of which two are in the block layer at a time.
//!
//! The thread that asks for batches has asked for the next one at most `x` after one of two is there. Best effort is kept out where the other one is
//! still in the block layer then:
//!
//! - mq-deadline serves by class, so that one batch in the block layer is enough;
//! - the two are different requests: the block layer may make one of a request and what follows it on the disk, up to its longest
//!   (`blk_rq_merge_ok`, `blk_try_merge`), and so of the end of a batch and the beginning of the next. It does not where those are longer together;
//! - the device serves one request at a time, and takes no less than `x` for any request of a batch. Requests of both may be served in any
//!   order, so the last one of the second may be all that is left when the first is there.

use surety_model::workload::Direction;

use super::{DiskTerms, Gap, Service, StreamDemand};

#[cfg(test)]
mod tests;

/// Bytes of the last request of a batch: the shortest.
pub fn last_request(batch: u64, disk: &DiskTerms) -> u64 {
    let request = disk.request_bytes.max(1);
    if batch.is_multiple_of(request) { request } else { batch % request }
}

/// What lets best effort in, if anything does, where a stream with a batch of so many bytes overlaps.
pub(super) fn gap(demand: &StreamDemand, batch: u64, disk: &DiskTerms) -> Option<Gap> {
    if !demand.overlap {
        return None;
    }
    if disk.service == Service::InOrder {
        return Some(Gap::InOrder);
    }
    if demand.direction == Direction::Write {
        return Some(Gap::Written);
    }
    let Some(least) = disk.least else { return Some(Gap::Together) };
    // Where kernels have requests of different lengths, how a batch is divided is not known.
    if batch > disk.request_bytes && disk.request_bytes != disk.merged_bytes {
        return Some(Gap::Divided);
    }
    let last = last_request(batch, disk);
    if last + batch.min(disk.request_bytes) <= disk.merged_bytes {
        return Some(Gap::Merged { batch, longest: disk.merged_bytes });
    }
    let least = least.of(false, last);
    (least < disk.asks).then_some(Gap::Brief { least, asks: disk.asks })
}
