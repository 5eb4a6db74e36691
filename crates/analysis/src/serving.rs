//! [`cpu_part`]: how long the threads that serve streams may take until they have run, beside what else runs before fair threads.
//!
//! A stream that is guaranteed is read by a thread, and fetched by the thread that serves its disk; both are SCHED_FIFO with the lowest priority.
//! Before a batch is on its way the one copies an access out and the other asks for the batch; behind it the other takes it. In either of these
//! spans `x` they run on some CPU as soon as one has nothing above them, so that they wait only while all `m` CPUs run something else:
//!
//! ```text
//! x = C/2 + (sum of W_i(x) + sum of V_j(x)) / m + H(x)          K = 2 x
//! ```
//!
//! `C` is their own work with the wake-ups and the interrupt of the disk, stated ([`CPU`]); `W_i` the most that a reservation takes in a
//! span ([`Supply::at_most`]), interrupt threads with one included; `V_j` what realtime threads without one take, other streams' among them;
//! `H` hard handlers, which any CPU may have. Whoever has the same priority is done within `x` of its release itself, so that `ceil(2 x / T)` of its jobs may count. This is the
//! response time of a job under global fixed priorities that begins with all before it carried in (Bertogna and Cirinei, RTSS 2007).
//!
//! Where every stream has two batches in the block layer ([`crate::streams`]) saved credit makes no more of them at once: two are asked for, and then one for each that is
//! there. Those come no less than `x` apart on a disk, or the streams are refused, so at most three of them within `2 x`: each stream asks once, and each
//! disk has three more.

use std::collections::BTreeSet;

use surety_model::platform::{FairServer, Platform, RealtimeDemand};
use surety_model::playout::jitter_of;
use surety_model::workload::{Arrivals, Irq, Load, Stream, Task, Workload};
use surety_units::{Nanos, Rate};

use crate::beside::{most_in, threads_of};
use crate::foundation::{Foundation, ReservedThread};
use crate::overheads;
use crate::streams::{CPU, PAGE};
use crate::supply::Supply;
use crate::work::declared_bound;

/// CPU time of waking up and taking an access, beside copying it. Stated, as for any job that is planned.
const PER_ACCESS: Nanos = Nanos::from_micros(50);
/// Bytes are copied out at least so fast; stated.
const COPIED: Rate = Rate(1_000_000_000);
/// CPU time of asking for a batch and of taking it from the kernel; stated.
const PER_BATCH: Nanos = Nanos::from_micros(100);
/// Who waits longer for a CPU gets no guarantee.
const LONGEST: Nanos = Nanos::SECOND;

/// K with what it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPart {
    pub within: Nanos,
    /// x: from when a batch is there, or there is credit for one, until its thread has asked for the next.
    pub asks: Nanos,
    /// The numbers, in words.
    pub steps: Vec<String>,
}

/// A stream that is guaranteed, and the bytes of its batches.
pub type ServedStream<'a> = (&'a Stream, u64);

