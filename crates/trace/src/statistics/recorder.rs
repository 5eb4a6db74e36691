//! [`Recorders`]: the sink that condenses jobs as they complete.
//!
//! Memory: [`RECORDER_BYTES_MAX`] for each thread alive whose jobs are many, a few KiB for each other one. Of the threads
//! gone the [`LISTED_MAX`] busiest keep their numbers, the rest is added up by name, up to [`FOLDED_NAMES_MAX`] names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use surety_model::event::Comm;
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos};

use super::interruptions::Interruptions;
use super::releases::Releases;
use super::series::{SERIES_BYTES_MAX, Series, Workspace};
use super::times::Times;
use super::{Folded, Spread, ThreadStatistics};
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals, Wait};
use crate::wanted::{Wanted, Window};

/// Threads that are listed, alive or gone: the busiest.
pub const LISTED_MAX: usize = 4096;
/// Names under which the others are added up; what is beyond is added to the empty name.
pub const FOLDED_NAMES_MAX: usize = 1024;
/// Names remembered for those who ask for one that is not there.
pub const NAMES_MAX: usize = 4096;
/// Heap bytes of one thread's recorder at most.
pub const RECORDER_BYTES_MAX: usize = 7 * SERIES_BYTES_MAX + BATCH * size_of::<Times>() + 2048;

/// Jobs of a thread that go into its series together. The series of many threads do not stay in the cache from one
/// job to the next; so each is fetched once for so many jobs.
const BATCH: usize = 16;

/// One thread's jobs so far.
#[derive(Debug)]
struct Recorder {
    /// Jobs that are in no series yet, up to [`BATCH`].
    batch: Vec<Times>,
    response: Series,
    latency: Series,
    preemption: Series,
    execution: Series,
    interruptions: Interruptions,
    inter_arrival: Series,
    releases: Releases,
    /// Activations in the series, and those that are jobs given up once a wake-up is told.
    activations: u64,
    unreleased: u64,
    censored: u64,
    inferred: u64,
    doubtful: u64,
    doubtful_response_max: Option<Nanos>,
    preemptions: u64,
    throttled: Nanos,
    run: Nanos,
    waited: Nanos,
    longest_wait: Nanos,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder {
            batch: Vec::new(),
            response: Series::default(),
            latency: Series::default(),
            preemption: Series::default(),
            execution: Series::default(),
            interruptions: Interruptions::default(),
            inter_arrival: Series::default(),
            releases: Releases::default(),
            activations: 0,
            unreleased: 0,
            censored: 0,
            inferred: 0,
            doubtful: 0,
            doubtful_response_max: None,
            preemptions: 0,
            throttled: Nanos::ZERO,
            run: Nanos::ZERO,
            waited: Nanos::ZERO,
            longest_wait: Nanos::ZERO,
        }
    }

    #[inline]
    fn job(&mut self, job: &Job) {
        if self.batch.capacity() == 0 {
            self.batch.reserve_exact(BATCH);
        }
        self.batch.push(Times::of(job));
        self.add_up(job);
        if self.batch.len() >= BATCH {
            self.settle();
        }
    }

    /// What of a job is only added up.
    #[inline]
    fn add_up(&mut self, job: &Job) {
        self.preemptions += u64::from(job.preemptions);
        self.throttled = self.throttled.saturating_add(job.throttled);
        self.inferred += u64::from(job.inferred.is_positive());
    }

    /// An activation whose release is not known.
    fn activation(&mut self, job: &Job) {
        self.activations += 1;
        self.interruptions.take(&[Times::of(job)], &self.execution);
        self.execution.record(job.execution);
        if let Some(gap) = self.releases.push(job.start) {
            self.inter_arrival.record(gap);
        }
        self.add_up(job);
    }

    /// The activations so far are jobs whose release was not seen. No job is in the series yet: none is complete before the
    /// first wake-up, but marked ones, and their thread has no activations.
    fn give_up_activations(&mut self) {
        if self.unreleased > 0 || self.activations > 0 {
            let void = Recorder::new();
            (self.execution, self.interruptions) = (void.execution, void.interruptions);
            (self.inter_arrival, self.releases) = (void.inter_arrival, void.releases);
            (self.preemptions, self.throttled, self.inferred) = (0, Nanos::ZERO, 0);
            self.censored += self.unreleased;
            (self.activations, self.unreleased) = (0, 0);
        }
    }

    /// Puts the batch into the series.
    fn settle(&mut self) {
        let batch = &self.batch;
        self.response.record_all(batch.iter().map(|job| job.response));
        self.latency.record_all(batch.iter().map(|job| job.latency));
        self.interruptions.take(batch, &self.execution);
        self.execution.record_all(batch.iter().map(|job| job.execution));
        for job in batch {
            if let Some(gap) = self.releases.push(job.release) {
                self.inter_arrival.record(gap);
            }
        }
        self.batch.clear();
    }

    fn interrupt_arrivals(&mut self) {
        self.settle();
        let inter_arrival = &mut self.inter_arrival;
        self.releases.flush(|gap| inter_arrival.record(gap));
    }

    fn statistics(
        mut self,
        thread: &ThreadKey,
        totals: &ThreadTotals,
        workspace: &mut Workspace,
    ) -> ThreadStatistics {
        self.interrupt_arrivals();
        let execution = Spread::of(&self.execution, workspace);
        let (execution_net, interrupted) = self.interruptions.spreads(execution, workspace);
        ThreadStatistics {
            tid: thread.tid,
            comm: thread.comm,
            exact: thread.separation == Separation::Markers,
            by_switches: self.activations > 0,
            jobs: self.response.count() + self.activations,
            censored: self.censored,
            inferred: self.inferred,
            doubtful: self.doubtful,
            doubtful_response_max: self.doubtful_response_max,
            unknown: totals.unknown,
            run: self.run,
            waited: self.waited,
            longest_wait: self.longest_wait,
            observed: totals.seen.1 - totals.seen.0,
            throughout: totals.throughout,
            preemptions: self.preemptions,
            throttled: self.throttled,
            response: Spread::of(&self.response, workspace),
            latency: Spread::of(&self.latency, workspace),
            preemption: Spread::of(&self.preemption, workspace),
            execution,
            execution_net,
            interrupted,
            inter_arrival: Spread::of(&self.inter_arrival, workspace),
        }
    }
}

