//! The text of cyclictest, and the live lines that signaltest and others of rt-tests share with it.
//!
//! Three forms: the histogram of `-h`, `-H` and `--histfile`; the samples of `-v` (`thread:cycle:value`); else the last
//! live line of each thread, which tells the extremes only. *Unit*: microseconds, as the text does not say that `-N` was
//! given; its JSON does. *Left out*: averages, which are cut to whole numbers; the column of sums that `-H` adds.
//! *Overflows* are counted. *Missing*: skipped periods; the record says so among the reasons not to take it at its
//! word.

use std::collections::BTreeMap;

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, at_line, scaled, whole};

pub(crate) const NAME: &str = "cyclictest text";

const UNIT: u64 = 1_000;

/// Why `missed` is not what was missed. A sample cannot stand for a period that was skipped, and how many were is not
/// in any of its forms: the command line in the JSON may tell interval and duration, but a thread begins when it is
/// made and ends when a signal is seen, and with `-l` skipped periods are made up for.
pub(crate) const SKIPPED: &str = "periods that cyclictest skipped because the one before was late are not in it, and \
cannot be told from what it writes: quantiles are of the periods it took";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input
        .lines()
        .any(|(_, line)| line == "# Histogram" || live_line(line).is_some() || sample(line).is_some())
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("cyclictest");
    assembly
        .say("unit", "microseconds: the text does not say whether -N (nanoseconds) was given, the JSON does");
    if input.lines().any(|(_, line)| line == "# Histogram") {
        histogram(input, &mut assembly)?;
    } else if input.lines().any(|(_, line)| sample(line).is_some()) {
        samples(input, &mut assembly)?;
    } else {
        live(input, &mut assembly)?;
    }
    assembly.doubt(SKIPPED);
    Ok(assembly.record())
}

/// The summary below the rows, as far as it matters.
#[derive(Default)]
struct Summary {
    total: Option<Vec<u64>>,
    min: Vec<u64>,
    max: Vec<u64>,
    overflows: Vec<u64>,
}

fn histogram(input: &Input<'_>, assembly: &mut Assembly) -> Result<(), ImportError> {
    let mut rows: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut summary = Summary::default();
    let mut last_line = 1;
    for (line, text) in input.lines().skip_while(|(_, text)| *text != "# Histogram").skip(1) {
        last_line = line;
        let wrong = at_line(NAME, line);
        let row = |text: &str| text.split_whitespace().map(whole).collect::<Result<Vec<u64>, _>>();
        if let Some(comment) = text.strip_prefix('#') {
            let Some((name, values)) = comment.split_once(':') else { continue };
            let target = match name.trim() {
                "Total" => summary.total.insert(Vec::new()),
                "Min Latencies" => &mut summary.min,
                "Max Latencies" => &mut summary.max,
                "Histogram Overflows" => &mut summary.overflows,
                _ => continue,
            };
            *target = row(values).map_err(&wrong)?;
        } else if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let values = row(text).map_err(&wrong)?;
            let Some((bucket, counts)) = values.split_first() else { continue };
            let (columns, above) = rows.last().map_or((counts.len(), None), |(b, c)| (c.len(), Some(*b)));
            if counts.is_empty() || counts.len() != columns || columns > COLUMNS_MAX {
                return Err(wrong(format!("{} counts where {columns} belong", counts.len())));
            }
            if above.is_some_and(|above| above >= *bucket) {
                return Err(wrong(format!("bucket {bucket} does not follow the one before it")));
            }
            rows.push((*bucket, counts.to_vec()));
        }
    }
    let wrong = at_line(NAME, last_line);
    let Some(total) = summary.total else {
        return Err(wrong("the text ends before `# Total:`: it is cut off".to_owned()));
    };
    // The extremes have no column of sums where the counts have one.
    let threads = summary.min.len();
    let columns = rows.first().map_or(threads, |(_, counts)| counts.len());
    if threads == 0 || !(columns == threads || columns == threads + 1) || summary.max.len() < threads {
        return Err(wrong(format!("{columns} columns do not belong to {threads} threads")));
    }
    let counted = (0..threads).map(|thread| {
        let of = |values: &[u64]| values.get(thread).copied();
        let mut counts = Counts { beyond: of(&summary.overflows).unwrap_or(0), ..Counts::default() };
        for (bucket, row) in &rows {
            let value = scaled(*bucket, UNIT)?;
            counts.buckets.push((value, value, of(row).unwrap_or(0)));
        }
        let within = counts.total()? - counts.beyond;
        if of(&total).is_some_and(|told| told != within) {
            return Err(format!(
                "thread {thread}: its rows hold {within} samples, `# Total:` says otherwise"
            ));
        }
        // Extremes of nothing are where the program started: 1000000 and 0.
        if counts.total()? > 0 {
            counts.min = of(&summary.min).map(|min| scaled(min, UNIT)).transpose()?;
            counts.max = of(&summary.max).map(|max| scaled(max, UNIT)).transpose()?;
        }
        Ok((format!("thread {thread}"), counts))
    });
    let counted = counted.collect::<Result<Vec<_>, String>>().map_err(&wrong)?;
    assembly.threads(counted).map_err(&wrong)
}

