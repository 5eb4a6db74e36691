//! Streams with a promise, admitted to their disks ([`surety_analysis::streams`]) in the order of the workload: one that does not fit
//! beside those before it is refused, with the nearest that does.
//!
//! The disks are set as the bounds need it (`settings`), and the threads that serve the streams have what the reservations of the same plan
//! leave of the CPUs ([`surety_analysis::serving`]). What the admission starts from is kept in the plan, so that it can be made again.

mod proof;
mod settings;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use surety_analysis::foundation::ReservedThread;
use surety_analysis::serving::{CpuPart, ServedStream, cpu_part};
use surety_analysis::streams::{
    Admission, DiskTerms, Floors, Level, Nearest, StreamDemand, admit, memory_for_buffers, nearest,
};
use surety_model::formats::toml;
use surety_model::plan::{PlannedDisk, PlannedStream};
use surety_model::platform::{DiskDriver, Platform};
use surety_model::playout::{AHEAD, buffer_of, in_whole_batches};
use surety_model::promise::{Comparison, Metric, Promise};
use surety_model::reservation::DiskReservation;
use surety_model::workload::{BatchMode, Disk, IoPriority, Stream, Workload};
use surety_units::{Bytes, Nanos, Rate};

use crate::refusal::Refused;
use crate::streams::proof::{Granted, proof};
use crate::streams::settings::{Candidate, candidates};

pub use surety_analysis::streams::{CPU, demand, terms};

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

/// So often the CPU's part is computed again for batches that were chosen smaller than it was computed for.
const ROUNDS: usize = 8;

/// What every stream with a promise gets, and what is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedStreams {
    pub streams: Vec<PlannedStream>,
    pub disks: Vec<PlannedDisk>,
    /// What it starts from; none where nothing is planned.
    pub asked: Option<String>,
    pub refused: Vec<RefusedOf>,
}

impl PlannedStreams {
    fn refuse(&mut self, stream: &Stream, why: &Refused) {
        let each = stream.promises.iter().map(|promise| (stream.name.clone(), *promise, why.clone()));
        self.refused.extend(each);
    }

