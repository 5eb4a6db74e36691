//! Requests for more than there is: which part of it each gets when all are to miss by the same percentage.
//!
//! Asked at OSPM 2023 (S. Rostedt, the over-commit scheduler); no numbers were published. The scheduler is a reconstruction that only
//! the simulator has. Beside it stand the same requests as reservations, which a kernel refuses.

use surety_model::platform::Platform;
use surety_model::world::WorldError;
use surety_units::{Bandwidth, Nanos};

use super::by_rule::{Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

/// Names, and what they ask for: ms in every ms.
const REQUESTS: [(&str, i64, i64); 3] = [("first", 30, 100), ("second", 24, 40), ("third", 35, 70)];

fn all_of_a_cpu(platform: Platform) -> Platform {
    Platform { deadline_cap: Bandwidth::ONE, fair_server: None, ..platform }
}

fn setting(name: &str, policy: &str, requests: &[(&'static str, i64, i64)]) -> Setting {
    let task = |(name, runtime, period): &(&str, i64, i64)| {
        format!(
            "[[task]]\nname = '{name}'\nwork = 'forever'\n{policy}\
             reservation = {{ runtime = '{runtime}ms', period = '{period}ms' }}\n"
        )
    };
    let asked: f64 = requests.iter().map(|(_, q, t)| *q as f64 / *t as f64).sum();
    let figure = |(name, q, t): &(&'static str, i64, i64)| {
        let part = *q as f64 / *t as f64 / asked.max(1.0);
        (*name, Figure::Share, Some(part * 100.0))
    };
    Setting {
        name: name.to_owned(),
        machine: Some(all_of_a_cpu),
        workload: requests.iter().map(task).collect(),
        figures: requests.iter().map(figure).collect(),
    }
}

fn settings() -> Vec<Setting> {
    let overcommit = "policy = 'overcommit'\n";
    vec![
        setting("0.9 asked for", overcommit, &REQUESTS[..2]),
        setting("1.4 asked for", overcommit, &REQUESTS),
        Setting { machine: None, ..setting("1.4 reserved", "", &REQUESTS) },
    ]
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overcommit",
    title: "requests for more than a CPU, all of which miss by the same part",
    source: "S. Rostedt, OSPM 2023, as a question; no numbers published",
    worlds: &["sim:linux-6.18", "host"],
    duration: Nanos::from_secs(20),
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        "by the rule: a request times one over the sum of all, where that is above one CPU".to_owned(),
        "no kernel has the scheduler `overcommit`; kernels refuse the same requests as reservations"
            .to_owned(),
    ];
    sheet(bench, request, &settings(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    #[test]
    fn requests_have_their_parts_and_reservations_are_refused() {
        let found = simulated(&settings(), 20);
        assert_eq!(found.len(), 8);
        for (name, rule, value) in found {
            match value {
                Ok(value) => assert!((value - rule.unwrap()).abs() < 0.6, "{name}: {value} of {rule:?}"),
                Err(why) => {
                    assert!(name.starts_with("1.4 reserved") && why.contains("reserve less"), "{name}: {why}")
                }
            }
        }
    }
}
