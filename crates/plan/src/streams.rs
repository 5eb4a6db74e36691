//! Streams with a promise, admitted to their disks ([`surety_analysis::streams`]) in the order of the workload: one that does not fit
//! beside those before it is refused.
//!
//! The disks are set as the bounds need it (`settings`), and the threads that serve the streams have what the reservations of the same plan
//! leave of the CPUs ([`surety_analysis::serving`]). What the admission starts from is kept in the plan, so that it can be made again.

pub(crate) mod best_effort;
mod disk;
mod proof;
mod settings;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use surety_analysis::beside;
use surety_analysis::foundation::ReservedThread;
use surety_analysis::serving::{CpuPart, ServedStream, cpu_part, taken, with_streams};
use surety_analysis::streams::{Sizes, memory_for_buffers};
use surety_device::profile::Profile;
use surety_model::formats::toml;
use surety_model::plan::{PlannedDisk, PlannedStream};
use surety_model::platform::{DiskDriver, Platform};
use surety_model::playout::{AHEAD, buffer_of, in_whole_batches};
use surety_model::promise::{Comparison, Metric, Promise};
use surety_model::workload::{BatchMode, Disk, IoPriority, Stream, Task, Workload};
use surety_units::{Bytes, Nanos};

use crate::refusal::Refused;
use crate::streams::disk::Asked;

pub use surety_analysis::streams::{CPU, demand, terms};

/// What is planned, and what that is computed from.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    /// Texts of models that are files, by their paths.
    pub files: &'a BTreeMap<String, String>,
    /// Where only some batches are tried it is only looked whether there is a plan, of which another may be better.
    pub sizes: Sizes,
}

/// A promise of a stream that is refused, with its stream's name.
pub(crate) type RefusedOf = (String, Promise, Refused);

/// What streams without a `jitter` of their own may save of their rate: around what they may save without a plan.
const JITTERS: [Nanos; 8] = [
    Nanos::from_millis(20),
    Nanos::from_millis(50),
    Nanos::from_millis(100),
    Nanos::from_millis(200),
    AHEAD,
    Nanos::from_secs(1),
    Nanos::from_secs(2),
    Nanos::from_secs(4),
];

/// So often the CPU's part is computed again for batches that were chosen smaller than it was computed for, beside once for each refused stream whose thread is fair.
const ROUNDS: usize = 8;

/// What every stream with a promise gets, and what is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedStreams {
    pub streams: Vec<PlannedStream>,
    pub disks: Vec<PlannedDisk>,
    /// What it starts from; none where nothing is planned.
    pub asked: Option<String>,
    /// Texts of the models that it names.
    pub models: BTreeMap<String, String>,
    pub refused: Vec<RefusedOf>,
}

impl PlannedStreams {
    fn refuse(&mut self, stream: &Stream, why: &Refused) {
        let each = stream.promises.iter().map(|promise| (stream.name.clone(), *promise, why.clone()));
        self.refused.extend(each);
    }

    fn memory(&self, workload: &Workload) -> u64 {
        memory_of(&self.streams, workload)
    }
}

/// Bytes of the buffers of planned streams, in whole batches: they are locked.
pub fn memory_of(streams: &[PlannedStream], workload: &Workload) -> u64 {
    let of = |planned: &PlannedStream| {
        let stream = workload.streams.iter().find(|stream| stream.name == planned.activity);
        let (batch, buffer) = (planned.reservation.batch.0, planned.reservation.buffer.0);
        in_whole_batches(buffer, batch).saturating_mul(stream.map_or(1, |s| s.count.into()))
    };
    streams.iter().map(of).fold(0, u64::saturating_add)
}

/// Whether a stream is served before best effort by who fetches ahead: with a promise under a plan, or with a batch.
pub(crate) fn is_served(stream: &Stream) -> bool {
    stream.batch.is_some() || is_asked(stream)
}

/// What its batches are taken to be before they are chosen.
pub(crate) fn assumed_batch(stream: &Stream) -> u64 {
    stream.batch.map_or_else(|| stream.access_bytes(), |bytes| bytes.0)
}

fn is_longest(stream: &Stream) -> bool {
    stream.mode == BatchMode::Longest
}

fn is_asked(stream: &Stream) -> bool {
    !is_longest(stream) && !stream.promises.is_empty() && stream.promises.iter().all(is_kept_by_admission)
}

