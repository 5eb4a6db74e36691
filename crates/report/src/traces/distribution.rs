//! All there is to say of the times of one thread or one interrupt, drawn, in words, as a page, and as JSON
//! (`docs/formats/trace-stats.md`).

use serde_json::{Value, json};
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::job::Separation;
use surety_model::modes::ModeFit;
use surety_stats::assumption::{Finding, Outcome};
use surety_stats::bounds::{Bound, QuantileInterval};
use surety_stats::change::Aspect;
use surety_trace::distribution::{Conclusions, Rounding, ThreadDistributions, TooFine, Values};
use surety_trace::interrupts::{Detail, Interrupt};
use surety_trace::jobs::Anomalies;
use surety_units::Nanos;

use super::irqs::interrupt_title;
use super::{ReadTrace, TraceReport, cell, separation};
use crate::counted::Counted;
use crate::html::counted_page;
use crate::quantity::number_of;
use crate::table::{checks, counted, led};
use crate::text::Style;

/// Bars of a drawing, where the grid is ours to choose.
const BARS: u64 = 80;
/// The confidence of what is concluded.
const CONFIDENCE: f64 = 0.95;
/// Change points that are told in words.
const CHANGES: usize = 5;

/// Quantities that come in modes: those that plans are made from.
const WORK: [&str; 2] = ["execution_net_ns", "service_ns"];

/// The distributions of one thread or one interrupt.
#[derive(Debug)]
pub struct TraceDistribution {
    read: ReadTrace,
    anomalies: Anomalies,
    title: String,
    /// How many jobs or arrivals there are.
    counts: String,
    /// `thread` of the document.
    thread: Value,
    /// `interrupt` of the document.
    interrupt: Value,
    quantities: Vec<Quantity>,
}

/// A quantity whose grid has too many points.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
pub struct UnfitGrid(&'static str, TooFine);

/// One quantity with what follows from it.
#[derive(Debug)]
struct Quantity {
    key: &'static str,
    name: &'static str,
    values: Values,
    conclusions: Conclusions,
    /// Of work that is not independent from job to job: the modes it comes in.
    modes: Option<ModeFit>,
}

/// Whose times they are.
#[derive(Debug)]
pub enum Subject {
    /// A thread's: execution, times between arrivals, response.
    Thread(ThreadDistributions),
    /// An interrupt's: times between arrivals, service.
    Interrupt(Interrupt, Detail),
}

impl TraceDistribution {
    /// Counts the times on a grid of this step, or on one that is found.
    ///
    /// # Errors
    /// A grid that is too fine for one of the quantities.
    pub fn new(
        read: ReadTrace,
        anomalies: Anomalies,
        subject: Subject,
        grid: Option<Nanos>,
    ) -> Result<TraceDistribution, UnfitGrid> {
        let between = ("inter_arrival_ns", "time between arrivals");
        let (title, counts, thread, interrupt, values) = match subject {
            Subject::Thread(thread) => {
                let jobs = number_of(thread.jobs, "job");
                let by_markers = thread.separation == Separation::Markers;
                let (how, separation) = match (by_markers, thread.by_switches) {
                    (_, true) => {
                        ("from getting a CPU after a sleep to the next sleep, releases unknown", "switches")
                    }
                    (true, _) => ("by their own markers", separation(true)),
                    (false, _) => ("from waking to sleeping", separation(false)),
                };
                let of_thread = json!({
                    "tid": thread.tid,
                    "name": thread.comm.text(),
                    "jobs": thread.jobs,
                    "separation": separation,
                });
                let values = vec![
                    (("execution_net_ns", "execution"), thread.execution),
                    (between, thread.inter_arrival),
                    (("response_ns", "response"), thread.response),
                ];
                let title = format!("thread {} {}", thread.tid, thread.comm);
                (title, format!("{jobs} {how}"), of_thread, Value::Null, values)
            }
            Subject::Interrupt(source, Detail { gaps, service }) => {
                let (title, arrivals) = (interrupt_title(&source), source.count());
                let of_interrupt = json!({ "name": title, "arrivals": arrivals });
                let values = vec![(between, gaps), (("service_ns", "service"), service)];
                (title, format!("{arrivals} arrivals"), Value::Null, of_interrupt, values)
            }
        };
        let quantities = values.into_iter().map(|(of, values)| Quantity::new(of, values, grid));
        let quantities = quantities.collect::<Result<_, _>>()?;
        Ok(TraceDistribution { read, anomalies, title, counts, thread, interrupt, quantities })
    }

    /// As a page of its own.
    pub fn html(&self) -> String {
        let drawn: Vec<Counted> = self.quantities.iter().map(Quantity::drawn).collect();
        counted_page(&self.title, &[self.counts.clone(), self.read.file.clone()], &drawn)
    }
}

impl TraceReport for TraceDistribution {
    fn text(&self, style: &Style) -> String {
        let mut text = led(&format!("{}  ", self.title), &self.counts, style);
        for quantity in &self.quantities {
            text.push('\n');
            text += &match quantity.values.grid().count() {
                0 => led(&format!("{}  ", quantity.name), "there are none", style),
                _ => counted(&quantity.drawn(), style),
            };
        }
        let missed = "what happened there is in none of these";
        text + &checks(&self.read.incomplete(&self.anomalies, missed), style)
    }

    fn json(&self) -> Value {
        json!({
            "schema": "surety.trace-distribution/1",
            "file": self.read.file,
            "quality": self.read.quality(&self.anomalies),
            "chosen": self.read.chosen(),
            "thread": self.thread,
            "interrupt": self.interrupt,
            "confidence": CONFIDENCE,
            "quantities": self.quantities.iter().map(quantity).collect::<Vec<_>>(),
        })
    }
}

/// What a change point is of.
fn aspect(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Location => "median",
        Aspect::Spread => "distance from the median",
    }
}

