//! [`proof`]: why what a stream is given is enough, line by line.

use surety_analysis::serving::CpuPart;
use surety_analysis::streams::{Admission, Admitted, DiskTerms, Level, SHARE};
use surety_model::plan::{Proof, ProofInput};
use surety_model::workload::{Direction, Disk, Stream};
use surety_units::{Bytes, Nanos, Rate};

/// Rounded up to what a plan tells of.
fn rounded_up(time: Nanos) -> Nanos {
    crate::GRAIN * time.div_ceil(crate::GRAIN)
}

fn streams(count: u32) -> String {
    if count == 1 { "1 stream".to_owned() } else { format!("{count} streams") }
}

/// When an access is late, which a buffer that the plan chooses changes.
fn due(stream: &Stream, given: &Admitted) -> String {
    let with = Stream { buffer: Some(Bytes(given.buffer)), ..stream.clone() };
    let within = format!("an access is late {} after its release", with.deadline());
    match stream.deadline() {
        before if before == with.deadline() => within,
        before => format!("{within}, when this buffer is empty; as the workload declares it, {before} after"),
    }
}

/// Rounded down to three or four digits.
fn at_least(rate: Rate) -> String {
    match rate.0 {
        0..1_000_000 => format!("{}.{} kB/s", rate.0 / 1000, rate.0 % 1000 / 100),
        _ => format!("{}.{:02} MB/s", rate.0 / 1_000_000, rate.0 % 1_000_000 / 10_000),
    }
}

/// What a stream is granted, and by what.
#[derive(Clone, Copy)]
pub(super) struct Granted<'a> {
    pub terms: &'a DiskTerms,
    pub cpu: &'a CpuPart,
    pub admission: &'a Admission,
    pub given: &'a Admitted,
    pub jitter: Nanos,
    pub overlap: bool,
}

impl Granted<'_> {
    /// From wanting a batch until it is there, at most: at the start, with the CPU's part.
    pub(super) fn bound(&self) -> Nanos {
        rounded_up(self.given.at_start.max(self.given.latency).saturating_add(self.cpu.within))
    }
}

pub(super) fn proof(stream: &Stream, disk: &Disk, granted: &Granted<'_>) -> Proof {
    let Granted { terms, cpu, admission, given, jitter, overlap } = *granted;
    let percent = |share: u64| format!("{:.1} %", share as f64 * 100.0 / (1u64 << SHARE) as f64);
    let each = |time: Nanos| rounded_up(time).to_string();
    let mut inputs = vec![
        ProofInput::new("disk", format!("{} ({})", disk.name, disk.model.as_deref().unwrap_or_default())),
        ProofInput::new(
            "service of a request",
            format!("{} and its bytes at {}", each(terms.read.fixed), terms.read.rate),
        ),
        ProofInput::new("credit beyond a batch", format!("{jitter} of its rate")),
        ProofInput::new("longest request", Bytes(terms.request_bytes)),
        ProofInput::new("best-effort requests at once", terms.beside_requests),
        ProofInput::new("of those out of the I/O scheduler", terms.inside),
        ProofInput::new("the CPU's part", each(terms.cpu)),
    ];
    inputs.extend(before_all(terms));
    let mut steps = cpu.steps.clone();
    if let (true, Some(least)) = (overlap, terms.least) {
        let last = surety_analysis::streams::last_request(given.batch, terms);
        let least = least.of(stream.direction == Direction::Write, last);
        steps.push(format!(
            "of two batches in the block layer one is there no sooner than {least} after the other, and the next is asked for within {}: best effort does not get in between",
            each(terms.asks)
        ));
    }
    steps.extend([
        format!("a batch of {} takes {} of the disk at most", Bytes(given.batch), each(given.service)),
        format!(
            "all streams take {} of its time, this one {}",
            percent(admission.share),
            percent(given.share)
        ),
        format!("best effort and the device's own work go first for {} at most", each(admission.blocking)),
        format!(
            "a batch is there within {}, at the start within {}; with the CPU's part, asked for and taken, within {}",
            each(given.latency),
            each(given.at_start),
            granted.bound()
        ),
        format!(
            "so it falls behind by {} at most, and its buffer needs {}",
            each(given.behind),
            Bytes(given.needed.next_multiple_of(1024))
        ),
        due(stream, given),
        format!("best effort keeps {} in the long run, at worst", at_least(admission.best_effort)),
    ]);
    Proof {
        theorem: format!("level {}: latency of batches before best effort", Level::Admitted),
        source: "surety_analysis::streams; surety_analysis::serving; block/mq-deadline.c".to_owned(),
        conclusion: format!("{} of {}: no access is late", streams(stream.count), stream.rate),
        probability: None,
        confidence: None,
        inputs,
        steps,
        assumptions: assumptions(terms, overlap),
        residual: None,
        simulations: Vec::new(),
        digest: None,
    }
}

/// Of what goes before a batch: CPUs that may each have a request more than the driver takes, and what goes before all classes.
fn before_all(terms: &DiskTerms) -> Vec<ProofInput> {
    let mut inputs = Vec::new();
    if terms.handing_on > 0 {
        inputs.push(ProofInput::new("CPUs that hand requests on", terms.handing_on));
    }
    if terms.flushes > 0 {
        let both = format!("{} and {}", u64::from(terms.commits), terms.flushes);
        inputs.push(ProofInput::new("commits and flushes before all", both));
    }
    inputs
}

/// What the bound relies on and does not compute.
fn assumptions(terms: &DiskTerms, overlap: bool) -> Vec<String> {
    let mut all = vec![format!(
        "at most {} of best effort's requests have left the I/O scheduler at a time: a driver that takes more, as a loop device does, is limited by `depth`",
        terms.inside
    )];
    if terms.handing_on > 0 {
        all.push(format!(
            "of those each CPU has one at most that the driver has no room for: no more than {} CPUs are online, the kernel preempts no thread that hands on a request, and no CPU is held up at \
             it so long that another takes what became free, and one more",
            terms.handing_on
        ));
    }
    if terms.commits {
        all.push(
            "its file system is ext4, whose journal has one commit at a time, and notes no reads (`noatime`)"
                .to_owned(),
        );
    }
    all.extend([
        "the thread that reads it and the one that fetches are SCHED_FIFO, and go to a CPU that runs nothing above them as soon as there is one".to_owned(),
        "the disk is as its model says, and nobody else uses it".to_owned(),
        "streams that are refused do not run, or not before best effort".to_owned(),
        match overlap {
            false => "it is fetched in batches at realtime I/O priority, one at a time".to_owned(),
            true => "it is fetched in batches at realtime I/O priority, two at a time, and begins with credit for one; who takes a request from the I/O scheduler hands it to the device before another is complete, so that one may pass it meanwhile, which counts; the device serves requests in the order in which it gets them".to_owned(),
        },
    ]);
    all
}
