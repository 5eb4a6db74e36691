//! What control groups make of a high priority: at each level of the tree a group divides by weight among those directly in it, so a leaf's share is the product of
//! `w / W` along its path, and nice values of different groups are never compared.
//!
//! At OSPM 2023 (S. Rostedt, Y. Esmat) groups of a browser (`ui`, `render` with `fg` and `bg`) were said to dilute its important threads: one of high priority waits
//! for another group to finish, however low that is. Published of it is what leaving the groups did to a chain of threads (mouse latency on two CPUs from
//! 121 to 71 ms), and no share.

use surety_model::weight::{NICE_0_WEIGHT, nice_weight};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::by_rule::{Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

/// The groups of the talk.
const GROUPS: &str = "[[group]]\nname = 'ui'\n\
     [[group]]\nname = 'render'\n\
     [[group]]\nname = 'fg'\nparent = 'render'\n\
     [[group]]\nname = 'bg'\nparent = 'render'\n";

/// The part of a thread of nice -20 beside `count` of nice 0.
fn beside(count: f64) -> f64 {
    let weight = nice_weight(-20) as f64;
    weight / (weight + NICE_0_WEIGHT as f64 * count)
}

fn spinner(name: &str, nice: i32, group: &str) -> String {
    format!("[[task]]\nname = '{name}'\nwork = 'forever'\nnice = {nice}\n{group}")
}

fn normal(name: &str, count: u32, group: &str) -> String {
    format!("[[load]]\nname = '{name}'\nkind = 'spinners'\ncount = {count}\n{group}")
}

/// Spinners all over the tree of the talk, the thread of high priority among those of `fg`; none is in a group where `is_flat`.
fn tree(is_flat: bool) -> String {
    let of = |group: &str| if is_flat { String::new() } else { format!("group = '{group}'\n") };
    let groups = if is_flat { "" } else { GROUPS };
    [
        spinner("high", -20, &of("fg")),
        normal("beside", 1, &of("fg")),
        normal("background", 5, &of("bg")),
        normal("interface", 4, &of("ui")),
        groups.to_owned(),
    ]
    .concat()
}

/// A thread of nice -20 with 12 ms of work in 20 beside a spinner of nice 19, each in a group of its own or both in none.
fn apart(is_flat: bool, weights: (u32, u32)) -> String {
    let of = |group: &str| if is_flat { String::new() } else { format!("group = '{group}'\n") };
    let groups = format!(
        "[[group]]\nname = 'high'\nweight = {}\n[[group]]\nname = 'low'\nweight = {}\n",
        weights.0, weights.1
    );
    [
        "[[task]]\nname = 'jobs'\nperiod = '20ms'\nwork = '12ms'\nnice = -20\n".to_owned() + &of("high"),
        spinner("low", 19, &of("low")),
        if is_flat { String::new() } else { groups },
    ]
    .concat()
}

fn settings() -> Vec<Setting> {
    let of = |name: &str, workload: String, figures: Vec<(&'static str, Figure, Option<f64>)>| Setting {
        name: name.to_owned(),
        machine: None,
        workload,
        figures,
    };
    let shares = |high: f64, jobs: &'static str| {
        vec![(jobs, Figure::Share, Some(high * 100.0)), (jobs, Figure::Gap, None)]
    };
    vec![
        of("no groups, beside 10", tree(true), shares(beside(10.0), "high")),
        // A half of `render`, a half of that `fg`, and there the thread beside one.
        of("in render/fg", tree(false), shares(0.25 * beside(1.0), "high")),
        of("12 ms in 20, no groups", apart(true, (100, 100)), shares(0.6, "jobs")),
        of("12 ms in 20, groups alike", apart(false, (100, 100)), shares(0.5, "jobs")),
        of("12 ms in 20, own group 1 to 4", apart(false, (25, 100)), shares(0.2, "jobs")),
        // By weight it could have nine tenths, and does not want them.
        of("12 ms in 20, own group 9 to 1", apart(false, (900, 100)), shares(0.6, "jobs")),
    ]
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cgroup-dilution",
    title: "share and longest wait of a thread of high priority in control groups",
    source: "S. Rostedt and Y. Esmat, OSPM 2023; no shares published",
    worlds: &["sim:linux-6.18", "sim:linux-6.1", "host"],
    duration: Nanos::from_secs(20),
    lab_shift: 2,
    is_traced: true,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        "by the rule: the product of w / W along the path, at most what the thread wants; groups have weight 100 where nothing else is said"
            .to_owned(),
        "published of leaving the groups: mouse latency of a browser on two CPUs, 121 to 71 ms, with a chain of threads, which `surety reproduce chromebook` runs"
            .to_owned(),
    ];
    sheet(bench, request, &settings(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    #[test]
    fn shares_are_the_product_of_weights_along_the_path() {
        for (name, rule, value) in simulated(&settings(), 20) {
            let value = value.unwrap();
            if let Some(rule) = rule {
                assert!((value - rule).abs() < 1.0, "{name}: {value} of {rule}");
            }
        }
    }

    /// A16: it waits longer than a slice of the other group where it is in one, and not at all where both are in none.
    #[test]
    fn a_low_thread_of_another_group_is_waited_for() {
        let waits: Vec<f64> = simulated(&settings(), 20)
            .into_iter()
            .filter(|(name, ..)| name.starts_with("12 ms") && name.contains("wait"))
            .map(|(_, _, value)| value.unwrap())
            .collect();
        let [flat, alike, low, high] = waits[..] else { panic!("{waits:?}") };
        assert!(flat == 0.0 && alike > flat && low > alike && high < low, "{waits:?}");
    }
}
