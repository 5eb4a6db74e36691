//! What the experiments with interrupt threads have in common: the machine, one source, its rate, and the rule that
//! foretells it.
//!
//! They were published of an early kernel with `PREEMPT_RT` and a deadline class whose budgets a timer enforced, on one
//! CPU. Of the machine nothing else is known that its scheduling depends on.

use surety_analysis::interrupts::throughput::relative;
use surety_model::platform::{Enforcement, Platform};
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::published::Table;
use crate::{Cell, Column, Origin};

/// Where the numbers come from.
pub(super) const SOURCE: &str =
    "Manica, Abeni, Palopoli, Faggioli, Scordino: Schedulable Device Drivers, 2010";

/// The interrupt source in every workload.
pub(super) const SOURCE_NAME: &str = "device";

/// The two ways budgets are enforced, each with its word in a column's title.
pub(super) fn machines() -> [(&'static str, Platform); 2] {
    // Without fair server, which did not exist: with it, today's kernel refuses the largest of the reservations.
    let today = Platform {
        name: "one CPU with budgets on the tick".to_owned(),
        fair_server: None,
        ..Platform::linux_6_18(1)
    };
    let published = Platform {
        name: "one CPU with exact budgets".to_owned(),
        enforcement: Enforcement::Exact,
        ..today.clone()
    };
    [("exact", published), ("tick", today)]
}

/// The titles: what was published, the rule, and each world on each machine.
pub(super) fn columns(unit: &'static str, worlds: &[String]) -> Vec<Column> {
    let column = |title: &str, origin| Column { title: title.to_owned(), unit, origin };
    let mut columns = vec![column("published", Origin::Published), column("theory", Origin::Theory)];
    for world in worlds {
        for (word, _) in machines() {
            columns.push(column(&format!("{world} {word}"), Origin::World));
        }
    }
    columns
}

/// Requests handled a second; `None` where the world does not say.
pub(super) fn rate_of(record: &Record) -> Option<f64> {
    let figures = &record.activity(SOURCE_NAME)?.figures;
    figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value)
}

/// A budget and a period in milliseconds as a row prints them; `None` where it prints none.
pub(super) fn reservation(table: &Table, row: usize, budget: &str, period: &str) -> Option<Reservation> {
    let time = |title| table.number(row, title).map(|ms: f64| Nanos::from_f64_rounded(ms * 1e6));
    Some(Reservation::implicit(time(budget)?, time(period)?))
}

/// The reservation of a disk's thread in a row of either table about it.
pub(super) fn reserved(table: &Table, row: usize) -> Option<Reservation> {
    reservation(table, row, "budget_ms", "period_ms")
}

/// A budget and a period in milliseconds: `29/40`.
pub(super) fn in_ms(reservation: Reservation) -> String {
    let ms = |time: Nanos| time.get() as f64 / 1e6;
    format!("{}/{}", ms(reservation.runtime), ms(reservation.period))
}

/// A reservation as a row names it.
pub(super) fn key(reservation: Option<Reservation>) -> String {
    reservation.map_or_else(|| "none".to_owned(), |r| format!("{} ms", in_ms(r)))
}

/// What a source whose thread needs the part `need` of a CPU keeps of its rate under a reservation:
/// `min(1, (Q/T) / need)`. A throttled thread handles nothing, and one with budget handles at its own pace. `None`: the
/// need is no part of a CPU.
pub(super) fn part_kept(reservation: Option<Reservation>, need: f64) -> Option<f64> {
    reservation.map_or(Some(1.0), |r| relative(need, &r).ok())
}

/// The slope of the line through the origin that is nearest to some points.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let products: f64 = points.iter().map(|(x, y)| x * y).sum();
    let squares: f64 = points.iter().map(|(x, _)| x * x).sum();
    products / squares
}

/// The straight line nearest to some points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// Where it meets x = 0.
    pub intercept: f64,
    pub slope: f64,
    /// The part of the variance of y that it explains.
    pub r_squared: f64,
}

impl Line {
    /// Through at least three points that are not all the same; `None` otherwise.
    pub(super) fn through(points: &[(f64, f64)]) -> Option<Line> {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x0, y0) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - x0, y - y0)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        let is_spread = points.len() >= 3 && xx > 0.0 && yy > 0.0;
        is_spread.then(|| Line {
            intercept: y0 - xy / xx * x0,
            slope: xy / xx,
            r_squared: xy * xy / (xx * yy),
        })
    }
}

/// A cell with its error against what was published, or words where there is no value.
pub(super) fn held(value: Option<f64>, published: Option<f64>) -> Cell {
    let silent =
        || Cell::Refused("it says no rate of an interrupt source; the column theory is its rule".to_owned());
    value.map_or_else(silent, |value| Cell::against(value, published))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_kept_grows_with_the_bandwidth_up_to_one() {
        let ms = Nanos::from_millis;
        let of = |q| part_kept(Some(Reservation::implicit(ms(q), ms(100))), 0.8).unwrap();
        assert!((of(20) - 0.25).abs() < 1e-12 && (of(60) - 0.75).abs() < 1e-12);
        assert_eq!((of(90), part_kept(None, 0.8)), (1.0, Some(1.0)));
        assert_eq!(part_kept(Some(Reservation::implicit(ms(1), ms(10))), 1.2), None);
    }

    #[test]
    fn a_line_and_what_it_explains() {
        let line = Line::through(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12 && (line.intercept - 1.0).abs() < 1e-12);
        assert!((line.r_squared - 1.0).abs() < 1e-12);
        // By hand: x 0, 1, 2, y 0, 3, 3: slope 1.5, intercept 0.5, residuals 0.5, 1, 0.5; 1 - 1.5/6.
        let bent = Line::through(&[(0.0, 0.0), (1.0, 3.0), (2.0, 3.0)]).unwrap();
        assert!((bent.slope - 1.5).abs() < 1e-12 && (bent.r_squared - 0.75).abs() < 1e-12, "{bent:?}");
        assert_eq!(Line::through(&[(1.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(Line::through(&[(1.0, 2.0); 4]), None);
    }

    #[test]
    fn a_slope_through_the_origin() {
        assert!((slope(&[(1.0, 2.0), (3.0, 6.0)]) - 2.0).abs() < 1e-12);
        assert!((slope(&[(1.0, 1.0), (2.0, 4.0)]) - 1.8).abs() < 1e-12);
    }
}
