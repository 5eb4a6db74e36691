//! Workload files of other programs, read into our words: one file for each dialect, and [`DIALECTS`], a row for each.
//!
//! What a dialect can say and a [`Workload`] cannot is an error with its place, never left out.

mod json;
mod names;
mod rt_app;

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
    /// How the names of its files end.
    pub ending: &'static str,
    read: fn(&mut Reading, &str) -> Option<Workload>,
}

/// Every dialect that is read.
pub const DIALECTS: &[Dialect] = &[Dialect { program: "rt-app", ending: ".json", read: rt_app::workload }];

/// The dialect of a file by its name; `None`: not that of another program.
pub fn dialect_of(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| name.ends_with(dialect.ending))
}

impl Dialect {
    /// Reads a workload. `name` is what messages call the text, a file path as a rule.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that a workload cannot say.
    pub fn read(&self, name: &str, text: &str) -> Result<Workload, Diagnostics> {
        let mut reading = Reading::default();
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
