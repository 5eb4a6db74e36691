//! [`terms`]: what a disk of a workload takes at most, with what else the workload asks of it.
//!
//! Best effort is counted by its threads: each has so many requests in the queue at once. What is written through the page cache is written by
//! the kernel's flusher, which takes all requests that it may have; `async_depth` of mq-deadline limits it, or `blk-wbt` ([`most_writes`]).

use std::collections::BTreeMap;

use surety_block::kernels::KERNELS;
use surety_block::queue::most_writes;
use surety_device::SECTOR;
use surety_device::profile::Profile;
use surety_device::worst::{Asked, Writes};
use surety_model::platform::{DiskDriver, Platform};
use surety_model::playout::jitter_of;
use surety_model::workload::{
    BatchMode, Direction, Disk, FileUse, IoPriority, Load, Stream, StreamFile, Workload,
};
use surety_units::{Bytes, Nanos};

use super::{DiskTerms, PAGE, Service, StreamDemand};

/// From when a stream may have a batch until its thread has asked for it, at most: stated, not measured, for threads of the fair class on a machine
/// with a CPU to spare.
pub const CPU: Nanos = Nanos::from_millis(1);
/// A reader through the page cache has two windows of read-ahead under way, each in two pieces at most where it meets what is there.
const WINDOWS: u64 = 4;
/// From here on nothing that waits is taken to have aged.
const NEVER: u64 = 3_600_000;

/// With these mq-deadline goes from one request to the next by its queues, and takes the oldest as one that has expired (`__dd_dispatch_request`: no
/// batches, and `deadline_check_fifo`). Batches of one are no order: looking for aged requests of other classes begins a batch, which then goes on upwards.
pub const ORDER: [(&str, u64); 3] = [("fifo_batch", 0), ("read_expire", 0), ("write_expire", 0)];

/// What memory of a machine is taken to be on which nobody looked.
const MEMORY: Bytes = Bytes(2 << 30);

/// Bytes that all buffers of streams may have on a machine, for they are locked: half of its memory, which is taken to be 2 GiB where nobody looked.
pub fn memory_for_buffers(platform: &Platform) -> u64 {
    platform.memory.unwrap_or(MEMORY).0 / 2
}

/// Best effort on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beside {
    /// Requests at once.
    requests: u64,
    /// Of those, what may write.
    writes: u64,
    /// Bytes of the shortest write.
    shortest: Option<u64>,
    overlap: bool,
    /// Threads that wait for what they wrote to be on the medium.
    flushing: u64,
}

impl Beside {
    fn writing(&mut self, requests: u64, shortest: u64) {
        self.requests += requests;
        self.writes += requests;
        self.shortest = Some(self.shortest.map_or(shortest, |other| other.min(shortest)));
    }
}

/// Why a disk has no bound, and by which stream, where it is one of those that are served before best effort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    pub stream: Option<String>,
    pub why: String,
    /// Whether another size, rate or count may have a bound.
    pub infeasible: bool,
}

impl From<String> for Unbounded {
    fn from(why: String) -> Unbounded {
        Unbounded { stream: None, why, infeasible: false }
    }
}

impl std::fmt::Display for Unbounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// What a stream asks for.
pub fn demand(stream: &Stream) -> StreamDemand {
    let promised = stream.promises.iter().filter_map(surety_model::promise::Promise::response_limit).min();
    StreamDemand {
        count: stream.count,
        rate: stream.rate,
        direction: stream.direction,
        access: stream.access_bytes(),
        batch: stream.batch.map(|bytes| bytes.0),
        longest: match stream.file {
            StreamFile::Make(size) => Some((size.0 / PAGE * PAGE).max(PAGE)),
            StreamFile::Path(_) => None,
        },
        jitter: jitter_of(stream),
        buffer: stream.buffer.map(|bytes| bytes.0),
        deadline: promised,
        overlap: stream.overlap,
    }
}

