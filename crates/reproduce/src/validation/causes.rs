//! Why the simulator is outside the tolerance where it is: what the kernel's code or the emulator does that is not simulated.
//!
//! Most often that is threads of the kernel's own (rcu_preempt, kworker), which run for microseconds every few ticks; on the host it is the
//! hypervisor, too. With one such thread in the workload ([`Beside`]), the scenario is simulated again, and the page
//! shows what that gives. When and how long the kernel's run is not known: of periods of 3 to 45 ms and runs of 3 to 50 us those are named
//! that leave the fewest figures outside. That shows what such threads can do to a figure, and foretells none.
//!
//! Others are shown otherwise: on a machine whose CPUs that go idle have one more tick, or whose wake-ups or ticks take other times; by a window
//! that begins later, by a workload that reads otherwise in one place, or with ticks of several CPUs whose order is chance (400 seeds were tried).

mod placed;
mod table;

use super::{Beside, Row};
use placed::PLACED;
use table::CAUSES;

/// A cause, and what it explains: scenarios, the beginning of a kernel's word, an activity, and the beginnings of figures' words; what is
/// empty stands for all. Of several the first holds.
pub(super) struct Cause {
    pub(super) why: &'static str,
    /// What is simulated beside the scenario to show it.
    pub(super) beside: Option<Beside>,
    scenarios: &'static [&'static str],
    kernel: &'static str,
    activity: &'static str,
    figures: &'static [&'static str],
}

fn all() -> impl Iterator<Item = &'static Cause> {
    CAUSES.iter().chain(&PLACED)
}

/// Why a figure may be outside.
pub(super) fn cause(scenario: &str, kernel: &str, activity: &str, figure: &str) -> Option<&'static Cause> {
    let fits = |cause: &&Cause| {
        (cause.scenarios.is_empty() || cause.scenarios.contains(&scenario))
            && kernel.starts_with(cause.kernel)
            && (cause.activity.is_empty() || cause.activity == activity)
            && (cause.figures.is_empty() || cause.figures.iter().any(|begin| figure.starts_with(begin)))
    };
    all().find(fits)
}

/// The causes of scenarios and kernels among the rows that excuse none of them.
pub fn without_use(rows: &[Row]) -> Vec<String> {
    let is_of = |cause: &Cause, row: &Row| {
        (cause.scenarios.is_empty() || cause.scenarios.contains(&row.scenario.as_str()))
            && row.kernel.starts_with(cause.kernel)
    };
    let excuses = |of: &Cause, row: &Row| {
        let found = cause(&row.scenario, &row.kernel, &row.activity, row.figure);
        !row.agrees() && found.is_some_and(|found| std::ptr::eq(found, of))
    };
    let idle = all().filter(|cause| {
        rows.iter().any(|row| is_of(cause, row)) && !rows.iter().any(|row| excuses(cause, row))
    });
    idle.map(|cause| format!("{} on {}*: {}", cause.scenarios.join(", "), cause.kernel, cause.why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::scenarios;

    #[test]
    fn every_cause_is_of_scenarios_that_there_are() {
        let titles: Vec<String> = scenarios().into_iter().map(|scenario| scenario.title).collect();
        for name in all().flat_map(|cause| cause.scenarios) {
            assert!(titles.iter().any(|title| title == name), "{name}");
        }
    }
}
