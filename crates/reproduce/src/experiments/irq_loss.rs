//! What a card's small ring loses while its thread may not run, on both sides of the rule `(T - Q)/P < N_c`.
//!
//! Packets come at a distance P, and their thread needs less than its part of the CPU: alone it would lose none. Beside it runs
//! a thread that always wants the CPU, with a reservation of the same period and the greater part of it, so that the budget comes as
//! late as the deadline lets it. The longer the period, the more packets wait for it; the ring has [`RING`] places. The published
//! rule counts the wait within one period; the safe one the longest time without CPU, on a kernel that looks at budgets on its
//! ticks ([`surety_analysis::interrupts`]).

use surety_analysis::interrupts::pending::Interrupt;
use surety_analysis::supply::Supply;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Task, TaskBody, Work, Workload};
use surety_model::world::{RunOptions, Unobserved, World, WorldError};
use surety_sim::SimWorld;
use surety_units::Nanos;

use super::in_lab::{Free, figure, kernels, observed};
use super::interrupts::{SOURCE, SOURCE_NAME};
use crate::{Bench, Builds, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow};

/// Places in the receive ring.
const RING: u32 = 32;
/// Between two packets.
const DISTANCE: Nanos = Nanos::from_millis(1);
/// About what a packet takes.
const WORK: Nanos = Nanos::from_micros(150);
/// The thread's part of a CPU and its rival's, in hundredths.
const SHARE: i64 = 25;
const RIVAL: i64 = 62;
/// Periods, in milliseconds.
const PERIODS: [i64; 9] = [12, 16, 18, 24, 32, 40, 60, 100, 160];
/// How long a seed is simulated.
const SIMULATED: Nanos = Nanos::from_secs(4);
/// Seeds that are simulated.
const SEEDS: u64 = 100;

/// See the module.
pub struct IrqLoss;

fn reservation(period: i64) -> Reservation {
    Reservation::implicit(Nanos::from_millis(period) * SHARE / 100, Nanos::from_millis(period))
}

fn workload(period: i64, work: Nanos) -> Workload {
    let whole = Nanos::from_millis(period);
    let mut rival = Task::periodic("rival", whole, TimeDistribution::Constant(whole));
    rival.body = TaskBody::Synthetic(Work::Forever);
    rival.reservation = Some(Reservation::implicit(whole * RIVAL / 100, whole));
    let irq = Irq {
        buffer: Some(RING.into()),
        reservation: Some(reservation(period)),
        ..Irq::new(SOURCE_NAME, Arrivals::Sporadic { gap: DISTANCE }, TimeDistribution::Constant(work))
    };
    Workload { tasks: vec![rival], irqs: vec![irq], ..Workload::default() }
}

fn lost(record: &Record) -> Option<f64> {
    figure(record.activity(SOURCE_NAME)?, "lost")
}

/// Requests lost in all simulated seeds.
fn simulated(period: i64, work: Nanos, first: u64) -> Result<f64, WorldError> {
    let world = SimWorld::new(Platform::linux_6_12(1));
    (first..first + SEEDS).try_fold(0.0, |sum, seed| {
        let options = RunOptions { duration: SIMULATED, seed, ..RunOptions::default() };
        let record = world.run(&workload(period, work), &options, &mut Unobserved)?;
        Ok(sum + lost(&record).unwrap_or(0.0))
    })
}

