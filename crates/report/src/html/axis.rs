//! A time axis: logarithmic when the values span more than a factor of twelve, else linear; ticks at round values.

use surety_units::Nanos;

use crate::quantity::chosen_time;

/// Where on a drawing a time stands.
#[derive(Clone, Debug)]
pub(super) struct TimeAxis {
    low: f64,
    high: f64,
    is_log: bool,
    /// Left and right end on the drawing.
    left: f64,
    right: f64,
}

/// Above this ratio of the largest to the smallest value the axis is logarithmic.
const LINEAR_MAX: f64 = 12.0;
/// A logarithmic axis shows this many decades below its upper end at most; what is below stands at its left end.
const DECADES_MAX: i32 = 7;

impl TimeAxis {
    /// An axis on which `low..=high` (ns) has a little room at each end.
    pub(super) fn new(low: f64, high: f64, left: f64, right: f64) -> TimeAxis {
        let high = high.max(1.0);
        let low = low.clamp(high * 10f64.powi(-DECADES_MAX), high).max(1.0);
        if high / low > LINEAR_MAX {
            return TimeAxis { low: low / 1.15, high: high * 1.15, is_log: true, left, right };
        }
        let room = ((high - low) * 0.06).max(high * 0.02);
        TimeAxis { low: (low - room).max(0.0), high: high + room, is_log: false, left, right }
    }

    /// A linear axis of exactly `low..=high` (ns).
    pub(super) fn linear(low: f64, high: f64, left: f64, right: f64) -> TimeAxis {
        TimeAxis { low, high: high.max(low + 1.0), is_log: false, left, right }
    }

    /// The place of a time in ns; beyond the ends it is the end.
    pub(super) fn x(&self, ns: f64) -> f64 {
        let part = if self.is_log {
            (ns.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (ns - self.low) / (self.high - self.low)
        };
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Whether it is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Edges of `count` bins of equal width on the drawing, in ns.
    pub(super) fn bins(&self, count: usize) -> Vec<f64> {
        let at = |part: f64| {
            if self.is_log {
                self.low * (self.high / self.low).powf(part)
            } else {
                self.low + part * (self.high - self.low)
            }
        };
        (0..=count).map(|i| at(i as f64 / count as f64)).collect()
    }

    /// Round times on the axis with their text, far enough apart to be read.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = if self.is_log { self.log_values() } else { self.linear_values() };
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for value in values {
            let x = self.x(value);
            if ticks.last().is_none_or(|(last, _)| x - last >= 46.0) {
                let time = Nanos::from_f64_rounded(value);
                ticks.push((x, if time == Nanos::ZERO { "0".to_owned() } else { chosen_time(time) }));
            }
        }
        ticks
    }

    fn log_values(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let values = (first..=last).flat_map(|k| steps.iter().map(move |s| s * 10f64.powi(k)));
        values.filter(|v| (self.low..=self.high).contains(v)).collect()
    }

    fn linear_values(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 7.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        // Times are whole nanoseconds: a finer step would repeat its text.
        let step = step.max(1.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|k| k as f64 * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_inside_and_apart() {
        for (low, high, is_log, some) in [
            (10e6, 60e6, false, "40 ms"),
            (2e3, 900e6, true, "1 ms"),
            (5e6, 200e6, true, "50 ms"),
            (100.0, 100.0, false, "100 ns"),
        ] {
            let axis = TimeAxis::new(low, high, 0.0, 700.0);
            let ticks = axis.ticks();
            assert_eq!(axis.is_log(), is_log, "{low} to {high}");
            assert!(ticks.iter().any(|(_, t)| t == some), "{ticks:?}");
            assert!(ticks.windows(2).all(|w| w[1].0 - w[0].0 >= 46.0), "{ticks:?}");
            assert!(ticks.iter().all(|(x, _)| (0.0..=700.0).contains(x)));
        }
    }

    #[test]
    fn values_keep_their_order_and_stay_inside() {
        let axis = TimeAxis::new(1.0, 1e12, 50.0, 650.0);
        let xs: Vec<f64> = [0.0, 1.0, 1e6, 1e9, 1e12, 1e15].map(|v| axis.x(v)).to_vec();
        assert!(xs.windows(2).all(|w| w[0] <= w[1]), "{xs:?}");
        assert!(xs.iter().all(|x| (50.0..=650.0).contains(x)));
    }
}
