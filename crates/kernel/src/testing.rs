//! What tests of this crate share: order among those that look at the whole machine.

use std::sync::{Mutex, MutexGuard};

/// Tests that change or compare what the whole machine has (admitted bandwidth, class of threads) run one at a
/// time.
pub(crate) fn machine_wide() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Makes the calling thread an ordinary user's; `false` when it may not. Other threads keep theirs: the system
/// call, unlike the C library's function, changes one thread only.
pub(crate) fn become_nobody() -> bool {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: takes integers; only the calling thread changes, and it ends with the test.
    unsafe {
        libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
            && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
    }
}
