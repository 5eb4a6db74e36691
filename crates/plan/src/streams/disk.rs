//! [`Asked`]: what is asked of one disk, set in each way that may do, and what is admitted of it.
//!
//! What is refused runs on at best effort, beside which the rest has to be admitted.

use std::collections::BTreeSet;

use surety_analysis::serving::CpuPart;
use surety_analysis::streams::{
    Admission, DiskTerms, Floors, Level, Sizes, StreamDemand, Unbounded, admit_among, demand, terms,
};
use surety_model::plan::{PlannedDisk, PlannedStream};
use surety_model::playout::{AHEAD, in_whole_batches};
use surety_model::reservation::DiskReservation;
use surety_model::workload::{Disk, Stream, Workload};
use surety_units::{Bytes, Nanos, Rate};

use super::proof::{Granted, proof};
use super::settings::{Candidate, candidates};
use super::{Ground, JITTERS, buffers_of, is_on, with_lowered};
use crate::refusal::Refused;

/// What is asked of one disk, by the names of the streams.
pub(super) struct Asked<'a> {
    pub ground: Ground<'a>,
    pub disk: &'a Disk,
    pub names: BTreeSet<&'a str>,
    /// Bytes that all buffers may have.
    pub memory: u64,
    pub cpu: &'a CpuPart,
    /// Whether they have two batches in the block layer.
    pub overlap: bool,
}

/// What streams get of a disk.
#[derive(Default)]
pub(super) struct Answer {
    pub streams: Vec<PlannedStream>,
    /// How it is set, where there are any.
    pub disk: Option<PlannedDisk>,
    /// Who gets nothing, and why.
    refused: Vec<(String, Refused)>,
}

impl Asked<'_> {
    /// What the streams get, and who is refused. Those that are refused run on at best effort, beside which the others have to be admitted: each round refuses one more at least, or
    /// nobody, and then it is settled.
    pub(super) fn settled(&self) -> (Answer, Vec<(String, Refused)>) {
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
            let answer = self.best(&lowered, &left, &beside);
            let is_settled = answer.refused.is_empty();
            refused.extend(answer.refused.iter().cloned());
            if is_settled || refused.len() == self.names.len() {
                return (if is_settled { answer } else { Answer::default() }, refused);
            }
        }
    }

    /// The workload with all streams of the disk refused that have a promise and are not `left`.
    fn lowered(&self, left: &BTreeSet<&str>) -> Workload {
        let is_refused = |stream: &Stream| {
            is_on(stream, self.disk) && !stream.promises.is_empty() && !left.contains(stream.name.as_str())
        };
        with_lowered(self.ground.workload, is_refused)
    }

    /// The setting of the disk that admits most of the streams that are `left`.
    fn best(&self, lowered: &Workload, left: &BTreeSet<&str>, beside: &[&str]) -> Answer {
        let question = self.question(lowered, left);
        let inside = |disk: &Disk| question.terms(disk).ok().map(|terms| terms.inside);
        let mut best: Option<Answer> = None;
        for candidate in candidates(&question.ground, (self.disk, self.overlap), inside) {
            let answer = question.answer(&candidate, beside);
            let is_whole = answer.refused.is_empty();
            if best.as_ref().is_none_or(|best| answer.refused.len() < best.refused.len()) {
                best = Some(answer);
            }
            if is_whole {
                break;
            }
        }
        best.unwrap_or_default()
    }

    fn question<'q>(&'q self, lowered: &'q Workload, left: &'q BTreeSet<&'q str>) -> Question<'q> {
        let here = lowered.streams.iter().filter(|stream| left.contains(stream.name.as_str())).collect();
        // Those that are refused here and have a batch have their buffers all the same.
        let is_lowered =
            |s: &&Stream| self.names.contains(s.name.as_str()) && !left.contains(s.name.as_str());
        let buffers = lowered.streams.iter().filter(is_lowered).map(buffers_of).fold(0, u64::saturating_add);
        let Asked { cpu, overlap, .. } = *self;
        let (ground, memory) =
            (Ground { workload: lowered, ..self.ground }, self.memory.saturating_sub(buffers));
        Question { ground, here, names: left, memory, cpu, overlap }
    }
}

