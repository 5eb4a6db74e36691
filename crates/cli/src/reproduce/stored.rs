//! Records of an experiment's runs in a file: kept while it is reproduced ([`Keeping`]), and read instead of running anything
//! ([`FromRecords`]), so that analysis and simulation are computed anew beside what a kernel once did.

use std::path::Path;

use surety_model::formats::record::{self, RecordFile};
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_report::{Report, Row};
use surety_reproduce::{Bench, Planned, Probe};

use crate::exit::{Code, Failure};
use crate::files;

/// A bench whose records are kept.
pub struct Keeping<B> {
    bench: B,
    kept: Vec<(String, Record)>,
}

impl<B> Keeping<B> {
    /// Of a bench.
    pub fn new(bench: B) -> Keeping<B> {
        Keeping { bench, kept: Vec::new() }
    }

    /// The records of an experiment, in the order in which they were made, as a file's text.
    pub fn into_document(self, experiment: &str) -> String {
        let rows: Vec<Row<'_>> = self.kept.iter().map(|(label, record)| Row::new(label, record)).collect();
        let report = Report { title: Some(experiment), rows: &rows, all_rows: true, ..Report::default() };
        surety_report::json::record_json(&report).to_string() + "\n"
    }

    fn keep(&mut self, label: &str, made: &Result<Record, WorldError>) {
        if let Ok(record) = made {
            self.kept.push((label.to_owned(), record.clone()));
        }
    }
}

impl<B: Bench> Bench for Keeping<B> {
    fn worlds(&self) -> Vec<String> {
        self.bench.worlds()
    }

    fn run(
        &mut self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let made = self.bench.run(world, workload, options, label);
        self.keep(label, &made);
        made
    }

    /// A repetition of the first of several runs is not kept: the file has that run already.
    fn run_first(&mut self, count: usize, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        let made = self.bench.run_first(count, world, runs);
        if count >= runs.len() {
            runs.iter().zip(&made).for_each(|(run, made)| self.keep(&run.label, made));
        }
        made
    }

    fn probe(
        &mut self,
        world: usize,
        probe: &Probe,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let made = self.bench.probe(world, probe, options, label);
        self.keep(label, &made);
        made
    }

    fn run_on(
        &mut self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let made = self.bench.run_on(platform, world, workload, options, label);
        self.keep(label, &made);
        made
    }
}

/// A bench in which nothing runs: each run's record is that of the same label in a file.
pub struct FromRecords {
    file: RecordFile,
    name: String,
}

impl FromRecords {
    /// Reads a file.
    ///
    /// # Errors
    /// That it cannot be read, or is none of this experiment's results.
    pub fn read(path: &Path, experiment: &str) -> Result<FromRecords, Failure> {
        let name = path.display().to_string();
        let failed = |why: String| Failure::new(Code::BadInput, format!("{name}: {why}"));
        let text = files::read_text(path, files::DOCUMENT_MAX).map_err(failed)?;
        let file = record::read(&text).map_err(|e| failed(e.to_string()))?;
        if file.title.as_deref() != Some(experiment) {
            let said = failed(format!("it holds no records of the experiment `{experiment}`"));
            return Err(
                said.help(format!("make some: surety reproduce {experiment} --on lab:KERNEL --records FILE"))
            );
        }
        Ok(FromRecords { file, name })
    }

    fn of(&self, label: &str) -> Result<Record, WorldError> {
        let found = self.file.results.iter().find(|result| result.label == label);
        found.map(|result| result.record.clone()).ok_or_else(|| WorldError::Unsupported {
            world: self.name.clone(),
            object: label.to_owned(),
            why: "it has no such record; make one with --records".to_owned(),
        })
    }
}

impl Bench for FromRecords {
    fn worlds(&self) -> Vec<String> {
        let mut worlds: Vec<String> = Vec::new();
        for result in &self.file.results {
            if !worlds.contains(&result.record.world) {
                worlds.push(result.record.world.clone());
            }
        }
        worlds
    }

