//! From all that a trace shows to a workload: [`fit_trace`].
//!
//! Every thread is analysed alone (`source.rs`). Threads of one name, policy and rule that are alike become
//! instances of one task; endless ones become a load `spinners`. Every device's interrupt becomes an `[[irq]]`, with its
//! thread. What fits nowhere is named with its CPU time and the reason. The [`Accounts`] sum to the CPUs' time.
//!
//! What a trace cannot show is not in the result: promises, reservations, groups, the order in which threads wake each
//! other. A sporadic task that always comes at its smallest gap cannot be told from a periodic one.

mod commenting;
mod grouping;

use std::fmt;

use surety_model::distribution::TimeDistribution;
use surety_model::event::Comm;
use surety_model::formats::toml::Comments;
use surety_model::job::ThreadHistory;
use surety_model::workload::{PolicySpec, Workload};
use surety_trace::interrupts::{Interrupt, Interrupts};
use surety_trace::jobs::interrupts::{Context, softirq_name};
use surety_units::{Nanos, Probability, Tid};

use crate::irq::{fit_irq, is_thread_of};
use crate::naming::Names;
use crate::policy::policy_of;
use crate::source::{Source, Why, analyse};
use crate::trace::commenting::{comments, title};
use crate::trace::grouping::{Found, add_group, groups};
use crate::work::Series;

/// What a trace shows, from the builders of `surety-trace`.
#[derive(Clone, Copy, Debug)]
pub struct TraceView<'a> {
    /// Every thread.
    pub histories: &'a [ThreadHistory],
    /// Every interrupt.
    pub interrupts: &'a Interrupts,
    /// CPUs that were recorded.
    pub cpus: u32,
    /// Time of the first and of the last event.
    pub span: (Nanos, Nanos),
}

/// What is to be fitted.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Threads that used less of one CPU are left out.
    pub share_min: Probability,
    /// Whether interrupts become `[[irq]]`; else their threads are tasks.
    pub interrupts: bool,
    /// Only these threads, where there are some.
    pub tids: Vec<Tid>,
    /// Only threads of these names, where there are some.
    pub names: Vec<Comm>,
    /// Work is kept in the order of jobs, so that a run plays it again.
    pub in_order: bool,
    /// Wakings that need less are no jobs, where order matters: programs that poll.
    pub shortest: Nanos,
}

impl FitOptions {
    /// Whether a thread is to be fitted.
    pub fn chooses(&self, history: &ThreadHistory) -> bool {
        (self.tids.is_empty() || self.tids.contains(&history.tid))
            && (self.names.is_empty() || self.names.contains(&history.comm))
    }

    /// With a choice of threads nothing else is wanted.
    fn wants_interrupts(&self) -> bool {
        self.interrupts && self.tids.is_empty() && self.names.is_empty()
    }
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A task on a grid.
    Periodic,
    /// A task whose smallest gap is at least a tenth of the mean distance.
    Sporadic,
    /// A task whose distances stand the test of an exponential distribution.
    Poisson,
    /// Any other task.
    Aperiodic,
    /// Threads that want CPU time without end.
    Load,
    /// A device's interrupt.
    Interrupt,
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Periodic => "periodic",
            Kind::Sporadic => "sporadic",
            Kind::Poisson => "poisson",
            Kind::Aperiodic => "aperiodic",
            Kind::Load => "load",
            Kind::Interrupt => "interrupt",
        }
    }
}

/// One task, load or interrupt of the workload with the figures behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFit {
    /// Its name in the workload.
    pub name: String,
    pub kind: Kind,
    /// The threads it stands for, of an interrupt those it has to itself.
    pub threads: Vec<Tid>,
    /// Their name, or the handler's.
    pub seen_as: String,
    /// Scheduling class; `None` for an interrupt.
    pub policy: Option<PolicySpec>,
    /// Jobs or arrivals.
    pub jobs: u64,
    /// CPU time of all of it, interrupts on top of threads included.
    pub time: Nanos,
    /// The same as part of one CPU.
    pub share: f64,
    /// Period, or smallest gap.
    pub interval: Option<Nanos>,
    /// Mean distance of releases or arrivals.
    pub distance: Option<Nanos>,
    /// Standard error of the period.
    pub interval_error: Option<Nanos>,
    /// The work of a job as measured.
    pub work: Option<Series>,
    /// The distribution that stands for it in the workload.
    pub distribution: Option<TimeDistribution>,
    /// The distribution of releases' distances in the workload.
    pub spacing: Option<TimeDistribution>,
    /// The p-value of an exponential distribution of distances, where it stands.
    pub poisson: Option<f64>,
    /// What a reader has to know, in sentences.
    pub notes: Vec<String>,
}

