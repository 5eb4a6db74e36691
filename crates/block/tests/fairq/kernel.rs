//! QFQ+ against the kernel's own: the functions of `net/sched/sch_qfq.c` of Linux 6.12.117, compiled into a program that reads operations
//! and prints the number of each packet that is dequeued, gave the orders whose digests stand here. What it read is made here anew.

use surety_block::fairq::{Flow, FlowId, Item, Making, by_word};
use surety_stats::random::Pcg;
use surety_units::{Nanos, Rate};

/// Of the numbers in their order, with `u64::MAX` where there was no packet (FNV-1a over words).
const ORDERS: [(u64, u64); 6] = [
    (1, 0x897b_cd9d_00e4_af18),
    (2, 0x057b_bdc7_cc39_fb8f),
    (3, 0xae6c_6aee_630c_7daa),
    (4, 0x058d_a6a6_8dda_c059),
    (5, 0x6eb9_f87e_c0e0_1715),
    (6, 0x6789_9fc7_9b2b_9365),
];

/// Up to 80 flows: the weights powers of two with an even seed and 1 to 9 with an odd one, items up to 9000 or 65536 bytes.
fn order(seed: u64) -> u64 {
    let mut chance = Pcg::new(u128::from(seed), 4);
    let mut draw = |n: u64| u32::try_from(chance.below(n)).expect("small");
    let count = 1 + draw(80);
    let mut flow = || {
        let weight = if seed.is_multiple_of(2) { 1 << draw(11) } else { 1 + draw(9) };
        Flow::new(weight, [512, 1500, 1500, 9000, 65536][draw(3 + seed % 3) as usize])
    };
    let flows: Vec<Flow> = (0..count).map(|_| flow()).collect();
    let making = Making { rate: Rate(1), flows: flows.clone(), quantum: 1 };
    let mut qfq = by_word("qfq").expect("a scheduler").make(&making).expect("numbers it takes");
    let (mut digest, mut number) = (0xcbf2_9ce4_8422_2325u64, 0);
    for step in 0..100_000u32 {
        // In turns more come than go, and more go than come, so that it runs empty at times.
        if draw(100) < 40 + 20 * u32::from(step / 3_000 % 2 == 0) {
            let flow = FlowId(draw(u64::from(count)));
            let length = 1 + draw(u64::from(flows[flow.index()].largest));
            qfq.enqueue(Nanos::ZERO, Item { flow, length, number });
            number += 1;
        } else {
            let taken = qfq.dequeue(Nanos::ZERO).map_or(u64::MAX, |(item, _)| item.number);
            digest = (digest ^ taken).wrapping_mul(0x0100_0000_01b3);
        }
    }
    digest
}

#[test]
fn qfq_dequeues_in_the_kernels_order() {
    for (seed, expected) in ORDERS {
        assert_eq!(order(seed), expected, "seed {seed}");
    }
}
