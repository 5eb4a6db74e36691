//! GRUB: reservations that also use what others leave unused, and when every one still gets its budget by its deadline.
//!
//! A reservation with `reclaim` runs down its budget more slowly while others leave bandwidth unused (the kernel's
//! `grub_reclaim`, Documentation/scheduler/sched-deadline.rst, section 2.3):
//!
//! ```text
//! dq = -max(U_i, Umax - Uinact - Uextra) / Umax dt
//! ```
//!
//! - One CPU ([`reclaiming`]): with deadlines at the periods' ends and `sum U_i <= Umax` every reservation keeps its
//!   deadlines whoever reclaims, and gets its budget: bandwidth counts as unused only from the 0-lag time on, so what is
//!   given away was not needed (Lipari and Baruah, "Greedy reclamation of unused bandwidth in constant-bandwidth servers",
//!   ECRTS 2000; with Umax: Abeni, Lelli, Scordino and Palopoli, "Greedy CPU reclaiming for SCHED_DEADLINE", RTLWS 2014).
//!   The rate is at most 1, so a budget lasts at least as long as without.
//! - Several CPUs: the kernel gives away all bandwidth up to the cap, CPU by CPU, without regard to a bound of global EDF
//!   (what such a bound leaves could be given away safely: Abeni, Lipari, Parri and Sun, "Multicore CPU reclaiming:
//!   parallel or sequential?", SAC 2016). Whatever it gives away, a budget runs down at `U_i / Umax` at the slowest and so
//!   lasts `Q Umax / U_i = Umax T` at most (and less than Q where `U_i > Umax`, which [`crate::edf`] refuses): [`as_if_greedy`] counts that as the budget, and any test of global EDF that
//!   holds then is sound.

use surety_model::platform::Reclaiming;
use surety_units::Bandwidth;

use super::exact::Sum;
use super::task::{Takes, ceil, narrow, objection, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// The admission of GRUB on one CPU.
pub const GRUB: Theorem = Theorem {
    name: "GRUB: servers that reclaim keep each other's deadlines within the cap",
    source: "Lipari and Baruah, ECRTS 2000; Abeni, Lelli, Scordino and Palopoli, RTLWS 2014",
    strength: Strength::Sufficient,
};

/// Whether reservations of one CPU, any of which may reclaim up to the cap, keep their deadlines.
pub fn reclaiming(tasks: &[SporadicTask], cap: Bandwidth) -> Verdict {
    if let Some(why) = objection(tasks, Takes { servers: true, ..Takes::default() }) {
        return Verdict::not_applicable(GRUB, why);
    }
    if let Some(early) = tasks.iter().position(|t| t.deadline < t.period) {
        let why = format!(
            "task {early} has its deadline before its period's end, which the theorem does not cover"
        );
        return Verdict::not_applicable(GRUB, why);
    }
    let (part, whole) = cap.ratio();
    let (Ok(part), Ok(whole)) = (i64::try_from(part), i64::try_from(whole)) else {
        return Verdict::not_applicable(GRUB, "the cap is no fraction of 63 bits");
    };
    // sum U_i <= part/whole, exactly: sum U_i + (whole - part)/whole <= 1.
    let mut sum = Sum::new();
    for task in tasks {
        sum.add(wide(task.work), task.period.get());
    }
    let used = sum.approximate();
    sum.add(i128::from(whole) - i128::from(part), whole);
    let step = format!("bandwidths {used:.4} in all, the cap {:.4}", part as f64 / whole as f64);
    if sum.at_most(1) { Verdict::of(GRUB, Outcome::Holds, step) } else { Verdict::no(GRUB, false, step) }
}

/// The share of one CPU that a reservation of bandwidth `own` gets which is always ready and reclaims, while `ready` is the sum
/// of the bandwidths that are in use all the time, its own included, and no other is ever: a number to compare with what is
/// seen, which decides nothing.
///
/// Nothing is inactive then, so the budget runs down at `max(U_i, sum U) / Umax = sum U / Umax`, or before Linux 6.5 at
/// `1 - (Umax - sum U)`, and what runs meanwhile is `U_i` over that: the cap, divided in the proportion of the bandwidths.
/// Reservations in use that do not reclaim keep to their own share.
pub fn share(own: Bandwidth, ready: Bandwidth, cap: Bandwidth, rule: Reclaiming) -> f64 {
    let (own, ready, cap) = (own.as_f64(), ready.as_f64(), cap.as_f64());
    match rule {
        Reclaiming::ToCap | Reclaiming::ToCapServersTwice => own * cap / ready,
        Reclaiming::BelowCap => own / (1.0 - cap + ready),
    }
}

/// A reservation that reclaims as the most it can take of each period, on any number of CPUs: `Umax T`, or its budget
/// where that is more.
pub fn as_if_greedy(task: &SporadicTask, cap: Bandwidth) -> SporadicTask {
    let (part, whole) = cap.ratio();
    let most = ceil(wide(task.period) * i128::from(part), i128::from(whole));
    SporadicTask { work: task.work.max(narrow(most)), ..*task }
}
