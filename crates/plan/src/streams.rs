//! Streams with a promise, admitted to their disks ([`surety_analysis::streams`]) in the order of the workload: one that does not fit
//! beside those before it is refused, with the nearest that does.

mod terms;

use std::collections::BTreeSet;

use surety_analysis::streams::{
    Admission, Admitted, DiskTerms, Floors, Level, Nearest, SHARE, admit, nearest,
};
use surety_model::plan::{PlannedStream, Proof, ProofInput};
use surety_model::platform::Platform;
use surety_model::promise::{Comparison, Metric, Promise};
use surety_model::reservation::DiskReservation;
use surety_model::workload::{Disk, Stream, Workload};
use surety_units::{Bytes, Nanos, Rate};

use crate::refusal::Refused;

pub use terms::{CPU, demand, terms};

/// A promise of a stream that is refused, with its stream's name.
pub(crate) type RefusedOf = (String, Promise, Refused);

/// What every stream with a promise gets of its disk, and what is refused.
pub(crate) fn plan_streams(workload: &Workload, platform: &Platform) -> (Vec<PlannedStream>, Vec<RefusedOf>) {
    let (mut planned, mut refused) = (Vec::new(), Vec::new());
    let mut refuse = |stream: &Stream, why: &Refused| {
        refused.extend(stream.promises.iter().map(|promise| (stream.name.clone(), *promise, why.clone())));
    };
    let promised = |stream: &&Stream| !stream.promises.is_empty();
    for stream in workload.streams.iter().filter(promised) {
        let disk = workload.disks.iter().find(|disk| stream.disk.as_deref() == Some(disk.name.as_str()));
        if disk.is_none() {
            refuse(
                stream,
                &Refused::plainly(
                    "it is on no disk of the workload, so nothing bounds how long that takes: give it `disk`",
                ),
            );
        } else if let Some(other) = stream.promises.iter().find(|promise| !is_kept_by_admission(promise)) {
            let because = format!("an admission keeps `late == 0` and responses, not `{other}`");
            refuse(stream, &Refused::plainly(because));
        }
    }
    let is_asked = |stream: &&Stream| promised(stream) && stream.promises.iter().all(is_kept_by_admission);
    for disk in &workload.disks {
        let here: Vec<&Stream> = workload
            .streams
            .iter()
            .filter(is_asked)
            .filter(|stream| stream.disk.as_deref() == Some(disk.name.as_str()))
            .collect();
        if !here.is_empty() {
            on_disk(workload, disk, platform, &here, &mut planned, &mut refuse);
        }
    }
    (planned, refused)
}

/// Promises that follow when nothing is late.
fn is_kept_by_admission(promise: &Promise) -> bool {
    let counts = matches!(promise.metric, Metric::Late | Metric::Missed | Metric::Dropped);
    let is_upper = matches!(promise.comparison, Comparison::AtMost | Comparison::Equal);
    (counts && is_upper) || promise.response_limit().is_some()
}

fn on_disk(
    workload: &Workload,
    disk: &Disk,
    platform: &Platform,
    here: &[&Stream],
    planned: &mut Vec<PlannedStream>,
    refuse: &mut impl FnMut(&Stream, &Refused),
) {
    let names: BTreeSet<&str> = here.iter().map(|stream| stream.name.as_str()).collect();
    // Others that are fetched in batches go before best effort, too.
    let first: Vec<&Stream> = workload
        .streams
        .iter()
        .filter(|stream| stream.disk.as_deref() == Some(disk.name.as_str()))
        .filter(|stream| stream.batch.is_some() && !names.contains(stream.name.as_str()))
        .collect();
    let found = terms(workload, disk, platform, |stream| {
        stream.batch.is_some() || names.contains(stream.name.as_str())
    });
    let disk_terms = match found {
        Ok(found) => found,
        Err(why) => {
            let level = Level::Scheduled;
            here.iter().for_each(|stream| {
                refuse(
                    stream,
                    &Refused::plainly(format!(
                        "disk {}: {why}; without a bound it is at most {level}",
                        disk.name
                    )),
                )
            });
            return;
        }
    };
    let floors = Floors { best_effort: floor(&disk_terms), memory: None };
    let mut taken: Vec<&Stream> = first;
    let mut admission = None;
    for stream in here {
        taken.push(stream);
        let demands: Vec<_> = taken.iter().map(|stream| demand(stream)).collect();
        match admit(&demands, &disk_terms, &floors) {
            Ok(all) => admission = Some(all),
            Err(why) => {
                let found = nearest(&demands, demands.len() - 1, &disk_terms, &floors);
                let who = taken.get(why.stream).map_or("", |stream| stream.name.as_str());
                let of =
                    if who == stream.name { String::new() } else { format!("beside it, stream {who}: ") };
                let nearest = in_words(&found);
                refuse(
                    stream,
                    &Refused { nearest, ..Refused::plainly(format!("disk {}: {of}{}", disk.name, why.why)) },
                );
                taken.pop();
            }
        }
    }
    let Some(admission) = admission else { return };
    let all = taken.iter().zip(&admission.streams);
    let given = all.filter(|(stream, _)| names.contains(stream.name.as_str()));
    planned.extend(given.map(|(stream, given)| reserved(stream, disk, &disk_terms, (&admission, given))));
}

