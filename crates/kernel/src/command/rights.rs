//! [`Rights`]: what a program may do: as which user it runs, which capabilities it has, and whether it may gain any.
//!
//! All of it is done in the child, by plain system calls of one thread: the functions of the C library for users signal every other
//! thread of the process, and here those are the measuring program's. Rules: capabilities(7), credentials(7), prctl(2).

use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use surety_units::Capabilities;

use crate::error::last_errno;

/// A user of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: String,
}

/// What a program may do. Without these nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// As whom it runs; `None`: as we do.
    pub user: Option<User>,
    /// The capabilities it has; those we do not have are left out.
    pub capabilities: Capabilities,
    /// Whether programs with set-user-id and file capabilities have their effect in it.
    pub may_gain: bool,
}

/// The capabilities of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// What it may use.
    pub permitted: Capabilities,
    /// What programs it starts could ever have.
    pub bounding: Capabilities,
}

/// What this process has; read once, for it never changes that itself.
pub fn held() -> Held {
    static HELD: OnceLock<Held> = OnceLock::new();
    *HELD.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Held { permitted: of_status(&status, "CapPrm:"), bounding: of_status(&status, "CapBnd:") }
    })
}

/// A set in the text of `/proc/PID/status`; none where it is not there.
pub(crate) fn of_status(status: &str, key: &str) -> Capabilities {
    let mask = status.lines().find_map(|line| line.strip_prefix(key));
    Capabilities(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}

impl User {
    /// The user of a name, or of a number; `None` where there is none.
    pub fn find(word: &str) -> Option<User> {
        let name = CString::new(word).ok()?;
        // SAFETY: `passwd` is plain data, for which zero bytes are a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut text = vec![0 as c_char; 1 << 16];
        let mut found = std::ptr::null_mut();
        // SAFETY: the name is a C string; the entry, the text with its length and the place for the answer are valid over the calls.
        unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found);
            if let (true, Ok(uid)) = (found.is_null(), word.parse()) {
                libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found);
            }
        }
        if found.is_null() {
            return None;
        }
        let string = |text: *const c_char| {
            // SAFETY: what was found has its strings in `text`, each with its zero byte.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = string(entry.pw_name)?;
        let groups = groups_of(&name, entry.pw_gid)?;
        let home = string(entry.pw_dir).unwrap_or_default();
        Some(User { name, uid: entry.pw_uid, gid: entry.pw_gid, groups, home })
    }

    /// Variables that say who somebody is.
    pub(super) fn variables(&self) -> [(&'static str, &str); 3] {
        [("USER", &self.name), ("LOGNAME", &self.name), ("HOME", &self.home)]
    }
}

fn groups_of(name: &str, own: u32) -> Option<Vec<u32>> {
    const GROUPS_MAX: usize = 65536;
    let name = CString::new(name).ok()?;
    let mut groups = vec![0; GROUPS_MAX];
    let mut count = c_int::try_from(groups.len()).ok()?;
    // SAFETY: the name is a C string; there is room for as many groups as `count` says, and no user has more.
    let result = unsafe { libc::getgrouplist(name.as_ptr(), own, groups.as_mut_ptr(), &raw mut count) };
    groups.truncate(usize::try_from(count).ok().filter(|_| result >= 0)?);
    Some(groups)
}

/// The structures of `capget` and `capset`, version 3.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Which part of [`take_on`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Capabilities,
}

/// In the child: becomes the user, drops what is not kept, gives up gaining more. No allocation. Afterwards the kernel has forgotten the
/// death signal.
pub(super) fn take_on(rights: &Rights, held: Held) -> Result<(), (Part, i32)> {
    let user = |result| of_part(Part::User, result);
    let capabilities = |result| of_part(Part::Capabilities, result);
    // What is dropped from the bounding set no later program can have; that takes a capability itself.
    if !held.permitted.and(Capabilities::SET_CAPABILITIES).is_empty() {
        for number in held.bounding.without(rights.capabilities).numbers() {
            capabilities(prctl(libc::PR_CAPBSET_DROP, number.into(), 0))?;
        }
    }
    if let Some(whom) = &rights.user {
        // A change from root to another user clears every set otherwise.
        capabilities(prctl(libc::PR_SET_KEEPCAPS, 1, 0))?;
        let [uid, gid] = [whom.uid, whom.gid].map(c_long::from);
        // SAFETY: the groups live over the call; the other calls take integers. They change this thread alone, and it is the only one of
        // its process.
        unsafe {
            let groups = whom.groups.as_ptr();
            user(libc::syscall(libc::SYS_setgroups, whom.groups.len(), groups))?;
            user(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            user(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
            // Our memory is still the program's: nobody but root may look into it.
            user(libc::syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 0, 0, 0, 0))?;
        }
    }
    let kept = held.permitted.and(rights.capabilities);
    capabilities(set(kept))?;
    capabilities(prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0))?;
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        // Programs of other users than root have what is ambient, and nothing else of it.
        for number in kept.numbers() {
            capabilities(prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE as u64, number.into()))?;
        }
    }
    if !rights.may_gain {
        capabilities(prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))?;
    }
    Ok(())
}

fn of_part(part: Part, result: c_long) -> Result<(), (Part, i32)> {
    if result < 0 { Err((part, last_errno())) } else { Ok(()) }
}

fn prctl(option: c_int, second: u64, third: u64) -> c_long {
    // SAFETY: options that take integers only.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, 0, 0) }
}

