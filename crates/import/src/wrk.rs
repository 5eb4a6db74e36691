//! The text of wrk, and of wrk2 with its spectrum of percentiles.
//!
//! *wrk* writes percentiles (`--latency`), mean, deviation and maximum: they become figures, and a quantile it did not
//! print cannot be told. *wrk2* writes a table of counts (`--latency`): responses, from the instant a request was due to
//! the end of its answer; with `--u_latency` those from its sending are the series `uncorrected`. *Unit*: beside each number, of
//! the table milliseconds. *Left out*: requests per second of each thread, an average over its averages.
//! *Missing*: of wrk what took longer than its timeout; of wrk2 the first 10 s, in which it calibrates.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, Counts};
use crate::hdr_table::{Table, is_head};
use crate::input::{Input, at_line, number, seconds, whole};

pub(crate) const NAME: &str = "wrk text";

/// The activity of all requests.
const REQUESTS: &str = "requests";

const MS: f64 = 1e6;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| url(line).is_some())
        && input.lines().any(|(_, line)| line.starts_with("Thread Stats"))
}

/// The address in `Running 10s test @ http://localhost/`.
fn url(line: &str) -> Option<&str> {
    let (duration, url) = line.strip_prefix("Running ")?.split_once(" test @ ")?;
    (!duration.contains(' ')).then_some(url)
}

/// A number with a unit of a list, in the base unit of the list.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (value, unit) = text.split_at(at);
    let found = units.iter().find(|(name, _)| *name == unit);
    let (_, factor) = found.ok_or_else(|| {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        format!("`{}` has none of the units {}", text.chars().take(40).collect::<String>(), names.join(", "))
    })?;
    Ok(number(value)? * factor)
}

/// A time in nanoseconds.
fn time(text: &str) -> Result<u64, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    with_unit(text, &units).and_then(seconds)
}

/// Bytes; its K is 1024.
fn bytes(text: &str) -> Result<f64, String> {
    let kibi = 1024f64;
    let units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let units: Vec<(&str, f64)> =
        units.iter().zip(0..).map(|(name, power)| (*name, kibi.powi(power))).collect();
    with_unit(text, &units).and_then(|n| if n >= 0.0 { Ok(n) } else { Err(format!("`{text}` is no size")) })
}

