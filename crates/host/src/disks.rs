//! [`Disks`]: the disks of a workload, made or bound for one run.
//!
//! A disk that is made is a loop device on a sparse file without a name. A disk that is bound is a device somebody names;
//! one that anything of the machine uses is refused. Either holds a file system (ext4) that is mounted for this process
//! alone, so that a cold start is an unmount of ours and never a cache drop of the whole machine. All of that goes with the
//! process, however it ends; the I/O scheduler, which would stay, is set under the journal and read back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use surety_device::profile::Profile;
use surety_kernel::block::{BlockDevice, Content, room_in};
use surety_kernel::extents::pieces_of;
use surety_kernel::files::{evict, nameless_in};
use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::mount::DetachedMount;
use surety_kernel::{Kernel, KernelError, clock};
use surety_model::places::{FilePiece, FilePlace, FilePlaces};
use surety_model::platform::DiskDriver;
use surety_model::workload::{Disk, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::{Bytes, Nanos};

use crate::said::said;

mod counter;
mod file_system;
mod in_use;
mod limits;
mod modelled;

pub(crate) use counter::Counter;
use file_system::make_file_system;
pub use in_use::{DiskInUse, PreparedDisk};
use limits::{Limits, limit, tune};
pub use modelled::{Emulated, Emulator, Modelled};
use modelled::{THROTTLING, emulate, set_queue};

/// A device by the name of the disk it stands for.
pub type Bindings = BTreeMap<String, PathBuf>;

/// Without an I/O scheduler, which blk-mq always offers.
const NO_SCHEDULER: &str = "none";
/// Between two looks at Ctrl-C, and at whether a device is free.
const LOOK: Nanos = Nanos::from_millis(20);
/// So long a device may stay in use after its file system was unmounted.
const UNMOUNT_MAX: Nanos = Nanos::from_secs(2);
/// A smaller disk does not hold a file system with a journal.
const MAKE_MIN: Bytes = Bytes(16 << 20);

/// The disks of a run.
#[derive(Debug, Default)]
pub struct Disks<'a> {
    list: Vec<RunDisk<'a>>,
}

/// One disk of a run. Dropping unmounts it, gives it its scheduler back, and detaches it.
#[derive(Debug)]
pub struct RunDisk<'a> {
    name: String,
    // In this order: what is on it, what its queue was given, how it schedules, itself, and what it stands on.
    mount: Option<DetachedMount>,
    settings: Vec<Journalled<'a>>,
    tunables: BTreeMap<String, u64>,
    /// Writes of the page cache are throttled, as asked for.
    throttles: bool,
    /// Its driver takes more requests at a time than its model, and no `depth` limits them.
    overtakes: bool,
    _scheduler: Option<Journalled<'a>>,
    _limits: Limits<'a>,
    device: BlockDevice,
    backing: Option<Backing<'a>>,
    directories: Vec<String>,
    /// Files that were made on it, where it has a model.
    files: Mutex<Vec<FilePlace>>,
}

/// What a disk that was made stands on.
#[derive(Debug)]
enum Backing<'a> {
    File(File, Bytes),
    Model(Box<dyn Emulated + 'a>),
}

/// What disks are made with.
#[derive(Clone)]
pub struct Workshop<'a> {
    pub kernel: &'a dyn Kernel,
    /// Where a change of a scheduler is written down first.
    pub journal: Option<&'a Journal>,
    /// Carried by the program that makes the file system.
    pub mark: Option<String>,
    /// Ends a long preparation.
    pub cancel: &'a Cancel,
    /// Makes modelled disks; `None`: there are none here.
    pub emulator: Option<&'a dyn Emulator>,
    /// What is left to chance in them.
    pub seed: u64,
    /// Texts of profiles by the names of their files.
    pub files: &'a BTreeMap<String, String>,
}