/// What is meant by a remainder.
#[derive(Clone, Debug, PartialEq)]
pub enum Left {
    Thread {
        /// Its id.
        tid: Tid,
        /// Its name.
        comm: Comm,
    },
    /// An interrupt, with its handler's name.
    Interrupt {
        context: Context,
        /// The handler's name, of a device's.
        name: String,
    },
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Thread { tid, comm } => write!(f, "{tid} {comm}"),
            Left::Interrupt { context: Context::Irq(irq), name } => write!(f, "irq {irq} {name}"),
            Left::Interrupt { context: Context::Vector(name), .. } => write!(f, "interrupts {name}"),
            Left::Interrupt { context: Context::Softirq(vector), .. } => {
                write!(f, "softirq {}", softirq_name(*vector))
            }
        }
    }
}

/// Something that is in no workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfitted {
    pub what: Left,
    /// Its CPU time.
    pub time: Nanos,
    /// The same as part of one CPU.
    pub share: f64,
    pub why: Why,
}

/// Things left out that have a name and a kind of reason in common.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftGroup {
    /// Their name; how many, where the reason says all there is to say of them.
    pub name: String,
    pub count: usize,
    /// All of them, as part of one CPU.
    pub share: f64,
    /// The reason of the first.
    pub why: Why,
}

/// The remainder for people: threads of one name together, the busiest first, then those that were too small or not
/// chosen.
pub fn summary(remainder: &[Unfitted]) -> Vec<LeftGroup> {
    let mut groups: Vec<LeftGroup> = Vec::new();
    for left in remainder {
        let by_reason = matches!(left.why, Why::BelowShare | Why::NotChosen);
        let name = match &left.what {
            _ if by_reason => "threads".to_owned(),
            Left::Thread { comm, .. } => comm.to_string(),
            what @ Left::Interrupt { .. } => what.to_string(),
        };
        let same = |group: &&mut LeftGroup| {
            group.name == name && std::mem::discriminant(&group.why) == std::mem::discriminant(&left.why)
        };
        match groups.iter_mut().find(same) {
            Some(group) => (group.count, group.share) = (group.count + 1, group.share + left.share),
            None => {
                groups.push(LeftGroup { name, count: 1, share: left.share, why: left.why.clone() });
            }
        }
    }
    let last = |group: &LeftGroup| matches!(group.why, Why::BelowShare | Why::NotChosen);
    groups.sort_by(|a, b| last(a).cmp(&last(b)).then(b.share.total_cmp(&a.share)));
    groups
}

/// Where the time of the CPUs went. The parts sum to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Threads that became tasks, without the interrupts on top of them; likewise below.
    pub tasks: Nanos,
    /// Threads that became loads.
    pub loads: Nanos,
    /// Threads that belong to an `[[irq]]`.
    pub interrupt_threads: Nanos,
    /// Threads left out.
    pub remainder: Nanos,
    /// Interrupts on top of any of these threads.
    pub interrupts: Nanos,
    /// The rest: idle CPUs, and interrupts while they were idle.
    pub idle: Nanos,
    /// CPUs times the length of the trace.
    pub total: Nanos,
}

/// A workload fitted to a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedWorkload {
    /// Ready to be written.
    pub workload: Workload,
    /// What stands behind each of its activities: tasks and loads, the busiest first, then interrupts.
    pub sources: Vec<SourceFit>,
    /// What is not in it, the busiest first.
    pub remainder: Vec<Unfitted>,
    /// Where the CPUs' time went.
    pub accounts: Accounts,
    /// The figures of the fit as comments of the file.
    pub comments: Comments,
}

impl FittedWorkload {
    /// Of a trace without wake-ups: which threads are left out for that, and not for want of time.
    pub fn without_wake_ups(mut self) -> FittedWorkload {
        for left in &mut self.remainder {
            if matches!((&left.what, &left.why), (Left::Thread { .. }, Why::TooFew(0))) {
                left.why = Why::Unreleased;
            }
        }
        self
    }
}

/// Part of one CPU; 0 for a trace of no length.
pub(crate) fn share(time: Nanos, span: (Nanos, Nanos)) -> f64 {
    let length = (span.1 - span.0).get();
    if length > 0 { time.get() as f64 / length as f64 } else { 0.0 }
}

/// Fits a workload to a trace.
pub fn fit_trace(view: &TraceView<'_>, options: &FitOptions) -> FittedWorkload {
    let mut names = Names::default();
    let mut fitting = Fitting::default();
    if options.wants_interrupts() {
        fitting.devices(view);
    }
    let mut found: Vec<Source<'_>> = Vec::new();
    for history in view.histories.iter().filter(|h| h.tid != Tid::IDLE) {
        if fitting.of_interrupts.contains(&history.tid) {
            let account = &mut fitting.accounts.interrupt_threads;
            *account = account.saturating_add(net(history));
            continue;
        }
        let small = share(history.run, view.span) < options.share_min.as_f64();
        let analysed = match () {
            () if !options.chooses(history) => Err(Why::NotChosen),
            () if small => Err(Why::BelowShare),
            () => analyse(history, view.span),
        };
        match analysed {
            Ok(source) => found.push(source),
            Err(why) => fitting.leave(view, history, why),
        }
    }
    // Busiest first; threads alike stay in the order of their numbers.
    found.sort_by_key(|source| std::cmp::Reverse(source.history.run));
    for group in groups(found) {
        let of_group = total(group.iter().map(|source| net(source.history)));
        match add_group(&mut fitting.workload, &group, view.span, &mut names, options) {
            Ok(Found { source, load }) => {
                let accounts = &mut fitting.accounts;
                let account = if load { &mut accounts.loads } else { &mut accounts.tasks };
                *account = account.saturating_add(of_group);
                fitting.sources.push(source);
            }
            Err(why) => {
                group.iter().for_each(|source| fitting.leave(view, source.history, why.clone()));
            }
        }
    }
    fitting.sources.sort_by_key(|source| std::cmp::Reverse(source.time));
    fitting.name_devices(&mut names);
    fitting.finish(view, options)
}

