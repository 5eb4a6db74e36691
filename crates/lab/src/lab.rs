//! [`Lab::run_each`]: one boot of a kernel for one job.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, spawn};
use surety_kernel::journal::{Journal, ScratchDir};
use surety_kernel::{Kernel, KernelError, clock};
use surety_model::world::{Cancel, Observer, WorldError};
use surety_units::Nanos;

use crate::devices;
use crate::digest::sha256_hex;
use crate::emulator_threads;
use crate::error::LabError;
use crate::initramfs::Archive;
use crate::job::{Errand, JOB_PATH, Job, Product, Refusal};
use crate::modules;
use crate::programs::add_program;
use crate::protocol::Decoder;
use crate::store::StoredKernel;
use crate::transcript::{Step, Transcript};
use crate::turns;
use crate::vm::{self, Console, LabOptions, Mode};

/// Between two looks at Ctrl-C and the clock.
const LOOK: Duration = Duration::from_millis(50);
/// A guest of a job that reports its progress, or boots, says something at least so often on the host's clock.
const SILENCE_MAX: Nanos = Nanos::from_secs(180);
/// What booting may take, and what a run may beside itself: coming to rest before it, and reading its results.
const BASE_TIME: Nanos = Nanos::from_secs(120);
const RUN_TIME: Nanos = Nanos::from_secs(60);
/// How much slower than its own clock a busy guest may be.
const SLOWNESS: i64 = 40;
/// What a console's file is read of.
const CONSOLE_MAX: usize = 1 << 20;

/// What decides about every bit of a deterministic result, beside the job and the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The hash the kernel is stored under.
    pub kernel: String,
    /// Its package and version.
    pub package: String,
    pub emulator: String,
    /// The SHA-256 of everything the guest starts with, but for the job: our program and its libraries.
    pub program: String,
}

/// A kernel with a machine, ready to boot for jobs.
pub struct Lab<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    stored: StoredKernel,
    options: LabOptions,
    build: Build,
    base: Archive,
    modules: Vec<modules::Module>,
}

