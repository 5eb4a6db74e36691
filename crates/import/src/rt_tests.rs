//! JSON of rt-tests: cyclictest, oslat, signaltest, cyclicdeadline and their kin.
//!
//! *Unit*: microseconds; nanoseconds where `resolution_in_ns` is 1. *Odd*: keys with a colon inside
//! (`"cmdline:"`), quotes of the command line unescaped in old versions, `nan` as the average of nothing. *Missing*: the
//! number of samples beyond the histogram, which is the cycles less the counts; cyclictest's skipped periods, which
//! it counts nowhere. oslat's last bucket holds all that is longer, too: where the maximum is beyond it, nothing in it
//! is known to be within. Programs without a histogram give their extremes and their average as figures.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, scaled};
use crate::json::{Node, document};

pub(crate) const NAME: &str = "rt-tests JSON";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.text.contains("\"rt_test_version") && input.text.contains("\"thread\"")
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let document = document(NAME, input.text)?;
    let root = Node::root(NAME, &document);
    let command = root.text("cmdline").unwrap_or_default();
    let program = command.split_whitespace().next().unwrap_or("rt-tests");
    let tool = program.rsplit('/').next().unwrap_or(program);
    let mut assembly = Assembly::new(tool);
    let unit = if root.whole("resolution_in_ns")? == Some(1) { 1 } else { 1_000 };
    assembly.say(
        "resolution",
        if unit == 1 { "1 ns" } else { "1 us: a time may be up to 1 us longer than told" },
    );
    for (key, name) in [("cmdline", "command line"), ("rt_test_version", "version of rt-tests")] {
        if let Some(text) = root.text(key) {
            assembly.say(name, text);
        }
    }
    if !document.mended.is_empty() {
        assembly.say("mended JSON", document.mended.join(", "));
    }
    if let Some(system) = root.object("sysinfo")? {
        assembly.kernel(system.text("release").unwrap_or_default());
    }
    let Some(threads) = root.object("thread")? else {
        return Err(root.error("there is no object `thread`".to_owned()));
    };
    if threads.map().len() > COLUMNS_MAX {
        return Err(threads.error(format!("more than {COLUMNS_MAX} threads")));
    }
    if let Some(told) = root.whole("num_threads")?
        && told != threads.map().len() as u64
    {
        assembly.doubt(format!("{told} threads are reported, {} are there", threads.map().len()));
    }
    let mut keys: Vec<&String> = threads.map().keys().collect();
    keys.sort_by_key(|key| (key.parse::<u64>().unwrap_or(u64::MAX), (*key).clone()));
    let mut counted = Vec::new();
    for key in keys {
        let Some(thread) = threads.object(key)? else { continue };
        let name = format!("thread {key}");
        if let Some(cpu) = thread.whole("cpu")? {
            assembly.say(&name, format!("last on CPU {cpu}"));
        }
        if let Some(seconds) = thread.number("duration")? {
            assembly.lasted(seconds);
        }
        // Without -h the histogram is there and empty: it tells nothing, and the extremes are all there is.
        if thread.object("histogram")?.is_some_and(|histogram| !histogram.map().is_empty()) {
            counted.push((name, counts(&thread, unit, tool == "oslat")?));
        } else {
            figures(&thread, &name, unit, &mut assembly)?;
        }
    }
    assembly.threads(counted).map_err(|why| threads.error(why))?;
    if tool == "cyclictest" {
        assembly.doubt(crate::cyclictest::SKIPPED);
    }
    Ok(assembly.record())
}

fn counts(thread: &Node<'_>, unit: u64, open_end: bool) -> Result<Counts, ImportError> {
    let time = |value: u64| scaled(value, unit).map_err(|why| thread.error(why));
    let extreme = |key: &str| thread.whole(key)?.map(time).transpose();
    let mut counts = Counts { min: extreme("min")?, max: extreme("max")?, ..Counts::default() };
    for (value, count) in thread.counts("histogram")? {
        counts.buckets.push((time(value)?, time(value)?, count));
    }
    let within = counts.total().map_err(|why| thread.error(why))?;
    if let Some(cycles) = thread.whole("cycles")? {
        let beyond = cycles.checked_sub(within);
        counts.beyond = beyond.ok_or_else(|| {
            thread.error(format!("its histogram holds {within} samples, more than its {cycles} cycles"))
        })?;
    }
    if open_end
        && let Some(&(last, _, count)) = counts.buckets.last()
        && counts.max.is_some_and(|max| max > last)
    {
        counts.buckets.pop();
        counts.beyond = count;
    }
    if within == 0 && counts.beyond == 0 {
        (counts.min, counts.max) = (None, None);
    }
    Ok(counts)
}

/// The extremes and the average, all that is known without a histogram.
fn figures(thread: &Node<'_>, name: &str, unit: u64, assembly: &mut Assembly) -> Result<(), ImportError> {
    let cycles = thread.whole("cycles")?;
    let activity = assembly.activity(name);
    (activity.activations, activity.completed) = (cycles.unwrap_or(0), cycles.unwrap_or(0));
    if cycles == Some(0) {
        return Ok(());
    }
    for (key, figure) in [("min", "smallest latency"), ("avg", "average latency"), ("max", "largest latency")]
    {
        if let Some(value) = thread.number(key)? {
            assembly.figure(name, figure, value * unit as f64, "ns");
        }
    }
    Ok(())
}
