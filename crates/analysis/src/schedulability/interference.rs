//! [`least_response`]: the least fixed point of the response-time analyses of several CPUs, found piece by piece.
//!
//! Both analyses bound a response by the least `R >= C` with
//!
//! ```text
//! sum min(I_i(R), R - C + 1) < m (R - C + 1)
//! ```
//!
//! where I_i is the work of task i in a window R. Stepping `R <- C + floor(sum / m)` goes one unit of time at a time while
//! m or more tasks may fill the whole window, which in nanoseconds never ends. But all sides are made of straight pieces:
//! within a piece of all of them the left side less the right one is convex, so a line with its slope at R is below it, and
//! where that line is not negative nothing has to be looked at.

use super::SporadicTask;

/// Pieces of one response before the search is given up.
const LIMIT: u32 = 100_000;

/// Longer than any piece that matters.
const FOR_EVER: i128 = i128::MAX >> 8;

/// A function of the window at one window: its value, and for how long it goes on with which slope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub value: i128,
    pub slope: i128,
    pub length: i128,
}

impl Piece {
    /// The work of a task whose jobs come every period, the first `ahead` before the window, where each takes its work at
    /// once: `floor(x/T) C + min(C, x mod T)` with `x = window + ahead`, 0 for negative x.
    fn periodic(task: &SporadicTask, reach: i128) -> Piece {
        let (c, _, t) = task.cdt();
        if reach < 0 {
            return Piece { value: 0, slope: 0, length: -reach };
        }
        let (whole, rest) = (reach / t, reach % t);
        let value = whole * c + rest.min(c);
        if rest < c {
            Piece { value, slope: 1, length: c - rest }
        } else {
            Piece { value, slope: 0, length: t - rest }
        }
    }

    /// The most work in any window where jobs end `slack` before their deadlines: the first as late, the others as early
    /// as can be.
    pub(crate) fn with_carry(task: &SporadicTask, window: i128, slack: i128) -> Piece {
        let (c, d, _) = task.cdt();
        Piece::periodic(task, window + d - c - slack)
    }

    /// The most work in a window that begins with a release.
    pub(crate) fn without_carry(task: &SporadicTask, window: i128) -> Piece {
        Piece::periodic(task, window)
    }

    /// The lesser of this and a constant.
    pub(crate) fn at_most(self, most: i128) -> Piece {
        if self.value >= most {
            return Piece { value: most, slope: 0, length: FOR_EVER };
        }
        let length = if self.slope > 0 { self.length.min(most - self.value) } else { self.length };
        Piece { length, ..self }
    }

    /// The lesser of this and what the window leaves beside the own work, which grows as the window does.
    fn within(self, most: i128) -> Piece {
        if self.value < most || (self.value == most && self.slope == 0) {
            return self;
        }
        let length = if self.slope == 0 { self.length.min(self.value - most) } else { self.length };
        Piece { value: most, slope: 1, length }
    }

    /// What this is above another, 0 where it is below.
    fn above(self, other: Piece) -> Piece {
        let (value, slope) = (self.value - other.value, self.slope - other.slope);
        let length = self.length.min(other.length);
        if value < 0 || (value == 0 && slope <= 0) {
            return Piece { value: 0, slope: 0, length };
        }
        Piece { value, slope, length }
    }
}

/// What others may take of a window: in any case, and what comes on top where their earlier jobs reach into it.
pub(crate) struct Interference {
    /// In any case, one for each task.
    pub own: Vec<Piece>,
    /// With the earlier jobs; of these at most m - 1 count. Empty where `own` has them.
    pub carried: Vec<Piece>,
}

/// The least response up to the deadline, or `None`: there is none, or it was not found within the limit of pieces.
pub(crate) fn least_response(
    work: i128,
    deadline: i128,
    cpus: i128,
    interference: impl Fn(i128) -> Interference,
) -> Option<i128> {
    let found = search(work, deadline, cpus, &interference);
    debug_assert!(
        looked_at(work, deadline, cpus, &interference, found),
        "work {work}, deadline {deadline}, {cpus} CPUs: {found:?}"
    );
    found
}

/// Up to so many windows the twin of debug builds looks at.
const WINDOWS: i128 = 500;

/// The twin: every window where they are few, else some of those below the answer, none of which may do; and the answer itself.
fn looked_at(
    work: i128,
    deadline: i128,
    cpus: i128,
    interference: &impl Fn(i128) -> Interference,
    found: Option<i128>,
) -> bool {
    if deadline - work <= WINDOWS {
        return found == step_by_step(work, deadline, cpus, interference);
    }
    let does = |window: i128| is_response(work, cpus, window, interference);
    let last = found.unwrap_or(deadline + 1);
    let some =
        (0..32).map(|n| work + (last - 1 - work) * n / 31).filter(|window| *window >= work && *window < last);
    let below = found.is_some() && some.into_iter().any(does);
    !below && found.is_none_or(|found| (work..=deadline).contains(&found) && does(found))
}

