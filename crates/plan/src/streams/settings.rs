//! [`candidates`]: how a disk may be set so that what streams get of it has a bound, with the reason of each setting that the workload leaves open.

use surety_analysis::streams::ORDER;
use surety_device::SECTOR;
use surety_device::profile::Profile;
use surety_model::plan::PlannedDisk;
use surety_model::workload::{Direction, Disk, FileUse, Stream, Workload};
use surety_units::{Bytes, Nanos};

use super::{Ground, is_served};

/// The scheduler with a bound.
const SCHEDULER: &str = "mq-deadline";
/// `BLKDEV_MIN_RQ`: the kernel gives no queue fewer requests.
const DEPTH: u32 = 4;
/// The largest request: a window of read-ahead (`VM_READAHEAD_PAGES`).
const REQUEST: Bytes = Bytes(128 << 10);
/// An hour, in ms: nothing that waits has aged by then.
const NEVER: u64 = 3_600_000;
/// Of the requests of a queue, what writes may have, as one part in so many.
const WRITES: u32 = 16;
/// Less than a hard disk takes for any read, so that `blk-wbt` lets the least by.
const THROTTLING: Nanos = Nanos::from_millis(1);

/// A disk as it may be set, with why.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub disk: Disk,
    pub because: Vec<String>,
}

impl Candidate {
    pub(super) fn planned(&self) -> PlannedDisk {
        let Disk { name, scheduler, depth, request, wbt, tunables, .. } = self.disk.clone();
        PlannedDisk {
            disk: name,
            scheduler: scheduler.unwrap_or_else(|| SCHEDULER.to_owned()),
            depth,
            request,
            wbt,
            tunables,
            best_effort: None,
            because: self.because.clone(),
        }
    }

    fn with(&self, because: String, set: impl FnOnce(&mut Disk)) -> Candidate {
        let mut with = self.clone();
        set(&mut with.disk);
        with.because.push(because);
        with
    }
}

/// Ways to set a disk, the one to be preferred first. What the workload sets stays as it is. `overlap`: streams have two batches in the block layer. `inside` says how many requests of
/// best effort may have left the I/O scheduler of a disk.
pub(super) fn candidates(
    ground: &Ground<'_>,
    (disk, overlap): (&Disk, bool),
    inside: impl Fn(&Disk) -> Option<u64>,
) -> Vec<Candidate> {
    let mut first = Candidate { disk: disk.clone(), because: Vec::new() };
    if disk.scheduler.is_none() {
        let because = format!("scheduler {SCHEDULER}: it serves the realtime class first");
        first = first.with(because, |disk| disk.scheduler = Some(SCHEDULER.to_owned()));
    }
    if first.disk.scheduler.as_deref() != Some(SCHEDULER) {
        return vec![first];
    }
    let profile = disk.model.as_deref().and_then(|model| Profile::of_model(model, ground.files).ok());
    if !disk.tunables.contains_key("prio_aging_expire") {
        let because = "prio_aging_expire an hour: no request of best effort ages and goes first".to_owned();
        first = first.with(because, |disk| set_tunable(disk, "prio_aging_expire", NEVER));
    }
    let is_open = ORDER.iter().all(|(name, _)| !disk.tunables.contains_key(*name));
    if overlap && is_open {
        let words: Vec<String> = ORDER.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let because = format!("{}: no batch is served before an earlier one of its stream", words.join(", "));
        first = first
            .with(because, |disk| ORDER.iter().for_each(|(name, value)| set_tunable(disk, name, *value)));
    }
    if let Some(profile) = &profile {
        first = limit_writes(ground.workload, first, profile.requests_scheduled());
    }
    if disk.depth.is_none() {
        let limited = Disk { depth: Some(DEPTH), ..first.disk.clone() };
        if let (Some(now), Some(then)) = (inside(&first.disk), inside(&limited))
            && then < now
        {
            let because = format!(
                "depth {DEPTH}, the fewest that the kernel gives a queue: what its driver has taken goes before a batch, {then} requests instead of {now}"
            );
            first = first.with(because, |disk| disk.depth = Some(DEPTH));
        }
    }
    let longest = profile.and_then(|profile| profile.request_sectors_max()).unwrap_or(u32::MAX);
    if disk.request.is_some() || u64::from(longest) * SECTOR <= REQUEST.0 {
        return vec![first];
    }
    let because = format!(
        "request {REQUEST}: a longer one of best effort would be waited for, and a window of read-ahead is as long"
    );
    let short = first.with(because, |disk| disk.request = Some(REQUEST));
    vec![short, first]
}

/// Limits what the page cache writes at once, where something does and the workload limits it in no way. A limit of the I/O scheduler counts all writes, those of streams too.
fn limit_writes(workload: &Workload, disk: Candidate, queue: u32) -> Candidate {
    let is_throttled = disk.disk.wbt.is_some_and(|target| target > Nanos::ZERO);
    let is_limited = is_throttled || disk.disk.tunables.contains_key("async_depth");
    if is_limited || !is_written_through_cache(workload, &disk.disk) {
        return disk;
    }
    let is_here = |stream: &&Stream| stream.disk.as_deref() == Some(disk.disk.name.as_str());
    let is_writer = |stream: &Stream| stream.direction == Direction::Write && is_served(stream);
    if disk.disk.wbt.is_none() && workload.streams.iter().filter(is_here).any(is_writer) {
        let because = format!(
            "wbt {THROTTLING}: the flusher takes all requests that it may have, and async_depth would hold back the streams that write as well"
        );
        return disk.with(because, |disk| disk.wbt = Some(THROTTLING));
    }
    let places = u64::from((queue / WRITES).max(1));
    let because = format!(
        "async_depth {places} of the queue's {queue} requests: the flusher takes all that it may have, and streams and readers wait for one"
    );
    disk.with(because, |disk| set_tunable(disk, "async_depth", places))
}

fn set_tunable(disk: &mut Disk, name: &str, value: u64) {
    disk.tunables.insert(name.to_owned(), value);
}

/// Whether something leaves pages of a disk to the flusher.
fn is_written_through_cache(workload: &Workload, disk: &Disk) -> bool {
    let is_here = |name: &Option<String>| name.as_deref() == Some(disk.name.as_str());
    let writes = [FileUse::Writes, FileUse::Copies, FileUse::Syncs];
    let by_load = workload.loads.iter().any(|load| {
        let uses = load.kind.row().file_use;
        let cached = !load.direct || uses == Some(FileUse::Syncs);
        is_here(&load.disk) && cached && uses.is_some_and(|uses| writes.contains(&uses))
    });
    // One with a batch, or a promise for which it gets one, writes past the page cache.
    let is_cached =
        |s: &Stream| s.direction == Direction::Write && s.batch.is_none() && s.promises.is_empty();
    by_load || workload.streams.iter().any(|stream| is_here(&stream.disk) && is_cached(stream))
}