impl<'a> Disks<'a> {
    /// Makes or binds every disk of a workload.
    ///
    /// # Errors
    /// In words: a device that is used, a scheduler this kernel does not offer (with those it does), no room, no
    /// privilege, no `mkfs.ext4`.
    pub fn prepare(
        workload: &Workload,
        bindings: &Bindings,
        workshop: &Workshop<'a>,
    ) -> Result<Disks<'a>, WorldError> {
        if let Some((name, _)) = bindings.iter().find(|(n, _)| !workload.disks.iter().any(|d| d.name == **n))
        {
            let known: Vec<&str> = workload.disks.iter().map(|d| d.name.as_str()).collect();
            let why = match known.as_slice() {
                [] => "the workload has no [disk.NAME]".to_owned(),
                known => format!("the workload's disks are {}", known.join(", ")),
            };
            return Err(unsupported(name, why));
        }
        let one = |disk: &Disk| RunDisk::prepare(disk, bindings.get(&disk.name), workshop);
        Ok(Disks { list: workload.disks.iter().map(one).collect::<Result<_, _>>()? })
    }

    /// The disk of this name.
    pub fn get(&self, name: &str) -> Option<&RunDisk<'a>> {
        self.list.iter().find(|d| d.name == name)
    }

    /// The disk of this name, to make it cold.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut RunDisk<'a>> {
        self.list.iter_mut().find(|d| d.name == name)
    }

    /// From now on they are measured: I/O schedulers of disks that were made, and modelled disks, begin anew. What was written before, files and file
    /// systems, told a scheduler how fast the disk is, and was written by modelled ones in no time.
    ///
    /// # Errors
    /// As [`Disks::prepare`].
    pub fn begin(&mut self, workshop: &Workshop<'a>) -> Result<(), WorldError> {
        self.list.iter_mut().try_for_each(|disk| disk.begin(workshop))
    }

    /// Modelled disks answer at once until the next [`Disks::begin`].
    pub fn pause(&self) {
        self.list.iter().filter_map(RunDisk::emulated).for_each(Emulated::pause);
    }

    /// What drives those that have a model.
    pub fn driver(&self) -> DiskDriver {
        let modelled = self.list.iter().find_map(RunDisk::emulated);
        modelled.map_or(DiskDriver::OfDisk, |disk| DiskDriver::Loop { tags: disk.device().tags() })
    }

    /// Where the files of a workload lie on those that have a model.
    pub fn places(&self, workload: &Workload) -> Vec<FilePlaces> {
        let of = |disk: &RunDisk<'_>| disk.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let files: Vec<FilePlace> = self.list.iter().flat_map(of).collect();
        let places = || FilePlaces { of: workload.files_in_words(), files };
        if self.list.iter().any(|disk| disk.emulated().is_some()) { vec![places()] } else { Vec::new() }
    }

    /// Why what was measured on them decides nothing.
    pub fn objections(&self) -> Vec<String> {
        let of =
            |disk: &RunDisk<'_>| Some(format!("disk.{} was {}", disk.name, disk.emulated()?.objection()?));
        self.list.iter().filter_map(of).collect()
    }

    /// What a reader needs to judge numbers measured on them, by name, read back from the kernel.
    pub fn environment(&self, kernel: &dyn Kernel) -> BTreeMap<String, String> {
        self.list.iter().flat_map(|disk| disk.environment(kernel)).collect()
    }
}

