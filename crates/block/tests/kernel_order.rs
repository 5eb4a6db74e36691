//! The order in which the kernel dispatched scripted requests, and ours: `kernel-order/SCHEDULER-SCRIPT.txt` hold what the tracepoints
//! `block_rq_insert`, `block_rq_issue` and `block_rq_complete` told of a loop device whose worker was kept from running while more than 250 requests came;
//! `kernel-order/null-KERNEL/` the same of null_blk in a guest of the lab, with one request at a time that takes 1 ms (`tools/kernel-order/record`).
//!
//! Requests come here when they were inserted there, and end when they ended there; every issue is compared. Of the loop device the queue is asked when
//! the kernel issued; of null_blk whenever the device is free, so it has to keep the device idle as the kernel did.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

use surety_block::elevator::Making;
use surety_block::elevators::by_word;
use surety_block::{
    Bio, BioId, IoClass, Op, Priority, Process, ProcessId, Queue, RequestId, Rules, Settings, Submitted,
    queue,
};
use surety_units::Nanos;

/// What a recording was made of.
struct Device {
    directory: &'static str,
    kernel: &'static str,
    /// Requests of the queue, and those that the device takes at a time.
    requests: u32,
    depth: u32,
    rotational: bool,
    /// The queue is asked whenever the device is free, not when the kernel issued.
    asks: bool,
}

const LOOP: Device = Device {
    directory: "kernel-order",
    kernel: "6.18",
    requests: 2048,
    depth: 128,
    rotational: true,
    asks: false,
};
const NULL: Device = Device {
    directory: "kernel-order/null-6.12",
    kernel: "6.12",
    requests: 1024,
    depth: 1,
    rotational: false,
    asks: true,
};
/// Another recording, in which a tick falls between the end of a request and the next one of its process.
const NULL_AGAIN: Device = Device { directory: "kernel-order/null-6.12-again", ..NULL };
const NULL_7: Device = Device { directory: "kernel-order/null-7.2", kernel: "7.2", ..NULL };
const NULL_6_1: Device = Device { directory: "kernel-order/null-6.1", kernel: "6.1", ..NULL };

/// How long after a timer the worker that runs the queue gets its CPU in the recordings, where no process has it; any time from 9 to 14 us
/// gives the same order.
const WORKER: Nanos = Nanos::from_micros(12);

/// Scheduler, script, and what was set.
type Recorded = (&'static str, &'static str, &'static [(&'static str, u64)]);

/// On the loop device `bfq` was set not to idle: else the device is idle most of the time, and nothing waits.
const ON_LOOP: [Recorded; 8] = [
    ("mq-deadline", "mixed", &[]),
    ("mq-deadline", "classes", &[]),
    ("mq-deadline", "streams", &[]),
    ("kyber", "mixed", &[]),
    ("kyber", "classes", &[]),
    ("kyber", "streams", &[]),
    ("bfq", "mixed", &[("slice_idle", 0)]),
    ("bfq", "streams", &[("slice_idle", 0)]),
];

const FAIR: &[(&str, u64)] = &[("low_latency", 0)];

const ON_NULL: [Recorded; 30] = [
    ("none", "mixed", &[]),
    ("none", "arrivals", &[]),
    ("mq-deadline", "arrivals", &[]),
    ("kyber", "arrivals", &[]),
    ("bfq", "arrivals", &[]),
    ("bfq", "arrivals", FAIR),
    ("mq-deadline", "mixed", &[]),
    ("mq-deadline", "classes", &[]),
    ("mq-deadline", "streams", &[]),
    ("mq-deadline", "closed", &[]),
    ("mq-deadline", "handover", &[]),
    ("kyber", "mixed", &[]),
    ("kyber", "classes", &[]),
    ("kyber", "streams", &[]),
    ("kyber", "closed", &[]),
    ("kyber", "handover", &[]),
    ("bfq", "mixed", &[]),
    ("bfq", "classes", &[]),
    ("bfq", "handover", &[]),
    ("bfq", "streams", &[]),
    ("bfq", "closed", &[]),
    ("bfq", "starting", &[]),
    ("bfq", "weights", &[]),
    ("bfq", "mixed", FAIR),
    ("bfq", "classes", FAIR),
    ("bfq", "streams", FAIR),
    ("bfq", "closed", FAIR),
    ("bfq", "handover", FAIR),
    ("bfq", "starting", FAIR),
    ("bfq", "weights", FAIR),
];

/// Recordings that are not alike. Of 7.2: `streams` from the 231st request on, why is not known; in `arrivals` two requests come before the worker
/// has the CPU for the first. Of 6.1: `weights` from the 394th on, why is not known; `classes` from the 241st on, where a write of the idle
/// class finds no first tag of a word free here.
const UNLIKE: [(&str, Recorded); 5] = [
    ("7.2", ("bfq", "streams", &[])),
    ("7.2", ("bfq", "streams", FAIR)),
    ("7.2", ("bfq", "arrivals", FAIR)),
    ("6.1", ("bfq", "weights", &[])),
    ("6.1", ("bfq", "classes", &[])),
];

