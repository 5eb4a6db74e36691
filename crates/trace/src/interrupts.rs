//! [`InterruptBuilder`]: each interrupt as a source of work: when it arrives, how long its handler runs, what it sets
//! going.
//!
//! Three series belong to an interrupt. **Arrivals** are the entries of its handler, not the starts of its thread: those
//! would show the scheduler. **Service** is the time from entry to exit less everything nested inside, so that services
//! of all interrupts add up to the time they take together. **Thread execution** is the job of its thread, where it
//! has one (`irq/N-NAME`, `napi/DEV-N`, `ksoftirqd/N`, `ktimers/N`), as [`crate::jobs`] finds it.
//!
//! A thread `irq/N-NAME` belongs to interrupt N by its name: the kernel wakes it after `irq_handler_exit`
//! (`kernel/irq/handle.c`). The others belong to the innermost interrupt in which `sched_waking` names them.
//!
//! Handlers that share a number are called for each of its interrupts, so each handler has its own series. Processor
//! interrupts and softirqs are of each CPU: their gaps are between arrivals on one CPU, a device's are in the machine.
//!
//! Memory does not follow the trace's length: what is kept of a series is bounded ([`crate::statistics::series`]), of
//! interrupts [`SOURCES_MAX`] are told apart, and of threads those that do interrupts' work are recorded.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_units::{CpuId, Nanos, Tid};

use crate::distribution::{Rounding, Values};
use crate::jobs::Anomalies;
use crate::jobs::interrupts::{Context, softirq_name};
pub use crate::statistics::Series;
use crate::statistics::{StatisticsBuilder, ThreadStatistics};
use crate::wanted::{Wanted, Window};

/// Deeper nesting than any kernel's.
const DEPTH_MAX: usize = 16;
/// Interrupts that are told apart; entries of further ones are counted.
pub const SOURCES_MAX: usize = 1024;
/// Interrupts whose distributions are kept.
pub const DETAILS_MAX: usize = 4;
/// Threads that one interrupt is known to wake.
const WOKEN_MAX: usize = 1024;
/// Softirqs that one interrupt is known to raise; kernels have ten.
const SOFTIRQS_MAX: usize = 64;
/// CPUs of one interrupt.
const CPUS_MAX: usize = 1 << 16;
/// What interrupts' threads are called.
const THREADS: [&str; 4] = ["irq/", "napi/", "ksoftirqd/", "ktimers/"];

/// One interrupt handler, processor interrupt or softirq.
#[derive(Clone, Debug)]
pub struct Interrupt {
    pub context: Context,
    /// The handler's name, of a device's interrupt.
    pub name: String,
    pub arrivals: BTreeMap<CpuId, u64>,
    /// From one arrival to the next; not across places where events were lost.
    pub gaps: Series,
    /// Time of each handling, nested ones taken off. Those whose beginning or end is not in the trace are left out.
    pub service: Series,
    /// Softirqs raised inside it, by number.
    pub raised: BTreeMap<u32, u64>,
    /// Interrupt threads it woke, by id.
    pub woken: BTreeMap<Tid, u64>,
    /// Distributions of gaps and service, where they were asked for.
    pub detail: Option<Box<Detail>>,
    /// The last arrival: of the machine for a device, of each CPU otherwise.
    last: BTreeMap<CpuId, Nanos>,
}

/// The distributions of one interrupt.
#[derive(Clone, Debug)]
pub struct Detail {
    /// From one arrival to the next.
    pub gaps: Values,
    /// Time of each handling.
    pub service: Values,
}

impl Interrupt {
    /// Arrivals on all CPUs.
    pub fn count(&self) -> u64 {
        self.arrivals.values().sum()
    }
}

/// Which interrupts are told of.
#[derive(Clone, Debug, Default)]
pub struct InterruptChoice {
    /// Those of this number or name; `None`: all.
    pub which: Option<String>,
    /// Their distributions are wanted, on a grid of this step, or, without one, as fine as the bound allows.
    pub detail: Option<Option<Nanos>>,
}

impl InterruptChoice {
    fn fits(&self, context: Context, name: &str) -> bool {
        let Some(which) = self.which.as_deref() else { return true };
        match context {
            Context::Irq(irq) => name == which || which.parse() == Ok(irq),
            Context::Vector(vector) => vector == which,
            Context::Softirq(vector) => softirq_name(vector) == which,
        }
    }
}

/// Everything a trace shows of interrupts.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    /// By kind, number and name.
    pub sources: Vec<Interrupt>,
    /// The threads made for interrupts, by id.
    pub threads: Vec<ThreadStatistics>,
    /// What did not go by the book in the threads' histories.
    pub anomalies: Anomalies,
    /// Handlings without beginning or end.
    pub incomplete: u64,
    /// Entries of interrupts beyond [`SOURCES_MAX`].
    pub unlisted: u64,
}

