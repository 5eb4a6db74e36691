//! Realtime throttling against the fair server: what a fair thread has beside a realtime one that never sleeps, and how long it waits.
//!
//! Told at OSPM 2023 (J. Fernandes, "Rewriting RT throttling"): a shorter period, or the fair server, was advised against waits of 950 ms. No numbers
//! were published beside the kernel's defaults; the rule is that of the two mechanisms.

use surety_model::platform::{FairServer, Platform, RealtimeLimit};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::by_rule::{Change, Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

const WORKLOAD: &str = "[[task]]\nname = 'hog'\nwork = 'forever'\npolicy = 'fifo:50'\n\
                        [[task]]\nname = 'fair'\nwork = 'forever'\n";

fn limited(platform: Platform, runtime: i64, period: i64) -> Platform {
    let [runtime, period] = [runtime, period].map(Nanos::from_millis);
    Platform { fair_server: None, realtime_limit: Some(RealtimeLimit { runtime, period }), ..platform }
}

fn served(platform: Platform, runtime: i64, period: i64) -> Platform {
    let [runtime, period] = [runtime, period].map(Nanos::from_millis);
    Platform { fair_server: Some(FairServer { runtime, period }), realtime_limit: None, ..platform }
}

fn demoted(platform: Platform) -> Platform {
    Platform { realtime_demoted: true, ..limited(platform, 950, 1_000) }
}

/// Machines; by the rule the share of the fair thread, percent, and its longest wait: what the period has beside its part, ms.
const MACHINES: [(&str, Change, f64, Option<f64>); 6] = [
    ("as the kernel is", None, 5.0, None),
    ("throttling, 950 ms of 1 s", Some(|platform| limited(platform, 950, 1_000)), 5.0, Some(950.0)),
    ("throttling to fair, 950 ms of 1 s", Some(demoted), 2.5, Some(950.0)),
    ("fair server, 50 ms of 1 s", Some(|platform| served(platform, 50, 1_000)), 5.0, Some(950.0)),
    ("throttling, 95 ms of 100 ms", Some(|platform| limited(platform, 95, 100)), 5.0, Some(95.0)),
    ("fair server, 5 ms of 100 ms", Some(|platform| served(platform, 5, 100)), 5.0, Some(95.0)),
];

fn settings() -> Vec<Setting> {
    let setting = |(name, machine, share, gap): (&str, Change, f64, Option<f64>)| Setting {
        name: name.to_owned(),
        machine,
        workload: WORKLOAD.to_owned(),
        figures: vec![
            ("fair", Figure::Share, Some(share)),
            ("fair", Figure::Gap, gap),
            ("hog", Figure::Gap, None),
        ],
    };
    MACHINES.map(setting).into()
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rt-throttling",
    title: "what a fair thread has beside a realtime one that never sleeps, and how long it waits",
    source: "J. Fernandes, \"Rewriting RT throttling\", OSPM 2023; no numbers published",
    worlds: &["sim:linux-6.18", "sim:linux-6.1", "host"],
    duration: Nanos::from_secs(20),
    lab_shift: 2,
    is_traced: true,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        "by the rule: the fair thread has a twentieth, and waits for the rest of the period; kernels run with what they have"
            .to_owned(),
        "to fair: throttled realtime threads run on as fair ones of nice 0, which no kernel does; the two share the twentieth"
            .to_owned(),
    ];
    sheet(bench, request, &settings(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    #[test]
    fn a_fair_thread_has_a_twentieth_and_waits_for_the_rest_of_the_period() {
        let found = simulated(&settings(), 20);
        assert_eq!(found.len(), 18);
        for (name, rule, value) in found {
            let value = value.unwrap();
            // Of times, a tick and what is paid back of it; of shares, half a point.
            let Some(rule) = rule else { continue };
            let far = if name.ends_with('%') { 0.5 } else { 8.0 };
            assert!((value - rule).abs() <= far, "{name}: {value} of {rule}");
        }
    }
}
