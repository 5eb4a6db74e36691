//! Laws of a queue with each I/O scheduler: what goes in comes out, once; nobody sleeps for ever; the device idles only where a
//! scheduler waits for somebody.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use surety_block::elevators::ELEVATORS;
use surety_block::{
    Bio, BioId, ElevatorRow, Front, IoClass, Making, Op, Priority, Process, ProcessId, Queue, Settings,
    Submitted, queue,
};
use surety_units::Nanos;

/// Schedulers that keep the device idle on purpose.
const IDLING: [&str; 3] = ["anticipatory", "cfq", "bfq"];
const PROCESSES: u32 = 4;

/// A bio of a process: when it is made, whether it reads or somebody waits for it, where and how long.
type Made = (u64, u32, bool, bool, u64, u32);

fn bios() -> impl Strategy<Value = Vec<Made>> {
    // Few sectors, so that many are adjacent.
    let one = (0..40_000_000u64, 0..PROCESSES, any::<bool>(), any::<bool>(), 0..60u64, 1..16u32);
    prop::collection::vec(one, 1..150)
}

/// A device that takes `tags` requests at a time, each for a millisecond.
struct Run {
    queue: Box<dyn Queue>,
    /// What each process still has to submit, in order; and whether it sleeps.
    unsent: Vec<VecDeque<(Nanos, Bio, BioId)>>,
    asleep: Vec<bool>,
    device: BTreeMap<(Nanos, u32), surety_block::RequestId>,
    done: Vec<BioId>,
    idle_with_requests: bool,
    pending: usize,
}

impl Run {
    fn submit(&mut self, now: Nanos) {
        for process in 0..self.unsent.len() {
            let id = ProcessId(u32::try_from(process).unwrap());
            while !self.asleep[process] {
                let Some((_, bio, number)) =
                    self.unsent[process].front().copied().filter(|(at, _, _)| *at <= now)
                else {
                    break;
                };
                if self.queue.submit(now, bio, number) == Submitted::Wait {
                    self.asleep[process] = true;
                } else {
                    self.unsent[process].pop_front();
                    self.pending += 1;
                }
            }
            self.queue.unplug(now, id);
        }
        self.queue.blocks();
    }

    fn serve(&mut self, now: Nanos, tags: usize) {
        while let Some(entry) = self.device.first_entry().filter(|entry| entry.key().0 <= now) {
            let (mut done, mut woken) = (Vec::new(), Vec::new());
            self.queue.complete(now, entry.remove(), &mut done, &mut woken);
            self.pending -= done.len();
            self.done.extend(done);
            woken.iter().for_each(|process| self.asleep[process.index()] = false);
        }
        self.submit(now);
        while self.device.len() < tags {
            let Some((id, _)) = self.queue.next(now) else { break };
            self.device.insert((now + Nanos::MILLISECOND, id.0), id);
        }
        // `mq-deadline` holds back what has a lower class while a request of a higher one is in the device; then the queue is run again 3 ms and a tick later.
        let is_run_again = self.queue.timer().is_some_and(|at| at <= now + Nanos::from_millis(4));
        self.idle_with_requests |= self.device.is_empty() && self.pending > 0 && !is_run_again;
    }
}

fn run(row: &'static ElevatorRow, made: &[Made], requests: u32, tags: u32) -> Run {
    let making = Making {
        asks_first: tags > 4,
        max_sectors: 1024,
        ..Making::new(requests, tags, Settings::new(row.tunables))
    };
    let mut run = Run {
        queue: queue::make(row, &making),
        unsent: vec![VecDeque::new(); PROCESSES as usize],
        asleep: vec![false; PROCESSES as usize],
        device: BTreeMap::new(),
        done: Vec::new(),
        idle_with_requests: false,
        pending: 0,
    };
    let classes = [IoClass::Realtime, IoClass::BestEffort, IoClass::BestEffort, IoClass::Idle];
    for class in classes {
        run.queue.add_process(Process { priority: Priority { class, level: 4 }, ..Process::default() });
    }
    let mut made: Vec<(usize, &Made)> = made.iter().enumerate().collect();
    made.sort_by_key(|(_, made)| made.0);
    for (number, (at, process, reads, sync, sector, sectors)) in made {
        let bio = Bio {
            op: if *reads { Op::Read } else { Op::Write },
            sync: *reads || *sync,
            meta: false,
            cached: false,
            sector: sector * 8,
            sectors: *sectors,
            process: ProcessId(*process),
            // Some know when they are late.
            deadline: (sector % 3 == 0).then(|| Nanos::new(i64::try_from(*at).unwrap() + 5_000_000)),
        };
        let number = BioId(u32::try_from(number).unwrap());
        let at = Nanos::new(i64::try_from(*at).unwrap());
        run.unsent[*process as usize].push_back((at, bio, number));
    }
    let mut now = Nanos::ZERO;
    loop {
        if run.queue.timer().is_some_and(|at| at <= now) {
            run.queue.expired(now);
        }
        run.serve(now, tags as usize);
        let sent = run.unsent.iter().zip(&run.asleep).filter(|(_, asleep)| !**asleep);
        let next = sent.filter_map(|(unsent, _)| unsent.front().map(|(at, _, _)| *at)).filter(|at| *at > now);
        let ends = run.device.keys().map(|(at, _)| *at);
        let Some(next) = next.chain(ends).chain(run.queue.timer()).min() else { break };
        now = next.max(now + Nanos::new(1));
        assert!(now < Nanos::from_secs(600), "{}: {} bios are never served", row.word, run.pending);
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_bio_is_served_once_and_nobody_sleeps_for_ever(
        made in bios(),
        requests in 2..12u32,
        tags in 1..4u32,
    ) {
        for row in ELEVATORS {
            let run = run(row, &made, requests.max(tags), tags);
            let mut done: Vec<u32> = run.done.iter().map(|bio| bio.0).collect();
            done.sort_unstable();
            prop_assert_eq!(done, (0..u32::try_from(made.len()).unwrap()).collect::<Vec<_>>(), "{}", row.word);
            prop_assert!(!run.asleep.contains(&true), "{}: somebody sleeps", row.word);
        }
    }

    #[test]
    fn the_device_works_while_there_are_requests(made in bios(), tags in 1..4u32) {
        for row in ELEVATORS.iter().filter(|row| !IDLING.contains(&row.word)) {
            let run = run(row, &made, 128, tags);
            prop_assert!(!run.idle_with_requests, "{}", row.word);
        }
    }
}

/// Both kinds of queues are among them.
#[test]
fn both_fronts_are_tried() {
    for front in [Front::BlkMq, Front::Legacy] {
        assert!(ELEVATORS.iter().any(|row| row.front == front));
    }
}
