//! `--distribution` of `surety trace stats` and `surety trace irqs`: all there is to say of the times of one thread or
//! one interrupt, drawn, in words, as a page, and as JSON (`docs/formats/trace-stats.md`).

use serde_json::{Value, json};
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::job::Separation;
use surety_model::modes::ModeFit;
use surety_report::number_of;
use surety_report::table::{checks, counted, led};
use surety_report::{Counted, html};
use surety_stats::assumption::{Finding, Outcome};
use surety_stats::bounds::QuantileInterval;
use surety_stats::change::Aspect;
use surety_trace::ReadSummary;
use surety_trace::distribution::{Conclusions, DistributionBuilder, Found, Rounding, Values};
use surety_trace::interrupts::{Detail, Interrupt, InterruptBuilder, InterruptChoice, Interrupts};
use surety_trace::jobs::Anomalies;
use surety_trace::jobs::interrupts::{Context, softirq_name};
use surety_units::Nanos;

use super::file;
use crate::args::{Closely, IrqsArgs, StatsArgs};
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// Bars of a drawing, where the grid is ours to choose.
const BARS: u64 = 80;
/// The confidence of what is concluded.
const CONFIDENCE: f64 = 0.95;
/// Change points that are told in words.
const CHANGES: usize = 5;

/// Quantities that come in modes: those that plans are made from.
const WORK: [&str; 2] = ["execution_net_ns", "service_ns"];

/// One quantity with what follows from it.
struct Quantity {
    key: &'static str,
    name: &'static str,
    values: Values,
    conclusions: Conclusions,
    /// Of work that is not independent from job to job: the modes it comes in.
    modes: Option<ModeFit>,
}

/// Of one thread: execution, times between arrivals, response.
pub fn of_thread(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    let mut trace = file::open(&args.file, &args.selection, session)?;
    let mut builder = DistributionBuilder::new(args.selection.wanted(), args.closely.grid);
    let summary = trace.read(&mut builder).map_err(|e| file::unfinished(&args.file, session, &e))?;
    file::within(&args.file, &args.selection, &summary)?;
    let unread = file::unread(trace.as_ref(), &summary);
    let mut found = builder.finish();
    let anomalies = found.anomalies;
    let thread = match (found.threads.pop(), found.threads.is_empty() && found.others == 0) {
        (Some(thread), true) => thread,
        (None, _) => return Err(nobody(args, &found)),
        (Some(last), false) => {
            found.threads.push(last);
            let names: Vec<String> = found
                .threads
                .iter()
                .map(|t| format!("{} {} ({})", t.tid, t.comm, number_of(t.jobs, "job")))
                .collect();
            let more = if found.others > 0 { ", and more" } else { "" };
            let said =
                format!("{}: several threads have jobs: {}{more}", args.file.display(), names.join(", "));
            return Err(Failure::new(Code::BadInput, said).help("choose one with --tid"));
        }
    };
    let title = format!("thread {} {}", thread.tid, thread.comm);
    let jobs = match thread.separation {
        Separation::Markers => format!("{} by their own markers", number_of(thread.jobs, "job")),
        Separation::BusyPeriod => format!("{} from waking to sleeping", number_of(thread.jobs, "job")),
    };
    let quantities = quantities(
        &args.closely,
        [
            ("execution_net_ns", "execution", thread.execution),
            ("inter_arrival_ns", "time between arrivals", thread.inter_arrival),
            ("response_ns", "response", thread.response),
        ],
    )?;
    let document = json!({
        "schema": "surety.trace-distribution/1",
        "file": args.file.display().to_string(),
        "quality": file::quality(&summary, &unread, &anomalies),
        "chosen": file::chosen(&args.selection),
        "thread": { "tid": thread.tid, "name": thread.comm.text(), "jobs": thread.jobs,
            "separation": if thread.separation == Separation::Markers { "markers" } else { "busy-period" } },
        "interrupt": Value::Null,
        "confidence": CONFIDENCE,
        "quantities": quantities.iter().map(quantity).collect::<Vec<_>>(),
    });
    publish(&args.closely, session, &title, &jobs, &quantities, &document, (&summary, &anomalies))
}

fn nobody(args: &StatsArgs, found: &Found) -> Failure {
    let names: Vec<_> = found.names.iter().copied().collect();
    let wanted = args.selection.wanted();
    if names.iter().any(|name| wanted.names.contains(name)) || !wanted.chooses_threads() {
        let text = format!("{}: no job of that thread is in what is chosen", args.file.display());
        return Failure::new(Code::BadInput, text).help("`surety trace stats` shows which threads have jobs");
    }
    file::nobody(&args.file, &args.selection, &names)
}

/// Of one interrupt: times between arrivals, service.
pub fn of_interrupt(args: &IrqsArgs, session: &Session) -> Result<Code, Failure> {
    let choice = InterruptChoice { which: args.irq.clone(), detail: Some(args.closely.grid) };
    let mut trace = file::open(&args.file, &args.selection, session)?;
    let mut builder = InterruptBuilder::of(args.selection.wanted(), choice);
    let summary = trace.read(&mut builder).map_err(|e| file::unfinished(&args.file, session, &e))?;
    file::within(&args.file, &args.selection, &summary)?;
    let unread = file::unread(trace.as_ref(), &summary);
    let Interrupts { mut sources, anomalies, .. } = builder.finish();
    let titles: Vec<String> = sources.iter().map(title).collect();
    let source = match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => source,
        (None, _) => return Err(none(args)),
        (Some(_), false) => {
            let said = format!("{}: several interrupts: {}", args.file.display(), titles.join(", "));
            return Err(
                Failure::new(Code::BadInput, said).help("choose one by its number or name with --irq")
            );
        }
    };
    let (title, arrivals) = (title(&source), source.count());
    let Some(detail) = source.detail else { return Err(none(args)) };
    let Detail { gaps, service } = *detail;
    let quantities = quantities(
        &args.closely,
        [("inter_arrival_ns", "time between arrivals", gaps), ("service_ns", "service", service)],
    )?;
    let document = json!({
        "schema": "surety.trace-distribution/1",
        "file": args.file.display().to_string(),
        "quality": file::quality(&summary, &unread, &anomalies),
        "chosen": file::chosen(&args.selection),
        "thread": Value::Null,
        "interrupt": { "name": title, "arrivals": arrivals },
        "confidence": CONFIDENCE,
        "quantities": quantities.iter().map(quantity).collect::<Vec<_>>(),
    });
    let arrivals = format!("{arrivals} arrivals");
    publish(&args.closely, session, &title, &arrivals, &quantities, &document, (&summary, &anomalies))
}

