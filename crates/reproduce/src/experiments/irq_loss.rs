//! What a small ring loses while its thread waits: the rule `(T - Q)/P < N_c`, its safe form, and packets that were lost.
//!
//! A thread whose budget is more than its packets need waits for nothing but others. So a player with a reservation of the same
//! period is beside it on the CPU, and takes in one piece nearly all that the thread's budget leaves: `T - Q`.

use surety_analysis::interrupts::pending::Interrupt;
use surety_analysis::supply::Supply;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Task, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use super::cards::{DEVICE, GAP, WORK, card};
use super::in_lab::simulated;
use super::interrupts::{SOURCE, SOURCE_NAME, key};
use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Planned, Request, Sheet, SheetRow};

/// Places in the ring.
const RING: u32 = 32;
/// Periods of the reservations in milliseconds.
const PERIODS: [i64; 15] = [20, 22, 24, 25, 26, 30, 35, 45, 60, 75, 80, 85, 90, 100, 120];
/// The thread's part of the CPU, the player's, and what the player uses, in percent.
const THREAD: i64 = 20;
const PLAYER: i64 = 75;
const PLAYS: i64 = 74;
/// How long a run is observed when nothing is said, in the lab, and of how many periods at least.
const DURATION: Nanos = Nanos::from_secs(10);
const OBSERVED: Nanos = Nanos::from_millis(500);
const PERIODS_MIN: i64 = 10;
/// The kernel that the simulator plays.
const SIMULATED: &str = "6.12";
/// Runs of a row in which packets may be lost.
const SEEDS_BEYOND: u32 = 3;

/// A row.
struct Point {
    reservation: Reservation,
    /// Of the two rules: the wait in packets, and whether it keeps all.
    paper: (f64, bool),
    safe: (f64, bool),
    /// The most that can be pending.
    pending: Option<u64>,
}

fn of_period(percent: i64, period: Nanos) -> Nanos {
    period * percent / 100
}

impl Point {
    fn of(period: Nanos, platform: &Platform) -> Point {
        let reservation = Reservation::implicit(of_period(THREAD, period), period);
        let device = Interrupt { distance: GAP, held: RING, work: WORK };
        let supply = Supply::new(reservation, platform.enforcement, false);
        let sound = "distance, work and ring are above zero";
        let (paper, safe) =
            (device.paper_rule(&reservation).expect(sound), device.safe_rule(&supply).expect(sound));
        Point {
            reservation,
            paper: (paper.delayed, paper.keeps),
            safe: (safe.delayed, safe.keeps),
            pending: device.most_pending(&supply).expect(sound).map(|(most, _)| most),
        }
    }

    fn workload(&self) -> Workload {
        let period = self.reservation.period;
        let mut player =
            Task::periodic("player", period, TimeDistribution::Constant(of_period(PLAYS, period)));
        player.reservation = Some(Reservation::implicit(of_period(PLAYER, period), period));
        Workload { tasks: vec![player], ..card(u64::from(RING), Some(self.reservation)) }
    }

    /// Its runs in a world.
    fn planned(&self, world: &str, request: &Request) -> Vec<Planned> {
        let seeds = if self.safe.1 { request.seeds } else { request.seeds.min(SEEDS_BEYOND) };
        let duration = request.options.duration.max(self.reservation.period * PERIODS_MIN);
        let run = |seed: u32| {
            let seed = request.options.seed + u64::from(seed);
            Planned {
                workload: self.workload(),
                options: RunOptions { duration, cpus: None, seed, ..request.options.clone() },
                label: format!("{world}: {}, seed {seed}", key(Some(self.reservation))),
            }
        };
        (0..seeds).map(run).collect()
    }

    /// What the rules say.
    fn cells(&self) -> Vec<Cell> {
        let pending = self.pending.map_or(Cell::Empty, |most| Cell::plain(most as f64));
        vec![Cell::plain(self.paper.0), Cell::plain(self.safe.0), pending]
    }

    /// In words: which of the rules hold.
    fn verdict(&self) -> &'static str {
        match (self.safe.1, self.paper.1) {
            (true, _) if self.pending.is_some_and(|most| most <= u64::from(RING)) => "all hold",
            (true, _) => "both hold",
            (false, true) => "the rule holds",
            (false, false) => "none holds",
        }
    }
}

/// What came of the runs of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    runs: u32,
    lossy: u32,
    lost: u64,
    came: u64,
}

impl Outcome {
    fn add(&mut self, record: &Record) -> Option<()> {
        let source = record.activity(SOURCE_NAME)?;
        self.runs += 1;
        self.lossy += u32::from(source.skipped > 0);
        self.lost += source.skipped;
        self.came += source.activations;
        Some(())
    }

