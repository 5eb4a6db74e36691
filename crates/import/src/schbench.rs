//! schbench: the JSON of `-j`, and the text it prints.
//!
//! It writes percentiles, not counts: they become figures (`wakeup latency p99.9`) with the extremes, and a quantile that
//! was not asked of it cannot be told. *Unit*: microseconds; requests per second of `rps`. Of the text the last report
//! counts: each covers the run so far. *Missing*: wake-ups that took less than 1 us, which it does not count.

use serde_json::Value;
use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX};
use crate::input::{Input, at_line, number, whole};
use crate::json::{Node, document};

pub(crate) const JSON: &str = "schbench JSON";
pub(crate) const TEXT: &str = "schbench text";

const ACTIVITY: &str = "schbench";

pub(crate) fn detect_json(input: &Input<'_>) -> bool {
    input.text.contains("\"wakeup_latency_") || input.text.contains("\"request_latency_pct")
}

fn assembly() -> Assembly {
    let mut assembly = Assembly::new("schbench");
    assembly.say("distributions", "not written: there are the percentiles schbench chose, as figures");
    assembly.say("not counted", "wake-ups of less than 1 us");
    assembly
}

pub(crate) fn read_json(input: &Input<'_>) -> Result<Record, ImportError> {
    let document = document(JSON, input.text)?;
    let root = Node::root(JSON, &document);
    let mut assembly = assembly();
    if let Some(normal) = root.object("normal")? {
        assembly.kernel(normal.text("version").unwrap_or_default());
        if let Some(command) = normal.text("cmdline") {
            assembly.say("command line", command);
        }
    }
    // Newer versions keep the numbers in an object of their own.
    let inner = root.object("int")?;
    let numbers = inner.as_ref().unwrap_or(&root);
    if let Some(seconds) = numbers.number("runtime")? {
        assembly.lasted(seconds);
    }
    for (key, value) in numbers.map().iter().take(COLUMNS_MAX) {
        let Some((name, unit, factor)) = figure_of(key) else { continue };
        if *value == Value::Null {
            continue;
        }
        let told = value.as_f64().filter(|v| *v >= 0.0);
        let told = told.ok_or_else(|| numbers.error(format!("`{key}` is no number from 0 on")))?;
        assembly.figure(ACTIVITY, &name, told * factor, unit);
    }
    Ok(assembly.record())
}

/// `wakeup_latency_pct99.0` as `wakeup latency p99`, nanoseconds from microseconds.
fn figure_of(key: &str) -> Option<(String, &'static str, f64)> {
    let kinds = [
        ("wakeup_latency_", "wakeup latency", "ns", 1e3),
        ("request_latency_", "request latency", "ns", 1e3),
        ("rps_", "requests", "/s", 1.0),
    ];
    let (rest, name, unit, factor) = kinds
        .into_iter()
        .find_map(|(prefix, name, unit, f)| Some((key.strip_prefix(prefix)?, name, unit, f)))?;
    let which = match rest.strip_prefix("pct") {
        Some(percent) => format!("p{}", percent.strip_suffix(".0").unwrap_or(percent)),
        None if rest == "min" || rest == "max" => rest.to_owned(),
        None => return None,
    };
    Some((format!("{name} {which}"), unit, factor))
}

pub(crate) fn detect_text(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| line.contains(" percentiles (") && line.contains(") runtime "))
}

pub(crate) fn read_text(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = assembly();
    // Kind of the open block, and the last value of every figure.
    let mut open: Option<(&str, &'static str, f64)> = None;
    let mut figures: Vec<(String, f64, &'static str)> = Vec::new();
    let mut keep = |name: String, value: f64, unit| match figures.iter().position(|(n, _, _)| *n == name) {
        Some(at) => figures[at].1 = value,
        None if figures.len() < COLUMNS_MAX => figures.push((name, value, unit)),
        None => {}
    };
    for (line, text) in input.lines() {
        let wrong = at_line(TEXT, line);
        if let Some((label, rest)) = text.split_once(" percentiles (") {
            open = match label {
                "Wakeup Latencies" => Some(("wakeup latency", "ns", 1e3)),
                "Request Latencies" => Some(("request latency", "ns", 1e3)),
                "RPS" => Some(("requests", "/s", 1.0)),
                _ => None,
            };
            let mut words = rest.split_whitespace().skip_while(|w| *w != "runtime").skip(1);
            if let Some(seconds) = words.next() {
                assembly.lasted(number(seconds).map_err(&wrong)?);
            }
            let total = rest.rsplit_once('(').and_then(|(_, t)| t.split_whitespace().next());
            if let (Some((name, _, _)), Some(total)) = (open, total) {
                keep(format!("{name} samples"), whole(total).map_err(&wrong)? as f64, "");
            }
            continue;
        }
        if let Some(average) = text.strip_prefix("average rps:") {
            keep("requests average".to_owned(), number(average.trim()).map_err(&wrong)?, "/s");
        }
        let Some((name, unit, factor)) = open else { continue };
        if let Some((percent, rest)) = text.trim_start_matches(['*', ' ']).split_once("th:") {
            let value = rest.split_whitespace().next().unwrap_or_default();
            let percent = percent.strip_suffix(".0").unwrap_or(percent);
            number(percent).map_err(&wrong)?;
            keep(format!("{name} p{percent}"), whole(value).map_err(&wrong)? as f64 * factor, unit);
        } else if let Some((min, max)) = text.strip_prefix("min=").and_then(|t| t.split_once(", max=")) {
            keep(format!("{name} min"), whole(min).map_err(&wrong)? as f64 * factor, unit);
            keep(format!("{name} max"), whole(max).map_err(&wrong)? as f64 * factor, unit);
            open = None;
        }
    }
    for (name, value, unit) in figures {
        assembly.figure(ACTIVITY, &name, value, unit);
    }
    Ok(assembly.record())
}
