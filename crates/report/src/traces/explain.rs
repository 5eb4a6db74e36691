//! Who delayed a thread: its worst jobs step by step in words, then where the time of all its jobs goes beside that of
//! the slowest. JSON: `docs/formats/trace-explain.md`.

mod by_name;
mod causes;
mod spans;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use surety_model::job::Separation;
use surety_trace::blame::{
    Average, Blames, Cause, Chain, Kind, Piece, Stretch, ThreadBlame, Worst, average, stretches,
};
use surety_units::Nanos;

use super::{ReadTrace, TraceReport, cell, limited, separation};
use crate::paper::Paper;
use crate::quantity::number_of;
use crate::table::Check;
use crate::text::Style;
use crate::timeline::Timeline;
use by_name::{LEFT, lines};
use causes::{Names, interrupt_of, thread_words};

pub use spans::TraceAttribution;

/// Steps of a chain that are shown; of longer ones the longest and the ends.
const STEPS_MAX: usize = 16;
/// Causes that have a line of their own, those with the most time; of further ones each name has one, until little is left.
const CAUSES_MAX: usize = 16;
/// Lines of causes at most.
const LINES_MAX: usize = 48;
/// The same of one job.
const SHARES: (usize, usize) = (6, 24);
/// The groups of jobs that are averaged, in thousandths from the slowest, and what they are called.
const GROUPS: [(u64, &str); 3] = [(1000, "all"), (10, "slowest 1 %"), (1, "slowest 0.1 %")];

/// What delayed the chosen threads.
#[derive(Debug)]
pub struct TraceExplanation {
    pub read: ReadTrace,
    /// Its jobs with what delayed them.
    pub blames: Blames,
}

impl TraceReport for TraceExplanation {
    fn text(&self, style: &Style) -> String {
        self.paper().text(style)
    }

