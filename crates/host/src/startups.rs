//! [`Starts`]: the start-ups of a workload: first on the idle machine, then beside the loads, one at a time.
//!
//! One is taken after another, in turns over all programs, with a gap between them. Each runs in a thread of its own, so that
//! the thread that watches over the run is never held up by it.

mod attempt;
mod job;
mod pace;
mod replay;
mod site;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use surety_kernel::command::Rights;
use surety_kernel::{Kernel, RealKernel, clock, command};
use surety_model::record::{ActivityRecord, Figure};
use surety_model::startup::{Attempt, During, StartupAccount, Throughput};
use surety_model::workload::{Startup, StartupBody, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::{CpuSet, Nanos};

use crate::disks::{Counter, Disks};
use crate::rights::rights_of;
use crate::spans::Speaker;
use crate::threads::spawn_thread;
use crate::window::Window;

use job::{Job, Outcome};
use pace::{Gap, Pace, gap_figures};
use replay::Recorded;

/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(20);

/// What start-ups stand on.
pub(crate) struct Setting<'a> {
    pub kernel: &'a dyn Kernel,
    /// The CPUs they may use.
    pub cpus: CpuSet,
    /// What programs and all they start carry.
    pub mark: Option<String>,
    /// Ends everything early.
    pub cancel: &'a Cancel,
    /// Texts of recordings by the names of their files.
    pub files: &'a BTreeMap<String, String>,
}

/// What is started.
#[derive(Clone)]
enum Subject {
    /// A program, by its command line, and what it may do.
    Program(String, Rights),
    /// The recorded I/O of one.
    Replay(Arc<Recorded>),
}

/// One `[[startup]]`.
struct Start {
    startup: Startup,
    subject: Subject,
    /// Its directory on its disk.
    directory: Option<String>,
    /// Made cold page by page, because loads or streams hold files open on the disk.
    by_pages: bool,
    account: StartupAccount,
    /// What its disk moves for all while it starts, and while nothing does.
    counter: Option<Counter>,
    throughput: Throughput,
    gaps: Vec<Gap>,
    /// How the threads of a replay ran.
    paced: Option<String>,
}

/// A start that has not ended.
struct Running {
    start: usize,
    stop: Arc<AtomicBool>,
    handle: JoinHandle<Result<Outcome, WorldError>>,
}

impl Running {
    fn join(self) -> Result<Outcome, WorldError> {
        self.handle.join().unwrap_or_else(|_| {
            Err(WorldError::Machine {
                what: "the thread of a start-up panicked".to_owned(),
                remedy: "run again; report it if it repeats".to_owned(),
            })
        })
    }
}

/// The start-ups of a run. Dropping ends the one that is under way.
pub(crate) struct Starts<'a> {
    setting: Setting<'a>,
    list: Vec<Start>,
    running: Option<Running>,
    not_before: Nanos,
    elsewhere: Nanos,
    cut_short: bool,
    /// Says in the trace what happens.
    speaker: Speaker,
}

