//! The fraction of requests that a finite queue loses: a Markov chain on the pending count at the beginnings of
//! server periods.
//!
//! In each period `a` requests come, independently with a given distribution, and a budget serves up to `s =
//! floor(Q/c)`. What is lost depends on where in each period the budget comes:
//!
//! - [`Phase::Fixed`]: at the same instant of every period, all at once. `n' = max(0, min(N_c, n + a) - s)`, seen just
//!   after the budget; lost is `max(0, n + a - N_c)`. This is what is usually computed, and it is optimistic for a
//!   reservation: a budget may come early in one period and late in the next.
//! - [`Phase::Any`]: wherever it hurts. `n' = min(N_c, n + a) - min(n, s)`: all requests of a period come before
//!   any of its service, and only those pending at its beginning are served in it. Lost is `max(0, n + a - N_c)`.
//!
//! *Why the second is an upper bound.* Let D and L be the requests served and lost so far, in truth and in the chain (D*,
//! L*), and A those that came. Claim: at the beginning of every period `D >= D*` and `L <= L*`. If something is lost in a
//! period, then at the last loss the queue is full, so `L = A - D - N_c <= n* + L*(before) + a - N_c <= L*`, as D has
//! not fallen behind D* of the period's beginning; otherwise L stands still. And `min(n, s)` at least are served of
//! those pending at its beginning; if that is less than `min(n*, s)`, all n were served, so `D >= A(before) - L(before) >=
//! A(before) - L*(before) = D* + n*`.

use crate::cbs::queue::Queue;
use crate::dense::Matrix;
use crate::interrupts::{Argument, InterruptError};

/// The longest queue whose chain is solved.
pub const HELD_MAX: usize = 1024;

/// Where in its periods a reservation gives its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// At one instant of every period.
    Fixed,
    /// Anywhere, as EDF may place it: the result is an upper bound.
    Any,
}

/// What is lost in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Requests lost over requests that came; for [`Phase::Any`] an upper bound.
    pub fraction: f64,
    /// Requests lost in a server period on average.
    pub per_period: f64,
    /// Probability of each pending count, 0 to N_c, at the beginning of a period (for [`Phase::Fixed`]: just
    /// after the budget).
    pub pending: Vec<f64>,
    /// Supply phase, rule and assumptions.
    pub argument: Argument,
}

/// The loss of a queue of `held` requests.
///
/// `arrivals[a]`: probability of a requests in one server period; `served`: requests a whole budget serves, `floor(Q/c)`
/// with the longest c.
pub fn loss(arrivals: &[f64], served: usize, held: usize, phase: Phase) -> Result<Loss, InterruptError> {
    if held == 0 {
        return Err(InterruptError::NoQueue);
    }
    if held > HELD_MAX {
        return Err(InterruptError::TooLong { held, limit: HELD_MAX });
    }
    // Checked as the work of a queue that always keeps up.
    let checked = Queue::periodic(arrivals.to_vec(), 1, arrivals.len().max(1))?;
    let arrivals = checked.work();
    let next = |n: usize, a: usize| match phase {
        Phase::Fixed => held.min(n + a).saturating_sub(served),
        Phase::Any => held.min(n + a) - n.min(served),
    };
    let mut rows = vec![vec![0.0; held + 1]; held + 1];
    for (n, row) in rows.iter_mut().enumerate() {
        for (a, mass) in arrivals.iter().enumerate() {
            row[next(n, a)] += mass;
        }
    }
    let mean: f64 = arrivals.iter().enumerate().map(|(a, p)| a as f64 * p).sum();
    let lost_at = |n: usize| -> f64 {
        arrivals.iter().enumerate().map(|(a, p)| (n + a).saturating_sub(held) as f64 * p).sum()
    };
    let per_period_of =
        |pending: &[f64]| -> f64 { pending.iter().enumerate().map(|(n, p)| p * lost_at(n)).sum() };
    let worst = settled(&rows).into_iter().map(|pending| (per_period_of(&pending), pending));
    let (per_period, pending) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a chain settles somewhere");
    let fraction = if mean > 0.0 { (per_period / mean).min(1.0) } else { 0.0 };
    Ok(Loss { fraction, per_period, pending, argument: argument(mean, served, held, fraction, phase) })
}

/// The distributions in the long run in which a chain that starts with an empty queue may settle; one, but for
/// arrivals that repeat without chance.
fn settled(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut open = leads_to(rows, 0);
    let mut found = Vec::new();
    while let Some(start) = open.iter().position(|o| *o) {
        // Onwards to states from which there is no way back, until there are none.
        let (mut state, mut class) = (start, leads_to(rows, start));
        let mut back = led_to(rows, state);
        while let Some(beyond) = (0..rows.len()).find(|s| class[*s] && !back[*s]) {
            (state, class, back) = (beyond, leads_to(rows, beyond), led_to(rows, beyond));
        }
        let order: Vec<usize> =
            std::iter::once(state).chain((0..rows.len()).filter(|s| class[*s] && *s != state)).collect();
        let masses = Matrix::new(order.len(), |i, j| rows[order[i]][order[j]]).stationary();
        let mut pending = vec![0.0; rows.len()];
        order.iter().zip(masses).for_each(|(state, mass)| pending[*state] = mass);
        found.push(pending);
        open.iter_mut().zip(&back).for_each(|(o, settles_here)| *o &= !settles_here);
    }
    found
}

/// The states that a state leads to, itself included.
fn leads_to(rows: &[Vec<f64>], from: usize) -> Vec<bool> {
    closure(rows.len(), from, |state, next| rows[state][next] > 0.0)
}

/// The states that lead to a state.
fn led_to(rows: &[Vec<f64>], to: usize) -> Vec<bool> {
    closure(rows.len(), to, |state, next| rows[next][state] > 0.0)
}

