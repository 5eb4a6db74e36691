//! [`Requests`]: what a trace tells of the batches of streams: when their bios came to the block layer, and when the device had their requests.
//!
//! The bios of a batch are queued by the thread that moves it, directly behind the instant at which that handed it over, or by a worker of its ring (`iou-wrk-TID`) where
//! the kernel would have had to wait. A batch whose bios are not all of its bytes is divided by nobody.

use std::collections::{BTreeMap, BTreeSet};

use surety_model::event::{BlockEvent, BlockStep, DiskNumber, Event, EventKind, TraceSink};
use surety_model::playout::{Batch, Inside};
use surety_units::{Nanos, Tid};

/// The name of threads that move batches, and of their workers before the number.
const SERVES: &str = "surety/streams";
const WORKER: &str = "iou-wrk-";
/// Bios under way that are remembered, and complete ones of a thread.
const UNDER_WAY_MAX: usize = 4096;
const DONE_MAX: usize = 1 << 21;
/// Bytes that the bios of a batch have beyond those of the stream at most: of the pages at its ends.
const ENDS_MAX: u64 = 2 * 4096;

/// A bio that is under way.
#[derive(Debug)]
struct Bio {
    of: Tid,
    disk: DiskNumber,
    sector: u64,
    end: u64,
    queued: Nanos,
    /// Sectors that are not complete.
    left: u64,
    /// Requests that the driver has: first sector, end, and since when.
    issued: Vec<(u64, u64, Nanos)>,
    device: Vec<(Nanos, Nanos)>,
    /// An event of it was lost.
    is_lost: bool,
}

/// One that is complete.
#[derive(Clone, Debug)]
struct Done {
    queued: Nanos,
    bytes: u64,
    device: Vec<(Nanos, Nanos)>,
}

/// The bios of a run's streams, by the thread that moves their batches.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    under_way: Vec<Bio>,
    done: BTreeMap<Tid, Vec<Done>>,
    /// Those that had requests: a partition never has, its bios become requests of its disk.
    disks: BTreeSet<DiskNumber>,
}

/// Whose bio it is; `None`: no stream's.
fn owner(event: &Event<'_>, block: &BlockEvent) -> Option<Tid> {
    let name = block.comm.text();
    if name == SERVES {
        return Some(event.current);
    }
    name.strip_prefix(WORKER)?.parse().ok().map(Tid)
}

impl TraceSink for Requests {
    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Block(block) = &event.kind {
            self.block(event, block);
        }
    }
}

impl Requests {
    fn block(&mut self, event: &Event<'_>, block: &BlockEvent) {
        let now = event.time;
        if block.step == BlockStep::BioQueued {
            let Some(of) = owner(event, block).filter(|_| block.sectors > 0) else { return };
            if self.under_way.len() >= UNDER_WAY_MAX {
                self.under_way.remove(0);
            }
            let (sector, end, left) = (block.sector, block.end(), u64::from(block.sectors));
            let (issued, device) = (Vec::new(), Vec::new());
            let (disk, is_lost) = (block.disk, false);
            self.under_way.push(Bio { of, disk, sector, end, queued: now, left, issued, device, is_lost });
            return;
        }
        let (first, end) = (block.sector, block.end());
        self.disks.insert(block.disk);
        let is_its = |bio: &&mut Bio| {
            let is_partition = bio.disk.major == block.disk.major && !self.disks.contains(&bio.disk);
            (bio.disk == block.disk || is_partition) && bio.sector < end && first < bio.end
        };
        for bio in self.under_way.iter_mut().filter(is_its) {
            match block.step {
                BlockStep::Issued => bio.issued.push((first, end, now)),
                BlockStep::Returned => bio.issued.retain(|(at, ..)| *at != first),
                BlockStep::Completed => bio.complete(first, end, now),
                _ => {}
            }
        }
        if block.step == BlockStep::Completed {
            let is_over = self.under_way.extract_if(.., |bio| bio.left == 0);
            for bio in is_over.filter(|bio| !bio.is_lost) {
                let done = self.done.entry(bio.of).or_default();
                if done.len() < DONE_MAX {
                    let bytes = (bio.end - bio.sector) * 512;
                    done.push(Done { queued: bio.queued, bytes, device: bio.device });
                }
            }
        }
    }

