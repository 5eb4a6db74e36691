//! What a scheduler takes of a CPU for its work: [`Costs`], beside what the start-ups gain by it.
//!
//! Measured of kernels alone: by a simulation a scheduler decides in no time. Published are 1.9 us for each request under BFQ and 0.7 us
//! under mq-deadline, on an i7-2760QM of 2011 (Documentation/block/bfq-iosched.rst).

use surety_model::record::Record;
use surety_model::request_cost::{CostAbove, DEVICE, count, median};
use surety_model::world::{RunOptions, WorldError};

use super::super::under_io::{SCHEDULERS, is_simulated};
use crate::{Bench, Cell, Probe};

/// In records of the lab: what its time is of.
const CLOCK: &str = "lab clock";
/// The scheduler that is none, against which the others are held.
const NONE: &str = "none";

/// What the probe found in each world.
pub(super) struct Costs(Vec<(String, Found)>);

enum Found {
    Measured(Box<Record>),
    /// A simulation.
    NotObservable,
    Refused(String),
}

impl Costs {
    /// Measures in every world that is a kernel.
    ///
    /// # Errors
    /// [`WorldError::Interrupted`].
    pub(super) fn measure(bench: &mut dyn Bench, options: &RunOptions) -> Result<Costs, WorldError> {
        let mut found = Vec::new();
        for (index, world) in bench.worlds().into_iter().enumerate() {
            if is_simulated(&world) {
                found.push((world, Found::NotObservable));
                continue;
            }
            let probe = Probe::RequestCost { schedulers: SCHEDULERS.map(str::to_owned).to_vec() };
            let label = format!("{world}: CPU time of requests");
            let of_world = match bench.probe(index, &probe, options, &label) {
                Ok(record) => Found::Measured(Box::new(record)),
                Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                Err(why) => Found::Refused(why.to_string()),
            };
            found.push((world, of_world));
        }
        Ok(Costs(found))
    }

    /// What a scheduler takes for a request beyond what `none` does, in a world; ns.
    pub(super) fn cell(&self, world: usize, scheduler: &str) -> Cell {
        let (name, found) = &self.0[world];
        match found {
            Found::Measured(_) if scheduler == NONE => Cell::plain(0.0),
            Found::Measured(record) => match CostAbove::of(record, scheduler, NONE) {
                Some(above) if above.is_known() => Cell::plain(above.median.get() as f64),
                Some(CostAbove { interval: (low, high), .. }) => Cell::NotObservable(format!(
                    "the CPU time of `{scheduler}`, {name}: {low} to {high} beyond that under `{NONE}`; the machine is too busy to tell it"
                )),
                None => Cell::NotObservable(format!("{name}: the kernel offers no I/O scheduler `{scheduler}`")),
            },
            Found::NotObservable => Cell::NotObservable(
                "the CPU time of an I/O scheduler, in a simulation: it is of a kernel; add --on host or --on lab:KERNEL".to_owned(),
            ),
            Found::Refused(why) => Cell::Refused(why.clone()),
        }
    }

    /// What was measured where.
    pub(super) fn notes(&self) -> Vec<String> {
        let of = |(world, found): &(String, Found)| {
            let Found::Measured(record) = found else { return None };
            let none = median(record, NONE)?;
            let environment = &record.in_force.environment;
            let device = environment.get(DEVICE).map_or("requests", String::as_str);
            let clock = environment.get(CLOCK).map_or_else(String::new, |clock| format!(" ({clock})"));
            let all = SCHEDULERS.iter().filter(|one| **one != NONE).filter_map(|one| {
                let CostAbove { median, interval: (low, high), .. } = CostAbove::of(record, one, NONE)?;
                Some(format!("{one} {median} ({low} to {high})"))
            });
            Some(format!(
                "`CPU of scheduler`, {world}: CPU time{clock} of a request, less the {none} under {NONE}; {device}. Medians and 95 % intervals of {} \
                 turns: {}",
                count(record, NONE),
                all.collect::<Vec<_>>().join(", ")
            ))
        };
        let mut notes: Vec<String> = self.0.iter().filter_map(of).collect();
        for (world, found) in &self.0 {
            if let Found::Refused(why) = found {
                notes.push(format!("`CPU of scheduler`, {world}: not measured: {why}"));
            }
        }
        if self.0.iter().any(|(_, found)| matches!(found, Found::Measured(_))) {
            notes.push(
                "published: 1.9 us a request for BFQ and 0.7 us for mq-deadline, on an i7-2760QM (Documentation/block/bfq-iosched.rst)"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::request_cost::activity;
    use surety_units::Nanos;

    fn costs() -> Costs {
        let measured = |(scheduler, cost, noise): (&str, i64, i64)| {
            let turns: Vec<Nanos> = (0..24).map(|turn| Nanos::new(cost + noise * (turn % 5 - 2))).collect();
            activity(scheduler, &turns, 800)
        };
        let costs = [("none", 2000, 0), ("mq-deadline", 2300, 400), ("bfq", 3900, 3)];
        let activities = costs.map(measured).to_vec();
        let record = Record { activities, ..Record::default() };
        Costs(vec![
            ("lab:6.12".to_owned(), Found::Measured(Box::new(record))),
            ("sim".to_owned(), Found::NotObservable),
            ("host".to_owned(), Found::Refused("no right".to_owned())),
        ])
    }

    #[test]
    fn a_cost_is_what_a_scheduler_takes_beyond_none_and_a_simulation_has_none() {
        let costs = costs();
        assert_eq!(costs.cell(0, "bfq"), Cell::plain(1900.0));
        assert_eq!(costs.cell(0, "none"), Cell::plain(0.0));
        for (world, scheduler) in [(0, "kyber"), (0, "mq-deadline"), (1, "bfq"), (1, "none")] {
            assert!(matches!(costs.cell(world, scheduler), Cell::NotObservable(_)), "{world} {scheduler}");
        }
        assert_eq!(costs.cell(2, "bfq"), Cell::Refused("no right".to_owned()));
    }

    #[test]
    fn notes_say_what_was_measured_and_nothing_where_nothing_was() {
        let notes = costs().notes();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[1].contains("host: not measured: no right"), "{notes:?}");
        for words in ["lab:6.12", "24 turns", "2.000 us under none", "bfq 1.900 us (1.897 us to 1.903 us)"] {
            assert!(notes[0].contains(words), "{words}: {}", notes[0]);
        }
        assert_eq!(Costs(vec![("sim".to_owned(), Found::NotObservable)]).notes(), Vec::<String>::new());
    }
}
