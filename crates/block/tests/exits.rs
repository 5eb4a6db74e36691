//! Laws of a queue whose processes exit and are followed by new ones under their numbers: nothing is lost, nothing served twice, no
//! count underflows (overflow is checked in tests), however BFQ's queues are merged and split meanwhile.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use surety_block::elevators::ELEVATORS;
use surety_block::{
    Bio, BioId, ElevatorRow, IoClass, Making, Op, Priority, Process, ProcessId, Queue, RequestId, Settings,
    Submitted, queue,
};
use surety_units::Nanos;

const PROCESSES: usize = 8;

/// What a process does next, after a pause.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A bio behind its last one, or as far off as a seek; with its sectors.
    Bio {
        reads: bool,
        sync: bool,
        seeks: bool,
        sectors: u32,
    },
    Plug,
    Unplug,
    /// Exits: what follows is of a new process.
    Exit,
}

type Step = (usize, u64, Act);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bio = (prop::bool::weighted(0.7), any::<bool>(), prop::bool::weighted(0.4), 1..64u32);
    let act = prop_oneof![
        20 => bio.prop_map(|(reads, sync, seeks, sectors)| Act::Bio { reads, sync, seeks, sectors }),
        1 => Just(Act::Plug),
        2 => Just(Act::Unplug),
        1 => Just(Act::Exit),
    ];
    // Mostly at once, at times long enough for queues to be merged for good, or to be raised anew.
    let pause = prop_oneof![20 => Just(0_u64), 20 => 0..3_000u64, 2 => 0..30_000u64, 1 => 0..3_000_000u64];
    prop::collection::vec((0..PROCESSES, pause, act), 1..300)
}

/// What a disk and its processes are like.
#[derive(Clone, Debug)]
struct Disk {
    requests: u32,
    tags: u32,
    rotational: bool,
    asks_first: bool,
    priorities: Vec<Priority>,
}

fn disks() -> impl Strategy<Value = Disk> {
    let class = prop_oneof![
        1 => Just(IoClass::Realtime), 6 => Just(IoClass::BestEffort), 1 => Just(IoClass::Idle)
    ];
    let level = prop_oneof![3 => Just(4_u8), 1 => 0..8u8];
    let priority = (class, level).prop_map(|(class, level)| Priority { class, level });
    let priorities = prop::collection::vec(priority, PROCESSES);
    (2..40u32, 1..8u32, any::<bool>(), any::<bool>(), priorities).prop_map(
        |(requests, tags, rotational, asks_first, priorities)| {
            let requests = requests.max(tags);
            Disk { requests, tags, rotational, asks_first, priorities }
        },
    )
}

struct Run {
    queue: Box<dyn Queue>,
    word: &'static str,
    /// What each process does from when on, and whether it sleeps for a request.
    to_do: Vec<VecDeque<(Nanos, Act)>>,
    asleep: [bool; PROCESSES],
    place: [u64; PROCESSES],
    bios: u32,
    device: BTreeMap<(Nanos, u32), RequestId>,
    done: Vec<BioId>,
}

impl Run {
    /// A process does what it is time for; it has done it, unless it sleeps.
    fn act(&mut self, now: Nanos, process: usize, act: Act) -> bool {
        let id = ProcessId(u32::try_from(process).unwrap());
        match act {
            Act::Plug => self.queue.plug(now, id),
            Act::Unplug => self.queue.unplug(now, id),
            Act::Exit => self.queue.exits(now, id),
            Act::Bio { reads, sync, seeks, sectors } => {
                let far = u64::from(self.bios) * 7919 % 64 * 100_000;
                let sector = if seeks { far } else { self.place[process] };
                let op = if reads { Op::Read } else { Op::Write };
                let bio = Bio {
                    op,
                    sync: reads || sync,
                    meta: false,
                    cached: false,
                    sector,
                    sectors,
                    process: id,
                    deadline: None,
                };
                if self.queue.submit(now, bio, BioId(self.bios)) == Submitted::Wait {
                    self.asleep[process] = true;
                    return false;
                }
                self.place[process] = bio.end();
                self.bios += 1;
            }
        }
        true
    }

    fn acts(&mut self, now: Nanos) {
        for process in 0..PROCESSES {
            while let Some((_, act)) = self.to_do[process].front().copied().filter(|(at, _)| *at <= now) {
                if self.asleep[process] || !self.act(now, process, act) {
                    break;
                }
                self.to_do[process].pop_front();
                if self.to_do[process].is_empty() {
                    self.queue.unplug(now, ProcessId(u32::try_from(process).unwrap()));
                }
            }
        }
        self.queue.blocks();
    }