impl<'a> Lab<'a> {
    /// Prepares what the guest starts with: `program` becomes its first process, which knows what it is by its job;
    /// `tools` are further programs, for a shell.
    ///
    /// # Errors
    /// Without the emulator, with options that cannot be, or a program whose libraries are not found.
    pub fn new(
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
        stored: StoredKernel,
        options: LabOptions,
        program: &Path,
        tools: &[PathBuf],
    ) -> Result<Lab<'a>, LabError> {
        options.check()?;
        let emulator = vm::version()?;
        let modules = modules::in_order(&stored, &options.modules)?;
        let mut base = Archive::default();
        add_program(&mut base, "/init", program)?;
        for tool in tools {
            let name = tool.file_name().unwrap_or_default().to_string_lossy();
            add_program(&mut base, &format!("/bin/{name}"), tool)?;
        }
        for directory in ["/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/surety"] {
            base.directory(directory);
        }
        let build = Build {
            kernel: stored.content().to_owned(),
            package: stored.in_words(),
            emulator,
            program: sha256_hex(&base.bytes()),
        };
        Ok(Lab { kernel, journal, stored, options, build, base, modules })
    }

    /// What decides about its results.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// What its guests are given.
    pub fn options(&self) -> &LabOptions {
        &self.options
    }

    /// The kernel it boots.
    pub fn stored(&self) -> &StoredKernel {
        &self.stored
    }

    /// Modules that were asked for, and those that the job needs.
    fn modules_of(&self, job: &Job) -> Result<Vec<modules::Module>, LabError> {
        let needed = job.modules();
        if needed.is_empty() {
            return Ok(self.modules.clone());
        }
        modules::with_needed(&self.stored, &self.options.modules, needed)
    }

    /// The file system of a guest with a job: the same bytes for the same job.
    pub fn initramfs(&self, job: &Job) -> Result<Vec<u8>, LabError> {
        let mut archive = self.base.clone();
        let mut errand = Errand { job: job.clone(), modules: Vec::new() };
        for (program, path) in job.programs()? {
            add_program(&mut archive, &format!("/bin/{program}"), &path)?;
        }
        for module in &self.modules_of(job)? {
            let path = format!("/surety/modules/{}.ko", module.name);
            archive.file(&path, 0o644, module.content.clone());
            errand.modules.push((path, module.parameters.clone()));
        }
        let text = serde_json::to_vec(&errand).map_err(|e| LabError::file("writing the job", &e))?;
        archive.file(JOB_PATH, 0o644, text);
        Ok(archive.bytes())
    }

    /// Programs of this machine that a job takes along, each with a part of the SHA-256 of it and its libraries; `None` without any.
    ///
    /// # Errors
    /// One is not installed, or cannot be read.
    pub fn programs_in_words(&self, job: &Job) -> Result<Option<String>, LabError> {
        let mut said = Vec::new();
        for (program, path) in job.programs()? {
            let mut archive = Archive::default();
            add_program(&mut archive, program, &path)?;
            said.push(format!("{program} {}", &sha256_hex(&archive.bytes())[..16]));
        }
        Ok((!said.is_empty()).then(|| said.join(", ")))
    }

    /// Whether its guests can hold a job at all.
    ///
    /// # Errors
    /// [`LabError::Options`] for too little memory, and modules that are not here.
    pub fn check(&self, job: &Job) -> Result<(), LabError> {
        self.check_archive(&self.initramfs(job)?, job)
    }

    fn check_archive(&self, archive: &[u8], job: &Job) -> Result<(), LabError> {
        self.options.check_memory(archive.len() as u64, job.bytes(self.options.cpus))
    }

    /// Boots the kernel for a job of one run, and hears what came of it; leaves nothing behind: no file, no process.
    ///
    /// # Errors
    /// [`LabError`], as the error of a world: each way in which a guest comes to no result.
    pub fn run(
        &self,
        job: &Job,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Product, WorldError> {
        let made = self.run_each(job, cancel, observer, |product, _| Ok(product)).into_iter().next();
        made.unwrap_or_else(|| {
            let refusal = Refusal::machine("it was given nothing to do");
            Err(refusal.into_error(self.stored.name()))
        })
    }

    /// Boots the kernel for all runs of a job. What comes of one is given to `take` as soon as its end was received; what that
    /// makes of it, or why there is nothing, stands at the run's place. Where the guest comes to its end before all of them
    /// are made, that is the error of the rest. Leaves nothing behind: no file, no process.
    pub fn run_each<T>(
        &self,
        job: &Job,
        cancel: &Cancel,
        observer: &mut dyn Observer,
        mut take: impl FnMut(Product, &mut dyn Observer) -> Result<T, WorldError>,
    ) -> Vec<Result<T, WorldError>> {
        let mut made = Vec::new();
        let ended = self.boot(job, cancel, observer, &mut |product, observer| {
            made.push(product.and_then(|product| take(product, observer)));
        });
        let runs = job.spans().len();
        if made.len() < runs {
            let why = ended.err().map_or(WorldError::Interrupted, WorldError::from);
            made.resize_with(runs, || Err(why.clone()));
        }
        made
    }

    /// One boot. It ends in `Ok` when all was said, or the observer wants no more.
    fn boot(
        &self,
        job: &Job,
        cancel: &Cancel,
        observer: &mut dyn Observer,
        take: &mut Taker<'_>,
    ) -> Result<(), LabError> {
        if !observer.wants_run(0) {
            return Ok(());
        }
        let room = room(self.kernel, self.journal)?;
        let initramfs = self.write_initramfs(&room, job)?;
        let console = room.path().join("console");
        let errors = room.path().join("errors");
        let file = fs::File::create(&errors).map_err(|e| LabError::file("making a temporary file", &e))?;
        let asked = (job.devices(), job.words_of_kernel());
        let mut command =
            vm::command(&self.stored, &initramfs, &self.options, asked, Console::File(&console));
        command.stdin(Stream::Null).stdout(Stream::Pipe).stderr(file);
        let mut emulator = self.start(command)?;
        let transcript = self.listen(&mut emulator, job, cancel, observer, take);
        // Whatever came of it, the emulator is gone before anything else is done.
        let ended = emulator.end();
        let said = Said::read(&console, &errors);
        if let Some(path) = &self.options.console
            && let Err(error) = fs::copy(&console, path)
        {
            // What came of the run is worth more than what its kernel said.
            observer.notice(&format!("{} could not be written: {error}", path.display()));
        }
        match transcript {
            Ok(Listened::Enough) => Ok(()),
            Ok(Listened::Cut(error)) => {
                let status = ended.map_or_else(|e| e.to_string(), |e| e.status.to_string());
                Err(said.diagnose(&self.options, &status).unwrap_or(LabError::Rubbish { why: error }))
            }
            Err(LabError::Hang { silence, elapsed, .. }) => {
                let options = &self.options;
                Err(said.of_kernel(options).unwrap_or(LabError::Hang { silence, elapsed, last: said.last() }))
            }
            Err(error) => Err(error),
        }
    }

    /// Starts the emulator so that its own threads do not race with each other.
    fn start(&self, mut command: Command) -> Result<Spawned, LabError> {
        let failed = |error: KernelError| LabError::Emulator { why: error.to_string() };
        if self.options.mode == Mode::Fast {
            return spawn(&mut command, &ChildSetup::default()).map_err(failed);
        }
        let emulator = spawn(&mut command, &emulator_threads::setup(self.kernel)).map_err(failed)?;
        emulator_threads::order(self.kernel, &emulator);
        Ok(emulator)
    }

    /// Boots the kernel with the terminal as its console, until the shell in it ends.
    ///
    /// # Errors
    /// When the emulator cannot be started, fails, is interrupted or takes longer than the options let it.
    pub fn shell(&self, cancel: &Cancel) -> Result<(), LabError> {
        let room = room(self.kernel, self.journal)?;
        let initramfs = self.write_initramfs(&room, &Job::Shell)?;
        let mut command =
            vm::command(&self.stored, &initramfs, &self.options, (&[], None), Console::Terminal);
        let failed = |why: String| LabError::Emulator { why };
        let setup = ChildSetup { stays_in_group: true, ..ChildSetup::default() };
        let mut emulator = spawn(&mut command, &setup).map_err(|e| failed(e.to_string()))?;
        let limit = self.options.within.unwrap_or(Nanos::MAX);
        let end = clock::monotonic().saturating_add(limit);
        loop {
            let look = clock::monotonic() + Nanos::from_millis(50);
            if let Some(ended) = emulator.wait_until(look).map_err(|e| failed(e.to_string()))? {
                let status = ended.status;
                return if status.success() { Ok(()) } else { Err(failed(status.to_string())) };
            }
            // What is left of the emulator ends with `emulator`.
            if cancel.is_cancelled() {
                return Err(LabError::Interrupted);
            }
            if clock::monotonic() > end {
                return Err(LabError::TooSlow { limit, done: "a shell".to_owned() });
            }
        }
    }

    fn write_initramfs(&self, room: &ScratchDir<'_>, job: &Job) -> Result<PathBuf, LabError> {
        let path = room.path().join("initramfs");
        let archive = self.initramfs(job)?;
        self.check_archive(&archive, job)?;
        fs::write(&path, archive).map_err(|e| LabError::file("writing the initramfs", &e))?;
        for (number, device) in job.devices().iter().enumerate().filter(|(_, device)| device.model.is_disk())
        {
            let failed = |e: std::io::Error| LabError::file(format!("making the disk `{}`", device.role), &e);
            let file = fs::File::create(devices::disk_file(room.path(), number)).map_err(failed)?;
            file.set_len(devices::DISK_BYTES).map_err(failed)?;
        }
        Ok(path)
    }

    /// Hears the guest until it has said everything, or is no use any more.
    fn listen(
        &self,
        emulator: &mut Spawned,
        job: &Job,
        cancel: &Cancel,
        observer: &mut dyn Observer,
        take: &mut Taker<'_>,
    ) -> Result<Listened, LabError> {
        let bytes = reader(emulator)?;
        let (started, runs) = (clock::monotonic(), job.spans().len());
        let limit = self.options.within.unwrap_or_else(|| time_for(job, self.options.mode));
        let (mut decoder, mut transcript) = (Decoder::default(), Transcript::new(job.spans()));
        let mut over = 0;
        let mut last_word = started;
        loop {
            match bytes.recv_timeout(LOOK) {
                Ok(piece) => {
                    decoder.push(&piece);
                    while let Some(message) = decoder.next_message().map_err(rubbish)? {
                        match transcript.take(message, observer)? {
                            Step::More => {}
                            Step::Done => return Ok(Listened::Enough),
                            Step::Run(product) => {
                                take(product, observer);
                                over += 1;
                                if over < runs && !observer.wants_run(over) {
                                    return Ok(Listened::Enough);
                                }
                            }
                        }
                    }
                    // What is made of a run takes time, too, in which nobody listens.
                    last_word = clock::monotonic();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let why =
                        decoder.finish().map_or_else(|e| e.to_string(), |()| "nothing is missing".to_owned());
                    return Ok(Listened::Cut(why));
                }
            }
            if cancel.is_cancelled() {
                return Err(LabError::Interrupted);
            }
            let now = clock::monotonic();
            let is_waited_for = decoder.is_silent() || matches!(job, Job::Workload { .. });
            if is_waited_for && now - last_word > SILENCE_MAX {
                let (silence, elapsed) = (now - last_word, now - started);
                return Err(LabError::Hang { silence, elapsed, last: String::new() });
            }
            if now - started > limit {
                if decoder.is_silent() {
                    let elapsed = now - started;
                    return Err(LabError::Hang { silence: elapsed, elapsed, last: String::new() });
                }
                return Err(LabError::TooSlow { limit, done: transcript.done() });
            }
        }
    }
}