    /// Bytes of all buffers, in whole batches.
    fn memory(&self, workload: &Workload) -> u64 {
        let of = |planned: &PlannedStream| {
            let stream = workload.streams.iter().find(|stream| stream.name == planned.activity);
            let (batch, buffer) = (planned.reservation.batch.0, planned.reservation.buffer.0);
            in_whole_batches(buffer, batch).saturating_mul(stream.map_or(1, |s| s.count.into()))
        };
        self.streams.iter().map(of).fold(0, u64::saturating_add)
    }
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
pub(crate) fn plan_streams(
    workload: &Workload,
    platform: &Platform,
    threads: &[(String, ReservedThread)],
) -> PlannedStreams {
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
    let one = with_overlap((workload, platform), threads, &asked, false, unasked.clone());
    // Two at a time are for disks where best effort gets in between, and only where all that is served has two: that is what the CPU's part is computed of.
    let has_gaps = matches!(platform.disk_driver, DiskDriver::Loop { .. })
        || workload.disks.iter().any(|disk| disk.depth.is_some())
        || one.disks.iter().any(|disk| disk.depth.is_some());
    let all_may = workload.streams.iter().filter(|s| is_served(s)).all(|s| s.overlap || is_asked(s));
    if !has_gaps || !all_may {
        return one;
    }
    let two = with_overlap((workload, platform), threads, &asked, true, unasked);
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
fn with_overlap(
    (workload, platform): (&Workload, &Platform),
    threads: &[(String, ReservedThread)],
    asked: &[&Stream],
    overlap: bool,
    mut unasked: PlannedStreams,
) -> PlannedStreams {
    let served: Vec<&Stream> = workload.streams.iter().filter(|stream| is_served(stream)).collect();
    // Batches and jitters as they are assumed: smaller ones, or more, would take more of the CPUs.
    let first = |stream: &&Stream| {
        let jitter = stream.jitter.unwrap_or(if stream.batch.is_some() { AHEAD } else { JITTERS[0] });
        (stream.name.clone(), (assumed_batch(stream), jitter))
    };
    let mut assumed: BTreeMap<String, (u64, Nanos)> = served.iter().map(first).collect();
    let bare: Vec<ReservedThread> = threads.iter().map(|(_, thread)| *thread).collect();
    // What is refused runs as it would without its promise, and its batches are as many as it has credit for.
    let mut lowered: BTreeSet<String> = unasked.refused.iter().map(|(name, ..)| name.clone()).collect();
    for _ in 0..ROUNDS {
        let as_served = |s: &&Stream| {
            let (batch, jitter) = assumed[&s.name];
            let mut stream = Stream { batch: Some(Bytes(batch)), jitter: Some(jitter), ..Stream::clone(s) };
            if lowered.contains(&s.name) {
                lower(&mut stream);
            } else if is_asked(s) {
                stream.overlap |= overlap;
                stream.io_priority = Some(IoPriority::Realtime(0));
            }
            stream
        };
        let set: Vec<Stream> = served.iter().map(as_served).collect();
        let with: Vec<ServedStream<'_>> =
            set.iter().map(|stream| (stream, assumed[&stream.name].0)).collect();
        let is_reserved = |name: &str| threads.iter().any(|(planned, _)| planned == name);
        let cpu = match cpu_part(&with, &bare, workload, platform, is_reserved) {
            Ok(cpu) => cpu,
            Err(why) => {
                let why = Refused::plainly(format!("its threads have no CPU within a bound: {why}"));
                asked.iter().for_each(|stream| unasked.refuse(stream, &why));
                return unasked;
            }
        };
        let found = on_all_disks((workload, platform), asked, (&cpu, overlap), unasked.clone());
        let fetched = |name: &String| served.iter().any(|s| s.name == *name && s.batch.is_some());
        let refused: Vec<String> =
            found.refused.iter().map(|(name, ..)| name.clone()).filter(fetched).collect();
        let mut takes_more = false;
        for name in refused {
            takes_more |= lowered.insert(name) && set.iter().all(|stream| stream.overlap);
        }
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
        Refused::plainly("no batch was found for which its threads have a CPU in time: give it `batch`");
    asked.iter().for_each(|stream| unasked.refuse(stream, &why));
    unasked
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
    (workload, platform): (&Workload, &Platform),
    asked: &[&Stream],
    (cpu, overlap): (&CpuPart, bool),
    mut found: PlannedStreams,
) -> PlannedStreams {
    for disk in &workload.disks {
        let names: BTreeSet<&str> =
            asked.iter().filter(|stream| is_on(stream, disk)).map(|stream| stream.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        // Of one machine's memory, what the disks before leave, and streams that nobody asks a guarantee for.
        let taken = found.memory(workload).saturating_add(unasked_memory(workload, asked, disk));
        let memory = memory_for_buffers(platform).saturating_sub(taken);
        let set = Asked { workload, platform, disk, names, memory, cpu, overlap };
        let (answer, refused) = set.settled();
        found.streams.extend(answer.streams);
        found.disks.extend(answer.disk);
        for (name, why) in &refused {
            asked.iter().filter(|stream| stream.name == *name).for_each(|stream| found.refuse(stream, why));
        }
    }
    if !found.streams.is_empty() {
        found.asked = Some(asked_of(workload));
    }
    found
}

/// Of a workload, what admissions of streams start from, as a workload file: what a plan says in `asked`.
pub fn asked_of(workload: &Workload) -> String {
    toml::write(&excerpt(workload))
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

/// What is asked of one disk, by the names of the streams.
struct Asked<'a> {
    workload: &'a Workload,
    platform: &'a Platform,
    disk: &'a Disk,
    names: BTreeSet<&'a str>,
    /// Bytes that all buffers may have.
    memory: u64,
    cpu: &'a CpuPart,
    /// Whether they have two batches in the block layer.
    overlap: bool,
}

/// What streams get of a disk.
#[derive(Default)]
struct Answer {
    streams: Vec<PlannedStream>,
    /// How it is set, where there are any.
    disk: Option<PlannedDisk>,
    /// Who gets nothing, and why.
    refused: Vec<(String, Refused)>,
}

impl Asked<'_> {
    /// What the streams get, and who is refused. Those that are refused run on at best effort, beside which the others have to be admitted: each round refuses one more at least, or
    /// nobody, and then it is settled.
    fn settled(&self) -> (Answer, Vec<(String, Refused)>) {
        let mut refused: Vec<(String, Refused)> = Vec::new();
        loop {
            let left: BTreeSet<&str> = self
                .names
                .iter()
                .filter(|name| refused.iter().all(|(other, _)| other != **name))
                .copied()
                .collect();
            let lowered = self.lowered(&left);
            let beside: Vec<&str> = refused.iter().map(|(name, _)| name.as_str()).collect();
            let (candidate, answer) = self.best(&lowered, &left, &beside);
            let is_settled = answer.refused.is_empty();
            refused.extend(answer.refused.iter().cloned());
            if is_settled || refused.len() == self.names.len() {
                let answer = if is_settled { answer } else { Answer::default() };
                // With two at a time nobody is told: what is refused is told of with one ([`plan_streams`]).
                if let Some(candidate) = candidate.filter(|_| !self.overlap) {
                    self.name_nearest(&answer, &candidate, &mut refused);
                }
                return (answer, refused);
            }
        }
    }

    /// The workload with all streams of the disk refused that have a promise and are not `left`.
    fn lowered(&self, left: &BTreeSet<&str>) -> Workload {
        let is_refused = |stream: &Stream| {
            is_on(stream, self.disk) && !stream.promises.is_empty() && !left.contains(stream.name.as_str())
        };
        with_lowered(self.workload, is_refused)
    }

    /// The setting of the disk that admits most of the streams that are `left`.
    fn best(
        &self,
        lowered: &Workload,
        left: &BTreeSet<&str>,
        beside: &[&str],
    ) -> (Option<Candidate>, Answer) {
        let question = self.question(lowered, left);
        let inside = |disk: &Disk| question.terms(disk).ok().map(|terms| terms.inside);
        let mut best: Option<(Candidate, Answer)> = None;
        for candidate in candidates(lowered, (self.disk, self.overlap), inside) {
            let answer = question.answer(&candidate, beside);
            let is_whole = answer.refused.is_empty();
            let fewer = |(_, best): &(Candidate, Answer)| answer.refused.len() < best.refused.len();
            if best.as_ref().is_none_or(fewer) {
                best = Some((candidate, answer));
            }
            if is_whole {
                break;
            }
        }
        match best {
            Some((candidate, answer)) => (Some(candidate), answer),
            None => (None, Answer::default()),
        }
    }

    fn question<'q>(&'q self, lowered: &'q Workload, left: &'q BTreeSet<&'q str>) -> Question<'q> {
        let here = lowered.streams.iter().filter(|stream| left.contains(stream.name.as_str())).collect();
        // Those that are refused here and have a batch have their buffers all the same.
        let is_lowered =
            |s: &&Stream| self.names.contains(s.name.as_str()) && !left.contains(s.name.as_str());
        let buffers = lowered.streams.iter().filter(is_lowered).map(buffers_of).fold(0, u64::saturating_add);
        let Asked { platform, cpu, overlap, .. } = *self;
        let memory = self.memory.saturating_sub(buffers);
        Question { workload: lowered, platform, here, names: left, memory, cpu, overlap }
    }

    /// Says of each refused stream what would be admitted beside those that are admitted and those that are refused besides.
    fn name_nearest(&self, answer: &Answer, candidate: &Candidate, refused: &mut [(String, Refused)]) {
        for (name, why) in refused {
            let names = answer.streams.iter().map(|planned| planned.activity.as_str());
            let with: BTreeSet<&str> = names.chain([name.as_str()]).collect();
            let lowered = self.lowered(&with);
            let question = self.question(&lowered, &with);
            why.nearest = question.nearest(name, &candidate.disk);
        }
    }
}

/// What is asked of one disk in a round.
struct Question<'a> {
    /// Streams that are refused ask for nothing in it.
    workload: &'a Workload,
    platform: &'a Platform,
    /// The streams that are to be planned, and their names.
    here: Vec<&'a Stream>,
    names: &'a BTreeSet<&'a str>,
    memory: u64,
    cpu: &'a CpuPart,
    overlap: bool,
}

impl Question<'_> {
    fn terms(&self, disk: &Disk) -> Result<DiskTerms, String> {
        let is_first = |stream: &Stream| stream.goes_first() || self.names.contains(stream.name.as_str());
        let found = terms(self.workload, disk, self.platform, is_first)?;
        Ok(DiskTerms { cpu: self.cpu.within, asks: self.cpu.asks, ..found })
    }

    /// What else is to hold.
    fn floors(&self, terms: &DiskTerms) -> Floors {
        Floors { best_effort: floor(terms), memory: Some(self.memory) }
    }

    /// Others that are fetched in batches go before best effort, too.
    fn others(&self, disk: &Disk) -> Vec<&Stream> {
        let is_other =
            |s: &&Stream| is_on(s, disk) && s.goes_first() && !self.names.contains(s.name.as_str());
        self.workload.streams.iter().filter(is_other).collect()
    }

    /// What the streams get of it, set in one way: all of them, or who is refused. `beside` were refused before.
    fn answer(&self, candidate: &Candidate, beside: &[&str]) -> Answer {
        let (mut answer, disk) = (Answer::default(), &candidate.disk);
        let terms = match self.terms(disk) {
            Ok(found) => found,
            Err(why) => {
                let level = Level::Scheduled;
                let because = format!("disk {}: {why}; without a bound it is at most {level}", disk.name);
                let refused = Refused::plainly(because);
                answer.refused = self.here.iter().map(|s| (s.name.clone(), refused.clone())).collect();
                return answer;
            }
        };
        let floors = self.floors(&terms);
        let mut taken = self.others(disk);
        let Some((admission, jitter)) = self.all(&taken, &terms, &floors) else {
            answer.refused = self.one_by_one(taken, (disk, &terms, &floors), beside);
            return answer;
        };
        taken.extend(&self.here);
        for (stream, given) in taken.iter().zip(&admission.streams) {
            if self.names.contains(stream.name.as_str()) {
                let (jitter, overlap) = (stream.jitter.unwrap_or(jitter), stream.overlap || self.overlap);
                let (terms, admission, cpu) = (&terms, &admission, self.cpu);
                let granted = Granted { terms, cpu, admission, given, jitter, overlap };
                answer.streams.push(reserved(stream, disk, &granted));
            }
        }
        answer.disk = Some(candidate.planned());
        answer
    }

    /// What would be admitted of a stream instead, beside the others.
    fn nearest(&self, name: &str, disk: &Disk) -> Vec<String> {
        let Ok(terms) = self.terms(disk) else { return Vec::new() };
        let mut all = self.others(disk);
        all.extend(&self.here);
        let demands: Vec<StreamDemand> = all.iter().map(|stream| self.demand(stream, AHEAD)).collect();
        let place = all.iter().position(|stream| stream.name == name);
        place.map_or(Vec::new(), |place| in_words(&nearest(&demands, place, &terms, &self.floors(&terms))))
    }

    /// All streams beside those of `first`, with the jitter of those that have none of their own: of the ones that will do, with the least memory,
    /// and of these with the least bound. A stream that may save more time of its rate makes up for longer batches, and asks for more at once.
    fn all(&self, first: &[&Stream], terms: &DiskTerms, floors: &Floors) -> Option<(Admission, Nanos)> {
        let all: Vec<&Stream> = first.iter().chain(&self.here).copied().collect();
        let admitted = |jitter: &Nanos| {
            let demands: Vec<StreamDemand> = all.iter().map(|stream| self.demand(stream, *jitter)).collect();
            admit(&demands, terms, floors).ok().map(|admission| (admission, *jitter))
        };
        let longest = |of: &Admission| of.streams.iter().map(|given| given.at_start).max();
        // Memory is of whole batches, and of buffers that are still to be chosen.
        let memory = |of: &Admission| -> u64 {
            let chosen = all.iter().zip(&of.streams).filter(|(stream, _)| stream.buffer.is_none());
            let each = chosen.map(|(stream, given)| {
                in_whole_batches(given.buffer, given.batch).saturating_mul(stream.count.into())
            });
            each.fold(0, u64::saturating_add)
        };
        JITTERS.iter().filter_map(admitted).min_by_key(|(of, _)| (memory(of), longest(of)))
    }

    fn demand(&self, stream: &Stream, jitter: Nanos) -> StreamDemand {
        let asked = demand(stream);
        if !self.names.contains(stream.name.as_str()) {
            return asked;
        }
        let jitter = if stream.jitter.is_none() { jitter } else { asked.jitter };
        StreamDemand { jitter, overlap: asked.overlap || self.overlap, ..asked }
    }

    /// One stream after the other beside those that are `taken`, which it joins where it is admitted: who is refused.
    fn one_by_one<'s>(
        &'s self,
        mut taken: Vec<&'s Stream>,
        (disk, terms, floors): (&Disk, &DiskTerms, &Floors),
        beside: &[&str],
    ) -> Vec<(String, Refused)> {
        let mut refused = Vec::new();
        let with = match beside {
            [] => String::new(),
            names => format!(", with {} at best effort", names.join(", ")),
        };
        for stream in &self.here {
            taken.push(stream);
            let demands: Vec<StreamDemand> = taken.iter().map(|stream| self.demand(stream, AHEAD)).collect();
            if let Err(why) = admit(&demands, terms, floors) {
                let who = taken.get(why.stream).map_or("", |stream| stream.name.as_str());
                let of =
                    if who == stream.name { String::new() } else { format!("beside it, stream {who}: ") };
                let because = format!("disk {}{with}: {of}{}", disk.name, why.why);
                refused.push((stream.name.clone(), Refused::plainly(because)));
                taken.pop();
            }
        }
        refused
    }
}