/// A handling that goes on.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// `None`: one that is not told apart.
    source: Option<usize>,
    context: Context,
    /// It arrived where and when it counts.
    counts: bool,
    /// Own time so far.
    net: Nanos,
    /// Up to when that is counted.
    counted: Nanos,
}

/// Builds the series of all interrupts from events in order of time.
#[derive(Debug)]
pub struct InterruptBuilder {
    wanted: Wanted,
    choice: InterruptChoice,
    window: Option<Window>,
    threads: StatisticsBuilder,
    sources: Vec<Interrupt>,
    open: BTreeMap<CpuId, Vec<Open>>,
    incomplete: u64,
    unlisted: u64,
}

impl InterruptBuilder {
    /// Nothing seen yet. Arrivals count on the wanted CPUs and in the wanted time; interrupts are chosen by the threads
    /// they wake where `wanted` chooses threads.
    pub fn new(wanted: Wanted) -> InterruptBuilder {
        InterruptBuilder::of(wanted, InterruptChoice::default())
    }

    /// The same of chosen interrupts. Distributions are kept of the first [`DETAILS_MAX`] of them.
    pub fn of(wanted: Wanted, choice: InterruptChoice) -> InterruptBuilder {
        InterruptBuilder {
            choice,
            threads: StatisticsBuilder::of_names(wanted.clone(), is_interrupt_thread),
            wanted,
            window: None,
            sources: Vec::new(),
            open: BTreeMap::new(),
            incomplete: 0,
            unlisted: 0,
        }
    }

    /// Ends the trace.
    pub fn finish(mut self) -> Interrupts {
        self.incomplete += self.open.values().map(|open| open.len() as u64).sum::<u64>();
        let (recorded, anomalies) = self.threads.finish();
        let mut threads = recorded.threads;
        threads.sort_by_key(|thread| thread.tid);
        for source in &mut self.sources {
            if let Context::Irq(irq) = source.context {
                let own = threads.iter().filter(|thread| irq_of(thread.comm) == Some(irq));
                own.for_each(|thread| *source.woken.entry(thread.tid).or_insert(0) += thread.jobs);
            }
        }
        // Those seen outside what is wanted only.
        let choice = self.choice;
        self.sources.retain(|source| source.count() > 0 && choice.fits(source.context, &source.name));
        if self.wanted.chooses_threads() {
            self.sources.retain(|source| threads.iter().any(|t| source.woken.contains_key(&t.tid)));
        }
        self.sources.sort_by(|a, b| (a.context, &a.name).cmp(&(b.context, &b.name)));
        Interrupts {
            sources: self.sources,
            threads,
            anomalies,
            incomplete: self.incomplete,
            unlisted: self.unlisted,
        }
    }

    /// Whether what happens here and now counts.
    fn counts(&self, event: &Event<'_>) -> bool {
        self.window.is_some_and(|window| window.contains(event.time)) && self.wanted.cpu(event.cpu)
    }

    /// `None` when there are too many.
    fn source(&mut self, context: Context, name: &str) -> Option<usize> {
        let known = self.sources.iter().position(|s| s.context == context && s.name == name);
        if known.is_some() || self.sources.len() >= SOURCES_MAX {
            return known;
        }
        let details = self.sources.iter().filter(|source| source.detail.is_some()).count();
        let step = self.choice.detail.filter(|_| details < DETAILS_MAX && self.choice.fits(context, name));
        let detail = step.map(|step| Detail {
            gaps: Values::new(Rounding::Floor, step),
            service: Values::new(Rounding::Ceil, step),
        });
        self.sources.push(Interrupt {
            detail: detail.map(Box::new),
            context,
            name: name.to_owned(),
            arrivals: BTreeMap::new(),
            gaps: Series::default(),
            service: Series::default(),
            raised: BTreeMap::new(),
            woken: BTreeMap::new(),
            last: BTreeMap::new(),
        });
        Some(self.sources.len() - 1)
    }

    fn enter(&mut self, event: &Event<'_>, context: Context, name: &str) {
        if event.cpu.index() >= CPUS_MAX {
            return;
        }
        let (at, counts, index) = (event.time, self.counts(event), self.source(context, name));
        match index {
            None => self.unlisted += u64::from(counts),
            Some(index) => {
                let source = &mut self.sources[index];
                let place = if matches!(context, Context::Irq(_)) { CpuId(0) } else { event.cpu };
                if counts {
                    *source.arrivals.entry(event.cpu).or_insert(0) += 1;
                    if let Some(last) = source.last.insert(place, at) {
                        source.gaps.record(at - last);
                        source.detail.iter_mut().for_each(|detail| detail.gaps.record(at - last));
                    }
                }
            }
        }
        let open = self.open.entry(event.cpu).or_default();
        settle(open, at);
        if open.len() < DEPTH_MAX {
            open.push(Open { source: index, context, counts, net: Nanos::ZERO, counted: at });
        } else {
            self.incomplete += 1;
        }
    }