impl ThreadStatistics {
    /// The same where wake-ups turned out to be told: its activations are jobs given up.
    fn without_activations(self) -> ThreadStatistics {
        if !self.by_switches {
            return self;
        }
        ThreadStatistics {
            by_switches: false,
            jobs: 0,
            censored: self.censored + self.jobs,
            inferred: 0,
            preemptions: 0,
            throttled: Nanos::ZERO,
            execution: None,
            execution_net: None,
            interrupted: None,
            inter_arrival: None,
            ..self
        }
    }
}

/// A thread that is listed; ordered by how busy it was, of equal ones the earlier is the greater.
#[derive(Debug)]
struct Listed {
    life: u64,
    statistics: ThreadStatistics,
}

impl Listed {
    fn rank(&self) -> (Nanos, Reverse<u64>) {
        (self.statistics.run, Reverse(self.life))
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Listed) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Listed {}

impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Listed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Listed {
    fn cmp(&self, other: &Listed) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Condenses the jobs of all wanted threads.
#[derive(Debug)]
pub struct Recorders {
    wanted: Wanted,
    window: Window,
    /// Whether the jobs of a thread of this name are recorded at all; all are where there is none.
    records: Option<fn(Comm) -> bool>,
    /// By slot.
    open: Vec<Option<Box<Recorder>>>,
    /// The least busy on top.
    listed: BinaryHeap<Reverse<Listed>>,
    folded: BTreeMap<Comm, Folded>,
    threads: u64,
    names: BTreeSet<Comm>,
    /// A wake-up was told: the trace has them.
    woken: bool,
    workspace: Workspace,
}

/// What a sink of all threads has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The wanted threads, the busiest first, of equally busy ones the first seen; at most [`LISTED_MAX`].
    pub threads: Vec<ThreadStatistics>,
    /// The wanted threads that are not listed, added up by name, the busiest name first.
    pub folded: Vec<Folded>,
    /// Threads seen, wanted or not.
    pub threads_in_trace: u64,
    /// Their names, at most [`NAMES_MAX`] of them.
    pub names: Vec<Comm>,
}

impl Recorders {
    /// Of wanted threads.
    pub fn new(wanted: Wanted) -> Recorders {
        Recorders::choosing(wanted, None)
    }

    /// Of wanted threads to whose names `records` agrees.
    pub fn of_names(wanted: Wanted, records: fn(Comm) -> bool) -> Recorders {
        Recorders::choosing(wanted, Some(records))
    }

    fn choosing(wanted: Wanted, records: Option<fn(Comm) -> bool>) -> Recorders {
        Recorders {
            wanted,
            window: Window::ALL,
            records,
            open: Vec::new(),
            listed: BinaryHeap::new(),
            folded: BTreeMap::new(),
            threads: 0,
            names: BTreeSet::new(),
            woken: false,
            workspace: Workspace::default(),
        }
    }

    /// The trace's first event came then.
    pub fn begin(&mut self, first: Nanos) {
        self.window = self.wanted.window(first);
    }

    /// What was found.
    pub fn finish(self) -> Recorded {
        let mut listed: Vec<Listed> = self.listed.into_iter().map(|Reverse(listed)| listed).collect();
        listed.sort_by(|a, b| b.cmp(a));
        let mut folded: Vec<Folded> = self.folded.into_values().collect();
        folded.sort_by_key(|folded| Reverse(folded.run));
        Recorded {
            threads: listed.into_iter().map(|listed| listed.statistics).collect(),
            folded,
            threads_in_trace: self.threads,
            names: self.names.into_iter().collect(),
        }
    }

    #[inline]
    fn recorder(&mut self, thread: &ThreadKey) -> Option<&mut Recorder> {
        if !self.wanted.tid(thread.tid) || self.records.is_some_and(|records| !records(thread.comm)) {
            return None;
        }
        if self.open.len() <= thread.slot {
            self.open.resize_with(thread.slot + 1, || None);
        }
        Some(self.open[thread.slot].get_or_insert_with(|| Box::new(Recorder::new())))
    }

