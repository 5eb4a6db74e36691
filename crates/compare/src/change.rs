//! [`changed`]: a metric of a comparison as an expectation about a difference takes it
//! ([`surety_model::expectation::Change`]).

use surety_model::expectation::{Changed, Shift};

use crate::{Judged, Ratio};

/// How much more B is, as a part of A and in the metric's unit. `words` says the same to people, `missing` what there is
/// too little of.
pub fn changed(row: &Judged, words: String, missing: String) -> Changed {
    let is_exact = row.computed;
    let exactly = |estimate: f64| Shift {
        estimate,
        floor: Some((estimate, estimate)),
        interval: Some((estimate, estimate)),
    };
    let amount = if is_exact { exactly(row.shift) } else { amount_of(row) };
    let (a, _) = row.medians;
    let part = match row.ratio {
        // Of a percentage points are meant.
        _ if row.unit == "%" => Some(amount),
        Some(ratio) if is_exact => Some(exactly(ratio.estimate - 1.0)),
        Some(ratio) => Some(part_of(ratio, row.floor)),
        None if a > 0.0 => Some(scaled(amount, 1.0 / a)),
        None => None,
    };
    let (amount, part) = (without_never(row, amount), part.map(|part| without_never(row, part)));
    Changed {
        activity: row.activity.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        part,
        amount,
        words,
        missing,
    }
}

/// Of a time that never came there is no number: one that does no longer come is longer by more than any limit, one that
/// comes again is shorter; where it came in some runs of a side and not in others, nothing is known of the difference.
fn without_never(row: &Judged, shift: Shift) -> Shift {
    if row.never.is_none() {
        return shift;
    }
    let beyond = |most: f64| {
        let both = |known: Option<(f64, f64)>| known.map(|_| (most, most));
        Shift { estimate: most, floor: both(shift.floor), interval: both(shift.interval) }
    };
    match (row.medians_seen(), row.never_came()) {
        ((Some(_), None), (0, count)) if count == row.b.len() => beyond(f64::INFINITY),
        ((None, Some(_)), (count, 0)) if count == row.a.len() => beyond(f64::NEG_INFINITY),
        ((None, None), (of_a, of_b)) if of_a == row.a.len() && of_b == row.b.len() => shift,
        _ => Shift { floor: None, interval: None, ..shift },
    }
}

fn part_of(ratio: Ratio, floor: Option<f64>) -> Shift {
    let Ratio { estimate, interval } = ratio;
    Shift {
        estimate: estimate - 1.0,
        floor: floor.map(|floor| (estimate / floor - 1.0, estimate * floor - 1.0)),
        interval: interval.map(|(low, high)| (low - 1.0, high - 1.0)),
    }
}

/// Where the floor is a factor, it is one of B.
fn amount_of(row: &Judged) -> Shift {
    let (_, b) = row.medians;
    let floor = row.floor.map(|floor| match row.ratio {
        Some(_) => (row.shift - b * (1.0 - 1.0 / floor), row.shift + b * (floor - 1.0)),
        None => (row.shift - floor, row.shift + floor),
    });
    Shift { estimate: row.shift, floor, interval: row.interval }
}

fn scaled(shift: Shift, factor: f64) -> Shift {
    let both = |(low, high): (f64, f64)| (low * factor, high * factor);
    Shift {
        estimate: shift.estimate * factor,
        floor: shift.floor.map(both),
        interval: shift.interval.map(both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::{Verdict, metric};
    use surety_model::expectation::Change;

    fn row(unit: &str, ratio: Option<Ratio>, floor: Option<f64>, p_value: Option<f64>) -> Judged {
        Judged {
            activity: "a".to_owned(),
            metric: "response p99".to_owned(),
            unit: unit.to_owned(),
            direction: Direction::Smaller,
            a: vec![100.0],
            b: vec![110.0],
            medians: (100.0, 110.0),
            shift: 10.0,
            interval: Some((5.0, 15.0)),
            ratio,
            delta: 1.0,
            floor,
            p_value,
            computed: p_value.is_none(),
            within: None,
            never: None,
            verdict: Verdict::Worse,
        }
    }

    fn of(row: &Judged) -> Changed {
        changed(row, String::new(), String::new())
    }

    #[test]
    fn parts_and_amounts_are_of_the_same_difference() {
        let ratio = Ratio { estimate: 1.1, interval: Some((1.05, 1.15)) };
        let found = of(&row("ns", Some(ratio), Some(1.02), Some(0.01)));
        let part = found.part.unwrap();
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 1e-9 && (b - d).abs() < 1e-9;
        assert!(
            near(part.floor.unwrap(), (1.1 / 1.02 - 1.0, 0.122))
                && near(part.interval.unwrap(), (0.05, 0.15))
        );
        // Both are one range: an amount of B's median is the part of A's.
        assert!(near(found.amount.floor.unwrap(), (100.0 * (1.1 / 1.02 - 1.0), 12.2)));
        let found = of(&row("%", None, Some(2.0), Some(0.01)));
        assert_eq!(found.part, Some(found.amount));
        assert_eq!(found.amount.floor, Some((8.0, 12.0)));
        let found = of(&row("", None, None, None));
        assert_eq!(found.amount.floor, Some((10.0, 10.0)));
        assert_eq!(found.part.unwrap().estimate, 0.1);
        let found = of(&Judged { medians: (0.0, 10.0), ..row("", None, None, Some(0.5)) });
        assert_eq!((found.part, found.amount.floor), (None, None));
    }

    /// What may be expected are the quantiles that comparisons have, no more and no less.
    #[test]
    fn every_quantile_of_a_comparison_may_be_expected() {
        for (word, _, _) in metric::QUANTILES {
            assert!(format!("{word} <= +5%").parse::<Change>().is_ok(), "{word}");
        }
        let error = "p98 <= +5%".parse::<Change>().unwrap_err().message;
        assert_eq!(error.matches(", p").count(), metric::QUANTILES.len() - 1, "{error}");
    }
}