impl Experiment for IrqLoss {
    fn name(&self) -> &'static str {
        "irq-loss"
    }

    fn title(&self) -> &'static str {
        "what a small receive ring loses over the period of its thread's reservation"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn worlds(&self) -> &'static [&'static str] {
        &["lab:6.12-rt"]
    }

    fn duration(&self) -> Nanos {
        Nanos::from_secs(2)
    }

    fn lab_shift(&self) -> u32 {
        1
    }

    fn lab_devices(&self) -> &'static [&'static str] {
        &["device=pcnet"]
    }

    fn lab_cpus(&self) -> u32 {
        2
    }

    fn reproduce(&self, bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
        let column = |title: &str, origin| Column { title: title.to_owned(), unit: "", origin };
        let mut columns = vec![
            column("(T-Q)/P", Origin::Theory),
            column("blackout/P", Origin::Theory),
            column("simulated, lost", Origin::World),
        ];
        let mut builds = Builds::default();
        let kernels = kernels(bench);
        columns.extend(kernels.iter().map(|(_, name)| column(&format!("{name}, lost"), Origin::World)));
        let mut rows = Vec::new();
        let mut notes = Vec::new();
        let (mut runs, mut broken) = (0, 0);
        for period in PERIODS {
            let interrupt = Interrupt { distance: DISTANCE, held: RING, work: WORK };
            let supply = Supply::new(reservation(period), Platform::linux_6_12(1).enforcement, false);
            let said = |error: surety_analysis::interrupts::InterruptError| WorldError::Machine {
                what: error.to_string(),
                remedy: "report it".to_owned(),
            };
            let paper = interrupt.paper_rule(&reservation(period)).map_err(said)?;
            let safe = interrupt.safe_rule(&supply).map_err(said)?;
            let word = |keeps: bool| if keeps { "none" } else { "some" }.to_owned();
            let mut measured = Vec::new();
            let mut work = WORK;
            for (world, name) in &kernels {
                let mut sum = Cell::plain(0.0);
                for seed in 0..request.seeds {
                    let mut options = observed(request, Nanos::ZERO, Some(reservation(period)));
                    options.seed += u64::from(seed);
                    let label = format!("{name}: {period}ms, seed {} of {}", seed + 1, request.seeds);
                    let result = bench.run(*world, &workload(period, WORK), &options, &label);
                    builds.add(name, &result);
                    match result {
                        Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                        Err(why) => sum = Cell::Refused(why.to_string()),
                        Ok(record) => {
                            work = Free::of(&record).map_or(work, |free| free.work);
                            let found = lost(&record).unwrap_or(0.0);
                            runs += u32::from(safe.keeps);
                            broken += u32::from(safe.keeps && found > 0.0);
                            sum = sum.value().map_or(sum, |before| Cell::plain(before + found));
                        }
                    }
                }
                measured.push(sum);
            }
            let by_simulation = match simulated(period, work, request.options.seed) {
                Ok(lost) => Cell::plain(lost),
                Err(why) => Cell::Refused(why.to_string()),
            };
            let r = reservation(period);
            let keys = vec![format!("{} / {}", r.runtime, r.period), word(paper.keeps), word(safe.keeps)];
            let cells = [Cell::plain(paper.delayed), Cell::plain(safe.delayed), by_simulation];
            rows.push(SheetRow::new(keys, cells.into_iter().chain(measured).collect()));
        }
        notes.push(format!(
            "a packet every {DISTANCE}, a ring of {RING}; beside the thread a rival with {RIVAL} % of the CPU in the same period that \
             always wants it; simulated with the CPU time of a packet that the lab shows, over {SEEDS} seeds of {SIMULATED}"
        ));
        notes.push(format!(
            "in the lab packets were lost in {broken} of {runs} runs in which the safe rule says none"
        ));
        notes.push(
            "the rules look at the longest wait: where they say some, there need not be any".to_owned(),
        );
        notes.extend(builds.0);
        Ok(Sheet {
            keys: vec!["reservation", "(T-Q)/P < N_c", "safe rule"],
            columns,
            rows,
            notes,
            drawn: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_periods_lie_on_both_sides_of_both_rules_and_nothing_is_lost_where_the_safe_one_holds() {
        let interrupt = Interrupt { distance: DISTANCE, held: RING, work: WORK };
        let (mut safe, mut paper, mut lost) = (0, 0, 0.0);
        for period in PERIODS {
            let supply = Supply::new(reservation(period), Platform::linux_6_12(1).enforcement, false);
            let keeps = interrupt.safe_rule(&supply).unwrap().keeps;
            safe += u32::from(keeps);
            paper += u32::from(interrupt.paper_rule(&reservation(period)).unwrap().keeps);
            let found = simulated(period, WORK, 1).unwrap();
            assert!(!keeps || found == 0.0, "{period}: {found}");
            lost += found;
        }
        assert!(safe >= 2 && paper > safe && paper < PERIODS.len() as u32, "{safe} {paper}");
        assert!(lost > 0.0);
    }
}