/// Promises that follow when nothing is late.
fn is_kept_by_admission(promise: &Promise) -> bool {
    let counts = matches!(promise.metric, Metric::Late | Metric::Missed | Metric::Dropped);
    let is_upper = matches!(promise.comparison, Comparison::AtMost | Comparison::Equal);
    (counts && is_upper) || promise.response_limit().is_some()
}

/// Plans every stream with a promise, beside these reserved threads, each with its activity's name.
pub(crate) fn plan_streams(ground: &Ground<'_>, threads: &[(String, ReservedThread)]) -> PlannedStreams {
    let Ground { workload, platform, .. } = *ground;
    let mut unasked = PlannedStreams::default();
    for stream in workload.streams.iter().filter(|stream| !stream.promises.is_empty()) {
        if !workload.disks.iter().any(|disk| is_on(stream, disk)) {
            let because =
                "it is on no disk of the workload, so nothing bounds how long that takes: give it `disk`";
            unasked.refuse(stream, &Refused::plainly(because));
        } else if let Some(other) = stream.promises.iter().find(|promise| !is_kept_by_admission(promise)) {
            let because = format!("an admission keeps `late == 0` and responses, not `{other}`");
            unasked.refuse(stream, &Refused::plainly(because));
        } else if is_longest(stream) {
            let because = "with `mode = \"longest\"` a batch is not asked for as soon as there is room for it: leave `mode` out";
            unasked.refuse(stream, &Refused::plainly(because));
        }
    }
    let asked: Vec<&Stream> = workload
        .streams
        .iter()
        .filter(|stream| is_asked(stream) && workload.disks.iter().any(|disk| is_on(stream, disk)))
        .collect();
    if asked.is_empty() {
        return unasked;
    }
    let one = with_overlap(ground, threads, &asked, false, unasked.clone());
    // Two at a time are for disks where best effort gets in between, and only where all that is served has two: that is what the CPU's part is computed of.
    let has_gaps = matches!(platform.disk_driver, DiskDriver::Loop { .. })
        || workload.disks.iter().any(|disk| disk.depth.is_some())
        || one.disks.iter().any(|disk| disk.depth.is_some());
    let all_may = workload.streams.iter().filter(|s| is_served(s)).all(|s| s.overlap || is_asked(s));
    let will_do = ground.sizes == Sizes::Few && one.refused.is_empty();
    if !has_gaps || !all_may || will_do {
        return one;
    }
    let two = with_overlap(ground, threads, &asked, true, unasked);
    let order = |planned: &PlannedStreams| (Reverse(planned.streams.len()), planned.memory(workload));
    let names =
        |of: &PlannedStreams| of.refused.iter().map(|(name, ..)| name.clone()).collect::<BTreeSet<_>>();
    if order(&two) >= order(&one) || !names(&two).is_subset(&names(&one)) {
        return one;
    }
    // What is refused either way is told why it is with one at a time, which is what the workload asked for.
    let still = names(&two);
    let refused = one.refused.into_iter().filter(|(name, ..)| still.contains(name)).collect();
    PlannedStreams { refused, ..two }
}

