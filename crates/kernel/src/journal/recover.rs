//! [`recover_dead`]: undoing what owners left behind that were killed.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

use super::change::{Undone, is_same_object, undo};
use super::{Entry, EntryId, FORMAT, Header, JournalError, LENGTH_MAX, Line, RuntimeDir};
use crate::error::KernelError;
use crate::kernel::{Kernel, ProcessIdentity};
use crate::transition::Owed;

/// What came of one thing found in the run-time directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovered {
    /// An entry of a dead owner.
    Entry {
        /// Who made the change.
        owner: ProcessIdentity,
        /// The change.
        entry: Box<Entry>,
        /// What undoing it came to; an error leaves it in the journal for the next start.
        result: Result<Undone, KernelError>,
    },
    /// A line before the last is no entry: the file was damaged. The others were used.
    Unreadable {
        /// Whose journal.
        owner: ProcessIdentity,
        /// Line number from 1.
        line: usize,
    },
    /// A file that looks like a journal and was not touched.
    Refused {
        /// Its name in the run-time directory.
        name: String,
        why: String,
    },
}

/// Undoes what dead owners left, newest change first, and removes their journals.
///
/// An owner is dead when nobody holds its journal's lock and no process has its number and start time. After a
/// restart of the machine nothing is left to undo. Run again, it does what it could not do before.
///
/// # Errors
/// Only when the directory itself cannot be read; what concerns one journal is in the result.
pub fn recover_dead(kernel: &dyn Kernel, directory: &RuntimeDir) -> Result<Vec<Recovered>, JournalError> {
    // One for all owners: a thread may be in several journals, and is not to come back too early.
    let (mut recovered, owed) = (Vec::new(), Owed::default());
    for (name, owner) in directory.journals()? {
        if kernel.is_alive(owner) {
            continue;
        }
        let refused = |why: String| Recovered::Refused { name: name.clone(), why };
        match directory.open_trusted(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => recovered.push(refused(error.to_string())),
            Ok(Err(why)) => recovered.push(refused(why.to_owned())),
            Ok(Ok(mut file)) => match recover_one(kernel, &owed, owner, &mut file) {
                Ok(Outcome::Alive) => {}
                Ok(Outcome::Replayed { results, finished }) => {
                    recovered.extend(results);
                    if finished && let Err(error) = directory.remove(&name) {
                        recovered.push(refused(format!("it cannot be removed: {error}")));
                    }
                }
                Err(error) => recovered.push(refused(error.to_string())),
            },
        }
    }
    Ok(recovered)
}

enum Outcome {
    /// Somebody holds the lock, or finished the work before us.
    Alive,
    Replayed {
        results: Vec<Recovered>,
        finished: bool,
    },
}

fn recover_one(
    kernel: &dyn Kernel,
    owed: &Owed,
    owner: ProcessIdentity,
    file: &mut File,
) -> std::io::Result<Outcome> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Outcome::Alive),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if file.metadata()?.nlink() == 0 {
        // Another recovery removed it between our opening and locking.
        return Ok(Outcome::Alive);
    }
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX).read_to_end(&mut bytes)?;
    let Journalled { boot, open, unreadable } = parse(&bytes);
    let mut results: Vec<Recovered> =
        unreadable.into_iter().map(|line| Recovered::Unreadable { owner, line }).collect();
    let this_boot = kernel.boot_id().map_err(|error| std::io::Error::from_raw_os_error(error.errno))?;
    if boot.as_deref() != Some(&this_boot) {
        // Without a whole first line nothing was recorded yet; after a restart nothing is left.
        return Ok(Outcome::Replayed { results, finished: true });
    }
    let mut finished = true;
    if !bytes.ends_with(b"\n") {
        // What is appended must not be glued to the line cut short.
        file.write_all(b"\n")?;
    }
    for (id, entry) in open.into_iter().rev() {
        let blocked = results.iter().any(|earlier| match earlier {
            Recovered::Entry { entry: other, result: Err(_), .. } => is_same_object(other, &entry),
            _ => false,
        });
        if blocked {
            // It can be undone only after the newer change of the same object.
            continue;
        }
        let result = undo(kernel, owed, &entry);
        match &result {
            Ok(_) => {
                let mut line = serde_json::to_vec(&Line::Done { done: id })?;
                line.push(b'\n');
                file.write_all(&line)?;
            }
            Err(_) => finished = false,
        }
        results.push(Recovered::Entry { owner, entry: Box::new(entry), result });
    }
    file.sync_data()?;
    Ok(Outcome::Replayed { results, finished })
}