impl<'a> RunDisk<'a> {
    fn prepare(
        disk: &Disk,
        bound: Option<&PathBuf>,
        workshop: &Workshop<'a>,
    ) -> Result<RunDisk<'a>, WorldError> {
        let name = &disk.name;
        let (device, backing) = RunDisk::device(disk, bound, workshop)?;
        let taken = disk.model.as_deref().and_then(|model| Profile::of_model(model, workshop.files).ok());
        let more = |profile: Profile| {
            device.tags().is_none_or(|tags| u64::from(tags) > u64::try_from(profile.depth()).unwrap_or(0))
        };
        let overtakes = disk.depth.is_none() && taken.is_some_and(more);
        let limits = device.keeping_read_ahead(|| limit(disk, &device, workshop))?;
        let scheduler = match &disk.scheduler {
            Some(wanted) => Some(set_scheduler(name, &device, wanted, workshop)?),
            None => None,
        };
        let mut settings = match &backing {
            Some(Backing::Model(made)) => set_queue((name, disk.wbt.is_some()), &**made, workshop)?,
            _ => Vec::new(),
        };
        settings.extend(tune(name, &disk.tunables, &device, workshop)?);
        let content = match &backing {
            Some(_) => Content::Nothing,
            None => device.content().map_err(|e| failed(name, "cannot be read", &e.to_string()))?,
        };
        match content {
            Content::Nothing => {
                device.keeping_read_ahead(|| {
                    make_file_system((name, disk.journal != Some(false)), device.path(), workshop)
                })?;
            }
            Content::Ext => {}
            Content::Other => {
                let why =
                    "it holds something that is no ext file system: name another, or clear it (wipefs -a)";
                return Err(failed(name, &format!("is not written over ({})", device.path().display()), why));
            }
        }
        let mut disk = RunDisk {
            name: name.clone(),
            mount: None,
            settings,
            tunables: disk.tunables.clone(),
            throttles: disk.wbt.is_some(),
            overtakes,
            _scheduler: scheduler,
            _limits: limits,
            device,
            backing,
            directories: Vec::new(),
            files: Mutex::default(),
        };
        disk.mount()?;
        Ok(disk)
    }

    /// Its device, and what that stands on where it was made for the run.
    fn device(
        disk: &Disk,
        bound: Option<&PathBuf>,
        workshop: &Workshop<'a>,
    ) -> Result<(BlockDevice, Option<Backing<'a>>), WorldError> {
        let name = &disk.name;
        Ok(match (bound, &disk.model, disk.make) {
            (Some(_), Some(model), _) => {
                let why = format!(
                    "it cannot be bound and be as fast as `{model}`: leave out one of --disk and `model`"
                );
                return Err(unsupported(name, why));
            }
            (_, None, _) if !disk.faults.is_empty() => {
                return Err(unsupported(
                    name,
                    "only a disk with a `model` fails where it is told to: leave `faults` out",
                ));
            }
            (None, Some(model), size) => {
                let made = emulate(disk, model, size, workshop)?;
                let device = made.device().again();
                (
                    device.map_err(|e| failed(name, "cannot be used", &e.to_string()))?,
                    Some(Backing::Model(made)),
                )
            }
            (Some(path), None, _) => (bind(name, path)?, None),
            (None, None, Some(size)) => {
                let (device, file) = make(name, size)?;
                (device, Some(Backing::File(file, size)))
            }
            (None, None, None) => {
                let why = format!(
                    "it is neither made nor bound; give it `make = \"1GiB\"`, or --disk {name}=/dev/loop3"
                );
                return Err(unsupported(name, why));
            }
        })
    }

    /// The I/O scheduler begins anew, and the model, on a disk that was made: on one that was bound the scheduler's tunables may be its owner's.
    fn begin(&mut self, workshop: &Workshop<'a>) -> Result<(), WorldError> {
        let scheduler = workshop.kernel.read_text(&self.device.scheduler_file());
        if self.backing.is_some() && scheduler.is_ok_and(|text| in_force(&text) != NO_SCHEDULER) {
            self.settings.clear();
            // Another for a moment, which is taken back.
            drop(set_scheduler(&self.name, &self.device, NO_SCHEDULER, workshop)?);
            if let Some(Backing::Model(made)) = &self.backing {
                self.settings = set_queue((&self.name, self.throttles), &**made, workshop)?;
            }
            self.settings.extend(tune(&self.name, &self.tunables, &self.device, workshop)?);
        }
        self.emulated().into_iter().for_each(Emulated::begin);
        Ok(())
    }

    /// Whether best effort goes before streams in its driver, as far as that takes more than a disk of its model.
    pub fn overtakes(&self) -> bool {
        self.overtakes
    }

    /// The root of its file system; valid in this process, and in what it starts until the program begins.
    pub fn directory(&self) -> PathBuf {
        self.mount.as_ref().map_or_else(PathBuf::new, DetachedMount::root)
    }

    /// Keeps where a file lies that was made on it for an activity.
    pub fn note(&self, activity: &str, file: &File, bytes: u64) {
        let Some(pieces) = self.emulated().and_then(|_| pieces_of(file)) else { return };
        let pieces = pieces.into_iter().map(|(at, sector)| FilePiece { at, sector }).collect();
        let place = FilePlace { disk: self.name.clone(), activity: activity.to_owned(), bytes, pieces };
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }

    /// Makes an empty directory at its root, in place of one that a killed run left; removed with everything in it before a
    /// disk that was bound is given back.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn make_directory(&mut self, name: &str) -> io::Result<PathBuf> {
        let path = self.directory().join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&path)?,
        }
        self.directories.push(name.to_owned());
        Ok(path)
    }

    /// The file below, where the device goes through the page cache to it.
    pub fn below(&self) -> Option<File> {
        match &self.backing {
            Some(Backing::File(file, _)) if self.device.is_direct() == Some(false) => file.try_clone().ok(),
            _ => None,
        }
    }

    /// What the kernel counts of it.
    pub(crate) fn counter(&self) -> Counter {
        Counter::new(self.device.queue_file("../stat"))
    }

    fn emulated(&self) -> Option<&dyn Emulated> {
        match &self.backing {
            Some(Backing::Model(disk)) => Some(&**disk),
            _ => None,
        }
    }

    /// Forgets everything the machine remembers of this disk's content, and of nothing else: unmounts it, drops what is
    /// cached of the device (and of the file below), and mounts it again.
    ///
    /// # Errors
    /// In words, when a file on it is still open.
    pub fn make_cold(&mut self) -> Result<(), WorldError> {
        self.mount = None;
        let until = clock::monotonic() + UNMOUNT_MAX;
        while self.device.is_claimed() {
            if clock::monotonic() >= until {
                self.mount()?;
                return Err(failed(
                    &self.name,
                    "cannot be made cold",
                    "a file on it is still open: close it first",
                ));
            }
            let _ = clock::sleep_until(clock::monotonic() + LOOK, None);
        }
        let flushed = self.device.flush();
        flushed.map_err(|error| failed(&self.name, "cannot be made cold", &error.to_string()))?;
        self.forget_cache();
        if let Some(Backing::File(file, _)) = &self.backing {
            let dropped = file.sync_data().and_then(|()| evict(file));
            dropped.map_err(|error| failed(&self.name, "cannot be made cold", &error.to_string()))?;
        }
        self.mount()
    }

    /// Has a modelled disk forget what its own cache has, unless requests are under way.
    pub fn forget_cache(&self) {
        self.emulated().into_iter().for_each(Emulated::forget_cache);
    }

    fn mount(&mut self) -> Result<(), WorldError> {
        let mount = || DetachedMount::of_device(c"ext4", self.device.path());
        let mounted = self.device.keeping_read_ahead(mount);
        self.mount =
            Some(mounted.map_err(|error| failed(&self.name, "cannot be mounted", &error.to_string()))?);
        Ok(())
    }

    fn environment(&self, kernel: &dyn Kernel) -> Vec<(String, String)> {
        let path = self.device.path().display();
        let device = match (&self.backing, self.device.is_direct()) {
            (Some(Backing::File(_, size)), Some(true)) => {
                format!("{path} on a file of {size}, past the page cache")
            }
            (Some(Backing::File(_, size)), _) => {
                format!("{path} on a file of {size}, through the page cache")
            }
            (Some(Backing::Model(_)), _) => format!("{path} as fast as a model"),
            (None, _) => format!("{path}"),
        };
        let scheduler = kernel.read_text(&self.device.scheduler_file()).ok();
        let rotational = self.device.queue("rotational").map(|text| if text == "1" { "yes" } else { "no" });
        let unknown = || "not known".to_owned();
        let say = |what: &str, value: String| (format!("disk {}{what}", self.name), value);
        let modelled = self.emulated().map(Emulated::said).unwrap_or_default();
        let modelled = modelled.into_iter().map(|(what, value)| say(&format!(" {what}"), value));
        let mut said = vec![
            say("", device),
            say(" file system", "ext4".to_owned()),
            say(" scheduler", scheduler.map_or_else(unknown, |text| in_force(&text))),
            say(" queue depth", self.device.queue("nr_requests").unwrap_or_else(unknown)),
            say(
                " read-ahead",
                self.device.queue("read_ahead_kb").map_or_else(unknown, |kib| format!("{kib} KiB")),
            ),
            say(" rotational", rotational.map_or_else(unknown, str::to_owned)),
        ];
        let throttled = self.device.queue(THROTTLING).filter(|target| target != "0");
        said.push(say(" writes throttled", throttled.map_or("no".to_owned(), |us| format!("above {us} us"))));
        said.extend(modelled);
        said
    }
}

