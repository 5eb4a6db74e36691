//! [`Watched`]: a bench that keeps what its records say no kernel was held against, so that every sheet says it.

use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};

use crate::{Bench, Experiment, Origin, Planned, Probe, Request, Sheet};

/// Behind the title of a world whose runs all were of a machine that no kernel was held against.
const MARK: &str = " (unvalidated)";

impl Experiment {
    /// Runs it. Worlds and rows of machines that no kernel was held against are marked, and a note says why.
    ///
    /// # Errors
    /// [`WorldError::Interrupted`], and what keeps all of its configurations from being run.
    pub fn run(&self, bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
        let worlds = bench.worlds();
        let mut watched = Watched { of_worlds: worlds.iter().map(|_| OfWorld::default()).collect(), bench };
        let mut sheet = (self.reproduce)(&mut watched, request)?;
        for (world, of) in worlds.iter().zip(&watched.of_worlds) {
            of.tell(world, &mut sheet);
        }
        Ok(sheet)
    }
}

/// What the records of a world said.
#[derive(Debug, Default)]
struct OfWorld {
    runs: usize,
    unvalidated: usize,
    /// Each thing said, and in how many runs.
    said: Vec<(String, usize)>,
}

impl OfWorld {
    fn add(&mut self, record: &Record) {
        let said = &record.in_force.unvalidated;
        self.runs += 1;
        self.unvalidated += usize::from(!said.is_empty());
        for words in said {
            match self.said.iter_mut().find(|(known, _)| known == words) {
                Some((_, runs)) => *runs += 1,
                None => self.said.push((words.clone(), 1)),
            }
        }
    }

    fn tell(&self, world: &str, sheet: &mut Sheet) {
        let is_whole = self.unvalidated > 0 && self.unvalidated == self.runs;
        for column in sheet.columns.iter_mut().filter(|column| is_whole && column.origin == Origin::World) {
            let behind = column.title.strip_prefix(world);
            if behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(' ')) {
                column.title.insert_str(world.len(), MARK);
            }
        }
        let note = |(words, runs): &(String, usize)| {
            format!("unvalidated in {world}, {runs} of {} runs: {words}", self.runs)
        };
        sheet.notes.extend(self.said.iter().map(note));
    }
}

struct Watched<'a> {
    bench: &'a mut dyn Bench,
    of_worlds: Vec<OfWorld>,
}

impl Watched<'_> {
    fn seen(&mut self, world: usize, result: Result<Record, WorldError>) -> Result<Record, WorldError> {
        if let (Ok(record), Some(of)) = (&result, self.of_worlds.get_mut(world)) {
            of.add(record);
        }
        result
    }
}

impl Bench for Watched<'_> {
    fn worlds(&self) -> Vec<String> {
        self.bench.worlds()
    }

    fn has(&self, world: usize, label: &str) -> bool {
        self.bench.has(world, label)
    }

    fn run(
        &mut self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let result = self.bench.run(world, workload, options, label);
        self.seen(world, result)
    }

    fn run_each(&mut self, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        let results = self.bench.run_each(world, runs);
        results.into_iter().map(|result| self.seen(world, result)).collect()
    }

    fn run_first(&mut self, count: usize, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        let results = self.bench.run_first(count, world, runs);
        results.into_iter().map(|result| self.seen(world, result)).collect()
    }

    fn probe(
        &mut self,
        world: usize,
        probe: &Probe,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let result = self.bench.probe(world, probe, options, label);
        self.seen(world, result)
    }

    fn run_on(
        &mut self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let result = self.bench.run_on(platform, world, workload, options, label);
        self.seen(world, result)
    }
}

#[cfg(test)]
mod tests {
    use surety_model::world::{Unobserved, World as _};
    use surety_sim::SimWorld;
    use surety_units::Nanos;

    use super::*;
    use crate::{Cell, Column, EXPERIMENTS};

    /// A world of 6.18, and one of 6.6.
    struct Two;

    impl Bench for Two {
        fn worlds(&self) -> Vec<String> {
            vec!["sim".to_owned(), "sim:linux-6.6".to_owned()]
        }

        fn run(
            &mut self,
            world: usize,
            workload: &Workload,
            options: &RunOptions,
            label: &str,
        ) -> Result<Record, WorldError> {
            let name = ["linux-6.18", "linux-6.6"][world];
            self.run_on(&Platform::named(name, 1).unwrap(), world, workload, options, label)
        }

        fn probe(&mut self, _: usize, _: &Probe, _: &RunOptions, _: &str) -> Result<Record, WorldError> {
            Err(WorldError::Interrupted)
        }

        fn run_on(
            &mut self,
            platform: &Platform,
            _: usize,
            workload: &Workload,
            options: &RunOptions,
            _: &str,
        ) -> Result<Record, WorldError> {
            SimWorld::new(platform.clone()).run(workload, options, &mut Unobserved)
        }
    }

    #[test]
    fn a_world_without_a_kernel_is_marked_and_told_once() {
        let spinner = EXPERIMENTS.iter().find(|experiment| experiment.name == "spinner").unwrap();
        let options = RunOptions { duration: Nanos::from_millis(200), ..RunOptions::default() };
        let request = Request { options, seeds: 1, only: Vec::new() };
        let sheet = spinner.run(&mut Two, &request).unwrap();
        let titles: Vec<&str> = sheet.columns[3..].iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["sim", "sim:linux-6.6 (unvalidated)"]);
        let said: Vec<&String> = sheet.notes.iter().filter(|note| note.contains("unvalidated")).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("unvalidated in sim:linux-6.6, 9 of 9 runs: fair class eevdf-6.6"),
            "{said:?}"
        );
    }

    /// Some runs of a world: its columns are not marked, and the note says how many.
    #[test]
    fn a_world_is_not_marked_for_some_of_its_runs() {
        let column = Column { title: "sim response".to_owned(), unit: "ns", origin: Origin::World };
        let row = crate::SheetRow::new(Vec::new(), vec![Cell::Empty]);
        let mut sheet =
            Sheet { keys: vec![], columns: vec![column], rows: vec![row], notes: vec![], drawn: vec![] };
        let of = OfWorld { runs: 3, unvalidated: 1, said: vec![("high".to_owned(), 1)] };
        of.tell("sim", &mut sheet);
        assert_eq!(sheet.columns[0].title, "sim response");
        assert_eq!(sheet.notes, ["unvalidated in sim, 1 of 3 runs: high"]);
        OfWorld { runs: 1, ..of }.tell("sim", &mut sheet);
        assert_eq!(sheet.columns[0].title, "sim (unvalidated) response");
    }
}