/// K of the threads of streams beside these reserved threads and what else is on a platform. `reserved` tells which activities those threads are of.
///
/// # Errors
/// Why there is no bound, in words.
pub fn cpu_part(
    streams: &[ServedStream<'_>],
    threads: &[ReservedThread],
    workload: &Workload,
    platform: &Platform,
    reserved: impl Fn(&str) -> bool,
) -> Result<CpuPart, String> {
    let platform = &Platform { enforcement: overheads::enforcement(platform), ..platform.clone() };
    let foundation = Foundation::of(threads, platform);
    let others = threads_of(platform);
    if !(threads.is_empty() && others.is_empty())
        && let Some(why) = foundation.objection()
    {
        return Err(format!("what is reserved of the CPUs has no bound: {why}"));
    }
    let realtime = Realtime::of(workload, &reserved)?;
    let all = |threads: &[ReservedThread], cpus: u32, counts: bool| Span {
        streams,
        threads: others.iter().map(|(_, thread)| *thread).chain(threads.iter().copied()).collect(),
        realtime: &realtime,
        platform,
        cpus,
        counts_servers: counts,
    };
    let mut spans = vec![all(threads, smallest(platform), foundation.counts_servers())];
    for domain in foundation.domains() {
        let own: Vec<ReservedThread> = domain.threads.iter().map(|at| threads[*at]).collect();
        let cpus = u32::try_from(domain.cpus.len()).unwrap_or(1);
        spans.push(all(&own, cpus, domain.foundation.counts_servers()));
    }
    if !foundation.domains().is_empty() {
        // Each domain has its own; all of them in one is no case.
        spans.remove(0);
    }
    let mut worst: Option<CpuPart> = None;
    for span in &spans {
        let found = span.solve()?;
        if worst.as_ref().is_none_or(|worst| worst.within < found.within) {
            worst = Some(found);
        }
    }
    worst.ok_or_else(|| "there is no CPU".to_owned())
}

/// The most that all threads of streams take of a CPU in a window.
pub fn taken(streams: &[ServedStream<'_>], window: Nanos) -> Nanos {
    streams.iter().fold(Nanos::ZERO, |sum, (stream, batch)| {
        let one = of_jobs(stream, stream.access_bytes(), window, copy(stream))
            .saturating_add(of_jobs(stream, *batch, window, PER_BATCH))
            .saturating_add(saved(stream, *batch));
        sum.saturating_add(Nanos::new(one.get().saturating_mul(stream.count.into())))
    })
}

/// The same in a window of which half is no longer than what is between the ends of two batches of a disk, where each stream has two batches in the block layer.
fn taken_two_at_a_time(streams: &[ServedStream<'_>], window: Nanos) -> Nanos {
    let each = streams.iter().map(|(stream, batch)| {
        let one = of_jobs(stream, stream.access_bytes(), window, copy(stream))
            .saturating_add(of_jobs(stream, *batch, window, PER_BATCH));
        Nanos::new(one.get().saturating_mul(stream.count.into()))
    });
    let disks: BTreeSet<_> = streams.iter().map(|(stream, _)| &stream.disk).collect();
    let more = PER_BATCH * 3 * i64::try_from(disks.len()).unwrap_or(i64::MAX / PER_BATCH.get() / 3);
    each.fold(more, Nanos::saturating_add)
}

/// What realtime threads take in a period of the fair server ([`crate::beside::realtime`]), with those of the streams that are `served` before fair ones.
pub fn with_streams(
    realtime: Option<RealtimeDemand>,
    workload: &Workload,
    platform: &Platform,
    served: impl Fn(&Stream) -> bool,
) -> Option<RealtimeDemand> {
    let period = platform.longest_server_period()?;
    let streams: Vec<&Stream> = workload.streams.iter().filter(|stream| served(stream)).collect();
    if streams.is_empty() {
        return realtime;
    }
    // One that is still to be chosen may be as small as a page.
    let batch = |stream: &Stream| stream.batch.map_or(PAGE, |bytes| bytes.0);
    let each: Vec<_> = streams.iter().map(|stream| (*stream, batch(stream))).collect();
    let takes = taken(&each, period);
    let names: Vec<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
    let who = names.join(", ");
    Some(match realtime {
        None => RealtimeDemand { who, takes: Some(takes) },
        Some(other) => RealtimeDemand {
            who: format!("{}, {who}", other.who),
            takes: other.takes.map(|most| most.saturating_add(takes)),
        },
    })
}

fn copy(stream: &Stream) -> Nanos {
    PER_ACCESS + Nanos::SECOND.mul_ratio(stream.access_bytes(), COPIED.0)
}

/// CPU time in a window of jobs that come `bytes` of the stream apart, `each` so long; one is carried in at least.
fn of_jobs(stream: &Stream, bytes: u64, window: Nanos, each: Nanos) -> Nanos {
    let apart = Nanos::SECOND.mul_ratio(bytes.max(1), stream.rate.0.max(1)).max(Nanos::new(1));
    Nanos::new(each.get().saturating_mul(window.div_ceil(apart).max(1)))
}

/// Of asking for batches that a stream has saved credit for: they may come one behind the other.
fn saved(stream: &Stream, batch: u64) -> Nanos {
    let bytes = i128::from(stream.rate.0) * i128::from(jitter_of(stream).get()) / 1_000_000_000;
    let batches = u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(batch.max(1));
    Nanos::new(PER_BATCH.get().saturating_mul(i64::try_from(batches).unwrap_or(i64::MAX)))
}

/// CPUs of the smallest root domain.
fn smallest(platform: &Platform) -> u32 {
    let domains = platform.root_domains.iter().map(|cpus| u32::try_from(cpus.len()).unwrap_or(1));
    domains.min().unwrap_or(platform.cpus).max(1)
}

/// What runs before fair threads without a reservation: an interrupt has the distance of its requests, their work and its hard handler.
struct Realtime<'a> {
    tasks: Vec<&'a Task>,
    irqs: Vec<(Nanos, Nanos, Nanos)>,
}

impl<'a> Realtime<'a> {
    fn of(workload: &'a Workload, reserved: &impl Fn(&str) -> bool) -> Result<Realtime<'a>, String> {
        let endless = |load: &&Load| load.policy.is_realtime();
        if let Some(load) = workload.loads.iter().find(endless) {
            return Err(format!("load {} is realtime and may never yield its CPUs", load.name));
        }
        let tasks: Vec<&Task> = workload
            .tasks
            .iter()
            .filter(|task| task.policy.is_realtime() && task.reservation.is_none() && !reserved(&task.name))
            .collect();
        if let Some(task) = tasks.iter().find(|task| most_in(task, CPU).is_none()) {
            return Err(format!("task {} is realtime, and how long it runs has no bound", task.name));
        }
        let irq = |irq: &Irq| {
            let apart = match irq.arrivals {
                Arrivals::Periodic { period } => period,
                Arrivals::Sporadic { gap } => gap,
                Arrivals::Poisson { .. } | Arrivals::Closed { .. } => {
                    return Err(format!("interrupts of {} may come as close as they like", irq.name));
                }
            };
            let work = match declared_bound(&irq.work) {
                _ if irq.reservation.is_some() || reserved(&irq.name) => Nanos::ZERO,
                Some(work) => work,
                None => return Err(format!("the work of {}'s thread has no bound", irq.name)),
            };
            Ok((apart.max(Nanos::new(1)), work, irq.hard.unwrap_or_default()))
        };
        // Hard handlers count whatever the thread has; what comes at any rate has none that is bounded.
        let counts = |i: &&Irq| i.hard.is_some() || !(i.reservation.is_some() || reserved(&i.name));
        let irqs = workload.irqs.iter().filter(counts).map(irq).collect::<Result<_, _>>()?;
        Ok(Realtime { tasks, irqs })
    }
}

/// One of the two spans in which threads of streams run, on the CPUs of a root domain.
struct Span<'a> {
    streams: &'a [ServedStream<'a>],
    threads: Vec<ReservedThread>,
    realtime: &'a Realtime<'a>,
    platform: &'a Platform,
    cpus: u32,
    counts_servers: bool,
}

impl Span<'_> {
    /// By reservations, by other realtime threads, and by hard handlers, in a span.
    fn taken(&self, span: Nanos) -> [Nanos; 3] {
        let by = |thread: &ReservedThread| {
            if thread.reservation.reclaim {
                return span;
            }
            let supply = Supply::new(thread.reservation, self.platform.enforcement, false);
            let most = if thread.sleeps { supply.at_most_waking(span) } else { supply.at_most(span) };
            most.min(span)
        };
        let mut reserved: Nanos =
            self.threads.iter().map(by).fold(Nanos::ZERO, |sum, most| sum.saturating_add(most));
        if self.counts_servers {
            reserved = reserved.saturating_add(self.by_a_server(span) * i64::from(self.cpus));
        }
        // Only where a promise is planned are batches of a disk known to be apart.
        let planned = |disk: &Option<String>| {
            self.streams.iter().any(|(other, _)| other.disk == *disk && !other.promises.is_empty())
        };
        let two = |stream: &Stream| stream.overlap && stream.goes_first() && planned(&stream.disk);
        let mut others = match self.streams.iter().all(|(stream, _)| two(stream)) {
            true => taken_two_at_a_time(self.streams, span * 2),
            false => taken(self.streams, span * 2),
        };
        for task in &self.realtime.tasks {
            others = others.saturating_add(most_in(task, span).unwrap_or(LONGEST));
        }
        let mut hard = Nanos::ZERO;
        for (apart, work, handler) in &self.realtime.irqs {
            let count = span.div_ceil(*apart) + 1;
            others = others.saturating_add(Nanos::new(work.get().saturating_mul(count)));
            hard = hard.saturating_add(Nanos::new(handler.get().saturating_mul(count)));
        }
        [reserved, others, hard]
    }

    /// What the fair server of a CPU takes of a span, of unlike ones the one that takes most. A budget that was put off to the end of its period
    /// and the one at the beginning of the next are one behind the other (`dl_defer_running`); from then on they are a period apart.
    fn by_a_server(&self, span: Nanos) -> Nanos {
        let each = |(server, _): (FairServer, u32)| {
            let budgets = span.div_ceil(server.period.max(Nanos::new(1))) + 1;
            Nanos::new((server.runtime + self.platform.tick).get().saturating_mul(budgets)).min(span)
        };
        self.platform.unlike_fair_servers().into_iter().map(each).max().unwrap_or(Nanos::ZERO)
    }

    fn solve(&self) -> Result<CpuPart, String> {
        let cpus = i64::from(self.cpus.max(1));
        let own = Nanos::new(CPU.get().div_euclid(2));
        let mut span = own;
        loop {
            let [reserved, others, hard] = self.taken(span);
            let shared = Nanos::new(reserved.saturating_add(others).div_ceil(Nanos::new(cpus)));
            let next = own.saturating_add(shared).saturating_add(hard);
            if next > LONGEST {
                return Err(format!(
                    "the CPU plan leaves its threads no time: on {} run in {span} {}",
                    cpus_in_words(self.cpus),
                    self.beside([reserved, others, hard])
                ));
            }
            if next <= span {
                return Ok(self.told(span, [reserved, others, hard]));
            }
            span = next;
        }
    }

    /// What else runs in a span, in words.
    fn beside(&self, [reserved, others, hard]: [Nanos; 3]) -> String {
        let mut beside = Vec::new();
        match (self.threads.len(), self.counts_servers) {
            (0, false) => {}
            (0, true) => beside.push(format!("the fair servers up to {reserved}")),
            (threads, false) => beside.push(format!("{} up to {reserved}", number(threads))),
            (threads, true) => {
                beside.push(format!("{} up to {reserved}, the fair servers among them", number(threads)));
            }
        }
        beside.push(format!("realtime threads, those of streams included, {others}"));
        if hard.is_positive() {
            beside.push(format!("hard interrupt handlers {hard}"));
        }
        beside.join(", ")
    }

    fn told(&self, span: Nanos, taken: [Nanos; 3]) -> CpuPart {
        let step = format!(
            "CPU: its two threads (SCHED_FIFO) have run within {span} before a batch and {span} behind it: {} of that their own, stated; \
             on {} meanwhile run {}",
            Nanos::new(CPU.get() / 2),
            cpus_in_words(self.cpus),
            self.beside(taken)
        );
        CpuPart { within: span * 2, asks: span, steps: vec![step] }
    }
}

