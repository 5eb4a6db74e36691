//! [`Object`]: typed access to one object of the file, everything wrong noted with its place.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use surety_units::Nanos;

use super::Reading;
use super::item::{Item, Member, Value};
use crate::source::nearest;

/// An object, and which of its keys were asked for.
pub(super) struct Object<'j> {
    members: &'j [Member],
    pub(super) span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'j> Object<'j> {
    /// The object that this is; `what` says what it should be.
    pub(super) fn of(reading: &mut Reading, what: &str, item: &'j Item) -> Option<Object<'j>> {
        match &item.value {
            Value::Object(members) => {
                Some(Object { members, span: item.span.clone(), asked: RefCell::default() })
            }
            other => {
                let message = format!("{what} is an object, not {}", kind_of(other));
                reading.wrong(&item.span, message, None);
                None
            }
        }
    }

    /// Everything in it, in the order of the file.
    pub(super) fn members(&self) -> &'j [Member] {
        self.members
    }

    /// Whether it has a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key)
    }

    /// Where a key stands; where it is not there, the object.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        let member = self.members.iter().find(|member| member.key == key);
        member.map_or(self.span.clone(), |member| member.span.clone())
    }

    /// The value of a key that comes once.
    pub(super) fn get(&self, reading: &mut Reading, key: &'static str) -> Option<&'j Item> {
        self.asked.borrow_mut().push(key);
        let mut found = self.members.iter().filter(|member| member.key == key);
        let first = found.next()?;
        if let Some(second) = found.next() {
            reading.wrong(
                &second.span,
                format!("`{key}` is here twice"),
                Some("leave one of them".to_owned()),
            );
        }
        Some(&first.item)
    }

    /// A whole number.
    pub(super) fn integer(
        &self,
        reading: &mut Reading,
        key: &'static str,
        limits: RangeInclusive<i64>,
    ) -> Option<i64> {
        let item = self.get(reading, key)?;
        integer(reading, key, item, limits)
    }

    /// A time in microseconds.
    pub(super) fn micros(&self, reading: &mut Reading, key: &'static str) -> Option<Nanos> {
        self.integer(reading, key, 0..=i64::from(i32::MAX)).map(Nanos::from_micros)
    }

    /// A text.
    pub(super) fn text(&self, reading: &mut Reading, key: &'static str) -> Option<&'j str> {
        let item = self.get(reading, key)?;
        text(reading, key, item)
    }

    /// Yes or no.
    pub(super) fn boolean(&self, reading: &mut Reading, key: &'static str) -> Option<bool> {
        let item = self.get(reading, key)?;
        match item.value {
            Value::Boolean(yes) => Some(yes),
            _ => wrong_type(reading, key, item, "true or false"),
        }
    }

    /// One of a list of words.
    pub(super) fn word(
        &self,
        reading: &mut Reading,
        key: &'static str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let item = self.get(reading, key)?;
        let said = text(reading, key, item)?;
        let found = words.iter().find(|word| **word == said);
        if found.is_none() {
            let help = format!("known: {}", words.join(", "));
            reading.wrong(&item.span, format!("`{said}` is no {key}"), Some(help));
        }
        found.copied()
    }

    /// Notes every key nobody asked for and that is not said to be fine.
    pub(super) fn finish(&self, reading: &mut Reading, is_fine: impl Fn(&str) -> bool) {
        self.finish_beside(reading, is_fine, &[]);
    }

    /// The same where words that are asked for otherwise may be meant too.
    pub(super) fn finish_beside(
        &self,
        reading: &mut Reading,
        is_fine: impl Fn(&str) -> bool,
        others: &[&str],
    ) {
        let asked = self.asked.borrow();
        let unknown = self
            .members
            .iter()
            .filter(|member| !asked.contains(&member.key.as_str()) && !is_fine(&member.key));
        for member in unknown {
            let help = match nearest(&member.key, asked.iter().chain(others).copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    "what a key would change cannot be left out unseen; take it out of the file".to_owned()
                }
            };
            reading.wrong(&member.span, format!("unknown key `{}`", member.key), Some(help));
        }
    }
}

/// A whole number within limits.
pub(super) fn integer(
    reading: &mut Reading,
    key: &str,
    item: &Item,
    limits: RangeInclusive<i64>,
) -> Option<i64> {
    let number = match &item.value {
        Value::Number(number) => number.parse::<i64>().ok(),
        _ => None,
    };
    let Some(number) = number else { return wrong_type(reading, key, item, "a whole number") };
    if limits.contains(&number) {
        return Some(number);
    }
    let message = format!("`{key}` is between {} and {}", limits.start(), limits.end());
    reading.wrong(&item.span, message, None);
    None
}

/// A text.
pub(super) fn text<'j>(reading: &mut Reading, key: &str, item: &'j Item) -> Option<&'j str> {
    match &item.value {
        Value::Text(text) => Some(text),
        _ => wrong_type(reading, key, item, "a text"),
    }
}

fn wrong_type<T>(reading: &mut Reading, key: &str, item: &Item, expected: &str) -> Option<T> {
    reading.wrong(&item.span, format!("`{key}` is {expected}, not {}", kind_of(&item.value)), None);
    None
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::Text(_) => "a text",
        Value::Number(number) if number.parse::<i64>().is_ok() => "a number",
        Value::Number(_) => "a number of this form",
        Value::Boolean(_) => "true or false",
        Value::Null => "null",
        Value::Omitted => "left out",
    }
}