    fn has(&self, _world: usize, label: &str) -> bool {
        self.file.results.iter().any(|result| result.label == label)
    }

    fn run(
        &mut self,
        _world: usize,
        _workload: &Workload,
        _options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        self.of(label)
    }

    fn run_first(
        &mut self,
        count: usize,
        _world: usize,
        runs: &[Planned],
    ) -> Vec<Result<Record, WorldError>> {
        if count < runs.len() {
            let once = || WorldError::Unsupported {
                world: self.name.clone(),
                object: "a second boot".to_owned(),
                why: "records are of one".to_owned(),
            };
            return vec![Err(once()); count];
        }
        runs.iter().map(|run| self.of(&run.label)).collect()
    }

    fn probe(
        &mut self,
        _world: usize,
        _probe: &Probe,
        _options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        self.of(label)
    }

    fn run_on(
        &mut self,
        _platform: &Platform,
        _world: usize,
        _workload: &Workload,
        _options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        self.of(label)
    }
}

/// Records of a file, and models beside them: each run is computed on the machine that the record of the same run says.
pub struct Beside<B> {
    records: FromRecords,
    /// The worlds of the file that are not computed anew.
    stored: Vec<String>,
    models: B,
}

impl<B: Bench> Beside<B> {
    /// Of a file and models.
    pub fn new(records: FromRecords, models: B) -> Beside<B> {
        let anew = models.worlds();
        let stored = records.worlds().into_iter().filter(|world| !anew.contains(world)).collect();
        Beside { records, stored, models }
    }

    /// The place of a world among the models; `None`: its records are in the file.
    fn model(&self, world: usize) -> Option<usize> {
        world.checked_sub(self.stored.len())
    }

    /// The machine of the record of a run, whose label is a world's name and what is run there; of a run that no kernel made, that of the first record.
    fn machine(&self, model: usize, label: &str) -> Result<Platform, WorldError> {
        let names = self.models.worlds();
        let of = label.strip_prefix(names[model].as_str()).unwrap_or(label);
        let machine = |world: &String| self.records.of(&format!("{world}{of}")).ok()?.in_force.machine;
        let first =
            || self.records.file.results.iter().find_map(|result| result.record.in_force.machine.clone());
        self.stored.iter().find_map(machine).or_else(first).ok_or_else(|| WorldError::Unsupported {
            world: names[model].clone(),
            object: label.to_owned(),
            why: "no record of the file says of what machine it is".to_owned(),
        })
    }
}

impl<B: Bench> Bench for Beside<B> {
    fn worlds(&self) -> Vec<String> {
        self.stored.iter().cloned().chain(self.models.worlds()).collect()
    }

    fn has(&self, world: usize, label: &str) -> bool {
        self.model(world).is_some() || self.records.has(world, label)
    }

    fn run(
        &mut self,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let Some(model) = self.model(world) else { return self.records.of(label) };
        let platform = self.machine(model, label)?;
        self.models.run_on(&platform, model, workload, options, label)
    }

    fn run_first(&mut self, count: usize, world: usize, runs: &[Planned]) -> Vec<Result<Record, WorldError>> {
        if self.model(world).is_none() {
            return self.records.run_first(count, world, runs);
        }
        let first = runs.iter().take(count);
        first.map(|run| self.run(world, &run.workload, &run.options, &run.label)).collect()
    }

    fn probe(
        &mut self,
        world: usize,
        probe: &Probe,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        match self.model(world) {
            Some(model) => self.models.probe(model, probe, options, label),
            None => self.records.of(label),
        }
    }

    fn run_on(
        &mut self,
        platform: &Platform,
        world: usize,
        workload: &Workload,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        match self.model(world) {
            Some(model) => self.models.run_on(platform, model, workload, options, label),
            None => self.records.of(label),
        }
    }
}
