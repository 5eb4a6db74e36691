//! What timer slack saves and costs: wake-ups of a CPU that would be idle, and how late threads are for it.
//!
//! Reference 004 has timers batched within a slack, so that an idle CPU is woken less often. Published is no number of it. The rule is that of
//! range timers (`kernel/time/hrtimer.c`): an interrupt comes at the earliest hard expiry and takes all with it whose soft expiry has passed.
//! Of `n` threads of one period whose expiries are `d` apart it takes `floor(S / d) + 1`, so there are `n / T / (floor(S / d) + 1)` interrupts a
//! second, and the first of each is late by the slack `S`. The i-th of `k` that expire together has waited `S - i d` for its expiry and waits for the work
//! of those before it: the mean response is `S - (k - 1) d / 2 + W (k + 1) / 2`, whatever their order, which tells on a kernel whose interrupts are not counted how
//! many expired together. That of an interrupt of the tick takes others with it, which is not in the rule: an idle CPU is taken to have none.

use std::fmt::Write as _;

use surety_model::platform::{Platform, TimerRules};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::by_rule::{Change, Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

/// Threads of a period, whose expiries are so far apart.
const THREADS: i64 = 20;
const PERIOD: Nanos = Nanos::from_millis(10);
const APART: Nanos = Nanos::from_micros(500);
const WORK: Nanos = Nanos::from_micros(20);

/// The threads with a slack, or with that of the world.
fn threads(slack: Option<Nanos>) -> String {
    let slack = slack.map_or_else(String::new, |s| format!("timer-slack = '{}'\n", s.to_exact_string()));
    let mut text = String::new();
    for thread in 0..THREADS {
        let times = [PERIOD, APART * thread, WORK].map(Nanos::to_exact_string);
        let [period, start, work] = &times;
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "[[task]]\nname = 't{thread}'\nperiod = '{period}'\nstart = '{start}'\nwork = '{work}'\n{slack}"
        );
    }
    text
}

/// Threads that expire together with a slack.
fn together(slack: Nanos) -> i64 {
    slack.div_floor(APART) + 1
}

/// Interrupts in a second with a slack.
fn interrupts(slack: Nanos) -> f64 {
    let wake_ups = THREADS as f64 / PERIOD.as_secs_f64();
    wake_ups / together(slack) as f64
}

/// The mean response with a slack, in ms.
fn mean_response(slack: Nanos) -> f64 {
    let together = together(slack) as f64;
    let earlier = APART.as_millis_f64() * (together - 1.0) / 2.0;
    slack.as_millis_f64() - earlier + WORK.as_millis_f64() * (together + 1.0) / 2.0
}

fn rules(platform: Platform, change: fn(&mut TimerRules)) -> Platform {
    let mut timers = platform.timers.unwrap_or_default();
    change(&mut timers);
    Platform { timers: Some(timers), ..platform }
}

fn settings() -> Vec<Setting> {
    let of_slack = |slack: Nanos| {
        let rate = interrupts(slack);
        Setting {
            name: format!("slack {}", slack.to_exact_string()),
            machine: None,
            workload: threads(Some(slack)),
            figures: vec![
                ("all", Figure::Interrupts, Some(rate)),
                ("all", Figure::IdleExits, Some(rate)),
                ("all", Figure::Mean, Some(mean_response(slack))),
                ("all", Figure::Longest, Some((slack + WORK).as_millis_f64())),
            ],
        }
    };
    let of_machine = |name: &str, machine: Change, figures: [(Figure, Option<f64>); 3]| Setting {
        name: name.to_owned(),
        machine,
        workload: threads(None),
        figures: figures.map(|(figure, rule)| ("all", figure, rule)).to_vec(),
    };
    let slacks = [Nanos::new(1), Nanos::from_micros(50), APART, APART * 2, APART * 4, APART * 10];
    let mut all: Vec<Setting> = slacks.into_iter().map(of_slack).collect();
    let rate = interrupts(Nanos::ZERO);
    // Whoever expires on a tick is in its interrupt, of which an idle CPU that is not ticking has one for each.
    all.push(of_machine(
        "no high resolution",
        Some(|platform| rules(platform, |timers| timers.high_resolution = false)),
        [(Figure::Interrupts, None), (Figure::IdleExits, Some(250.0)), (Figure::Longest, None)],
    ));
    all.push(of_machine(
        "idle CPUs tick",
        Some(|platform| rules(platform, |timers| timers.stops_idle_tick = false)),
        [
            (Figure::Interrupts, None),
            (Figure::IdleExits, None),
            (Figure::Longest, Some(WORK.as_millis_f64())),
        ],
    ));
    all.push(of_machine(
        "idle CPUs do not",
        Some(|platform| rules(platform, |_| ())),
        [
            (Figure::Interrupts, Some(rate)),
            (Figure::IdleExits, Some(rate)),
            (Figure::Longest, Some(WORK.as_millis_f64())),
        ],
    ));
    all
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "timers",
    title: "wake-ups of a CPU and delays of threads by their timer slack",
    source: "timers with slack, as told of at OSPM 2023; no numbers published",
    worlds: &["sim:linux-6.18", "host"],
    duration: Nanos::from_secs(10),
    // A wake-up of a slower guest takes as long as a job.
    lab_shift: 0,
    lab_duration: Some(Nanos::from_secs(3)),
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        format!(
            "{THREADS} threads of {}, {} apart; by the rule an interrupt takes floor(S / {}) + 1 of them",
            PERIOD.to_exact_string(),
            APART.to_exact_string(),
            APART.to_exact_string()
        ),
        "the longest response is that of the slack and a thread's own work; those woken together wait for each other, too"
            .to_owned(),
        "kernels count no interrupts for a run; what one costs is in the platform (`timer-cost`, `wakeup-cost`)".to_owned(),
    ];
    sheet(bench, request, &settings(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    /// As the rule says: interrupts and exits from idle within the one at either end of the run, the longest response to the nanosecond, and the mean within a
    /// thousandth: of the 1818 batches or more of the run the ends cut two, whose means are off by half of the slack at the most.
    #[test]
    fn interrupts_and_delays_are_those_of_range_timers() {
        const SECONDS: i64 = 10;
        let found = simulated(&settings(), SECONDS);
        assert_eq!(found.len(), 33);
        for (name, rule, value) in found {
            let value = value.unwrap();
            let Some(rule) = rule else { continue };
            let off = (value - rule).abs();
            let allowed = if name.contains("longest") {
                // A histogram of times is no finer.
                1e-6
            } else if name.contains("mean") {
                rule / 1000.0
            } else {
                2.0 / SECONDS as f64
            };
            assert!(off <= allowed, "{name}: {value} of {rule}");
        }
    }
}
