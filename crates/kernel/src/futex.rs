//! Locks and events of this process's threads as the kernel offers them: a lock that lends priority, one that does
//! not, and a counted event.
//!
//! Every wait ends at an instant of CLOCK_MONOTONIC at the latest, so that a run can end while threads wait; whoever
//! ends it earlier closes the locks and events ([`PlainLock::close`], [`Event::close`]). A [`PriorityLock`] cannot be
//! closed, since the kernel hands it over itself: its waiters come out when its holder gives it back.
//!
//! The rules of the two locks are those of `pthread_mutex_lock` with `PTHREAD_PRIO_INHERIT` and `PTHREAD_PRIO_NONE`, the
//! event's are those of `sem_wait` and `sem_post`: `futex(2)`, and `kernel/futex/pi.c` and `waitwake.c`.

use std::sync::atomic::{AtomicU32, Ordering};

use surety_units::Nanos;

use crate::clock::to_timespec;
use crate::error::{KernelError, Operation, last_errno};
use crate::thread::own_tid;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// With what was waited for.
    Taken,
    /// Without it: its time came, or it was closed.
    Over,
    /// Without it: every thread of a ring waits for the next one.
    Deadlock,
}

/// A lock that lends its holder the priority, or the deadline, of its most important waiter (`FUTEX_LOCK_PI2`).
///
/// Given back, it goes to that waiter at once; a more important thread that comes before the waiter has run may still
/// take it first (`rt_mutex_steal` in `kernel/locking/rtmutex.c`).
#[derive(Debug, Default)]
pub struct PriorityLock {
    /// The holder's thread id, with the kernel's flags; 0 is free.
    word: AtomicU32,
}

impl PriorityLock {
    /// A free lock.
    ///
    /// # Errors
    /// ENOSYS on kernels without it: before Linux 5.14 or built without `CONFIG_FUTEX_PI`.
    pub fn new() -> Result<PriorityLock, KernelError> {
        let lock = PriorityLock::default();
        // Once through the kernel, so that what it cannot do is known before a thread has to wait.
        lock.lock_in_kernel(Nanos::MAX)?;
        lock.unlock()?;
        Ok(lock)
    }

    /// Takes it for the calling thread, and waits for it until an instant.
    ///
    /// # Errors
    /// What the kernel answers beyond [`Waited`].
    pub fn lock(&self, until: Nanos) -> Result<Waited, KernelError> {
        match self.word.compare_exchange(0, own_word(), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Waited::Taken),
            Err(_) => self.lock_in_kernel(until),
        }
    }

    fn lock_in_kernel(&self, until: Nanos) -> Result<Waited, KernelError> {
        loop {
            match futex(&self.word, libc::FUTEX_LOCK_PI2, 0, Some(until)) {
                Ok(_) => return Ok(Waited::Taken),
                Err(libc::ETIMEDOUT) => return Ok(Waited::Over),
                Err(libc::EDEADLK) => return Ok(Waited::Deadlock),
                // The holder is about to end, or a signal came.
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(errno) => {
                    return Err(KernelError::new(Operation::Futex, "a lock with inheritance", errno));
                }
            }
        }
    }

    /// Gives it back; the calling thread holds it.
    ///
    /// # Errors
    /// EPERM when the calling thread does not hold it.
    pub fn unlock(&self) -> Result<(), KernelError> {
        if self.word.compare_exchange(own_word(), 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        loop {
            match futex(&self.word, libc::FUTEX_UNLOCK_PI, 0, None) {
                Ok(_) => return Ok(()),
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(errno) => {
                    return Err(KernelError::new(Operation::Futex, "a lock with inheritance", errno));
                }
            }
        }
    }
}

/// Set in the word of what was closed.
const CLOSED: u32 = 1 << 31;

/// An ordinary lock: whoever comes while it is free has it. Given back, it wakes the most important realtime waiter and,
/// among equals, the first; that one competes for it with whoever runs meanwhile.
#[derive(Debug, Default)]
pub struct PlainLock {
    /// [`FREE`], [`HELD`] or [`CONTENDED`], and [`CLOSED`].
    word: AtomicU32,
}

/// Nobody has it.
const FREE: u32 = 0;
/// Somebody has it and nobody waits.
const HELD: u32 = 1;
/// Somebody has it and others may wait.
const CONTENDED: u32 = 2;