/// The other twin: the analyses as they are stated, one unit after the other.
fn step_by_step(
    work: i128,
    deadline: i128,
    cpus: i128,
    interference: &impl Fn(i128) -> Interference,
) -> Option<i128> {
    (work..=deadline).find(|window| is_response(work, cpus, *window, interference))
}

/// Whether a window is a response.
fn is_response(work: i128, cpus: i128, window: i128, interference: &impl Fn(i128) -> Interference) -> bool {
    let most = window - work + 1;
    let Interference { own, carried } = interference(window);
    let values: Vec<i128> = own.iter().map(|piece| piece.value.min(most)).collect();
    let mut on_top: Vec<i128> =
        carried.iter().zip(&values).map(|(with, own)| (with.value.min(most) - own).max(0)).collect();
    on_top.sort_unstable_by(|a, b| b.cmp(a));
    let few = usize::try_from(cpus - 1).unwrap_or(usize::MAX);
    let sum = values.iter().sum::<i128>() + on_top.iter().take(few).sum::<i128>();
    sum < cpus * most
}

/// The search of [`least_response`].
fn search(
    work: i128,
    deadline: i128,
    cpus: i128,
    interference: &impl Fn(i128) -> Interference,
) -> Option<i128> {
    let mut window = work;
    let few = usize::try_from(cpus - 1).unwrap_or(usize::MAX);
    for _ in 0..LIMIT {
        if window > deadline {
            return None;
        }
        let most = window - work + 1;
        let Interference { own, carried } = interference(window);
        let own: Vec<Piece> = own.into_iter().map(|piece| piece.within(most)).collect();
        let mut on_top: Vec<Piece> =
            carried.iter().zip(&own).map(|(with, own)| with.within(most).above(*own)).collect();
        // Of equals those that grow fastest: the right-hand slope of the sum of the largest.
        on_top.sort_unstable_by_key(|piece| std::cmp::Reverse((piece.value, piece.slope)));
        let length = own.iter().chain(&on_top).map(|piece| piece.length).min().unwrap_or(FOR_EVER);
        let counted = || own.iter().chain(on_top.iter().take(few));
        let over = counted().map(|piece| piece.value).sum::<i128>() - cpus * most;
        if over < 0 {
            return Some(window);
        }
        let fall = cpus - counted().map(|piece| piece.slope).sum::<i128>();
        let step = if fall > 0 { (over / fall + 1).min(length) } else { length };
        window += step.max(1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;
    use surety_units::Nanos;

    #[test]
    fn piece_by_piece_is_step_by_step() {
        let mut random = Pcg::for_job(9, 50, 0);
        let (mut found, mut none) = (0, 0);
        for round in 0..20_000 {
            let cpus = i128::from(1 + random.below(4));
            let others: Vec<(SporadicTask, i128, i128)> = (0..random.below(7))
                .map(|_| {
                    let t = 2 + random.below(30) as i64;
                    let d = 1 + random.below(t as u64) as i64;
                    let c = 1 + random.below(d as u64) as i64;
                    let task = SporadicTask::new(Nanos::new(c), Nanos::new(d), Nanos::new(t));
                    let slack = random.below((d - c) as u64 + 1);
                    (task, i128::from(slack), i128::from(1 + random.below(40)))
                })
                .collect();
            let work = i128::from(1 + random.below(10));
            let deadline = work + i128::from(random.below(80));
            let limited = round % 2 == 0;
            let interference = |window: i128| {
                let with = |(task, slack, most): &(SporadicTask, i128, i128)| {
                    let piece = Piece::with_carry(task, window, *slack);
                    if limited { piece } else { piece.at_most(*most) }
                };
                let with: Vec<Piece> = others.iter().map(with).collect();
                if limited {
                    let own = others.iter().map(|(task, ..)| Piece::without_carry(task, window)).collect();
                    Interference { own, carried: with }
                } else {
                    Interference { own: with, carried: Vec::new() }
                }
            };
            let expected = step_by_step(work, deadline, cpus, &interference);
            let got = search(work, deadline, cpus, &interference);
            assert_eq!(got, expected, "{round}: {work} {deadline} {cpus} {others:?}");
            if got.is_some() { found += 1 } else { none += 1 }
        }
        assert!(found > 4_000 && none > 4_000, "{found} {none}");
    }
}