/// A sum that stops at the limit: damaged traces bear any time.
pub(crate) fn total(times: impl Iterator<Item = Nanos>) -> Nanos {
    times.fold(Nanos::ZERO, Nanos::saturating_add)
}

fn net(history: &ThreadHistory) -> Nanos {
    (history.run - history.interrupted).max(Nanos::ZERO)
}

#[derive(Default)]
struct Fitting {
    workload: Workload,
    sources: Vec<SourceFit>,
    devices: Vec<SourceFit>,
    remainder: Vec<Unfitted>,
    accounts: Accounts,
    /// Threads that are part of an `[[irq]]`.
    of_interrupts: Vec<Tid>,
}

impl Fitting {
    fn leave(&mut self, view: &TraceView<'_>, history: &ThreadHistory, why: Why) {
        self.accounts.remainder = self.accounts.remainder.saturating_add(net(history));
        self.remainder.push(Unfitted {
            what: Left::Thread { tid: history.tid, comm: history.comm },
            time: history.run,
            share: share(history.run, view.span),
            why,
        });
    }

    fn devices(&mut self, view: &TraceView<'_>) {
        for source in &view.interrupts.sources {
            let Context::Irq(number) = source.context else {
                self.leave_interrupt(view, source, Why::Kernel);
                continue;
            };
            let others = view.interrupts.sources.iter().filter(|s| s.context == source.context).count();
            let threads: Vec<&ThreadHistory> =
                view.histories.iter().filter(|h| is_thread_of(h, source, others == 1)).collect();
            match fit_irq(source, &threads, format!("irq-{number}-{}", source.name)) {
                Ok(fitted) => {
                    let time = total(threads.iter().map(|t| t.run)).saturating_add(source.service.sum());
                    self.of_interrupts.extend(threads.iter().map(|t| t.tid));
                    self.devices.push(SourceFit {
                        name: fitted.irq.name.clone(),
                        kind: Kind::Interrupt,
                        threads: threads.iter().map(|t| t.tid).collect(),
                        seen_as: source.name.clone(),
                        policy: threads.first().map(|t| policy_of(t.prio)),
                        jobs: source.count(),
                        time,
                        share: share(time, view.span),
                        interval: source.gaps.min(),
                        distance: source.gaps.mean(),
                        interval_error: None,
                        work: None,
                        distribution: Some(fitted.irq.work.clone()),
                        spacing: None,
                        poisson: fitted.p_value,
                        notes: fitted.note.into_iter().collect(),
                    });
                    self.workload.irqs.push(fitted.irq);
                }
                Err(why) => self.leave_interrupt(view, source, why),
            }
        }
    }

    fn leave_interrupt(&mut self, view: &TraceView<'_>, source: &Interrupt, why: Why) {
        let time = source.service.sum();
        self.remainder.push(Unfitted {
            what: Left::Interrupt { context: source.context, name: source.name.clone() },
            time,
            share: share(time, view.span),
            why,
        });
    }

    /// Tasks have the first choice of names.
    fn name_devices(&mut self, names: &mut Names) {
        for (irq, source) in self.workload.irqs.iter_mut().zip(&mut self.devices) {
            irq.name = names.give(&irq.name);
            source.name.clone_from(&irq.name);
        }
        self.sources.append(&mut self.devices);
    }

    fn finish(mut self, view: &TraceView<'_>, options: &FitOptions) -> FittedWorkload {
        self.remainder.sort_by_key(|left| std::cmp::Reverse(left.time));
        let accounts = &mut self.accounts;
        accounts.interrupts = total(view.histories.iter().map(|h| h.run - net(h)));
        let busy = total(
            [
                accounts.tasks,
                accounts.loads,
                accounts.interrupt_threads,
                accounts.remainder,
                accounts.interrupts,
            ]
            .into_iter(),
        );
        let length = (view.span.1 - view.span.0).max(Nanos::ZERO);
        let all = length.checked_mul(i64::from(view.cpus)).unwrap_or(Nanos::MAX);
        // Damaged traces may show more than there was.
        accounts.total = all.max(busy);
        accounts.idle = accounts.total - busy;
        self.workload.title = Some(title(view));
        let comments = comments(view, options, &self.sources, &self.remainder);
        FittedWorkload {
            workload: self.workload,
            sources: self.sources,
            remainder: self.remainder,
            accounts: self.accounts,
            comments,
        }
    }
}