/// The permitted, effective and inheritable sets of the calling thread.
fn set(kept: Capabilities) -> c_long {
    let header = Header { version: VERSION_3, pid: 0 };
    let half = |bits: u64| {
        let bits = (bits & u64::from(u32::MAX)) as u32;
        Half { effective: bits, permitted: bits, inheritable: bits }
    };
    let halves = [half(kept.0), half(kept.0 >> 32)];
    // SAFETY: version 3 reads one header and two halves, which live over the call.
    unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) }
}

/// Whether others of the same user may look into this process; the parent's memory is the child's until that is its program, and so is this.
/// One start at a time: what another start's child has changed is not how it was.
pub(super) struct Dumpable {
    before: c_long,
    _alone: MutexGuard<'static, ()>,
}

impl Dumpable {
    /// As it is now.
    pub fn now() -> Dumpable {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Dumpable { before: prctl(libc::PR_GET_DUMPABLE, 0, 0), _alone: alone }
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        // 2 (root alone) cannot be set, and is what a change of user leaves at most.
        if let Ok(before @ 0..=1) = u64::try_from(self.before) {
            prctl(libc::PR_SET_DUMPABLE, before, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChildSetup, Command, Stream, spawn};
    use super::*;
    use std::io::Read;

    /// `/proc/self/status` of a program with these rights, and its environment.
    fn told(rights: Rights) -> String {
        let mut command = Command::new("sh");
        let script = "cat /proc/self/status; echo $USER $LOGNAME $HOME";
        command.args(["-c", script]).stdin(Stream::Null).stdout(Stream::Pipe);
        let setup = ChildSetup { rights: Some(rights), ..ChildSetup::default() };
        let mut spawned = spawn(&mut command, &setup).unwrap();
        let mut text = String::new();
        spawned.take_stdout().unwrap().read_to_string(&mut text).unwrap();
        assert!(spawned.end().is_ok());
        text
    }

    fn line<'a>(text: &'a str, key: &str) -> &'a str {
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim()
    }

    fn is_root() -> bool {
        let is_root = held().permitted.and(Capabilities::SET_USER) == Capabilities::SET_USER;
        if !is_root {
            eprintln!("SKIPPED: only root may start programs as another user");
        }
        is_root
    }

    #[test]
    fn a_program_gains_nothing_and_has_what_was_kept_of_ours() {
        let _alone = crate::testing::machine_wide();
        let keep = Capabilities::ORDINARY_ROOT;
        let text = told(Rights { user: None, capabilities: keep, may_gain: false });
        let kept = keep.and(held().permitted);
        for key in ["CapEff:", "CapPrm:"] {
            assert_eq!(of_status(&text, key), kept, "{text}");
        }
        assert_eq!(line(&text, "NoNewPrivs:"), "1", "{text}");
        // All of it stays where nothing is to be dropped.
        let text = told(Rights { user: None, capabilities: Capabilities::ALL, may_gain: true });
        assert_eq!(of_status(&text, "CapPrm:"), held().permitted, "{text}");
        assert_eq!(
            (of_status(&text, "CapBnd:"), line(&text, "NoNewPrivs:")),
            (held().bounding, "0"),
            "{text}"
        );
    }

    #[test]
    fn a_program_runs_as_another_user_with_its_groups_and_nothing_of_ours() {
        let _alone = crate::testing::machine_wide();
        if !is_root() {
            return;
        }
        let user = User::find("nobody").unwrap();
        let dumpable = prctl(libc::PR_GET_DUMPABLE, 0, 0);
        let nice = "sys_nice".parse::<Capabilities>().unwrap();
        for keep in [Capabilities::NONE, nice] {
            let text = told(Rights { user: Some(user.clone()), capabilities: keep, may_gain: false });
            let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
            assert_eq!(line(&text, "Uid:"), ids(user.uid), "{text}");
            assert_eq!(line(&text, "Gid:"), ids(user.gid), "{text}");
            let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
            assert_eq!(line(&text, "Groups:"), groups.join(" "), "{text}");
            for key in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"] {
                assert_eq!(of_status(&text, key), keep.and(held().permitted), "{key} {text}");
            }
            assert_eq!(line(&text, "NoNewPrivs:"), "1", "{text}");
            assert!(text.contains(&format!("nobody nobody {}\n", user.home)), "{text}");
        }
        assert_eq!(
            prctl(libc::PR_GET_DUMPABLE, 0, 0),
            dumpable,
            "others may look into this process as before"
        );
    }

    #[test]
    fn a_program_of_another_user_dies_with_the_thread_that_started_it() {
        let _alone = crate::testing::machine_wide();
        if !is_root() {
            return;
        }
        let started = std::thread::spawn(|| {
            let rights =
                Rights { user: User::find("nobody"), capabilities: Capabilities::NONE, may_gain: false };
            let setup = ChildSetup { rights: Some(rights), ..ChildSetup::default() };
            let spawned = spawn(Command::new("sleep").arg("1000"), &setup).unwrap();
            // Not dropped: only the end of this thread can end the program.
            std::mem::ManuallyDrop::new(spawned)
        });
        let mut spawned = std::mem::ManuallyDrop::into_inner(started.join().unwrap());
        let ended = spawned.wait_until(crate::clock::monotonic() + surety_units::Nanos::from_secs(20));
        assert!(ended.unwrap().is_some(), "killed with its thread");
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid, User::find("0").as_ref()), (0, 0, Some(&root)));
        assert!(root.groups.contains(&0));
        for nobody in ["no such user", "", "4294967290", "-1", "a\0b"] {
            assert_eq!(User::find(nobody), None, "{nobody}");
        }
    }
}
