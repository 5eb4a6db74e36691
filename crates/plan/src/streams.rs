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
use surety_analysis::streams::{Admission, DiskTerms, Floors, Level, Nearest, StreamDemand, admit, nearest};
use surety_model::formats::toml;
use surety_model::plan::{PlannedDisk, PlannedStream};
use surety_model::platform::{DiskDriver, Platform};
use surety_model::playout::AHEAD;
use surety_model::promise::{Comparison, Metric, Promise};
use surety_model::reservation::DiskReservation;
use surety_model::workload::{BatchMode, Disk, Stream, Workload};
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
            let (batch, buffer) = (planned.reservation.batch.0.max(1), planned.reservation.buffer.0);
            buffer.div_ceil(batch).saturating_mul(batch).saturating_mul(stream.map_or(1, |s| s.count.into()))
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
    // What is refused alone for having two at a time is told why it is with one.
    let refuses_more = !two.refused.is_empty() && two.streams.len() <= one.streams.len();
    if order(&two) < order(&one) && !refuses_more { two } else { one }
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
    for _ in 0..ROUNDS {
        let with_jitter = |s: &&Stream| Stream {
            jitter: Some(assumed[&s.name].1),
            overlap: s.overlap || overlap,
            ..Stream::clone(s)
        };
        let set: Vec<Stream> = served.iter().map(with_jitter).collect();
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
        let mut takes_more = false;
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

/// Plans what is asked of each disk.
fn on_all_disks(
    (workload, platform): (&Workload, &Platform),
    asked: &[&Stream],
    (cpu, overlap): (&CpuPart, bool),
    mut found: PlannedStreams,
) -> PlannedStreams {
    for disk in &workload.disks {
        let here: Vec<&Stream> = asked.iter().copied().filter(|stream| is_on(stream, disk)).collect();
        if here.is_empty() {
            continue;
        }
        let names: BTreeSet<&str> = here.iter().map(|stream| stream.name.as_str()).collect();
        let question = Question { workload, platform, here: &here, names: &names, cpu, overlap };
        let inside = |disk: &Disk| question.terms(disk).ok().map(|terms| terms.inside);
        let mut best: Option<PlannedStreams> = None;
        for candidate in candidates(workload, (disk, overlap), inside) {
            let answer = question.answer(&candidate);
            let is_whole = answer.refused.is_empty();
            if best.as_ref().is_none_or(|best| answer.streams.len() > best.streams.len()) {
                best = Some(answer);
            }
            if is_whole {
                break;
            }
        }
        let best = best.unwrap_or_default();
        found.streams.extend(best.streams);
        found.disks.extend(best.disks);
        found.refused.extend(best.refused);
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

/// What is asked of one disk.
struct Question<'a> {
    workload: &'a Workload,
    platform: &'a Platform,
    /// The streams that are to be planned, and their names.
    here: &'a [&'a Stream],
    names: &'a BTreeSet<&'a str>,
    cpu: &'a CpuPart,
    /// Whether they have two batches in the block layer.
    overlap: bool,
}

impl Question<'_> {
    fn terms(&self, disk: &Disk) -> Result<DiskTerms, String> {
        let is_first = |stream: &Stream| stream.batch.is_some() || self.names.contains(stream.name.as_str());
        let found = terms(self.workload, disk, self.platform, is_first)?;
        Ok(DiskTerms { cpu: self.cpu.within, asks: self.cpu.asks, ..found })
    }

    /// What the streams get of it, set in one way.
    fn answer(&self, candidate: &Candidate) -> PlannedStreams {
        let (mut answer, disk) = (PlannedStreams::default(), &candidate.disk);
        let disk_terms = match self.terms(disk) {
            Ok(found) => found,
            Err(why) => {
                let level = Level::Scheduled;
                let because = format!("disk {}: {why}; without a bound it is at most {level}", disk.name);
                self.here.iter().for_each(|stream| answer.refuse(stream, &Refused::plainly(because.clone())));
                return answer;
            }
        };
        let floors = Floors { best_effort: floor(&disk_terms), memory: None };
        // Others that are fetched in batches go before best effort, too.
        let mut taken: Vec<&Stream> = self.workload.streams.iter().filter(|s| is_on(s, disk)).collect();
        taken.retain(|stream| stream.batch.is_some() && !self.names.contains(stream.name.as_str()));
        let found = match self.all(&taken, &disk_terms, &floors) {
            Some((admission, jitter)) => {
                taken.extend(self.here);
                Some((admission, jitter))
            }
            None => {
                let admission = self.one_by_one(&mut taken, (disk, &disk_terms, &floors), &mut answer);
                admission.map(|admission| (admission, AHEAD))
            }
        };
        let Some((admission, jitter)) = found else { return answer };
        for (stream, given) in taken.iter().zip(&admission.streams) {
            if self.names.contains(stream.name.as_str()) {
                let (jitter, overlap) = (stream.jitter.unwrap_or(jitter), stream.overlap || self.overlap);
                let (terms, admission, cpu) = (&disk_terms, &admission, self.cpu);
                answer.streams.push(reserved(
                    stream,
                    disk,
                    &Granted { terms, cpu, admission, given, jitter, overlap },
                ));
            }
        }
        answer.disks.push(candidate.planned());
        answer
    }

    /// All streams beside those of `first`, with the jitter of those that have none of their own: of the ones that will do, with the least memory,
    /// and of these with the least bound. A stream that may save more time of its rate makes up for longer batches, and asks for more at once.
    fn all(&self, first: &[&Stream], terms: &DiskTerms, floors: &Floors) -> Option<(Admission, Nanos)> {
        let all: Vec<&Stream> = first.iter().chain(self.here).copied().collect();
        let admitted = |jitter: &Nanos| {
            let demands: Vec<StreamDemand> = all.iter().map(|stream| self.demand(stream, *jitter)).collect();
            admit(&demands, terms, floors).ok().map(|admission| (admission, *jitter))
        };
        let longest = |of: &Admission| of.streams.iter().map(|given| given.at_start).max();
        // Memory is of whole batches, and of buffers that are still to be chosen.
        let memory = |of: &Admission| -> u64 {
            let chosen = all.iter().zip(&of.streams).filter(|(stream, _)| stream.buffer.is_none());
            let each = chosen.map(|(stream, given)| {
                let whole = given.buffer.div_ceil(given.batch.max(1)).saturating_mul(given.batch);
                whole.saturating_mul(stream.count.into())
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

    /// One stream after the other beside those that are `taken`, which it joins where it is admitted.
    fn one_by_one<'s>(
        &'s self,
        taken: &mut Vec<&'s Stream>,
        (disk, terms, floors): (&Disk, &DiskTerms, &Floors),
        answer: &mut PlannedStreams,
    ) -> Option<Admission> {
        let mut admission = None;
        for stream in self.here {
            taken.push(stream);
            let demands: Vec<StreamDemand> = taken.iter().map(|stream| self.demand(stream, AHEAD)).collect();
            match admit(&demands, terms, floors) {
                Ok(all) => admission = Some(all),
                Err(why) => {
                    let found = nearest(&demands, demands.len() - 1, terms, floors);
                    let who = taken.get(why.stream).map_or("", |stream| stream.name.as_str());
                    let of =
                        if who == stream.name { String::new() } else { format!("beside it, stream {who}: ") };
                    let refused = Refused::plainly(format!("disk {}: {of}{}", disk.name, why.why));
                    answer.refuse(stream, &Refused { nearest: in_words(&found), ..refused });
                    taken.pop();
                }
            }
        }
        admission
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
