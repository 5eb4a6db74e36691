//! Latency-nice beside weight: what a shorter slice is to a thread among many, and what it is not.
//!
//! The EEVDF series of 2023 (P. Zijlstra) gave a thread of latency-nice -20 a slice of `3 ms 1024 / 88761`, 35 us, which only the simulator
//! has; kernels since 6.12 take a slice of its own instead, 100 us at least. At OSPM 2023 (Y. Esmat) EEVDF with latency-nice -20 was slower than CFS. Its share is by
//! weight whatever its slice; published is no number that this is held against.

use surety_model::weight::{NICE_0_WEIGHT, nice_weight};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::by_rule::{Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

/// How many spinners of nice 0 stand beside the thread.
const BESIDE: [u32; 3] = [10, 100, 1_000];
/// Slices of the thread: the kernel's own, the shortest that one may ask for, and that of a latency nice, which kernels refuse.
const SLICES: [(&str, &str); 3] = [
    ("slice of all", ""),
    ("slice of 100 us", "slice = '100us'\n"),
    ("latency nice -20", "latency_nice = -20\n"),
];

fn settings(beside: &[u32]) -> Vec<Setting> {
    let setting = |count: u32, (name, slice): (&str, &str)| {
        let weight = nice_weight(-20) as f64;
        let share = weight / (weight + NICE_0_WEIGHT as f64 * f64::from(count));
        Setting {
            name: format!("{name}, beside {count}"),
            machine: None,
            workload: format!(
                "[[task]]\nname = 'high'\nwork = 'forever'\nnice = -20\n{slice}\
                 [[load]]\nname = 'normal'\nkind = 'spinners'\ncount = {count}\n"
            ),
            figures: vec![("high", Figure::Share, Some(share * 100.0)), ("high", Figure::Gap, None)],
        }
    };
    beside.iter().flat_map(|count| SLICES.map(|slice| setting(*count, slice))).collect()
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "latency-nice",
    title: "share and longest wait of a thread with a short slice among many spinners",
    source: "P. Zijlstra's EEVDF series and Y. Esmat, OSPM 2023; no numbers published",
    worlds: &["sim:linux-6.18", "sim:linux-7.2", "host"],
    duration: Nanos::from_secs(20),
    lab_shift: 2,
    is_traced: true,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        "by the rule: w / (w + 1024 n); a slice changes how often the share comes, not what it is".to_owned(),
        "slices end on ticks of 4 ms up to 7.0, so a shorter one than that does nothing by itself there"
            .to_owned(),
    ];
    sheet(bench, request, &settings(&BESIDE), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    #[test]
    fn shares_are_by_weight_whatever_the_slice() {
        for (name, rule, value) in simulated(&settings(&[10, 100]), 20) {
            let value = value.unwrap();
            if let Some(rule) = rule {
                assert!((value - rule).abs() < 0.5, "{name}: {value} of {rule}");
            }
        }
    }
}