    /// What is told of the batches of a thread, by the instants at which it handed them over.
    pub(crate) fn inside(&self, of: Tid, batches: &[Batch]) -> BTreeMap<Nanos, Inside> {
        let mut submitted: Vec<(Nanos, u64)> = batches.iter().map(|one| (one.submitted, one.bytes)).collect();
        submitted.sort_unstable();
        let mut found: Vec<(u64, Inside)> = vec![Default::default(); submitted.len()];
        // Behind the last one come those of batches that were not there at the end.
        let (last, full) = (submitted.len(), submitted.last().map_or(0, |(_, bytes)| *bytes));
        let mut all: Vec<&Done> = self.done.get(&of).into_iter().flatten().collect();
        all.sort_by_key(|done| done.queued);
        for done in all {
            let behind = submitted.partition_point(|(at, _)| *at <= done.queued);
            let Some((bytes, inside)) = behind.checked_sub(1).map(|place| &mut found[place]) else {
                continue;
            };
            if behind == last && *bytes >= full {
                break;
            }
            let first = if inside.device.is_empty() { done.queued } else { inside.queued };
            (*bytes, inside.queued) = (*bytes + done.bytes, first.min(done.queued));
            inside.device.extend(&done.device);
        }
        let are_all = |(of_batch, bios): (u64, u64)| (of_batch..of_batch + ENDS_MAX).contains(&bios);
        let each = submitted.into_iter().zip(found);
        let whole = each.filter(|((_, bytes), (found, _))| are_all((*bytes, *found)));
        whole.map(|((at, _), (_, inside))| (at, inside)).collect()
    }
}