fn quantities<const N: usize>(
    closely: &Closely,
    all: [(&'static str, &'static str, Values); N],
) -> Result<Vec<Quantity>, Failure> {
    let mut quantities = Vec::new();
    for (key, name, values) in all {
        let values = values.on_grid(closely.grid, BARS).map_err(|error| {
            Failure::new(Code::BadInput, format!("{name}: {error}"))
                .help("choose a larger --grid, or none: a round one is found then")
        })?;
        let conclusions = values.conclude(CONFIDENCE);
        let modes = WORK.contains(&key).then(|| values.modes()).flatten();
        quantities.push(Quantity { key, name, values, conclusions, modes });
    }
    Ok(quantities)
}

fn publish(
    closely: &Closely,
    session: &Session,
    title: &str,
    counts: &str,
    quantities: &[Quantity],
    document: &Value,
    (summary, anomalies): (&ReadSummary, &Anomalies),
) -> Result<Code, Failure> {
    let drawn: Vec<Counted> = quantities.iter().map(Quantity::drawn).collect();
    if let Some(path) = &closely.html {
        let facts = [counts.to_owned(), document["file"].as_str().unwrap_or_default().to_owned()];
        files::write(path, &html::counted_page(title, &facts, &drawn))?;
    }
    if session.json {
        session.print_json(document)?;
    } else {
        let style = session.style();
        session.print(&led(&format!("{title}  "), counts, &style))?;
        for (quantity, drawn) in quantities.iter().zip(&drawn) {
            session.print("\n")?;
            match quantity.values.grid().count() {
                0 => session.print(&led(&format!("{}  ", quantity.name), "there are none", &style))?,
                _ => session.print(&counted(drawn, &style))?,
            }
        }
        let missed = "what happened there is in none of these";
        session.print(&checks(&file::incomplete(summary, anomalies, missed), &style))?;
    }
    if let Some(path) = &closely.html {
        session.step(&format!("page written to {}", path.display()));
    }
    Ok(Code::Kept)
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

/// `p99 21.3 ms (20.9 ms to 22 ms)`.
fn interval(interval: &QuantileInterval) -> Option<String> {
    let end = |bound: Option<u64>| bound.map_or_else(|| "?".to_owned(), |ns| time(ns).to_string());
    let (low, high) = (interval.low.value(), interval.high.value());
    if high.is_none() && interval.q > 0.5 {
        return None;
    }
    let text = format!("p{} {}", interval.q * 100.0, time(interval.estimate?));
    Some(format!("{text} ({} to {})", end(low), end(high)))
}

impl Quantity {
    /// With its findings in words.
    fn drawn(&self) -> Counted {
        let grid = self.values.grid();
        let (correlations, correlation_bound) = match &self.conclusions.correlogram {
            Some(correlogram) => (correlogram.correlations.clone(), correlogram.bound),
            None => (Vec::new(), 0.0),
        };
        Counted {
            name: self.name.to_owned(),
            step: grid.step(),
            rounded_up: grid.rounding() == Rounding::Ceil,
            points: grid.points().collect(),
            correlations,
            correlation_bound,
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
        text += &ends.map_or_else(String::new, |(a, b)| format!("; from {} to {}", nanos(a), nanos(b)));
        facts.push(("moments", text));
        let told: Vec<String> = said.quantiles.iter().filter_map(interval).collect();
        let certain = format!("{:.0} % confidence", CONFIDENCE * 100.0);
        facts.push(("quantiles", format!("{}; between with {certain}", told.join(", "))));
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
        let changes: Vec<String> = said
            .changes
            .iter()
            .take(CHANGES)
            .map(|change| {
                let what = aspect(change.aspect);
                let (before, after) = (nanos(change.before), nanos(change.after));
                format!("from value {} on a {what} of {after}, {before} before", change.at)
            })
            .collect();
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

/// A choice that fits no interrupt.
pub fn none(args: &IrqsArgs) -> Failure {
    let asked = args.irq.as_deref().map_or_else(String::new, |irq| format!(" `{irq}`"));
    let waking = if args.selection.wanted().chooses_threads() { " that wakes that thread" } else { "" };
    Failure::new(Code::BadInput, format!("{}: no interrupt{asked}{waking} is in it", args.file.display()))
        .help("`surety trace irqs` without --irq, --tid and --comm shows all of them")
}

/// `irq 29 virtio1-req.0`, `local_timer`, `softirq TIMER`.
pub fn title(source: &Interrupt) -> String {
    match source.context {
        Context::Irq(irq) => format!("irq {irq} {}", source.name),
        Context::Vector(name) => name.to_owned(),
        Context::Softirq(vector) => format!("softirq {}", softirq_name(vector)),
    }
}