fn closure(n: usize, from: usize, step: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; n];
    let mut open = vec![from];
    reached[from] = true;
    while let Some(state) = open.pop() {
        for (next, known) in reached.iter_mut().enumerate() {
            if !*known && step(state, next) {
                *known = true;
                open.push(next);
            }
        }
    }
    reached
}

fn argument(mean: f64, served: usize, held: usize, fraction: f64, phase: Phase) -> Argument {
    let (theorem, place) = match phase {
        Phase::Fixed => (
            "Markov chain of the pending requests, budgets at one instant of every period",
            "the budget of every period comes at the same instant of it (optimistic for a reservation)",
        ),
        Phase::Any => (
            "Markov chain of the pending requests, an upper bound for budgets anywhere in their periods",
            "every period's budget is complete by its end (the reservation keeps its scheduling deadlines)",
        ),
    };
    Argument {
        theorem,
        source: "Manica et al., RTAS 2010, for the model; Grassmann, Taksar and Heyman 1985 for its solution",
        steps: vec![format!(
            "{mean:.4} requests come in a server period on average, a budget serves {served}, the device holds {held}: a \
             fraction of {fraction:.3e} is lost"
        )],
        assumptions: vec![
            "the requests of each server period are independent of the others and alike".to_owned(),
            place.to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_stats::random::Pcg;

    #[test]
    fn known_chains() {
        // One or no request a period, served at once: nothing is ever lost; without service everything is.
        let coin = [0.5, 0.5];
        assert_eq!(loss(&coin, 1, 1, Phase::Fixed).unwrap().fraction, 0.0);
        assert!((loss(&coin, 0, 3, Phase::Fixed).unwrap().fraction - 1.0).abs() < 1e-15);
        assert!((loss(&coin, 0, 3, Phase::Any).unwrap().fraction - 1.0).abs() < 1e-15);
        // Two or none, one served, room for two: after the budget 0 or 1 is left; from 1 two more lose one. Steady: P(1)
        // = 1/2, lost 1/4 a period of 1.
        let pairs = [0.5, 0.0, 0.5];
        assert!((loss(&pairs, 1, 2, Phase::Fixed).unwrap().fraction - 0.25).abs() < 1e-15);
        for (arrivals, served, held, word) in [
            (vec![], 1, 1, "no mass"),
            (vec![0.5, 0.4], 1, 1, "sum to 0.9"),
            (vec![1.5, -0.5], 1, 1, "is -0.5"),
            (vec![1.0], 1, 0, "holds 0 requests"),
            (vec![1.0], 1, 1 << 20, "1048576"),
        ] {
            let error = loss(&arrivals, served, held, Phase::Any).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(loss(&[1.0], 1, 4, Phase::Any).unwrap().fraction, 0.0);
        // Always three, two served, room for three: 1 and 2 pending in turn, 1 and 2 of them lost.
        let always = [0.0, 0.0, 0.0, 1.0];
        assert!((loss(&always, 2, 3, Phase::Any).unwrap().per_period - 1.5).abs() < 1e-15);
    }

    /// Plays periods of 12 slots: requests at random slots, the budget's services at slots chosen by `place`.
    fn simulated(arrivals: &[f64], served: usize, held: usize, place: impl Fn(&mut Pcg) -> usize) -> f64 {
        let mut pcg = Pcg::new(21, 8);
        let (mut pending, mut came, mut lost) = (0usize, 0u32, 0u32);
        for _ in 0..60_000 {
            let mut left = pcg.unit_open();
            let count = arrivals.iter().position(|p| {
                left -= p;
                left < 0.0
            });
            let mut slots: Vec<u64> = (0..count.unwrap_or(0)).map(|_| pcg.below(12)).collect();
            slots.sort_unstable();
            let mut budget = served;
            let begins = place(&mut pcg) as u64;
            for slot in 0..12 {
                for _ in slots.iter().filter(|s| **s == slot) {
                    came += 1;
                    if pending == held { lost += 1 } else { pending += 1 }
                }
                // The budget lasts until it is used up, as a reservation's does.
                if slot >= begins {
                    let now = budget.min(pending);
                    budget -= now;
                    pending -= now;
                }
            }
        }
        f64::from(lost) / f64::from(came.max(1))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn the_bound_holds_wherever_budgets_come_and_nothing_helps_less(
            counts in prop::collection::vec(1u32..9, 2..7), served in 1usize..6, held in 1usize..9,
        ) {
            let total: u32 = counts.iter().sum();
            let arrivals: Vec<f64> = counts.iter().map(|c| f64::from(*c) / f64::from(total)).collect();
            let any = loss(&arrivals, served, held, Phase::Any).unwrap();
            let fixed = loss(&arrivals, served, held, Phase::Fixed).unwrap();
            prop_assert!(fixed.fraction <= any.fraction + 1e-12);
            prop_assert!((any.pending.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for place in [0, 11] {
                let seen = simulated(&arrivals, served, held, |_| place);
                prop_assert!(seen <= any.fraction + 0.02, "{seen} {}", any.fraction);
            }
            // Early, then late, at random.
            let seen = simulated(&arrivals, served, held, |pcg| 11 * pcg.below(2) as usize);
            prop_assert!(seen <= any.fraction + 0.02, "{seen} {}", any.fraction);
            for phase in [Phase::Fixed, Phase::Any] {
                let at = |s, h| loss(&arrivals, s, h, phase).unwrap().fraction;
                prop_assert!(at(served + 1, held) <= at(served, held) + 1e-12);
                prop_assert!(at(served, held + 1) <= at(served, held) + 1e-12);
            }
        }
    }
}
