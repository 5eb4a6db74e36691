//! [`Guaranteed`]: what is proven of the streams of a workload that a plan guarantees, each with the bound on its batches.
//!
//! The admission is made again for the workload as it is set: batches and buffers are given, and with what the CPUs leave to the threads of the streams
//! ([`crate::serving`]) each bound has to cover its batches.

use std::collections::BTreeMap;

use surety_model::platform::Platform;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::record::{ActivityRecord, BATCH_LATENCY, Basis, Distribution, Evidence, Promised};
use surety_model::workload::{ActivityKind, BatchMode, Disk, Stream, Workload};
use surety_units::{Bytes, Nanos, Rate};

use crate::edf::ReservedThread;
use crate::serving::{CpuPart, ServedStream, cpu_part};
use crate::streams::{DiskTerms, Floors, admit, demand, memory_for_buffers, terms};

/// What is known of each guaranteed stream, by its name: the bound on its batches, or why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Guaranteed(BTreeMap<String, Result<Nanos, String>>);

impl Guaranteed {
    /// Of a workload whose reserved threads are these; `files` are the texts of models of disks, by their paths.
    pub(crate) fn of(
        workload: &Workload,
        threads: &[ReservedThread],
        (platform, files): (&Platform, &BTreeMap<String, String>),
    ) -> Guaranteed {
        if !workload.streams.iter().any(Stream::is_reserved) {
            return Guaranteed(BTreeMap::new());
        }
        // A promise that nothing guarantees says nothing of how far batches are apart.
        let bare = |stream: &Stream| match stream.is_reserved() {
            true => stream.clone(),
            false => Stream { promises: Vec::new(), ..stream.clone() },
        };
        let ahead: Vec<Stream> =
            workload.streams.iter().filter(|stream| stream.batch.is_some()).map(bare).collect();
        let served: Vec<ServedStream<'_>> =
            ahead.iter().map(|stream| (stream, stream.batch.map_or(0, |bytes| bytes.0))).collect();
        let is_reserved = |name: &str| workload.task(name).is_some_and(|task| task.reservation.is_some());
        let cpu = cpu_part(&served, threads, workload, platform, is_reserved);
        let mut found = BTreeMap::new();
        for stream in workload.streams.iter().filter(|stream| stream.is_reserved()) {
            let disk = workload.disks.iter().find(|disk| stream.disk.as_deref() == Some(&disk.name));
            let proven = match (disk, &cpu) {
                (None, _) => Err("it is on no disk of the workload".to_owned()),
                (_, Err(why)) => Err(why.clone()),
                (Some(disk), Ok(cpu)) => bound(stream, (workload, disk), (platform, files), cpu),
            };
            found.insert(stream.name.clone(), proven);
        }
        Guaranteed(found)
    }

    /// The record of a stream.
    pub(crate) fn record(&self, stream: &Stream) -> ActivityRecord {
        let mut record = ActivityRecord::new(&stream.name, ActivityKind::Stream, Basis::Bound);
        record.deadline = Some(stream.deadline());
        match self.0.get(&stream.name) {
            None => {
                let why = "no bound for streams that no plan guarantees";
                record.promised = Promised::not_observable(&stream.promises, why);
            }
            Some(Err(why)) => {
                record.promised = Promised::not_observable(&stream.promises, &format!("no proof: {why}"));
            }
            Some(Ok(most)) => {
                let limits = Distribution::Limits(vec![(1.0, *most)]);
                record.series.insert(BATCH_LATENCY.to_owned(), limits);
                record.promised = Promised::all(&stream.promises, |promise| evidence(stream, promise, *most));
            }
        }
        record
    }
}