/// What the kernel and our queue did with one script.
#[derive(Default)]
struct Compared {
    issued: usize,
    /// Issues before the first that differs.
    alike: usize,
    /// The most requests that had come and were not complete.
    waiting: usize,
    /// Issues that come before an earlier inserted one.
    reordered: usize,
}

/// Our queue, driven by a recording.
struct Driven<'a> {
    device: &'a Device,
    queue: Box<dyn Queue>,
    processes: BTreeMap<u64, (ProcessId, Priority)>,
    /// Processes that were there before them.
    before: u32,
    in_device: VecDeque<RequestId>,
    /// What processes have that wait for a tag.
    sleeping: HashMap<ProcessId, VecDeque<(Bio, BioId)>>,
    /// Two of a script may be of the same sector.
    at_sector: HashMap<u64, VecDeque<RequestId>>,
    inserted: Vec<u64>,
    ours: Vec<u64>,
}

impl Driven<'_> {
    fn inserted(&mut self, now: Nanos, words: &[&str]) {
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        let class = match words[6] {
            "rt" => IoClass::Realtime,
            "idle" => IoClass::Idle,
            _ => IoClass::BestEffort,
        };
        let priority = Priority { class, level: u8::try_from(number(7)).expect("a level") };
        let next = ProcessId(u32::try_from(self.processes.len()).expect("few") + self.before);
        let (process, known) = *self.processes.entry(number(2)).or_insert_with(|| {
            self.queue.add_process(Process { priority, ..Process::default() });
            (next, priority)
        });
        assert_eq!(known, priority);
        let bio = Bio {
            op: if words[3] == "r" { Op::Read } else { Op::Write },
            sync: true,
            meta: false,
            cached: false,
            sector: number(4),
            sectors: u32::try_from(number(5)).expect("a length"),
            process,
            deadline: None,
        };
        let id = BioId(u32::try_from(self.inserted.len()).expect("few"));
        self.inserted.push(bio.sector);
        self.submit(now, bio, id);
    }

    fn submit(&mut self, now: Nanos, bio: Bio, id: BioId) {
        if self.queue.submit(now, bio, id) == Submitted::Wait {
            self.sleeping.entry(bio.process).or_default().push_back((bio, id));
        }
        self.ask(now);
    }

    /// So many processes have waited for the only tag at a time.
    fn waits(&mut self, count: u32) {
        for process in 0..=count {
            self.queue.add_process(Process::default());
            let process = ProcessId(process);
            let bio = Bio {
                op: Op::Read,
                sync: true,
                meta: false,
                cached: false,
                sector: 0,
                sectors: 8,
                process,
                deadline: None,
            };
            self.submit(Nanos::ZERO, bio, BioId(0));
        }
        (0..=count).for_each(|_| self.completed(Nanos::ZERO, 0));
        self.ours.clear();
    }

    fn completed(&mut self, now: Nanos, sector: u64) {
        let id = match self.device.asks {
            true => self.in_device.pop_front(),
            false => self.at_sector.get_mut(&sector).and_then(VecDeque::pop_front),
        };
        let Some(id) = id else { return };
        let mut woken = Vec::new();
        self.queue.complete(now, id, &mut Vec::new(), &mut woken);
        self.ask(now);
        for process in woken {
            if let Some((bio, id)) = self.sleeping.get_mut(&process).and_then(VecDeque::pop_front) {
                self.submit(now, bio, id);
            }
        }
    }

    /// The driver asks while the device takes more.
    fn ask(&mut self, now: Nanos) {
        while self.device.asks && self.in_device.len() < self.device.depth as usize && self.issue(now) {}
    }

    fn issue(&mut self, now: Nanos) -> bool {
        let Some((id, _rule)) = self.queue.next(now) else { return false };
        let sector = self.queue.request(id).sector;
        self.at_sector.entry(sector).or_default().push_back(id);
        self.in_device.push_back(id);
        self.ours.push(sector);
        true
    }

    /// Timers up to now expire, for which the worker runs; not those from when on a process has had the only CPU.
    fn expire(&mut self, now: Nanos, occupied: Option<Nanos>) {
        let is_free = |at: Nanos| occupied.is_none_or(|since| at < since);
        while let Some(at) = self.queue.timer().filter(|at| *at + WORKER <= now && is_free(*at)) {
            self.queue.expired(at + WORKER);
            self.ask(at + WORKER);
        }
    }
}

