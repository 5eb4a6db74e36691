//! fio's `--output-format=json+`, and what is left of it in plain JSON.
//!
//! *Read*: for each job (`--group_reporting`: group) and direction, the bins of `slat`, `clat` and `lat` as series
//! (`read clat`), and the rates as figures (`read rate`, `read iops`, `read requests`). *Unit*: nanoseconds under `*_ns`;
//! microseconds under the names that fio 2 used. *Bins* are written as their middles, so that a percentile of fio can
//! exceed its maximum: here each bin of nanoseconds stands for its upper edge, cut to the exact extremes. From 17.2 s on
//! all is in the last bin. *Without bins* fio's own percentiles become figures, as it interpolated them. *Left out*:
//! standard deviations, which do not add, and means of bandwidth samples.

use surety_model::record::Record;
use surety_stats::bins::{FIO_BINS, fio_index, fio_range};

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::Input;
use crate::json::{Node, document};
use crate::totals::Names;

pub(crate) const NAME: &str = "fio JSON";

const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// Names of times, fio 3's and fio 2's, with the latter's unit in nanoseconds.
const TIMES: [(&str, &str); 3] = [("slat_ns", "slat"), ("clat_ns", "clat"), ("lat_ns", "lat")];

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.text.contains("\"fio version\"") && input.text.contains("\"jobs\"")
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let document = document(NAME, input.text)?;
    let root = Node::root(NAME, &document);
    let mut assembly = Assembly::new("fio");
    assembly.say("version of fio", root.text("fio version").unwrap_or_default());
    let jobs = root.objects("jobs")?;
    if jobs.len() > COLUMNS_MAX {
        return Err(root.error(format!("more than {COLUMNS_MAX} jobs")));
    }
    let mut names = Names::default();
    for job in jobs {
        let name = names.unique(job.text("jobname").unwrap_or("job"));
        if let Some(error) = job.whole("error")?.filter(|error| *error != 0) {
            assembly.doubt(format!("{name}: fio ended with error {error}"));
        }
        for direction in DIRECTIONS {
            let Some(node) = job.object(direction)? else { continue };
            direction_of(&name, direction, &node, &mut assembly)?;
        }
    }
    Ok(assembly.record())
}

fn direction_of(
    job: &str,
    direction: &str,
    node: &Node<'_>,
    assembly: &mut Assembly,
) -> Result<(), ImportError> {
    let requests = node.whole("total_ios")?;
    if requests == Some(0) {
        return Ok(());
    }
    assembly.lasted(node.number("runtime")?.unwrap_or(0.0) / 1e3);
    let rate = match node.number("bw_bytes")? {
        Some(bytes) => Some(bytes),
        // Older versions tell KiB only.
        None => node.number("bw")?.map(|kibibytes| kibibytes * 1024.0),
    };
    let figures = [
        ("rate", rate, "B/s"),
        ("iops", node.number("iops")?, "/s"),
        ("requests", requests.map(|n| n as f64), ""),
        ("dropped", node.number("drop_ios")?.filter(|n| *n > 0.0), ""),
    ];
    for (figure, value, unit) in figures {
        if let Some(value) = value {
            assembly.figure(job, &format!("{direction} {figure}"), value, unit);
        }
    }
    for (nanoseconds, microseconds) in TIMES {
        let (times, unit) = match node.object(nanoseconds)? {
            Some(times) => (Some(times), 1),
            None => (node.object(microseconds)?, 1_000),
        };
        let Some(times) = times else { continue };
        let series = format!("{direction} {microseconds}");
        if times.object("bins")?.is_some() {
            let counts = bins(&times, unit)?;
            assembly.series(job, &series, counts).map_err(|why| times.error(why))?;
        } else if times.whole("N")? != Some(0) {
            without_bins(job, &series, &times, unit, assembly)?;
        }
    }
    Ok(())
}

fn bins(times: &Node<'_>, unit: u64) -> Result<Counts, ImportError> {
    let scale =
        |value: u64| value.checked_mul(unit).ok_or_else(|| times.error(format!("{value} units are no time")));
    let mut counts = Counts::default();
    for (middle, count) in times.counts("bins")? {
        let index = fio_index(middle);
        let (low, high) = fio_range(index).ok_or_else(|| times.error(format!("{middle} is in no bin")))?;
        if index == FIO_BINS - 1 {
            counts.beyond = counts.beyond.saturating_add(count);
        } else {
            counts.buckets.push((scale(low)?, scale(high)?, count));
        }
    }
    let total = counts.total().map_err(|why| times.error(why))?;
    if let Some(told) = times.whole("N")?
        && told != total
    {
        return Err(times.error(format!("its bins hold {total} samples, `N` says {told}")));
    }
    if total > 0 {
        counts.min = times.whole("min")?.map(scale).transpose()?;
        counts.max = times.whole("max")?.map(scale).transpose()?;
    }
    Ok(counts)
}

/// What plain JSON tells of a time.
fn without_bins(
    job: &str,
    series: &str,
    times: &Node<'_>,
    unit: u64,
    assembly: &mut Assembly,
) -> Result<(), ImportError> {
    assembly.say("no distributions", "plain JSON has no bins: run fio with --output-format=json+");
    for key in ["min", "mean", "max"] {
        if let Some(value) = times.number(key)? {
            assembly.figure(job, &format!("{series} {key}"), value * unit as f64, "ns");
        }
    }
    if let Some(percentiles) = times.object("percentile")? {
        for percent in percentiles.map().keys().take(COLUMNS_MAX) {
            if let Some(value) = percentiles.number(percent)? {
                let short = percent.trim_end_matches('0').trim_end_matches('.');
                assembly.figure(job, &format!("{series} p{short}"), value * unit as f64, "ns");
            }
        }
    }
    Ok(())
}
