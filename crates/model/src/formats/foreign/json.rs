//! JSON as json-c and workgen read it: with comments of C and C++, commas before a closing bracket, keys that come more
//! than once and stay in their order, and keys without a value. Every value knows its place.

use super::item::{DEPTH_MAX, Item, Member, Value};
use crate::source::Diagnostic;

/// Reads one value, which is all of the text.
///
/// # Errors
/// The first thing that is no JSON, with its place.
pub(super) fn parse(text: &str) -> Result<Item, Diagnostic> {
    let mut parser = Parser { text, at: 0 };
    let item = parser.item(0)?;
    parser.skip()?;
    if parser.at < text.len() {
        return Err(parser.wrong("something follows the end"));
    }
    Ok(item)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Something wrong at the next character.
    fn wrong(&self, message: &str) -> Diagnostic {
        let length = self.peek().map_or(0, char::len_utf8);
        let mut diagnostic = Diagnostic::new(self.at..self.at + length, message);
        diagnostic.label = "here".to_owned();
        diagnostic
    }

    /// Passes over blanks and comments.
    fn skip(&mut self) -> Result<(), Diagnostic> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or_else(|| self.wrong("the comment has no end"))?;
                self.at += 2 + end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn item(&mut self, depth: usize) -> Result<Item, Diagnostic> {
        self.skip()?;
        let begin = self.at;
        if depth > DEPTH_MAX {
            return Err(self.wrong(&format!("values are at most {DEPTH_MAX} deep")));
        }
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Value::Text(self.string()?),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number(),
            _ => self.word()?,
        };
        Ok(Item { value, span: begin..self.at })
    }

    fn word(&mut self) -> Result<Value, Diagnostic> {
        let words = [("true", Value::Boolean(true)), ("false", Value::Boolean(false)), ("null", Value::Null)];
        let found = words.into_iter().find(|(word, _)| self.rest().starts_with(word));
        let (word, value) = found.ok_or_else(|| self.wrong("a value is missing"))?;
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Value {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let number = rest[..end].to_owned();
        self.at += end;
        Value::Number(number)
    }

    fn string(&mut self) -> Result<String, Diagnostic> {
        let begin = self.at;
        let open = || Diagnostic::new(begin..begin + 1, "the text has no end");
        self.at += 1;
        let mut text = String::new();
        loop {
            let c = self.peek().ok_or_else(open)?;
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(text);
                }
                '\n' => return Err(open()),
                '\\' => text.push(self.escape()?),
                _ => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Diagnostic> {
        let unknown = self.wrong("no such escape");
        let mut chars = self.rest().chars().skip(1);
        let (c, length) = match chars.next() {
            Some('n') => ('\n', 2),
            Some('t') => ('\t', 2),
            Some('r') => ('\r', 2),
            Some('b') => ('\u{8}', 2),
            Some('f') => ('\u{c}', 2),
            Some(same @ ('"' | '\\' | '/')) => (same, 2),
            Some('u') => {
                let digits = self.rest().get(2..6).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                (code.and_then(char::from_u32).ok_or(unknown)?, 6)
            }
            _ => return Err(unknown),
        };
        self.at += length;
        Ok(c)
    }

    /// Passes over the comma between two entries; whether the closing bracket was met.
    fn between(&mut self, closing: char, first: bool) -> Result<bool, Diagnostic> {
        self.skip()?;
        if !first && self.peek() == Some(',') {
            self.at += 1;
            self.skip()?;
        } else if !first && self.peek() != Some(closing) {
            return Err(self.wrong(&format!("`,` or `{closing}` is missing")));
        }
        let is_closed = self.peek() == Some(closing);
        if is_closed {
            self.at += 1;
        }
        Ok(is_closed)
    }

    fn array(&mut self, depth: usize) -> Result<Value, Diagnostic> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.between(']', items.is_empty())? {
            items.push(self.item(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, Diagnostic> {
        self.at += 1;
        let mut members = Vec::new();
        while !self.between('}', members.is_empty())? {
            if self.peek() != Some('"') {
                return Err(self.wrong("a key is a text in quotes"));
            }
            let begin = self.at;
            let key = self.string()?;
            let span = begin..self.at;
            self.skip()?;
            let item = match self.peek() {
                Some(':') => {
                    self.at += 1;
                    self.item(depth + 1)?
                }
                Some(',' | '}') => Item { value: Value::Omitted, span: span.clone() },
                _ => return Err(self.wrong("`:` is missing")),
            };
            members.push(Member { key, span, item });
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::place_of;

    #[test]
    fn comments_trailing_commas_double_keys_and_lone_keys_are_read_in_order() {
        let text = "// first\n{ \"run\": 1, /*/ \"run\": 7, */ /* * / */ \"run\": -2, \"suspend\", \"a\": [1, true, null,], }\n";
        let Value::Object(members) = parse(text).unwrap().value else { panic!("no object") };
        let seen: Vec<(&str, &Value)> = members.iter().map(|m| (m.key.as_str(), &m.item.value)).collect();
        let number = |text: &str| Value::Number(text.to_owned());
        assert_eq!(seen[0], ("run", &number("1")));
        assert_eq!(seen[1], ("run", &number("-2")));
        assert_eq!(seen[2], ("suspend", &Value::Omitted));
        let Value::Array(items) = seen[3].1 else { panic!("no array") };
        let items: Vec<&Value> = items.iter().map(|item| &item.value).collect();
        assert_eq!(items, [&number("1"), &Value::Boolean(true), &Value::Null]);
        assert_eq!(&text[members[1].span.clone()], "\"run\"");
        assert_eq!(&text[members[1].item.span.clone()], "-2");
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, line, column, message) in [
            ("{\n  \"a\" 1 }", 2, 7, "`:` is missing"),
            ("{ \"a\": 1 \"b\": 2 }", 1, 10, "`,` or `}` is missing"),
            ("{ \"a\": }", 1, 8, "a value is missing"),
            ("{ a: 1 }", 1, 3, "a key is a text in quotes"),
            ("{} {}", 1, 4, "something follows the end"),
            ("{ /* ", 1, 3, "the comment has no end"),
            ("{ \"a", 1, 3, "the text has no end"),
            ("\"\\x\"", 1, 2, "no such escape"),
            ("", 1, 1, "a value is missing"),
            ("{,}", 1, 2, "a key is a text in quotes"),
        ] {
            let diagnostic = parse(text).unwrap_err();
            let place = place_of(text, diagnostic.span.start);
            assert_eq!((place.line, place.column, diagnostic.message.as_str()), (line, column, message));
        }
        let deep = "[".repeat(40);
        assert!(parse(&deep).unwrap_err().message.contains("deep"));
    }

    #[test]
    fn escapes_are_undone() {
        let Value::Text(text) = parse(r#""a\n\"\\\/\u00b5é""#).unwrap().value else { panic!("no text") };
        assert_eq!(text, "a\n\"\\/µé");
    }
}