impl Bio {
    /// The device is done with some sectors of a request.
    fn complete(&mut self, first: u64, end: u64, now: Nanos) {
        let its = self.end.min(end) - self.sector.max(first);
        self.left = self.left.saturating_sub(its);
        let Some(place) = self.issued.iter().position(|(at, until, _)| *at < end && first < *until) else {
            self.is_lost = true;
            return;
        };
        let (_, until, since) = self.issued[place];
        self.device.push((since, now));
        match until > end {
            true => self.issued[place] = (end, until, since),
            false => drop(self.issued.swap_remove(place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use surety_model::event::{Comm, Rwbs};
    use surety_units::CpuId;

    use super::*;

    const MS: fn(i64) -> Nanos = Nanos::from_millis;

    /// Each line: milliseconds, thread, its name, step, first sector, sectors.
    fn seen(script: &[(i64, i32, &str, BlockStep, u64, u32)]) -> Requests {
        let mut requests = Requests::default();
        script.iter().for_each(|line| see(&mut requests, 0, line));
        requests
    }

    fn see(requests: &mut Requests, minor: u32, line: &(i64, i32, &str, BlockStep, u64, u32)) {
        let (at, tid, name, step, sector, sectors) = line;
        let kind = EventKind::Block(BlockEvent {
            step: *step,
            disk: DiskNumber { major: 7, minor },
            sector: *sector,
            sectors: *sectors,
            bytes: 0,
            priority: 0,
            rwbs: Rwbs::new(b"R"),
            comm: Comm::new(name),
            error: 0,
        });
        requests.event(&Event { time: MS(*at), cpu: CpuId(0), current: Tid(*tid), kind });
    }

    #[test]
    fn requests_are_of_the_disk_of_their_batch() {
        use BlockStep::{BioQueued, Completed, Issued};
        let line = |at, step| (at, 5, SERVES, step, 1000, 8);
        let told = |events: &[(u32, i64, BlockStep)]| {
            let mut requests = Requests::default();
            events.iter().for_each(|(minor, at, step)| see(&mut requests, *minor, &line(*at, *step)));
            requests.inside(Tid(5), &[batch(10, 4096)]).get(&MS(10)).map(|inside| inside.device.clone())
        };
        let other = [(0, 1, Issued), (0, 2, Completed), (1, 3, Issued), (1, 4, Completed)];
        let beside =
            [(1, 11, BioQueued), (1, 12, Issued), (0, 13, Issued), (0, 14, Completed), (1, 16, Completed)];
        assert_eq!(told(&[&other[..], &beside].concat()), Some(vec![(MS(12), MS(16))]));
        // Of a partition: its disk has the request.
        let partition = [(3, 11, BioQueued), (0, 12, Issued), (0, 15, Completed)];
        assert_eq!(told(&[&other[..], &partition].concat()), Some(vec![(MS(12), MS(15))]));
    }

    fn batch(submitted: i64, bytes: u64) -> Batch {
        Batch { submitted: MS(submitted), done: MS(90), bytes, ..Batch::default() }
    }

    #[test]
    fn a_batch_is_divided_by_its_requests() {
        use BlockStep::{BioQueued, Completed, Issued};
        let requests = seen(&[
            (11, 5, SERVES, BioQueued, 1000, 512),
            (11, 9, "reader", BioQueued, 5000, 8),
            (12, 9, "reader", Issued, 5000, 8),
            // Two requests of one bio, the second in two parts; somebody else's is completed in between.
            (13, 1, "kworker", Issued, 1000, 256),
            (14, 1, "kworker", Issued, 1256, 256),
            (15, 0, "swapper", Completed, 5000, 8),
            (20, 0, "swapper", Completed, 1000, 256),
            (24, 0, "swapper", Completed, 1256, 100),
            (26, 0, "swapper", Completed, 1356, 156),
            // Another batch, by a worker of the ring, of which the driver gives one request back.
            (31, 77, "iou-wrk-5", BioQueued, 2000, 16),
            (32, 77, "iou-wrk-5", Issued, 2000, 16),
            (33, 77, "iou-wrk-5", BlockStep::Returned, 2000, 16),
            (35, 77, "kworker", Issued, 2000, 16),
            (36, 0, "swapper", Completed, 2000, 16),
        ]);
        let inside = requests.inside(Tid(5), &[batch(30, 8000), batch(10, 512 * 512)]);
        let of = |at: i64| inside.get(&MS(at)).cloned();
        let device = vec![(MS(13), MS(20)), (MS(14), MS(24)), (MS(14), MS(26))];
        assert_eq!(of(10), Some(Inside { queued: MS(11), device }));
        assert_eq!(of(30), Some(Inside { queued: MS(31), device: vec![(MS(35), MS(36))] }));
        assert_eq!(requests.inside(Tid(9), &[batch(10, 4096)]), BTreeMap::new());
    }

    #[test]
    fn a_batch_whose_bios_are_not_all_there_is_not_divided() {
        use BlockStep::{BioQueued, Completed, Issued};
        let requests = seen(&[
            (11, 5, SERVES, BioQueued, 1000, 8),
            (12, 5, SERVES, Issued, 1000, 8),
            (13, 0, "swapper", Completed, 1000, 8),
        ]);
        assert_eq!(requests.inside(Tid(5), &[batch(10, 8192)]), BTreeMap::new());
        assert_eq!(requests.inside(Tid(5), &[batch(12, 4096)]), BTreeMap::new(), "queued before it");
        assert_eq!(requests.inside(Tid(5), &[batch(10, 4096)]).len(), 1);
        // What is behind the last batch is of one that was not there at the end.
        let more = [
            (14, 5, SERVES, BioQueued, 2000, 8),
            (15, 5, SERVES, Issued, 2000, 8),
            (16, 0, "swapper", Completed, 2000, 8),
        ];
        let all = [
            (11, 5, SERVES, BioQueued, 1000, 8),
            (12, 5, SERVES, Issued, 1000, 8),
            (13, 0, "swapper", Completed, 1000, 8),
        ];
        let inside = seen(&[all, more].concat()).inside(Tid(5), &[batch(10, 4096)]);
        assert_eq!(inside[&MS(10)].device, [(MS(12), MS(13))]);
        // One byte into the next page, and the end of a page before.
        assert_eq!(requests.inside(Tid(5), &[batch(10, 100)]).len(), 1);
        // Of one the issue was lost.
        let requests = seen(&[(11, 5, SERVES, BioQueued, 8, 8), (13, 0, "swapper", Completed, 8, 8)]);
        assert_eq!(requests.inside(Tid(5), &[batch(10, 4096)]), BTreeMap::new());
    }
}
