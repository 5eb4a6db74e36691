//! Acceptance ratios: the tables in `docs/schedulability.md` and the picture `docs/acceptance.svg`, drawn anew, and the same
//! to the digit. With `SURETY_DRAW=1` in the environment the picture is written.

use std::fmt::Write;

use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::generate::{Deadlines, random_set};
use super::orders::{in_order, optimal, rate_monotonic, slack_monotonic};
use super::twin::{self, HYPERPERIOD, Job, PERIODS, Rule, in_time, play};
use crate::schedulability::partition::{CoreTest, Heuristic, partition};
use crate::schedulability::{SporadicTask, fixed, global_edf, global_fixed, uniprocessor};

use super::picture::{Panel, draw};

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/acceptance.svg");

const DOCS: &str = include_str!("../../../../../docs/schedulability.md");

/// Sets for each line of a table.
const SETS: usize = 300;

/// Periods are this many times those of the twin, so that a work of at least one raises the utilisation little.
const SCALE: i64 = 4;

/// A column's head and how its test is asked; the last column is simulated.
type Column<'a> = (&'a str, Ask);

type Ask = Box<dyn Fn(&[SporadicTask]) -> bool>;

fn survives(tasks: &[SporadicTask], cpus: usize) -> bool {
    let end = 2 * SCALE * HYPERPERIOD;
    let jobs: Vec<Job> = (0..tasks.len()).flat_map(|i| twin::densest(i, &tasks[i], end)).collect();
    in_time(tasks, &play(&jobs, tasks.len(), cpus, Rule::Edf, true, end))
}

fn one_cpu() -> Vec<Column<'static>> {
    let monotonic = |tasks: &[SporadicTask]| in_order(tasks, &rate_monotonic(tasks));
    vec![
        ("hyperbolic", Box::new(move |s| fixed::hyperbolic(&monotonic(s)).holds())),
        ("density", Box::new(|s| uniprocessor::density(s).holds())),
        ("RTA, rate-monotonic", Box::new(move |s| fixed::response_times(&monotonic(s)).holds())),
        ("RTA, optimal", Box::new(|s| optimal(s).is_some())),
        ("EDF demand", Box::new(|s| uniprocessor::processor_demand(s).holds())),
        ("EDF simulated", Box::new(|s| survives(s, 1))),
    ]
}

fn four_cpus() -> Vec<Column<'static>> {
    let heads = ["GFB", "BAK", "BCL", "BCL iterated", "RTA", "FF-DBF"];
    let mut columns: Vec<Column<'static>> = (heads.into_iter().zip(global_edf::TESTS))
        .map(|(head, (_, test))| {
            let ask: Ask = Box::new(move |s| test(s, 4).holds());
            (head, ask)
        })
        .collect();
    columns.push((
        "fixed RTA, by slack",
        Box::new(|s| {
            let s = in_order(s, &slack_monotonic(s));
            global_fixed::response_times(&s, 4).holds()
        }),
    ));
    for (head, heuristic) in [("first fit", Heuristic::FirstFit), ("worst fit", Heuristic::WorstFit)] {
        columns.push((
            head,
            Box::new(move |s| partition(s, 4, heuristic, CoreTest::Edf).is_ok_and(|p| p.complete())),
        ));
    }
    columns.push(("global EDF simulated", Box::new(|s| survives(s, 4))));
    columns
}

/// Utilisations of a CPU that are looked at, in hundredths.
fn hundredths() -> impl Iterator<Item = u64> {
    (6..=19).map(|t| t * 5).filter(|t| t % 10 == 0 || *t > 80)
}

/// One table: a line for each utilisation of a CPU, percents of accepted sets.
fn table(
    columns: &[Column<'_>],
    cpus: usize,
    tasks: usize,
    deadlines: Deadlines,
    stream: u64,
) -> (String, Vec<Vec<usize>>) {
    let mut text = String::from("| U / CPU |");
    columns.iter().for_each(|(head, _)| write!(text, " {head} |").unwrap());
    text.push_str("\n|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    let mut all = Vec::new();
    for hundredths in hundredths() {
        let mut random = Pcg::for_job(stream, hundredths, 0);
        let mut counts = vec![0; columns.len()];
        for _ in 0..SETS {
            let total = cpus as f64 * hundredths as f64 / 100.0;
            let periods = PERIODS.map(|t| Nanos::new(SCALE * t));
            let unit = Nanos::new(1);
            let set = random_set(tasks, total, &periods, unit, deadlines, &mut random).expect("drawn");
            for (count, (_, accepts)) in counts.iter_mut().zip(columns) {
                *count += usize::from(accepts(&set));
            }
        }
        write!(text, "| {}.{:02} |", hundredths / 100, hundredths % 100).unwrap();
        counts.iter().for_each(|c| write!(text, " {} |", c * 100 / SETS).unwrap());
        text.push('\n');
        all.push(counts);
    }
    (text, all)
}

#[test]
fn the_table_of_the_docs_is_what_the_tests_say() {
    let (mut missing, mut panels) = (String::new(), Vec::new());
    for (name, columns, cpus, tasks, deadlines) in [
        ("One CPU, 5 tasks, implicit deadlines", one_cpu(), 1, 5, Deadlines::Implicit),
        ("One CPU, 5 tasks, constrained deadlines", one_cpu().split_off(1), 1, 5, Deadlines::Constrained),
        ("Four CPUs, 8 tasks, implicit deadlines", four_cpus(), 4, 8, Deadlines::Implicit),
        ("Four CPUs, 8 tasks, constrained deadlines", four_cpus(), 4, 8, Deadlines::Constrained),
    ] {
        let (text, counts) = table(&columns, cpus, tasks, deadlines, 77);
        for line in &counts {
            if cpus == 1 {
                let [.., density, monotonic, optimal, demand, simulated] = line[..] else { panic!() };
                assert!(monotonic <= optimal && optimal <= demand, "{line:?}");
                assert!(line.len() < 6 || line[0] <= monotonic, "the hyperbolic bound: {line:?}");
                assert!(density <= demand, "{line:?}");
                assert_eq!(demand, simulated, "an exact test is the schedule itself");
            } else {
                let [gfb, _, bcl, iterated, rta, forced, _, _, _, simulated] = line[..] else { panic!() };
                assert!(bcl <= iterated && iterated <= rta && rta <= simulated, "{line:?}");
                assert!(gfb <= forced && forced <= simulated, "{line:?}");
            }
        }
        let percents = |line: &Vec<usize>| line.iter().map(|count| count * 100 / SETS).collect();
        panels.push(Panel {
            title: name,
            heads: columns.iter().map(|(head, _)| *head).collect(),
            points: hundredths().zip(counts.iter().map(percents)).collect(),
        });
        if !DOCS.contains(&text) {
            write!(missing, "\n{name}:\n\n{text}").unwrap();
        }
    }
    let drawn = draw(&panels);
    if std::env::var_os("SURETY_DRAW").is_some() {
        std::fs::write(PICTURE, &drawn).expect("docs/acceptance.svg can be written");
    }
    let stored = std::fs::read_to_string(PICTURE).unwrap_or_default();
    assert_eq!(stored, drawn, "docs/acceptance.svg is not what the tests say: draw it with SURETY_DRAW=1");
    assert!(missing.is_empty(), "docs/schedulability.md does not hold these tables:\n{missing}");
}