/// What a disk takes at most beside the best effort of a workload; `guaranteed` says which of its streams are served before that, `files` are the texts of
/// models that are files, by their paths.
///
/// # Errors
/// Why there is no bound, in words.
pub fn terms(
    workload: &Workload,
    disk: &Disk,
    (platform, files): (&Platform, &BTreeMap<String, String>),
    guaranteed: impl Fn(&Stream) -> bool,
) -> Result<DiskTerms, Unbounded> {
    let model = disk.model.as_deref().ok_or_else(|| {
        "it names no model of its device, so nothing bounds what that takes: give it `model`".to_owned()
    })?;
    let profile = Profile::of_model(model, files)?;
    let longest = u64::from(profile.request_sectors_max().unwrap_or(u32::MAX));
    let longest = longest.min(disk.request.map_or(u64::MAX, |bytes| bytes.0 / SECTOR));
    let limit = |of: Option<u32>| longest.min(u64::from(of.unwrap_or(u32::MAX))) * SECTOR;
    let largest = limit(KERNELS.iter().map(|rules| rules.max_sectors).max());
    let smallest = limit(KERNELS.iter().map(|rules| rules.max_sectors).min());
    let scheduler = disk.scheduler.as_deref().unwrap_or("mq-deadline");
    let requests = queue(scheduler, &profile, disk, platform)?;
    if let Some(why) = objection(workload, disk, &guaranteed) {
        return Err(why);
    }
    let flusher = flusher(disk, requests, tags(&profile, platform.disk_driver));
    let beside = beside(workload, disk, (flusher, largest, platform.cpus), &guaranteed)?;
    // With a limit on the driver's requests it is Linux's, before which a thread asks.
    let has_gaps = disk.depth.is_some() || matches!(platform.disk_driver, DiskDriver::Loop { .. });
    let handing_on = handing_on(&profile, disk, platform);
    let (depth, taken) = in_device(&profile, (platform.disk_driver, disk.depth));
    if scheduler == "none" && depth > 1 {
        let why = "without a scheduler best effort overtakes in the device without a bound; use `scheduler = \"mq-deadline\"`";
        return Err(why.to_owned().into());
    }
    let written = written(&beside, workload, disk, smallest, guaranteed);
    let end = disk.make.map_or(u64::MAX, |bytes| bytes.0 / SECTOR).min(profile.sectors());
    check_room(workload, disk, end, platform.cpus)?;
    let longest = u32::try_from(largest / SECTOR).unwrap_or(u32::MAX);
    let worst = profile.worst(&Asked { range: 0..end, longest, writes: written })?;
    let aging = disk.tunables.get("prio_aging_expire").copied().unwrap_or(10_000);
    let inside = (taken + handing_on).min(beside.requests);
    let commits = has_commits(disk, &beside);
    Ok(DiskTerms {
        read: worst.read,
        write: written.map(|_| worst.write),
        beside_bytes: if beside.requests > 0 { largest } else { 0 },
        held: worst.held,
        inside,
        inside_writes: inside.min(beside.writes),
        request_bytes: smallest,
        requests,
        beside_requests: beside.requests,
        write_requests: writers_share(disk, requests),
        beside_writes: beside.writes,
        in_turn: ORDER.iter().all(|(name, value)| disk.tunables.get(*name) == Some(value)),
        handing_on,
        gaps: has_gaps,
        service: match scheduler {
            "none" => Service::InOrder,
            _ => Service::ByClass { aged: if aging >= NEVER { 0 } else { beside.requests } },
        },
        commits,
        flushes: beside.flushing + if commits { 2 } else { 0 },
        flush: worst.flush,
        least: profile.least(),
        merged_bytes: largest,
        cpu: CPU,
        asks: CPU,
    })
}

/// Requests of the queue that an I/O scheduler has, or the driver's tags without one.
fn queue(scheduler: &str, profile: &Profile, disk: &Disk, platform: &Platform) -> Result<u64, String> {
    match scheduler {
        "mq-deadline" => Ok(scheduled(profile, platform.disk_driver)),
        "none" => Ok(profile.driver_tags().min(disk.depth.unwrap_or(u32::MAX)).into()),
        other => Err(format!(
            "how long `{other}` lets a request wait is not bounded here; use `scheduler = \"mq-deadline\"`"
        )),
    }
}