impl PlainLock {
    /// Takes it, and waits for it until an instant.
    ///
    /// # Errors
    /// What the kernel answers beyond [`Waited`].
    pub fn lock(&self, until: Nanos) -> Result<Waited, KernelError> {
        let mut taken_as = HELD;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let step = match word {
                FREE => taken_as,
                HELD => CONTENDED,
                CONTENDED => {
                    if !wait(&self.word, CONTENDED, until)? {
                        return Ok(Waited::Over);
                    }
                    // Others may wait too: the one who unlocks has to wake the next.
                    taken_as = CONTENDED;
                    continue;
                }
                _ => return Ok(Waited::Over),
            };
            let changed = self.word.compare_exchange(word, step, Ordering::Acquire, Ordering::Relaxed);
            if changed.is_ok() && word == FREE {
                return Ok(Waited::Taken);
            }
        }
    }

    /// Gives it back; the calling thread holds it.
    pub fn unlock(&self) {
        if self.word.fetch_and(CLOSED, Ordering::Release) & CONTENDED != 0 {
            wake(&self.word, 1);
        }
    }

    /// Ends every wait for it, now and later.
    pub fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        wake(&self.word, i32::MAX);
    }
}

/// An event that is raised and taken: as many waits end as it was raised.
#[derive(Debug, Default)]
pub struct Event {
    /// How often it was raised and not taken, and [`CLOSED`].
    word: AtomicU32,
}

impl Event {
    /// One that was raised so often, at most 2^31 - 1 times.
    pub fn raised(times: u32) -> Event {
        Event { word: AtomicU32::new(times.min(!CLOSED)) }
    }

    /// Takes one raising, and waits for one until an instant.
    ///
    /// # Errors
    /// What the kernel answers beyond [`Waited`].
    pub fn wait(&self, until: Nanos) -> Result<Waited, KernelError> {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & CLOSED != 0 {
                return Ok(Waited::Over);
            }
            if word > 0 {
                let taken = self.word.compare_exchange(word, word - 1, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    return Ok(Waited::Taken);
                }
            } else if !wait(&self.word, 0, until)? {
                return Ok(Waited::Over);
            }
        }
    }

    /// Raises it: the most important realtime waiter is woken to take it. Raised 2^31 - 1 times and not taken, it is not
    /// raised further.
    pub fn signal(&self) {
        let raise = |word: u32| (word & !CLOSED != !CLOSED).then(|| word + 1);
        // Refused only when it is full.
        let _ = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, raise);
        wake(&self.word, 1);
    }

    /// Forgets every raising that was not taken: for one who then looks at all that it was raised for. What was done before a raising that
    /// is forgotten is seen from then on.
    pub fn clear(&self) {
        self.word.fetch_and(CLOSED, Ordering::Acquire);
    }

    /// Ends every wait for it, now and later.
    pub fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        wake(&self.word, i32::MAX);
    }
}

/// A barrier that one thread opens, once: all who wait at it are woken in one call, as those of `pthread_barrier_wait` are.
#[derive(Debug, Default)]
pub struct Opening {
    /// Whether it is open, and [`CLOSED`].
    word: AtomicU32,
}

impl Opening {
    /// Waits until it is open, until an instant at the latest.
    ///
    /// # Errors
    /// What the kernel answers beyond [`Waited`].
    pub fn wait(&self, until: Nanos) -> Result<Waited, KernelError> {
        loop {
            match self.word.load(Ordering::Acquire) {
                0 if wait(&self.word, 0, until)? => {}
                0 => return Ok(Waited::Over),
                word if word & CLOSED != 0 => return Ok(Waited::Over),
                _ => return Ok(Waited::Taken),
            }
        }
    }

    /// Lets all pass: realtime threads by their priority, the others as they came.
    pub fn open(&self) {
        self.word.fetch_or(1, Ordering::Release);
        wake(&self.word, i32::MAX);
    }

    /// Ends every wait for it, now and later.
    pub fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        wake(&self.word, i32::MAX);
    }
}

/// What a lock with inheritance holds while the calling thread has it and nobody waits.
fn own_word() -> u32 {
    own_tid().0.unsigned_abs()
}

/// Sleeps while the word is `expected`; false when the time came first.
fn wait(word: &AtomicU32, expected: u32, until: Nanos) -> Result<bool, KernelError> {
    match futex(word, libc::FUTEX_WAIT_BITSET, expected, Some(until)) {
        Ok(_) | Err(libc::EAGAIN | libc::EINTR) => Ok(true),
        Err(libc::ETIMEDOUT) => Ok(false),
        Err(errno) => Err(KernelError::new(Operation::Futex, "a lock or an event", errno)),
    }
}

fn wake(word: &AtomicU32, count: i32) {
    // Nothing can be wrong with a word of ours; how many were woken does not matter.
    let _ = futex(word, libc::FUTEX_WAKE, count.unsigned_abs(), None);
}