    fn part(&self) -> f64 {
        if self.came == 0 { 0.0 } else { self.lost as f64 / self.came as f64 }
    }
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "irq-loss",
    title: "packets a small ring loses under reservations, beside the rule that says when none is",
    source: SOURCE,
    worlds: &["sim"],
    duration: DURATION,
    lab_duration: Some(OBSERVED),
    lab_shift: 1,
    lab_devices: &[DEVICE],
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let platform = Platform::linux_6_12(1);
    let points: Vec<Point> = PERIODS.iter().map(|ms| Point::of(Nanos::from_millis(*ms), &platform)).collect();
    let worlds = bench.worlds();
    let mut columns = vec![
        column("(T-Q)/P".to_owned(), "", Origin::Theory),
        column("safe".to_owned(), "", Origin::Theory),
        column("pending".to_owned(), "", Origin::Theory),
    ];
    for world in &worlds {
        columns.push(column(format!("{world} lost"), "%", Origin::World));
        columns.push(column("runs".to_owned(), "", Origin::World));
        columns.push(column("with loss".to_owned(), "", Origin::World));
    }
    let mut cells: Vec<Vec<Cell>> = points.iter().map(Point::cells).collect();
    let mut safe = vec![Outcome::default(); worlds.len()];
    for (index, world) in worlds.iter().enumerate() {
        let mut outcomes = outcomes(bench, (index, world), &points, request)?.into_iter();
        for (point, cells) in points.iter().zip(&mut cells) {
            let outcome = outcomes.next().unwrap_or_else(|| Err("it was not run".to_owned()));
            if let (Ok(outcome), true) = (&outcome, point.safe.1) {
                safe[index].runs += outcome.runs;
                safe[index].lost += outcome.lost;
                safe[index].came += outcome.came;
            }
            cells.extend(match outcome {
                Ok(outcome) => [
                    Cell::plain(outcome.part()),
                    Cell::plain(f64::from(outcome.runs)),
                    Cell::plain(f64::from(outcome.lossy)),
                ],
                Err(why) => [Cell::Refused(why), Cell::Empty, Cell::Empty],
            });
        }
    }
    let row = |(point, cells): (&Point, Vec<Cell>)| {
        SheetRow::new(vec![key(Some(point.reservation)), point.verdict().to_owned()], cells)
    };
    let rows = points.iter().zip(cells).map(row).collect();
    let mut notes = vec![
        format!(
            "a ring of N_c = {RING}, a packet each P = {GAP}, {WORK} of CPU time each; beside the thread a player with \
             {PLAYER} % of the CPU in the same period, who uses {PLAYS} %. A rule holds where its wait is below {RING} packets"
        ),
        "safe: the longest time without CPU, with budgets looked at on the tick; pending: the most that can ever wait, \
         what comes while the thread catches up included; where it is at most the ring, all hold. Seeds move the run against the \
         kernel's tick"
            .to_owned(),
    ];
    notes.extend(worlds.iter().zip(&safe).map(|(world, all)| {
        format!("{world}: {} of {} packets lost in {} runs with the safe rule", all.lost, all.came, all.runs)
    }));
    let keys = vec!["reservation", "rules"];
    Ok(Sheet { keys, columns, rows, notes, drawn: Vec::new() })
}

fn column(title: String, unit: &'static str, origin: Origin) -> Column {
    Column { title, unit, origin }
}

/// The runs of every row in a world; for a row without, why.
fn outcomes(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    points: &[Point],
    request: &Request,
) -> Result<Vec<Result<Outcome, String>>, WorldError> {
    let planned: Vec<Vec<Planned>> = points.iter().map(|point| point.planned(world, request)).collect();
    let all = planned.concat();
    let mut results = if world == "sim" {
        all.iter().map(|run| simulated(&run.workload, SIMULATED, &run.options)).collect()
    } else {
        bench.run_each(index, &all)
    }
    .into_iter();
    let mut outcome_of = |runs: &Vec<Planned>| {
        let mut outcome = Ok(Outcome::default());
        for result in results.by_ref().take(runs.len()) {
            match result {
                Ok(record) => {
                    if let Ok(sum) = &mut outcome
                        && sum.add(&record).is_none()
                    {
                        outcome = Err("it says nothing of an interrupt source".to_owned());
                    }
                }
                Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                Err(why) => outcome = Err(why.to_string()),
            }
        }
        Ok(outcome)
    };
    planned.iter().map(&mut outcome_of).collect()
}
