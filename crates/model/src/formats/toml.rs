//! The native workload format, `format = 1`: TOML, every quantity with its unit.
//!
//! Reading reports everything that is wrong at once, each with its place; an unknown key is an error with the
//! nearest known one. Writing gives text that reads back to an equal workload.

mod check;
mod disks;
mod keys;
mod links;
mod phases;
mod read;
mod rights;
mod table;
mod times;
pub mod vary;
mod write;

use std::collections::BTreeMap;

use crate::source::{Diagnostics, Source};
use crate::workload::Workload;

pub(in crate::formats) use check::references;

/// The format's version this program reads and writes.
pub const FORMAT: i64 = 1;

/// Reads a workload. `name` is what messages call the text, a file path as a rule.
pub fn read(name: &str, text: &str) -> Result<Workload, Diagnostics> {
    let mut reading = table::Reading::default();
    let workload = read::workload(&mut reading, text);
    let mut list = reading.diagnostics;
    let source = Source::new(name, text, reading.places);
    if let Some(mut workload) = workload {
        workload.source = source;
        check::references(&workload, &mut list);
        if list.is_empty() {
            return Ok(workload);
        }
    }
    list.sort_by_key(|d| d.span.start);
    Err(Diagnostics { name: name.to_owned(), text: text.to_owned(), list })
}

/// Lines for people, by the path of the object they stand above (`task.player`); those of the file under `""`.
pub type Comments = BTreeMap<String, Vec<String>>;

/// Writes a workload as text that reads back to an equal one.
pub fn write(workload: &Workload) -> String {
    write_commented(workload, &Comments::new())
}

/// The same with comments; a path that names nothing in the workload is passed over.
pub fn write_commented(workload: &Workload, comments: &Comments) -> String {
    write::workload(workload, comments)
}

#[cfg(test)]
mod tests;
