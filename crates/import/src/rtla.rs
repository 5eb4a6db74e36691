//! `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! *Columns*: `IRQ-000`, `Thr-000`, `Usr-000` become the series `IRQ`, `Thr`, `Usr` of the activity `CPU 0`; of osnoise,
//! `CPU-000` is the series `noise`. *Unit*: as the header says, micro- or nanoseconds. *Width* of a bucket: not
//! written, but every printed index is a multiple of it, so a bucket reaches at most to the next multiple of their
//! greatest common divisor; that is its upper edge here. *Checked*: a column's rows and `over` add up to `count`;
//! where they do not (32-bit counters wrap), the record says so and believes the rows. *Left out*: averages, which
//! are cut to whole numbers, and the block `ALL`, whose parts are there.

use surety_model::record::Record;
use surety_units::common_divisor;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, at_line, scaled, whole};

pub(crate) const NAME: &str = "rtla hist";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.text.contains("# RTLA timerlat histogram") || input.text.contains("# RTLA osnoise histogram")
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let tool = if input.text.contains("# RTLA osnoise") { "rtla osnoise" } else { "rtla timerlat" };
    let mut assembly = Assembly::new(tool);
    if tool == "rtla timerlat" {
        assembly.say("not counted", "periods that timerlat skipped because the one before was late");
    }
    let mut unit = 1_000;
    let mut columns: Vec<(String, String)> = Vec::new();
    let mut rows: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut summary: [Vec<Option<u64>>; 4] = Default::default();
    let mut last_line = 1;
    for (line, text) in input.lines() {
        last_line = line;
        let wrong = at_line(NAME, line);
        if let Some(comment) = text.strip_prefix('#') {
            if comment.contains("nanoseconds") {
                unit = 1;
            }
            if let Some(duration) = comment.trim().strip_prefix("Duration:") {
                assembly.lasted(duration_seconds(duration).map_err(&wrong)?);
            }
            continue;
        }
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let fields = || rest.split_whitespace();
        let fits = |found: usize| {
            let why = || at_line(NAME, line)(format!("{found} values where {} belong", columns.len()));
            if found == columns.len() { Ok(()) } else { Err(why()) }
        };
        match first {
            "Index" => {
                columns = fields().map(column).collect::<Option<_>>().ok_or_else(|| {
                    at_line(NAME, line)("a column is none of IRQ-000, Thr-000, Usr-000, CPU-000".to_owned())
                })?;
                if columns.len() > COLUMNS_MAX {
                    return Err(wrong(format!("more than {COLUMNS_MAX} columns")));
                }
            }
            "ALL:" => break,
            "over:" | "count:" | "min:" | "max:" => {
                let values = fields().map(|t| if t == "-" { Ok(None) } else { whole(t).map(Some) });
                let values = values.collect::<Result<Vec<_>, _>>().map_err(&wrong)?;
                fits(values.len())?;
                let place = ["over:", "count:", "min:", "max:"].iter().position(|w| *w == first);
                summary[place.unwrap_or(0)] = values;
            }
            index if index.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                let index = whole(index).map_err(&wrong)?;
                let counts = fields().map(whole).collect::<Result<Vec<_>, _>>().map_err(&wrong)?;
                fits(counts.len())?;
                if rows.last().is_some_and(|(above, _)| *above >= index) {
                    return Err(wrong(format!("index {index} does not follow the one before it")));
                }
                rows.push((index, counts));
            }
            _ => {}
        }
    }
    let wrong = at_line(NAME, last_line);
    let [over, count, min, max] = summary;
    if columns.is_empty() || max.is_empty() {
        return Err(wrong("the text ends before `max:`: it is cut off".to_owned()));
    }
    let width = rows.iter().fold(0, |width, (index, _)| common_divisor(width, *index)).max(1);
    if width > 1 {
        assembly.say("bucket width", format!("not written; at most {width}, which is taken"));
    }
    for (place, (activity, series)) in columns.into_iter().enumerate() {
        let told = |values: &[Option<u64>]| values.get(place).copied().flatten();
        let time = |value: u64| scaled(value, unit).map_err(&wrong);
        let mut counts = Counts { beyond: told(&over).unwrap_or(0), ..Counts::default() };
        for (index, row) in &rows {
            let edge = index.saturating_add(width - 1);
            counts.buckets.push((time(*index)?, time(edge)?, row.get(place).copied().unwrap_or(0)));
        }
        let total = counts.total().map_err(&wrong)?;
        if total > 0 {
            counts.min = told(&min).map(&time).transpose()?;
            counts.max = told(&max).map(&time).transpose()?;
        }
        if let Some(told) = told(&count).filter(|told| *told != total) {
            assembly
                .doubt(format!("{activity}, {series}: {told} samples are reported, its rows hold {total}"));
        }
        let record = assembly.activity(&activity);
        record.activations = record.activations.max(total);
        record.completed = record.activations;
        assembly.series(&activity, &series, counts).map_err(&wrong)?;
    }
    Ok(assembly.record())
}

/// The activity and the series of a column's title.
fn column(title: &str) -> Option<(String, String)> {
    let (kind, cpu) = title.split_once('-')?;
    let cpu: u32 = cpu.parse().ok()?;
    let series = match kind {
        "IRQ" | "Thr" | "Usr" => kind,
        "CPU" => "noise",
        _ => return None,
    };
    Some((format!("CPU {cpu}"), series.to_owned()))
}

/// `0 00:10:00`: days, hours, minutes, seconds.
fn duration_seconds(text: &str) -> Result<f64, String> {
    let mut fields = text.split([' ', ':']).filter(|f| !f.is_empty()).map(whole);
    let mut next = || fields.next().unwrap_or_else(|| Err("a duration is days hh:mm:ss".to_owned()));
    let (days, hours, minutes, seconds) = (next()?, next()?, next()?, next()?);
    Ok(days as f64 * 86_400.0 + hours as f64 * 3_600.0 + minutes as f64 * 60.0 + seconds as f64)
}