/// What has no bound on a disk, whatever else there is.
fn objection(workload: &Workload, disk: &Disk, guaranteed: &impl Fn(&Stream) -> bool) -> Option<Unbounded> {
    if !disk.faults.is_empty() {
        let why = "parts of it fail, and what cannot be had has no bound: leave `faults` out";
        return Some(why.to_owned().into());
    }
    let here = || workload.streams.iter().filter(|s| s.disk.as_deref() == Some(disk.name.as_str()));
    let of = |stream: &Stream, why: &str| Unbounded {
        stream: Some(stream.name.clone()),
        why: format!("stream {} {why}", stream.name),
        infeasible: false,
    };
    if let Some(stream) = here().find(|s| s.batch.is_some() && s.mode == BatchMode::Longest) {
        return Some(of(stream, "asks for all of its buffer at once: leave out `mode = \"longest\"`"));
    }
    let is_elsewhere = |s: &&Stream| {
        let is_bounded = guaranteed(s) && (!s.promises.is_empty() || s.bound.is_some());
        is_bounded && matches!(s.file, StreamFile::Path(_))
    };
    if let Some(stream) = here().find(is_elsewhere) {
        return Some(of(
            stream,
            "is of a file that is there already, and a disk with a model is made for the run with nothing on it: where the file lies is not known; use `file = { make = \"105MB\" }`",
        ));
    }
    let writer = here().find(|s| s.direction == Direction::Write && guaranteed(s));
    writer.filter(|_| disk.journal != Some(false)).map(|stream| {
        of(
            stream,
            "writes, and each write notes its time in the file system, which may wait for a commit of its journal: use `journal = false`",
        )
    })
}

/// Whether the files of streams and loads are on the disk with nothing to spare.
fn check_room(workload: &Workload, disk: &Disk, sectors: u64, cpus: u32) -> Result<(), Unbounded> {
    let is_here = |name: &Option<String>| name.as_deref() == Some(disk.name.as_str());
    let made = |stream: &Stream| match stream.file {
        StreamFile::Make(size) => u128::from(size.0.next_multiple_of(PAGE)) * u128::from(stream.count),
        StreamFile::Path(_) => 0,
    };
    let of_streams: u128 = workload.streams.iter().filter(|s| is_here(&s.disk)).map(made).sum();
    let of_loads: u128 =
        workload.loads.iter().filter(|load| is_here(&load.disk)).map(|load| load.bytes_on_disk(cpus)).sum();
    let (wanted, has) = (of_streams + of_loads, u128::from(sectors) * u128::from(SECTOR));
    if wanted <= has {
        return Ok(());
    }
    let size = |bytes: u128| format!("{:.1} MB", bytes as f64 / 1e6);
    let why = format!(
        "the files of streams and loads have {}, and the disk {}: make files smaller or fewer, or the disk larger",
        size(wanted),
        size(has)
    );
    Err(Unbounded { infeasible: true, ..why.into() })
}

/// What is written to a disk by best effort and by streams with a guarantee, which do not say where and begin their file again.
fn written(
    beside: &Beside,
    workload: &Workload,
    disk: &Disk,
    request: u64,
    guaranteed: impl Fn(&Stream) -> bool,
) -> Option<Writes> {
    let is_here = |stream: &&Stream| stream.disk.as_deref() == Some(disk.name.as_str()) && guaranteed(stream);
    let writers = workload.streams.iter().filter(is_here).filter(|one| one.direction == Direction::Write);
    let rest = |batch: u64| if batch.is_multiple_of(request) { request } else { batch % request };
    let of_streams = writers.map(|stream| stream.batch.map_or(PAGE, |batch| rest(batch.0))).min();
    let shortest = [of_streams, beside.shortest].into_iter().flatten().min()?;
    Some(Writes {
        shortest: u32::try_from(shortest.max(SECTOR) / SECTOR).unwrap_or(u32::MAX),
        overlap: beside.overlap || of_streams.is_some(),
        // At its end what a stream wrote is flushed, too.
        flushes: beside.flushing > 0 || of_streams.is_some() || has_commits(disk, beside),
        // Disks of workloads have no way to say so of one write: the kernel flushes instead.
        through: false,
    })
}

