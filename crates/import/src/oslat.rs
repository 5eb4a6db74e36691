//! The text of oslat: a row for each microsecond, a column for each core.
//!
//! *Unit*: microseconds, rounded up: row 3 holds what took more than 2 us and up to 3 us. *The last row* holds all that
//! is longer, too; where a core's maximum is beyond it, nothing in it is known to be within.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, at_line, number, scaled, whole};

pub(crate) const NAME: &str = "oslat text";

const UNIT: u64 = 1_000;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.text.contains("Counter Freq:") && input.text.contains("(us):")
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("oslat");
    assembly.say("resolution", "1 us, rounded up");
    let mut cores: Vec<String> = Vec::new();
    let mut counted: Vec<Counts> = Vec::new();
    let mut complete = false;
    let mut last_line = 1;
    for (line, text) in input.lines() {
        last_line = line;
        let wrong = at_line(NAME, line);
        let Some((name, rest)) = text.split_once(':') else { continue };
        let (values, _) = rest.split_once('(').unwrap_or((rest, ""));
        let values: Vec<&str> = values.split_whitespace().collect();
        let times =
            || -> Result<Vec<u64>, String> { values.iter().map(|text| scaled(whole(text)?, UNIT)).collect() };
        let fits = |found: usize| {
            let why = || at_line(NAME, line)(format!("{found} values where {} belong", cores.len()));
            if found == cores.len() { Ok(()) } else { Err(why()) }
        };
        match name.trim() {
            "Core" => {
                cores = values.iter().map(|v| (*v).to_owned()).collect();
                if cores.len() > COLUMNS_MAX {
                    return Err(wrong(format!("more than {COLUMNS_MAX} cores")));
                }
                counted = cores.iter().map(|_| Counts::default()).collect();
            }
            "Minimum" => {
                fits(values.len())?;
                let times = times().map_err(&wrong)?;
                counted.iter_mut().zip(times).for_each(|(counts, min)| counts.min = Some(min));
            }
            "Maximum" => {
                fits(values.len())?;
                let times = times().map_err(&wrong)?;
                counted.iter_mut().zip(times).for_each(|(counts, max)| counts.max = Some(max));
                complete = true;
            }
            "Duration" => {
                for text in values {
                    assembly.lasted(number(text).map_err(&wrong)?);
                }
            }
            row => {
                let Some(bucket) = row.strip_suffix("(us)") else { continue };
                fits(values.len())?;
                let bucket = scaled(whole(bucket.trim()).map_err(&wrong)?, UNIT).map_err(&wrong)?;
                for (counts, text) in counted.iter_mut().zip(values) {
                    counts.buckets.push((bucket, bucket, whole(text).map_err(&wrong)?));
                }
            }
        }
    }
    let wrong = at_line(NAME, last_line);
    if !complete {
        return Err(wrong("the text ends before `Maximum:`: it is cut off".to_owned()));
    }
    for counts in &mut counted {
        if let Some(&(last, _, count)) = counts.buckets.last()
            && counts.max.is_some_and(|max| max > last)
        {
            counts.buckets.pop();
            counts.beyond = count;
        }
        if counts.total().map_err(&wrong)? == 0 {
            (counts.min, counts.max) = (None, None);
        }
    }
    let threads = cores.iter().map(|core| format!("core {core}")).zip(counted);
    assembly.threads(threads.collect()).map_err(wrong)?;
    Ok(assembly.record())
}