/// What a stream is given, with its proof.
fn reserved(
    stream: &Stream,
    disk: &Disk,
    terms: &DiskTerms,
    given: (&Admission, &Admitted),
) -> PlannedStream {
    PlannedStream {
        activity: stream.name.clone(),
        promises: stream.promises.clone(),
        reservation: DiskReservation {
            rate: stream.rate,
            batch: Bytes(given.1.batch),
            buffer: Bytes(given.1.buffer),
            priority: 0,
        },
        proof: proof(stream, disk, terms, given),
    }
}

/// What best effort is to keep: a tenth of what its longest requests have alone at worst.
fn floor(disk: &DiskTerms) -> Rate {
    let time = u128::from(disk.beside().get_unsigned().max(1));
    Rate((u128::from(disk.beside_bytes) * 100_000_000 / time) as u64)
}

fn in_words(found: &Nearest) -> Vec<String> {
    let size = |key: &str, bytes: u64| format!("{key} = \"{bytes}B\"");
    let slower = found.rate.map(|slower| {
        let with = [
            slower.batch.map(|bytes| size("batch", bytes)),
            slower.buffer.map(|bytes| size("buffer", bytes)),
        ];
        let with = with.into_iter().flatten().map(|word| format!(", {word}")).collect::<String>();
        format!("rate = \"{}B/s\"{with}", slower.rate.0)
    });
    let each = [
        found.buffer.map(|buffer| size("buffer", buffer)),
        found.batch.map(|batch| size("batch", batch)),
        found.both.map(|(batch, buffer)| format!("{}, {}", size("batch", batch), size("buffer", buffer))),
        slower,
        found.count.map(|count| format!("count = {count}")),
    ];
    each.into_iter().flatten().collect()
}

fn proof(
    stream: &Stream,
    disk: &Disk,
    terms: &DiskTerms,
    (admission, given): (&Admission, &Admitted),
) -> Proof {
    let percent = |share: u64| format!("{:.1} %", share as f64 * 100.0 / (1u64 << SHARE) as f64);
    // Rounded up to what a plan tells of.
    let each = |time: Nanos| (crate::GRAIN * time.div_ceil(crate::GRAIN)).to_string();
    let inputs = vec![
        ProofInput::new("disk", format!("{} ({})", disk.name, disk.model.as_deref().unwrap_or_default())),
        ProofInput::new(
            "service of a request",
            format!("{} and its bytes at {}", each(terms.read.fixed), terms.read.rate),
        ),
        ProofInput::new("longest request", Bytes(terms.request_bytes)),
        ProofInput::new("best-effort requests at once", terms.beside_requests),
        ProofInput::new("of those in the device", terms.inside),
        ProofInput::new("the CPU's part", each(terms.cpu)),
    ];
    let steps = vec![
        format!("a batch of {} takes {} of the disk at most", Bytes(given.batch), each(given.service)),
        format!(
            "all streams take {} of its time, this one {}",
            percent(admission.share),
            percent(given.share)
        ),
        format!("best effort and the device's own work go first for {} at most", each(admission.blocking)),
        format!(
            "a batch is there within {}, at the start within {}",
            each(given.latency),
            each(given.at_start)
        ),
        format!(
            "so it falls behind by {} at most, and its buffer needs {}",
            each(given.behind),
            Bytes(given.needed)
        ),
        format!("best effort keeps {} in the long run, at worst", admission.best_effort),
    ];
    Proof {
        theorem: format!("level {}: latency of batches before best effort", Level::Admitted),
        source: "surety_analysis::streams; block/mq-deadline.c".to_owned(),
        conclusion: format!("{} {}/s: no access is late", stream.count, Bytes(stream.rate.0)),
        probability: None,
        confidence: None,
        inputs,
        steps,
        assumptions: vec![
            format!(
                "no more than {} best-effort requests have left the I/O scheduler at a time: a driver that takes more, as a loop device does, is limited by `depth`",
                terms.inside
            ),
            format!("its thread has a CPU within {}", each(terms.cpu)),
            "the disk is as its model says, and nobody else uses it".to_owned(),
            "streams that are refused do not run, or not before best effort".to_owned(),
            "it is fetched in batches at realtime I/O priority, one at a time".to_owned(),
        ],
        residual: None,
        simulations: Vec::new(),
        digest: None,
    }
}