/// Requests of a queue that writes may have.
fn writers_share(disk: &Disk, requests: u64) -> u64 {
    disk.tunables.get("async_depth").copied().filter(|depth| *depth > 0).unwrap_or(requests)
}

/// Tags of what drives a disk.
fn tags(profile: &Profile, driver: DiskDriver) -> u64 {
    let own = profile.driver_tags();
    match driver {
        DiskDriver::OfDisk => own.into(),
        DiskDriver::Loop { tags } => tags.map_or(own, |tags| tags.max(own)).into(),
    }
}

/// Requests of a queue with an I/O scheduler: twice the driver's tags, of which no more than 128 count (`blk_mq_init_sched`).
fn scheduled(profile: &Profile, driver: DiskDriver) -> u64 {
    2 * tags(profile, driver).min(128)
}

/// Requests that what the page cache writes may have at once.
fn flusher(disk: &Disk, requests: u64, tags: u64) -> u64 {
    let share = writers_share(disk, requests);
    // `blk-wbt` counts all writes but those that somebody waits for past the page cache (`REQ_SYNC` with `REQ_IDLE`), so none of streams.
    let throttled = || u64::from(most_writes(u32::try_from(tags).unwrap_or(u32::MAX / 3)));
    if disk.wbt.is_some_and(|target| target > Nanos::ZERO) { share.min(throttled()) } else { share }
}

/// Whether a journal has commits: somebody writes to its file system. What is read leaves no note there, for disks of runs are mounted without (`noatime`).
fn has_commits(disk: &Disk, beside: &Beside) -> bool {
    disk.journal != Some(false) && beside.writes > 0
}

/// CPUs that take a request before they find that the driver has no room; none where that is asked first. Isolated ones may as well.
fn handing_on(profile: &Profile, disk: &Disk, platform: &Platform) -> u64 {
    let asks_first =
        platform.disk_driver == DiskDriver::OfDisk && disk.depth.is_none() && profile.asks_first();
    if asks_first { 0 } else { u64::from(platform.cpus.saturating_add(platform.other_cpus)) }
}

/// Requests that a device takes at a time, and those that its driver may have taken. A limit that is set is one of the driver, whatever the device takes.
fn in_device(profile: &Profile, (driver, limit): (DiskDriver, Option<u32>)) -> (u64, u64) {
    let depth = profile.depth() as u64;
    let taken = match driver {
        DiskDriver::OfDisk => depth,
        DiskDriver::Loop { tags } => tags.map_or(depth, u64::from).max(depth),
    };
    (depth, limit.map_or(taken, u64::from))
}

fn beside(
    workload: &Workload,
    disk: &Disk,
    (flusher, largest, cpus): (u64, u64, u32),
    guaranteed: impl Fn(&Stream) -> bool,
) -> Result<Beside, String> {
    let is_here = |name: &Option<String>| name.as_deref() == Some(disk.name.as_str());
    if let Some(startup) = workload.startups.iter().find(|startup| is_here(&startup.disk)) {
        return Err(format!("`{}` starts from its disk, and what that asks for is not known", startup.name));
    }
    if let Some(on) = workload.disks.iter().find(|other| is_here(&other.on)) {
        return Err(format!(
            "`{}` is a virtual machine's on its disk, and what that asks for is not known",
            on.name
        ));
    }
    let mut found = Beside::default();
    let mut is_flushed = false;
    for load in workload.loads.iter().filter(|load| is_here(&load.disk)) {
        is_flushed |= of_load(&mut found, load, largest, cpus)?;
    }
    let plain: Vec<&Stream> =
        workload.streams.iter().filter(|stream| is_here(&stream.disk) && !guaranteed(stream)).collect();
    for stream in plain.iter().filter(|stream| stream.batch.is_none()) {
        is_flushed |= of_plain(&mut found, stream, largest)?;
    }
    of_batches(&mut found, &plain, largest);
    // Each write of a stream changes its inode, which the flusher writes later.
    let is_writer = |s: &&Stream| is_here(&s.disk) && guaranteed(s) && s.direction == Direction::Write;
    for stream in workload.streams.iter().filter(is_writer) {
        found.writing(u64::from(stream.count), PAGE);
        found.flushing += u64::from(stream.count);
    }
    if is_flushed {
        found.writing(flusher, PAGE);
        found.overlap = true;
    }
    Ok(found)
}

