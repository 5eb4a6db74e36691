//! [`SporadicTask`]: the task that every test of schedulability speaks about.

use surety_units::Nanos;

/// The longest time a task may hold, 2^40 ns or about 18 minutes: products of three times then fit 128 bits, so no test
/// has to give up on an overflow.
pub const LONGEST: Nanos = Nanos::new(1 << 40);

/// The most tasks of a set, for the same reason.
pub const MOST: usize = 1 << 20;

/// Marks a task whose work is the budget of a server (CBS of `SCHED_DEADLINE`) whose thread may sleep inside a budget and
/// wake to what is left of it: its budgets are then no jobs of a sporadic task.
///
/// What the kernel does at such a waking at t, with (q, d) left and `x = d - t` (`update_dl_entity`,
/// `dl_check_constrained_dl` in `kernel/sched/deadline.c`): it keeps (q, d) where `q <= x Q/D`; else, with D = T or d past, a
/// whole budget begins, due at t + D; with D < T and d ahead q is cut to `x Q/D`; with D < T between d and the period's end
/// the thread waits for that end. Budgets that are used up come again at the period's end, `d - D + T`.
///
/// So between wakings and deadlines that lie in a window of length t it demands at most
///
/// ```text
/// dbf(t) = floor(t/T) Q + min(Q, (t mod T) Q/D)            (D = T: Q/T t)
/// ```
///
/// - D = T: let `V = d - q T/Q`. Running u moves V on by `u T/Q`, a replenishment leaves it, a waking sets it to `max(V, t)`. So
///   what runs from a waking at `t1 <= V` on, with deadlines up to t2, is at most `Q/T (d - t1) <= Q/T (t2 - t1)` (Abeni and
///   Buttazzo, RTSS 1998).
/// - D < T: whole budgets begin at least T apart, and none grows after it has begun. Of the first that is awake in the window
///   with x of its D to go at most `min(Q, x Q/D)` is left, the n that follow have their deadlines `x + n T` or more into the
///   window: `min(Q, x Q/D) + n Q` with `x + n T <= t` is largest at `n = floor(t/T)`, `x = min(D, t mod T)` (Abeni, Lipari,
///   Parri and Sun, SAC 2015, for the rule). A cut right at the waking reaches it.
///
/// Where budgets are looked at on the tick, it may overrun by less than a tick h, on a leftover however small and due however
/// soon. The next budget pays, so a window sees at most h more in all; but as a leftover can come right before the deadline of
/// others, their windows see it however short the server's own: tests count the sum of these h once in each window no shorter
/// than the shortest deadline. That proves that whatever is left of a budget at a waking is given within D of it, and every whole
/// budget by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// h: the longest overrun of a budget.
    pub overrun: Nanos,
}

/// A sporadic task: planned releases at least T apart, each with up to C of work due D after it.
///
/// All times are up to [`LONGEST`]. Jitter, blocking and suspension are zero in the plain model, and a test that does not
/// take one of them refuses a set that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SporadicTask {
    /// C: the most CPU time of a job, positive.
    pub work: Nanos,
    /// D: from the planned release, positive, below, at or beyond the period.
    pub deadline: Nanos,
    /// T: planned releases are at least this far apart, positive.
    pub period: Nanos,
    /// J: a release comes up to this much after the planned one; deadlines and responses count from the planned one.
    pub jitter: Nanos,
    /// B: the longest time that jobs of lower priority (EDF: with later deadlines) keep a job waiting.
    pub blocking: Nanos,
    /// S: the longest time that a job, begun and not done, waits for something other than the CPU, in all.
    pub suspension: Nanos,
    /// The work is a budget (Q = C) in which a thread may sleep; with D <= T and without J, B and S.
    pub server: Option<Server>,
}

/// Why a set is no set of sporadic tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Work, deadline or period is not positive.
    #[error("task {task}: {what} {value} is not positive")]
    NotPositive {
        /// Its place in the set.
        task: usize,
        /// The parameter.
        what: &'static str,
        /// Its value as given.
        value: String,
    },
    /// Jitter, blocking or suspension is negative.
    #[error("task {task}: {what} {value} is negative")]
    Negative {
        /// Its place in the set.
        task: usize,
        /// The parameter.
        what: &'static str,
        /// Its value as given.
        value: String,
    },
    /// A time beyond [`LONGEST`].
    #[error("task {task}: {what} {value} is longer than {limit}, up to which the arithmetic is exact")]
    TooLong {
        /// Its place in the set.
        task: usize,
        /// The parameter.
        what: &'static str,
        /// Its value as given.
        value: String,
        /// [`LONGEST`].
        limit: Nanos,
    },
    /// More tasks than [`MOST`].
    #[error("{0} tasks are more than {MOST}")]
    TooMany(usize),
}

impl SporadicTask {
    /// A task with its deadline at its period's end.
    pub fn implicit(work: Nanos, period: Nanos) -> SporadicTask {
        SporadicTask::new(work, period, period)
    }

    /// A task (C, D, T) without jitter, blocking and suspension.
    pub fn new(work: Nanos, deadline: Nanos, period: Nanos) -> SporadicTask {
        let zero = Nanos::ZERO;
        SporadicTask { work, deadline, period, jitter: zero, blocking: zero, suspension: zero, server: None }
    }

    /// The same as a budget in which its thread may sleep, and which it may overrun by so much.
    pub fn served(self, overrun: Nanos) -> SporadicTask {
        SporadicTask { server: Some(Server { overrun }), ..self }
    }

