//! EDF on one CPU: utilisation, density and the exact processor demand criterion.
//!
//! - [`utilisation`]: with every deadline at or beyond its period's end, `sum C_i/T_i <= 1` is exact (Liu and Layland,
//!   Journal of the ACM 20(1), 1973).
//! - [`density`]: `sum C_i / min(D_i - J_i, T_i) <= 1` is sufficient.
//! - [`processor_demand`]: `dbf(t) = sum (floor((t + J_i - D_i)/T_i) + 1) C_i <= t` for every window t is exact (Baruah, Mok
//!   and Rosier, RTSS 1990; jitter: Spuri, INRIA RR-2772, 1996); with blocking `dbf(t) + max_{D_i - J_i <= t} B_i <= t` is
//!   sufficient (Baker, "Stack-based scheduling of realtime processes", Real-Time Systems 3, 1991). Windows are looked at
//!   from the far end, as in QPA (Zhang and Burns, IEEE Trans. Computers 58(9), 2009), up to the shorter of the
//!   synchronous busy window and `sum U_i (T_i + J_i - D_i)+ / (1 - U)` (at U = 1 up to the longest deadline and the
//!   hyperperiod after it).
//!
//! All three take budgets in which a thread may sleep ([`super::task::Server`]): their utilisation and density are those of the
//! budget, their demand is theirs. The overruns of such budgets count in every window from the shortest deadline on.

use super::exact::Sum;
use super::recheck::{densest, play};
use super::task::{Takes, ceil, narrow, objection, overruns, wide};
use super::{Outcome, SporadicTask, Strength, Theorem, Verdict};

/// The bound of Liu and Layland for EDF.
pub const UTILISATION: Theorem = Theorem {
    name: "utilisation bound of EDF on one CPU",
    source: "Liu and Layland, Journal of the ACM 20(1), 1973",
    strength: Strength::Exact,
};

/// Density on one CPU.
pub const DENSITY: Theorem = Theorem {
    name: "density bound of EDF on one CPU",
    source: "Liu, Real-Time Systems (Prentice Hall, 2000), theorem 6.2",
    strength: Strength::Sufficient,
};

/// The processor demand criterion.
pub const PROCESSOR_DEMAND: Theorem = Theorem {
    name: "processor demand criterion of EDF on one CPU",
    source: "Baruah, Mok and Rosier, RTSS 1990; Spuri, INRIA RR-2772, 1996; Zhang and Burns, 2009 (QPA)",
    strength: Strength::Exact,
};

/// Windows looked at, and steps of a busy window, before the search is given up.
pub(crate) const LIMIT: u32 = 1_000_000;

/// The exact sum of C_i/T_i.
pub fn total_utilisation(tasks: &[SporadicTask]) -> Sum {
    let mut sum = Sum::new();
    for task in tasks {
        sum.add(wide(task.work), task.period.get());
    }
    sum
}

/// Liu and Layland's bound, for deadlines at or beyond the periods' ends.
pub fn utilisation(tasks: &[SporadicTask]) -> Verdict {
    let takes = Takes { long_deadlines: true, servers: true, ..Takes::default() };
    if let Some(why) = objection(tasks, takes) {
        return Verdict::not_applicable(UTILISATION, why);
    }
    if overruns(tasks) > 0 {
        let why =
            "a thread that may sleep inside its budget may overrun it, which utilisation does not count";
        return Verdict::not_applicable(UTILISATION, why);
    }
    if let Some(early) = tasks.iter().position(|t| t.deadline < t.period) {
        let why = format!("task {early} has its deadline before its period's end");
        return Verdict::not_applicable(UTILISATION, why);
    }
    let sum = total_utilisation(tasks);
    let step = format!("utilisation {:.4} of one CPU", sum.approximate());
    if sum.at_most(1) {
        return Verdict::of(UTILISATION, Outcome::Holds, step);
    }
    Verdict::no(UTILISATION, true, step)
}

/// The density bound. Takes jitter.
pub fn density(tasks: &[SporadicTask]) -> Verdict {
    let takes = Takes { jitter: true, long_deadlines: true, servers: true, ..Takes::default() };
    if let Some(why) = objection(tasks, takes) {
        return Verdict::not_applicable(DENSITY, why);
    }
    let mut sum = Sum::new();
    for (place, task) in tasks.iter().enumerate() {
        let span = (task.deadline - task.jitter).min(task.period);
        if !span.is_positive() {
            return Verdict::no(DENSITY, false, format!("task {place}: the jitter reaches the deadline"));
        }
        sum.add(wide(task.work), span.get());
    }
    let late = overruns(tasks);
    if let Some(shortest) = tasks.iter().map(|t| t.deadline - t.jitter).min().filter(|_| late > 0) {
        sum.add(late, shortest.get());
    }
    let step = format!("density {:.4} of one CPU", sum.approximate());
    if sum.at_most(1) {
        return Verdict::of(DENSITY, Outcome::Holds, step);
    }
    Verdict::no(DENSITY, false, step)
}

