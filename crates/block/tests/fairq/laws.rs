//! What holds for every scheduler: each item is served once, a flow's in their order, and the server rests only when nothing waits.

use surety_block::fairq::{Curve, Making, MakingError, SCHEDULERS, by_word, curves_fit};
use surety_units::{Nanos, Rate};

use crate::drive::{Served, case, run};

#[test]
fn every_item_is_served_once_in_the_order_of_its_flow_and_the_server_never_waits() {
    for seed in 0..120 {
        let case = case(seed, 300);
        let ends: Vec<Vec<Served>> =
            SCHEDULERS.iter().map(|row| run(row, &case.making, &case.arrivals)).collect();
        for (row, served) in SCHEDULERS.iter().zip(&ends) {
            for flow in 0..case.making.flows.len() {
                let came =
                    case.arrivals.iter().map(|(_, item)| item).filter(|item| item.flow.index() == flow);
                let went = served.iter().map(|served| &served.item).filter(|item| item.flow.index() == flow);
                assert!(came.eq(went), "{}, seed {seed}, flow {flow}", row.word);
            }
            // `run` checks it of each idle moment; then all are done with everything at the same time.
            assert_eq!(
                served.last().map(|last| last.end),
                ends[0].last().map(|last| last.end),
                "{}",
                row.word
            );
        }
    }
}

#[test]
fn a_run_repeats_itself() {
    let case = case(3, 500);
    for row in SCHEDULERS {
        assert_eq!(
            run(row, &case.making, &case.arrivals),
            run(row, &case.making, &case.arrivals),
            "{}",
            row.word
        );
    }
}

#[test]
fn what_a_scheduler_cannot_take_is_refused() {
    let making = case(1, 1).making;
    let zero = |making: &Making| by_word("fifo").expect("a scheduler").make(making).err();
    assert_eq!(zero(&Making { rate: Rate(0), ..making.clone() }), Some(MakingError::Zero("rate")));
    let mut light = making.clone();
    light.flows[0].weight = 0;
    assert_eq!(zero(&light), Some(MakingError::Zero("weight of a flow")));
    let mut heavy = making;
    heavy.flows[0].weight = 1025;
    let refused = by_word("qfq").expect("a scheduler").make(&heavy).err();
    assert_eq!(refused, Some(MakingError::Weight { word: "qfq", weight: 1025, max: 1024 }));
    assert!(by_word("drr").expect("a scheduler").make(&heavy).is_ok());
}

/// 600 up to 10 ms and 100 from there on, beside a curve that begins late: what is over at a bend counts, and what is over in the end.
#[test]
fn curves_fit_where_they_are_nowhere_above_the_server_together() {
    let curve =
        |first, ms, then| Curve { first: Rate(first), bend: Nanos::from_millis(ms), then: Rate(then) };
    for (curves, rate, fits) in [
        (vec![], 1, true),
        (vec![curve(600, 10, 100), curve(0, 20, 900)], 1_000, true),
        (vec![curve(600, 10, 100), curve(0, 20, 901)], 1_000, false),
        (vec![curve(600, 10, 100), curve(500, 5, 100)], 1_000, false),
        (vec![curve(600, 10, 100), curve(400, 10, 100)], 1_000, true),
    ] {
        assert_eq!(curves_fit(&curves, Rate(rate)), fits, "{curves:?}");
    }
}