    /// The parameters as wide integers: C, D, T.
    pub(crate) fn cdt(&self) -> (i128, i128, i128) {
        (wide(self.work), wide(self.deadline), wide(self.period))
    }

    /// The most work released in a window that begins with a release as late as it may be: `ceil((t + J)/T) C`; of a
    /// [`Server`] at most `Q/T (t + T)`, since the last budget is due at most T after the window.
    pub(crate) fn released(&self, window: i128) -> i128 {
        if self.server.is_some() {
            let (work, _, period) = self.cdt();
            return ceil(work * (window + period), period);
        }
        ceil(window + wide(self.jitter), wide(self.period)) * wide(self.work)
    }

    /// The most work with release and deadline in a window: `(floor((t + J - D)/T) + 1) C`, 0 before the first deadline; of a
    /// [`Server`] what it demands, rounded up.
    pub(crate) fn demand(&self, window: i128) -> i128 {
        if self.server.is_some() {
            let (work, deadline, period) = self.cdt();
            let (whole, rest) = (window.max(0) / period, window.max(0) % period);
            return whole * work + ceil(rest.min(deadline) * work, deadline);
        }
        let after = window + wide(self.jitter) - wide(self.deadline);
        if after < 0 || window < 0 {
            return 0;
        }
        // Most windows fit 64 bits, in which a division costs a fraction.
        let whole = match i64::try_from(after) {
            Ok(after) => i128::from(after / self.period.get()),
            Err(_) => after / wide(self.period),
        };
        (whole + 1) * wide(self.work)
    }

    /// The shortest window with demand: `D - J`; where the jitter reaches the deadline a job may be due at its release,
    /// and the window of length 0 is asked for work.
    pub(crate) fn first_window(&self) -> i128 {
        (wide(self.deadline) - wide(self.jitter)).max(0)
    }

    /// The last window before `t` at whose end demand is added.
    pub(crate) fn window_before(&self, t: i128) -> Option<i128> {
        let first = wide(self.deadline) - wide(self.jitter);
        if t <= self.first_window() {
            return None;
        }
        let whole = match i64::try_from(t - 1 - first) {
            Ok(span) => i128::from(span.div_euclid(self.period.get())),
            Err(_) => (t - 1 - first).div_euclid(wide(self.period)),
        };
        Some((first + wide(self.period) * whole).max(self.first_window()))
    }
}

/// Checks that every number of a set can be.
///
/// # Errors
/// The first number that cannot.
pub fn check(tasks: &[SporadicTask]) -> Result<(), TaskError> {
    if tasks.len() > MOST {
        return Err(TaskError::TooMany(tasks.len()));
    }
    for (place, task) in tasks.iter().enumerate() {
        let value = |time: Nanos| time.to_exact_string();
        let positive = [("work", task.work), ("deadline", task.deadline), ("period", task.period)];
        let overrun = task.server.map_or(Nanos::ZERO, |server| server.overrun);
        let others = [
            ("jitter", task.jitter),
            ("blocking", task.blocking),
            ("suspension", task.suspension),
            ("overrun", overrun),
        ];
        for (what, time) in positive {
            if !time.is_positive() {
                return Err(TaskError::NotPositive { task: place, what, value: value(time) });
            }
        }
        for (what, time) in others {
            if time.is_negative() {
                return Err(TaskError::Negative { task: place, what, value: value(time) });
            }
        }
        for (what, time) in positive.into_iter().chain(others) {
            if time > LONGEST {
                return Err(TaskError::TooLong { task: place, what, value: value(time), limit: LONGEST });
            }
        }
    }
    Ok(())
}

/// What a test takes beyond (C, D, T) with deadlines up to the period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takes {
    pub jitter: bool,
    pub blocking: bool,
    pub long_deadlines: bool,
    pub servers: bool,
}

/// What all servers of a set may overrun their budgets by in one window.
pub(crate) fn overruns(tasks: &[SporadicTask]) -> i128 {
    tasks.iter().filter_map(|task| task.server).map(|server| wide(server.overrun)).sum()
}

/// Why a test that takes this much does not cover a set, in words.
pub(crate) fn objection(tasks: &[SporadicTask], takes: Takes) -> Option<String> {
    if let Err(error) = check(tasks) {
        return Some(error.to_string());
    }
    tasks.iter().enumerate().find_map(|(place, task)| {
        let is_plain =
            task.deadline <= task.period && !(task.jitter.is_positive() || task.blocking.is_positive());
        let what = if task.server.is_some() && !takes.servers {
            "a budget in which its thread may sleep"
        } else if task.server.is_some() && !is_plain {
            "a budget in which its thread may sleep, with jitter, blocking or a deadline beyond its period"
        } else if !takes.jitter && task.jitter.is_positive() {
            "jitter"
        } else if !takes.blocking && task.blocking.is_positive() {
            "blocking"
        } else if task.suspension.is_positive() {
            "self-suspension"
        } else if !takes.long_deadlines && task.deadline > task.period {
            "a deadline beyond its period"
        } else {
            return None;
        };
        Some(format!("task {place} has {what}, which this test does not cover"))
    })
}

/// A time as a wide integer.
pub(crate) fn wide(time: Nanos) -> i128 {
    i128::from(time.get())
}

/// A wide integer as a time; what does not fit is for ever.
pub(crate) fn narrow(time: i128) -> Nanos {
    i64::try_from(time).map_or(Nanos::MAX, Nanos::new)
}

/// Division rounded up, for a positive divisor.
pub(crate) fn ceil(numerator: i128, denominator: i128) -> i128 {
    -(-numerator).div_euclid(denominator)
}
