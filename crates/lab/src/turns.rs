//! [`Turns`]: how the emulator's turns are kept short and even, where several virtual CPUs are run in turns.
//!
//! On a clock that counts instructions one host thread runs the virtual CPUs one after the other (`rr_cpu_thread_fn` in
//! `accel/tcg/tcg-accel-ops-rr.c` of QEMU 7.2). A turn lasts until the next timer. The CPU after the one that used it up has a turn
//! of no instruction, in which that timer fires, and the one after that a whole turn again. Two busy CPUs with ticks of 4 ms
//! so stand still for up to five ticks, and one that waits in a loop for another, which has the empty turn each time, waits for ever:
//! kernels before 6.5 did not boot with two CPUs.
//!
//! Two remedies:
//! - Behind each CPU comes a processor that the kernel never starts. It has the empty turn. Such processors have the upper half of
//!   the APIC numbers, so the kernel finds its own first, and is told that there are no more (`nr_cpus`).
//! - A timer of the emulator on the guest's clock ends turns after [`TURN_US`]: the one by which a `filter-buffer` of a network that is
//!   connected with nothing releases packets. The guest sees nothing of it.

use crate::packages::Packages;

/// Length of a turn in microseconds of the guest's clock: how far a CPU can be behind another. A host executes some thousand
/// instructions in the time that one end of a turn takes it; shorter turns cost as much again for each halving.
pub const TURN_US: u32 = 10;

/// The network whose filter has the timer.
pub const NETWORK: &str = "turns-net";

/// The turns of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// CPUs that the kernel starts, two at least.
    cpus: u32,
}

impl Turns {
    /// Those of a guest with several CPUs, where one thread of the host runs them.
    pub fn of(cpus: u32, on_one_thread: bool) -> Option<Turns> {
        (on_one_thread && cpus > 1).then_some(Turns { cpus })
    }

    /// Arguments of the emulator for the processors, whose model is `processor`, and for the timer. The emulator runs processors
    /// in the order in which they are named; the first is there without.
    pub(crate) fn arguments(self, processor: &str, packages: &Packages) -> Vec<String> {
        let all = self.cpus * 2;
        let mut words = vec!["-smp".to_owned(), packages.twice()];
        let never_started = self.cpus..all;
        let order = never_started.zip(1..).flat_map(|(idle, next)| [idle, next]);
        for number in order.take((all - 1) as usize) {
            let place = format!("{processor}-x86_64-cpu,{}", packages.place(number));
            words.extend(["-device".to_owned(), place]);
        }
        words.extend(["-netdev".to_owned(), format!("hubport,id={NETWORK},hubid=0")]);
        words.extend([
            "-object".to_owned(),
            format!("filter-buffer,id=turns,netdev={NETWORK},interval={TURN_US}"),
        ]);
        words
    }

    /// What the kernel is told.
    pub fn words_of_kernel(self) -> String {
        format!(" nr_cpus={}", self.cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boots of guests with one CPU are what most stored records were made with.
    #[test]
    fn one_cpu_has_no_turns_and_threads_of_the_host_have_none() {
        assert_eq!(Turns::of(1, true), None);
        assert_eq!(Turns::of(2, false), None);
    }

    #[test]
    fn each_cpu_is_followed_by_a_processor_that_is_never_started() {
        for cpus in 2..=crate::vm::CPUS_MAX {
            let words = Turns::of(cpus, true).unwrap().arguments("any", &Packages::of(None, cpus));
            let number = |word: &String| {
                let (_, rest) = word.split_once("core-id=")?;
                rest.split(',').next()?.parse::<u32>().ok()
            };
            let order: Vec<u32> = std::iter::once(0).chain(words.iter().filter_map(number)).collect();
            assert_eq!(order.len(), 2 * cpus as usize);
            for (place, pair) in order.chunks(2).enumerate() {
                assert_eq!(pair[0], place as u32, "{order:?}");
                assert!((cpus..2 * cpus).contains(&pair[1]), "{order:?}");
            }
        }
    }
}