/// What a text told so far.
#[derive(Default)]
struct Told {
    is_wrk2: bool,
    /// The recorded latency of wrk2, and the one it calls uncorrected.
    recorded: Option<Counts>,
    uncorrected: Option<Counts>,
    figures: Vec<(String, f64, &'static str)>,
    requests: Option<u64>,
    runs: u32,
    is_whole: bool,
}

impl Told {
    fn keep(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push((name.into(), value, unit));
    }
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut told = Told::default();
    let mut doubts = Vec::new();
    let (mut address, mut load, mut lasted) = ("", "", 0);
    let mut is_uncorrected = false;
    let mut last_line = 1;
    let mut lines = input.lines();
    while let Some((line, text)) = lines.next() {
        last_line = line;
        let wrong = at_line(NAME, line);
        if let Some(url) = url(text) {
            told.runs += 1;
            if told.runs > 1 {
                return Err(wrong("a second run: a file is the result of one".to_owned()));
            }
            address = url;
        } else if text.ends_with(" connections") {
            load = text;
        } else if text.starts_with("Thread calibration:") {
            told.is_wrk2 = true;
        } else if text.starts_with("Latency Distribution (HdrHistogram") {
            told.is_wrk2 = true;
            is_uncorrected = text.contains("Uncorrected");
        } else if is_head(text) {
            let (end, counts) = Table { format: NAME, unit: MS }.read(&mut lines)?;
            last_line = end;
            let place = if is_uncorrected { &mut told.uncorrected } else { &mut told.recorded };
            if place.replace(counts).is_some() {
                return Err(wrong("a second table of the same latency".to_owned()));
            }
        } else if let Some(within) = totals(text, &mut told).map_err(&wrong)? {
            lasted = within;
        } else {
            figures(text, is_uncorrected, &mut told).map_err(&wrong)?;
            doubts.extend(failures(text, &mut told).map_err(&wrong)?);
        }
    }
    let wrong = at_line(NAME, last_line);
    if !told.is_whole {
        return Err(wrong("the text ends before `Transfer/sec:`: it is cut off".to_owned()));
    }
    let mut assembly = Assembly::new(if told.is_wrk2 { "wrk2" } else { "wrk" });
    assembly.say("address", address);
    assembly.say("load", load);
    assembly.lasted(lasted as f64 / 1e9);
    doubts.into_iter().for_each(|doubt| assembly.doubt(doubt));
    into_record(told, assembly).map_err(wrong)
}

fn into_record(told: Told, mut assembly: Assembly) -> Result<Record, String> {
    if told.is_wrk2 {
        assembly.say("not counted", "requests of the first 10 s, in which wrk2 calibrates");
    } else {
        assembly.doubt(
            "a connection sends its next request when it has the answer: where an answer is slow, wrk adds synthetic values \
             to its percentiles",
        );
    }
    let has_table = told.recorded.is_some();
    if let Some(counts) = told.recorded {
        assembly.response(REQUESTS, counts)?;
    } else {
        assembly.say("distributions", "not written: there are the percentiles that were printed, as figures");
    }
    if let Some(counts) = told.uncorrected {
        assembly.series(REQUESTS, "uncorrected", counts)?;
    }
    for (name, value, unit) in told.figures {
        // What can be computed from counts is not taken over.
        if !(has_table && name.starts_with("latency ")) {
            assembly.figure(REQUESTS, &name, value, unit);
        }
    }
    Ok(assembly.record())
}

/// `4267 requests in 3.01s, 791.91KB read`, with the time in nanoseconds; and the two rates at the end.
fn totals(text: &str, told: &mut Told) -> Result<Option<u64>, String> {
    if let Some((requests, rest)) = text.split_once(" requests in ") {
        let (span, read) = rest.split_once(", ").unwrap_or((rest, ""));
        let requests = whole(requests)?;
        told.requests = Some(requests);
        told.keep("requests", requests as f64, "");
        bytes(read.trim_end_matches(" read"))?;
        return time(span).map(Some);
    }
    if let Some(rate) = text.strip_prefix("Requests/sec:") {
        told.keep("request rate", number(rate.trim())?, "/s");
    } else if let Some(rate) = text.strip_prefix("Transfer/sec:") {
        told.keep("transfer rate", bytes(rate.trim())?, "B/s");
        told.is_whole = true;
    }
    Ok(None)
}

/// Mean, deviation, maximum and percentiles.
fn figures(text: &str, is_uncorrected: bool, told: &mut Told) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        // Of no request the mean is not a number.
        ["Latency", mean, deviation, max, _] if !mean.contains("nan") => {
            for (name, text) in [("mean", mean), ("std dev", deviation), ("max", max)] {
                told.keep(format!("latency {name}"), time(text)? as f64, "ns");
            }
        }
        [percent, value] if percent.ends_with('%') && !is_uncorrected => {
            let percent = percent.trim_end_matches('%');
            number(percent)?;
            let short = if percent.contains('.') { percent.trim_end_matches('0') } else { percent };
            told.keep(format!("latency p{}", short.trim_end_matches('.')), time(value)? as f64, "ns");
        }
        _ => {}
    }
    Ok(())
}

/// Requests that came to nothing: figures, and what that means for the times.
fn failures(text: &str, told: &mut Told) -> Result<Option<String>, String> {
    if let Some(counts) = text.strip_prefix("Socket errors:") {
        let mut timeouts = 0;
        for count in counts.split(',') {
            let (kind, count) = count.trim().split_once(' ').ok_or("a count has no kind")?;
            let count = whole(count.trim())?;
            if kind == "timeout" {
                timeouts = count;
            }
            told.keep(format!("{kind} errors"), count as f64, "");
        }
        let why = if told.is_wrk2 { "" } else { ": they are in no time and no percentile" };
        return Ok(
            (timeouts > 0).then(|| format!("{timeouts} times an answer took longer than the timeout{why}"))
        );
    }
    if let Some(count) = text.strip_prefix("Non-2xx or 3xx responses:") {
        let count = whole(count.trim())?;
        told.keep("error answers", count as f64, "");
        let of = told.requests.map_or(String::new(), |all| format!(" of {all}"));
        return Ok(Some(format!("{count}{of} answers are errors of the server: their times count")));
    }
    Ok(None)
}