/// What our queue does with a recording, before which so many processes have waited for a tag at a time.
fn compare(device: &Device, (scheduler, _, set): Recorded, text: &str, waits: u32) -> Compared {
    let row = by_word(scheduler).expect("an I/O scheduler");
    let mut settings = Settings::new(row.tunables);
    for (name, value) in set {
        settings.set(name, *value).expect("a tunable");
    }
    let rules = Rules::named(device.kernel).expect("a kernel");
    // Without an I/O scheduler there are as many tags as the device has.
    let requests = if scheduler == "none" { device.depth } else { device.requests };
    let making = Making {
        hz: 250,
        rotational: device.rotational,
        rules,
        ..Making::new(requests, device.depth, settings)
    };
    let mut driven = Driven {
        device,
        queue: queue::make(row, &making),
        processes: BTreeMap::new(),
        in_device: VecDeque::new(),
        sleeping: HashMap::new(),
        before: if waits > 0 { waits + 1 } else { 0 },
        at_sector: HashMap::new(),
        inserted: Vec::new(),
        ours: Vec::new(),
    };
    if waits > 0 {
        driven.waits(waits);
    }
    let (mut theirs, mut open, mut compared) = (Vec::new(), 0_usize, Compared::default());
    // What was complete last woke a process, which has the CPU until it waits for its next request.
    let mut woken = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        let now = Nanos::from_micros(i64::try_from(number(1)).expect("a time"));
        driven.expire(now, woken.filter(|_| words[0] == "I"));
        woken = (words[0] == "C").then_some(now);
        match words[0] {
            "I" => {
                open += 1;
                compared.waiting = compared.waiting.max(open);
                driven.inserted(now, &words);
            }
            "D" => {
                theirs.push(number(2));
                if !device.asks {
                    driven.issue(now);
                }
            }
            "X" => {
                let (process, _) = driven.processes[&number(2)];
                driven.queue.exits(now, process);
                driven.ask(now);
            }
            _ => {
                open -= 1;
                driven.completed(now, number(2));
            }
        }
    }
    compared.issued = theirs.len();
    compared.alike = theirs.iter().zip(&driven.ours).take_while(|(one, other)| one == other).count();
    let place_of: HashMap<u64, usize> = driven.inserted.iter().copied().zip(0..).collect();
    let places: Vec<usize> = theirs.iter().map(|sector| place_of[sector]).collect();
    compared.reordered = places.windows(2).filter(|pair| pair[1] < pair[0]).count();
    compared
}

fn check(device: &Device, recorded: Recorded) -> Compared {
    let (scheduler, script, set) = recorded;
    let what = match set {
        [("low_latency", 0)] => format!("{scheduler}-{script}-low_latency-0"),
        _ => format!("{scheduler}-{script}"),
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(device.directory);
    let text = std::fs::read_to_string(directory.join(format!("{what}.txt"))).expect("a recording");
    // The two turns of those that wait for tags stand somewhere when a recording begins.
    let waits = if (scheduler, script) == ("none", "arrivals") { 0..8 } else { 0..1 };
    let all: Vec<Compared> = waits.map(|waits| compare(device, recorded, &text, waits)).collect();
    assert!(
        all.iter().filter(|compared| compared.alike == compared.issued).count() <= 1,
        "{what}: told by chance"
    );
    let compared = all.into_iter().max_by_key(|compared| compared.alike).expect("there is one");
    let Compared { issued, alike, waiting, reordered } = compared;
    println!("{what}: {alike} of {issued} alike, {reordered} reordered, {waiting} waited");
    compared
}

#[test]
fn a_loop_device_is_served_in_our_order() {
    for recorded in ON_LOOP {
        let Compared { issued, alike, waiting, reordered } = check(&LOOP, recorded);
        assert!(issued == 420 && waiting > 250, "{recorded:?}: {issued} {waiting}");
        // Kyber sorts nothing: reads pass writes.
        assert!(reordered > 0 || (recorded.0, recorded.1) == ("kyber", "streams"), "{recorded:?}");
        assert_eq!(alike, issued, "{recorded:?}");
    }
}

#[test]
fn a_null_device_is_served_in_our_order() {
    let (mut reordered_scripts, mut different) = (BTreeMap::new(), Vec::new());
    for (device, recorded) in
        [&NULL_6_1, &NULL, &NULL_7].into_iter().flat_map(|device| ON_NULL.map(|of| (device, of)))
    {
        // Of 6.1 `arrivals` is not recorded.
        let is_missing = (device.kernel, recorded.1) == ("6.1", "arrivals");
        if is_missing || UNLIKE.contains(&(device.kernel, recorded)) {
            continue;
        }
        let Compared { issued, alike, reordered, .. } = check(device, recorded);
        assert!(issued >= 200, "{recorded:?}: {issued}");
        if alike != issued {
            different.push(format!("{} {recorded:?}: {alike} of {issued}", device.kernel));
        }
        *reordered_scripts.entry(recorded.1).or_insert(0) += reordered;
    }
    for set in [&[][..], FAIR] {
        let Compared { issued, alike, .. } = check(&NULL_AGAIN, ("bfq", "weights", set));
        assert_eq!((issued, alike), (600, 600), "{set:?}");
    }
    assert!(different.is_empty(), "{different:#?}");
    // Each script makes a difference to the order of arrival, somewhere.
    assert!(reordered_scripts.values().all(|reordered| *reordered > 0), "{reordered_scripts:?}");
}
