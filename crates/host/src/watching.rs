//! [`watch`]: a program looked at for a while without a run around it: who its threads are, what they got, what they wait for,
//! and, where the user may see it, every event of the scheduler.
//!
//! Three ways to see, the best that the user may: the kernel's tracer (everything), performance events of the program's own threads
//! (when each got and lost a CPU; who woke it and who ran instead stays unknown), or nothing but samples of `/proc`. The samples are
//! taken in any case, [`LOOK`] apart: they alone say where threads sleep (`wchan`). A program that was there before is only read.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::ExitStatus;

use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, spawn};
use surety_kernel::journal::Journal;
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, clock};
use surety_model::workload::{Rights, ThreadRole};
use surety_model::world::{Cancel, Observer, WorldError};
use surety_units::{Nanos, Tid};

use crate::children::ChildrenEntry;
use crate::decode::decode;
use crate::program_threads::ProgramThreads;
use crate::programs;
use crate::recorder::{JournalledRecording, RecordingError, RecordingOptions};
use crate::rights::rights_of;
use crate::said::last_words;
use crate::switches::OwnSwitches;

/// Between two looks at `/proc`.
pub const LOOK: Nanos = Nanos::from_millis(50);
/// More threads than this are not looked at one by one.
const THREADS_MAX: usize = 256;
/// How long a command that is told to end has for it.
const GRACE: Nanos = Nanos::from_secs(1);
/// SIGTERM of `signal(7)`.
const TERMINATE: i32 = 15;

/// Who is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A command in words, started for it and ended after it, and all that it starts.
    Command(Vec<String>, Rights),
    /// A running process, and all that it starts.
    Process(Tid),
}

/// For how long.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// A command may start so long before it is observed.
    pub warm_up: Nanos,
    /// How long it is observed.
    pub duration: Nanos,
    /// Ends it.
    pub cancel: Cancel,
}

/// What events show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of the machine, by the kernel's tracer.
    Tracer,
    /// When own threads got and lost a CPU.
    OwnSwitches,
    /// Nothing: there are samples alone.
    Samples,
}

/// One thread of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedThread {
    pub tid: Tid,
    pub role: ThreadRole,
    /// Time on CPUs while it was observed.
    pub run: Nanos,
    /// Time it was ready and had none, by `/proc`.
    pub waited: Nanos,
    /// How often it gave its CPU away by sleeping, by `/proc`.
    pub slept: u64,
    /// Looks at which it slept, by the kernel's function it slept in; empty where that is not told.
    pub places: BTreeMap<String, u64>,
    /// Looks at which it ran or was ready to.
    pub ready: u64,
}

/// What was seen of a program.
#[derive(Debug)]
pub struct Watching {
    /// Its threads in the order of their age.
    pub threads: Vec<WatchedThread>,
    /// Begin and end of what was observed, on CLOCK_MONOTONIC.
    pub window: (Nanos, Nanos),
    /// CPU time of all of it meanwhile, children that have ended included.
    pub used: Nanos,
    pub sight: Sight,
    /// Why no more was seen, each one sentence.
    pub unseen: Vec<String>,
    /// Events that the kernel lost.
    pub lost: u64,
    /// How a command ended, where it did so by itself, how long after its start, and the last line it wrote to standard error.
    pub ended: Option<(ExitStatus, Nanos, Option<String>)>,
}

/// What `/proc` said of a thread at the first and at the last look.
#[derive(Default)]
struct Sampled {
    start: u64,
    comm: String,
    first: Option<Counts>,
    last: Counts,
    places: BTreeMap<String, u64>,
    ready: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    run: Nanos,
    waited: Nanos,
    slept: u64,
}

/// Whoever is watched, and a command's end.
struct Subject<'a> {
    root: Tid,
    child: Option<Spawned>,
    errors: Option<File>,
    started: Nanos,
    ended: Option<(ExitStatus, Nanos)>,
    _children: Option<ChildrenEntry<'a>>,
}