impl Drop for RunDisk<'_> {
    fn drop(&mut self) {
        // What was made for the run goes as a whole.
        if self.backing.is_none() && self.mount.is_some() {
            for name in &self.directories {
                let _ = fs::remove_dir_all(self.directory().join(name));
            }
        }
    }
}

fn unsupported(name: &str, why: impl Into<String>) -> WorldError {
    WorldError::Unsupported { world: "host".to_owned(), object: format!("disk.{name}"), why: why.into() }
}

fn failed(name: &str, what: &str, remedy: &str) -> WorldError {
    WorldError::MachineFor {
        object: format!("disk.{name}"),
        what: format!("disk.{name} {what}"),
        remedy: remedy.to_owned(),
    }
}

/// A device that somebody names.
fn bind(name: &str, path: &Path) -> Result<BlockDevice, WorldError> {
    BlockDevice::unused(path).map_err(|error| failed(name, "cannot be bound", &error.to_string()))
}

/// A loop device on a file of this size, and the file.
fn make(name: &str, size: Bytes) -> Result<(BlockDevice, File), WorldError> {
    let directory = std::env::temp_dir();
    let in_words = |error: &io::Error| {
        let remedy = "set TMPDIR to a directory that can be written and has room";
        failed(name, &format!("cannot be made in {}: {}", directory.display(), said(error)), remedy)
    };
    if size < MAKE_MIN {
        return Err(unsupported(name, format!("`make` is at least {MAKE_MIN}: a file system has to fit")));
    }
    let room = Bytes(room_in(&directory).map_err(|e| in_words(&e))?);
    if room < size {
        let what = format!(
            "of {size} does not fit {}, where {} MB are free",
            directory.display(),
            room.0 / 1_000_000
        );
        return Err(failed(name, &what, "make it smaller, or set TMPDIR to a directory with room"));
    }
    let made = nameless_in(&directory).or_else(|_| tempfile::tempfile_in(&directory));
    let file = made.and_then(|file| file.set_len(size.0).map(|()| file)).map_err(|e| in_words(&e))?;
    let device = BlockDevice::on_file(&file);
    let device = device.map_err(|error: KernelError| failed(name, "cannot be made", &error.to_string()))?;
    Ok((device, file))
}