/// What is asked of one disk in a round.
struct Question<'a> {
    /// Streams that are refused ask for nothing in it.
    ground: Ground<'a>,
    /// The streams that are to be planned, and their names.
    here: Vec<&'a Stream>,
    names: &'a BTreeSet<&'a str>,
    memory: u64,
    cpu: &'a CpuPart,
    overlap: bool,
}

impl Question<'_> {
    fn terms(&self, disk: &Disk) -> Result<DiskTerms, Unbounded> {
        let is_first = |stream: &Stream| stream.goes_first() || self.names.contains(stream.name.as_str());
        let Ground { workload, platform, files, .. } = self.ground;
        let found = terms(workload, disk, (platform, files), is_first)?;
        if let (Some(floor), 0) = (disk.best_effort, found.beside_bytes) {
            let why = format!(
                "it is to keep {floor} for best effort, and nothing of the workload uses it at best effort: add the `[[load]]` that this is for, or leave `best-effort` out"
            );
            return Err(Unbounded { infeasible: true, ..why.into() });
        }
        Ok(DiskTerms { cpu: self.cpu.within, asks: self.cpu.asks, ..found })
    }

    /// What else is to hold.
    fn floors(&self, disk: &Disk, terms: &DiskTerms) -> Floors {
        Floors { best_effort: disk.best_effort.unwrap_or_else(|| floor(terms)), memory: Some(self.memory) }
    }

    /// Others that are fetched in batches go before best effort, too.
    fn others(&self, disk: &Disk) -> Vec<&Stream> {
        let is_other =
            |s: &&Stream| is_on(s, disk) && s.goes_first() && !self.names.contains(s.name.as_str());
        self.ground.workload.streams.iter().filter(is_other).collect()
    }

    /// What the streams get of it, set in one way: all of them, or who is refused. `beside` were refused before.
    fn answer(&self, candidate: &Candidate, beside: &[&str]) -> Answer {
        let (mut answer, disk) = (Answer::default(), &candidate.disk);
        let terms = match self.terms(disk) {
            Ok(found) => found,
            Err(why) => {
                let level = Level::Scheduled;
                let because = format!("disk {}: {why}; without a bound it is at most {level}", disk.name);
                let refused = Refused { infeasible: why.infeasible, ..Refused::plainly(because) };
                // Without the one that has no bound there may be one for the others.
                let that = why.stream.as_deref().filter(|name| self.names.contains(name));
                let without = self.here.iter().filter(|s| that.is_none_or(|name| name == s.name));
                answer.refused = without.map(|s| (s.name.clone(), refused.clone())).collect();
                return answer;
            }
        };
        let floors = self.floors(disk, &terms);
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
        let best_effort = Some(admission.best_effort).filter(|_| terms.beside_bytes > 0);
        answer.disk = Some(PlannedDisk { best_effort, ..candidate.planned() });
        answer
    }

    /// All streams beside those of `first`, with the jitter of those that have none of their own: of the ones that will do, with the least memory,
    /// and of these with the least bound. A stream that may save more time of its rate makes up for longer batches, and asks for more at once.
    fn all(&self, first: &[&Stream], terms: &DiskTerms, floors: &Floors) -> Option<(Admission, Nanos)> {
        let all: Vec<&Stream> = first.iter().chain(&self.here).copied().collect();
        let admitted = |jitter: &Nanos| {
            let demands: Vec<StreamDemand> = all.iter().map(|stream| self.demand(stream, *jitter)).collect();
            admit_among(self.ground.sizes, &demands, terms, floors).ok().map(|admission| (admission, *jitter))
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
        if self.ground.sizes == Sizes::Few {
            return JITTERS.iter().step_by(3).find_map(admitted);
        }
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
            if let Err(why) = admit_among(self.ground.sizes, &demands, terms, floors) {
                let who = taken.get(why.stream).map_or("", |stream| stream.name.as_str());
                let of =
                    if who == stream.name { String::new() } else { format!("beside it, stream {who}: ") };
                let because = format!("disk {}{with}: {of}{}", disk.name, why.why);
                refused.push((stream.name.clone(), Refused::infeasible(because)));
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

/// What best effort is to keep where the disk does not say: a tenth of what its longest requests have alone at worst.
fn floor(disk: &DiskTerms) -> Rate {
    let time = u128::from(disk.beside().get_unsigned().max(1));
    Rate((u128::from(disk.beside_bytes) * 100_000_000 / time) as u64)
}
