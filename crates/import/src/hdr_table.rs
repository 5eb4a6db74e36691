//! The table of percentiles that HdrHistogram prints, as several programs have it in their output.
//!
//! A row's value is the upper edge of what was counted since the row above; the counts are cumulative, and the trailer
//! says how many there are.

use crate::ImportError;
use crate::assemble::Counts;
use crate::input::{at_line, number, whole};

/// The largest time taken, in nanoseconds: beyond it a float is no longer exact.
const VALUE_MAX: f64 = (1u64 << 53) as f64;

/// Whether a line is the head of such a table.
pub(crate) fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
}

/// What stands behind `name` and its equals sign in a line of the trailer.
fn told<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line[line.find(name)? + name.len()..].trim_start().strip_prefix('=')?;
    Some(rest.split([',', ']']).next().unwrap_or(rest).trim())
}

/// How a table is read.
pub(crate) struct Table {
    /// The format's name in messages.
    pub(crate) format: &'static str,
    /// Nanoseconds in the unit of its values.
    pub(crate) unit: f64,
}

impl Table {
    fn time(&self, text: &str) -> Result<u64, String> {
        let ns = (number(text)? * self.unit).round();
        if !(0.0..=VALUE_MAX).contains(&ns) {
            return Err(format!("`{text}` is no time"));
        }
        // In range and whole: exact.
        Ok(ns as u64)
    }

    /// Reads the rows behind a head, up to the end of the trailer; with the last line read.
    pub(crate) fn read<'a>(
        &self,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<(usize, Counts), ImportError> {
        let mut counts = Counts::default();
        let (mut above, mut below) = (0, 0u64);
        let (mut total, mut max) = (None, None);
        let mut last_line = 1;
        for (line, text) in lines {
            last_line = line;
            let wrong = at_line(self.format, line);
            if text.starts_with("#[") {
                // Writers differ in the words, and one prints the count with three decimals.
                if let Some(text) = told(text, "Total count").or_else(|| told(text, "TotalCount")) {
                    total = Some(whole(text.strip_suffix(".000").unwrap_or(text)).map_err(&wrong)?);
                }
                if let Some(text) = told(text, "Max") {
                    max = Some(self.time(text).map_err(&wrong)?);
                }
                if text.starts_with("#[Buckets") {
                    break;
                }
                continue;
            }
            let fields: Vec<&str> = text.split_whitespace().collect();
            let [value, _, count, ..] = fields.as_slice() else { continue };
            let value = self.time(value).map_err(&wrong)?;
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
        let wrong = at_line(self.format, last_line);
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
        Ok((last_line, counts))
    }
}
