//! The forced-forward demand bound of global EDF (FF-DBF).
//!
//! A task served at speed s up to its deadline needs at least
//!
//! ```text
//! ff(t, s) = q C + { C              for r >= D
//!                  { C - (D - r) s  for D > r >= D - C/s      q = floor(t/T), r = t mod T
//!                  { 0              else
//! ```
//!
//! in any window t. Global EDF keeps all deadlines where for some `s >= max C_i/D_i` and all t, `sum ff_i(t, s) <= (m -
//! (m-1) s) t` (Baruah, Bonifaci, Marchetti-Spaccamela and Stiller, "Improved multiprocessor global schedulability
//! analysis", Real-Time Systems 46, 2010).
//!
//! Exact for each speed looked at: both sides are continuous and made of straight pieces, and the left one bends down only
//! at `t = k T_i + D_i`, so only these windows matter; as `ff_i(t) <= U_i (t + T_i - D_i)`, none beyond `sum U_i (T_i -
//! D_i) / (m - (m-1) s - U)` does. Speeds looked at are the largest density and the multiples of 1/32 above it.

use crate::schedulability::exact::Sum;
use crate::schedulability::global_edf::{early, ratio_key};
use crate::schedulability::recheck::keeps_deadlines;
use crate::schedulability::task::{ceil, wide};
use crate::schedulability::uniprocessor::total_utilisation;
use crate::schedulability::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// FF-DBF.
pub const FF_DBF: Theorem = Theorem {
    name: "forced-forward demand bound of global EDF (FF-DBF)",
    source: "Baruah, Bonifaci, Marchetti-Spaccamela and Stiller, Real-Time Systems 46, 2010",
    strength: Strength::Sufficient,
};

/// Windows looked at for one speed before it is given up.
const LIMIT: usize = 20_000;

/// Speeds are looked at in steps of one over this.
const GRID: i64 = 32;

/// FF-DBF.
pub fn demand(tasks: &[SporadicTask], cpus: u32) -> Verdict {
    if let Some(verdict) = early(FF_DBF, tasks, cpus) {
        return verdict;
    }
    let largest = tasks.iter().max_by_key(|t| ratio_key(t)).copied().unwrap_or(tasks[0]);
    let (least, over) = (largest.work.get(), largest.deadline.get());
    let above = i64::try_from(i128::from(least) * i128::from(GRID) / i128::from(over)).unwrap_or(GRID);
    let speeds = [(least, over)].into_iter().chain((above + 1..=GRID).map(|p| (p, GRID)));
    let mut looked = 0;
    for (p, q) in speeds {
        match at_speed(tasks, cpus, p, q) {
            Ruling::Holds => {
                debug_assert!(keeps_deadlines(tasks, cpus), "{tasks:?} on {cpus}");
                let step = format!("at speed {p}/{q} no window is asked for more than is left for it");
                return Verdict::of(FF_DBF, Outcome::Holds, step);
            }
            Ruling::Fails => looked += 1,
            // Faster ones leave still less.
            Ruling::Exhausted => break,
        }
    }
    let step = match looked {
        0 => {
            format!("already at the largest density as speed, {least}/{over}, the utilisation leaves no room")
        }
        _ => format!("none of {looked} speeds shows it"),
    };
    Verdict::no(FF_DBF, false, step)
}

enum Ruling {
    Holds,
    Fails,
    Exhausted,
}

/// The test at speed p/q.
fn at_speed(tasks: &[SporadicTask], cpus: u32, p: i64, q: i64) -> Ruling {
    let (m, p_wide, q_wide) = (i128::from(cpus), i128::from(p), i128::from(q));
    let mut used: Sum = total_utilisation(tasks);
    used.add((m - 1) * p_wide, q);
    if !used.at_most(m) {
        return Ruling::Exhausted;
    }
    let ahead: i128 = (tasks.iter())
        .map(|task| {
            let (c, d, t) = task.cdt();
            ceil(c * (t - d), t)
        })
        .sum();
    if ahead == 0 {
        return Ruling::Holds;
    }
    let room = (m << 64) - used.bounds().1;
    let Some(limit) = (room > 0).then(|| ahead.checked_mul(1 << 64)).flatten().map(|a| a / room + 1) else {
        return Ruling::Fails;
    };
    let slope = m * q_wide - (m - 1) * p_wide;
    let mut next: Vec<i128> = tasks.iter().map(|t| wide(t.deadline)).collect();
    for _ in 0..LIMIT {
        let Some(window) = next.iter().copied().min() else { return Ruling::Holds };
        if window > limit {
            return Ruling::Holds;
        }
        let asked: i128 = tasks.iter().map(|task| forced(task, window, p_wide, q_wide)).sum();
        if asked > slope * window {
            return Ruling::Fails;
        }
        for (at, task) in next.iter_mut().zip(tasks) {
            if *at == window {
                *at += wide(task.period);
            }
        }
    }
    Ruling::Fails
}

/// `q ff(t, p/q)`.
fn forced(task: &SporadicTask, window: i128, p: i128, q: i128) -> i128 {
    let (c, d, t) = task.cdt();
    let (whole, rest) = (window / t, window % t);
    let last = if rest >= d { c * q } else { (c * q - (d - rest) * p).max(0) };
    whole * c * q + last
}
