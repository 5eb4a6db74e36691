//! Changes under the journal: read the old value, record it, make the change; and how each kind is undone.

use std::path::{Path, PathBuf};

use surety_units::{CpuSet, Nanos, Tid};

use super::given::undo_given;
use super::{Entry, EntryId, Journal, JournalError, is_permitted};
use crate::command::{MARK_VARIABLE, group};
use crate::cpu_group::GIVEN;
use crate::error::{KernelError, Operation};
use crate::kernel::{Kernel, ProcessIdentity};
use crate::mount::{DetachedMount, MOUNTS, source_at};
use crate::sched::{DEADLINE_RUNTIME_MIN, SchedAttr, SchedPolicy};
use crate::transition::{Owed, set_scheduler};

/// What undoing an entry came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undone {
    /// The old value is back, the thing we made is gone.
    Restored,
    /// There was nothing to undo: the change had not been made, or was undone already.
    AsBefore,
    /// The thread, process or file is gone, or another has its number.
    Gone,
    /// Somebody changed it after us; it is left as they want it.
    ChangedByOthers,
    /// The entry names what no journal of ours would; nothing was done.
    NotPermitted,
}

impl Journal {
    /// Sets a thread's scheduling under the journal. The thread is named by its number; 0 is ESRCH here.
    pub fn set_scheduler(
        &self,
        kernel: &dyn Kernel,
        tid: Tid,
        set: SchedAttr,
    ) -> Result<EntryId, JournalError> {
        let (thread, old) = (kernel.identity(tid)?, kernel.scheduler(tid)?);
        self.watch()?;
        self.change(Entry::Scheduler { thread, old, set }, || set_scheduler(kernel, &self.owed, tid, &set))
    }

    /// Sets a thread's affinity under the journal.
    pub fn set_affinity(&self, kernel: &dyn Kernel, tid: Tid, set: CpuSet) -> Result<EntryId, JournalError> {
        let (thread, old) = (kernel.identity(tid)?, kernel.affinity(tid)?);
        self.watch()?;
        self.change(Entry::Affinity { thread, old, set }, || kernel.set_affinity(tid, &set))
    }

    /// Writes a file of /proc or /sys under the journal.
    pub fn write_text(&self, kernel: &dyn Kernel, path: &Path, set: &str) -> Result<EntryId, JournalError> {
        let old = chosen(&kernel.read_text(path)?).to_owned();
        let disk = disk_of(kernel, path);
        let entry = Entry::File { path: path.to_owned(), old, set: set.to_owned(), disk };
        self.change(entry, || kernel.write_text(path, set))
    }

    /// Makes a control group under the journal; its name must begin with `surety`.
    pub fn make_dir(&self, kernel: &dyn Kernel, path: &Path) -> Result<EntryId, JournalError> {
        self.change(Entry::Directory { path: path.to_owned() }, || kernel.make_dir(path))
    }

    /// Makes a control group under the journal, and says where: whoever is in it ends when it is undone. `name` becomes part of a name
    /// that no other one has.
    pub fn make_group(
        &self,
        kernel: &dyn Kernel,
        parent: &Path,
        name: &str,
    ) -> Result<(EntryId, PathBuf), JournalError> {
        let path = parent.join(format!("{}-{name}", self.own_name(kernel)?));
        let id = self.change(Entry::Group { path: path.clone() }, || kernel.make_dir(&path))?;
        Ok((id, path))
    }

    /// Gives a mount its place under the journal: a path without links, and what the mount is called, which begins with `surety`.
    pub fn attach(&self, mount: DetachedMount, path: &Path, source: &str) -> Result<EntryId, JournalError> {
        let entry = Entry::Mount { path: path.to_owned(), source: source.to_owned() };
        self.change(entry, || mount.attach(path))
    }