/// `thread:cycle:value` of `-v`.
fn sample(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split(':');
    let (thread, cycle, value) = (fields.next()?, fields.next()?, fields.next()?);
    let is_number = |t: &str| {
        let digits = t.trim().trim_start_matches('-');
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let is_sample = fields.next().is_none() && is_number(thread) && is_number(cycle) && is_number(value);
    is_sample.then(|| (thread.trim(), value.trim()))
}

fn samples(input: &Input<'_>, assembly: &mut Assembly) -> Result<(), ImportError> {
    let mut threads: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for (line, text) in input.lines() {
        let Some((thread, value)) = sample(text) else { continue };
        let wrong = at_line(NAME, line);
        let thread = whole(thread).map_err(&wrong)?;
        let value = scaled(whole(value).map_err(&wrong)?, UNIT).map_err(&wrong)?;
        if !threads.contains_key(&thread) && threads.len() == COLUMNS_MAX {
            return Err(wrong(format!("more than {COLUMNS_MAX} threads")));
        }
        *threads.entry(thread).or_default().entry(value).or_default() += 1;
    }
    let counted = threads.into_iter().map(|(thread, values)| {
        let buckets = values.into_iter().map(|(value, count)| (value, value, count)).collect();
        (format!("thread {thread}"), Counts { buckets, ..Counts::default() })
    });
    assembly.threads(counted.collect()).map_err(at_line(NAME, 1))
}

/// A line without the sequences that move a terminal's cursor before it.
fn behind_escapes(line: &str) -> &str {
    let mut line = line;
    while let Some(sequence) = line.strip_prefix("\u{1b}[") {
        line = sequence.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default();
    }
    line
}

/// Words of a live line, each with what stands behind it.
type Words<'a> = Vec<(&'static str, &'a str)>;

/// `T: 0 (15167) P: 0 I:1000 C: 983 Min: 41 Act: 96 Avg: 129 Max: 6410`: the thread and what stands behind each word.
fn live_line(line: &str) -> Option<(&str, Words<'_>)> {
    let line = behind_escapes(line);
    if !line.starts_with("T:") || !line.contains(" Avg:") || !line.contains(" Max:") {
        return None;
    }
    let value = |word: &str| {
        let rest = &line[line.find(word)? + word.len()..];
        rest.split_whitespace().next()
    };
    // A program's text has its format there: `T:%2d`.
    let is_number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().is_ok();
    let thread = value("T:").filter(|text| is_number(text))?;
    let words = [" C:", " Min:", " Avg:", " Max:"];
    let values: Words<'_> = words.into_iter().filter_map(|w| Some((w, value(w)?))).collect();
    values.iter().all(|(_, text)| is_number(text)).then_some((thread, values))
}

fn live(input: &Input<'_>, assembly: &mut Assembly) -> Result<(), ImportError> {
    let mut last: BTreeMap<&str, (usize, Words<'_>)> = BTreeMap::new();
    for (line, text) in input.lines() {
        if let Some((thread, values)) = live_line(text) {
            if !last.contains_key(thread) && last.len() == COLUMNS_MAX {
                return Err(at_line(NAME, line)(format!("more than {COLUMNS_MAX} threads")));
            }
            last.insert(thread, (line, values));
        }
    }
    // The extremes of no cycle are where the program started: 1000000 and 0.
    let of_nothing = |values: &Words<'_>| values.iter().any(|(word, text)| *word == " C:" && *text == "0");
    for (thread, (line, values)) in last.into_iter().filter(|(_, (_, values))| !of_nothing(values)) {
        let name = format!("thread {thread}");
        for (word, text) in values {
            let value =
                whole(text.trim_end_matches(|c: char| !c.is_ascii_digit())).map_err(at_line(NAME, line))?;
            let figure = match word {
                " C:" => {
                    let activity = assembly.activity(&name);
                    (activity.activations, activity.completed) = (value, value);
                    continue;
                }
                " Min:" => "smallest latency",
                " Max:" => "largest latency",
                _ => "average latency, cut to 1 us",
            };
            assembly.figure(&name, figure, value as f64 * UNIT as f64, "ns");
        }
    }
    Ok(())
}