    fn list(&mut self, listed: Listed) {
        self.listed.push(Reverse(listed));
        if self.listed.len() <= LISTED_MAX {
            return;
        }
        let Some(Reverse(least)) = self.listed.pop() else { return };
        let mut name = least.statistics.comm;
        if self.folded.len() >= FOLDED_NAMES_MAX && !self.folded.contains_key(&name) {
            name = Comm::default();
        }
        self.folded.entry(name).or_insert_with(|| Folded::named(name)).add(&least.statistics);
    }
}

impl JobSink for Recorders {
    const TAKES_STILL_THREADS: bool = true;

    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        let counts = self.wanted.job(self.window, job);
        if let Some(recorder) = self.recorder(thread) {
            if counts { recorder.job(job) } else { recorder.interrupt_arrivals() }
        }
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        let counts = self.wanted.job(self.window, job);
        if let Some(recorder) = self.recorder(thread).filter(|_| counts) {
            recorder.doubtful += 1;
            recorder.doubtful_response_max = recorder.doubtful_response_max.max(Some(job.response()));
        }
    }

    fn activation(&mut self, thread: &ThreadKey, job: &Job) {
        if self.woken {
            return self.censored(thread, job.completion);
        }
        let counts = self.wanted.job(self.window, job);
        let is_unreleased = self.window.contains(job.completion);
        if let Some(recorder) = self.recorder(thread) {
            recorder.unreleased += u64::from(is_unreleased);
            if counts { recorder.activation(job) } else { recorder.interrupt_arrivals() }
        }
    }

    fn wake_ups_are_told(&mut self) {
        self.woken = true;
        self.open.iter_mut().flatten().for_each(|recorder| recorder.give_up_activations());
        // Threads that are gone before the first wake-up are few.
        let listed = std::mem::take(&mut self.listed).into_iter().map(|Reverse(listed)| {
            Reverse(Listed { statistics: listed.statistics.without_activations(), ..listed })
        });
        self.listed = listed.collect();
    }

    fn censored(&mut self, thread: &ThreadKey, at: Nanos) {
        let counts = self.window.contains(at);
        if let Some(recorder) = self.recorder(thread) {
            recorder.interrupt_arrivals();
            recorder.censored += u64::from(counts);
        }
    }

    fn forget(&mut self, thread: &ThreadKey) {
        if let Some(recorder) = self.open.get_mut(thread.slot).and_then(Option::as_mut) {
            let Recorder { run, waited, longest_wait, .. } = **recorder;
            **recorder = Recorder { run, waited, longest_wait, ..Recorder::new() };
        }
    }

    #[inline]
    fn ran(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos) {
        let time = if self.wanted.cpu(cpu) { self.window.overlap(from, until) } else { Nanos::ZERO };
        if let Some(recorder) = self.recorder(thread) {
            recorder.run += time;
        }
    }

    #[inline]
    fn waited(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos, why: Wait) {
        let time = if self.wanted.cpu(cpu) { self.window.overlap(from, until) } else { Nanos::ZERO };
        let counts = self.wanted.cpu(cpu) && self.window.contains(from);
        if let Some(recorder) = self.recorder(thread) {
            recorder.waited += time;
            recorder.longest_wait = recorder.longest_wait.max(time);
            if why == Wait::Preempted && counts {
                recorder.preemption.record(until - from);
            }
        }
    }

    fn ended(&mut self, thread: &ThreadKey, totals: &ThreadTotals) {
        self.threads += 1;
        if self.names.len() < NAMES_MAX {
            self.names.insert(thread.comm);
        }
        let recorder = self.open.get_mut(thread.slot).and_then(Option::take);
        if !self.wanted.thread(thread.tid, thread.comm)
            || self.records.is_some_and(|records| !records(thread.comm))
        {
            return;
        }
        let recorder = recorder.unwrap_or_else(|| Box::new(Recorder::new()));
        let statistics = recorder.statistics(thread, totals, &mut self.workspace);
        self.list(Listed { life: thread.life, statistics });
    }
}

impl Folded {
    fn named(name: Comm) -> Folded {
        Folded {
            name,
            threads: 0,
            jobs: 0,
            censored: 0,
            doubtful: 0,
            doubtful_response_max: None,
            run: Nanos::ZERO,
            waited: Nanos::ZERO,
            response_max: None,
            latency_max: None,
        }
    }

    fn add(&mut self, thread: &ThreadStatistics) {
        self.threads += 1;
        self.jobs += thread.jobs;
        self.censored += thread.censored;
        self.doubtful += thread.doubtful;
        self.doubtful_response_max = self.doubtful_response_max.max(thread.doubtful_response_max);
        self.run = self.run.saturating_add(thread.run);
        self.waited = self.waited.saturating_add(thread.waited);
        self.response_max = self.response_max.max(thread.response.map(|spread| spread.max));
        self.latency_max = self.latency_max.max(thread.latency.map(|spread| spread.max));
    }
}