    /// The same for a mount that gets its place as it is made, by the helper of users who may not mount.
    pub fn attach_by<T>(
        &self,
        path: &Path,
        source: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<(EntryId, Result<T, String>), JournalError> {
        let id = self.record(Entry::Mount { path: path.to_owned(), source: source.to_owned() })?;
        let made = make();
        if made.is_err() {
            self.done(id)?;
        }
        Ok((id, made))
    }

    /// Sees to it that somebody would take the change back, where that is wanted.
    fn watch(&self) -> Result<(), JournalError> {
        self.watchdog.watch(self.directory.path(), &self.name).map_err(JournalError::Unwatched)
    }

    /// Records an entry, makes the change, and takes the entry back when the kernel refused the change.
    pub(super) fn change(
        &self,
        entry: Entry,
        make: impl FnOnce() -> Result<(), KernelError>,
    ) -> Result<EntryId, JournalError> {
        debug_assert!(is_permitted(&entry), "recovery would refuse {entry:?}");
        let id = self.record(entry)?;
        match make() {
            Ok(()) => Ok(id),
            // A refused change has changed nothing, except that leaving SCHED_DEADLINE is two steps, of which
            // the first may have been made. Undoing sorts that out; what cannot be undone now stays recorded.
            Err(error) => {
                let made = matches!(
                    self.entry(id),
                    Some(
                        Entry::Directory { .. }
                            | Entry::Scratch { .. }
                            | Entry::Group { .. }
                            | Entry::Mount { .. }
                    )
                );
                if made {
                    // None was made, and one that is there is another's: undoing would remove it.
                    self.done(id)?;
                }
                Err(error.into())
            }
        }
    }

    /// Undoes one change, where it is still as we left it. Later changes of the same object are undone first,
    /// or the older value could not be told from one that others set.
    pub fn undo(&self, kernel: &dyn Kernel, id: EntryId) -> Result<Undone, JournalError> {
        let Some(entry) = self.entry(id) else { return Ok(Undone::AsBefore) };
        let later = self.open_entries().into_iter().rev().take_while(|(other, _)| *other > id);
        for (other, _) in later.filter(|(_, other)| is_same_object(other, &entry)) {
            self.undo_alone(kernel, other)?;
        }
        self.undo_alone(kernel, id)
    }

    fn undo_alone(&self, kernel: &dyn Kernel, id: EntryId) -> Result<Undone, JournalError> {
        let Some(entry) = self.entry(id) else { return Ok(Undone::AsBefore) };
        let undone = undo(kernel, &self.owed, &entry)?;
        self.done(id)?;
        Ok(undone)
    }

    /// Undoes every change, last one first, going on after failures. A change that could not be undone, and
    /// those of the same object before it, stay in the journal; the latter are not in the result.
    pub fn undo_all(&self, kernel: &dyn Kernel) -> Vec<(Entry, Result<Undone, JournalError>)> {
        let mut results: Vec<(Entry, Result<Undone, JournalError>)> = Vec::new();
        for (id, entry) in self.open_entries().into_iter().rev() {
            let blocked =
                results.iter().any(|(other, result)| result.is_err() && is_same_object(other, &entry));
            if !blocked {
                let result = self.undo_alone(kernel, id);
                results.push((entry, result));
            }
        }
        results
    }
}

/// Whether two entries change the same thing, so that only the later one can be undone first.
pub(super) fn is_same_object(one: &Entry, other: &Entry) -> bool {
    match (one, other) {
        (Entry::Scheduler { thread: a, .. }, Entry::Scheduler { thread: b, .. })
        | (Entry::Affinity { thread: a, .. }, Entry::Affinity { thread: b, .. })
        // A reservation keeps the thread from getting a smaller affinity back.
        | (Entry::Scheduler { thread: a, .. }, Entry::Affinity { thread: b, .. }) => a == b,
        (Entry::File { path: a, .. }, Entry::File { path: b, .. }) => a == b,
        _ => false,
    }
}

/// Undoes one entry, where it is still as its owner left it.
pub(super) fn undo(kernel: &dyn Kernel, owed: &Owed, entry: &Entry) -> Result<Undone, KernelError> {
    if !is_permitted(entry) {
        return Ok(Undone::NotPermitted);
    }
    let result = match entry {
        Entry::Scheduler { thread, old, set } => undo_scheduler(kernel, owed, *thread, (old, set)),
        Entry::Affinity { thread, old, set } => undo_affinity(kernel, *thread, old, set),
        Entry::File { path, old, set, disk } => match now_at(kernel, path, disk.as_deref()) {
            Name::Ours | Name::Nobodys => undo_file(kernel, path, old, set),
            Name::Anothers if outlives_device(path) => {
                Err(KernelError::new(Operation::Write, path.display().to_string(), libc::EBUSY))
            }
            Name::Anothers => Ok(Undone::Gone),
        },
        Entry::Directory { path } => kernel.remove_dir(path).map(|()| Undone::Restored),
        Entry::Group { path } => group::end(kernel, path).map(|was_there| match was_there {
            true => Undone::Restored,
            false => Undone::AsBefore,
        }),
        Entry::Scratch { path } => kernel.remove_tree(path).map(|()| Undone::Restored),
        Entry::TraceInstance { name } => {
            let path = kernel.tracefs_root()?.join("instances").join(name);
            kernel.remove_dir(&path).map(|()| Undone::Restored)
        }
        Entry::Marked { mark } => end_marked(kernel, mark),
        Entry::Process { process } => kernel.signal(*process, libc::SIGKILL).map(|alive| match alive {
            true => Undone::Restored,
            false => Undone::Gone,
        }),
        Entry::Mount { path, source } => undo_mount(kernel, path, source),
    };
    match result {
        Err(error) if error.is_gone() => Ok(match entry {
            Entry::Directory { .. }
            | Entry::Group { .. }
            | Entry::Scratch { .. }
            | Entry::TraceInstance { .. } => Undone::AsBefore,
            _ => Undone::Gone,
        }),
        result => result,
    }
}

/// Takes a mount away, where it is still what is mounted last at its place.
fn undo_mount(kernel: &dyn Kernel, path: &Path, source: &str) -> Result<Undone, KernelError> {
    let mounts = kernel.read_text(Path::new(MOUNTS))?;
    let kind = format!("fuse.{}", crate::fuse::SUBTYPE);
    if source_at(&mounts, path, &kind).as_deref() != Some(source) {
        return Ok(Undone::AsBefore);
    }
    match kernel.unmount(path) {
        // Of a user who may not, and has a helper for it.
        Err(error) if error.errno == libc::EPERM => crate::fuse::unmount(path, true)?,
        unmounted => unmounted?,
    }
    Ok(Undone::Restored)
}

/// Whether the number still is the thread the entry is about.
fn is_same(kernel: &dyn Kernel, thread: ProcessIdentity) -> Result<bool, KernelError> {
    Ok(kernel.identity(thread.pid)? == thread)
}

/// Kills every process that carries a mark, until none is found.
fn end_marked(kernel: &dyn Kernel, mark: &str) -> Result<Undone, KernelError> {
    let variable = format!("{MARK_VARIABLE}={mark}");
    let (mut ended, mut undecided_rounds) = (false, 0);
    // A process may start another while the list is being read; each round is a new list.
    for _ in 0..50 {
        let (mut found, mut undecided) = (false, false);
        for pid in kernel.processes()?.into_iter().filter(|pid| *pid != kernel.own_pid()) {
            // The identity first: the environment then is that one's or nobody's.
            let Ok(process) = kernel.identity(pid) else { continue };
            let environment =
                kernel.read_text(Path::new(&format!("/proc/{pid}/environ"))).unwrap_or_default();
            // A program that is just being loaded has no environment for a moment.
            undecided |= environment.is_empty() && !kernel.is_kernel_thread(pid);
            if environment.split('\0').any(|one| one == variable) && kernel.is_alive(process) {
                found |= kernel.signal(process, libc::SIGKILL)?;
            }
        }
        ended |= found;
        if !found && undecided && undecided_rounds < 5 {
            undecided_rounds += 1;
            kernel.pause(Nanos::from_millis(5));
        } else if !found {
            return Ok(if ended { Undone::Restored } else { Undone::AsBefore });
        }
    }
    Err(KernelError::new(Operation::Signal, format!("the processes marked {mark}"), libc::EAGAIN))
}

fn undo_scheduler(
    kernel: &dyn Kernel,
    owed: &Owed,
    thread: ProcessIdentity,
    (old, set): (&SchedAttr, &SchedAttr),
) -> Result<Undone, KernelError> {
    if !is_same(kernel, thread)? {
        return Ok(Undone::Gone);
    }
    let now = kernel.scheduler(thread.pid)?;
    let back = old.undoing(set);
    if now.is_result_of(&back) {
        return Ok(Undone::AsBefore);
    }
    if !now.is_result_of(set) && !is_half_way_out(&now.policy) {
        return Ok(Undone::ChangedByOthers);
    }
    set_scheduler(kernel, owed, thread.pid, &back)?;
    Ok(Undone::Restored)
}

/// Whether a thread was caught between the two steps out of SCHED_DEADLINE ([`crate::transition`]): nobody
/// else wants a reservation of the least runtime with no bandwidth.
fn is_half_way_out(policy: &SchedPolicy) -> bool {
    match policy {
        SchedPolicy::Deadline { runtime, .. } => {
            *runtime == DEADLINE_RUNTIME_MIN && policy.booked_bandwidth() == 0
        }
        _ => false,
    }
}

fn undo_affinity(
    kernel: &dyn Kernel,
    thread: ProcessIdentity,
    old: &CpuSet,
    set: &CpuSet,
) -> Result<Undone, KernelError> {
    if !is_same(kernel, thread)? {
        return Ok(Undone::Gone);
    }
    let now = kernel.affinity(thread.pid)?;
    if now == *old {
        return Ok(Undone::AsBefore);
    }
    // The kernel keeps only the CPUs that the thread's cpuset allows.
    if !now.is_subset(set) {
        return Ok(Undone::ChangedByOthers);
    }
    kernel.set_affinity(thread.pid, old)?;
    Ok(Undone::Restored)
}

/// Whose a name of /sys is now.
enum Name {
    Ours,
    /// The device that we set something of is gone, and no other one is in its place.
    Nobodys,
    Anothers,
}

/// Whose the name is of the block device whose queue we set something of; what is no such file is ours. A loop device without a file is nobody's.
fn now_at(kernel: &dyn Kernel, path: &Path, disk: Option<&str>) -> Name {
    if disk.is_none() || disk_of(kernel, path).as_deref() == disk {
        return Name::Ours;
    }
    let size = path.ancestors().nth(2).and_then(|device| kernel.read_text(&device.join("size")).ok());
    if size.is_none_or(|size| size.trim() == "0") { Name::Nobodys } else { Name::Anothers }
}

/// Whether what was set of a queue outlives its device: a loop device has its limits from the one before it. It is not taken back while another one
/// is in use.
fn outlives_device(path: &Path) -> bool {
    let device = path.ancestors().nth(2).and_then(Path::file_name);
    device.is_some_and(|name| name.to_string_lossy().starts_with("loop"))
}

/// The number of the block device that a file of a queue is of: no other one has it until the machine restarts.
fn disk_of(kernel: &dyn Kernel, path: &Path) -> Option<String> {
    let queue = path.parent().filter(|directory| directory.ends_with("queue"))?;
    let number = kernel.read_text(&queue.parent()?.join("diskseq")).ok()?;
    Some(number.trim().to_owned())
}

fn undo_file(kernel: &dyn Kernel, path: &Path, old: &str, set: &str) -> Result<Undone, KernelError> {
    let now = kernel.read_text(path)?;
    if path.ends_with(GIVEN)
        && let Some(controller) = set.strip_prefix('+')
    {
        return undo_given(kernel, path, (&now, old), controller);
    }
    let now = chosen(&now);
    if now == chosen(old) {
        // The number of a queue's requests is as before where its I/O scheduler was taken off, the tags of its driver are not: they
        // follow a number that is written and differs (`blk_mq_update_nr_requests`).
        if path.ends_with("queue/nr_requests") && chosen(old) != chosen(set) {
            kernel.write_text(path, chosen(set))?;
            kernel.write_text(path, chosen(old))?;
        }
        return Ok(Undone::AsBefore);
    }
    if now != chosen(set) {
        return Ok(Undone::ChangedByOthers);
    }
    kernel.write_text(path, chosen(old))?;
    Ok(Undone::Restored)
}

/// The value in a file's text: the bracketed word where the file lists choices (`none [mq-deadline] bfq`), else
/// everything without surrounding white space.
fn chosen(text: &str) -> &str {
    let text = text.trim();
    let bracketed = |word: &'_ str| word.len() > 2 && word.starts_with('[') && word.ends_with(']');
    match text.split_ascii_whitespace().find(|word| bracketed(word)) {
        Some(word) => &word[1..word.len() - 1],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedKernel;
    use crate::journal::RuntimeDir;

    /// Taking an I/O scheduler off changes the number back and leaves the tags as they are.
    #[test]
    fn the_requests_of_a_queue_are_written_again_even_where_their_number_is_as_before() {
        let kernel = ScriptedKernel::new(1);
        let (requests, other) =
            ("/sys/block/loop0/queue/nr_requests", "/sys/block/loop0/queue/max_sectors_kb");
        for (path, writes) in [(requests, 2), (other, 0)] {
            let path = Path::new(path);
            kernel.add_file(path, "128");
            let before = kernel.calls().len();
            assert_eq!(undo_file(&kernel, path, "128", "4").unwrap(), Undone::AsBefore);
            let calls = kernel.calls();
            let written = calls[before..].iter().filter(|call| call.operation == Operation::Write).count();
            assert_eq!((written, kernel.read_text(path).unwrap().as_str()), (writes, "128"));
        }
    }

    /// A mount is taken away where it is still there, and no other one.
    #[test]
    fn a_mount_that_was_left_goes_and_anothers_stays() {
        let line = |number: u32, source: &str| {
            format!("{number} 1 0:{number} / /films ro - fuse.surety {source} ro\n")
        };
        let entry = Entry::Mount { path: "/films".into(), source: "surety-7-8".to_owned() };
        let cases = [
            (line(40, "surety-7-8"), Undone::Restored, String::new()),
            (line(40, "surety-9-9"), Undone::AsBefore, line(40, "surety-9-9")),
            // Somebody mounted over it.
            (
                line(40, "surety-7-8") + &line(41, "surety-9-9"),
                Undone::AsBefore,
                line(40, "surety-7-8") + &line(41, "surety-9-9"),
            ),
            (String::new(), Undone::AsBefore, String::new()),
        ];
        for (before, undone, after) in cases {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file(MOUNTS, &before);
            assert_eq!(undo(&kernel, &Owed::default(), &entry).unwrap(), undone, "{before}");
            assert_eq!(kernel.read_text(Path::new(MOUNTS)).unwrap(), after);
        }
        let kernel = ScriptedKernel::new(1);
        let theirs = Entry::Mount { path: "/films".into(), source: "theirs".to_owned() };
        assert_eq!(undo(&kernel, &Owed::default(), &theirs).unwrap(), Undone::NotPermitted);
    }

    #[test]
    fn a_file_of_choices_is_read_by_its_brackets() {
        for (text, value) in [
            ("none [mq-deadline] bfq\n", "mq-deadline"),
            ("12\n", "12"),
            (" a b ", "a b"),
            ("[x]", "x"),
            ("[] y", "[] y"),
        ] {
            assert_eq!(chosen(text), value);
        }
    }

    #[test]
    fn what_others_changed_is_left_to_them() {
        let kernel = ScriptedKernel::new(2);
        kernel.add_thread(Tid(5), Tid(5), "task");
        kernel.add_file("/sys/block/vda/queue/scheduler", "[none] bfq\n");
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let fifo = SchedAttr::from(SchedPolicy::Fifo { priority: 3 });
        let path = Path::new("/sys/block/vda/queue/scheduler");

        let id = journal.set_scheduler(&kernel, Tid(5), fifo).unwrap();
        kernel.interfere(Tid(5), SchedPolicy::Idle.into());
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::ChangedByOthers);
        assert_eq!(kernel.thread(Tid(5)).unwrap().attr.policy, SchedPolicy::Idle);

        let id = journal.set_scheduler(&kernel, Tid(5), fifo).unwrap();
        kernel.end_thread(Tid(5));
        kernel.add_thread(Tid(5), Tid(5), "another");
        kernel.interfere(Tid(5), fifo);
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::Gone, "the number is another's now");
        assert_eq!(kernel.thread(Tid(5)).unwrap().attr, fifo);

        let id = journal.write_text(&kernel, path, "bfq").unwrap();
        kernel.add_file(path, "none bfq [kyber]\n");
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::ChangedByOthers);
        kernel.add_file(path, "[none] bfq\n");
        let id = journal.write_text(&kernel, path, "bfq").unwrap();
        kernel.add_file(path, "none [bfq]\n");
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::Restored);
        assert_eq!(kernel.read_text(path).unwrap(), "none");
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::AsBefore, "undone once");
        let file = journal.path();
        drop(journal);
        assert!(!file.exists(), "a journal with nothing open removes itself");
    }

    /// Another device under the name, with the value that we had set: of a loop device that is taken back when it is gone, of others never.
    #[test]
    fn a_queue_is_that_of_one_device() {
        let kernel = ScriptedKernel::new(1);
        let path = Path::new("/sys/block/loop0/queue/max_sectors_kb");
        let other = Path::new("/sys/block/sdx/queue/max_sectors_kb");
        for (device, file) in [("loop0", path), ("sdx", other)] {
            kernel.add_file(file, "1280\n");
            kernel.add_file(format!("/sys/block/{device}/diskseq"), "12\n");
            kernel.add_file(format!("/sys/block/{device}/size"), "2048\n");
        }
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let [loops, others] = [path, other].map(|file| journal.write_text(&kernel, file, "128").unwrap());
        for device in ["loop0", "sdx"] {
            kernel.add_file(format!("/sys/block/{device}/diskseq"), "14\n");
        }
        assert_eq!(journal.undo(&kernel, others).unwrap(), Undone::Gone);
        assert!(journal.undo(&kernel, loops).is_err(), "another device is in use");
        assert_eq!(kernel.read_text(path).unwrap(), "128");
        kernel.add_file("/sys/block/loop0/size", "0\n");
        assert_eq!(journal.undo(&kernel, loops).unwrap(), Undone::Restored);
        assert_eq!(kernel.read_text(path).unwrap(), "1280");
        assert_eq!(kernel.read_text(other).unwrap(), "128");
    }

    #[test]
    fn an_older_change_is_undone_through_the_newer_ones() {
        let kernel = ScriptedKernel::new(1);
        kernel.add_thread(Tid(5), Tid(5), "task");
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let set = |policy: SchedPolicy| journal.set_scheduler(&kernel, Tid(5), policy.into()).unwrap();
        let first = set(SchedPolicy::Idle);
        let second = set(SchedPolicy::Fifo { priority: 1 });
        assert_eq!(journal.undo(&kernel, first).unwrap(), Undone::Restored);
        assert_eq!(kernel.thread(Tid(5)).unwrap().attr.policy, SchedPolicy::DEFAULT);
        assert_eq!(journal.undo(&kernel, second).unwrap(), Undone::AsBefore);
    }

    #[test]
    fn marked_processes_are_ended_and_no_others() {
        let kernel = ScriptedKernel::new(1);
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        let (id, mark) = journal.mark_children(&kernel).unwrap();
        let variables = [format!("SURETY_MARK={mark}"), format!("SURETY_MARK={mark}0"), "HOME=/".to_owned()];
        for (tid, variable) in (1..).zip(&variables) {
            kernel.add_thread(Tid(tid), Tid(tid), "task");
            kernel.set_environment(Tid(tid), variable);
        }
        assert_eq!(journal.undo(&kernel, id).unwrap(), Undone::Restored);
        assert_eq!(kernel.state().threads.keys().copied().collect::<Vec<_>>(), [Tid(2), Tid(3)]);
    }

    #[test]
    fn a_directory_of_others_is_not_removed() {
        let kernel = ScriptedKernel::new(1);
        let path = Path::new("/sys/fs/cgroup/surety-theirs");
        kernel.add_dir(path);
        let base = tempfile::tempdir().unwrap();
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        assert!(journal.make_dir(&kernel, path).is_err());
        assert!(journal.undo_all(&kernel).is_empty());
        assert!(kernel.exists(path));
    }
}
