//! What a stream that is refused may ask for instead: a batch, a buffer, a jitter, a rate, a number, a limit of its responses, or less for best effort; and what
//! a load that is to have a rate beside it.
//!
//! What the plan chooses where a key is left out is offered as that key with its value, when the plan with it stands too.

use std::fmt;

use surety_model::promise::{Bound, Promise};
use surety_model::reservation::DiskReservation;
use surety_model::workload::{Load, Stream};
use surety_units::{Bytes, Nanos, Rate};

use super::{Alternative, Search, halved};
use crate::streams::best_effort::{promised, rate_of};

/// Parts of a rate that are told apart.
const STEPS: u64 = 1000;
/// What is found among few batches is looked at up to this part of it higher.
const FINER: u64 = 10;
/// Limits of responses are offered on this grid.
const RESPONSES: Nanos = Nanos::MILLISECOND;
/// No longer ones are looked for.
const LONGEST: Nanos = Nanos::from_secs(100);

/// A key with another value, or left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key<T> {
    #[default]
    Same,
    LeftOut,
    Is(T),
}

impl<T: Copy> Key<T> {
    fn apply(self, to: &mut Option<T>) {
        match self {
            Key::Same => {}
            Key::LeftOut => *to = None,
            Key::Is(value) => *to = Some(value),
        }
    }
}

/// What a stream asks for otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamChange {
    pub rate: Option<Rate>,
    pub batch: Key<Bytes>,
    pub buffer: Key<Bytes>,
    pub jitter: Key<Nanos>,
    pub count: Option<u32>,
    /// Where responses are promised within less.
    pub response: Option<Nanos>,
}

impl StreamChange {
    pub(super) fn apply(&self, stream: &mut Stream) {
        stream.rate = self.rate.unwrap_or(stream.rate);
        stream.count = self.count.unwrap_or(stream.count);
        self.batch.apply(&mut stream.batch);
        self.buffer.apply(&mut stream.buffer);
        self.jitter.apply(&mut stream.jitter);
        for promise in &mut stream.promises {
            let longer =
                self.response.filter(|longer| promise.response_limit().is_some_and(|of| of < *longer));
            promise.bound = longer.map_or(promise.bound, Bound::Time);
        }
    }

    /// The same with what was chosen for keys that are left out.
    fn chosen(self, given: &DiskReservation) -> StreamChange {
        fn is<T>(key: Key<T>, value: T) -> Key<T> {
            if matches!(key, Key::LeftOut) { Key::Is(value) } else { key }
        }
        StreamChange {
            batch: is(self.batch, given.batch),
            buffer: is(self.buffer, given.buffer),
            jitter: is(self.jitter, given.jitter),
            ..self
        }
    }
}

