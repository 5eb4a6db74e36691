//! [`Chains`]: events on their way through the threads of a run, by the rules of [`surety_model::workload::Chain`].
//!
//! The instants of all events are known before the run. What a stage hands to the next one is written to a log between the two, which one
//! thread writes and one reads: there is no lock that a thread of low priority could hold, and nothing is allocated. A delivery has at least one event,
//! so a log has room for all that can come. A fed thread waits for its own events as for any timer, and for those handed to it at an
//! [`Event`] of its own, raised once for each delivery.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use surety_kernel::futex::Event;
use surety_kernel::{KernelError, clock};
use surety_model::activation::Stamp;
use surety_model::record::{ActivityRecord, Basis, JobOutcome, Pass, chain_record};
use surety_model::workload::{Arrivals, Workload};
use surety_model::world::Observer;
use surety_units::Nanos;

use crate::window::{Gate, Window};

/// All chains of a run, in the order of the workload; times are workload time.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    ways: Vec<Way>,
    /// By the name of the task.
    places: BTreeMap<String, Place>,
    signals: Vec<Event>,
}

/// The way of a chain.
#[derive(Debug)]
struct Way {
    /// When its events come.
    events: Vec<Nanos>,
    /// Its later stages.
    later: Vec<LaterStage>,
}

/// A stage that another one hands events to.
#[derive(Debug)]
struct LaterStage {
    log: Log,
    /// What wakes it; none wakes a stage that samples.
    signal: Option<usize>,
}

/// Deliveries from one thread to another in their order. Each has the events from the end of the one before.
#[derive(Debug)]
struct Log {
    deliveries: Vec<Slot>,
    written: AtomicUsize,
}

#[derive(Debug, Default)]
struct Slot {
    events_end: AtomicU64,
    at: AtomicI64,
}

/// What comes at `at`: the events of a source up to this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delivery {
    events_end: u64,
    at: Nanos,
}

impl Log {
    fn of(room: usize) -> Log {
        Log {
            deliveries: std::iter::repeat_with(Slot::default).take(room).collect(),
            written: AtomicUsize::new(0),
        }
    }

    fn write(&self, delivery: Delivery) {
        let place = self.written.load(Ordering::Relaxed);
        let slot = &self.deliveries[place];
        slot.events_end.store(delivery.events_end, Ordering::Relaxed);
        slot.at.store(delivery.at.get(), Ordering::Relaxed);
        self.written.store(place + 1, Ordering::Release);
    }

    fn read(&self, place: usize) -> Option<Delivery> {
        let slot = self.deliveries[..self.written.load(Ordering::Acquire)].get(place)?;
        let at = Nanos::new(slot.at.load(Ordering::Relaxed));
        Some(Delivery { events_end: slot.events_end.load(Ordering::Relaxed), at })
    }
}

impl Chains {
    /// Those of a workload in a run of this length, warm-up included.
    pub fn of(workload: &Workload, seed: u64, length: Nanos) -> Chains {
        let mut chains = Chains::default();
        for (number, chain) in workload.chains.iter().enumerate() {
            let events: Vec<Nanos> = chain.events(seed).take_while(|at| *at < length).collect();
            let mut later = Vec::new();
            for (stage, name) in chain.through.iter().enumerate() {
                let is_fed = workload.task(name).is_some_and(|task| workload.is_fed(task));
                let Chains { places, signals, .. } = &mut chains;
                let place =
                    places.entry(name.clone()).or_insert_with(|| Place { is_fed, ..Place::default() });
                place.sources.push((number, stage));
                if stage == 0 {
                    continue;
                }
                if is_fed && place.signal.is_none() {
                    place.signal = Some(signals.len());
                    signals.push(Event::default());
                }
                later.push(LaterStage { log: Log::of(events.len()), signal: place.signal });
            }
            chains.ways.push(Way { events, later });
        }
        chains
    }

    /// Where chains deliver to a task.
    pub fn place_of(&self, task: &str) -> Option<&Place> {
        self.places.get(task)
    }

