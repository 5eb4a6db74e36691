//! fio's `--write_hist_log`: a line for each interval and direction, the counts of all bins in it.
//!
//! `milliseconds, direction, block size, 1856 counts` (1216 before fio 3). *Unit*: nanoseconds with 1856 bins,
//! microseconds with 1216. *What* was measured stands in the file's name (`_clat_hist`). *Extremes* are not
//! written, so each value is its bin's upper edge; of the last bin nothing is known. The last interval is missing where
//! the run did not end with one.

use surety_model::record::Record;
use surety_stats::bins::{FIO_BINS, fio_range};

use crate::ImportError;
use crate::assemble::{Assembly, Counts};
use crate::input::{Input, at_line, scaled, whole};

pub(crate) const NAME: &str = "fio histogram log";

/// Bins of the versions before 3.
const OLD_BINS: usize = 1216;

const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

pub(crate) fn detect(input: &Input<'_>) -> bool {
    let Some((_, first)) = input.lines().find(|(_, line)| !line.is_empty()) else { return false };
    let fields = first.split(',').count();
    [FIO_BINS, OLD_BINS].contains(&fields.saturating_sub(3))
        && first.starts_with(|c: char| c.is_ascii_digit())
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("fio");
    assembly.say("extremes", "not written: a value is its bin's upper edge, up to 1.6 % more than it was");
    let stem = input.stem();
    let (job, time) = ["clat", "slat", "lat"]
        .into_iter()
        .find_map(|time| Some((stem.split_once(&format!("_{time}_hist"))?.0, time)))
        .unwrap_or((stem, "lat"));
    let mut bins: [Vec<u64>; 3] = Default::default();
    let mut unit = 1;
    let mut last_line = 1;
    for (line, text) in input.lines().filter(|(_, text)| !text.is_empty()) {
        last_line = line;
        let wrong = at_line(NAME, line);
        let fields =
            text.split(',').map(|f| whole(f.trim())).collect::<Result<Vec<_>, _>>().map_err(&wrong)?;
        let [milliseconds, direction, _, counts @ ..] = fields.as_slice() else {
            return Err(wrong("a line is milliseconds, direction, block size, counts".to_owned()));
        };
        if ![FIO_BINS, OLD_BINS].contains(&counts.len()) {
            return Err(wrong(format!("{} counts where {FIO_BINS} or {OLD_BINS} belong", counts.len())));
        }
        unit = if counts.len() == FIO_BINS { 1 } else { 1_000 };
        let place = usize::try_from(*direction).ok().and_then(|d| bins.get_mut(d));
        let sums = place.ok_or_else(|| wrong(format!("there is no direction {direction}")))?;
        sums.resize(sums.len().max(counts.len()), 0);
        for (sum, count) in sums.iter_mut().zip(counts) {
            let added = sum.checked_add(*count);
            *sum = added.ok_or_else(|| wrong("more than 2^64 - 1 values".to_owned()))?;
        }
        assembly.lasted(*milliseconds as f64 / 1e3);
    }
    let wrong = at_line(NAME, last_line);
    for (direction, sums) in DIRECTIONS.into_iter().zip(bins) {
        let mut counts = Counts::default();
        let last = sums.len().saturating_sub(1);
        for (index, count) in sums.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            match fio_range(index).filter(|_| index < last) {
                Some((low, high)) => {
                    let time = |value| scaled(value, unit).map_err(&wrong);
                    counts.buckets.push((time(low)?, time(high)?, count));
                }
                None => counts.beyond = count,
            }
        }
        assembly.series(job, &format!("{direction} {time}"), counts).map_err(&wrong)?;
    }
    Ok(assembly.record())
}
