//! The percentile table of HdrHistogram (`.hgrm`), as wrk2 and the log processor print it.
//!
//! `Value Percentile TotalCount 1/(1-Percentile)`, then `#[Mean = ..., StdDeviation = ...]` and so on. *Read*: the
//! cumulative counts; a row's value is the upper edge of what was counted since the row above. *Unit*: not
//! written; milliseconds are taken, which is what both print by default, and the record says so. *Left out*: mean and
//! deviation, which are computed from the counts.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, Counts};
use crate::input::{Input, at_line, number, whole};

pub(crate) const NAME: &str = "HdrHistogram percentiles";

/// Nanoseconds in the unit taken.
const UNIT: f64 = 1e6;

/// The largest time taken, in nanoseconds: beyond it a float is no longer exact.
const VALUE_MAX: f64 = (1u64 << 53) as f64;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| is_head(line))
}

fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
}

fn time(text: &str) -> Result<u64, String> {
    let ns = (number(text)? * UNIT).round();
    if !(0.0..=VALUE_MAX).contains(&ns) {
        return Err(format!("`{text}` ms is no time"));
    }
    // In range and whole: exact.
    Ok(ns as u64)
}

/// What stands behind `name` and its equals sign in a line of the trailer.
fn told<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line[line.find(name)? + name.len()..].trim_start().strip_prefix('=')?;
    Some(rest.split([',', ']']).next().unwrap_or(rest).trim())
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("HdrHistogram");
    assembly.doubt("the file does not say its unit: its values are taken as milliseconds");
    let mut counts = Counts::default();
    let (mut above, mut below) = (0, 0u64);
    let (mut total, mut max) = (None, None);
    let mut last_line = 1;
    for (line, text) in input.lines().skip_while(|(_, text)| !is_head(text)).skip(1) {
        last_line = line;
        let wrong = at_line(NAME, line);
        if text.starts_with("#[") {
            // Writers differ in the words, and one prints the count with three decimals.
            if let Some(text) = told(text, "Total count").or_else(|| told(text, "TotalCount")) {
                total = Some(whole(text.strip_suffix(".000").unwrap_or(text)).map_err(&wrong)?);
            }
            if let Some(text) = told(text, "Max") {
                max = Some(time(text).map_err(&wrong)?);
            }
            if text.starts_with("#[Buckets") {
                break;
            }
            continue;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [value, _, count, ..] = fields.as_slice() else { continue };
        let value = time(value).map_err(&wrong)?;
        let count = whole(count).map_err(&wrong)?;
        if value < above || count < below {
            return Err(wrong("values and counts have to ascend".to_owned()));
        }
        if count > below {
            // The first row holds the smallest value; each other what lies above the row before.
            let low = if counts.buckets.is_empty() { value } else { above };
            counts.buckets.push((low, value, count - below));
        }
        (above, below) = (value, count);
    }
    let wrong = at_line(NAME, last_line);
    match total {
        None => return Err(wrong("the text ends before `Total count`: it is cut off".to_owned())),
        Some(total) if total != below => {
            return Err(wrong(format!("its rows hold {below} samples, `Total count` says {total}")));
        }
        Some(_) => {}
    }
    // The maximum is told rounded to the same digits as the rows, or its bucket's edge: the last row stands.
    counts.max =
        max.filter(|max| *max <= above && counts.buckets.last().is_some_and(|(low, _, _)| low <= max));
    assembly.latency(input.stem(), counts).map_err(wrong)?;
    Ok(assembly.record())
}