    /// The delivery of a source at a place: for the first stage an event, whether it has come or not.
    fn delivery(&self, (chain, stage): (usize, usize), place: usize) -> Option<Delivery> {
        let way = &self.ways[chain];
        match stage.checked_sub(1) {
            None => way.events.get(place).map(|at| Delivery { events_end: place as u64 + 1, at: *at }),
            Some(later) => way.later[later].log.read(place),
        }
    }

    /// Ends every wait of a run that is given up.
    pub fn close(&self) {
        self.signals.iter().for_each(Event::close);
    }

    /// The record of each chain, of events in `[observe, end)`, by what the threads of its stages handled.
    pub fn records<'a>(
        &self,
        workload: &Workload,
        span: (Nanos, Nanos),
        handled: impl Iterator<Item = &'a Handled>,
    ) -> Vec<ActivityRecord> {
        let mut passes: Vec<Vec<Vec<Pass>>> =
            workload.chains.iter().map(|chain| vec![Vec::new(); chain.through.len()]).collect();
        for Handled { source: (chain, stage), passes: of_stage, .. } in handled {
            passes[*chain][*stage].clone_from(of_stage);
        }
        let each = workload.chains.iter().zip(&self.ways).zip(&passes);
        each.map(|((chain, way), passes)| chain_record(chain, Basis::Sample, span, &way.events, passes))
            .collect()
    }

    /// What was delivered before `end` and never taken, of deliveries from `observe` on.
    pub fn open(&self, handled: &[Handled], (observe, end): (Nanos, Nanos)) -> Vec<JobOutcome> {
        let of_source = |handled: &Handled| {
            let source = handled.source;
            (handled.taken..).map_while(move |place| self.delivery(source, place)).map(|delivery| delivery.at)
        };
        let waiting = handled.iter().flat_map(of_source).filter(|at| *at >= observe && *at < end);
        waiting.map(|release| JobOutcome::Unfinished { release, until: end }).collect()
    }
}

/// Where chains deliver to a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Whether what is delivered releases its jobs.
    pub is_fed: bool,
    /// Chains that pass it, and which of their stages it is.
    sources: Vec<(usize, usize)>,
    /// What wakes it, where other tasks hand something to it and it is fed.
    signal: Option<usize>,
}

/// What a thread took from one chain, and its jobs.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    /// The chain, and the stage.
    source: (usize, usize),
    /// Deliveries it took.
    taken: usize,
    /// Number of the first event it did not take.
    events_taken: u64,
    /// The completed jobs that had events, in the order in which they ran.
    passes: Vec<Pass>,
}

/// The thread of a stage while it runs.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    chains: &'a Chains,
    signal: Option<usize>,
    /// For each chain, and the first event of it that the present job took.
    sources: Vec<(Handled, Option<u64>)>,
}