/// The changes of an owner of this boot, dead or alive, that are not done, oldest first; none where there is no such journal.
///
/// # Errors
/// A file that cannot be read, or that is not to be trusted.
pub(super) fn open_entries(
    kernel: &dyn Kernel,
    directory: &RuntimeDir,
    name: &str,
) -> Result<Vec<Entry>, JournalError> {
    let failed =
        |source| JournalError::File { operation: "reading", path: directory.path().join(name), source };
    let file = match directory.open_trusted(name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(failed)?,
    };
    let file = file.map_err(|why| failed(std::io::Error::other(why)))?;
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let Journalled { boot, open, .. } = parse(&bytes);
    let is_of_now = boot.as_deref() == Some(&kernel.boot_id()?);
    Ok(if is_of_now { open.into_values().collect() } else { Vec::new() })
}

/// A journal's content.
#[derive(Debug, Default)]
struct Journalled {
    /// The boot it was written in; `None` when line 1 is not whole.
    boot: Option<String>,
    /// Entries not done.
    open: BTreeMap<EntryId, Entry>,
    /// Lines that are neither entry nor end, but for a last one cut short.
    unreadable: Vec<usize>,
}

fn parse(bytes: &[u8]) -> Journalled {
    let mut journalled = Journalled::default();
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split(|b| *b == b'\n').enumerate();
    let Some((_, first)) = lines.next() else { return journalled };
    match serde_json::from_slice::<Header>(first) {
        Ok(header) if header.surety_journal == FORMAT => journalled.boot = Some(header.boot),
        _ => return journalled,
    }
    for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice::<Line>(line) {
            Ok(Line::Entry { id, entry }) => {
                journalled.open.insert(id, *entry);
            }
            Ok(Line::Done { done }) => {
                journalled.open.remove(&done);
            }
            Err(_) => journalled.unreadable.push(index + 1),
        }
    }
    journalled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::sched::{SchedAttr, SchedPolicy};
    use crate::scripted::MachineState;
    use crate::{Operation, ScriptedKernel};
    use proptest::prelude::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use surety_units::{CpuId, CpuSet, Nanos, Tid};

    const GROUP: &str = "/sys/fs/cgroup/cpuset/surety-test";
    const WEIGHT: &str = "/sys/fs/cgroup/cpu/ui/cpu.shares";

    fn reservation(percent: i64) -> SchedAttr {
        let period = Nanos::from_millis(10);
        SchedPolicy::deadline(period / 100 * percent, period, period).into()
    }

    fn machine() -> ScriptedKernel {
        let kernel = ScriptedKernel::new(2);
        kernel.add_thread(Tid(10), Tid(10), "fair");
        kernel.add_thread(Tid(11), Tid(11), "reserved");
        crate::transition::set_once(&kernel, Tid(11), &reservation(20)).unwrap();
        kernel.add_file(WEIGHT, "1024\n");
        kernel.add_template("/sys/fs/cgroup/cpuset", &[("cpuset.cpus", "")]);
        kernel
    }

    /// What enforcement does: changes of every kind, then undoing them in order, each call a chance to die.
    fn enforce(kernel: &ScriptedKernel, directory: &RuntimeDir) -> Result<(), JournalError> {
        let journal = Journal::open(kernel, directory)?;
        let group = Path::new(GROUP);
        journal.make_dir(kernel, group)?;
        journal.write_text(kernel, Path::new(WEIGHT), "2048")?;
        journal.set_affinity(kernel, Tid(10), CpuSet::single(CpuId(1)))?;
        journal.set_scheduler(kernel, Tid(10), SchedPolicy::Fifo { priority: 9 }.into())?;
        // Out of the class, into it and out again.
        journal.set_scheduler(kernel, Tid(11), SchedPolicy::Idle.into())?;
        journal.set_scheduler(kernel, Tid(11), reservation(30))?;
        journal.record(Entry::TraceInstance { name: "surety-1".to_owned() })?;
        kernel.make_dir(&kernel.tracefs_root()?.join("instances/surety-1"))?;
        for (_, result) in journal.undo_all(kernel) {
            result?;
        }
        Ok(())
    }

    /// Files are compared by value: the kernel adds the newline, the scripted one does not.
    fn trimmed(mut state: MachineState) -> MachineState {
        state.files.values_mut().for_each(|text| *text = text.trim().to_owned());
        state
    }

    fn runtime() -> (tempfile::TempDir, RuntimeDir) {
        let base = tempfile::tempdir().unwrap();
        let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
        (base, directory)
    }

    #[test]
    fn death_at_any_call_is_undone_at_the_next_start() {
        let kernel = machine();
        let first = kernel.calls().len();
        let (_base, directory) = runtime();
        let original = trimmed(kernel.state());
        enforce(&kernel, &directory).unwrap();
        let last = kernel.calls().len();
        assert_eq!(trimmed(kernel.state()), original);
        assert!(last - first > 40, "{} calls", last - first);

        for at in first..last {
            let kernel = machine();
            kernel.die_at(at);
            assert!(enforce(&kernel, &directory).is_err(), "died at call {at}");
            kernel.restart();
            let recovered = recover_dead(&kernel, &directory).unwrap();
            assert_eq!(trimmed(kernel.state()), original, "died at call {at}: {recovered:?}");
            assert!(directory.journals().unwrap().is_empty(), "died at call {at}");
        }
    }

    #[test]
    fn death_during_recovery_is_undone_at_the_one_after() {
        let (_base, directory) = runtime();
        let original = trimmed(machine().state());
        let probe = machine();
        let first = probe.calls().len();
        enforce(&probe, &directory).unwrap();
        // Die late, when most is changed; then at every call of the recovery.
        let died_at = first + (probe.calls().len() - first) / 2;
        let mut recovery_calls = 0;
        loop {
            let kernel = machine();
            kernel.die_at(died_at);
            assert!(enforce(&kernel, &directory).is_err());
            kernel.restart();
            let before = kernel.calls().len();
            kernel.die_at(before + recovery_calls);
            let _ = recover_dead(&kernel, &directory);
            let died = kernel.calls().len() > before + recovery_calls;
            kernel.restart();
            recover_dead(&kernel, &directory).unwrap();
            assert_eq!(trimmed(kernel.state()), original, "recovery died at its call {recovery_calls}");
            assert!(directory.journals().unwrap().is_empty());
            if !died {
                break;
            }
            recovery_calls += 1;
        }
        assert!(recovery_calls > 10, "{recovery_calls}");
    }

    #[test]
    fn a_refusal_at_any_call_leaves_nothing_after_a_later_recovery() {
        let (_base, directory) = runtime();
        let original = trimmed(machine().state());
        let probe = machine();
        let first = probe.calls().len();
        enforce(&probe, &directory).unwrap();
        for at in first..probe.calls().len() {
            let kernel = machine();
            kernel.fail_at(at, libc::EPERM);
            let _ = enforce(&kernel, &directory);
            kernel.restart();
            recover_dead(&kernel, &directory).unwrap();
            assert_eq!(trimmed(kernel.state()), original, "refused at call {at}, {:?}", probe.calls()[at]);
        }
    }

    #[test]
    fn what_cannot_be_undone_now_is_tried_again() {
        let kernel = machine();
        let (_base, directory) = runtime();
        let journal = Journal::open(&kernel, &directory).unwrap();
        journal.write_text(&kernel, Path::new(WEIGHT), "1").unwrap();
        journal.set_affinity(&kernel, Tid(10), CpuSet::single(CpuId(0))).unwrap();
        assert!(recover_dead(&kernel, &directory).unwrap().is_empty(), "the owner lives");
        drop(journal);
        assert!(recover_dead(&kernel, &directory).unwrap().is_empty(), "the owner lives, though unlocked");
        kernel.restart();
        kernel.fail_on(Operation::Write, WEIGHT, libc::EBUSY);
        let results = |recovered: Vec<Recovered>| -> Vec<Option<Undone>> {
            let result = |r| match r {
                Recovered::Entry { result, .. } => result.ok(),
                other => panic!("{other:?}"),
            };
            recovered.into_iter().map(result).collect()
        };
        let first = results(recover_dead(&kernel, &directory).unwrap());
        assert_eq!(first, [Some(Undone::Restored), None]);
        kernel.clear_faults();
        let second = results(recover_dead(&kernel, &directory).unwrap());
        assert_eq!(second, [Some(Undone::Restored)]);
        assert!(directory.journals().unwrap().is_empty());
    }

    /// A journal of a dead owner with this text after its first line.
    fn dead_journal(kernel: &ScriptedKernel, directory: &RuntimeDir, text: &[u8]) {
        let journal = Journal::open(kernel, directory).unwrap();
        journal.record(Entry::TraceInstance { name: "surety-none".to_owned() }).unwrap();
        let path = journal.path();
        drop(journal);
        let header = std::fs::read(&path).unwrap();
        let end = header.iter().position(|b| *b == b'\n').unwrap() + 1;
        std::fs::write(&path, [&header[..end], text].concat()).unwrap();
        kernel.restart();
    }

    #[test]
    fn a_damaged_journal_is_used_as_far_as_it_is_whole() {
        let file = |old: &str| {
            format!(r#"{{"id":0,"entry":{{"kind":"file","path":"{WEIGHT}","old":"{old}","set":"2"}}}}"#)
        };
        let cases: [(String, &str, usize); 4] = [
            (format!("{}\n", file("7")), "7", 0),
            (format!("{}\n{{\"id\":1,\"ent", file("7")), "7", 0),
            (format!("garbage\n{}\n\n", file("7")), "7", 1),
            (file("7"), "2", 0),
        ];
        for (text, expected, unreadable) in cases {
            let kernel = machine();
            kernel.add_file(WEIGHT, "2\n");
            let (_base, directory) = runtime();
            dead_journal(&kernel, &directory, text.as_bytes());
            let recovered = recover_dead(&kernel, &directory).unwrap();
            let lines = recovered.iter().filter(|r| matches!(r, Recovered::Unreadable { .. })).count();
            assert_eq!(lines, unreadable, "{text}");
            assert_eq!(kernel.read_text(Path::new(WEIGHT)).unwrap().trim(), expected, "{text}");
            assert!(directory.journals().unwrap().is_empty());
        }
    }

    #[test]
    fn entries_that_reach_beyond_the_kernels_files_are_not_followed() {
        let kernel = machine();
        kernel.add_file("/etc/passwd", "theirs");
        kernel.add_dir("/home/user");
        let before = kernel.state();
        let (_base, directory) = runtime();
        let text = [
            r#"{"id":0,"entry":{"kind":"file","path":"/etc/passwd","old":"x","set":"theirs"}}"#,
            r#"{"id":1,"entry":{"kind":"file","path":"/sys/../etc/passwd","old":"x","set":"theirs"}}"#,
            r#"{"id":2,"entry":{"kind":"directory","path":"/home/user"}}"#,
            r#"{"id":3,"entry":{"kind":"directory","path":"/sys/fs/cgroup/theirs"}}"#,
            r#"{"id":4,"entry":{"kind":"trace-instance","name":"../surety"}}"#,
            r#"{"id":5,"entry":{"kind":"trace-instance","name":"theirs"}}"#,
        ];
        dead_journal(&kernel, &directory, (text.join("\n") + "\n").as_bytes());
        let recovered = recover_dead(&kernel, &directory).unwrap();
        assert_eq!(recovered.len(), text.len());
        for one in recovered {
            assert!(matches!(one, Recovered::Entry { result: Ok(Undone::NotPermitted), .. }), "{one:?}");
        }
        assert_eq!(kernel.state(), before);
    }

    #[test]
    fn files_that_others_could_have_put_there_are_refused() {
        let kernel = machine();
        let (base, directory) = runtime();
        let name = |number: u32| format!("journal-77-88-{number}.jsonl");
        let inside = |number: u32| directory.path().join(name(number));
        let target = base.path().join("target");
        std::fs::write(&target, "").unwrap();
        symlink(&target, inside(0)).unwrap();
        std::fs::create_dir(inside(1)).unwrap();
        std::fs::write(inside(2), "").unwrap();
        std::fs::set_permissions(inside(2), std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::hard_link(&target, inside(3)).unwrap();
        File::create(inside(4)).unwrap().set_len(LENGTH_MAX + 1).unwrap();
        let recovered = recover_dead(&kernel, &directory).unwrap();
        for (number, one) in recovered.iter().enumerate() {
            let expected = name(u32::try_from(number).unwrap());
            assert!(matches!(one, Recovered::Refused { name, .. } if *name == expected), "{one:?}");
        }
        assert_eq!(recovered.len(), 5);
        assert_eq!(directory.journals().unwrap().len(), 5, "untouched");
    }

    proptest! {
        #[test]
        fn no_bytes_make_recovery_fail_or_touch_the_machine(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let kernel = machine();
            let before = kernel.state();
            let (_base, directory) = runtime();
            dead_journal(&kernel, &directory, &bytes);
            recover_dead(&kernel, &directory).unwrap();
            prop_assert_eq!(kernel.state(), before);
        }
    }

    #[test]
    fn after_a_restart_of_the_machine_nothing_is_left_to_undo() {
        let kernel = machine();
        let (_base, directory) = runtime();
        let journal = Journal::open(&kernel, &directory).unwrap();
        journal.write_text(&kernel, Path::new(WEIGHT), "1").unwrap();
        drop(journal);
        kernel.restart();
        kernel.add_file("/proc/sys/kernel/random/boot_id", "another\n");
        let before = kernel.state();
        assert!(recover_dead(&kernel, &directory).unwrap().is_empty());
        assert_eq!(kernel.state(), before);
        assert!(directory.journals().unwrap().is_empty());
    }

    /// Out of the class with the budget overrun and into it again: not before the kernel has forgotten the overrun.
    #[test]
    fn a_thread_that_owes_comes_back_when_that_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = RuntimeDir::at(directory.path()).unwrap();
        let kernel = ScriptedKernel::new(2);
        kernel.add_thread(Tid(10), Tid(10), "found");
        kernel.set_running(Tid(10), true);
        crate::transition::set_once(&kernel, Tid(10), &reservation(20)).unwrap();
        let journal = Journal::open(&kernel, &runtime).unwrap();
        journal.set_scheduler(&kernel, Tid(10), SchedPolicy::Idle.into()).unwrap();
        journal.set_scheduler(&kernel, Tid(10), reservation(30)).unwrap();
        drop(journal);
        kernel.set_budget(Tid(10), Some(Nanos::from_millis(-1)));
        kernel.restart();
        let before = kernel.monotonic();
        recover_dead(&kernel, &runtime).unwrap();
        assert_eq!(kernel.scheduler(Tid(10)).unwrap(), reservation(20));
        // A period of 10 ms, and 11 ms of overrun at 3 ms in 10 ms.
        assert!(kernel.monotonic() - before > Nanos::from_millis(46), "{}", kernel.monotonic() - before);
    }
}