fn number(threads: usize) -> String {
    if threads == 1 { "1 reserved thread".to_owned() } else { format!("{threads} reserved threads") }
}

fn cpus_in_words(cpus: u32) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::formats::toml::read;
    use surety_model::reservation::Reservation;
    use surety_model::workload::{LoadKind, PolicySpec};

    fn streams(count: u32) -> Workload {
        let text = format!(
            "format = 1\n[[stream]]\nname = \"s\"\ncount = {count}\nfile = {{ make = \"1MB\" }}\nrate = \"1MB/s\"\n"
        );
        read("s.toml", &text).unwrap()
    }

    fn part(workload: &Workload, threads: &[(i64, i64)], cpus: u32) -> Result<Nanos, String> {
        let ms = Nanos::from_millis;
        let thread = |(q, t): &(i64, i64)| ReservedThread {
            reservation: Reservation::implicit(ms(*q), ms(*t)),
            bounded: false,
            sleeps: true,
        };
        let threads: Vec<ReservedThread> = threads.iter().map(thread).collect();
        let served: Vec<_> = workload.streams.iter().map(|stream| (stream, 128 << 10)).collect();
        let found = cpu_part(&served, &threads, workload, &Platform::linux_6_18(cpus), |_| false)?;
        assert_eq!(found.steps.len(), 1);
        Ok(found.within)
    }

    #[test]
    fn more_beside_never_makes_it_shorter() {
        let (few, many) = (streams(1), streams(16));
        let idle = part(&few, &[], 2).unwrap();
        assert!(idle >= CPU && idle < CPU * 2, "{idle}");
        assert!(part(&many, &[], 2).unwrap() > idle);
        let mut before = idle;
        for threads in [&[(2, 40)][..], &[(4, 40)], &[(4, 40), (2, 20)], &[(4, 40), (2, 20), (8, 40)]] {
            let now = part(&few, threads, 2).unwrap();
            assert!(now >= before, "{threads:?}: {now} after {before}");
            before = now;
        }
        // A budget that holds the only CPU is waited for, twice.
        assert!(part(&few, &[(10, 40)], 1).unwrap() >= Nanos::from_millis(20));
        assert!(part(&few, &[(10, 40)], 2).unwrap() < Nanos::from_millis(6));
    }

    /// FIFO threads that leave fair ones less than their server's budget make it act, with nothing reserved as well.
    #[test]
    fn servers_that_realtime_threads_call_count() {
        let ms = Nanos::from_millis;
        let mut workload = streams(1);
        let hog = Task::periodic("rt", ms(400), TimeDistribution::Constant(ms(180)));
        workload.tasks.push(Task { policy: PolicySpec::Fifo { priority: 5 }, ..hog });
        let served: Vec<_> = workload.streams.iter().map(|stream| (stream, 128 << 10)).collect();
        let within = |fair_server: Option<FairServer>| {
            let period = fair_server.map_or(ms(1000), |server| server.period);
            let takes = most_in(&workload.tasks[0], period);
            let realtime = Some(RealtimeDemand { who: "rt".to_owned(), takes });
            let platform = Platform { fair_server, realtime, ..Platform::linux_6_18(1) };
            cpu_part(&served, &[], &workload, &platform, |_| false).map(|part| part.within)
        };
        let server = |runtime, period| Some(FairServer { runtime: ms(runtime), period: ms(period) });
        let without = within(None).unwrap();
        assert_eq!(within(server(5, 1000)).unwrap(), without, "it has its 5 ms in every second");
        assert!(within(server(20, 200)).unwrap() > without + ms(40));
        assert!(within(server(90, 200)).is_err());
    }

    #[test]
    fn what_has_no_bound_is_said() {
        let ms = Nanos::from_millis;
        let with = |change: &dyn Fn(&mut Workload)| {
            let mut workload = streams(1);
            change(&mut workload);
            part(&workload, &[], 2)
        };
        let fifo = PolicySpec::Fifo { priority: 5 };
        let hog = with(&|w| w.loads.push(Load { policy: fifo, ..Load::new("hog", LoadKind::Spinners, 1) }));
        assert!(hog.unwrap_err().contains("load hog"));
        let task = |work| Task { policy: fifo, ..Task::periodic("rt", ms(10), work) };
        let drawn = with(&|w| w.tasks.push(task(TimeDistribution::Exponential { mean: ms(1) })));
        assert!(drawn.unwrap_err().contains("task rt"));
        let constant = with(&|w| w.tasks.push(task(TimeDistribution::Constant(ms(1)))));
        assert!(constant.unwrap() > with(&|_| {}).unwrap());
        let closed = || Arrivals::Closed { outstanding: 1, service: ms(1) };
        let irq = with(&|w| w.irqs.push(Irq::new("nic", closed(), TimeDistribution::Constant(ms(1)))));
        assert!(irq.unwrap_err().contains("nic"));
        assert!(part(&streams(1), &[(39, 40), (39, 40)], 2).is_err());
    }
}