/// Sets the I/O scheduler under the journal and reads it back.
pub(crate) fn set_scheduler<'a>(
    name: &str,
    device: &BlockDevice,
    wanted: &str,
    workshop: &Workshop<'a>,
) -> Result<Journalled<'a>, WorldError> {
    let file = device.scheduler_file();
    let in_words = |error: String| failed(name, &format!("cannot be given the scheduler `{wanted}`"), &error);
    let kernel = workshop.kernel;
    let before = kernel.read_text(&file).map_err(|error| in_words(error.to_string()))?;
    if !offered(&before).any(|one| one == wanted) {
        let list: Vec<&str> = offered(&before).collect();
        let why = format!("this kernel offers no scheduler `{wanted}` there; it offers {}", list.join(", "));
        return Err(unsupported(name, why));
    }
    let Some(journal) = workshop.journal else {
        return Err(in_words("there is no journal to write the change down in".to_owned()));
    };
    let id = journal.write_text(kernel, &file, wanted).map_err(|error| in_words(error.to_string()))?;
    let entry = Journalled::of(journal, kernel, id);
    let after = kernel.read_text(&file).map_err(|error| in_words(error.to_string()))?;
    if in_force(&after) != wanted {
        return Err(in_words(format!(
            "the kernel kept `{}`; another program may be changing it",
            in_force(&after)
        )));
    }
    Ok(entry)
}