/// What came of listening.
enum Listened {
    /// Nothing more is wanted.
    Enough,
    /// It ended too early, for this reason.
    Cut(String),
}

/// Takes what came of each run.
type Taker<'t> = dyn FnMut(Result<Product, WorldError>, &mut dyn Observer) + 't;

fn rubbish(error: crate::protocol::ProtocolError) -> LabError {
    LabError::Rubbish { why: error.to_string() }
}

/// How long a job may take on the host's clock: a guest that is busy all the time is slower than its clock.
fn time_for(job: &Job, mode: Mode) -> Nanos {
    let slowness = if mode == Mode::Fast { 2 } else { SLOWNESS };
    let of_run = |span: Nanos| span.checked_mul(slowness).unwrap_or(Nanos::MAX).saturating_add(RUN_TIME);
    job.spans().into_iter().map(of_run).fold(BASE_TIME, Nanos::saturating_add)
}

/// The emulator's output as pieces; a thread reads it, because reading has no time limit.
fn reader(emulator: &mut Spawned) -> Result<Receiver<Vec<u8>>, LabError> {
    let mut stdout =
        emulator.take_stdout().ok_or(LabError::Emulator { why: "it has no output".to_owned() })?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// What the guest's kernel and the emulator said otherwise.
struct Said {
    console: String,
    errors: String,
}

impl Said {
    fn read(console: &Path, errors: &Path) -> Said {
        let text = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            let end = &bytes[bytes.len().saturating_sub(CONSOLE_MAX)..];
            String::from_utf8_lossy(end).into_owned()
        };
        // That our network is connected with nothing is as it should be.
        let is_ours = |line: &&str| line.contains(turns::NETWORK);
        let errors = text(errors).lines().filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n");
        Said { console: text(console), errors }
    }

    fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.console.lines().map(str::trim).filter(|l| !l.is_empty())
    }

    fn last(&self) -> String {
        self.lines()
            .next_back()
            .map_or_else(|| "its console is empty".to_owned(), |l| format!("its console ends with `{l}`"))
    }

    /// Why a guest ended without a word of its own.
    fn diagnose(&self, options: &LabOptions, status: &str) -> Option<LabError> {
        let errors = self.errors.trim();
        if let Some(error) = self.of_kernel(options) {
            return Some(error);
        }
        if !errors.is_empty() {
            return Some(LabError::Emulator { why: format!("{status}: {errors}") });
        }
        // With less than this a kernel cannot even lay itself out, and has no console yet to say so.
        const LAID_OUT_MIB: u64 = 96;
        (self.lines().next().is_none() && options.memory_mib < LAID_OUT_MIB).then(|| LabError::OutOfMemory {
            memory_mib: options.memory_mib,
            why: "its kernel ended before it said anything".to_owned(),
        })
    }

    /// What the kernel says it died of.
    fn of_kernel(&self, options: &LabOptions) -> Option<LabError> {
        const OF_MEMORY: [&str; 5] = [
            "Out of memory",
            "out of memory",
            "System is deadlocked on memory",
            "Initramfs unpacking failed",
            "Cannot allocate memory",
        ];
        let without_time = |line: &str| line.split_once("] ").map_or(line, |(_, rest)| rest).to_owned();
        let memory = self.lines().find(|l| OF_MEMORY.iter().any(|words| l.contains(words)));
        if let Some(line) = memory {
            return Some(LabError::OutOfMemory { memory_mib: options.memory_mib, why: without_time(line) });
        }
        let panic = self.lines().find(|l| l.contains("Kernel panic"));
        panic.map(|line| LabError::Panic { why: without_time(line) })
    }
}