/// One call on a word only this process uses; the errno otherwise.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, until: Option<Nanos>) -> Result<i64, i32> {
    let time = until.map(to_timespec);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time, where one is given, are valid over the call; the kernel writes the word only, and
    // atomically. The operations used neither read nor write a second word.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;
    use crate::clock::monotonic;

    fn soon() -> Nanos {
        monotonic() + Nanos::from_millis(20)
    }

    /// Two threads add to a number that is only right when they exclude each other.
    fn excludes(lock: impl Fn() -> Waited + Sync, unlock: impl Fn() + Sync) {
        let (number, inside) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        assert_eq!(lock(), Waited::Taken);
                        assert!(!inside.swap(true, Ordering::Relaxed), "two inside");
                        number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        inside.store(false, Ordering::Relaxed);
                        unlock();
                    }
                });
            }
        });
        assert_eq!(number.into_inner(), 20_000);
    }

    #[test]
    fn both_locks_exclude() {
        let plain = PlainLock::default();
        excludes(|| plain.lock(Nanos::MAX).unwrap(), || plain.unlock());
        assert_eq!(plain.word.load(Ordering::Relaxed), FREE);
        let lending = PriorityLock::new().unwrap();
        excludes(|| lending.lock(Nanos::MAX).unwrap(), || lending.unlock().unwrap());
        assert_eq!(lending.word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_opens_for_all() {
        let opening = Opening::default();
        assert_eq!(opening.wait(soon()), Ok(Waited::Over));
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| opening.wait(Nanos::MAX))).collect();
            opening.open();
            assert!(waiting.into_iter().all(|waiter| waiter.join().unwrap() == Ok(Waited::Taken)));
        });
        assert_eq!(opening.wait(Nanos::MAX), Ok(Waited::Taken));
        opening.close();
        assert_eq!(opening.wait(Nanos::MAX), Ok(Waited::Over));
    }

    #[test]
    fn waits_end_with_their_time() {
        let (plain, lending, event) = (PlainLock::default(), PriorityLock::new().unwrap(), Event::default());
        assert_eq!(plain.lock(soon()), Ok(Waited::Taken));
        assert_eq!(lending.lock(soon()), Ok(Waited::Taken));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for wait in [&|u| plain.lock(u), &|u| lending.lock(u), &|u| event.wait(u)]
                    as [&dyn Fn(Nanos) -> Result<Waited, KernelError>; 3]
                {
                    let until = soon();
                    assert_eq!(wait(until), Ok(Waited::Over));
                    assert!(monotonic() >= until);
                    assert_eq!(wait(Nanos::ZERO), Ok(Waited::Over), "a time that has passed");
                }
                assert_eq!(lending.unlock().unwrap_err().errno, libc::EPERM, "not the holder");
            });
        });
        assert_eq!(lending.lock(soon()), Ok(Waited::Deadlock), "held by the caller itself");
        lending.unlock().unwrap();
        plain.unlock();
    }

    #[test]
    fn what_is_closed_is_waited_for_no_more() {
        let (plain, event) = (Arc::new(PlainLock::default()), Arc::new(Event::default()));
        plain.lock(Nanos::MAX).unwrap();
        let waiting = [
            std::thread::spawn({
                let plain = Arc::clone(&plain);
                move || plain.lock(Nanos::MAX)
            }),
            std::thread::spawn({
                let event = Arc::clone(&event);
                move || event.wait(Nanos::MAX)
            }),
        ];
        plain.close();
        event.close();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Ok(Waited::Over));
        }
        plain.unlock();
        event.signal();
        event.clear();
        assert_eq!(plain.lock(Nanos::MAX), Ok(Waited::Over));
        assert_eq!(event.wait(Nanos::MAX), Ok(Waited::Over));
    }

    #[test]
    fn an_event_is_taken_as_often_as_it_was_raised() {
        let event = Event::default();
        event.signal();
        event.signal();
        assert_eq!(event.wait(Nanos::ZERO), Ok(Waited::Taken));
        assert_eq!(event.wait(Nanos::ZERO), Ok(Waited::Taken));
        assert_eq!(event.wait(Nanos::ZERO), Ok(Waited::Over));
        event.signal();
        event.signal();
        event.clear();
        assert_eq!(event.wait(Nanos::ZERO), Ok(Waited::Over));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| event.wait(Nanos::MAX));
            event.signal();
            assert_eq!(waiting.join().unwrap(), Ok(Waited::Taken));
        });
        let full = Event { word: AtomicU32::new(!CLOSED) };
        full.signal();
        assert_eq!(full.word.into_inner(), !CLOSED);
    }

    #[test]
    fn a_ring_of_waiters_is_found() {
        let (a, b) = (PriorityLock::new().unwrap(), PriorityLock::new().unwrap());
        let met = std::sync::Barrier::new(2);
        let cross = |first: &PriorityLock, second: &PriorityLock| {
            first.lock(Nanos::MAX).unwrap();
            met.wait();
            let result = second.lock(Nanos::MAX).unwrap();
            if result == Waited::Taken {
                second.unlock().unwrap();
            }
            first.unlock().unwrap();
            result
        };
        std::thread::scope(|scope| {
            let one = scope.spawn(|| cross(&a, &b));
            let other = scope.spawn(|| cross(&b, &a));
            let mut results = [one.join().unwrap(), other.join().unwrap()];
            results.sort_by_key(|r| *r == Waited::Deadlock);
            assert_eq!(results, [Waited::Taken, Waited::Deadlock]);
        });
    }
}