/// The schedulers in the text of a queue's `scheduler` file.
pub(crate) fn offered(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']']))
}

/// The one of them that is in force: the bracketed one, or the only one.
fn in_force(text: &str) -> String {
    let mut words = text.split_ascii_whitespace();
    let bracketed = words.clone().find(|word| word.starts_with('['));
    bracketed.or(words.next()).unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use surety_kernel::journal::RuntimeDir;
    use surety_kernel::{RealKernel, ScriptedKernel};

    #[test]
    fn the_words_of_a_scheduler_file() {
        let text = "none [mq-deadline] kyber bfq\n";
        assert_eq!(offered(text).collect::<Vec<_>>(), ["none", "mq-deadline", "kyber", "bfq"]);
        assert_eq!(in_force(text), "mq-deadline");
        assert_eq!(in_force("none\n"), "none");
        assert_eq!(in_force(""), "");
    }

    fn workshop<'a>(
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
        cancel: &'a Cancel,
    ) -> Workshop<'a> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Workshop { kernel, journal, mark: None, cancel, emulator: None, seed: 1, files: &NONE }
    }

    fn disk(scheduler: Option<&str>) -> Workload {
        let scheduler = scheduler.map(str::to_owned);
        let disk = Disk {
            name: "d".to_owned(),
            make: Some(Bytes(32 << 20)),
            scheduler,
            model: None,
            on: None,
            io_priority: None,
            depth: None,
            request: None,
            wbt: None,
            journal: None,
            read_ahead: None,
            best_effort: None,
            group: None,
            tunables: Default::default(),
            faults: Vec::new(),
        };
        Workload { disks: vec![disk], ..Workload::default() }
    }

    #[test]
    fn what_cannot_be_a_disk_is_refused_in_words() {
        let kernel = ScriptedKernel::new(1);
        let cancel = Cancel::default();
        let workshop = workshop(&kernel, None, &cancel);
        let words = |workload: &Workload, bound: &[(&str, &str)]| {
            let bindings = bound.iter().map(|(n, p)| ((*n).to_owned(), PathBuf::from(p))).collect();
            Disks::prepare(workload, &bindings, &workshop).unwrap_err().to_string()
        };
        let mut of = disk(None);
        of.disks[0].make = None;
        assert!(words(&of, &[]).contains("--disk d="), "{}", words(&of, &[]));
        assert!(words(&of, &[("e", "/dev/loop0")]).contains("disks are d"));
        assert!(words(&of, &[("d", "/etc/passwd")]).contains("block device"));
        of.disks[0].make = Some(Bytes(4096));
        assert!(words(&of, &[]).contains("16MiB"));
        of.disks[0].make = Some(Bytes(1 << 60));
        assert!(words(&of, &[]).contains("does not fit"));
        of.disks[0].model = Some("hdd-2004".to_owned());
        assert!(words(&of, &[]).contains("model"));
    }

    #[test]
    fn a_disk_is_made_given_its_scheduler_made_cold_and_taken_away() {
        let kernel = RealKernel::new();
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let cancel = Cancel::default();
        let workshop = workshop(&kernel, Some(&journal), &cancel);
        let none = Bindings::new();
        let refused = Disks::prepare(&disk(Some("cfq")), &none, &workshop).unwrap_err();
        if matches!(refused, WorldError::Machine { .. }) {
            eprintln!("SKIPPED: {refused}");
            return;
        }
        assert!(refused.to_string().contains("it offers none"), "{refused}");
        let mut made = match Disks::prepare(&disk(Some("none")), &none, &workshop) {
            Ok(made) => made,
            Err(refused) => {
                eprintln!("SKIPPED: {refused}");
                return;
            }
        };
        assert_eq!(made.environment(&kernel)["disk d scheduler"], "none");
        assert_eq!(journal.open_entries().len(), 1);
        let one = made.get_mut("d").unwrap();
        let path = one.directory().join("kept");
        let mut file = File::create(&path).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        // Open files keep it warm, and that is said; the disk goes on to work.
        assert!(one.make_cold().unwrap_err().to_string().contains("still open"));
        drop(file);
        one.make_cold().unwrap();
        let path = one.directory().join("kept");
        assert_eq!(std::fs::read(path).unwrap(), [7; 1 << 20]);
        let sysfs = one.device.scheduler_file().parent().unwrap().join("../loop/backing_file");
        assert!(sysfs.exists());
        drop(made);
        assert!(!sysfs.exists());
        assert_eq!(journal.open_entries().len(), 0);
    }

    /// The limits and tunables of a disk that is its owner's are in force for the run, and as before afterwards.
    #[test]
    fn a_disk_is_limited_for_the_run_and_given_back() {
        let kernel = RealKernel::new();
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let cancel = Cancel::default();
        let workshop = workshop(&kernel, Some(&journal), &cancel);
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        let device = match BlockDevice::on_file(&file) {
            Ok(device) => device,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let state = || {
            let scheduler = kernel.read_text(&device.scheduler_file()).unwrap();
            let rest = ["nr_requests", "max_sectors_kb", "read_ahead_kb", THROTTLING];
            let rest = rest.map(|name| device.queue(name));
            (in_force(&scheduler), rest)
        };
        let before = state();
        let mut limited = disk(Some("mq-deadline"));
        let wanted = &mut limited.disks[0];
        (wanted.make, wanted.depth, wanted.request) = (None, Some(4), Some(Bytes(128 << 10)));
        wanted.tunables = BTreeMap::from([("async_depth".to_owned(), 16)]);
        let throttles = device.queue(THROTTLING).is_some();
        wanted.wbt = throttles.then_some(Nanos::from_millis(1));
        let bindings = Bindings::from([("d".to_owned(), device.path().to_owned())]);
        let mut made = match Disks::prepare(&limited, &bindings, &workshop) {
            Ok(made) => made,
            Err(refused) => return eprintln!("SKIPPED: {refused}"),
        };
        for _ in 0..2 {
            assert_eq!(in_force(&kernel.read_text(&device.scheduler_file()).unwrap()), "mq-deadline");
            assert_eq!(device.queue("max_sectors_kb").as_deref(), Some("128"));
            assert_eq!(device.queue("iosched/async_depth").as_deref(), Some("16"));
            assert!(!throttles || device.queue(THROTTLING).as_deref() == Some("1000"));
            made.begin(&workshop).unwrap();
        }
        drop(made);
        assert_eq!(state(), before);
        assert_eq!(journal.open_entries().len(), 0);

        limited.disks[0].tunables = BTreeMap::from([("no_such".to_owned(), 1)]);
        let refused = Disks::prepare(&limited, &bindings, &workshop).unwrap_err();
        assert!(refused.to_string().contains("no tunable `no_such`"), "{refused}");
        limited.disks[0].depth = Some(3);
        let refused = Disks::prepare(&limited, &bindings, &workshop).unwrap_err();
        assert!(refused.to_string().contains("fewer than 4 requests"), "{refused}");
        assert_eq!(state(), before);
    }
}
