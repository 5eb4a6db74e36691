//! JSON as measuring programs write it: by `printf`, so that quotes of a command line stand unescaped and a mean of
//! nothing is `nan`.
//!
//! A text that is no JSON is mended line by line, each mend is told, and what still is none is an error. Only two
//! mends are made: in a line of the form `"key": "text"`, quotes and backslashes inside the text are escaped; `nan` and
//! `inf` in a number's place become `null`.

use serde_json::{Map, Value};

use crate::ImportError;

/// A document with what had to be mended.
pub(crate) struct Document {
    pub(crate) root: Map<String, Value>,
    pub(crate) mended: Vec<String>,
}

/// Reads the object that begins at the first line that starts with `{`: programs print warnings before it.
pub(crate) fn document(format: &'static str, text: &str) -> Result<Document, ImportError> {
    let mut at = 0;
    let mut skipped = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            break;
        }
        at += line.len();
        skipped += 1;
    }
    let text = &text[at..];
    let first = match serde_json::from_str::<Value>(text) {
        Ok(root) => return object(format, root, Vec::new()),
        Err(error) => error,
    };
    let (text, mended) = mend(text, skipped);
    match serde_json::from_str::<Value>(&text) {
        Ok(root) => object(format, root, mended),
        // Where it first was no JSON is where its reader has to look.
        Err(_) => Err(ImportError::Line { format, line: skipped + first.line(), why: first.to_string() }),
    }
}

fn object(format: &'static str, root: Value, mended: Vec<String>) -> Result<Document, ImportError> {
    match root {
        Value::Object(root) => Ok(Document { root, mended }),
        _ => Err(ImportError::Line { format, line: 1, why: "the document is no object".to_owned() }),
    }
}

fn mend(text: &str, skipped: usize) -> (String, Vec<String>) {
    let mut out = String::with_capacity(text.len());
    let mut mended = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match mended_line(line) {
            Some(better) => {
                out += &better;
                mended.push(format!("line {}", skipped + index + 1));
            }
            None => out += line,
        }
        out.push('\n');
    }
    (out, mended)
}

/// A line made JSON; `None` where it needs no mend that is known.
fn mended_line(line: &str) -> Option<String> {
    let (key, value) = line.split_once("\": ")?;
    let bare = value.trim_end();
    let (bare, comma) = bare.strip_suffix(',').map_or((bare, ""), |bare| (bare, ","));
    if let Some(inside) = bare.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        let is_escaped = |inside: &str| serde_json::from_str::<Value>(&format!("\"{inside}\"")).is_ok();
        return (!is_escaped(inside))
            .then(|| format!("{key}\": {}{comma}", Value::String(inside.to_owned())));
    }
    let word = bare.trim_start_matches(['-', '+']).to_ascii_lowercase();
    ["nan", "inf", "infinity"].contains(&word.as_str()).then(|| format!("{key}\": null{comma}"))
}

/// A value by a key that may bear a stray colon or blanks, as rt-tests writes `"cmdline:"`.
pub(crate) fn odd_key<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).or_else(|| map.iter().find(|(k, _)| k.trim_end_matches([':', ' ']) == key).map(|(_, v)| v))
}

/// What an object holds under a key, with the way to it for messages.
pub(crate) struct Node<'a> {
    format: &'static str,
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Node<'a> {
    pub(crate) fn root(format: &'static str, document: &'a Document) -> Node<'a> {
        Node { format, path: String::new(), map: &document.root }
    }

    fn wrong(&self, key: &str, why: &str) -> ImportError {
        let object = format!("`{}{key}`", self.path);
        ImportError::Object { format: self.format, object, why: why.to_owned() }
    }

    /// A mistake in this object as a whole.
    pub(crate) fn error(&self, why: String) -> ImportError {
        let object = format!("`{}`", self.path.trim_end_matches('.'));
        ImportError::Object { format: self.format, object, why }
    }

    pub(crate) fn map(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// An object inside; `None` where there is none.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Node<'a>>, ImportError> {
        match odd_key(self.map, key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Node { format: self.format, path: format!("{}{key}.", self.path), map }))
            }
            Some(_) => Err(self.wrong(key, "it is no object")),
        }
    }

    /// Every object of an array inside.
    pub(crate) fn objects(&self, key: &str) -> Result<Vec<Node<'a>>, ImportError> {
        let Some(Value::Array(values)) = self.map.get(key) else {
            return Err(self.wrong(key, "there is no such array"));
        };
        let node = |(index, value): (usize, &'a Value)| match value {
            Value::Object(map) => {
                Ok(Node { format: self.format, path: format!("{}{key}[{index}].", self.path), map })
            }
            _ => Err(self.wrong(key, "it holds something other than objects")),
        };
        values.iter().enumerate().map(node).collect()
    }

    /// A whole number; `None` where there is none, or `null`.
    pub(crate) fn whole(&self, key: &str) -> Result<Option<u64>, ImportError> {
        match odd_key(self.map, key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| self.wrong(key, "it is no whole number from 0 to 2^64 - 1")),
        }
    }

    /// Any finite number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        match odd_key(self.map, key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "it is no number")),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        odd_key(self.map, key)?.as_str()
    }

    /// An object of counts by value: ascending values with their counts.
    pub(crate) fn counts(&self, key: &str) -> Result<Vec<(u64, u64)>, ImportError> {
        let Some(histogram) = self.object(key)? else { return Ok(Vec::new()) };
        let pair = |(value, count): (&String, &Value)| {
            let value = value.trim().parse::<u64>();
            let value = value.map_err(|_| histogram.error("its keys are no whole numbers".to_owned()))?;
            let count = count.as_u64();
            Ok((value, count.ok_or_else(|| histogram.error(format!("the count of {value} is none")))?))
        };
        let mut counts = histogram.map.iter().map(pair).collect::<Result<Vec<_>, ImportError>>()?;
        counts.sort_unstable();
        Ok(counts)
    }
}
