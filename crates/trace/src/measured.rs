//! [`MeasuredBuilder`]: the jobs of threads as activities of a record, by the threads' names, so that a trace is held to
//! expectations like any result.
//!
//! Thread ids differ from run to run, so all threads of one name are one activity. Its response, latency and execution
//! are in the order of the jobs of each thread, the threads one behind the other. A job that was given up is open:
//! nobody knows how long it took. A job that the trace begins inside was released before, and is none. Of a job whose
//! switch-in is not known the response is.
//!
//! Memory: [`THREAD_BYTES`] for each wanted thread alive that has jobs and for each of [`NAMES_MAX`] names at most.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, TraceSink};
use surety_model::job::Job;
use surety_model::record::{
    ActivityRecord, Basis, Caveat, Distribution, Figure, InForce, Observed, Record, Share,
};
use surety_model::workload::ActivityKind;
use surety_units::{CpuId, Nanos};

use crate::jobs::JobBuilder;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals, Wait};
use crate::wanted::{Wanted, Window};

/// Names that are kept apart; threads of further ones are one activity without a name, of which nothing can be told.
pub const NAMES_MAX: usize = 1024;
/// Heap bytes of a thread's or a name's times, about.
pub const THREAD_BYTES: usize = 4 * (64 << 10);

/// Times of jobs.
#[derive(Debug, Default)]
struct Times {
    response: Observed,
    latency: Observed,
    execution: Observed,
    preemption: Observed,
    given_up: u64,
    preemptions: u64,
    run: Nanos,
    waited: Nanos,
    longest_wait: Nanos,
}

impl Times {
    fn job(&mut self, job: &Job) {
        self.response.record(job.response());
        self.latency.record(job.latency());
        self.execution.record(job.execution);
        self.preemptions += u64::from(job.preemptions);
    }

    fn open(&mut self, but_for_response: bool) {
        self.given_up += 1;
        if !but_for_response {
            self.response.record_open();
        }
        self.latency.record_open();
        self.execution.record_open();
    }

    fn merge(&mut self, other: &Times) {
        self.response.merge(&other.response);
        self.latency.merge(&other.latency);
        self.execution.merge(&other.execution);
        self.preemption.merge(&other.preemption);
        self.given_up += other.given_up;
        self.preemptions += other.preemptions;
        self.run = self.run.saturating_add(other.run);
        self.waited = self.waited.saturating_add(other.waited);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

/// A thread alive.
#[derive(Debug, Default)]
struct Thread {
    times: Times,
    /// Whether a job of it was seen from its release on, so that one that is given up was not released before the trace.
    has_begun: bool,
    /// The response of the job that is given up next, where it is known.
    doubtful: Option<Nanos>,
    /// Whether the last job that was given up is counted as open.
    is_last_counted: bool,
}

/// Threads of one name.
#[derive(Debug, Default)]
struct Named {
    times: Times,
    /// CPU time and waiting of each.
    threads: Vec<(Nanos, Option<Nanos>)>,
}

/// The sink of [`MeasuredBuilder`].
#[derive(Debug)]
struct Measured {
    wanted: Wanted,
    window: Window,
    /// Whether the trace tells of wake-ups, and activations that were told without.
    woken: bool,
    activations: u64,
    /// By slot.
    alive: Vec<Option<Box<Thread>>>,
    named: BTreeMap<Comm, Named>,
    overflow: bool,
}

impl Measured {
    fn thread(&mut self, thread: &ThreadKey) -> Option<&mut Thread> {
        if !self.wanted.tid(thread.tid) {
            return None;
        }
        if self.alive.len() <= thread.slot {
            self.alive.resize_with(thread.slot + 1, || None);
        }
        Some(self.alive[thread.slot].get_or_insert_with(Box::default))
    }
}

impl JobSink for Measured {
    const TAKES_STILL_THREADS: bool = true;

    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        let counts = self.wanted.job(self.window, job);
        if let Some(thread) = self.thread(thread) {
            thread.has_begun = true;
            if counts {
                thread.times.job(job);
            }
        }
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        let counts = self.wanted.job(self.window, job);
        if let Some(thread) = self.thread(thread) {
            thread.has_begun = true;
            thread.doubtful = counts.then(|| job.response());
        }
    }

    fn activation(&mut self, thread: &ThreadKey, job: &Job) {
        self.activations += 1;
        self.censored(thread, job.completion);
    }

    fn wake_ups_are_told(&mut self) {
        self.woken = true;
    }

    fn censored(&mut self, thread: &ThreadKey, at: Nanos) {
        let counts = self.window.contains(at);
        let Some(thread) = self.thread(thread) else { return };
        let doubtful = thread.doubtful.take();
        if let Some(response) = doubtful {
            thread.times.response.record(response);
        }
        // The first job of a thread may have been released before the trace.
        thread.is_last_counted = counts && (thread.has_begun || doubtful.is_some());
        if thread.is_last_counted {
            thread.times.open(doubtful.is_some());
        }
        thread.has_begun = true;
    }

    fn forget(&mut self, thread: &ThreadKey) {
        if let Some(thread) = self.thread(thread) {
            let Times { run, waited, longest_wait, .. } = thread.times;
            *thread = Thread {
                times: Times { run, waited, longest_wait, ..Times::default() },
                ..Thread::default()
            };
        }
    }

    fn ran(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos) {
        let time = if self.wanted.cpu(cpu) { self.window.overlap(from, until) } else { Nanos::ZERO };
        if let Some(thread) = self.thread(thread) {
            thread.times.run += time;
        }
    }

    fn waited(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos, why: Wait) {
        let time = if self.wanted.cpu(cpu) { self.window.overlap(from, until) } else { Nanos::ZERO };
        let counts = self.wanted.cpu(cpu) && self.window.contains(from);
        if let Some(thread) = self.thread(thread) {
            thread.times.waited += time;
            thread.times.longest_wait = thread.times.longest_wait.max(time);
            if why == Wait::Preempted && counts {
                thread.times.preemption.record(until - from);
            }
        }
    }

    fn ended(&mut self, thread: &ThreadKey, totals: &ThreadTotals) {
        let alive = self.alive.get_mut(thread.slot).and_then(Option::take);
        let Some(mut found) = alive.filter(|_| self.wanted.thread(thread.tid, thread.comm)) else { return };
        // What was given up last is the job that is open at the end. Its release says whether it counts.
        if totals.open.is_some_and(|open| self.window.contains(open.release)) && !found.is_last_counted {
            found.times.open(false);
        }
        let mut name = thread.comm;
        if self.named.len() >= NAMES_MAX && !self.named.contains_key(&name) {
            name = Comm::default();
            self.overflow = true;
        }
        let named = self.named.entry(name).or_default();
        let Times { run, waited, .. } = found.times;
        match named.threads.is_empty() {
            true => named.times = found.times,
            false => named.times.merge(&found.times),
        }
        named.threads.push((run, Some(waited)));
    }
}

/// Builds a record of the wanted part of a trace from events in order of time.
#[derive(Debug)]
pub struct MeasuredBuilder {
    jobs: JobBuilder<Measured>,
    /// Of the events.
    span: Option<(Nanos, Nanos)>,
}

impl MeasuredBuilder {
    /// Nothing seen yet.
    pub fn new(wanted: Wanted) -> MeasuredBuilder {
        let sink = Measured {
            wanted,
            window: Window::ALL,
            woken: false,
            activations: 0,
            alive: Vec::new(),
            named: BTreeMap::new(),
            overflow: false,
        };
        MeasuredBuilder { jobs: JobBuilder::into_sink(sink), span: None }
    }

