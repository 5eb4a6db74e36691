//! Partitions: what is put on a CPU keeps its deadlines there, what is not could not be put there, and no partition is
//! claimed that cannot exist.

use surety_stats::random::Pcg;
use surety_units::{CpuId, Nanos};

use super::generate::Deadlines;
use super::orders::{deadline_monotonic, in_order};
use super::twin::{self, HYPERPERIOD, Job, Rule, draw, in_time, play, task, utilisation};
use crate::schedulability::SporadicTask;
use crate::schedulability::fixed::response_times;
use crate::schedulability::partition::{CoreTest, Heuristic, Obstacle, PartitionError, partition};
use crate::schedulability::uniprocessor::processor_demand;

type Fits<'a> = &'a dyn Fn(&[SporadicTask]) -> bool;

const HEURISTICS: [Heuristic; 3] = [Heuristic::FirstFit, Heuristic::BestFit, Heuristic::WorstFit];

#[test]
fn known_sets_go_where_the_heuristics_put_them() {
    // Decreasing 60, 50, 40, 30, 20 of 100 on two CPUs: first and best fit fill the first one; worst fit spreads to 90
    // and 90, and has no place for the last.
    let set: Vec<SporadicTask> = [30, 60, 40, 20, 50].iter().map(|c| task(*c, 100, 100)).collect();
    for (heuristic, first, second) in [
        (Heuristic::FirstFit, vec![1, 2], vec![4, 0, 3]),
        (Heuristic::BestFit, vec![1, 2], vec![4, 0, 3]),
        (Heuristic::WorstFit, vec![1, 0], vec![4, 2]),
    ] {
        let found = partition(&set, 2, heuristic, CoreTest::Edf).unwrap();
        let of = |cpu: usize| found.cpus[cpu].clone();
        assert_eq!((of(0), &of(1)[..2]), (first, &second[..2]), "{heuristic:?}");
        assert_eq!(found.complete(), heuristic != Heuristic::WorstFit, "{:?}", found.unplaced);
        assert!(found.cpus[0].contains(&1));
    }
    // Dhall's effect is none for partitions: light tasks share a CPU, the heavy one has its own.
    let dhall = [task(2, 10, 10), task(2, 10, 10), task(19, 20, 20)];
    assert!(partition(&dhall, 2, Heuristic::FirstFit, CoreTest::Edf).unwrap().complete());
    // m + 1 tasks of a little more than a half fit on no m CPUs, though they take little more than (m + 1)/2.
    let halves = [task(51, 100, 100); 4];
    let found = partition(&halves, 3, Heuristic::BestFit, CoreTest::Edf).unwrap();
    assert_eq!(found.unplaced.len(), 1);
    assert_eq!(
        found.unplaced[0].to_string(),
        "task 3 fits on no CPU: CPU 0: only 0.4900 of it is free; CPU 1: only 0.4900 of it is free; CPU 2: only 0.4900 \
         of it is free"
    );
    // Full to exactly one, which a strict comparison would refuse.
    let thirds = [SporadicTask::implicit(Nanos::new(7), Nanos::new(21)); 6];
    assert!(partition(&thirds, 2, Heuristic::FirstFit, CoreTest::Edf).unwrap().complete());
    assert!(partition(&thirds, 2, Heuristic::FirstFit, CoreTest::DeadlineMonotonic).unwrap().complete());
    // What stands in the way is named by the exact test.
    let tight = [task(2, 3, 10), task(2, 3, 10)];
    let by_demand = partition(&tight, 1, Heuristic::FirstFit, CoreTest::Edf).unwrap();
    let (window, asked) = (Nanos::new(3), Nanos::new(4));
    assert_eq!(by_demand.unplaced[0].obstacles, [(CpuId(0), Obstacle::Demand { window, asked })]);
    let by_response = partition(&tight, 1, Heuristic::FirstFit, CoreTest::DeadlineMonotonic).unwrap();
    let words = by_response.unplaced[0].to_string();
    assert_eq!(words, "task 1 fits on no CPU: CPU 0: task 1 would respond after 4 ns or more, deadline 3 ns");
}

#[test]
fn what_cannot_be_partitioned_is_refused_in_words() {
    let nothing = partition(&[task(1, 2, 2)], 0, Heuristic::FirstFit, CoreTest::Edf);
    assert_eq!(nothing, Err(PartitionError::NoCpu));
    let bad = partition(&[task(1, 2, 0)], 1, Heuristic::FirstFit, CoreTest::Edf).unwrap_err();
    assert_eq!(bad.to_string(), "task 0: period 0s is not positive");
}