impl<'a> Seat<'a> {
    /// That of the task with this place, with room for all it can take.
    pub fn of(chains: &'a Chains, place: &Place) -> Seat<'a> {
        let source = |source: &(usize, usize)| {
            let passes = Vec::with_capacity(chains.ways[source.0].events.len());
            (Handled { source: *source, taken: 0, events_taken: 0, passes }, None)
        };
        Seat { chains, signal: place.signal, sources: place.sources.iter().map(source).collect() }
    }

    /// The most deliveries that can come.
    pub fn room(&self) -> usize {
        self.sources.iter().map(|(handled, _)| handled.passes.capacity()).sum()
    }

    /// What comes first of all that is known: its source and when.
    fn first(&self) -> Option<(usize, Nanos)> {
        let front = |(index, (handled, _)): (usize, &(Handled, Option<u64>))| {
            Some((index, self.chains.delivery(handled.source, handled.taken)?.at))
        };
        self.sources.iter().enumerate().filter_map(front).min_by_key(|(_, at)| *at)
    }

    /// Takes the next delivery of a source.
    fn take(&mut self, source: usize) {
        let (handled, begin) = &mut self.sources[source];
        let Some(delivery) = self.chains.delivery(handled.source, handled.taken) else { return };
        begin.get_or_insert(handled.events_taken);
        handled.taken += 1;
        handled.events_taken = delivery.events_end;
    }

    /// Waits for one delivery and takes it; when it came, or `None` when the run is over.
    ///
    /// # Errors
    /// What the kernel answers to the wait.
    pub fn listen(&mut self, gate: &Gate, window: &Window) -> Result<Option<Nanos>, KernelError> {
        let signal = self.signal.map(|signal| &self.chains.signals[signal]);
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                return Ok(None);
            }
            // Before the look: what is delivered after it raises the signal again.
            signal.inspect(|signal| signal.clear());
            let first = self.first();
            if let Some((source, at)) = first.filter(|(_, at)| *at <= window.since_begin(now)) {
                self.take(source);
                return Ok(Some(at));
            }
            let next = first.map_or(window.end, |(_, at)| window.begin.saturating_add(at).min(window.end));
            match signal {
                Some(signal) => {
                    signal.wait(next)?;
                }
                None if gate.sleep_until(next) => {}
                None => return Ok(None),
            }
        }
    }

    /// Takes all that came until a job started.
    pub fn sample(&mut self, start: Nanos) {
        while let Some((source, _)) = self.first().filter(|(_, at)| *at <= start) {
            self.take(source);
        }
    }

    /// Hands on what a completed job took: one delivery for each chain, and a wake-up for each that goes to a fed stage.
    pub fn hand_on(&mut self, stamp: &Stamp) {
        let Some(completion) = stamp.completion else { return };
        for (handled, first) in &mut self.sources {
            let Some(begin) = first.take() else { continue };
            let events_end = handled.events_taken;
            let (start, execution) = (stamp.start, stamp.execution);
            handled.passes.push(Pass { events: begin..events_end, start, completion, execution });
            let (chain, stage) = handled.source;
            let Some(next) = self.chains.ways[chain].later.get(stage) else { continue };
            next.log.write(Delivery { events_end, at: completion });
            if let Some(signal) = next.signal {
                self.chains.signals[signal].signal();
            }
        }
    }

    /// What it took.
    pub fn finish(self) -> Vec<Handled> {
        self.sources.into_iter().map(|(handled, _)| handled).collect()
    }
}

