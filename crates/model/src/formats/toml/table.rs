//! Typed access to one table of a workload file: each key asked for once, everything wrong noted with its place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

use surety_units::QuantityError;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::source::{Diagnostic, nearest};

/// What reading one file has found so far.
#[derive(Default)]
pub(super) struct Reading {
    pub diagnostics: Vec<Diagnostic>,
    /// Byte ranges of objects by path.
    pub places: BTreeMap<String, Range<usize>>,
}

impl Reading {
    /// Notes something wrong.
    pub fn wrong(&mut self, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        self.diagnostics.push(Diagnostic { message, span, label: label.to_owned(), help });
    }
}

/// A value with its place and its path in the file.
#[derive(Clone)]
pub(super) struct Field<'t> {
    pub value: &'t DeValue<'t>,
    pub span: Range<usize>,
    pub path: String,
}

/// A table with its place and its path, and which keys were asked for.
pub(super) struct Table<'t> {
    entries: &'t DeTable<'t>,
    pub span: Range<usize>,
    pub path: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'t> Table<'t> {
    /// A table to be read key by key.
    pub fn new(entries: &'t DeTable<'t>, span: Range<usize>, path: &str) -> Table<'t> {
        Table { entries, span, path: path.to_owned(), known: RefCell::default() }
    }

    /// The path of a key in this table.
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A key's value, if it is there.
    pub fn field(&self, reading: &mut Reading, key: &'static str) -> Option<Field<'t>> {
        self.known.borrow_mut().push(key);
        let value = self.entries.get(key)?;
        let path = self.path_of(key);
        reading.places.insert(path.clone(), value.span());
        Some(Field { value: value.get_ref(), span: value.span(), path })
    }

    /// A key's value; its absence is noted, with an example of what to write.
    pub fn required(&self, reading: &mut Reading, key: &'static str, example: &str) -> Option<Field<'t>> {
        let field = self.field(reading, key);
        if field.is_none() {
            let message = format!("`{key}` is missing");
            reading.wrong(
                self.span.clone(),
                message,
                "in this table",
                Some(format!("write `{key} = {example}`")),
            );
        }
        field
    }

    /// Every entry, for tables whose keys are names.
    pub fn entries(&self) -> impl Iterator<Item = (&'t str, Range<usize>, Field<'t>)> + use<'t, '_> {
        self.entries.iter().map(|(key, value)| {
            let name: &'t str = key.get_ref();
            (name, key.span(), Field { value: value.get_ref(), span: value.span(), path: self.path_of(name) })
        })
    }

    /// Notes every key nobody asked for.
    pub fn finish(self, reading: &mut Reading) {
        let known = self.known.borrow();
        for (key, value) in self.entries {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let mut keys = known.clone();
            keys.sort_unstable();
            keys.dedup();
            let help = match nearest(name, keys.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", keys.join(", ")),
            };
            let span = if key.span().is_empty() { value.span() } else { key.span() };
            reading.wrong(span, format!("unknown key `{name}`"), "not known here", Some(help));
        }
    }

    /// A key's value as text.
    pub fn text(&self, reading: &mut Reading, key: &'static str) -> Option<String> {
        let field = self.field(reading, key)?;
        field.text(reading, "text").map(str::to_owned)
    }

    /// A key's value as a quantity with its unit.
    pub fn quantity<T: FromStr<Err = QuantityError>>(
        &self,
        reading: &mut Reading,
        key: &'static str,
        example: &str,
    ) -> Option<T> {
        self.field(reading, key)?.quantity(reading, example)
    }

    /// A key's value as yes or no.
    pub fn boolean(&self, reading: &mut Reading, key: &'static str) -> Option<bool> {
        let field = self.field(reading, key)?;
        match field.value {
            DeValue::Boolean(yes) => Some(*yes),
            _ => {
                field.wrong_type(reading, "true or false");
                None
            }
        }
    }

    /// A key's value as a whole number within limits.
    pub fn integer(&self, reading: &mut Reading, key: &'static str, limits: Range<i64>) -> Option<i64> {
        self.field(reading, key)?.integer(reading, limits)
    }

    /// A key's value as one of a list of words.
    pub fn word<T: Copy>(
        &self,
        reading: &mut Reading,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let field = self.field(reading, key)?;
        let text = field.text(reading, "a word")?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let help = match nearest(text, list.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"? known: {}", list.join(", ")),
            None => format!("known: {}", list.join(", ")),
        };
        reading.wrong(field.span.clone(), format!("`{text}` is no {key}"), "not known", Some(help));
        None
    }

    /// A key's value as a table.
    pub fn table(&self, reading: &mut Reading, key: &'static str) -> Option<Table<'t>> {
        self.field(reading, key)?.table(reading)
    }

    /// A key's value as a list of tables.
    pub fn tables(&self, reading: &mut Reading, key: &'static str) -> Vec<Table<'t>> {
        let Some(field) = self.field(reading, key) else { return Vec::new() };
        let DeValue::Array(items) = field.value else {
            let message = format!("`{key}` is a list of tables");
            reading.wrong(field.span, message, "not a list", Some(format!("write `[[{key}]]`")));
            return Vec::new();
        };
        items.iter().filter_map(|item| Field::item(item, &field.path).table(reading)).collect()
    }
}

impl<'t> Field<'t> {
    /// An item of a list.
    fn item(value: &'t Spanned<DeValue<'t>>, path: &str) -> Field<'t> {
        Field { value: value.get_ref(), span: value.span(), path: path.to_owned() }
    }

    /// Notes that this is not what was expected.
    pub fn wrong_type(&self, reading: &mut Reading, expected: &str) {
        let found = match self.value {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a bare number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let key = self.path.rsplit('.').next().unwrap_or_default();
        let message = format!("`{key}` is {expected}, not {found}");
        reading.wrong(self.span.clone(), message, &format!("expected {expected}"), None);
    }

    /// The text in it.
    pub fn text(&self, reading: &mut Reading, expected: &str) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => {
                self.wrong_type(reading, expected);
                None
            }
        }
    }

    /// The quantity in it.
    pub fn quantity<T: FromStr<Err = QuantityError>>(
        &self,
        reading: &mut Reading,
        example: &str,
    ) -> Option<T> {
        let text = match self.value {
            DeValue::String(text) => text,
            DeValue::Integer(_) | DeValue::Float(_) => {
                let key = self.path.rsplit('.').next().unwrap_or_default();
                let message = format!("`{key}` has no unit");
                let help = format!("quantities are texts with their unit, such as \"{example}\"");
                reading.wrong(self.span.clone(), message, "a bare number", Some(help));
                return None;
            }
            _ => {
                self.wrong_type(reading, &format!("a text such as \"{example}\""));
                return None;
            }
        };
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let help = Some(format!("write it like \"{example}\""));
                reading.wrong(self.span.clone(), error.to_string(), "here", help);
                None
            }
        }
    }

    /// The whole number in it.
    pub fn integer(&self, reading: &mut Reading, limits: Range<i64>) -> Option<i64> {
        let DeValue::Integer(integer) = self.value else {
            self.wrong_type(reading, "a whole number");
            return None;
        };
        let value = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match value {
            Some(value) if limits.contains(&value) => Some(value),
            _ => {
                let key = self.path.rsplit('.').next().unwrap_or_default();
                let most = limits.end - 1;
                let is_below = value.is_some_and(|value| value < limits.start);
                let range = if is_below && most == i64::MAX - 1 {
                    format!("{} or more", limits.start)
                } else {
                    format!("between {} and {most}", limits.start)
                };
                reading.wrong(self.span.clone(), format!("`{key}` is {range}"), "out of range", None);
                None
            }
        }
    }

    /// The table in it.
    pub fn table(&self, reading: &mut Reading) -> Option<Table<'t>> {
        match self.value {
            DeValue::Table(entries) => Some(Table::new(entries, self.span.clone(), &self.path)),
            _ => {
                self.wrong_type(reading, "a table");
                None
            }
        }
    }

    /// The items of a list, or the one value that stands for a list of one.
    pub fn items(&self) -> Vec<Field<'t>> {
        match self.value {
            DeValue::Array(items) => items
                .iter()
                .enumerate()
                .map(|(i, item)| Field::item(item, &format!("{}.{i}", self.path)))
                .collect(),
            _ => vec![Field { path: format!("{}.0", self.path), ..self.clone() }],
        }
    }

    /// Where byte `range` of the text inside this value stands in the file. Exact for texts without escapes.
    pub fn inside(&self, range: Range<usize>) -> Range<usize> {
        let DeValue::String(text) = self.value else { return self.span.clone() };
        let quotes = self.span.len().saturating_sub(text.len()) / 2;
        let is_plain = self.span.len() == text.len() + 2 * quotes;
        if !is_plain {
            return self.span.clone();
        }
        let start = self.span.start + quotes;
        // An empty range would mark nothing: show one place at least.
        start + range.start..start + range.end.max(range.start + 1).min(text.len() + 1)
    }
}
