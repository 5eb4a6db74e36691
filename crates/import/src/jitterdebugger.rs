//! jitterdebugger: `results.json`, and `samples.raw` with every sample.
//!
//! *Unit*: microseconds; nanoseconds where `resolution_in_ns` is 1, which only the JSON tells. *Beyond* the histogram: the
//! count less the counts. *Labels*: the keys under `cpu`, and the CPU of a sample, number the threads; with an affinity
//! mask they are not the CPUs, so activities are called threads. *samples.raw*: records of 28 bytes without padding, all
//! little-endian: u32 thread, i64 seconds, i64 nanoseconds, u64 value.

use std::collections::BTreeMap;

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, scaled};
use crate::json::{Node, document};

pub(crate) const JSON: &str = "jitterdebugger JSON";
pub(crate) const RAW: &str = "jitterdebugger samples";

const SAMPLE: usize = 28;

const LABELS: &str = "numbers of threads; CPUs only where no affinity mask was given";

pub(crate) fn detect_json(input: &Input<'_>) -> bool {
    input.text.contains("\"cpu\": {")
        && input.text.contains("\"histogram\"")
        && !input.text.contains("rt_test")
}

pub(crate) fn read_json(input: &Input<'_>) -> Result<Record, ImportError> {
    let document = document(JSON, input.text)?;
    let root = Node::root(JSON, &document);
    let mut assembly = Assembly::new("jitterdebugger");
    assembly.say("labels", LABELS);
    if !document.mended.is_empty() {
        assembly.say("mended JSON", document.mended.join(", "));
    }
    let mut unit = 1_000;
    if let Some(system) = root.object("sysinfo")? {
        assembly.kernel(system.text("release").unwrap_or_default());
        if system.whole("resolution_in_ns")? == Some(1) {
            unit = 1;
        }
    }
    if root.whole("resolution_in_ns")? == Some(1) {
        unit = 1;
    }
    let Some(threads) = root.object("cpu")? else {
        return Err(root.error("there is no object `cpu`".to_owned()));
    };
    let mut keys: Vec<&String> = threads.map().keys().collect();
    keys.sort_by_key(|key| (key.parse::<u64>().unwrap_or(u64::MAX), (*key).clone()));
    if keys.len() > COLUMNS_MAX {
        return Err(threads.error(format!("more than {COLUMNS_MAX} threads")));
    }
    let mut counted = Vec::new();
    for key in keys {
        let Some(thread) = threads.object(key)? else { continue };
        let time = |value: u64| scaled(value, unit).map_err(|why| thread.error(why));
        let mut counts = Counts::default();
        for (value, count) in thread.counts("histogram")? {
            counts.buckets.push((time(value)?, time(value)?, count));
        }
        let within = counts.total().map_err(|why| thread.error(why))?;
        let told = thread.whole("count")?.unwrap_or(within);
        counts.beyond = told.checked_sub(within).ok_or_else(|| {
            thread.error(format!("its histogram holds {within} samples, more than its count, {told}"))
        })?;
        if told > 0 {
            counts.min = thread.whole("min")?.map(&time).transpose()?;
            counts.max = thread.whole("max")?.map(&time).transpose()?;
        }
        counted.push((format!("thread {key}"), counts));
    }
    assembly.threads(counted).map_err(|why| threads.error(why))?;
    Ok(assembly.record())
}

/// The fields of a sample: thread, seconds, nanoseconds, value. `None` where fewer bytes are left.
fn sample(bytes: &[u8]) -> Option<(u32, i64, i64, u64)> {
    let (thread, rest) = bytes.split_first_chunk::<4>()?;
    let (seconds, rest) = rest.split_first_chunk::<8>()?;
    let (nanoseconds, rest) = rest.split_first_chunk::<8>()?;
    let (value, _) = rest.split_first_chunk::<8>()?;
    Some((
        u32::from_le_bytes(*thread),
        i64::from_le_bytes(*seconds),
        i64::from_le_bytes(*nanoseconds),
        u64::from_le_bytes(*value),
    ))
}

/// Whether a sample can be one.
fn is_plausible((thread, seconds, nanoseconds, _): (u32, i64, i64, u64)) -> bool {
    thread < 8_192 && seconds >= 0 && (0..1_000_000_000).contains(&nanoseconds)
}

pub(crate) fn detect_raw(input: &Input<'_>) -> bool {
    // A thread's number below 8192 has two zero bytes, which no text has.
    sample(input.bytes).is_some_and(is_plausible)
}

pub(crate) fn read_raw(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("jitterdebugger");
    assembly.say("labels", LABELS);
    assembly.say("unit", "microseconds: the file does not say; results.json beside it does");
    let mut threads: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut instants: Option<(i64, i64)> = None;
    for (index, bytes) in input.bytes.chunks(SAMPLE).enumerate() {
        let wrong = |why: String| ImportError::Byte { format: RAW, at: index * SAMPLE, why };
        let Some(read) = sample(bytes) else {
            return Err(wrong(format!(
                "{} bytes are no sample of {SAMPLE}: the file is cut off",
                bytes.len()
            )));
        };
        if !is_plausible(read) {
            return Err(wrong("no thread, or no time, can be this".to_owned()));
        }
        let (thread, seconds, _, value) = read;
        if !threads.contains_key(&thread) && threads.len() == COLUMNS_MAX {
            return Err(wrong(format!("more than {COLUMNS_MAX} threads")));
        }
        instants = Some(instants.map_or((seconds, seconds), |(a, b)| (a.min(seconds), b.max(seconds))));
        let value = scaled(value, 1_000).map_err(wrong)?;
        *threads.entry(thread).or_default().entry(value).or_default() += 1;
    }
    if let Some((first, last)) = instants {
        assembly.lasted(last as f64 - first as f64);
    }
    let counted = threads.into_iter().map(|(thread, values)| {
        let buckets = values.into_iter().map(|(value, count)| (value, value, count)).collect();
        (format!("thread {thread}"), Counts { buckets, ..Counts::default() })
    });
    let wrong = |why| ImportError::Byte { format: RAW, at: 0, why };
    assembly.threads(counted.collect()).map_err(wrong)?;
    Ok(assembly.record())
}