/// Plans what is asked with two batches of each stream in the block layer, or as the workload says.
fn with_overlap<'w>(
    ground: &Ground<'w>,
    threads: &[(String, ReservedThread)],
    asked: &[&'w Stream],
    overlap: bool,
    mut unasked: PlannedStreams,
) -> PlannedStreams {
    let workload = ground.workload;
    let served: Vec<&Stream> = workload.streams.iter().filter(|stream| is_served(stream)).collect();
    let at_first: BTreeMap<String, (u64, Nanos)> =
        served.iter().map(|stream| first_assumed(stream)).collect();
    let mut assumed = at_first.clone();
    // What is refused runs as it would without its promise, and its batches are as many as it has credit for.
    let mut lowered: BTreeSet<String> = unasked.refused.iter().map(|(name, ..)| name.clone()).collect();
    for _ in 0..ROUNDS + asked.len() {
        // One that is refused and not fetched in batches is read by a fair thread, which takes nothing of the CPUs before those of the others; and it stays refused.
        let is_fair = |stream: &&&Stream| stream.batch.is_none() && lowered.contains(&stream.name);
        let left = |of: &[&'w Stream]| of.iter().filter(|s| !is_fair(s)).copied().collect::<Vec<&Stream>>();
        let (served, asked) = (left(&served), left(asked));
        let set: Vec<Stream> = served
            .iter()
            .map(|s| as_served(s, assumed[&s.name], (lowered.contains(&s.name), overlap)))
            .collect();
        let with: Vec<ServedStream<'_>> =
            set.iter().map(|stream| (stream, assumed[&stream.name].0)).collect();
        let cpu = match cpu_left(ground, threads, (&served, &with)) {
            Ok(cpu) => cpu,
            Err(why) => {
                // Without the one that takes most there may be time for the others; one that is fetched in batches takes it all the same.
                let Some(most) = heaviest(asked.iter().filter(|s| s.batch.is_none()).copied()) else {
                    asked.iter().for_each(|stream| unasked.refuse(stream, &why));
                    return unasked;
                };
                unasked.refuse(most, &why);
                lowered.insert(most.name.clone());
                assumed.clone_from(&at_first);
                continue;
            }
        };
        let found = on_all_disks(ground, &asked, (&cpu, overlap), unasked.clone());
        let is_new = |(name, ..): &&RefusedOf| !lowered.contains(name);
        let is_fetched = |name: &str| served.iter().any(|s| s.name == name && s.batch.is_some());
        let (fetched, plain): (Vec<RefusedOf>, Vec<RefusedOf>) =
            found.refused.iter().filter(is_new).cloned().partition(|(name, ..)| is_fetched(name));
        let is_refused = |stream: &&Stream| plain.iter().any(|(name, ..)| *name == stream.name);
        if let Some(most) = heaviest(served.iter().copied().filter(is_refused)) {
            unasked.refused.extend(plain.iter().filter(|(of, ..)| *of == most.name).cloned());
            lowered.insert(most.name.clone());
            assumed.clone_from(&at_first);
            continue;
        }
        let mut takes_more = !fetched.is_empty() && set.iter().all(|stream| stream.overlap);
        lowered.extend(fetched.into_iter().map(|(name, ..)| name));
        for planned in &found.streams {
            let Some((batch, jitter)) = assumed.get_mut(&planned.activity) else { continue };
            let (chosen, saved) = (planned.reservation.batch.0, planned.reservation.jitter);
            takes_more |= chosen < *batch || saved > *jitter;
            (*batch, *jitter) = ((*batch).min(chosen), (*jitter).max(saved));
        }
        if !takes_more {
            return found;
        }
    }
    let why =
        Refused::infeasible("no batch was found for which its threads have a CPU in time: give it `batch`");
    let is_left = |stream: &&Stream| unasked.refused.iter().all(|(name, ..)| *name != stream.name);
    let left: Vec<&Stream> = asked.iter().copied().filter(is_left).collect();
    left.into_iter().for_each(|stream| unasked.refuse(stream, &why));
    unasked
}

/// What the CPUs leave the threads of streams that are served with these batches.
fn cpu_left(
    ground: &Ground<'_>,
    threads: &[(String, ReservedThread)],
    (served, with): (&[&Stream], &[ServedStream<'_>]),
) -> Result<CpuPart, Refused> {
    let is_reserved = |name: &str| threads.iter().any(|(planned, _)| planned == name);
    let bare: Vec<ReservedThread> = threads.iter().map(|(_, thread)| *thread).collect();
    let platform = with_demand_of(ground, served, is_reserved);
    cpu_part(with, &bare, ground.workload, &platform, is_reserved)
        .map_err(|why| Refused::infeasible(format!("its threads have no CPU within a bound: {why}")))
}

/// Of streams the one whose thread takes most: without it others may be admitted.
fn heaviest<'w>(streams: impl Iterator<Item = &'w Stream>) -> Option<&'w Stream> {
    streams.max_by_key(|stream| taken(&[(*stream, assumed_batch(stream))], Nanos::SECOND))
}

/// A stream's batch and jitter as they are assumed at first: smaller batches, or a longer jitter, would take more of the CPUs.
fn first_assumed(stream: &Stream) -> (String, (u64, Nanos)) {
    let jitter = stream.jitter.unwrap_or(if stream.batch.is_some() { AHEAD } else { JITTERS[0] });
    (stream.name.clone(), (assumed_batch(stream), jitter))
}

/// The platform with what realtime threads take in a period of the fair server, of streams those that are `served` before fair ones.
fn with_demand_of(ground: &Ground<'_>, served: &[&Stream], is_reserved: impl Fn(&str) -> bool) -> Platform {
    let Ground { workload, platform, .. } = *ground;
    let stays = |task: &Task| task.reservation.is_none() && !is_reserved(&task.name);
    let tasks = beside::realtime(workload, platform, stays);
    let is_one = |stream: &Stream| served.iter().any(|one| one.name == stream.name);
    Platform { realtime: with_streams(tasks, workload, platform, is_one), ..platform.clone() }
}

/// A stream as it is served with a batch and a jitter that are assumed, where it is lowered, or with two batches in the block layer where it is asked for.
fn as_served(stream: &Stream, (batch, jitter): (u64, Nanos), (is_lowered, overlap): (bool, bool)) -> Stream {
    let mut served = Stream { batch: Some(Bytes(batch)), jitter: Some(jitter), ..stream.clone() };
    if is_lowered {
        lower(&mut served);
    } else if is_asked(stream) {
        served.overlap |= overlap;
        served.io_priority = Some(IoPriority::Realtime(0));
    }
    served
}

fn is_on(stream: &Stream, disk: &Disk) -> bool {
    stream.disk.as_deref() == Some(disk.name.as_str())
}

/// Bytes of the buffers of a stream that has a batch of its own, in whole batches.
fn buffers_of(stream: &Stream) -> u64 {
    let batch = stream.batch.map_or(0, |bytes| bytes.0);
    in_whole_batches(buffer_of(stream, batch), batch).saturating_mul(stream.count.into())
}

/// Bytes of the buffers of streams that are not asked for and do not go first on a disk, where they are counted as the asked ones are.
fn unasked_memory(workload: &Workload, asked: &[&Stream], disk: &Disk) -> u64 {
    let is_other = |stream: &&Stream| {
        let is_counted = is_on(stream, disk) && stream.goes_first() && stream.promises.is_empty();
        !is_counted && asked.iter().all(|asked| asked.name != stream.name)
    };
    workload.streams.iter().filter(is_other).map(buffers_of).fold(0, u64::saturating_add)
}

/// A stream that is refused, as it runs beside those that are not: as one that asks for nothing.
fn lower(stream: &mut Stream) {
    stream.promises.clear();
    stream.lower();
}

/// A workload with some streams refused.
fn with_lowered(workload: &Workload, is_refused: impl Fn(&Stream) -> bool) -> Workload {
    let mut lowered = workload.clone();
    lowered.streams.iter_mut().filter(|stream| is_refused(stream)).for_each(lower);
    lowered
}

/// Plans what is asked of each disk.
fn on_all_disks(
    ground: &Ground<'_>,
    asked: &[&Stream],
    (cpu, overlap): (&CpuPart, bool),
    mut found: PlannedStreams,
) -> PlannedStreams {
    let Ground { workload, platform, files, .. } = *ground;
    for disk in &workload.disks {
        let names: BTreeSet<&str> =
            asked.iter().filter(|stream| is_on(stream, disk)).map(|stream| stream.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        // Of one machine's memory, what the disks before leave, and streams that nobody asks a guarantee for.
        let taken = found.memory(workload).saturating_add(unasked_memory(workload, asked, disk));
        let memory = memory_for_buffers(platform).saturating_sub(taken);
        let set = Asked { ground: *ground, disk, names, memory, cpu, overlap };
        let (answer, refused) = set.settled();
        found.streams.extend(answer.streams);
        found.disks.extend(answer.disk);
        for (name, why) in &refused {
            asked.iter().filter(|stream| stream.name == *name).for_each(|stream| found.refuse(stream, why));
        }
    }
    if !found.streams.is_empty() {
        (found.asked, found.models) = (Some(asked_of(workload)), models_of(workload, files));
    }
    found
}

/// Of a workload, what admissions of streams start from, as a workload file: what a plan says in `asked`.
pub fn asked_of(workload: &Workload) -> String {
    toml::write(&excerpt(workload))
}

/// Texts of the models that disks of a workload name as files, of all that are known by their paths: what a plan says in `models`.
pub fn models_of(workload: &Workload, files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let models = workload.disks.iter().filter_map(|disk| disk.model.as_deref());
    models.flat_map(|model| Profile::texts_of(model, files)).collect()
}

fn excerpt(workload: &Workload) -> Workload {
    let mut part = Workload {
        disks: workload.disks.clone(),
        streams: workload.streams.clone(),
        irqs: workload.irqs.clone(),
        groups: workload.groups.clone(),
        ..Workload::default()
    };
    let tasks = workload.tasks.iter().filter(|task| task.policy.is_realtime());
    part.tasks = tasks.cloned().collect();
    let loads = workload.loads.iter().filter(|load| load.disk.is_some() || load.policy.is_realtime());
    part.loads = loads.cloned().collect();
    part
}