/// The answer of [`demand_holds`] to a set of tasks that is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demanded {
    /// No window is asked for more than its length.
    Fits {
        /// Windows looked at.
        looked: u32,
    },
    /// A window that is asked for too much.
    Exceeded {
        /// Its length.
        window: i128,
        /// What it may be asked for.
        asked: i128,
    },
    /// More than the whole CPU in the long run.
    Overloaded,
    /// Not decided within [`LIMIT`] steps.
    Open,
}

/// The processor demand criterion. Takes jitter, blocking and deadlines beyond periods; with blocking a no is no proof.
pub fn processor_demand(tasks: &[SporadicTask]) -> Verdict {
    let takes = Takes { jitter: true, blocking: true, long_deadlines: true, servers: true };
    if let Some(why) = objection(tasks, takes) {
        return Verdict::not_applicable(PROCESSOR_DEMAND, why);
    }
    // That all servers reach their demand in the same window is not said.
    let exact = tasks.iter().all(|t| !t.blocking.is_positive() && t.server.is_none());
    let utilised = format!("utilisation {:.4} of one CPU", total_utilisation(tasks).approximate());
    let mut verdict = match demand_holds(tasks) {
        Demanded::Fits { looked } => {
            let step = format!("no window is asked for more than its length ({looked} looked at)");
            Verdict::of(PROCESSOR_DEMAND, Outcome::Holds, step)
        }
        Demanded::Exceeded { window, asked } => {
            let (window, asked) = (narrow(window), narrow(asked));
            Verdict::no(PROCESSOR_DEMAND, exact, format!("a window of {window} may be asked for {asked}"))
        }
        Demanded::Overloaded => Verdict::no(PROCESSOR_DEMAND, true, "that is more than the whole"),
        Demanded::Open => Verdict::no(PROCESSOR_DEMAND, false, format!("not decided within {LIMIT} windows")),
    };
    verdict.steps.insert(0, utilised);
    verdict
}

/// The processor demand criterion without words. Debug builds hold it against the windows themselves and against a schedule.
pub(crate) fn demand_holds(tasks: &[SporadicTask]) -> Demanded {
    let found = search(tasks);
    debug_assert!(windows_agree(tasks, found) && schedule_agrees(tasks, found), "{tasks:?}: {found:?}");
    found
}

/// One twin: the demand of windows counted job by job, of servers in fractions rounded down: of every window up to the limit
/// at whose end it grows, and of the one that is said to be asked for too much.
fn windows_agree(tasks: &[SporadicTask], found: Demanded) -> bool {
    /// Deadlines of each task that are looked at.
    const DEADLINES: i128 = 24;
    let shortest = tasks.iter().map(|task| wide(task.deadline) - wide(task.jitter)).min().unwrap_or(0).max(0);
    let of = |task: &SporadicTask, window: i128| {
        let (work, deadline, period) = task.cdt();
        let (mut sum, mut due) = (0, deadline - wide(task.jitter));
        if task.server.is_some() {
            let whole = window.div_euclid(period);
            return whole * work + (window - whole * period).min(deadline) * work / deadline;
        }
        while due <= window {
            sum += work;
            due += period;
        }
        sum
    };
    let asked = |window: i128| {
        let late: i128 = tasks.iter().filter_map(|task| task.server).map(|server| wide(server.overrun)).sum();
        let seen = tasks.iter().filter(|task| wide(task.deadline) - wide(task.jitter) <= window);
        tasks.iter().map(|task| of(task, window)).sum::<i128>()
            + if window >= shortest { late } else { 0 }
            + seen.map(|task| wide(task.blocking)).max().unwrap_or(0)
    };
    let least = tasks.iter().map(|task| wide(task.period)).min().unwrap_or(1);
    match found {
        Demanded::Fits { .. } => tasks.iter().filter(|_| tasks.len() <= 64).all(|task| {
            let (_, deadline, period) = task.cdt();
            let due = |n: i128| (deadline - wide(task.jitter) + n * period).max(0);
            (0..DEADLINES).map(due).all(|due| due > 100 * least || asked(due) <= due)
        }),
        // Few enough jobs to be counted.
        Demanded::Exceeded { window, asked: amount }
            if tasks.iter().all(|task| window / wide(task.period) < 1_000) =>
        {
            let slips = tasks.iter().filter(|task| task.server.is_some()).count() as i128;
            (amount - slips..=amount).contains(&asked(window)) && amount > window
        }
        Demanded::Exceeded { window, asked } => asked > window,
        Demanded::Overloaded | Demanded::Open => true,
    }
}

/// The other: without blocking and servers the test is exact, so a schedule with all jobs as early as they may come is in time
/// where it holds, and late by the end of the window where it does not.
fn schedule_agrees(tasks: &[SporadicTask], found: Demanded) -> bool {
    let is_exact = tasks.iter().all(|task| task.server.is_none() && !task.blocking.is_positive());
    if !is_exact || tasks.len() > 64 {
        return true;
    }
    let until = |end: i128| play(tasks, 1, &densest(tasks), end);
    match found {
        Demanded::Fits { .. } => {
            let longest =
                tasks.iter().map(|task| wide(task.deadline).max(wide(task.period))).max().unwrap_or(0);
            !until(longest * 4).is_late(tasks)
        }
        Demanded::Exceeded { window, .. } => {
            let seen = until(window);
            window < 1 || !seen.whole || seen.is_late(tasks)
        }
        Demanded::Overloaded => {
            tasks.iter().map(|t| t.work.get() as f64 / t.period.get() as f64).sum::<f64>() > 0.999_999
        }
        Demanded::Open => true,
    }
}