    fn leave(&mut self, event: &Event<'_>, context: Context) {
        if event.cpu.index() >= CPUS_MAX {
            return;
        }
        let open = self.open.entry(event.cpu).or_default();
        settle(open, event.time);
        let Some(place) = open.iter().rposition(|o| o.context == context) else {
            self.incomplete += 1;
            return;
        };
        // What was entered after it ended unseen.
        self.incomplete += (open.len() - place - 1) as u64;
        let Open { source, counts, net, .. } = open[place];
        if let (Some(source), true) = (source, counts) {
            let source = &mut self.sources[source];
            source.service.record(net);
            source.detail.iter_mut().for_each(|detail| detail.service.record(net));
        }
        open.truncate(place);
        if let Some(outer) = open.last_mut() {
            outer.counted = event.time;
        }
    }

    /// What the CPU was in ended unseen.
    fn abandon(&mut self, cpu: CpuId) {
        if let Some(open) = self.open.get_mut(&cpu) {
            self.incomplete += open.len() as u64;
            open.clear();
        }
    }

    /// The interrupt the CPU is in, when it counts.
    fn innermost(&mut self, cpu: CpuId) -> Option<&mut Interrupt> {
        let index = self.open.get(&cpu)?.last().filter(|open| open.counts)?.source?;
        self.sources.get_mut(index)
    }
}

/// Counts the time of the innermost handling.
fn settle(open: &mut [Open], at: Nanos) {
    if let Some(innermost) = open.last_mut() {
        innermost.net += at - innermost.counted;
        innermost.counted = at;
    }
}

/// Whether a thread of this name does interrupts' work.
fn is_interrupt_thread(comm: Comm) -> bool {
    THREADS.iter().any(|prefix| comm.0.starts_with(prefix.as_bytes()))
}

/// The number in `irq/N-NAME`.
fn irq_of(comm: Comm) -> Option<u32> {
    let text = comm.text();
    text.strip_prefix("irq/")?.split('-').next()?.parse().ok()
}

