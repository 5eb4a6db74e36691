//! Why the simulator is outside the tolerance where it is: what the kernel's code or the emulator does that is not simulated.

/// A cause, for all it explains: a scenario, the beginning of a kernel's word, an activity and the beginning of a figure's word; what is
/// empty stands for all.
struct Cause {
    scenario: &'static str,
    kernel: &'static str,
    activity: &'static str,
    figure: &'static str,
    why: &'static str,
}

const CAUSES: &[Cause] = &[];

/// Why a figure may be outside.
pub(super) fn cause(scenario: &str, kernel: &str, activity: &str, figure: &str) -> Option<&'static str> {
    let fits = |cause: &&Cause| {
        (cause.scenario.is_empty() || cause.scenario == scenario)
            && kernel.starts_with(cause.kernel)
            && (cause.activity.is_empty() || cause.activity == activity)
            && figure.starts_with(cause.figure)
    };
    CAUSES.iter().find(fits).map(|cause| cause.why)
}