impl fmt::Display for StreamChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn key<T>(name: &str, key: Key<T>, word: impl Fn(T) -> String) -> Option<String> {
            match key {
                Key::Same => None,
                Key::LeftOut => Some(format!("`{name}` left out")),
                Key::Is(value) => Some(format!("{name} = \"{}\"", word(value))),
            }
        }
        let words = [
            self.rate.map(|rate| format!("rate = \"{}\"", rate.to_exact_string())),
            key("batch", self.batch, Bytes::to_exact_string),
            key("buffer", self.buffer, Bytes::to_exact_string),
            key("jitter", self.jitter, Nanos::to_exact_string),
            self.count.map(|count| format!("count = {count}")),
            self.response.map(|limit| format!("response <= {}", limit.to_exact_string())),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Search<'_> {
    /// What is feasible instead of a refused stream: each by itself, what keeps the rate first.
    pub(super) fn of_stream(&self, stream: &Stream) -> Vec<Alternative> {
        fn free<T>(is_given: bool) -> Key<T> {
            if is_given { Key::LeftOut } else { Key::Same }
        }
        let batch = StreamChange { batch: free(stream.batch.is_some()), ..StreamChange::default() };
        let buffer = StreamChange { buffer: free(stream.buffer.is_some()), ..StreamChange::default() };
        let jitter = StreamChange { jitter: free(stream.jitter.is_some()), ..StreamChange::default() };
        let sizes = StreamChange { buffer: buffer.buffer, ..batch };
        let all = StreamChange { jitter: jitter.jitter, ..sizes };
        let mut tried: Vec<StreamChange> = Vec::new();
        let mut found: Vec<Alternative> = Vec::new();
        for (alone, change) in [(true, batch), (true, buffer), (true, jitter), (false, sizes), (false, all)] {
            let is_new = change != StreamChange::default() && !tried.contains(&change);
            if is_new && (alone || found.is_empty()) && self.may(change) {
                tried.push(change);
                found.extend(self.with_values(stream, change));
            }
        }
        found.extend(self.slower_responses(stream, StreamChange::default()));
        if found.is_empty() && all != StreamChange::default() {
            found.extend(self.slower_responses(stream, all));
        }
        if found.is_empty() {
            found.extend(self.slower(stream, sizes).or_else(|| self.slower(stream, all)));
        }
        found.extend(self.fewer(stream));
        found.extend(self.less_beside(stream));
        found
    }

    /// For a load of a disk that keeps less than is promised: that it keeps as much, or what is left of it by the promises of other loads.
    pub(super) fn of_load(&self, load: &Load) -> Vec<Alternative> {
        let Some(disk) = self.plan.disks.iter().find(|disk| load.disk.as_ref() == Some(&disk.disk)) else {
            return Vec::new();
        };
        let wanted = promised(self.workload, &disk.disk);
        let more = Alternative::BestEffort { disk: disk.disk.clone(), rate: Some(wanted) };
        let promise = self.refusal.promise;
        let lacks = wanted.0.saturating_sub(disk.best_effort.map_or(0, |kept| kept.0));
        let less = rate_of(&promise).and_then(|own| own.checked_sub(lacks)).filter(|left| *left > 0);
        let less = less.map(|left| Promise { bound: Bound::Rate(Rate(left)), ..promise });
        let all = [Some(more), less.map(Alternative::Promise)];
        all.into_iter().flatten().filter_map(|each| self.in_full(each)).collect()
    }

    /// Whether there is a plan with a change, of the few batches that are tried in a search.
    fn may(&self, change: StreamChange) -> bool {
        self.is_feasible(&Alternative::Stream(change), true)
    }

    /// A change that is feasible, with the values that are chosen for what it leaves out, or as it is where they do not stand by themselves.
    fn with_values(&self, stream: &Stream, change: StreamChange) -> Option<Alternative> {
        let plan = self.planned_with(&Alternative::Stream(change), false)?;
        let chosen = Alternative::Stream(change.chosen(&plan.stream_of(&stream.name)?.reservation));
        let stands = self.is_feasible(&chosen, false);
        Some(if stands { chosen } else { Alternative::Stream(change) })
    }

    /// What was found among few batches, where a plan in full has it too.
    fn in_full(&self, found: Alternative) -> Option<Alternative> {
        Some(found).filter(|found| self.is_feasible(found, false))
    }

    /// The highest rate, to a thousandth of what was asked for.
    fn slower(&self, stream: &Stream, free: StreamChange) -> Option<Alternative> {
        let mut whole = stream.rate.0;
        while whole > 0 && !self.has_ended() {
            let at = |step: u64| {
                let rate = Rate((u128::from(whole) * u128::from(step) / u128::from(STEPS)) as u64);
                StreamChange { rate: Some(rate), ..free }
            };
            let holds = |step: u64| at(step).rate.is_some_and(|rate| rate.0 > 0) && self.may(at(step));
            if let Some(step) = greatest(STEPS - 1, holds) {
                let found = self.with_values(stream, at(step));
                // Among all batches there may be one for a higher rate.
                let more = |more: u64| self.is_feasible(&Alternative::Stream(at(step + more)), false);
                let higher = greatest((step / FINER).min(STEPS - 1 - step), more);
                return higher.and_then(|more| self.with_values(stream, at(step + more))).or(found);
            }
            whole /= STEPS;
        }
        None
    }

    /// As many of them.
    fn fewer(&self, stream: &Stream) -> Option<Alternative> {
        let with = |count: u64| StreamChange { count: u32::try_from(count).ok(), ..StreamChange::default() };
        let most = u64::from(stream.count.saturating_sub(1));
        let count = greatest(most, |count| self.may(with(count)))?;
        self.in_full(Alternative::Stream(with(count)))
    }

    /// The shortest limit of its responses above the one that is promised, with keys that are left out.
    fn slower_responses(&self, stream: &Stream, free: StreamChange) -> Option<Alternative> {
        let limit = stream.promises.iter().filter_map(Promise::response_limit).min()?;
        let of = |steps: i64| StreamChange { response: Some(RESPONSES * steps), ..free };
        let holds = |steps: i64| self.may(of(steps));
        let (mut low, most) = (limit.div_floor(RESPONSES).max(1), LONGEST.div_floor(RESPONSES));
        let ladder = std::iter::successors(Some(low), |step| step.checked_mul(4)).skip(1);
        let mut rungs = ladder.take_while(|step| *step <= most);
        let high = loop {
            let rung = rungs.next().filter(|_| !self.has_ended())?;
            if holds(rung) {
                break rung;
            }
            low = rung;
        };
        self.with_values(stream, of(halved(low, high, holds)))
    }

    /// The most that best effort may keep; where nothing uses the disk at best effort, nothing is said of it.
    fn less_beside(&self, stream: &Stream) -> Option<Alternative> {
        let disk = self.workload.disks.iter().find(|disk| stream.disk.as_ref() == Some(&disk.name))?;
        let with = |rate: Option<Rate>| Alternative::BestEffort { disk: disk.name.clone(), rate };
        let kept = |rate: u64| {
            let plan = self.planned_with(&with(Some(Rate(rate))), true)?;
            plan.disks.iter().find(|planned| planned.disk == disk.name)?.best_effort
        };
        let Some(least) = kept(0) else {
            let is_given = disk.best_effort.is_some();
            return Some(with(None)).filter(|_| is_given).and_then(|left_out| self.in_full(left_out));
        };
        // What is kept with a floor is kept with all between the two.
        let mut low = least.0;
        let mut high = disk.best_effort.map_or(u64::MAX, |asked| asked.0);
        while high > low.saturating_add(low / STEPS) + 1 {
            let middle = if high / 2 > low { low.saturating_mul(2).max(1) } else { low + (high - low) / 2 };
            match kept(middle) {
                Some(more) => low = more.0.max(middle),
                None => high = middle,
            }
        }
        self.in_full(with(Some(Rate(low))))
    }
}

/// The greatest number from 1 to `most` that holds, found by halving: where what holds has gaps, one that holds.
fn greatest(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    (good > 0).then_some(good)
}
