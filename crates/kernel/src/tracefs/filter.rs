//! Which of its events an instance records: of these threads, on these CPUs, by these expressions.
//!
//! All of it belongs to the instance and is gone with it.

use surety_units::{CpuSet, Tid};

use super::TraceInstance;
use crate::error::KernelError;
use crate::files::{read_text, write_text};

/// An expression that the kernel does not take as the filter of an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It says what is wrong with it.
    #[error("{said}")]
    Refused {
        /// The kernel's own words, on several lines: the expression, a mark below it, the reason.
        said: String,
    },
    /// Something else is wrong: no such event, no right to filter it.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl TraceInstance {
    /// Records events of these threads too, and of no others but those added so: what happens in their context, switches from
    /// and to them, their wake-ups. Text that programs write is recorded all the same.
    ///
    /// # Errors
    /// EINVAL for numbers that are no thread's.
    pub fn add_threads(&self, tids: &[Tid]) -> Result<(), KernelError> {
        // One write of the kernel's takes less than a page.
        for part in tids.chunks(256) {
            let numbers: Vec<String> = part.iter().map(Tid::to_string).collect();
            write_text(&self.path().join("set_event_pid"), &format!("{}\n", numbers.join(" ")))?;
        }
        Ok(())
    }

    /// Adds threads and processes that recorded threads make, from now on; says whether the kernel can (since 4.12).
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn follow_forks(&self) -> Result<bool, KernelError> {
        let option = self.path().join("options/event-fork");
        if !option.exists() {
            return Ok(false);
        }
        write_text(&option, "1").map(|()| true)
    }

    /// Records on these CPUs only.
    ///
    /// # Errors
    /// EINVAL for CPUs that the machine cannot have.
    pub fn set_cpus(&self, cpus: &CpuSet) -> Result<(), KernelError> {
        write_text(&self.path().join("tracing_cpumask"), &mask(cpus))
    }

    /// Records only those events `system:event` that meet the expression, in the kernel's grammar
    /// (`Documentation/trace/events.rst`): `prev_prio < 100 && next_comm ~ "irq*"`.
    ///
    /// # Errors
    /// [`FilterError::Refused`] with the kernel's reason.
    pub fn set_filter(&self, event: &str, expression: &str) -> Result<(), FilterError> {
        let path = self.event_path(event)?.join("filter");
        let Err(error) = write_text(&path, expression) else { return Ok(()) };
        let said = read_text(&path).unwrap_or_default();
        if error.errno == libc::EINVAL && said.contains("parse_error") {
            return Err(FilterError::Refused { said: said.trim_end().to_owned() });
        }
        Err(error.into())
    }
}

/// As the kernel reads masks: words of 32 bits, the most significant first.
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.as_words().iter().flat_map(|word| [word & u64::from(u32::MAX), word >> 32]);
    let words: Vec<u64> = words.collect();
    let used = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
    let words: Vec<String> = words[..used].iter().rev().map(|word| format!("{word:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::Tracefs;

    #[test]
    fn masks_are_words_of_32_bits() {
        for (cpus, expected) in [
            ("0", "00000001"),
            ("0-3,31", "8000000f"),
            ("1,32", "00000001,00000002"),
            ("96", "00000001,00000000,00000000,00000000"),
        ] {
            assert_eq!(mask(&cpus.parse().unwrap()), expected);
        }
    }

    #[test]
    fn the_kernel_takes_what_is_chosen_and_says_what_it_does_not_take() {
        let name = format!("surety-test-{}-filter", std::process::id());
        let instance = match Tracefs::open().and_then(|tracefs| tracefs.create_instance(&name)) {
            Ok(instance) => instance,
            Err(error) if error.is_refused() => return eprintln!("SKIPPED: {error}"),
            Err(error) => panic!("{error}"),
        };
        let read = |file: &str| read_text(&instance.path().join(file)).unwrap();
        let cpu = CpuSet::single(surety_units::CpuId(0));
        instance.set_cpus(&cpu).unwrap();
        let told = u64::from_str_radix(&read("tracing_cpumask").trim().replace(',', ""), 16);
        assert_eq!(told, Ok(1));
        assert!(instance.follow_forks().unwrap());
        let own = i32::try_from(std::process::id()).unwrap();
        instance.add_threads(&[Tid(1)]).unwrap();
        instance.add_threads(&[Tid(own)]).unwrap();
        // Threads that tests beside this one begin are followed.
        let (chosen, own) = (read("set_event_pid"), own.to_string());
        assert!(["1", &own].iter().all(|tid| chosen.lines().any(|line| line == *tid)), "{chosen}");

        instance.set_filter("sched:sched_switch", "prev_prio < 100").unwrap();
        assert_eq!(read("events/sched/sched_switch/filter").trim(), "prev_prio < 100");
        let refused = instance.set_filter("sched:sched_switch", "prev_prio < 100 && nobody == 1");
        let Err(FilterError::Refused { said }) = refused else { panic!("{refused:?}") };
        assert!(said.contains("nobody == 1") && said.contains("parse_error"), "{said}");
        assert!(matches!(instance.set_filter("sched:nothing", "1"), Err(FilterError::Kernel(_))));
    }
}
