//! [`RequestCostProbe`]: the CPU time that this kernel takes for a request of a disk that needs no time, under each I/O scheduler.
//!
//! One thread reads 4 KiB at random places, past the page cache, one read after another. Counted is CPU time, not time: of that thread, and
//! of the kernel's threads `kworker` and `ksoftirqd`, where a part of the way may be done. So it does not matter who else has a CPU
//! meanwhile, but what else those threads do in a round is in it: rounds are short and many, and medians are told.
//!
//! The device is a loop device of our own on a file in memory, whose requests a thread of the kernel carries out and ends
//! (`rq_affinity` 0, so that none ends in an interrupt on an idle CPU, where nobody counts it). In a guest of the lab it is null_blk, which ends each where it is begun.
//! Its schedulers are taken in turns, each several times, and all that was set is given back under the journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use surety_kernel::block::BlockDevice;
use surety_kernel::direct::{Access, DirectQueue, Medium};
use surety_kernel::files::nameless_in;
use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::{Kernel, RealKernel, clock};
use surety_model::record::{ActivityRecord, Record};
use surety_model::request_cost::{DEVICE, activity};
use surety_model::world::{RunOptions, WorldError};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::disks::{Workshop, offered, set_scheduler};
use crate::probe_setup::Surroundings;
use crate::window::Gate;

/// A file system in memory, and the device of null_blk.
const MEMORY: &str = "/dev/shm";
const NULL: &str = "/dev/nullb0";
/// What is read: its size, and that of a read.
const SIZE: u64 = 16 << 20;
const BLOCK: u64 = 4096;
/// Reads of a round, rounds in a turn of which the median is kept (a first one warms up), and turns of each scheduler.
const READS: u32 = 200;
const ROUNDS: usize = 4;
const TURNS: usize = 24;
/// A read that takes longer has failed.
const READ_MAX: Nanos = Nanos::from_secs(5);

/// Measures on a loop device that it makes, or on null_blk.
pub struct RequestCostProbe<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    on_null: bool,
}

/// The device, and the file it stands on.
struct Target {
    device: BlockDevice,
    _file: Option<File>,
}

impl<'a> RequestCostProbe<'a> {
    /// A probe of this kernel, on a loop device that it makes.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> RequestCostProbe<'a> {
        RequestCostProbe { kernel, journal, on_null: false }
    }

    /// The same on the first device of null_blk, which is nobody's: that of a guest.
    pub fn on_null(self) -> RequestCostProbe<'a> {
        RequestCostProbe { on_null: true, ..self }
    }

    /// Measures each of these I/O schedulers that the kernel offers: an activity of that name, see [`surety_model::request_cost`]. On the
    /// first of the options' CPUs.
    ///
    /// # Errors
    /// [`WorldError::Machine`]: no right to make a loop device or set its scheduler, no counts of threads.
    pub fn run(&self, schedulers: &[String], options: &RunOptions) -> Result<Record, WorldError> {
        let mut surroundings = Surroundings::enter(self.kernel, options.cpus, false)?;
        let target = self.target()?;
        let cpu = surroundings.cpus().iter().next().unwrap_or(CpuId(0));
        surroundings.begin();
        let activities = std::thread::scope(|scope| {
            let measured = scope.spawn(|| self.measure(&target, schedulers, (cpu, options)));
            measured.join().unwrap_or_else(|_| Err(failed("the measuring thread panicked")))
        })?;
        let device = if self.on_null {
            "null_blk, ended where they are begun".to_owned()
        } else {
            format!("a loop device on {MEMORY}, rq_affinity 0")
        };
        surroundings.note(DEVICE, &format!("{device}: reads of 4 KiB at random places, one at a time"));
        let (record, _) = surroundings.finish(Vec::new(), &Gate::default());
        Ok(Record { seed: Some(options.seed), activities, ..record })
    }

    fn target(&self) -> Result<Target, WorldError> {
        if self.on_null {
            let device = BlockDevice::unused(Path::new(NULL)).map_err(|e| failed(&e))?;
            return Ok(Target { device, _file: None });
        }
        let file = nameless_in(Path::new(MEMORY)).and_then(|file| file.set_len(SIZE).map(|()| file));
        let file = file.map_err(|e| failed(&format_args!("no file can be made in {MEMORY}: {e}")))?;
        let device = BlockDevice::on_file(&file).map_err(|e| failed(&e))?;
        Ok(Target { device, _file: Some(file) })
    }

    /// Takes the schedulers in turns.
    fn measure(
        &self,
        target: &Target,
        schedulers: &[String],
        (cpu, options): (CpuId, &RunOptions),
    ) -> Result<Vec<ActivityRecord>, WorldError> {
        // A thread that is not moved between CPUs takes less, and always as much. Where that is refused it may be.
        let kernel = RealKernel::new();
        let _ = kernel.set_affinity(kernel.own_tid(), &[cpu].into_iter().collect::<CpuSet>());
        let device = &target.device;
        let Some(journal) = self.journal else {
            return Err(failed("there is no journal to write settings of the device down in"));
        };
        let workshop = Workshop {
            kernel: self.kernel,
            journal: Some(journal),
            mark: None,
            cancel: &options.cancel,
            emulator: None,
            seed: options.seed,
            files: &BTreeMap::new(),
        };
        let affinity = journal.write_text(self.kernel, &device.queue_file("rq_affinity"), "0");
        let _affinity = Journalled::of(journal, self.kernel, affinity.map_err(|e| failed(&e))?);
        let text = self.kernel.read_text(&device.scheduler_file()).map_err(|e| failed(&e))?;
        let schedulers = schedulers.iter().filter(|wanted| offered(&text).any(|one| one == *wanted));
        let mut turns: Vec<(&String, Vec<Nanos>)> = schedulers.map(|one| (one, Vec::new())).collect();
        let mut reader = Reader::new(device)?;
        for _ in 0..TURNS {
            for (scheduler, turns) in &mut turns {
                let _entry = set_scheduler("measured", device, scheduler, &workshop)?;
                turns.push(self.turn(&mut reader, options)?);
            }
        }
        let requests = u64::from(READS) * ROUNDS as u64;
        Ok(turns.iter().map(|(scheduler, turns)| activity(scheduler, turns, requests)).collect())
    }

    /// The CPU time of a read, in the median of a turn's rounds.
    fn turn(&self, reader: &mut Reader, options: &RunOptions) -> Result<Nanos, WorldError> {
        self.round(reader)?;
        let mut rounds = [Nanos::ZERO; ROUNDS];
        for round in &mut rounds {
            if options.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            *round = self.round(reader)?;
        }
        rounds.sort_unstable();
        Ok(rounds[(ROUNDS - 1) / 2])
    }

    /// The CPU time of a read, in the mean of one round.
    fn round(&self, reader: &mut Reader) -> Result<Nanos, WorldError> {
        let workers = self.workers()?;
        let own = clock::thread_cpu_time();
        for _ in 0..READS {
            reader.read()?;
        }
        let mut taken = clock::thread_cpu_time() - own;
        for (tid, time) in self.workers()? {
            taken += time - workers.get(&tid).copied().unwrap_or(Nanos::ZERO);
        }
        Ok(Nanos::new(taken.get() / i64::from(READS)))
    }

    /// CPU time of the kernel's threads that carry out requests or end them.
    fn workers(&self) -> Result<BTreeMap<Tid, Nanos>, WorldError> {
        let mut times = BTreeMap::new();
        for tid in self.kernel.processes().map_err(|e| failed(&e))? {
            let Ok(name) = self.kernel.name(tid) else { continue };
            if !name.starts_with("kworker/") && !name.starts_with("ksoftirqd/") {
                continue;
            }
            // One that has ended since is not counted.
            let Ok(text) = self.kernel.read_text(Path::new(&format!("/proc/{tid}/schedstat"))) else {
                continue;
            };
            let time = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            times.insert(tid, Nanos::new(time.ok_or_else(|| failed("schedstat has no time in it"))?));
        }
        let unknown = "the CPU time of the kernel's threads is not known (/proc/PID/schedstat)";
        if times.is_empty() { Err(failed(unknown)) } else { Ok(times) }
    }
}

