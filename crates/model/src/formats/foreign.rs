//! Workload files of other programs, read into our words: one file for each dialect, and [`DIALECTS`], a row for each.
//!
//! What a dialect can say and a [`Workload`] cannot is an error with its place, never left out.

mod item;
mod json;
mod names;
mod object;
pub mod partsim;
mod rt_app;
mod rtdag;
mod yaml;

use std::collections::BTreeMap;
use std::ops::Range;

use super::toml;
use crate::source::{Diagnostic, Diagnostics, Source};
use crate::workload::Workload;

/// A kind of workload file.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The program whose files they are.
    pub program: &'static str,
    /// How the names of its files may end.
    pub endings: &'static [&'static str],
    /// A key at the beginning of a line that its files have, where another program's names end alike.
    mark: Option<&'static str>,
    /// Whether a file beside says the machine: [`Dialect::read_on`].
    pub has_system: bool,
    read: fn(&mut Reading, &str) -> Option<Workload>,
}

/// How YAML files end.
const YAML: &[&str] = &[".yaml", ".yml"];

/// Every dialect that is read.
pub const DIALECTS: &[Dialect] = &[
    Dialect { program: "rt-app", endings: &[".json"], mark: None, has_system: false, read: rt_app::workload },
    Dialect {
        program: "PARTSim",
        endings: YAML,
        mark: Some("taskset"),
        has_system: true,
        read: partsim::workload,
    },
    Dialect {
        program: "rtdag",
        endings: YAML,
        mark: Some("dag_period"),
        has_system: false,
        read: rtdag::workload,
    },
];

/// The dialect of a file by its name, and by its text where several programs end their names alike; of these the first where no key tells.
/// `None`: not that of another program.
pub fn dialect_of(name: &str, text: &str) -> Option<&'static Dialect> {
    let ends_so = |dialect: &&Dialect| dialect.endings.iter().any(|ending| name.ends_with(ending));
    let is_marked = |dialect: &&Dialect| {
        let begins_with = |line: &str, mark: &str| {
            line.strip_prefix(mark).is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        dialect.mark.is_none_or(|mark| text.lines().any(|line| begins_with(line, mark)))
    };
    let mut candidates = DIALECTS.iter().filter(ends_so);
    candidates.clone().find(is_marked).or_else(|| candidates.next())
}

impl Dialect {
    /// Reads a workload. `name` is what messages call the text, a file path as a rule.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that a workload cannot say.
    pub fn read(&self, name: &str, text: &str) -> Result<Workload, Diagnostics> {
        self.read_on(name, text, None)
    }

    /// The same of a program whose files say the machine apart: on this one. Other programs' files do not depend on it.
    ///
    /// # Errors
    /// As [`Dialect::read`], and what the machine has not.
    pub fn read_on(
        &self,
        name: &str,
        text: &str,
        system: Option<&partsim::System>,
    ) -> Result<Workload, Diagnostics> {
        let mut reading = Reading { system: system.cloned(), ..Reading::default() };
        let workload = (self.read)(&mut reading, text);
        let mut list = reading.diagnostics;
        let source = Source::new(name, text, reading.places);
        if let Some(mut workload) = workload {
            workload.source = source;
            if list.is_empty() {
                toml::references(&workload, &mut list);
            }
            if list.is_empty() {
                return Ok(workload);
            }
        }
        list.sort_by_key(|diagnostic| diagnostic.span.start);
        Err(Diagnostics { name: name.to_owned(), text: text.to_owned(), list })
    }
}

/// What reading one file has found so far.
#[derive(Default)]
struct Reading {
    diagnostics: Vec<Diagnostic>,
    /// Byte ranges of objects by path.
    places: BTreeMap<String, Range<usize>>,
    /// The machine, where a file beside says it.
    system: Option<partsim::System>,
}

impl Reading {
    /// Notes something wrong.
    fn wrong(&mut self, span: &Range<usize>, message: String, help: Option<String>) {
        let label = "here".to_owned();
        self.diagnostics.push(Diagnostic { message, span: span.clone(), label, help });
    }

    /// Notes where an object stands; of several the first.
    fn place(&mut self, path: String, span: &Range<usize>) {
        self.places.entry(path).or_insert_with(|| span.clone());
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_yaml;
