//! [`Row`]: a figure of a kernel beside the simulator's, whether they agree, and what is known where they do not.

use serde::Serialize;
use surety_units::Nanos;

use super::Beside;

/// Points of a percent within which shares and misses agree.
pub(super) const POINTS: f64 = 1.0;
/// Times a second within which what is counted agrees.
const TIMES: f64 = 1.0;
/// Part of a time, or of a count, within which it agrees.
const PART: f64 = 0.05;
/// Time within which another agrees.
const SPAN: Nanos = Nanos::from_micros(300);

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Percent,
    Nanoseconds,
    PerSecond,
}

impl Unit {
    /// The largest difference that agrees, of a figure of which the kernel decides on ticks of this length.
    pub(super) fn tolerance(self, measured: f64, tick: Nanos) -> f64 {
        match self {
            Unit::Percent => POINTS,
            Unit::PerSecond => (measured * PART).max(TIMES),
            Unit::Nanoseconds => (measured * PART).max(SPAN.max(tick).get() as f64),
        }
    }
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub scenario: String,
    pub kernel: String,
    pub activity: String,
    pub figure: &'static str,
    pub unit: Unit,
    pub measured: f64,
    pub simulated: f64,
    /// The largest difference that agrees.
    pub tolerance: f64,
    /// Why it may be outside, where that is known.
    pub cause: Option<&'static str>,
    /// What is simulated once more to show the cause.
    #[serde(skip)]
    pub beside: Option<Beside>,
    /// What that gives.
    pub counter: Option<f64>,
}

impl Row {
    /// Simulated less measured.
    pub fn error(&self) -> f64 {
        self.simulated - self.measured
    }

    /// How far a value is from the measured one; a time that never came is at any distance from one that did.
    fn distance(&self, value: f64) -> f64 {
        let never = |value: f64| self.unit == Unit::Nanoseconds && value >= Nanos::MAX.get() as f64;
        match (never(self.measured), never(value)) {
            (false, false) => (value - self.measured).abs(),
            (true, true) => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// Whether the simulator is near enough.
    pub fn agrees(&self) -> bool {
        self.distance(self.simulated) <= self.tolerance
    }

    /// What the counter-run says of the cause; `None` where there is none for this figure.
    pub fn shown(&self) -> Option<Shown> {
        let counter = self.distance(self.counter?);
        Some(match counter < self.distance(self.simulated) {
            _ if counter <= self.tolerance => Shown::Yes,
            true => Shown::Nearer,
            false => Shown::No,
        })
    }
}

/// What a counter-run does to a figure that is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// It comes into the tolerance: the cause is shown.
    Yes,
    /// It comes nearer to the kernel's figure and stays outside.
    Nearer,
    /// It comes no nearer.
    No,
}

/// How many figures agree, and what is known of those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: usize,
    pub agree: usize,
    /// Outside, with a cause that a counter-run shows.
    pub shown: usize,
    /// Outside, with a cause that is named and not shown.
    pub named: usize,
    /// Of those, how many a counter-run brings nearer.
    pub nearer: usize,
    /// Outside, without a cause.
    pub open: usize,
}

impl Counts {
    /// Of figures of any scenarios and kernels.
    pub fn of(rows: &[Row]) -> Counts {
        let mut counts = Counts { all: rows.len(), ..Counts::default() };
        for row in rows {
            match (row.agrees(), row.cause, row.shown()) {
                (true, ..) => counts.agree += 1,
                (false, None, _) => counts.open += 1,
                (false, Some(_), Some(Shown::Yes)) => counts.shown += 1,
                (false, Some(_), shown) => {
                    counts.named += 1;
                    counts.nearer += usize::from(shown == Some(Shown::Nearer));
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::HOST;

    fn row(unit: Unit, measured: f64, simulated: f64, counter: Option<f64>) -> Row {
        Row {
            scenario: String::new(),
            kernel: HOST.to_owned(),
            activity: String::new(),
            figure: "share",
            unit,
            measured,
            simulated,
            tolerance: 1.0,
            cause: Some("why"),
            beside: None,
            counter,
        }
    }

    #[test]
    fn a_cause_is_shown_where_its_counter_run_comes_into_the_tolerance() {
        let never = Nanos::MAX.get() as f64;
        let of = |simulated, counter| row(Unit::Percent, 25.0, simulated, Some(counter)).shown();
        assert_eq!(of(33.0, 25.5), Some(Shown::Yes));
        assert_eq!(of(33.0, 24.0), Some(Shown::Yes));
        assert_eq!(of(33.0, 31.0), Some(Shown::Nearer));
        assert_eq!(of(33.0, 18.0), Some(Shown::Nearer));
        assert_eq!(of(33.0, 33.0), Some(Shown::No));
        assert_eq!(of(33.0, 36.3), Some(Shown::No));
        assert_eq!(row(Unit::Percent, 25.0, 33.0, None).shown(), None);
        // A time that never comes is not nearer for having become another one.
        assert_eq!(row(Unit::Nanoseconds, never, 33.0, Some(90.0)).shown(), Some(Shown::No));
        assert_eq!(row(Unit::Nanoseconds, never, 33.0, Some(never)).shown(), Some(Shown::Yes));
        assert_eq!(row(Unit::Nanoseconds, 25.0, never, Some(90.0)).shown(), Some(Shown::Nearer));
    }

    #[test]
    fn migrations_agree_within_one_a_second_or_a_twentieth() {
        assert_eq!(Unit::PerSecond.tolerance(3.0, Nanos::ZERO), 1.0);
        assert_eq!(Unit::PerSecond.tolerance(100.0, Nanos::from_millis(4)), 5.0);
        assert_eq!(Unit::Percent.tolerance(100.0, Nanos::from_millis(4)), 1.0);
        assert_eq!(Unit::Nanoseconds.tolerance(1e6, Nanos::from_millis(4)), 4e6);
    }

    #[test]
    fn figures_outside_are_counted_by_what_is_known_of_them() {
        let outside = |counter| row(Unit::Percent, 25.0, 33.0, counter);
        let open = Row { cause: None, ..outside(None) };
        let rows = [
            row(Unit::Percent, 25.0, 25.9, None),
            outside(Some(25.1)),
            outside(Some(30.0)),
            outside(Some(40.0)),
            outside(None),
            open,
        ];
        assert_eq!(Counts::of(&rows), Counts { all: 6, agree: 1, shown: 1, named: 3, nearer: 1, open: 1 });
    }
}
