//! What a request costs as more of them wait, and of more processes: one comes, the driver takes one, and one is complete.

use divan::Bencher;
use divan::counter::ItemsCount;
use surety_block::elevators::{ELEVATORS, by_word};
use surety_block::{Bio, BioId, Making, Op, Process, ProcessId, Queue, Settings, queue};
use surety_units::Nanos;

const WAITING: [u32; 4] = [10, 100, 1_000, 10_000];
const PROCESSES: u32 = 10;
const REQUESTS: u64 = 20_000;
/// What the device takes for one.
const TIME: i64 = 100_000;

/// But for the one that looks at each request that waits.
fn words() -> impl Iterator<Item = &'static str> {
    ELEVATORS.iter().map(|row| row.word).filter(|word| *word != "sptf")
}

/// A queue, and where its processes read: at random, in places of their own.
struct Bench {
    processes: u32,
    queue: Box<dyn Queue>,
    random: u64,
    next: u32,
    now: Nanos,
}

impl Bench {
    fn new(word: &str, processes: u32, waiting: u32) -> Bench {
        let row = by_word(word).expect("an I/O scheduler");
        let settings = Settings::new(row.tunables);
        let making = Making { rotational: false, ..Making::new(waiting + 8, 1, settings) };
        let queue = queue::make(row, &making);
        let mut bench = Bench { processes, queue, random: 1, next: 0, now: Nanos::ZERO };
        (0..processes).for_each(|_| bench.queue.add_process(Process::default()));
        (0..waiting).for_each(|_| bench.come());
        bench
    }

    fn come(&mut self) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let process = ProcessId(self.next % self.processes);
        let sector = (self.random >> 34) * 64 + u64::from(process.0);
        let bio = Bio {
            op: Op::Read,
            sync: true,
            meta: false,
            cached: false,
            sector,
            sectors: 8,
            process,
            deadline: None,
        };
        self.next += 1;
        self.queue.submit(self.now, bio, BioId(self.next));
    }
}

/// Ten processes.
#[divan::bench(args = words(), consts = WAITING)]
fn request<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    run(bencher, Bench::new(word, PROCESSES, N));
}

/// As many processes as requests.
#[divan::bench(args = words(), consts = WAITING)]
fn process<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    run(bencher, Bench::new(word, N, N));
}

fn run(bencher: Bencher<'_, '_>, mut bench: Bench) {
    let (mut done, mut woken) = (Vec::new(), Vec::new());
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        for _ in 0..REQUESTS {
            let taken = loop {
                match bench.queue.next(bench.now) {
                    Some((id, _)) => break id,
                    None => {
                        // The device is kept idle for somebody.
                        bench.now = bench.queue.timer().expect("it waits for something").max(bench.now);
                        bench.queue.expired(bench.now);
                    }
                }
            };
            bench.now += Nanos::new(TIME);
            bench.queue.complete(bench.now, taken, &mut done, &mut woken);
            done.clear();
            woken.clear();
            bench.come();
        }
    });
}

fn main() {
    divan::main();
}
