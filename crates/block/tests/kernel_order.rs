//! The order in which the kernel dispatched scripted requests, and ours: `kernel-order/SCHEDULER-SCRIPT.txt` hold what the tracepoints
//! `block_rq_insert`, `block_rq_issue` and `block_rq_complete` told of a loop device whose worker was kept from running while more than 250 requests came.
//!
//! Requests come here when they were inserted there, and end when they ended there; every issue is compared.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

use surety_block::elevator::Making;
use surety_block::elevators::by_word;
use surety_block::{
    Bio, BioId, IoClass, Op, Priority, Process, ProcessId, RequestId, Settings, Submitted, queue,
};
use surety_units::Nanos;

/// What the kernel and our queue did with one script.
struct Compared {
    issued: usize,
    /// Issues before the first that differs.
    alike: usize,
    /// The most requests that had come and were not complete.
    waiting: usize,
    /// Issues that come before an earlier inserted one.
    reordered: usize,
}

fn compare(scheduler: &str, text: &str) -> Compared {
    let row = by_word(scheduler).expect("an I/O scheduler");
    let mut settings = Settings::new(row.tunables);
    if scheduler == "bfq" {
        // As it was set there: else the device is idle most of the time, and nothing waits.
        settings.set("slice_idle", 0).expect("a tunable of bfq");
    }
    let making = Making { hz: 250, ..Making::new(2048, 128, settings) };
    let mut queue = queue::make(row, &making);
    let mut processes: BTreeMap<u32, (ProcessId, Priority)> = BTreeMap::new();
    // Two of a script may be of the same sector.
    let mut at_sector: HashMap<u64, VecDeque<RequestId>> = HashMap::new();
    let (mut inserted, mut place_of) = (Vec::new(), HashMap::new());
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let (mut open, mut waiting) = (0_usize, 0);
    let (mut done, mut woken) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        let now = Nanos::from_micros(i64::try_from(number(1)).expect("a time"));
        while let Some(at) = queue.timer().filter(|at| *at <= now) {
            queue.expired(at);
        }
        match words[0] {
            "I" => {
                let class = match words[6] {
                    "rt" => IoClass::Realtime,
                    "idle" => IoClass::Idle,
                    _ => IoClass::BestEffort,
                };
                let priority = Priority { class, level: u8::try_from(number(7)).expect("a level") };
                let next = ProcessId(u32::try_from(processes.len()).expect("few"));
                let key = u32::try_from(number(2)).expect("few");
                let (process, known) = *processes.entry(key).or_insert_with(|| {
                    queue.add_process(Process { priority, ..Process::default() });
                    (next, priority)
                });
                assert_eq!(known, priority);
                let bio = Bio {
                    op: if words[3] == "r" { Op::Read } else { Op::Write },
                    sync: true,
                    meta: false,
                    sector: number(4),
                    sectors: u32::try_from(number(5)).expect("a length"),
                    process,
                    deadline: None,
                };
                let id = BioId(u32::try_from(inserted.len()).expect("few"));
                place_of.insert(bio.sector, inserted.len());
                inserted.push(bio.sector);
                open += 1;
                waiting = waiting.max(open);
                assert_eq!(queue.submit(now, bio, id), Submitted::Accepted);
            }
            "D" => {
                theirs.push(number(2));
                if let Some((id, _rule)) = queue.next(now) {
                    let sector = queue.request(id).sector;
                    at_sector.entry(sector).or_default().push_back(id);
                    ours.push(sector);
                }
            }
            _ => {
                open -= 1;
                if let Some(id) = at_sector.get_mut(&number(2)).and_then(VecDeque::pop_front) {
                    queue.complete(now, id, &mut done, &mut woken);
                }
            }
        }
    }
    let alike = theirs.iter().zip(&ours).take_while(|(one, other)| one == other).count();
    let places: Vec<usize> = theirs.iter().map(|sector| place_of[sector]).collect();
    let reordered = places.windows(2).filter(|pair| pair[1] < pair[0]).count();
    Compared { issued: theirs.len(), alike, waiting, reordered }
}

/// Scheduler and script. `bfq` was recorded with `slice_idle` 0.
const SCRIPTS: [(&str, &str); 8] = [
    ("mq-deadline", "mixed"),
    ("mq-deadline", "classes"),
    ("mq-deadline", "streams"),
    ("kyber", "mixed"),
    ("kyber", "classes"),
    ("kyber", "streams"),
    ("bfq", "mixed"),
    ("bfq", "streams"),
];

#[test]
fn the_kernel_dispatches_in_our_order() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel-order");
    for (scheduler, script) in SCRIPTS {
        let text = std::fs::read_to_string(directory.join(format!("{scheduler}-{script}.txt")))
            .expect("a recording");
        let Compared { issued, alike, waiting, reordered } = compare(scheduler, &text);
        println!("{scheduler} {script}: {alike} of {issued} alike, {reordered} reordered, {waiting} waited");
        assert!(issued == 420 && waiting > 250, "{scheduler} {script}: {issued} {waiting}");
        // Kyber sorts nothing: reads pass writes.
        assert!(reordered > 0 || (scheduler, script) == ("kyber", "streams"), "{scheduler} {script}");
        assert_eq!(alike, issued, "{scheduler} {script}");
    }
}
