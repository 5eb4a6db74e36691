//! [`crate::experiments::player_network`] in the lab: a player beside a network card, both of which a kernel really runs.
//!
//! The card repeats packets whether they are taken or not, so what the published line of TCP slowed down is lost here: while the
//! player has the CPU the ring fills, and what then comes has no place. The ring is chosen so small that the player takes from
//! the network about what it took in the published row where it comes first; the reservations are the published ones. A
//! frame takes the player another time each, drawn between two limits around its published budgets.
//!
//! The rule for the network: `min((Q/T)/work, line (1 - over))`, where `over` is the part of the packets that comes while the
//! player has had the CPU for longer than the ring lasts, over its frames and the pieces that its budget cuts them into. Work,
//! the CPU time of a packet, is measured in the first row.

use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Late, PolicySpec, Task, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::experiments::cards::{GAP, card};
use crate::experiments::in_lab::{kernels, observed, simulated, work_of};
use crate::experiments::interrupts::{SOURCE_NAME, in_ms, rate_of};
use crate::experiments::player_network::{ABOVE, BELOW, FRAME, IRQ_FIRST, PLAYER_FIRST, network, player};
use crate::published::Table;
use crate::{Bench, Builds, Cell, Column, Mark, Origin, Planned, Request, Sheet, SheetRow, cell_of};

/// Places in the card's ring.
const RING: u64 = 8;
/// CPU time of a frame, every value in between alike.
const SHORTEST: Nanos = Nanos::from_millis(20);
const LONGEST: Nanos = Nanos::from_millis(38);
/// How long a run is observed when nothing is said.
pub(crate) const OBSERVED: Nanos = Nanos::from_secs(4);

/// A row of the table.
struct Row<'a> {
    test: &'a str,
    player: Option<Reservation>,
    network: Option<Reservation>,
    /// Of the line's rate.
    published: Option<f64>,
}

impl Row<'_> {
    fn workload(&self, work: Option<Nanos>) -> Workload {
        let frame = TimeDistribution::Uniform { low: SHORTEST, high: LONGEST };
        let mut task = Task::periodic("player", FRAME, frame);
        task.late = Late::Skip;
        task.reservation = self.player;
        task.policy = PolicySpec::Fifo { priority: if self.test == PLAYER_FIRST { ABOVE } else { BELOW } };
        let mut workload = card(RING, self.network);
        if let Some(work) = work {
            workload.irqs[0].work = TimeDistribution::Constant(work);
        }
        Workload { tasks: vec![task], ..workload }
    }

    /// Part of the line's packets that gets through by the rule, `work` of CPU time each.
    fn rule(&self, work: Nanos) -> f64 {
        let over = match self.test {
            IRQ_FIRST => 0.0,
            _ => over(self.player.map_or(FRAME, |r| r.runtime)),
        };
        let carried = self
            .network
            .map_or(f64::INFINITY, |r| r.bandwidth().as_f64() * GAP.get() as f64 / work.get() as f64);
        carried.min(1.0 - over)
    }
}

/// The part of the packets that finds the ring full beside a player with such a budget each [`FRAME`]: a frame that needs more goes
/// on in the next period, whose own frame is given up.
fn over(budget: Nanos) -> f64 {
    const STEPS: i32 = 1000;
    let packets = |time: f64| time / GAP.get() as f64;
    let lost = |piece: f64| (packets(piece) - RING as f64).max(0.0);
    let (budget, low) = (budget.get() as f64, SHORTEST.get() as f64);
    let width = (LONGEST - SHORTEST).get() as f64;
    let (mut all, mut periods) = (0.0, 0.0);
    for step in 0..STEPS {
        let frame = low + width * (f64::from(step) + 0.5) / f64::from(STEPS);
        all += lost(frame.min(budget)) + lost(frame - budget);
        periods += if frame > budget { 2.0 } else { 1.0 };
    }
    all / periods / packets(FRAME.get() as f64)
}

/// Part of the frames that were late or given up.
fn late(record: &Record) -> Option<f64> {
    let player = record.activity("player")?;
    (player.activations > 0).then(|| player.missed as f64 / player.activations as f64)
}

/// Packets that were handled, as a part of the line's.
fn through(record: &Record) -> Option<f64> {
    rate_of(record).map(|rate| rate * GAP.as_secs_f64())
}

