//! The syntax of DiskSim's parameter files: nested blocks of `key = value`, lists, `source`d files, `#` comments.
//!
//! A key is whatever stands before the `=`, blanks, dots and parentheses included. A value is a number, a word, a list in
//! brackets, a block `type { ... }`, or `source FILE`. Commas separate.

use std::ops::Range;

use surety_model::source::Diagnostic;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub span: Range<usize>,
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Number(f64),
    Word(String),
    List(Vec<Value>),
    Block(Block),
    /// `source FILE`.
    Source(String),
}

/// `type { key = value, ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub kind: String,
    pub span: Range<usize>,
    pub fields: Vec<Field>,
}

/// `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub key: String,
    pub span: Range<usize>,
    pub value: Value,
}

/// A block with a name, at the top of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub name: String,
    pub block: Block,
}

/// How deep blocks and lists may stand in each other.
const DEPTH: usize = 16;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// Reads a file: named blocks.
pub fn read(text: &str) -> Result<Vec<Named>, Diagnostic> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let mut found = Vec::new();
    loop {
        reader.skip();
        if reader.rest().is_empty() {
            return Ok(found);
        }
        let begin = reader.at;
        let kind = reader.word();
        reader.skip();
        let name = reader.word();
        reader.skip();
        if kind.is_empty() || name.is_empty() || !reader.rest().starts_with('{') {
            let message = "a block should stand here, as `disksim_disk NAME { ... }`";
            return Err(Diagnostic::new(begin..reader.at.max(begin + 1), message)
                .help("of a file of parameters only the blocks dm_disk and disksim_disk are read"));
        }
        let block = reader.block(kind, begin)?;
        found.push(Named { name, block });
    }
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Goes over blanks and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            if !self.rest().starts_with('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// A word: up to a blank or a sign of the syntax.
    fn word(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "{}[]=,#".contains(c)).unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        self.at += end;
        word
    }

    fn here(&self) -> Range<usize> {
        let width = self.rest().chars().next().map_or(0, char::len_utf8);
        self.at..self.at + width
    }

    fn deeper(&mut self) -> Result<(), Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Diagnostic::new(
                self.here(),
                format!("blocks stand more than {DEPTH} deep in each other"),
            ));
        }
        Ok(())
    }

    /// A block whose type has been read.
    fn block(&mut self, kind: String, begin: usize) -> Result<Block, Diagnostic> {
        self.deeper()?;
        self.at += 1;
        let mut fields = Vec::new();
        loop {
            self.skip();
            let rest = self.rest();
            if rest.starts_with('}') {
                self.at += 1;
                self.depth -= 1;
                return Ok(Block { kind, span: begin..self.at, fields });
            }
            let from = self.at;
            let end = rest.find(|c: char| "{}[]=,#\n".contains(c));
            let Some(end) = end.filter(|end| rest[*end..].starts_with('=')) else {
                let message = "`key = value` or the block's `}` should stand here";
                return Err(Diagnostic::new(self.here(), message));
            };
            let key = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
            let span = from..from + rest[..end].trim_end().len();
            self.at += end + 1;
            let value = self.value()?;
            fields.push(Field { key, span, value });
            self.skip();
            if self.rest().starts_with(',') {
                self.at += 1;
            }
        }
    }

    fn value(&mut self) -> Result<Value, Diagnostic> {
        self.skip();
        let begin = self.at;
        if self.rest().starts_with('[') {
            return self.list(begin);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(Diagnostic::new(self.here(), "a value should stand here"));
        }
        let span = begin..self.at;
        if let Ok(number) = word.parse::<f64>() {
            if !number.is_finite() {
                return Err(Diagnostic::new(span, format!("`{word}` is no number to reckon with")));
            }
            return Ok(Value { span, kind: Kind::Number(number) });
        }
        self.skip();
        if word == "source" {
            let file = self.word();
            return Ok(Value { span: begin..self.at, kind: Kind::Source(file) });
        }
        if self.rest().starts_with('{') {
            let block = self.block(word, begin)?;
            return Ok(Value { span: block.span.clone(), kind: Kind::Block(block) });
        }
        Ok(Value { span, kind: Kind::Word(word) })
    }

    fn list(&mut self, begin: usize) -> Result<Value, Diagnostic> {
        self.deeper()?;
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.skip();
            match self.rest().chars().next() {
                None => return Err(Diagnostic::new(begin..begin + 1, "this list has no end")),
                Some(']') => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(Value { span: begin..self.at, kind: Kind::List(values) });
                }
                Some(',') => self.at += 1,
                Some(_) => values.push(self.value()?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_sources_and_comments_are_read() {
        let text = "# head\ndm_disk A { Low (write) mark = 0.5, Model = source a.model, # why\n  Zones = [ z { x = 1 }, z { x = -2, } ], slips = [ 1, 2\n 3 ] }\n";
        let named = read(text).unwrap();
        assert_eq!((named.len(), named[0].name.as_str(), named[0].block.kind.as_str()), (1, "A", "dm_disk"));
        let fields = &named[0].block.fields;
        let keys: Vec<&str> = fields.iter().map(|field| field.key.as_str()).collect();
        assert_eq!(keys, ["Low (write) mark", "Model", "Zones", "slips"]);
        assert_eq!(fields[1].value.kind, Kind::Source("a.model".to_owned()));
        assert!(matches!(&fields[2].value.kind, Kind::List(zones) if zones.len() == 2));
        assert!(matches!(&fields[3].value.kind, Kind::List(slips) if slips.len() == 3));
    }

    #[test]
    fn what_is_no_block_is_told_with_its_place() {
        for (text, at) in [
            ("dm_disk A { x = 1", 17),
            ("dm_disk A { x }", 12),
            ("instantiate [ d ] as D", 0),
            ("dm_disk A { x = [ 1 ", 16),
            ("dm_disk A { x = , }", 16),
            ("dm_disk A { x = nan }", 16),
        ] {
            assert_eq!(read(text).unwrap_err().span.start, at, "{text}");
        }
        let deep = format!("dm_disk A {{ x = {}", "[".repeat(40));
        assert!(read(&deep).unwrap_err().message.contains("deep"));
    }
}