    fn serves(&mut self, now: Nanos, tags: u32) {
        while let Some(entry) = self.device.first_entry().filter(|entry| entry.key().0 <= now) {
            let mut woken = Vec::new();
            self.queue.complete(now, entry.remove(), &mut self.done, &mut woken);
            woken.iter().for_each(|process| self.asleep[process.index()] = false);
        }
        self.acts(now);
        while self.device.len() < tags as usize {
            let Some((id, _)) = self.queue.next(now) else { break };
            let takes = Nanos::from_micros(200 + i64::from(id.0 % 5) * 900);
            assert!(self.device.insert((now + takes, id.0), id).is_none(), "{}: issued twice", self.word);
        }
    }
}

fn run(row: &'static ElevatorRow, disk: &Disk, steps: &[Step]) {
    let settings = Settings::new(row.tunables);
    let making = Making {
        asks_first: disk.asks_first,
        rotational: disk.rotational,
        max_sectors: 256,
        ..Making::new(disk.requests, disk.tags, settings)
    };
    let mut run = Run {
        queue: queue::make(row, &making),
        word: row.word,
        to_do: vec![VecDeque::new(); PROCESSES],
        asleep: [false; PROCESSES],
        // Neighbours read close to each other.
        place: std::array::from_fn(|process| 2000 * process as u64),
        bios: 0,
        device: BTreeMap::new(),
        done: Vec::new(),
    };
    disk.priorities
        .iter()
        .for_each(|priority| run.queue.add_process(Process { priority: *priority, ..Process::default() }));
    let mut at = Nanos::ZERO;
    for (process, pause, act) in steps {
        at += Nanos::from_micros(i64::try_from(*pause).unwrap());
        run.to_do[*process].push_back((at, *act));
    }
    let last = at + Nanos::from_secs(600);
    let mut now = Nanos::ZERO;
    loop {
        if run.queue.timer().is_some_and(|at| at <= now) {
            run.queue.expired(now);
        }
        run.serves(now, disk.tags);
        let awake = run.to_do.iter().zip(run.asleep).filter(|(_, asleep)| !asleep);
        let acts = awake.filter_map(|(to_do, _)| to_do.front().map(|(at, _)| *at));
        let ends = run.device.keys().map(|(at, _)| *at);
        let Some(next) = acts.chain(ends).chain(run.queue.timer()).min() else { break };
        now = next.max(now + Nanos::new(1));
        assert!(now < last, "{}: {} of {} bios are never served", row.word, run.bios, run.done.len());
    }
    assert!(!run.asleep.contains(&true), "{}: a process sleeps for ever", row.word);
    run.done.sort_unstable();
    let all: Vec<BioId> = (0..run.bios).map(BioId).collect();
    assert_eq!(run.done, all, "{}", row.word);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn processes_come_and_go_and_every_bio_is_served_once(disk in disks(), steps in steps()) {
        for row in ELEVATORS {
            run(row, &disk, &steps);
        }
    }
}

/// `anticipatory` waits for what the process reads next whose read is in the device; that process exits. Who else reads is served once
/// the time to wait is over, though nothing more comes.
#[test]
fn nobody_is_waited_for_who_has_exited() {
    let row = surety_block::elevators::by_word("anticipatory").unwrap();
    let mut queue = queue::make(row, &Making::new(128, 4, Settings::new(row.tunables)));
    let read = |process, sector| Bio {
        op: Op::Read,
        sync: true,
        meta: false,
        cached: false,
        sector,
        sectors: 8,
        process: ProcessId(process),
        deadline: None,
    };
    let (exits, reads) = (ProcessId(0), Nanos::from_millis(1));
    for _ in 0..2 {
        queue.add_process(Process::default());
    }
    queue.submit(Nanos::ZERO, read(0, 100), BioId(0));
    queue.blocks();
    let (first, _) = queue.next(Nanos::ZERO).unwrap();
    queue.submit(Nanos::ZERO, read(1, 900_000), BioId(1));
    queue.blocks();
    assert_eq!(queue.next(Nanos::ZERO), None, "it waits for the first process");
    queue.exits(Nanos::ZERO, exits);
    queue.complete(reads, first, &mut Vec::new(), &mut Vec::new());
    let until = queue.timer().unwrap();
    assert_eq!(until, reads + Nanos::from_millis(6));
    queue.expired(until);
    assert!(queue.next(until).is_some());
}