/// Whether any partition exists, by trying all of them.
fn any_partition(tasks: &[SporadicTask], cpus: usize, fits: Fits<'_>) -> bool {
    fn place(rest: &[SporadicTask], cores: &mut Vec<Vec<SporadicTask>>, fits: Fits<'_>) -> bool {
        let Some((task, rest)) = rest.split_first() else { return true };
        for cpu in 0..cores.len() {
            cores[cpu].push(*task);
            if fits(&cores[cpu]) && place(rest, cores, fits) {
                return true;
            }
            cores[cpu].pop();
            // CPUs are alike: one empty one is enough.
            if cores[cpu].is_empty() {
                break;
            }
        }
        false
    }
    place(tasks, &mut vec![Vec::new(); cpus], fits)
}

#[test]
fn every_partition_keeps_its_deadlines_and_heuristics_find_no_more_than_exists() {
    let mut random = Pcg::for_job(9, 21, 0);
    let mut found = [[0; 3]; 2];
    let mut exist = [0; 2];
    for round in 0..1_200 {
        let cpus = 2 + random.below(2) as usize;
        let count = cpus + 1 + random.below(4) as usize;
        let deadlines = [Deadlines::Implicit, Deadlines::Constrained][random.below(2) as usize];
        let total = cpus as f64 * (0.5 + 0.5 * random.unit_open());
        let tasks = draw(count, total, deadlines, &mut random);
        let tests: [(CoreTest, Rule, Fits<'_>); 2] = [
            (CoreTest::Edf, Rule::Edf, &|set| processor_demand(set).holds()),
            (CoreTest::DeadlineMonotonic, Rule::Fixed, &|set| {
                response_times(&in_order(set, &deadline_monotonic(set))).holds()
            }),
        ];
        for (which, (core_test, rule, fits)) in tests.into_iter().enumerate() {
            let exists = any_partition(&tasks, cpus, fits);
            exist[which] += i32::from(exists);
            for (at, heuristic) in HEURISTICS.into_iter().enumerate() {
                let partition = partition(&tasks, cpus as u32, heuristic, core_test).unwrap();
                let mut placed: Vec<usize> = partition.cpus.iter().flatten().copied().collect();
                placed.extend(partition.unplaced.iter().map(|u| u.task));
                placed.sort_unstable();
                assert_eq!(placed, (0..count).collect::<Vec<_>>());
                assert!(!partition.complete() || exists, "{round}: {tasks:?} {partition:?}");
                found[which][at] += i32::from(partition.complete());
                for cpu in &partition.cpus {
                    let mut core: Vec<SporadicTask> = cpu.iter().map(|place| tasks[*place]).collect();
                    if rule == Rule::Fixed {
                        core.sort_by_key(|t| t.deadline);
                    }
                    let end = 2 * HYPERPERIOD;
                    let jobs: Vec<Job> =
                        (0..core.len()).flat_map(|i| twin::densest(i, &core[i], end)).collect();
                    assert!(in_time(&core, &play(&jobs, core.len(), 1, rule, true, end)), "{core:?}");
                    assert!(utilisation(&core) <= 1.000_001);
                }
                for unplaced in &partition.unplaced {
                    assert_eq!(unplaced.obstacles.len(), cpus);
                    // CPUs only fill up: what stood in the way stands there at the end.
                    for cpu in &partition.cpus {
                        let with = cpu.iter().chain([&unplaced.task]).map(|place| tasks[*place]);
                        assert!(!fits(&with.collect::<Vec<_>>()), "{tasks:?} {partition:?}");
                    }
                }
            }
        }
    }
    for which in 0..2 {
        assert!(exist[which] > 200 && exist[which] < 1_100, "{exist:?}");
        assert!(found[which].iter().all(|f| *f > 100 && *f <= exist[which]), "{found:?} {exist:?}");
    }
    // EDF is optimal on one CPU, so it finds partitions at least as often.
    assert!(exist[0] >= exist[1] && (0..3).all(|h| found[0][h] >= found[1][h]), "{found:?} {exist:?}");
    // Filling up leaves more room for large tasks than spreading.
    assert!(found[0][0] >= found[0][2], "{found:?}");
}