/// Adds what a stream asks for that is read or written one access at a time; whether it leaves pages to the flusher, as accesses do that are not whole pages.
fn of_plain(found: &mut Beside, stream: &Stream, largest: u64) -> Result<bool, String> {
    if matches!(stream.io_priority, Some(IoPriority::Realtime(_))) {
        return Err(format!("stream {} has realtime I/O priority and no `batch`", stream.name));
    }
    let (access, count) = (stream.access_bytes(), u64::from(stream.count));
    let each = access.div_ceil(largest) + 1;
    if stream.direction == Direction::Read {
        found.requests += each.max(WINDOWS) * count;
        return Ok(false);
    }
    found.writing(each * count, PAGE);
    found.flushing += count;
    // It begins its file again.
    found.overlap = true;
    Ok(!access.is_multiple_of(PAGE))
}

/// Adds what streams ask for that are fetched in batches at best effort. Those of one I/O priority have a thread with two batches in the device at most
/// (`surety_stream::Station`); with a bound, or where they overlap, each has its own.
fn of_batches(found: &mut Beside, plain: &[&Stream], largest: u64) {
    let mut threads: BTreeMap<Option<IoPriority>, Vec<&Stream>> = BTreeMap::new();
    for stream in plain.iter().filter(|stream| stream.batch.is_some()) {
        threads.entry(stream.io_priority).or_default().push(stream);
    }
    let each = |stream: &Stream| stream.batch.map_or(0, |batch| batch.0.div_ceil(largest) + 1);
    for streams in threads.values() {
        let all = streams.iter().map(|s| each(s) * u64::from(s.count) * if s.overlap { 2 } else { 1 }).sum();
        let two = streams.iter().map(|s| each(s)).max().unwrap_or(0) * 2;
        let is_apart = streams.iter().any(|stream| stream.overlap || stream.bound.is_some());
        let requests = if is_apart { all } else { two.min(all) };
        let writers = streams.iter().filter(|stream| stream.direction == Direction::Write);
        match writers.map(|stream| u64::from(stream.count)).sum() {
            0 => found.requests += requests,
            writers => {
                found.writing(requests, PAGE);
                found.flushing += writers;
                found.overlap = true;
            }
        }
    }
}

