//! How numbers are written for people.

use std::fmt::Display;

use surety_model::record::{Figure, Record};
use surety_units::Nanos;

/// `1 job`, `2 jobs`: a count with its noun, which takes an `s` unless it is one.
pub fn number_of(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// How long a record observed, in words.
pub(crate) fn observed(record: &Record) -> String {
    if record.activities.is_empty() {
        return "not run".to_owned();
    }
    record.duration.map_or_else(
        || "observed for an unknown time".to_owned(),
        |duration| format!("{} observed", chosen_time(duration)),
    )
}

/// The unit all times of one block share, so that they can be compared at a glance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeUnit {
    factor: f64,
    name: &'static str,
}

const NANOSECOND: TimeUnit = TimeUnit { factor: 1.0, name: "ns" };
const MICROSECOND: TimeUnit = TimeUnit { factor: 1e3, name: "us" };
const MILLISECOND: TimeUnit = TimeUnit { factor: 1e6, name: "ms" };
const SECOND: TimeUnit = TimeUnit { factor: 1e9, name: "s" };

impl TimeUnit {
    /// The unit in which this time has one to three digits before the point.
    pub(crate) fn fitting(time: Nanos) -> TimeUnit {
        match time.get().unsigned_abs() {
            0..1_000 => NANOSECOND,
            1_000..1_000_000 => MICROSECOND,
            1_000_000..1_000_000_000 => MILLISECOND,
            _ => SECOND,
        }
    }

    /// Four significant digits and the unit; a time far out of the unit's reach in the one that fits it; one that never
    /// came ([`Nanos::MAX`]) in words.
    pub(crate) fn show(self, time: Nanos) -> String {
        if time == Nanos::MAX {
            return "never".to_owned();
        }
        let scaled = time.get() as f64 / self.factor;
        let magnitude = scaled.abs();
        if time != Nanos::ZERO && !(0.0005..100_000.0).contains(&magnitude) {
            return time.to_string();
        }
        let decimals = match magnitude {
            _ if self.name == "ns" || time == Nanos::ZERO => 0,
            m if m < 0.01 => 6,
            m if m < 0.1 => 5,
            m if m < 1.0 => 4,
            m if m < 10.0 => 3,
            m if m < 100.0 => 2,
            m if m < 1000.0 => 1,
            _ => 0,
        };
        format!("{scaled:.decimals$} {}", self.name)
    }
}

/// A limit in four significant digits, rounded up, without digits that say nothing.
pub(crate) fn at_most(limit: Nanos) -> String {
    let digits = limit.get().unsigned_abs().checked_ilog10().map_or(0, |log| log + 1);
    let step = 10_i64.pow(digits.saturating_sub(4));
    chosen_time(Nanos::new((limit.get() / step + i64::from(limit.get() % step > 0)).saturating_mul(step)))
}

/// A time someone chose: `40 ms`, up to three decimals, none that say nothing.
pub(crate) fn chosen_time(time: Nanos) -> String {
    let unit = TimeUnit::fitting(time);
    let text = format!("{:.3}", time.get() as f64 / unit.factor);
    format!("{} {}", text.trim_end_matches('0').trim_end_matches('.'), unit.name)
}

/// A fraction in percent: `0 %`, `<0.01 %`, `0.48 %`, `54.6 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent {
        p if !p.is_finite() => "-".to_owned(),
        0.0 => "0 %".to_owned(),
        p if p > 0.0 && p < 0.01 => "<0.01 %".to_owned(),
        p if p.abs() < 10.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A probability in percent, never rounded up: `99.9 %`, `99.99999 %`. Close to one the nines are what counts.
pub(crate) fn probability(p: f64) -> String {
    if !p.is_finite() {
        return "-".to_owned();
    }
    if p >= 1.0 {
        return "100 %".to_owned();
    }
    // Two digits beyond the first that is not a nine.
    let decimals = (-(1.0 - p).log10()).ceil().clamp(0.0, 15.0) as i32;
    let scale = 10f64.powi(decimals);
    let text = format!("{:.*}", decimals as usize, (p * 100.0 * scale).floor() / scale);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// A figure with its unit, scaled where the unit has multiples.
pub(crate) fn figure(figure: &Figure) -> String {
    let value = figure.value;
    if !value.is_finite() {
        return "-".to_owned();
    }
    match figure.unit.as_ref() {
        "ns" => Nanos::from_f64_rounded(value).to_string(),
        unit @ ("B" | "B/s" | "bit/s") => {
            let (factor, prefix) = match value.abs() {
                v if v < 1e3 => (1.0, ""),
                v if v < 1e6 => (1e3, "k"),
                v if v < 1e9 => (1e6, "M"),
                v if v < 1e12 => (1e9, "G"),
                _ => (1e12, "T"),
            };
            format!("{} {prefix}{unit}", four_digits(value / factor))
        }
        "" => four_digits(value),
        unit => format!("{} {unit}", four_digits(value)),
    }
}

/// Four significant digits, or all before the point; whole numbers without a point.
fn four_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v.fract() == 0.0 => 0,
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [number_of(0, "job"), number_of(1, "CPU"), number_of(21u64, "job")],
            ["0 jobs", "1 CPU", "21 jobs"]
        );
    }

    #[test]
    fn times_of_a_block_share_their_unit() {
        let ms = TimeUnit::fitting(Nanos::from_millis(40));
        for (ns, text) in [
            (0, "0 ms"),
            (400, "400 ns"),
            (412_345, "0.4123 ms"),
            (14_021_234, "14.02 ms"),
            (2_134_000_000, "2134 ms"),
            (125_000_000_000, "125.0 s"),
        ] {
            assert_eq!(ms.show(Nanos::new(ns)), text);
        }
        assert_eq!(chosen_time(Nanos::from_millis(40)), "40 ms");
        assert_eq!(chosen_time(Nanos::new(26_123_456)), "26.123 ms");
        assert_eq!(chosen_time(Nanos::ZERO), "0 ns");
        for (ns, text) in
            [(40_049_000, "40.05 ms"), (40_000_000, "40 ms"), (40_040_001, "40.05 ms"), (7, "7 ns")]
        {
            assert_eq!(at_most(Nanos::new(ns)), text);
        }
    }

    #[test]
    fn fractions_and_figures() {
        for (fraction, text) in
            [(0.0, "0 %"), (1e-6, "<0.01 %"), (0.0048, "0.48 %"), (0.546, "54.6 %"), (f64::NAN, "-")]
        {
            assert_eq!(percent(fraction), text);
        }
        for (p, text) in [(1.0, "100 %"), (0.5, "50 %"), (0.99, "99 %"), (0.99996, "99.996 %"), (0.0, "0 %")]
        {
            assert_eq!(probability(p), text);
        }
        let of =
            |value, unit: &'static str| figure(&Figure { name: String::new(), value, unit: unit.into() });
        assert_eq!(of(104_857_600.0, "B/s"), "104.9 MB/s");
        for (rate, text) in [
            (500.0, "500 bit/s"),
            (99_700_000.0, "99.70 Mbit/s"),
            (1.25e9, "1.250 Gbit/s"),
            (64e3, "64 kbit/s"),
        ] {
            assert_eq!(of(rate, "bit/s"), text);
        }
        assert_eq!(of(12.0, "/s"), "12 /s");
        assert_eq!(of(f64::INFINITY, "/s"), "-");
    }
}