/// Watches a program. Events go to the observer when it is over, where there are any and it wants them.
///
/// # Errors
/// There is no such process or command; interrupted before anything was observed.
pub fn watch(
    watched: &Watched,
    options: &WatchOptions,
    (kernel, journal): (&dyn Kernel, Option<&Journal>),
    observer: &mut dyn Observer,
) -> Result<Watching, WorldError> {
    let mut unseen = Vec::new();
    let recorder = start_recording(kernel, journal, &mut unseen);
    let mut subject = Subject::of(watched, kernel, journal)?;
    let had = match watched {
        Watched::Command(..) => Vec::new(),
        Watched::Process(pid) => programs::threads(kernel, *pid),
    };
    subject.sleep_until(subject.started + subject.warm_up(options), options)?;
    let begin = clock::monotonic();
    let before = programs::time_of(kernel, subject.root).map_or(Nanos::ZERO, |(used, _)| used);
    let mut switches = OwnSwitches::default();
    let mut sampled: BTreeMap<Tid, Sampled> = BTreeMap::new();
    let end = begin + options.duration;
    let mut used = Nanos::ZERO;
    let mut next = begin;
    while subject.ended.is_none() && next <= end && !options.cancel.is_cancelled() {
        let fresh = sample(kernel, subject.root, &mut sampled);
        if recorder.is_none() {
            switches.open_more(fresh.into_iter(), &mut unseen);
            switches.collect();
        }
        used = programs::time_of(kernel, subject.root).map_or(used, |(now, _)| now - before);
        observer.progress(clock::monotonic() - begin, options.duration);
        next = (clock::monotonic() + LOOK).max(next + LOOK);
        subject.sleep_until(next.min(end), options)?;
    }
    let window = (begin, clock::monotonic().min(end));
    let ended = subject.end()?;
    observer.observes(window);
    let mut watching =
        Watching { threads: Vec::new(), window, used, sight: Sight::Samples, unseen, lost: 0, ended };
    let mut program = ProgramThreads::new(&[(subject.root, had)], window);
    drop(subject);
    watching.look_back(recorder, switches, &mut program, observer, sampled);
    Ok(watching)
}

/// Starts the tracer where the user may; says why not otherwise.
fn start_recording<'a>(
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    unseen: &mut Vec<String>,
) -> Option<JournalledRecording<'a>> {
    let start = || {
        let options = RecordingOptions::of(surety_trace::EVENTS);
        let cpus = kernel.online_cpus()?;
        JournalledRecording::start(&Tracefs::open()?, journal, kernel, &options, cpus)
    };
    let started: Result<JournalledRecording<'a>, RecordingError> = start();
    started.map_err(|why| unseen.push(format!("the kernel's tracer could not be used: {why}"))).ok()
}

impl<'a> Subject<'a> {
    fn of(
        watched: &Watched,
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
    ) -> Result<Subject<'a>, WorldError> {
        let refuse = |object: String, why: String| WorldError::Activity { object, why };
        let started = clock::monotonic();
        let (words, rights) = match watched {
            Watched::Process(pid) => {
                if !kernel.exists(Path::new(&format!("/proc/{pid}/stat"))) {
                    let why = "there is no such process; `ps -e` lists those there are".to_owned();
                    return Err(refuse(format!("process {pid}"), why));
                }
                let (child, errors, ended) = (None, None, None);
                return Ok(Subject { root: *pid, child, errors, started, ended, _children: None });
            }
            Watched::Command(words, rights) => (words, rights),
        };
        let name = words.join(" ");
        let failed = |why: String| refuse(format!("command `{name}`"), why);
        let (program, arguments) =
            words.split_first().ok_or_else(|| failed("it is empty; name a program".to_owned()))?;
        let errors = tempfile::tempfile().map_err(|e| failed(format!("no file for its messages: {e}")))?;
        let messages = errors.try_clone().map_err(|e| failed(format!("no file for its messages: {e}")))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stream::Null).stdout(Stream::Null).stderr(messages);
        let children = ChildrenEntry::of_command(journal, kernel);
        let mark = children.as_ref().map(|children| children.mark().to_owned());
        let rights = Some(rights_of(program, rights)?);
        let setup = ChildSetup { mark, rights, ..ChildSetup::default() };
        let child = spawn(&mut command, &setup)
            .map_err(|error| failed(format!("{error}; check the command's name and path")))?;
        let root = child.pid();
        let (child, errors) = (Some(child), Some(errors));
        Ok(Subject { root, child, errors, started, ended: None, _children: children })
    }

    /// What was running has started already.
    fn warm_up(&self, options: &WatchOptions) -> Nanos {
        if self.child.is_some() { options.warm_up } else { Nanos::ZERO }
    }

    /// Sleeps until then, or until a command ends or a process is gone.
    fn sleep_until(&mut self, until: Nanos, options: &WatchOptions) -> Result<(), WorldError> {
        let failed = |error: surety_kernel::KernelError| WorldError::Machine {
            what: "the program could not be watched".to_owned(),
            remedy: error.to_string(),
        };
        while self.ended.is_none() && clock::monotonic() < until && !options.cancel.is_cancelled() {
            let next = until.min(clock::monotonic() + LOOK);
            let Some(child) = &mut self.child else {
                clock::sleep_until(next, None).map_err(failed)?;
                continue;
            };
            if let Some(ended) = child.wait_until(next).map_err(failed)? {
                self.ended = Some((ended.status, clock::monotonic() - self.started));
            }
        }
        Ok(())
    }

    /// Ends a command that is still there, by word first; how it ended where it did so before.
    fn end(&mut self) -> Result<Option<(ExitStatus, Nanos, Option<String>)>, WorldError> {
        let said = self.errors.as_mut().and_then(last_words);
        let ended = self.ended.map(|(status, after)| (status, after, said));
        if let (None, Some(child)) = (&ended, &mut self.child)
            && child.signal(TERMINATE).unwrap_or(false)
        {
            // Who does not listen is killed when it is dropped.
            let _ = child.wait_until(clock::monotonic() + GRACE);
        }
        Ok(ended)
    }
}

