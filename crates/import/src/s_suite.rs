//! Statistics files of the S benchmark suite: three lines for each quantity.
//!
//! A name with a colon, `min max avg std_dev conf99%`, five numbers. *Read*: the first four as figures. *The confidence*
//! is not taken over: its sum runs the sample through an inner loop of 99 turns and its Student quantile is one-tailed,
//! so that it is
//!
//! ```text
//! c = t(min(n, 31) - 1, 0.99) · s · sqrt(99 / n) / 2
//! ```
//!
//! That can be undone: `c / s` falls with `n`, so `n` is found from the two, and the 99 % half-width of the mean
//! is computed anew as `t(n - 1, 0.995) · s / sqrt(n)`. Where the deviation is 0, or no `n` fits, there is
//! none. *Unit*: seconds of latencies, MiB/s of throughput (`iostat -m` counts so), percent of a drop rate.

use surety_model::record::Record;
use surety_stats::special::student_quantile;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX};
use crate::input::{Input, at_line, number};

pub(crate) const NAME: &str = "S statistics";

const HEAD: [&str; 4] = ["min", "max", "avg", "std_dev"];

/// More repetitions than this were never made, and the digits of the file could not tell them apart.
const REPETITIONS_MAX: u32 = 10_000;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| is_head(line))
}

fn is_head(line: &str) -> bool {
    let mut words = line.split_whitespace();
    HEAD.iter().all(|word| words.next() == Some(word)) && words.next().is_some_and(|w| w.starts_with("conf"))
}

/// The unit a quantity is told in, and what it is here.
fn unit_of(quantity: &str) -> (&'static str, f64) {
    let quantity = quantity.to_ascii_lowercase();
    match () {
        () if quantity.contains("throughput") => ("B/s", 1_048_576.0),
        () if quantity.contains("latency") || quantity.contains("time") => ("ns", 1e9),
        () if quantity.contains("rate") => ("%", 1.0),
        () => ("", 1.0),
    }
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("S");
    assembly.say("confidence", "99 %, computed anew from deviation and repetitions; the file's own is wrong");
    let name = input.stem().to_owned();
    let lines: Vec<(usize, &str)> = input.lines().filter(|(_, text)| !text.is_empty()).collect();
    let mut quantities = 0;
    for (place, (line, text)) in lines.iter().enumerate() {
        if !is_head(text) {
            if text.starts_with("ERROR") {
                assembly.doubt(format!("line {line}: {text}"));
            }
            continue;
        }
        quantities += 1;
        if quantities > COLUMNS_MAX {
            return Err(at_line(NAME, *line)(format!("more than {COLUMNS_MAX} quantities")));
        }
        let title = place.checked_sub(1).and_then(|before| lines.get(before)).map(|(_, title)| *title);
        let quantity = title
            .and_then(|t| t.strip_suffix(':'))
            .ok_or_else(|| at_line(NAME, *line)("above it stands no quantity with a colon".to_owned()))?;
        let Some((line, values)) = lines.get(place + 1) else {
            return Err(at_line(NAME, *line)("no values follow: the file is cut off".to_owned()));
        };
        let wrong = at_line(NAME, *line);
        let values = values.split_whitespace().map(number).collect::<Result<Vec<_>, _>>().map_err(&wrong)?;
        let [min, max, mean, deviation, confidence] = values[..] else {
            return Err(wrong(format!("{} values where 5 belong", values.len())));
        };
        if !(min <= mean && mean <= max) || deviation < 0.0 {
            return Err(wrong("smallest, average, largest and deviation contradict each other".to_owned()));
        }
        let (unit, factor) = unit_of(quantity);
        for (word, value) in [("min", min), ("max", max), ("mean", mean), ("std dev", deviation)] {
            assembly.figure(&name, &format!("{quantity} {word}"), value * factor, unit);
        }
        match repetitions(deviation, confidence) {
            Some(n) => {
                let half = student_quantile(f64::from(n - 1), 0.005) * deviation / f64::from(n).sqrt();
                assembly.figure(&name, &format!("{quantity} repetitions"), f64::from(n), "");
                assembly.figure(&name, &format!("{quantity} mean +- (99 %)"), half * factor, unit);
            }
            None => assembly.say(
                &format!("confidence of {quantity}"),
                "none: the file does not show how many repetitions there were",
            ),
        }
    }
    Ok(assembly.record())
}

/// How many values the file's deviation and confidence are of.
fn repetitions(deviation: f64, confidence: f64) -> Option<u32> {
    if deviation <= 0.0 || confidence <= 0.0 {
        return None;
    }
    let ratio = confidence / deviation;
    let of = |n: u32| {
        // Their table ends at 30 degrees of freedom and has three decimals.
        let t = student_quantile(f64::from(n.min(31) - 1), 0.01);
        (t * 1e3).round() / 1e3 * (99.0 / f64::from(n)).sqrt() / 2.0
    };
    // Both have six digits in the file.
    (2..=REPETITIONS_MAX).find(|n| (of(*n) / ratio - 1.0).abs() < 1.5e-5)
}