/// Says what is assumed where a workload leaves it open.
pub(crate) fn notices(workload: &Workload, observer: &mut dyn Observer) {
    for chain in &workload.chains {
        if let Arrivals::Sporadic { gap } = chain.start {
            observer.notice(&format!(
                "chain.{}: its gap is all that is known of it; played at its densest, one event every {gap}",
                chain.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::formats::toml;

    fn ms(time: i64) -> Nanos {
        Nanos::from_millis(time)
    }

    const TWO: &str = "format = 1\n[[task]]\nname = \"first\"\nwork = \"1ms\"\n[[task]]\nname = \"frame\"\nperiod = \"20ms\"\nwork = \"1ms\"\n\
                       [[task]]\nname = \"last\"\nwork = \"1ms\"\n\
                       [[chain]]\nname = \"a\"\nstart = { kind = \"periodic\", period = \"10ms\" }\nthrough = [\"first\", \"frame\", \"last\"]\n\
                       [[chain]]\nname = \"b\"\nstart = { kind = \"periodic\", period = \"25ms\" }\nthrough = [\"last\"]\n";

    fn chains(length: Nanos) -> Chains {
        let workload = toml::read("w.toml", TWO).unwrap_or_else(|e| panic!("{e}"));
        Chains::of(&workload, 1, length)
    }

    fn seat<'a>(chains: &'a Chains, task: &str) -> Seat<'a> {
        Seat::of(chains, chains.place_of(task).expect("a chain passes it"))
    }

    fn stamp(start: Nanos, completion: Option<Nanos>) -> Stamp {
        Stamp { job: 0, release: start, start, completion, execution: ms(1) }
    }

    /// Handles the next delivery in 1 ms; when it came.
    fn handle(seat: &mut Seat<'_>, window: &Window) -> Option<i64> {
        let at = seat.listen(&Gate::default(), window).expect("nothing goes wrong")?;
        seat.hand_on(&stamp(at, Some(at + ms(1))));
        Some(at.get() / 1_000_000)
    }

    #[test]
    fn deliveries_are_handled_in_the_order_in_which_they_come_and_those_of_one_job_together() {
        let chains = chains(ms(60));
        let window = Window::new(clock::monotonic() - ms(59), Nanos::ZERO, ms(10_000));
        let mut first = seat(&chains, "first");
        let came: Vec<_> = (0..6).map(|_| handle(&mut first, &window)).collect();
        assert_eq!(came, [0, 10, 20, 30, 40, 50].map(Some));
        // Delivered at 1, 11, 21, ...: a job at 0 takes none, at 21 three, at 40 one; one that does not end hands nothing on.
        let mut frame = seat(&chains, "frame");
        for (start, end) in [(0, Some(2)), (21, Some(23)), (40, Some(42)), (60, None)] {
            frame.sample(ms(start));
            frame.hand_on(&stamp(ms(start), end.map(ms)));
        }
        let mut last = seat(&chains, "last");
        let came: Vec<_> = (0..5).map(|_| handle(&mut last, &window)).collect();
        assert_eq!(came, [0, 23, 25, 42, 50].map(Some), "b at 0, 25, 50");
        let passes = |seat: Seat<'_>| -> Vec<Vec<std::ops::Range<u64>>> {
            let events = |handled: Handled| handled.passes.into_iter().map(|pass| pass.events).collect();
            seat.finish().into_iter().map(events).collect()
        };
        assert_eq!(passes(frame), [[0..3, 3..4]]);
        assert_eq!(passes(last), [vec![0..3, 3..4], vec![0..1, 1..2, 2..3]]);
        assert_eq!(passes(first)[0].len(), 6);
    }

    #[test]
    fn what_nobody_took_is_open_and_no_wait_outlasts_the_run() {
        let chains = chains(ms(60));
        let window = Window::new(clock::monotonic() - ms(30), Nanos::ZERO, ms(40));
        let mut last = seat(&chains, "last");
        assert_eq!([handle(&mut last, &window), handle(&mut last, &window)], [Some(0), Some(25)]);
        assert_eq!(handle(&mut last, &window), None);
        assert!(clock::monotonic() >= window.end);
        let open = |span| {
            chains.open(&last.sources.iter().map(|(handled, _)| handled.clone()).collect::<Vec<_>>(), span)
        };
        let unfinished = JobOutcome::Unfinished { release: ms(50), until: ms(60) };
        assert_eq!(open((ms(0), ms(60))), [unfinished]);
        assert!(open((ms(51), ms(60))).is_empty() && open((ms(0), ms(50))).is_empty());
        // One that is given up before its end.
        let gate = Gate::default();
        let endless = Window::new(clock::monotonic(), Nanos::ZERO, Nanos::from_secs(3_600));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut seat = seat(&chains, "last");
                while let Ok(Some(_)) = seat.listen(&gate, &endless) {}
            });
            gate.stop();
            chains.close();
            waiting.join().expect("it ends");
        });
    }

    /// 20,000 deliveries from one thread to another. A lost wake-up leaves the second one waiting until the run is over, without its delivery.
    #[test]
    fn every_delivery_wakes() {
        let text = "format = 1\n[[task]]\nname = \"x\"\nwork = \"1ms\"\n[[task]]\nname = \"y\"\nwork = \"1ms\"\n\
                    [[chain]]\nname = \"c\"\nstart = { kind = \"periodic\", period = \"1us\" }\nthrough = [\"x\", \"y\"]\n";
        let workload = toml::read("w.toml", text).unwrap_or_else(|e| panic!("{e}"));
        let chains = Chains::of(&workload, 1, ms(20));
        let window = Window::new(clock::monotonic() - ms(20), Nanos::ZERO, Nanos::from_secs(60));
        let gate = Gate::default();
        let handle_all = |task: &str| {
            let mut seat = seat(&chains, task);
            for _ in 0..20_000 {
                let at = seat.listen(&gate, &window).expect("nothing goes wrong").expect("the run goes on");
                seat.hand_on(&stamp(at, Some(at)));
            }
            seat.finish().remove(0).events_taken
        };
        std::thread::scope(|scope| {
            let (x, y) = (scope.spawn(|| handle_all("x")), scope.spawn(|| handle_all("y")));
            assert_eq!((x.join().expect("it ends"), y.join().expect("it ends")), (20_000, 20_000));
        });
    }
}