impl TraceSink for InterruptBuilder {
    fn event(&mut self, event: &Event<'_>) {
        self.threads.event(event);
        if self.window.is_none() {
            self.window = Some(self.wanted.window(event.time));
        }
        match event.kind {
            EventKind::IrqEntry { irq, name } => self.enter(event, Context::Irq(irq), name),
            EventKind::IrqExit { irq } => self.leave(event, Context::Irq(irq)),
            EventKind::VectorEntry { name } => self.enter(event, Context::Vector(name), ""),
            EventKind::VectorExit { name } => self.leave(event, Context::Vector(name)),
            EventKind::SoftirqEntry { vector } => self.enter(event, Context::Softirq(vector), ""),
            EventKind::SoftirqExit { vector } => self.leave(event, Context::Softirq(vector)),
            EventKind::SoftirqRaise { vector } => {
                if let Some(source) = self.innermost(event.cpu)
                    && (source.raised.len() < SOFTIRQS_MAX || source.raised.contains_key(&vector))
                {
                    *source.raised.entry(vector).or_insert(0) += 1;
                }
            }
            EventKind::Waking(woken) if is_interrupt_thread(woken.comm) && irq_of(woken.comm).is_none() => {
                if let Some(source) = self.innermost(event.cpu)
                    && (source.woken.len() < WOKEN_MAX || source.woken.contains_key(&woken.tid))
                {
                    *source.woken.entry(woken.tid).or_insert(0) += 1;
                }
            }
            EventKind::Switch { .. } => self.abandon(event.cpu),
            EventKind::Lost { .. } => {
                self.abandon(event.cpu);
                self.sources.iter_mut().for_each(|source| source.last.clear());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::{any_script, feed};
    use proptest::prelude::*;

    fn interrupts(script: &str) -> Interrupts {
        let mut builder = InterruptBuilder::new(Wanted::default());
        feed(script, &mut builder);
        builder.finish()
    }

    fn us(time: Option<Nanos>) -> Option<i64> {
        time.map(|t| t.get() / 1000)
    }

    #[test]
    fn service_is_net_of_what_is_nested() {
        let seen = interrupts(
            "1 0 sw 0 5
             10 0 soft
             12 0 irq
             13 0 vec
             16 0 vecx
             17 0 irqx
             20 0 softx
             30 0 irq
             31 0 irqx",
        );
        let told: Vec<_> = seen
            .sources
            .iter()
            .map(|s| (s.context, s.count(), us(s.service.max()), us(s.gaps.mean())))
            .collect();
        assert_eq!(
            told,
            [
                (Context::Irq(9), 2, Some(2), Some(18)),
                (Context::Vector("local_timer"), 1, Some(3), None),
                (Context::Softirq(3), 1, Some(5), None),
            ]
        );
        assert_eq!((seen.incomplete, seen.sources[0].name.as_str()), (0, "disk"));
    }

    #[test]
    fn chosen_interrupts_alone_with_their_distributions() {
        let script = "1 0 sw 0 5\n10 0 irq\n12 0 irqx\n20 0 soft\n21 0 softx\n30 0 irq\n33 0 irqx\n40 1 irq\n41 1 irqx";
        for (which, expected) in [("9", 3), ("disk", 3), ("NET_RX", 1), ("8", 0)] {
            let choice = InterruptChoice { which: Some(which.to_owned()), detail: Some(None) };
            let mut builder = InterruptBuilder::of(Wanted::default(), choice);
            feed(script, &mut builder);
            let seen = builder.finish();
            let counts: Vec<u64> = seen.sources.iter().map(Interrupt::count).collect();
            assert_eq!(counts.iter().sum::<u64>(), expected, "{which}");
            for source in &seen.sources {
                let detail = source.detail.as_ref().unwrap();
                assert_eq!(detail.service.grid().count(), source.service.count());
                assert_eq!(detail.gaps.grid().count(), source.gaps.count());
            }
        }
        let wanted =
            Wanted { cpus: "0".parse().ok(), from: Some(Nanos::from_micros(15)), ..Wanted::default() };
        let mut builder = InterruptBuilder::new(wanted);
        feed(script, &mut builder);
        let seen = builder.finish();
        let counts: Vec<u64> = seen.sources.iter().map(Interrupt::count).collect();
        assert_eq!(counts, [1, 1], "one irq and one softirq, on CPU 0 and late enough");
    }

    #[test]
    fn a_devices_gaps_are_the_machines_a_softirqs_the_cpus() {
        let seen = interrupts(
            "10 0 irq\n11 0 irqx\n15 1 irq\n16 1 irqx\n20 0 soft\n21 0 softx\n25 1 soft\n26 1 softx\n40 0 soft\n41 0 softx",
        );
        assert_eq!((seen.sources[0].gaps.count(), us(seen.sources[0].gaps.min())), (1, Some(5)));
        assert_eq!((seen.sources[1].gaps.count(), us(seen.sources[1].gaps.min())), (1, Some(20)));
        assert_eq!(seen.sources[1].arrivals, BTreeMap::from([(CpuId(0), 2), (CpuId(1), 1)]));
    }

    #[test]
    fn threads_are_linked_by_number_or_by_who_woke_them() {
        // Thread 901 is ksoftirqd/0, thread 902 irq/9-disk.
        let seen = interrupts(
            "1 0 sw 0 5
             10 0 irq
             11 0 raise 3
             12 0 waking 901
             13 0 irqx
             14 0 waking 902
             15 0 waking 8
             20 0 sw 5:R+ 902
             24 0 sw 902:S 901
             30 0 sw 901:S 5",
        );
        let irq = &seen.sources[0];
        assert_eq!(irq.woken, BTreeMap::from([(Tid(901), 1), (Tid(902), 1)]));
        assert_eq!(irq.raised, BTreeMap::from([(3, 1)]));
        let executed: Vec<_> =
            seen.threads.iter().map(|t| (t.tid.0, us(t.execution.map(|e| e.mean)))).collect();
        assert_eq!(executed, [(901, Some(6)), (902, Some(4))]);
    }

    #[test]
    fn what_is_cut_is_counted_and_not_measured() {
        let seen = interrupts(
            "5 0 irqx\n10 0 irq\n12 0 lost\n20 0 irq\n21 0 irqx\n30 0 soft\n31 0 sw 0 5\n40 0 vec",
        );
        assert_eq!(seen.incomplete, 4, "an exit, one lost, one across a switch, one at the end");
        let irq = &seen.sources[0];
        assert_eq!((irq.count(), irq.service.count(), irq.gaps.count()), (2, 1, 0));
    }

    proptest! {
        /// Nothing is handled longer than the trace lasts on its CPUs, and every arrival is handled or counted as cut.
        #[test]
        fn arrivals_and_services_agree(script in any_script()) {
            let seen = interrupts(&script);
            let last = script.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
            let total: Nanos = seen.sources.iter().map(|s| s.service.sum()).sum();
            prop_assert!(total <= Nanos::from_micros(last.unwrap_or(0) * 3));
            for source in &seen.sources {
                prop_assert!(source.service.count() <= source.count());
                prop_assert!(source.gaps.count() < source.count());
            }
            let entered: u64 = seen.sources.iter().map(Interrupt::count).sum();
            let handled: u64 = seen.sources.iter().map(|s| s.service.count()).sum();
            prop_assert!(entered <= handled + seen.incomplete);
        }
    }
}