/// The sheet of the lab's kernels.
pub(crate) fn sheet(bench: &mut dyn Bench, request: &Request, table: &Table) -> Result<Sheet, WorldError> {
    let megabits = |row| table.number(row, "throughput_Mbps");
    let line = (0..table.len()).find(|row| table.text(*row, "test") == Some(IRQ_FIRST)).and_then(megabits);
    let rows: Vec<Row<'_>> = (0..table.len())
        .map(|row| Row {
            test: table.text(row, "test").unwrap_or_default(),
            player: player(table, row),
            network: network(table, row),
            published: megabits(row).zip(line).map(|(some, all)| some / all),
        })
        .collect();
    let column = |title: String, origin| Column { title, unit: "%", origin };
    let mut columns = vec![column("published".to_owned(), Origin::Published)];
    let mut cells: Vec<Vec<Cell>> =
        rows.iter().map(|row| vec![row.published.map_or(Cell::Empty, Cell::plain)]).collect();
    let (mut notes, mut builds) = (Vec::new(), Builds::default());
    for (world, name) in kernels(bench) {
        columns.extend([
            column(name.clone(), Origin::World),
            column("analysis".to_owned(), Origin::Theory),
            column("simulation".to_owned(), Origin::World),
            column("late".to_owned(), Origin::World),
            column("sim late".to_owned(), Origin::World),
        ]);
        let mut work = None;
        let planned = |row: &Row<'_>| Planned {
            workload: row.workload(None),
            options: observed(request, row.network),
            label: format!("{name}: {}", row.test),
        };
        let made = bench.run_each(world, &rows.iter().map(planned).collect::<Vec<_>>());
        let release = made.iter().flatten().next().map(|record| record.in_force.kernel.clone());
        let release = release.unwrap_or_default();
        if !made.iter().any(Result::is_ok) {
            let why = made.into_iter().find_map(Result::err).unwrap_or(WorldError::Interrupted);
            return Err(why);
        }
        for ((row, cells), result) in rows.iter().zip(&mut cells).zip(made) {
            builds.add(&name, &result);
            let mut frames = Cell::Empty;
            let measured = cell_of(result, |record| {
                work = work.or_else(|| work_of(record.activity(SOURCE_NAME)?));
                frames = late(record).map_or(Cell::Empty, Cell::plain);
                through(record).map_or(Cell::Empty, |part| Cell::against(part, row.published))
            })?;
            let lab = measured.value();
            let analysed = work.map_or(Cell::Empty, |work| Cell::against(row.rule(work), lab));
            let (simulated, played) =
                match simulated(&row.workload(work), &release, &observed(request, row.network)) {
                    Err(why) => (Cell::Refused(why.to_string()), Cell::Empty),
                    Ok(record) => (
                        through(&record).map_or(Cell::Empty, |part| Cell::against(part, lab)),
                        late(&record).map_or(Cell::Empty, |part| Cell::against(part, frames.value())),
                    ),
                };
            cells.extend([measured, analysed, simulated, frames, played]);
        }
        notes.extend(work.map(|work| format!("{name}: a packet takes {work} of CPU time, of the first row")));
    }
    notes.push(format!(
        "a packet each {GAP}, a ring of {RING}; a frame takes {SHORTEST} to {LONGEST} of each {FRAME}; late: frames that were not \
         done when the next was due, or given up. Throughputs are parts of what comes on the wire, in the published column of \
         the rate without reservations"
    ));
    notes.push(
        format!(
            "calibrated: the ring of {RING}, chosen so that the player takes from the network about what it took in the published row \
             player-first, and the CPU time of a packet, measured in the first row; these two rows predict nothing. The frames are \
             chosen around the published budgets. Different: what finds no place in the ring is lost, the published line of TCP \
             slowed down"
        ),
    );
    notes.push(
        "analysis: min((Q/T)/work, line (1 - over)), over by the player's frames and the ring".to_owned(),
    );
    notes.extend(builds.0);
    let key = |r: Option<Reservation>| r.map_or_else(String::new, in_ms);
    let rows = rows.iter().zip(cells).map(|(row, cells)| SheetRow {
        mark: [IRQ_FIRST, PLAYER_FIRST].contains(&row.test).then_some(Mark::Calibrated),
        ..SheetRow::new(
            vec![
                row.test.trim_start_matches("no-reservation-").to_owned(),
                key(row.player),
                key(row.network),
            ],
            cells,
        )
    });
    let rows = rows.collect();
    Ok(Sheet { keys: vec!["test", "player, ms", "network, ms"], columns, rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_overflows_by_what_comes_after_it_is_full() {
        // Frames between 20 and 38 ms bring 10 to 19 packets, of which 8 find a place: 2 to 11 do not, 6.5 of 20 on average.
        assert!((over(FRAME) - 6.5 / 20.0).abs() < 1e-6);
        // Every frame is cut at 20 ms: 2 of 40, and the rest is up to 18 ms long: half a packet's time in 18 finds no place.
        assert!((over(Nanos::from_millis(20)) - (2.0 + 1.0 / 36.0) / 40.0).abs() < 1e-3);
        let work = Nanos::from_micros(320);
        let ms = Nanos::from_millis;
        let row = |q| Row {
            test: "Test",
            player: Some(Reservation::implicit(ms(29), ms(40))),
            network: Some(Reservation::implicit(ms(q), ms(100))),
            published: None,
        };
        // 9 % of a CPU carries 281 packets a second of 500.
        assert!((row(9).rule(work) - 0.5625).abs() < 1e-9);
        assert!(row(50).rule(work) < 1.0);
    }
}