/// What a stream is given, with its proof.
fn reserved(stream: &Stream, disk: &Disk, granted: &Granted<'_>) -> PlannedStream {
    PlannedStream {
        activity: stream.name.clone(),
        promises: stream.promises.clone(),
        reservation: DiskReservation {
            rate: stream.rate,
            batch: Bytes(granted.given.batch),
            buffer: Bytes(granted.given.buffer),
            jitter: granted.jitter,
            overlap: granted.overlap,
            priority: 0,
            bound: granted.bound(),
        },
        proof: proof(stream, disk, granted),
    }
}

/// What best effort is to keep: a tenth of what its longest requests have alone at worst.
fn floor(disk: &DiskTerms) -> Rate {
    let time = u128::from(disk.beside().get_unsigned().max(1));
    Rate((u128::from(disk.beside_bytes) * 100_000_000 / time) as u64)
}

fn in_words(found: &Nearest) -> Vec<String> {
    let size = |key: &str, bytes: u64| format!("{key} = \"{bytes}B\"");
    let slower = found.rate.map(|slower| {
        let with = [
            slower.batch.map(|bytes| size("batch", bytes)),
            slower.buffer.map(|bytes| size("buffer", bytes)),
        ];
        let with = with.into_iter().flatten().map(|word| format!(", {word}")).collect::<String>();
        format!("rate = \"{}B/s\"{with}", slower.rate.0)
    });
    let each = [
        found.buffer.map(|buffer| size("buffer", buffer)),
        found.batch.map(|batch| size("batch", batch)),
        found.both.map(|(batch, buffer)| format!("{}, {}", size("batch", batch), size("buffer", buffer))),
        slower,
        found.count.map(|count| format!("count = {count}")),
    ];
    each.into_iter().flatten().collect()
}