/// The search of [`demand_holds`].
fn search(tasks: &[SporadicTask]) -> Demanded {
    let used = total_utilisation(tasks);
    if !used.at_most(1) {
        return Demanded::Overloaded;
    }
    let blocked = tasks.iter().any(|t| t.blocking.is_positive());
    let shortest = tasks.iter().map(SporadicTask::first_window).min().unwrap_or(0);
    let overrun = overruns(tasks);
    let asked = |t: i128| {
        let own: i128 = tasks.iter().map(|task| task.demand(t)).sum();
        let seen = tasks.iter().filter(|task| blocked && task.first_window() <= t);
        let late = if t >= shortest { overrun } else { 0 };
        own + late + seen.map(|task| wide(task.blocking)).max().unwrap_or(0)
    };
    let (mut checked, mut looked) = (-1, 0);
    // Looks at the windows up to `to` that have not been looked at.
    let mut check = |to: i128| {
        let before = |t: i128| {
            let windows = tasks.iter().filter_map(|task| task.window_before(t));
            windows.max().filter(|window| *window > checked)
        };
        let found = backwards(before(to + 1), asked, |amount| amount, before);
        checked = checked.max(to);
        if let Demanded::Fits { looked: more } = found {
            looked += more;
            return Demanded::Fits { looked };
        }
        found
    };
    let line = line(tasks, used.bounds().1);
    // What fails mostly fails in short windows, so these come first, and the horizon only where they do not decide.
    let mut stage = tasks.iter().map(|t| t.first_window() + wide(t.period)).max().unwrap_or(0);
    if let Some(line) = line
        && line <= stage
    {
        return check(line);
    }
    // Demand less window does not grow from one hyperperiod to the next once every task has had its first deadline.
    let cap = line.or_else(|| {
        let longest = tasks.iter().map(SporadicTask::first_window).max().unwrap_or(0);
        hyperperiod(tasks).map(|period| longest + period)
    });
    let blocking = overrun + tasks.iter().map(|t| wide(t.blocking)).max().unwrap_or(0);
    let mut busy = blocking + tasks.iter().map(|t| wide(t.work)).sum::<i128>();
    for _ in 0..LIMIT {
        if cap.is_some_and(|cap| busy >= cap) {
            break;
        }
        let next = blocking + tasks.iter().map(|t| t.released(busy)).sum::<i128>();
        if next == busy {
            return check(busy);
        }
        busy = next;
        if busy >= stage {
            let found = check(busy);
            if !matches!(found, Demanded::Fits { .. }) {
                return found;
            }
            stage = busy * 4;
        }
    }
    cap.map_or(Demanded::Open, check)
}

/// Looks at windows from the longest to the shortest as in QPA: where `asked` in a window t is given by s < t, nothing
/// between s and t can be too much. `time_for` is the window in which an amount is given.
pub(crate) fn backwards(
    last: Option<i128>,
    asked: impl Fn(i128) -> i128,
    time_for: impl Fn(i128) -> i128,
    before: impl Fn(i128) -> Option<i128>,
) -> Demanded {
    let mut at = last;
    let mut looked = 0;
    while let Some(window) = at {
        let amount = asked(window);
        let needs = time_for(amount);
        if needs > window {
            return Demanded::Exceeded { window, asked: amount };
        }
        looked += 1;
        if looked > LIMIT {
            return Demanded::Open;
        }
        at = before(needs);
    }
    Demanded::Fits { looked }
}

/// The window from which on demand, at most `U t + sum U_i (T_i + J_i - D_i)+ + B + H`, is below the window; `used`: the
/// utilisation, at least, with 64 bits after the point. `None` where that leaves no room.
fn line(tasks: &[SporadicTask], used: i128) -> Option<i128> {
    let mut ahead = overruns(tasks) + tasks.iter().map(|t| wide(t.blocking)).max().unwrap_or(0);
    for task in tasks {
        let (work, deadline, period) = task.cdt();
        let early = (period + wide(task.jitter) - deadline).max(0);
        ahead += ceil(work * early, period);
    }
    let room = (1i128 << 64) - used;
    (room > 0).then(|| ahead.checked_mul(1 << 64).map(|ahead| ahead / room + 1)).flatten()
}

/// The least common multiple of the periods, where it fits.
fn hyperperiod(tasks: &[SporadicTask]) -> Option<i128> {
    tasks.iter().try_fold(1i128, |multiple, task| {
        let period = wide(task.period);
        let (mut a, mut b) = (multiple, period);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (multiple / a).checked_mul(period).filter(|m| *m < 1 << 80)
    })
}
