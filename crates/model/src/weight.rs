//! What a nice value is worth in the fair class: the share of a CPU is by weight (`sched_prio_to_weight` in
//! `kernel/sched/core.c`).

/// The weight of nice 0.
pub const NICE_0_WEIGHT: i64 = 1024;

/// Weights of nice -20 to 19: each is about 1.25 times the next.
const OF_NICE: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// The weight of a nice value; values beyond -20 and 19 count as those.
pub fn nice_weight(nice: i32) -> i64 {
    let place = (nice.clamp(-20, 19) + 20).unsigned_abs() as usize;
    OF_NICE[place]
}