/// Reads of a device, at places that repeat in every run.
struct Reader {
    medium: Medium,
    queue: DirectQueue,
    place: u64,
}

impl Reader {
    fn new(device: &BlockDevice) -> Result<Reader, WorldError> {
        let medium = Medium::open(device.path()).map_err(|e| failed(&e))?;
        let queue = DirectQueue::new(1, BLOCK as usize).map_err(|e| failed(&e))?;
        Ok(Reader { medium, queue, place: 0 })
    }

    fn read(&mut self) -> Result<(), WorldError> {
        // A linear congruential generator (Knuth, MMIX): no two neighbours are adjacent, so nothing is merged or taken for a run.
        self.place =
            self.place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let blocks = SIZE.min(self.medium.bytes()) / BLOCK;
        let at = (self.place >> 33) % blocks.max(1) * BLOCK;
        self.queue.submit(0, &self.medium, Access::Read, (at, BLOCK as usize)).map_err(|e| failed(&e))?;
        match self.queue.wait(READ_MAX).map_err(|e| failed(&e))? {
            Some((_, Ok(_))) => Ok(()),
            Some((_, Err(errno))) => Err(failed(&format_args!("a read failed with error {errno}"))),
            None => Err(failed(&format_args!("a read was not done after {READ_MAX}"))),
        }
    }
}

fn failed(why: &(impl std::fmt::Display + ?Sized)) -> WorldError {
    WorldError::Machine {
        what: "the CPU time of requests cannot be measured".to_owned(),
        remedy: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::journal::RuntimeDir;
    use surety_model::request_cost::{count, median};

    #[test]
    fn every_scheduler_that_there_is_has_its_rounds_and_nothing_stays() {
        let kernel = RealKernel::new();
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let probe = RequestCostProbe::new(&kernel, Some(&journal));
        let schedulers = ["none", "no-such", "bfq"].map(str::to_owned);
        let record = match probe.run(&schedulers, &RunOptions::default()) {
            Ok(record) => record,
            Err(refused) => return eprintln!("SKIPPED: {refused}"),
        };
        assert!(median(&record, "none").is_some_and(Nanos::is_positive));
        assert_eq!(median(&record, "no-such"), None);
        let reads = (ROUNDS * TURNS) as u64 * u64::from(READS);
        assert!(record.activities.iter().all(|activity| activity.completed == reads));
        assert_eq!(count(&record, "none"), TURNS);
        assert!(record.in_force.environment[DEVICE].contains(MEMORY));
        assert_eq!(journal.open_entries().len(), 0);
    }

    #[test]
    fn without_a_journal_nothing_is_set() {
        let kernel = RealKernel::new();
        let refused = RequestCostProbe::new(&kernel, None).run(&["none".to_owned()], &RunOptions::default());
        assert!(refused.is_err());
    }
}
