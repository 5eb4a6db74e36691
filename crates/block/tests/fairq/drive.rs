//! A server of 1 MB/s, so that a byte is a microsecond, and what it does under a scheduler.

use surety_block::fairq::{Flow, FlowId, Item, Making, SchedulerRow};
use surety_stats::random::Pcg;
use surety_units::{Nanos, Rate};

pub const RATE: Rate = Rate(1_000_000);

/// An item that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub item: Item,
    pub begun: Nanos,
    pub end: Nanos,
    pub rule: &'static str,
}

pub fn micros(us: u64) -> Nanos {
    Nanos::from_micros(i64::try_from(us).expect("short"))
}

/// Bytes of the server up to an instant.
pub fn bytes_at(at: Nanos) -> u64 {
    at.get_unsigned() / 1_000
}

/// Serves all arrivals, which are in order. The server takes an item whenever it is idle and one has come: it is checked that the
/// scheduler then gives one.
pub fn run(row: &SchedulerRow, making: &Making, arrivals: &[(Nanos, Item)]) -> Vec<Served> {
    let mut scheduler = row.make(making).expect("numbers it takes");
    let mut served = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    let mut now = Nanos::ZERO;
    let mut waiting = 0usize;
    loop {
        while let Some((_, item)) = arrivals.next_if(|(at, _)| *at <= now) {
            scheduler.enqueue(now, *item);
            waiting += 1;
        }
        assert_eq!(scheduler.queued(), waiting, "{}", row.word);
        let Some((item, rule)) = scheduler.dequeue(now) else {
            assert_eq!(waiting, 0, "{} is idle at {now} beside {waiting} items", row.word);
            let Some((at, _)) = arrivals.peek() else { return served };
            now = *at;
            continue;
        };
        waiting -= 1;
        let end = now + micros(u64::from(item.length));
        served.push(Served { item, begun: now, end, rule: rule.0 });
        // What comes meanwhile comes before the server is asked for more.
        while let Some((at, item)) = arrivals.next_if(|(at, _)| *at <= end) {
            scheduler.enqueue(*at, *item);
            waiting += 1;
        }
        now = end;
    }
}

/// Flows and arrivals by chance.
#[derive(Clone, Debug)]
pub struct Case {
    pub making: Making,
    pub arrivals: Vec<(Nanos, Item)>,
}

/// Flows in bursts of up to 40 items, at a load of about the server's rate.
pub fn case(seed: u64, items: u64) -> Case {
    let mut chance = Pcg::new(u128::from(seed), 18);
    let mut draw = |from: u64, to: u64| u32::try_from(from + chance.below(to - from + 1)).expect("small");
    let count = draw(2, 24);
    let flows: Vec<Flow> = (0..count)
        .map(|_| {
            let weight = [1, 1, 2, 3, 7, 10, 30][draw(0, 6) as usize];
            Flow::new(weight, [512, 600, 1000, 1500, 1500][draw(0, 4) as usize])
        })
        .collect();
    let quantum = draw(1500, 6000);
    let (mut arrivals, mut at) = (Vec::new(), 0u64);
    while (arrivals.len() as u64) < items {
        let flow = draw(0, u64::from(count) - 1);
        let largest = u64::from(flows[flow as usize].largest);
        let mut burst = 0;
        for _ in 0..draw(1, 40) {
            let length = if draw(0, 1) == 0 { largest } else { u64::from(draw(1, largest)) };
            let number = arrivals.len() as u64;
            let item = Item { flow: FlowId(flow), length: u32::try_from(length).expect("small"), number };
            arrivals.push((micros(at), item));
            burst += length;
            at += u64::from(draw(0, 50));
        }
        at += u64::from(draw(0, burst.max(2) * 2));
    }
    Case { making: Making { rate: RATE, flows, quantum }, arrivals }
}
