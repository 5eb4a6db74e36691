//! [`Symbols`]: which timer function an address is.
//!
//! A raw `hrtimer_start` record holds the address of the function the timer will call; only the kernel's symbol table
//! (`/proc/kallsyms`, or the copy in a trace file) gives it a name. Only the few functions that mean something to a job
//! are kept.
//!
//! Where the table is hidden (`kptr_restrict`, every address 0) no address gets a name and every timer is
//! [`TimerFunction::Other`]. Nothing is guessed here: guessing which address is which from the records would need the
//! whole trace before the first event. [`crate::jobs`] recognises throttling by structure instead when no timer of a
//! trace has a name (see there).

use surety_model::event::TimerFunction;

/// The addresses of the timer functions Surety tells apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// A handful: a linear search is the fastest.
    functions: Vec<(u64, TimerFunction)>,
}

impl Symbols {
    /// Reads lines of `ADDRESS TYPE NAME [MODULE]`. Lines that are none are passed over, as is an address of 0.
    pub fn parse(kallsyms: &str) -> Symbols {
        let functions = kallsyms.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (address, _, name) = (words.next()?, words.next()?, words.next()?);
            let function = timer_function(name);
            // The name first: it fails for all but a few of 200,000 lines.
            (function != TimerFunction::Other)
                .then(|| u64::from_str_radix(address, 16).ok())
                .flatten()
                .filter(|address| *address != 0)
                .map(|address| (address, function))
        });
        Symbols { functions: functions.collect() }
    }

    /// No timer function has an address: the table was hidden, or there was none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at `address`.
    #[inline]
    pub fn timer_function(&self, address: u64) -> TimerFunction {
        self.functions.iter().find(|(known, _)| *known == address).map_or(TimerFunction::Other, |(_, f)| *f)
    }
}

/// The function of that name, as text traces give it. What a compiler appends after a dot is not part of the name.
pub fn timer_function(name: &str) -> TimerFunction {
    match name.split('.').next().unwrap_or_default() {
        "dl_task_timer" => TimerFunction::DeadlineReplenish,
        "hrtimer_wakeup" => TimerFunction::Wakeup,
        // The tick's function was renamed twice: until 6.7, in 6.8, since 6.9.
        "tick_sched_timer" | "tick_nohz_highres_handler" | "tick_nohz_handler" => TimerFunction::Tick,
        _ => TimerFunction::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_look_alikes_are_not() {
        let symbols = Symbols::parse(
            "ffffffff813c5a00 t dl_task_timer\n\
             ffffffff8141e4b0 t hrtimer_wakeup.llvm.123\n\
             ffffffff814332e0 t tick_nohz_handler\n\
             ffffffff81434210 T tick_sched_timer_dying\n\
             ffffffffc0001000 t helper\t[module]\n\
             not a line\n",
        );
        for (address, function) in [
            (0xffff_ffff_813c_5a00, TimerFunction::DeadlineReplenish),
            (0xffff_ffff_8141_e4b0, TimerFunction::Wakeup),
            (0xffff_ffff_8143_32e0, TimerFunction::Tick),
            (0xffff_ffff_8143_4210, TimerFunction::Other),
            (0, TimerFunction::Other),
        ] {
            assert_eq!(symbols.timer_function(address), function, "{address:x}");
        }
    }

    #[test]
    fn a_hidden_table_names_nothing() {
        let hidden = Symbols::parse("0000000000000000 t dl_task_timer\n0000000000000000 t hrtimer_wakeup\n");
        assert!(hidden.is_empty());
        assert_eq!(hidden.timer_function(0), TimerFunction::Other);
    }
}