impl<'a> Starts<'a> {
    /// Makes ready what is started: directories filled, recordings read and given their files.
    ///
    /// # Errors
    /// In words: a key that needs another, a recording that cannot be read, a preparation that fails.
    pub fn prepare(
        workload: &Workload,
        disks: &mut Disks<'_>,
        setting: Setting<'a>,
    ) -> Result<Starts<'a>, WorldError> {
        let mut list = Vec::new();
        for (index, startup) in workload.startups.iter().enumerate() {
            site::check(startup)?;
            let subject = match &startup.body {
                StartupBody::Command(line) => {
                    let rights = rights_of(&format!("startup.{}", startup.name), &startup.rights)?;
                    Subject::Program(line.clone(), rights)
                }
                StartupBody::Replay(file) => {
                    Subject::Replay(Arc::new(site::read(startup, file, workload, &setting)?))
                }
            };
            let directory = site::make(index, startup, &subject, disks, &setting)?;
            let shares = |name: &String| {
                let loads = workload.loads.iter().filter_map(|load| load.disk.as_ref());
                loads
                    .chain(workload.streams.iter().filter_map(|stream| stream.disk.as_ref()))
                    .any(|d| d == name)
            };
            list.push(Start {
                by_pages: startup.disk.as_ref().is_some_and(shares),
                account: StartupAccount::new(startup),
                startup: startup.clone(),
                subject,
                directory,
                counter: startup.disk.as_ref().and_then(|name| Some(disks.get(name)?.counter())),
                throughput: Throughput::default(),
                gaps: Vec::new(),
                paced: None,
            });
        }
        let (elsewhere, not_before) = (Nanos::ZERO, Nanos::ZERO);
        let speaker = Speaker::default();
        Ok(Starts { setting, list, running: None, not_before, elsewhere, cut_short: false, speaker })
    }

    /// What happens from here on is said in a trace.
    pub fn speak(&mut self, speaker: Speaker) {
        self.speaker = speaker;
    }

    /// Ends the start that is under way, of which nothing is known then, and says no more: a trace that somebody may write to cannot be
    /// ended.
    pub fn abandon(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::SeqCst);
            let _ = running.join();
        }
        self.speaker = Speaker::default();
    }

    /// Takes every start on the machine as it is, before any load begins: what the loaded ones are compared with.
    pub fn idle(&mut self, disks: &mut Disks<'_>) -> Result<(), WorldError> {
        let most = self.list.iter().map(|start| start.startup.repeat).max().unwrap_or(0);
        for round in 0..most {
            for index in 0..self.list.len() {
                if round >= self.list[index].startup.repeat {
                    continue;
                }
                self.pause()?;
                self.begin(index, Nanos::MAX, disks)?;
                let outcome = self.wait()?;
                self.not_before = outcome.ended + self.list[index].startup.gap;
                self.list[index].account.add_idle(outcome.attempt);
            }
        }
        Ok(())
    }

    /// Waits until the next may begin.
    fn pause(&self) -> Result<(), WorldError> {
        while clock::monotonic() < self.not_before {
            if self.setting.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            let _ = clock::sleep_until((clock::monotonic() + LOOK).min(self.not_before), None);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Outcome, WorldError> {
        while self.running.as_ref().is_some_and(|running| !running.handle.is_finished()) {
            if self.setting.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            let _ = clock::sleep_until(clock::monotonic() + LOOK / 10, None);
        }
        self.running.take().map_or(Err(WorldError::Interrupted), Running::join)
    }

    /// Takes what has ended and begins the next, inside the observed window.
    pub fn look(&mut self, disks: &mut Disks<'_>, window: &Window) -> Result<(), WorldError> {
        if self.running.as_ref().is_some_and(|running| running.handle.is_finished()) {
            self.take(window)?;
        }
        let now = clock::monotonic();
        let due = self.not_before.max(window.observe);
        if self.running.is_some() || now < due || now >= window.end {
            return Ok(());
        }
        let left = |start: &&(usize, &Start)| start.1.account.count() < start.1.startup.repeat as usize;
        let next = self.list.iter().enumerate().collect::<Vec<_>>();
        let next = next.iter().filter(left).min_by_key(|(_, start)| start.account.count());
        match next.map(|(index, _)| *index) {
            Some(index) => {
                self.read_others(Some(index), During::Load);
                self.begin(index, window.end, disks)
            }
            None => Ok(()),
        }
    }

    /// Reads the counts of the disks of all programs but one, whose own thread does.
    fn read_others(&mut self, but: Option<usize>, during: During) {
        for (index, start) in self.list.iter_mut().enumerate() {
            let read = start.counter.as_ref().filter(|_| Some(index) != but);
            if let Some((at, bytes)) = read.and_then(|counter| counter.read(self.setting.kernel)) {
                start.throughput.read(at, bytes, during);
            }
        }
    }

    fn take(&mut self, window: &Window) -> Result<(), WorldError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        self.read_others(Some(running.start), During::Another);
        let start = &mut self.list[running.start];
        let mut outcome = running.join()?;
        self.not_before = outcome.ended + start.startup.gap;
        self.elsewhere += outcome.cpu_time;
        self.cut_short |= matches!(outcome.attempt, Attempt::GivenUp(_)) && outcome.ended >= window.end;
        start.account.add(outcome.attempt);
        for ((at, bytes), during) in outcome.moved.into_iter().flatten().zip([During::Load, During::Start]) {
            start.throughput.read(at, bytes, during);
        }
        start.gaps.append(&mut outcome.gaps);
        Ok(())
    }

    /// Begins a start that is given up at `latest` if not before.
    fn begin(&mut self, index: usize, latest: Nanos, disks: &mut Disks<'_>) -> Result<(), WorldError> {
        let start = &self.list[index];
        let startup = &start.startup;
        let mut directory: Option<PathBuf> = None;
        let mut below = None;
        if let Some(disk) = startup.disk.as_ref().and_then(|name| disks.get_mut(name)) {
            match (startup.cold, start.by_pages) {
                (true, false) => disk.make_cold()?,
                (true, true) => disk.forget_cache(),
                _ => {}
            }
            directory = start.directory.as_ref().map(|name| disk.directory().join(name));
            below = disk.below();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job {
            startup: startup.clone(),
            subject: start.subject.clone(),
            directory,
            forget: startup.cold && start.by_pages,
            below,
            counter: start.counter.clone(),
            pace: Pace::default(),
            mark: self.setting.mark.clone(),
            cpus: self.setting.cpus,
            limit: startup.limit(),
            latest,
            stop: Arc::clone(&stop),
            number: start.account.count() as u64,
            speaker: self.speaker.clone(),
        };
        let (allowed, hold) = std::sync::mpsc::channel();
        let (tid, handle) = spawn_thread(&startup.name, &Arc::default(), move || {
            let pace = hold.recv().unwrap_or_default();
            // What it starts is born in the group: to join takes time that is not the start's.
            let _ = job.mark.as_deref().map(|mark| command::group::enter(&RealKernel::new(), mark));
            Job { pace, ..job }.run()
        })?;
        // Its threads and programs inherit this; where it is refused they run where this process may.
        let _ = self.setting.kernel.set_affinity(tid, &self.setting.cpus);
        let mut pace = Pace::default();
        if matches!(start.subject, Subject::Replay(_)) {
            let (given, said) = Pace::give(self.setting.kernel, tid);
            (pace, self.list[index].paced) = (given, Some(said));
        }
        let _ = allowed.send(pace);
        self.running = Some(Running { start: index, stop, handle });
        Ok(())
    }

    /// Ends at the window's end; says in words what did not fit.
    pub fn close(&mut self, window: &Window) -> Result<Vec<String>, WorldError> {
        let taken = self.take(window);
        self.abandon();
        taken?;
        self.read_others(None, During::Load);
        let short = |start: &Start| {
            let (count, repeat) = (start.account.count(), start.startup.repeat as usize);
            let of = format!("startup.{}: {count} of {repeat} start-ups were begun", start.startup.name);
            (count < repeat).then(|| format!("{of} before the run ended; make it longer with --for"))
        };
        let mut said: Vec<String> = self.list.iter().filter_map(short).collect();
        if self.cut_short && said.is_empty() {
            said.push(
                "the last start-up was given up because the run ended; make it longer with --for".to_owned(),
            );
        }
        Ok(said)
    }

    /// CPU time of the programs that were started beside the loads.
    pub fn elsewhere(&self) -> Nanos {
        self.elsewhere
    }

    /// How each was made cold, and how replays ran, by name, for whoever judges the numbers.
    pub fn environment(&self) -> Vec<(String, String)> {
        let how = |start: &Start| match (start.startup.cold, start.by_pages) {
            (false, _) => "no",
            (true, false) => "its disk was unmounted and mounted again before each",
            (true, true) => "the pages of its files were dropped before each; names stayed known",
        };
        let cold = self.list.iter().map(|s| (format!("startup {} cold", s.startup.name), how(s).to_owned()));
        let paced = |s: &Start| Some((format!("startup {} threads", s.startup.name), s.paced.clone()?));
        cold.chain(self.list.iter().filter_map(paced)).collect()
    }

    /// The records, put behind those of the tasks.
    pub fn into_records(mut self, tasks: usize, mut records: Vec<ActivityRecord>) -> Vec<ActivityRecord> {
        for (place, start) in std::mem::take(&mut self.list).into_iter().enumerate() {
            let mut figures: Vec<Figure> = gap_figures(&start.gaps);
            figures.extend(start.throughput.figures());
            records.insert((tasks + place).min(records.len()), start.account.finish(figures));
        }
        records
    }
}

impl Drop for Starts<'_> {
    fn drop(&mut self) {
        self.abandon();
    }
}
