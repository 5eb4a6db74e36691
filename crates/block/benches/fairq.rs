//! What an item costs as flows become many: one comes and one is taken, with two items waiting in every flow.

use divan::Bencher;
use divan::counter::ItemsCount;
use surety_block::fairq::{Flow, FlowId, Item, Making, SCHEDULERS, Scheduler};
use surety_units::{Nanos, Rate};

const FLOWS: [u32; 4] = [10, 100, 1_000, 10_000];
const ITEMS: u64 = 20_000;
/// Of an item, at 100 Mbit/s.
const TIME: i64 = 120_000;
const LENGTH: u32 = 1_500;

fn words() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.iter().map(|row| row.word)
}

/// A scheduler with two items in each of its flows, whose weights are 1 to 8.
fn full(word: &str, flows: u32) -> Box<dyn Scheduler> {
    let row = surety_block::fairq::by_word(word).expect("a scheduler");
    let flow = |place: u32| Flow::new(1 + place % 8, LENGTH);
    let making = Making { rate: Rate(12_500_000), flows: (0..flows).map(flow).collect(), quantum: LENGTH };
    let mut scheduler = row.make(&making).expect("numbers it takes");
    for number in 0..2 * flows {
        let flow = FlowId(number % flows);
        scheduler.enqueue(Nanos::ZERO, Item { flow, length: LENGTH, number: u64::from(number) });
    }
    scheduler
}

#[divan::bench(args = words(), consts = FLOWS)]
fn item<const N: u32>(bencher: Bencher<'_, '_>, word: &str) {
    let mut scheduler = full(word, N);
    let mut now = Nanos::ZERO;
    bencher.counter(ItemsCount::new(ITEMS)).bench_local(|| {
        for _ in 0..ITEMS {
            let (item, _) = scheduler.dequeue(now).expect("two wait in each flow");
            // Another of the same flow, so that each goes on at its own pace.
            scheduler.enqueue(now, item);
            now += Nanos::new(TIME);
        }
    });
}

fn main() {
    divan::main();
}
