//! What the first process of a guest does: make the machine usable, do the job, say what came of it, switch off.

use std::path::Path;
use std::process::{Command, ExitCode};

use surety_kernel::boot::{self, OutputPort};
use surety_kernel::clock;
use surety_units::Nanos;

use crate::job::{Errand, JOB_PATH, Job, Refusal};
use crate::protocol::{CONTENT_MAX, Encoder, Message, VERSION};
use crate::samples::Series;
use crate::vm::PORT;

/// File systems, and where they belong.
const MOUNTS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tracefs", "/sys/kernel/tracing"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
];

/// When a kernel has done what it puts off while it boots (it measures its clock anew for a second or two, and then
/// changes to it), since its start.
const SETTLED: Nanos = Nanos::from_secs(5);
/// Then it may still test its ciphers or tidy up. It is left to that until all CPUs together were idle for this part of
/// such a window, but not longer than this.
const QUIET: f64 = 0.98;
const WINDOW: Nanos = Nanos::from_secs(1);
const SETTLING_MAX: Nanos = Nanos::from_secs(60);

/// The way to the host. Only the thread that [`main`] runs in may speak.
#[derive(Debug)]
pub struct Channel {
    port: OutputPort,
    encoder: Encoder,
}

impl Channel {
    fn say(&mut self, message: &Message) {
        self.port.write(&self.encoder.frame(message));
    }

    fn pieces(&mut self, bytes: &[u8], message: fn(Vec<u8>) -> Message) {
        for piece in bytes.chunks(CONTENT_MAX) {
            self.say(&message(piece.to_vec()));
        }
    }

    /// So much of this run is done.
    pub fn progress(&mut self, done: Nanos, total: Nanos) {
        self.say(&Message::Progress { done: done.get_unsigned(), total: total.get_unsigned() });
    }

    /// Something the user should know.
    pub fn notice(&mut self, text: &str) {
        self.say(&Message::Notice(text.to_owned()));
    }

    /// The document and the samples that came of the run.
    ///
    /// # Errors
    /// When the samples cannot be written as JSON.
    pub fn result(&mut self, document: &str, samples: &[Series]) -> Result<(), Refusal> {
        let samples =
            serde_json::to_vec(samples).map_err(|e| Refusal::machine(format!("writing the samples: {e}")))?;
        self.pieces(document.as_bytes(), Message::Record);
        self.pieces(&samples, Message::Samples);
        Ok(())
    }

    /// What the run observed, on the guest's clock.
    pub fn observed(&mut self, (from, until): (Nanos, Nanos)) {
        self.say(&Message::Observed { from: from.get_unsigned(), until: until.get_unsigned() });
    }

    /// The trace, from a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn trace(&mut self, file: &Path) -> Result<(), Refusal> {
        let bytes = std::fs::read(file).map_err(|e| Refusal::machine(format!("reading the trace: {e}")))?;
        self.pieces(&bytes, Message::Trace);
        Ok(())
    }
}

/// Whether this process is the first of a guest of the lab.
pub fn is_guest() -> bool {
    std::process::id() == 1 && Path::new(JOB_PATH).exists()
}

/// Everything the first process does. `work` makes the run of the job with a number from 0, and says what came of it on the
/// channel. Does not return unless the machine cannot be switched off, and then the kernel panics.
pub fn main(mut work: impl FnMut(&Job, usize, &mut Channel) -> Result<(), Refusal>) -> ExitCode {
    // Before anything is mounted there is nowhere to say so: the kernel's panic will.
    let Ok(port) = OutputPort::open(PORT) else { return ExitCode::FAILURE };
    let mut channel = Channel { port, encoder: Encoder::default() };
    let prepared = prepare();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    channel.say(&Message::Hello { version: VERSION, release: release.trim().to_owned() });
    let told = |refusal: &Refusal| serde_json::to_vec(refusal).unwrap_or_default();
    let done = guarded(|| {
        let errand = prepared?;
        if errand.job == Job::Shell {
            return shell();
        }
        for number in 0..errand.job.spans().len() {
            // What one run leaves its kernel to do is no part of the next.
            let made =
                guarded(|| settle(&mut channel).and_then(|()| work(&errand.job, number, &mut channel)));
            channel.say(&made.map_or_else(|e| Message::Refused(told(&e)), |()| Message::Finished));
        }
        Ok(())
    });
    channel.say(&done.map_or_else(|e| Message::Failed(told(&e)), |()| Message::Done));
    let _ = boot::power_off();
    ExitCode::FAILURE
}

/// What came of work, a panic in it included.
fn guarded(work: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().cloned();
        let words = words.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Refusal::machine(format!("our program failed: {}", words.unwrap_or_default())))
    })
}

/// Mounts what a kernel has, loads modules, brings the loopback device up, and reads the job.
fn prepare() -> Result<Errand, Refusal> {
    let failed = |e: surety_kernel::KernelError| Refusal::machine(e.to_string());
    for (kind, place) in MOUNTS {
        boot::mount(kind, Path::new(place)).map_err(failed)?;
    }
    let job = std::fs::read(JOB_PATH).map_err(|e| Refusal::machine(format!("reading the job: {e}")))?;
    let errand: Errand =
        serde_json::from_slice(&job).map_err(|e| Refusal::machine(format!("reading the job: {e}")))?;
    for (module, parameters) in &errand.modules {
        boot::load_module(Path::new(module), parameters).map_err(failed)?;
    }
    boot::loopback_up().map_err(failed)?;
    Ok(errand)
}

/// Waits until the kernel has nothing of its own to do. On the virtual clock an idle wait costs the host next to nothing.
fn settle(channel: &mut Channel) -> Result<(), Refusal> {
    let failed = |e: surety_kernel::KernelError| Refusal::machine(e.to_string());
    clock::sleep_until(SETTLED, None).map_err(failed)?;
    let end = clock::monotonic() + SETTLING_MAX;
    let mut before = idle_time()?;
    loop {
        let begin = clock::monotonic();
        clock::sleep_until(begin + WINDOW, None).map_err(failed)?;
        let after = idle_time()?;
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let window = (clock::monotonic() - begin).as_secs_f64() * cpus;
        if after - before >= QUIET * window {
            return Ok(());
        }
        if clock::monotonic() > end {
            channel.notice("the guest's kernel is still busy with itself; what is measured has that in it");
            return Ok(());
        }
        before = after;
    }
}

/// For how many seconds the CPUs were idle since the start, together.
fn idle_time() -> Result<f64, Refusal> {
    let text = std::fs::read_to_string("/proc/uptime")
        .map_err(|e| Refusal::machine(format!("reading /proc/uptime: {e}")))?;
    let seconds = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    seconds.ok_or_else(|| Refusal::machine(format!("/proc/uptime says `{}`", text.trim())))
}

/// A shell on the console, until it ends.
fn shell() -> Result<(), Refusal> {
    let failed = |e: std::io::Error| Refusal::machine(format!("the shell: {e}"));
    let mut shell = Command::new("/bin/sh");
    shell.env("PATH", "/bin").env("HOME", "/root").env("TERM", "linux").current_dir("/root");
    shell.status().map(|_| ()).map_err(failed)
}