fn nanos(ns: f64) -> String {
    Nanos::from_f64_rounded(ns).to_string()
}

fn time(ns: u64) -> Nanos {
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// `p50 20.1 ms, p99 21.3 ms (20.9 ms to 22 ms); between with 95 % confidence; too few values for an interval of p50, 3 more are
/// needed`. High quantiles without an upper bound are left out.
fn quantiles(intervals: &[QuantileInterval]) -> String {
    let name = |interval: &QuantileInterval| format!("p{}", interval.q * 100.0);
    let (mut told, mut without) = (Vec::new(), Vec::new());
    let (mut more, mut is_bounded) = (0, false);
    for interval in intervals {
        let Some(estimate) = interval.estimate else { continue };
        let (low, high) = (interval.low.value(), interval.high.value());
        if high.is_none() && interval.q > 0.5 {
            continue;
        }
        let range = match low.zip(high) {
            Some((low, high)) => format!(" ({} to {})", time(low), time(high)),
            None => {
                without.push(name(interval));
                let of = |bound: &Bound| match bound {
                    Bound::Unbounded { needs_more } => needs_more.unwrap_or(0),
                    Bound::At(_) => 0,
                };
                more = more.max(of(&interval.low)).max(of(&interval.high));
                String::new()
            }
        };
        is_bounded |= !range.is_empty();
        told.push(format!("{} {}{range}", name(interval), time(estimate)));
    }
    let mut text = told.join(", ");
    if is_bounded {
        text += &format!("; between with {:.0} % confidence", CONFIDENCE * 100.0);
    }
    if !without.is_empty() {
        text += &format!("; too few values for an interval of {}", without.join(", "));
        text += &if more > 0 {
            format!(", {more} more {} needed", if more == 1 { "is" } else { "are" })
        } else {
            String::new()
        };
    }
    text
}

impl Quantity {
    fn new(
        (key, name): (&'static str, &'static str),
        values: Values,
        grid: Option<Nanos>,
    ) -> Result<Quantity, UnfitGrid> {
        let values = values.on_grid(grid, BARS).map_err(|error| UnfitGrid(name, error))?;
        let conclusions = values.conclude(CONFIDENCE);
        let modes = WORK.contains(&key).then(|| values.modes()).flatten();
        Ok(Quantity { key, name, values, conclusions, modes })
    }

    /// With its findings in words.
    fn drawn(&self) -> Counted {
        let grid = self.values.grid();
        let correlogram = self.conclusions.correlogram.as_ref();
        Counted {
            name: self.name.to_owned(),
            step: grid.step(),
            rounded_up: grid.rounding() == Rounding::Ceil,
            points: grid.points().collect(),
            correlations: correlogram.map(|c| c.correlations.clone()).unwrap_or_default(),
            correlation_bound: correlogram.map_or(0.0, |c| c.bound),
            facts: self.facts(),
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (moments, said) = (self.values.moments(), &self.conclusions);
        let Some(mean) = moments.mean() else { return Vec::new() };
        let mut facts: Vec<(&str, String)> = Vec::new();
        let mut text = format!("mean {}", nanos(mean));
        if let Some(deviation) = moments.std_dev() {
            text += &format!(", standard deviation {}", nanos(deviation));
        }
        if let Some(skewness) = moments.skewness() {
            text += &format!(", skewness {skewness:.2} of at most {:.1}", (moments.count() as f64).sqrt());
        }
        let ends = moments.min().zip(moments.max());
        text += &cell(ends.map(|(a, b)| format!("; from {} to {}", nanos(a), nanos(b))));
        facts.push(("moments", text));
        facts.push(("quantiles", quantiles(&said.quantiles)));
        if let Some(correlogram) = &said.correlogram {
            let first: Vec<String> =
                correlogram.correlations.iter().take(5).map(|r| format!("{r:.2}")).collect();
            let text = format!(
                "lags 1 to {}: {}; independent values stay within {:.3}",
                first.len(),
                first.join(" "),
                correlogram.bound
            );
            facts.push(("autocorrelation", text));
        }
        facts.push(("independence", said.independence.to_string()));
        if let Some(modes) = &self.modes {
            facts.push(("modes", format!("{}, by BIC ({})", modes.modes(), modes.describe_orders())));
            facts.extend(modes.describe_modes().into_iter().map(|words| ("mode", words)));
            facts.push(("transitions", modes.describe_transitions()));
            facts.push(("residuals", modes.describe_residuals()));
        }
        facts.push(("stationarity", said.stationarity.to_string()));
        let changes = said.changes.iter().take(CHANGES).map(|change| {
            let what = aspect(change.aspect);
            let (before, after) = (nanos(change.before), nanos(change.after));
            format!("from value {} on a {what} of {after}, {before} before", change.at)
        });
        let changes: Vec<String> = changes.collect();
        let more = said.changes.len().saturating_sub(CHANGES);
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        let text = if changes.is_empty() { "none found".to_owned() } else { changes.join("; ") + &rest };
        facts.push(("changes", text));
        if said.values < moments.count() {
            let text = format!("quantiles and what follows are of the first {} values", said.values);
            facts.push(("bound", text));
        }
        facts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

/// `modes` of a quantity.
fn in_modes(fit: &ModeFit) -> Value {
    let all: f64 = fit.jobs.iter().sum();
    let mode = |(place, work): (usize, &Empirical)| {
        let stays = 1.0 / (1.0 - fit.transitions[place][place]).max(1e-9);
        let of = TimeDistribution::Empirical(work.clone());
        json!({
            "share": fit.jobs[place] / all,
            "at_a_time": stays,
            "mean_ns": of.mean_ns(),
            "p99_ns": work.quantile(0.99),
        })
    };
    json!({
        "modes": fit.work.iter().enumerate().map(mode).collect::<Vec<_>>(),
        "transitions": fit.transitions,
        "bic": fit.orders.iter().map(|order| json!({ "modes": order.modes, "bic": order.bic })).collect::<Vec<_>>(),
        "residuals_independent": fit.explains_all(),
    })
}

/// An element of `quantities`.
fn quantity(quantity: &Quantity) -> Value {
    let (grid, moments, said) = (quantity.values.grid(), quantity.values.moments(), &quantity.conclusions);
    let verdict = |finding: &Finding| {
        let outcome = match finding.outcome {
            Outcome::Holds => "holds",
            Outcome::Rejected => "rejected",
            Outcome::TooFew { .. } => "too-few",
        };
        json!({ "outcome": outcome, "reason": finding.reason })
    };
    json!({
        "quantity": quantity.key,
        "count": grid.count(),
        "mean_ns": moments.mean(),
        "std_dev_ns": moments.std_dev(),
        "skewness": moments.skewness(),
        "excess_kurtosis": moments.excess_kurtosis(),
        "min_ns": moments.min().map(Nanos::from_f64_rounded),
        "max_ns": moments.max().map(Nanos::from_f64_rounded),
        "grid_ns": grid.step(),
        "rounded": if grid.rounding() == Rounding::Ceil { "up" } else { "down" },
        "pmf": grid.points().map(|(at, count)| json!([at, count])).collect::<Vec<_>>(),
        "values": said.values,
        "quantiles": said.quantiles.iter().map(|q| json!({
            "q": q.q, "value_ns": q.estimate, "low_ns": q.low.value(), "high_ns": q.high.value(),
        })).collect::<Vec<_>>(),
        "autocorrelation": said.correlogram.as_ref().map(|c| &c.correlations),
        "autocorrelation_bound": said.correlogram.as_ref().map(|c| c.bound),
        "independence": verdict(&said.independence),
        "modes": quantity.modes.as_ref().map(in_modes),
        "stationarity": verdict(&said.stationarity),
        "changes": said.changes.iter().map(|change| json!({
            "at": change.at, "aspect": aspect(change.aspect), "before_ns": change.before,
            "after_ns": change.after, "confidence": change.confidence,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::Histogram;
    use surety_stats::bounds::quantile_interval;

    fn said(count: u64) -> String {
        let mut values = Histogram::new();
        (1..=count).for_each(|k| values.record(k * 1_000_000));
        let of = |q| quantile_interval(&values, q, CONFIDENCE);
        quantiles(&[0.5, 0.99].into_iter().filter_map(of).collect::<Vec<_>>())
    }

    /// `p50 2.000 ms (? to ?)` was said once of a few values.
    #[test]
    fn a_quantile_without_an_interval_says_so() {
        let few = said(4);
        assert!(few.starts_with("p50 2") && !few.contains(['(', '?']), "{few}");
        assert!(few.ends_with("; too few values for an interval of p50, 2 more are needed"), "{few}");
        let more = said(6);
        assert!(more.contains(" (") && more.ends_with("; between with 95 % confidence"), "{more}");
        let many = said(1_000);
        assert_eq!(many.matches(" to ").count(), 2, "{many}");
    }
}