/// The longest that a batch takes, where the stream's own bound covers it and everything else of its admission holds.
fn bound(
    stream: &Stream,
    (workload, disk): (&Workload, &Disk),
    (platform, files): (&Platform, &BTreeMap<String, String>),
    cpu: &CpuPart,
) -> Result<Nanos, String> {
    let here: Vec<&Stream> =
        workload.streams.iter().filter(|other| other.goes_first() && other.disk == stream.disk).collect();
    if let Some(other) = here.iter().find(|other| other.mode == BatchMode::Longest) {
        return Err(format!(
            "stream {} has `mode = \"longest\"` and does not ask as soon as it may",
            other.name
        ));
    }
    let found = terms(workload, disk, (platform, files), Stream::goes_first).map_err(|found| found.why)?;
    let demands: Vec<_> = here.iter().map(|other| demand(other)).collect();
    let found = DiskTerms { cpu: cpu.within, asks: cpu.asks, ..found };
    let floors = Floors {
        best_effort: disk.best_effort.unwrap_or(Rate(0)),
        memory: Some(memory_for_buffers(platform)),
    };
    let admission = admit(&demands, &found, &floors).map_err(|refused| {
        let who = here.get(refused.stream).map_or("", |other| other.name.as_str());
        format!("disk {}: stream {who}: {}", disk.name, refused.why)
    })?;
    let place = here.iter().position(|other| other.name == stream.name);
    let given = place.and_then(|place| admission.streams.get(place)).ok_or("it is at best effort")?;
    let most = given.at_start.max(given.latency).saturating_add(cpu.within);
    match stream.bound {
        Some(bound) if bound < most => {
            Err(format!("a batch may take {most}, and its `bound` is {bound}: plan it again"))
        }
        _ => Ok(most),
    }
}

/// A promise that holds where no access is late.
fn evidence(stream: &Stream, promise: &Promise, most: Nanos) -> Evidence {
    let counts = matches!(promise.metric, Metric::Late | Metric::Missed | Metric::Dropped);
    let is_upper = matches!(promise.comparison, Comparison::AtMost | Comparison::Equal);
    let is_zero_or_more =
        matches!(promise.bound, Bound::Count(0)) || promise.comparison == Comparison::AtMost;
    let is_within = |limit: Nanos| limit >= stream.deadline();
    if (counts && is_upper && is_zero_or_more) || promise.response_limit().is_some_and(is_within) {
        let batch = stream.batch.map_or(Bytes(0), |bytes| bytes);
        let because = format!(
            "batches of {batch} are there within {most}, and its buffer of {} outlasts that",
            stream.buffer.unwrap_or(batch)
        );
        return Evidence::Proven { at_least: 1.0, because };
    }
    Evidence::NotObservable {
        because: format!("an admission keeps `late == 0` and responses, not `{promise}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::formats::toml::read;
    use surety_model::verdict::{Outcome, judge};
    use surety_model::world::{RunOptions, Unobserved, World as _};

    use crate::AnalysisWorld;

    fn outcomes(keys: &str) -> Vec<(Outcome, String)> {
        let text = format!(
            "format = 1\n[disk.d]\nmodel = \"hdd-2004\"\nmake = \"1GiB\"\nscheduler = \"mq-deadline\"\n\
             tunables = {{ prio_aging_expire = 3600000 }}\n[[stream]]\nname = \"s\"\ndisk = \"d\"\n\
             file = {{ make = \"40MB\" }}\nrate = \"1MB/s\"\n{keys}promise = [\"late == 0\", \"rate >= 1MB/s\"]\n\
             [[load]]\nname = \"r\"\nkind = \"readers\"\ndisk = \"d\"\n"
        );
        let workload = read("s.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let world = AnalysisWorld::new(Platform::linux_6_18(2));
        let record = world.run(&workload, &RunOptions::default(), &mut Unobserved).unwrap();
        let of = record.activity("s").unwrap();
        judge(of).into_iter().map(|verdict| (verdict.outcome, verdict.because)).collect()
    }

    #[test]
    fn a_bound_proves_what_follows_from_it_and_one_too_short_nothing() {
        let with = |batch: &str, buffer: &str, bound: &str| {
            outcomes(&format!("batch = \"{batch}\"\nbuffer = \"{buffer}\"\nbound = \"{bound}\"\n"))
        };
        let kept = with("128KiB", "2MiB", "400ms");
        assert_eq!((kept[0].0, kept[1].0), (Outcome::Kept, Outcome::NotObservable), "{kept:?}");
        for (found, says) in [
            (with("128KiB", "2MiB", "5ms"), "`bound` is 5.000 ms"),
            (with("128KiB", "160KiB", "400ms"), "buffer needs"),
            (outcomes("batch = \"128KiB\"\nbuffer = \"2MiB\"\n"), "no plan guarantees"),
        ] {
            assert!(found[0].0 == Outcome::NotObservable && found[0].1.contains(says), "{says}: {found:?}");
        }
    }
}