/// Adds what a load asks for; whether it leaves pages to the flusher.
fn of_load(found: &mut Beside, load: &Load, largest: u64, cpus: u32) -> Result<bool, String> {
    if matches!(load.io_priority, Some(IoPriority::Realtime(_))) {
        return Err(format!("load {} has realtime I/O priority itself", load.name));
    }
    load.check_sizes().map_err(|why| format!("load {}: {why}", load.name))?;
    let (block, count) = (load.block().0, u64::from(load.count.on(cpus)));
    let direct = block.div_ceil(largest) + u64::from(!block.is_multiple_of(PAGE));
    let shortest = if block.is_multiple_of(largest) { largest } else { block % largest };
    let reads = if load.direct { direct } else { WINDOWS.max(direct) };
    match load.kind.row().file_use {
        Some(FileUse::Reads) => found.requests += reads * count,
        Some(FileUse::Writes | FileUse::Copies) => {
            found.flushing += count;
            found.overlap |= load.random;
            if load.kind.row().file_use == Some(FileUse::Copies) {
                found.requests += reads * count;
            }
            if !load.direct {
                return Ok(true);
            }
            found.writing(direct * count, shortest.max(SECTOR));
        }
        Some(FileUse::Syncs) => {
            found.flushing += count;
            return Ok(true);
        }
        None => return Err(format!("what load {} asks of the disk is not known", load.name)),
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use surety_model::formats::toml;

    use super::*;

    /// What the page cache writes takes the whole queue, what `async_depth` leaves of it, or what is throttled: that of the driver's tags, which a loop device has more of.
    #[test]
    fn what_is_throttled_leaves_places_to_streams() {
        let of = |keys: &str, driver| {
            let text = format!(
                "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nscheduler = 'mq-deadline'\n{keys}\n\
                 [[load]]\nname = 'w'\nkind = 'writers'\ndisk = 'd'\n"
            );
            let workload = toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
            let platform = Platform { disk_driver: driver, ..Platform::linux_6_18(2) };
            let found =
                terms(&workload, &workload.disks[0], (&platform, &BTreeMap::new()), |_| true).unwrap();
            (found.requests, found.beside_writes, found.write_requests)
        };
        let looped = DiskDriver::Loop { tags: Some(128) };
        for (keys, driver, expected) in [
            ("", DiskDriver::OfDisk, (64, 64, 64)),
            ("wbt = '0s'", DiskDriver::OfDisk, (64, 64, 64)),
            ("wbt = '1ms'", DiskDriver::OfDisk, (64, 24, 64)),
            ("wbt = '1ms'", looped, (256, 96, 256)),
            ("wbt = '1ms'\ntunables = { async_depth = 8 }", looped, (256, 8, 8)),
        ] {
            assert_eq!(of(keys, driver), expected, "{keys} {driver:?}");
        }
    }
    /// What a disk takes is that of the sectors that it is made with: the movement over them and the slowest zone among them, not those of all of its model.
    #[test]
    fn zones_are_those_of_the_disk_that_is_made() {
        let of = |model: &str, make: &str| {
            let text =
                format!("format = 1\n[disk.d]\nmodel = '{model}'\nscheduler = 'mq-deadline'\n{make}\n");
            let workload = toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
            let platform = Platform::linux_6_18(2);
            terms(&workload, &workload.disks[0], (&platform, &BTreeMap::new()), |_| true).unwrap().read
        };
        let sizes = ["make = '1GiB'", "make = '900GB'", "make = '4TB'", ""];
        let [outer, more, half, all] = sizes.map(|make| of("hdd-7200", make));
        assert!(outer.rate > more.rate && more.rate > half.rate && half.rate > all.rate, "{outer:?} {all:?}");
        assert!(outer.fixed < half.fixed && half.fixed < all.fixed, "{outer:?} {half:?} {all:?}");
        // A disk of one zone has its seeks alone.
        let [small, whole] = ["make = '1GiB'", ""].map(|make| of("hdd-2004", make));
        assert!(small.rate == whole.rate && small.fixed < whole.fixed, "{small:?} {whole:?}");
    }

    /// Each CPU may have a request that the driver has no room for, isolated ones too, unless the driver is asked first; a commit and flushes are there where
    /// somebody writes.
    #[test]
    fn what_goes_before_a_batch_is_counted() {
        let of = |keys: &str, load: &str, platform: Platform| {
            let text = format!(
                "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nscheduler = 'mq-deadline'\n{keys}\n\
                 [[load]]\nname = 'l'\nkind = '{load}'\ncount = 9\ndisk = 'd'\n"
            );
            let workload = toml::read("w.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
            let found =
                terms(&workload, &workload.disks[0], (&platform, &BTreeMap::new()), |_| true).unwrap();
            (found.inside, found.handing_on, found.commits, found.flushes)
        };
        let plain = Platform::linux_6_18;
        let looped = |cpus, other_cpus| Platform {
            disk_driver: DiskDriver::Loop { tags: Some(128) },
            other_cpus,
            ..plain(cpus)
        };
        for (keys, load, platform, expected) in [
            ("", "readers", plain(2), (1, 0, false, 0)),
            ("depth = 4", "readers", plain(2), (6, 2, false, 0)),
            ("depth = 4", "readers", looped(2, 0), (6, 2, false, 0)),
            ("depth = 4", "readers", looped(3, 5), (12, 8, false, 0)),
            ("depth = 4", "writers", looped(1, 0), (5, 1, true, 11)),
            ("depth = 4\njournal = false", "writers", looped(1, 0), (5, 1, false, 9)),
        ] {
            assert_eq!(of(keys, load, platform), expected, "{keys} {load}");
        }
    }
}