/// Looks at every thread once; returns those that were not there before.
fn sample(kernel: &dyn Kernel, root: Tid, sampled: &mut BTreeMap<Tid, Sampled>) -> Vec<Tid> {
    let is_first_look = sampled.is_empty();
    let mut fresh = Vec::new();
    for thread in programs::threads(kernel, root) {
        if !sampled.contains_key(&thread.tid) {
            if sampled.len() >= THREADS_MAX {
                continue;
            }
            fresh.push(thread.tid);
        }
        let at = |file: &str| kernel.read_text(Path::new(&format!("/proc/{}/{file}", thread.tid))).ok();
        let Some(counts) = at("schedstat").zip(at("status")).and_then(|(s, t)| Counts::of(&s, &t)) else {
            continue;
        };
        let seen = sampled.entry(thread.tid).or_default();
        (seen.start, seen.comm) = (thread.start, thread.comm);
        // Who came later began at nothing.
        seen.first.get_or_insert(if is_first_look { counts } else { Counts::default() });
        seen.last = counts;
        let is_ready =
            at("stat").and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('R')));
        match at("wchan").filter(|place| !place.is_empty() && place != "0") {
            _ if is_ready == Some(true) => seen.ready += 1,
            Some(place) => *seen.places.entry(place).or_default() += 1,
            None => {}
        }
    }
    fresh
}

impl Counts {
    /// From `schedstat` and `status` of a thread.
    fn of(schedstat: &str, status: &str) -> Option<Counts> {
        let mut numbers = schedstat.split_ascii_whitespace().map(|n| n.parse().map(Nanos::new));
        let (run, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Some(Counts { run, waited, slept: slept?.trim().parse().ok()? })
    }
}

impl Watching {
    /// Puts together what events and samples show.
    fn look_back(
        &mut self,
        recorder: Option<JournalledRecording<'_>>,
        switches: OwnSwitches,
        program: &mut ProgramThreads,
        observer: &mut dyn Observer,
        sampled: BTreeMap<Tid, Sampled>,
    ) {
        let mut threads = of_samples(&sampled);
        if let Some(recording) = recorder {
            let followed = std::mem::take(program);
            let read = recording.finish().map_err(|e| e.to_string());
            match read.and_then(|raw| decode(&raw, followed, observer)) {
                Ok(decoded) => {
                    self.sight = Sight::Tracer;
                    self.lost = decoded.quality.map_or(0, |quality| quality.lost);
                    let seen = decoded.programs_seen.into_iter().next().unwrap_or_default();
                    for of_trace in seen.threads {
                        match threads.iter_mut().find(|thread| thread.tid == of_trace.tid) {
                            Some(thread) => (thread.run, thread.role) = (of_trace.run, of_trace.role),
                            None => threads.push(WatchedThread {
                                tid: of_trace.tid,
                                role: of_trace.role,
                                run: of_trace.run,
                                waited: Nanos::ZERO,
                                slept: 0,
                                places: BTreeMap::new(),
                                ready: 0,
                            }),
                        }
                    }
                }
                Err(why) => self.unseen.push(format!("the recorded events could not be read: {why}")),
            }
        } else if !switches.is_empty() {
            self.sight = Sight::OwnSwitches;
            self.lost = switches.tell(observer);
        }
        self.threads = threads;
    }
}

/// Threads as samples show them, the oldest first, each name counted.
fn of_samples(sampled: &BTreeMap<Tid, Sampled>) -> Vec<WatchedThread> {
    let mut by_age: Vec<(&Tid, &Sampled)> = sampled.iter().collect();
    by_age.sort_by_key(|(tid, seen)| (seen.start, **tid));
    let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
    let mut threads = Vec::new();
    for (tid, seen) in by_age {
        let first = seen.first.unwrap_or(seen.last);
        let rank = ranks.entry(seen.comm.as_str()).or_default();
        threads.push(WatchedThread {
            tid: *tid,
            role: ThreadRole { comm: seen.comm.clone(), rank: *rank },
            run: seen.last.run - first.run,
            waited: seen.last.waited - first.waited,
            slept: seen.last.slept.saturating_sub(first.slept),
            places: seen.places.clone(),
            ready: seen.ready,
        });
        *rank += 1;
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_where_the_kernel_writes_them() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n";
        let counts = Counts::of("1200000 340 9\n", status).unwrap();
        assert_eq!((counts.run, counts.waited, counts.slept), (Nanos::new(1_200_000), Nanos::new(340), 17));
        assert!(Counts::of("", status).is_none() && Counts::of("1 2 3", "").is_none());
    }
}
