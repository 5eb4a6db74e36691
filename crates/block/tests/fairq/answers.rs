//! Known answers, each with its source. Lengths are in bytes, and a byte takes a microsecond.

use surety_block::fairq::gps::{Done, Gps};
use surety_block::fairq::{Curve, Flow, FlowId, Item, Making, by_word};
use surety_units::{Nanos, Rate};

use crate::drive::{RATE, Served, micros, run};

/// Flows by weight with the items that each has at time 0, and the order in which they are served: `flow`, or `flow:length`
/// where lengths differ.
struct Answer {
    source: &'static str,
    scheduler: &'static str,
    quantum: u32,
    flows: &'static [(u32, &'static [u32])],
    order: &'static str,
}

const K: u32 = 1000;

/// One session of half the server with eleven packets, and ten of a twentieth with one packet each.
const HALF_AND_TEN: &[(u32, &[u32])] = &[
    (10, &[K; 11]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
    (1, &[K]),
];

const ANSWERS: &[Answer] = &[
    Answer {
        source: "Bennett and Zhang, WF2Q, 1996, figure 1; WF2Q+, 1996, figure 2: under WFQ ten packets go ahead at once",
        scheduler: "wfq",
        quantum: K,
        flows: HALF_AND_TEN,
        order: "0 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6 7 8 9 10 0",
    },
    Answer {
        source: "the same: under WF2Q and WF2Q+ the session gets every other packet",
        scheduler: "wf2q+",
        quantum: K,
        flows: HALF_AND_TEN,
        order: "0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 8 0 9 0 10 0",
    },
    Answer {
        source: "B-WF2Q+ with budgets of one item is WF2Q+ (Valente and Checconi, 2010)",
        scheduler: "b-wf2q+",
        quantum: K,
        flows: HALF_AND_TEN,
        order: "0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 8 0 9 0 10 0",
    },
    Answer {
        // S, F after each budget, V in thirds: 1 (0, 1000), V 667; 0 (0, 2000), V 1333; 1 (1000, 2000), V 2000; both (2000, ...): 1 again.
        source: "the rules of B-WF2Q+ by hand: budgets of two items, weights 1 and 2",
        scheduler: "b-wf2q+",
        quantum: 2 * K,
        flows: &[(1, &[K; 4]), (2, &[K; 8])],
        order: "1 1 0 0 1 1 1 1 0 0 1 1",
    },
    Answer {
        source: "Shreedhar and Varghese, 1995, lengths of figure 2: 200 goes, 300 is left, and 750 has to wait for the next round",
        scheduler: "drr",
        quantum: 500,
        flows: &[(1, &[200, 750, 20]), (1, &[500, 500]), (1, &[100, 600, 200]), (1, &[180, 700, 50])],
        order: "0:200 1:500 2:100 3:180 0:750 0:20 1:500 2:600 2:200 3:700 3:50",
    },
    Answer {
        source: "S. Y. Cheung, CS 558, Emory University, Deficit Round Robin: three flows, quantum 500",
        scheduler: "drr",
        quantum: 500,
        flows: &[(1, &[200, 400]), (1, &[100, 200, 300]), (1, &[200, 200, 200])],
        order: "0:200 1:100 1:200 2:200 2:200 0:400 1:300 2:200",
    },
    Answer {
        // Budgets of one item, slots of 1024 bytes. S of flow 0 after its items: 1000, in slot 0 yet and before the others there; 2000.
        // Flow 2: 800, 1600; flow 1: 900, 1800: in slot 1 now before 2, which is before 0.
        source: "net/sched/sch_qfq.c by hand: in a slot the aggregate that was put in last goes first",
        scheduler: "qfq",
        quantum: K,
        flows: &[(1, &[K; 3]), (1, &[900; 3]), (1, &[800; 3])],
        order: "0:1000 0:1000 2:800 2:800 1:900 1:900 1:900 2:800 0:1000",
    },
];

fn at_once(flows: &[(u32, &[u32])]) -> (Vec<Flow>, Vec<(Nanos, Item)>) {
    let (mut made, mut arrivals) = (Vec::new(), Vec::new());
    for (place, (weight, lengths)) in flows.iter().enumerate() {
        made.push(Flow::new(*weight, *lengths.iter().max().expect("an item")));
        for length in *lengths {
            let flow = FlowId(u32::try_from(place).expect("few"));
            let number = arrivals.len() as u64;
            arrivals.push((Nanos::ZERO, Item { flow, length: *length, number }));
        }
    }
    (made, arrivals)
}

fn order(served: &[Served], with_length: bool) -> String {
    let words = served.iter().map(|Served { item, .. }| match with_length {
        true => format!("{}:{}", item.flow.0, item.length),
        false => item.flow.0.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn items_go_in_the_order_of_the_published_examples() {
    for answer in ANSWERS {
        let (flows, arrivals) = at_once(answer.flows);
        let making = Making { rate: RATE, flows, quantum: answer.quantum };
        let row = by_word(answer.scheduler).expect("a scheduler");
        let served = run(row, &making, &arrivals);
        assert_eq!(
            order(&served, answer.order.contains(':')),
            answer.order,
            "{}: {}",
            answer.scheduler,
            answer.source
        );
    }
}

/// Bennett and Zhang, figure 1: packets of the first session are done at 2, 4, ... 20 and 21, all others at 20.
#[test]
fn the_fluid_server_is_done_when_the_figure_says() {
    let (flows, arrivals) = at_once(HALF_AND_TEN);
    let mut fluid = Gps::new(RATE, flows.iter().map(|flow| flow.weight).collect());
    for (at, item) in &arrivals {
        fluid.arrive(*at, *item);
    }
    let mut done = Vec::new();
    fluid.advance(Nanos::from_millis(19), |d| done.push(d));
    assert_eq!(fluid.served(FlowId(0)), 9_500 * 1_000_000_000);
    assert_eq!(fluid.served(FlowId(10)), 950 * 1_000_000_000);
    fluid.advance(Nanos::from_millis(30), |d| done.push(d));
    for Done { flow, number, at } in done {
        let expected = match (flow.0, number) {
            (0, 10) => 21,
            (0, number) => 2 * (i64::try_from(number).expect("few") + 1),
            _ => 20,
        };
        assert_eq!(at, Nanos::from_millis(expected), "{flow:?} {number}");
    }
}

/// Stoica, Zhang and Ng, 1997, section 1: a linear curve ties the delay of 64 kbit/s audio to its rate, 160 bytes in 20 ms; a concave one
/// of `umax` 160 bytes, `dmax` 5 ms and 64 kbit/s does not. Beside sixty flows of 150 bytes in 10 ms, deadlines are 10, and 20 or 5 ms.
#[test]
fn a_concave_curve_lets_little_work_go_before_its_rate() {
    let linear = Curve::linear(Rate(8_000));
    let concave = Curve { first: Rate(32_000), bend: Nanos::from_millis(5), then: Rate(8_000) };
    let video = Curve::linear(Rate(15_000));
    for (audio, begun) in [(linear, 60 * 150), (concave, 150)] {
        let mut flows = vec![Flow { curve: Some(video), ..Flow::new(1, 150) }; 60];
        flows.push(Flow { curve: Some(audio), ..Flow::new(1, 160) });
        let making = Making { rate: RATE, flows, quantum: 1500 };
        let item = |flow, length| Item { flow: FlowId(flow), length, number: u64::from(flow) };
        let mut arrivals: Vec<_> = (0..60).map(|flow| (Nanos::ZERO, item(flow, 150))).collect();
        arrivals.push((micros(1), item(60, 160)));
        let served = run(by_word("hfsc").expect("a scheduler"), &making, &arrivals);
        let audio = served.iter().find(|served| served.item.flow.0 == 60).expect("it is served");
        assert_eq!(audio.begun, micros(begun));
        assert!(audio.rule.starts_with("real time"), "{}", audio.rule);
    }
}

/// A flow that comes after a pause of more than 2 s weighs thirty times as much for 25 s; one that came now and then meanwhile is as the
/// others afterwards; eight that come together are not raised (`block/bfq-iosched.c`).
#[test]
fn a_flow_is_raised_after_a_pause_and_not_in_a_burst() {
    let row = by_word("bfq-raising").expect("a scheduler");
    let item = |flow, number| Item { flow: FlowId(flow), length: 1000, number };
    for (pauses, expected) in [(true, 120.0..=130.0), (false, 890.0..=915.0)] {
        // Eight bulk flows from time 0, and one that comes at 1 s and at 27.5 s, and perhaps each second between.
        let bulk = (0..40_000).map(|number| item(u32::try_from(number % 8).expect("few"), number));
        let mut arrivals: Vec<_> = bulk.map(|item| (Nanos::ZERO, item)).collect();
        arrivals.extend((0..100).map(|k| (Nanos::from_secs(1), item(8, 50_000 + k))));
        if !pauses {
            arrivals.extend((2..28).map(|second| (Nanos::from_secs(second), item(8, 60_000))));
        }
        arrivals.extend((0..100).map(|k| (Nanos::from_millis(27_500), item(8, 70_000 + k))));
        let making = Making { rate: RATE, flows: vec![Flow::new(1, 1000); 9], quantum: 1000 };
        let served = run(row, &making, &arrivals);
        let took = |number: u64, since: Nanos| {
            let last = served.iter().find(|served| served.item.number == number).expect("served");
            (last.end - since).as_millis_f64().round()
        };
        // 100 items at 30/38 of the server are 127 ms, at 1/9 of it 900 ms; a budget or two beside.
        let first = took(50_099, Nanos::from_secs(1));
        assert!((120.0..=130.0).contains(&first), "{first}");
        let second = took(70_099, Nanos::from_millis(27_500));
        assert!(expected.contains(&second), "{pauses}: {second}");
    }
}