/// A directory for one run.
fn room<'a>(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> Result<ScratchDir<'a>, LabError> {
    ScratchDir::make(kernel, journal).map_err(|e| LabError::file("making a temporary directory", &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Run;
    use crate::machine::GuestMachine;

    #[test]
    fn the_time_for_runs_is_that_of_all_of_them() {
        let run = |seconds| Run {
            toml: String::new(),
            admitted: Vec::new(),
            seed: 1,
            duration: Nanos::from_secs(seconds),
            warm_up: Nanos::SECOND,
            cpus: None,
            trace: false,
            untraced: true,
            files: Default::default(),
        };
        let of = |seconds: &[i64], mode| {
            let runs = seconds.iter().map(|seconds| run(*seconds)).collect();
            let (devices, machine) = (Vec::new(), GuestMachine::default());
            time_for(&Job::Workload { runs, devices, outside: None, partitioned: false, machine }, mode)
        };
        assert_eq!(of(&[9], Mode::Fast), Nanos::from_secs(200));
        assert_eq!(of(&[9, 4], Mode::Fast), Nanos::from_secs(270));
        assert_eq!(of(&[9, 4], Mode::default()), Nanos::from_secs(840));
    }

    fn said(console: &str, errors: &str) -> Option<LabError> {
        let said = Said { console: console.to_owned(), errors: errors.to_owned() };
        said.diagnose(&LabOptions::default(), "exit status: 0")
    }

    #[test]
    fn the_console_says_what_a_guest_died_of() {
        let panic = "[    1.4] RIP: 0010:x\n[    1.5] Kernel panic - not syncing: VFS: no root\n";
        assert!(matches!(said(panic, ""), Some(LabError::Panic { why }) if why.starts_with("Kernel panic")));
        let memory =
            "[    1.0] Initramfs unpacking failed: write error\n[    1.5] Kernel panic - not syncing: x\n";
        assert!(matches!(said(memory, ""), Some(LabError::OutOfMemory { memory_mib: 512, .. })));
        let failed = said("", "qemu: could not load kernel\n").unwrap();
        assert!(failed.to_string().contains("could not load kernel"), "{failed}");
        assert!(said("hello\n", "").is_none() && said("", "").is_none());
        let silent = Said { console: String::new(), errors: String::new() };
        let small = LabOptions { memory_mib: 48, ..LabOptions::default() };
        assert!(matches!(silent.diagnose(&small, "exit status: 0"), Some(LabError::OutOfMemory { .. })));
    }
}