    /// Ends the trace: an activity for each name, in the order of the names.
    pub fn finish(self) -> Record {
        let (sink, _) = self.jobs.end();
        let (from, to) = sink.wanted.span(self.span.unwrap_or_default());
        let span = to - from;
        let overflow = sink.overflow;
        let is_without_wakeups = !sink.woken && sink.activations > 0;
        let activities = sink.named.into_iter().map(|(name, named)| {
            let mut activity = activity(&name.text(), named, span);
            if is_without_wakeups && activity.completed == 0 {
                let why = "the trace holds no wake-ups: which jobs there were and how long they took is not known";
                activity.caveats.push(Caveat::withholds(why.to_owned()));
            }
            if overflow && name == Comm::default() {
                activity.caveats.push(Caveat::withholds(format!(
                    "threads of more than {NAMES_MAX} names are together here: choose some with --comm or --tid"
                )));
            }
            activity
        });
        Record {
            world: "trace".to_owned(),
            reserved: false,
            seed: None,
            duration: Some(span),
            in_force: InForce::default(),
            degraded: Vec::new(),
            activities: activities.collect(),
            trace: None,
            hash: None,
        }
    }
}

impl TraceSink for MeasuredBuilder {
    fn event(&mut self, event: &Event<'_>) {
        match &mut self.span {
            Some((_, last)) => *last = event.time,
            None => {
                self.span = Some((event.time, event.time));
                let sink = self.jobs.sink_mut();
                sink.window = sink.wanted.window(event.time);
            }
        }
        self.jobs.event(event);
    }
}

fn activity(name: &str, named: Named, span: Nanos) -> ActivityRecord {
    let Named { times, threads } = named;
    let jobs = times.execution.histogram.count();
    let mut activity = ActivityRecord::new(name, ActivityKind::Probe, Basis::Sample);
    activity.activations = jobs + times.given_up;
    activity.completed = jobs;
    activity.unfinished = times.given_up;
    let has_values = |observed: &Observed| observed.histogram.count() + observed.without_value() > 0;
    let distribution = |observed: Observed| has_values(&observed).then(|| Distribution::from(observed));
    activity.response = distribution(times.response);
    activity.latency = distribution(times.latency);
    activity.execution = distribution(times.execution);
    activity.series.extend(distribution(times.preemption).map(|d| ("preemption".to_owned(), d)));
    if span.is_positive() {
        activity.share = Some(Share { threads, span });
    }
    let time = |time: Nanos| time.get() as f64;
    for (name, value, unit) in [
        ("CPU time", time(times.run), "ns"),
        ("time waited", time(times.waited), "ns"),
        ("longest wait", time(times.longest_wait), "ns"),
        ("preemptions", times.preemptions as f64, ""),
    ] {
        activity.figures.push(Figure { name: name.to_owned(), value, unit: unit.into() });
    }
    activity
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surety_model::expectation::{Expectation, Standing};

    use super::*;
    use crate::StatisticsBuilder;
    use crate::jobs::tests::{any_script, feed};

    fn measured(script: &str, wanted: Wanted) -> Record {
        let mut builder = MeasuredBuilder::new(wanted);
        feed(script, &mut builder);
        builder.finish()
    }

    /// Thread 7 has two jobs, 10 us and 20 us, and one that is open when the trace ends.
    const SCRIPT: &str = "0 0 sw 0 0
         10 0 waking 7
         12 0 sw 0 7
         20 0 sw 7:S 0
         40 0 waking 7
         41 0 sw 0 7
         45 0 sw 7:R+ 8
         50 0 sw 8:S 7
         60 0 sw 7:S 0
         80 0 waking 7
         90 0 sw 0 7";

    fn standing(text: &str, record: &Record) -> Standing {
        text.parse::<Expectation>().unwrap_or_else(|e| panic!("{e}")).check(record).standing
    }

    /// A job that is open at the end may take any time: no maximum is held, and what is beyond has failed.
    #[test]
    fn an_open_job_leaves_the_maximum_open() {
        use Standing::{CannotTell, Failed, Held};
        let record = measured(SCRIPT, Wanted::default());
        let seven = record.activities.iter().find(|a| a.completed == 2).unwrap();
        let name = &seven.name;
        assert_eq!((seven.activations, seven.unfinished), (3, 1));
        let to = Wanted { to: Some(Nanos::from_micros(70)), ..Wanted::default() };
        let cut = measured(SCRIPT, to);
        for (text, whole, until) in [
            ("max <= 20us", CannotTell, Held),
            ("max < 20us", Failed, Failed),
            ("p50 <= 20us", Held, Held),
            ("p50 < 5us", Failed, Failed),
            ("completed == 2", Held, Held),
            ("preemption.max <= 5us", Held, Held),
            ("'longest wait' <= 10us", Held, Held),
            ("'longest wait' < 5us", Failed, Failed),
        ] {
            let text = format!("'{name}'.{text}");
            assert_eq!(standing(&text, &record), whole, "{text}");
            assert_eq!(standing(&text, &cut), until, "{text} until 70 us");
        }
    }

    /// A thread that was woken and never ran to its end in the trace has one open job.
    #[test]
    fn a_starved_thread_is_not_in_time() {
        let record = measured("0 0 sw 0 8\n10 0 waking 7\n900 0 sw 8:S 0", Wanted::default());
        let seven = record.activities.iter().find(|a| a.unfinished == 1 && a.completed == 0);
        let name = &seven.unwrap_or_else(|| panic!("{:?}", record.activities)).name;
        assert_eq!(standing(&format!("'{name}'.p99 < 1s"), &record), Standing::CannotTell);
    }

    proptest! {
        /// The same jobs as the statistics of threads; a job given up is open, but for one a thread at most.
        #[test]
        fn every_job_is_counted_once(script in any_script()) {
            let record = measured(&script, Wanted::default());
            let mut builder = StatisticsBuilder::new(Wanted::default());
            feed(&script, &mut builder);
            let (threads, _) = builder.finish();
            for activity in &record.activities {
                let of_name = || threads.threads.iter().filter(|t| t.comm.text() == activity.name);
                let sum = |number: fn(&crate::ThreadStatistics) -> u64| of_name().map(number).sum::<u64>();
                let count = |d: &Option<Distribution>| {
                    d.as_ref().and_then(|d| d.observed()).map_or(0, |o| o.histogram.count())
                };
                // Activations of a trace without wake-ups are no jobs.
                let jobs = |t: &crate::ThreadStatistics| if t.by_switches { 0 } else { t.jobs };
                prop_assert_eq!(activity.completed, sum(jobs));
                prop_assert_eq!(count(&activity.execution), activity.completed);
                prop_assert_eq!(count(&activity.response), sum(|t| if t.by_switches { 0 } else { t.jobs } + t.doubtful));
                let given_up = sum(|t| t.censored + if t.by_switches { t.jobs } else { 0 });
                prop_assert!(activity.unfinished <= given_up);
                prop_assert!(activity.unfinished + of_name().count() as u64 >= given_up);
                let run: Nanos = of_name().map(|t| t.run).sum();
                prop_assert_eq!(activity.share.as_ref().map_or(run, Share::run), run);
            }
        }
    }
}