    fn json(&self) -> Value {
        let blames = &self.blames;
        let names = names_of(blames);
        let thread = |t: &ThreadBlame| {
            json!({
                "tid": t.tid,
                "name": t.comm.text(),
                "separation": separation(t.separation == Separation::Markers),
                "jobs": t.jobs,
            })
        };
        json!({
            "schema": "surety.trace-explain/1",
            "file": self.read.file,
            "quality": self.read.quality(&blames.anomalies),
            "threads": blames.threads.iter().map(thread).collect::<Vec<_>>(),
            "threads_not_listed": blames.unlisted,
            "anomalies": blames.anomalies,
            "given_up": { "jobs": blames.doubtful, "unknown_ns": blames.unknown },
            "inferred": blames.inferred,
            "of": if blames.are_waits { "waits" } else { "jobs" },
            "chosen": self.read.chosen(),
            "groups": groups(blames).iter().map(|group| json!({
                "slowest_per_mille": group.per_mille,
                "whole": group.is_whole,
                "jobs": group.average.jobs,
                "response_sum_ns": group.average.response,
                "causes": group.average.causes.iter().map(|(c, sum)| names.caused(*c, "sum_ns", *sum)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "worst": blames.worst.iter().map(|Worst { tid, comm, chain, is_censored }| json!({
                "tid": tid,
                "name": comm.text(),
                "job": chain.job.index,
                "release_ns": chain.job.release,
                "start_ns": chain.job.start,
                "completion_ns": chain.job.completion,
                "response_ns": chain.job.response(),
                "inferred_ns": chain.job.inferred,
                "unknown_ns": chain.job.unknown,
                "censored": is_censored,
                "pieces": chain.pieces.iter().map(|p| piece(p, names)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

impl TraceExplanation {
    /// What is said of it, for a terminal or a page.
    pub fn paper(&self) -> Paper {
        let groups = groups(&self.blames);
        let names = names_of(&self.blames);
        let begin = self.read.summary.span.map_or(Nanos::ZERO, |(first, _)| first);
        let mut paper = Paper::default();
        if let Some(around) = &self.blames.around {
            paper.timeline(Timeline { label: String::new(), around: around.clone(), deadline: None });
        }
        for worst in &self.blames.worst {
            let chain = &worst.chain;
            let placed = if self.blames.are_waits { waited(chain, begin) } else { placed(chain, begin) };
            paper.led(heading(worst), placed).cells(&["after", "for", "CPU", "what"], steps(chain, names));
            paper.led("in all  ", shares(chain, names)).gap();
        }
        let [all, slow, slower] = &groups;
        let mean = if self.blames.are_waits { "mean of a wait" } else { "mean of a response" };
        let titles = [mean, &all.title, &slow.title, &slower.title];
        paper.cells(&titles, group_rows(&groups, names, &self.blames)).gap();
        paper.led("whose  ", whose(&self.blames)).checks(self.checks());
        paper
    }

    /// How far the trace can be trusted.
    fn checks(&self) -> Vec<Check> {
        let Blames { doubtful, unknown, inferred, .. } = self.blames;
        let missed = "jobs open there are given up, and what was in the way may not be known";
        let mut list = self.read.incomplete(&self.blames.anomalies, missed);
        if doubtful > 0 {
            let jobs = number_of(doubtful, "job");
            let found = format!(
                "{jobs} of these threads with {unknown} of unknown time: told above where they are among the worst, in no mean"
            );
            list.push(limited("given up", found));
        }
        if inferred > 0 {
            let jobs = number_of(inferred, "job");
            list.push(Check::good(
                "placed",
                format!("{jobs} of these threads begin at a switch that was placed so"),
            ));
        }
        list
    }
}

fn names_of(blames: &Blames) -> Names<'_> {
    Names { irqs: &blames.irq_names, rules: &blames.rules }
}

/// Some of the slowest jobs, and where their time went.
struct Group {
    /// What was asked for.
    per_mille: u64,
    title: String,
    average: Average,
    /// It holds all jobs that were asked for.
    is_whole: bool,
}

fn groups(blames: &Blames) -> [Group; 3] {
    let jobs = blames.all.jobs;
    GROUPS.map(|(per_mille, name)| {
        let average = match per_mille {
            1000 => blames.all.clone(),
            _ => average(blames.slowest.of(jobs, per_mille)),
        };
        // Of a long trace only the slowest jobs are kept.
        let is_whole = average.jobs >= jobs.saturating_mul(per_mille).div_ceil(1000);
        let title = if is_whole { name.to_owned() } else { format!("slowest {}", average.jobs) };
        Group { per_mille, title, average, is_whole }
    })
}

fn heading(worst: &Worst) -> String {
    let job = cell(worst.chain.job.index.map(|index| format!(", job {index}")));
    let given_up = if worst.is_censored { ", given up" } else { "" };
    format!("{} {}{job}{given_up}  ", worst.tid, worst.comm)
}

fn placed(chain: &Chain, begin: Nanos) -> String {
    let job = &chain.job;
    let after = (job.release - begin).as_secs_f64();
    format!(
        "response {}, released {after:.6} s into the trace, on a CPU first {} after that",
        job.response(),
        job.latency()
    )
}

/// The same of a wait for a disk.
fn waited(chain: &Chain, begin: Nanos) -> String {
    let after = (chain.job.release - begin).as_secs_f64();
    format!("wait for a disk of {}, asleep {after:.6} s into the trace", chain.job.response())
}

/// The chain as rows of a table. Steps that are left out are told of together, where they were.
fn steps(chain: &Chain, names: Names<'_>) -> Vec<Vec<String>> {
    let told = stretches(&chain.pieces);
    let mut shown: Vec<usize> = (0..told.len()).collect();
    shown.sort_by_key(|k| (*k != 0 && *k + 1 != told.len(), std::cmp::Reverse(told[*k].time())));
    shown.truncate(STEPS_MAX);
    shown.sort_unstable();
    let mut rows = Vec::new();
    let mut next = 0;
    for k in shown {
        if k > next {
            let time: Nanos = told[next..k].iter().map(Stretch::time).sum();
            let after = (told[next].from - chain.job.release).to_string();
            rows.push(vec![after, time.to_string(), String::new(), left_out(k - next)]);
        }
        rows.push(step(&told[k], chain, names));
        next = k + 1;
    }
    let end = chain.job.response().to_string();
    rows.push(vec![end, String::new(), String::new(), "done".to_owned()]);
    rows
}

fn left_out(steps: usize) -> String {
    if steps == 1 { "a shorter step".to_owned() } else { format!("{steps} shorter steps") }
}

fn step(stretch: &Stretch, chain: &Chain, names: Names<'_>) -> Vec<String> {
    let on_cpu_before = stretch.from > chain.job.start;
    let mut words = match stretch.cause {
        Cause::Own if stretch.from == chain.job.start && chain.job.inferred.is_positive() => {
            format!("starts to run, or up to {} later: the switch was not recorded", chain.job.inferred)
        }
        Cause::Own if stretch.from == chain.job.start => "starts to run".to_owned(),
        Cause::Own => "runs".to_owned(),
        Cause::Earlier => "still runs what came before this job".to_owned(),
        Cause::Ran(_) | Cause::Think => names.of(stretch.cause),
        Cause::Clock => "sleeps inside the job, until a timer wakes it".to_owned(),
        Cause::Device(context) => {
            format!("sleeps inside the job, until {} wakes it", names.interrupt(interrupt_of(context)))
        }
        Cause::Thread(culprit) if on_cpu_before => {
            format!("wants to go on; {} has the CPU", thread_words(&culprit))
        }
        Cause::Thread(culprit) => format!("is ready; {} has the CPU", thread_words(&culprit)),
        Cause::Irq(_) | Cause::Vector(_) | Cause::Softirq(_) => {
            let wants = if on_cpu_before { "wants to go on" } else { "is ready" };
            format!("{wants}; {} has the CPU", names.interrupt(stretch.cause))
        }
        Cause::Throttled => "has used up its budget and waits for the next".to_owned(),
        Cause::Idle if on_cpu_before => "is ready for an idle CPU: carried over, or it wakes up".to_owned(),
        Cause::Idle => "is ready; its CPU comes out of idle".to_owned(),
        Cause::Unwoken => "is released, but nobody has woken it yet".to_owned(),
        Cause::Lock(culprit) => {
            format!("waits for a lock, until {} lets it go", thread_words(&culprit))
        }
        Cause::Awaited(culprit) => {
            format!("sleeps inside the job, until {} wakes it", thread_words(&culprit))
        }
        Cause::Blocked => "sleeps inside the job; who wakes it is not in the trace".to_owned(),
        Cause::Disk(cause) => names.disk(cause),
        Cause::Others => "is ready; another thread has the CPU".to_owned(),
        Cause::Unknown if chain.job.unknown.is_positive() => {
            "unknown: ready or running, the switch was not recorded".to_owned()
        }
        Cause::Unknown => "is not seen in the trace".to_owned(),
    };
    if !stretch.interrupts.is_empty() {
        let tops = stretch.interrupts.iter();
        let tops = tops.map(|part| format!("{} {}", names.interrupt(part.cause), part.time));
        words += &format!("; on top {}", tops.collect::<Vec<_>>().join(", "));
    }
    vec![
        (stretch.from - chain.job.release).to_string(),
        stretch.time().to_string(),
        stretch.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.0.to_string()),
        words,
    ]
}

/// Where one response went, most first.
fn shares(chain: &Chain, names: Names<'_>) -> String {
    let response = chain.job.response();
    let mut parts = chain.parts();
    parts.sort_by_key(|part| std::cmp::Reverse(part.time));
    let causes: Vec<Cause> = parts.iter().map(|part| part.cause).collect();
    let times: BTreeMap<Cause, Nanos> = parts.iter().map(|part| (part.cause, part.time)).collect();
    let time = |cause: &Cause| times.get(cause).copied().unwrap_or_default();
    let sum = |causes: &[Cause]| causes.iter().map(time).sum::<Nanos>();
    let delay: Nanos = parts.iter().filter(|part| delays(&part.cause)).map(|part| part.time).sum();
    let (told, rest) = lines(&causes, SHARES, time, |left| is_little(sum(left), delay));
    let told = told.iter().map(|line| {
        let part = sum(&line.causes);
        format!("{} {part} ({})", names.of_all(&line.causes), share(part, response))
    });
    let mut told: Vec<String> = told.collect();
    if !rest.is_empty() {
        told.push(format!("{} others {}", rest.len(), sum(&rest)));
    }
    told.join("; ")
}

/// Whether a cause is a delay: all but the job's own time.
fn delays(cause: &Cause) -> bool {
    cause.kind() != Kind::Cpu
}

/// Whether what is left of causes need not be told one by one.
fn is_little(left: Nanos, delay: Nanos) -> bool {
    left.get().saturating_mul(LEFT) <= delay.get()
}

/// The part of a whole in percent; nothing of nothing is 0 %.
fn share(part: Nanos, whole: Nanos) -> String {
    let share = if whole.is_positive() { part.get() as f64 / whole.get() as f64 } else { 0.0 };
    format!("{:.1} %", share * 100.0)
}

/// Causes with the most time in any group, then the rest, then the whole.
fn group_rows(groups: &[Group; 3], names: Names<'_>, blames: &Blames) -> Vec<Vec<String>> {
    // Every group is part of the first, so that one has all causes.
    let mut causes: Vec<Cause> = groups[0].average.causes.keys().copied().collect();
    let weight = |cause: &Cause| groups.iter().map(|g| g.average.mean_of(*cause)).max();
    causes.sort_by_key(|cause| std::cmp::Reverse(weight(cause)));
    let line = |name: String, value: &dyn Fn(&Average) -> Nanos| {
        let mut row = vec![name];
        row.extend(groups.iter().map(|group| value(&group.average).to_string()));
        row
    };
    let sum =
        |group: &Average, of: &[Cause]| of.iter().filter_map(|c| group.causes.get(c)).copied().sum::<Nanos>();
    let delays = groups.each_ref().map(|group| {
        let causes = group.average.causes.iter().filter(|(cause, _)| delays(cause));
        causes.map(|(_, time)| *time).sum::<Nanos>()
    });
    let are_little = |left: &[Cause]| {
        let mut of_groups = groups.iter().zip(delays);
        of_groups.all(|(group, delay)| is_little(sum(&group.average, left), delay))
    };
    // By the group in which it has most.
    let time = |cause: &Cause| weight(cause).unwrap_or_default();
    let (told, rest) = lines(&causes, (CAUSES_MAX, LINES_MAX), time, are_little);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for of in &told {
        let name = names.of_all(&of.causes);
        rows.push(line(name, &|group| group.mean(sum(group, &of.causes))));
    }
    if !rest.is_empty() {
        rows.push(line(format!("{} other causes", rest.len()), &|group| group.mean(sum(group, &rest))));
    }
    let whole = if blames.are_waits { "wait" } else { "response" };
    rows.push(line(whole.to_owned(), &|group| group.mean(group.response)));
    let mut jobs = vec![if blames.are_waits { "waits" } else { "jobs" }.to_owned()];
    jobs.extend(groups.iter().map(|group| group.average.jobs.to_string()));
    rows.push(jobs);
    rows
}

/// Whose jobs these are and how they were told apart.
fn whose(blames: &Blames) -> String {
    let (threads, jobs) = (&blames.threads, blames.all.jobs);
    let one = if blames.are_waits { "wait" } else { "job" };
    let marked = threads.iter().filter(|t| t.separation == Separation::Markers).count();
    let who = match threads.as_slice() {
        [thread] => format!("{} of {} {}", number_of(jobs, one), thread.tid, thread.comm),
        _ => {
            let all = threads.len() as u64 + blames.unlisted;
            format!("{} of {all} threads together; --tid or --comm chooses", number_of(jobs, one))
        }
    };
    if blames.are_waits {
        return format!("{who}, from falling asleep to being on a CPU again");
    }
    let how = if marked == threads.len() {
        "by their own markers"
    } else {
        "from waking to sleeping; late jobs that do not sleep in between count as one"
    };
    format!("{who}, {how}")
}

fn piece(piece: &Piece, names: Names<'_>) -> Value {
    let mut value = names.caused(piece.cause, "time_ns", piece.time());
    value["from_ns"] = json!(piece.from);
    value["cpu"] = json!(piece.cpu);
    value
}
