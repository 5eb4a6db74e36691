//! Event formats: where each field of a record lies, as the kernel itself describes it.
//!
//! Text of `events/SYSTEM/EVENT/format` in tracefs, also embedded in trace files:
//!
//! ```text
//! name: sched_waking
//! ID: 375
//! format:
//!         field:unsigned short common_type;   offset:0;   size:2; signed:0;
//!         ...
//!         field:char comm[16];    offset:8;   size:16;    signed:0;
//!
//! print fmt: "comm=%s pid=%d ...", REC->comm, REC->pid, ...
//! ```
//!
//! Offsets and sizes differ between kernels and architectures, so nothing else in this crate knows any. The same
//! `field:` lines describe a ring-buffer page (`events/header_page`).

use crate::page::PageLayout;

/// A format text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A line that should say one thing says another.
    #[error("format of {event}, line {line}: {what}; is it the text of a tracefs format file?")]
    Line {
        /// The event's name as far as it was read, `system:name` or `header_page`.
        event: String,
        /// Line number from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The text ended before all was said.
    #[error("format of {event}: there is no `{what}` line; the text is cut or not a format")]
    Missing {
        event: String,
        /// The line that is missing.
        what: &'static str,
    },
    /// The decoder needs a field the kernel does not have.
    #[error(
        "format of {event}: there is no field `{field}` of the kind needed; this kernel's event is unknown here"
    )]
    Field { event: String, field: &'static str },
    /// The meaning of `prev_state` could not be read.
    #[error(
        "format of {event}: the print format has no flag table for prev_state, so states cannot be told apart"
    )]
    States { event: String },
    /// Two events share an id.
    #[error("format of {event}: its id {id} is already taken by {other}; were formats of two kernels mixed?")]
    Duplicate {
        event: String,
        id: u16,
        /// Who has it.
        other: String,
    },
}

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the field's offset.
    Fixed,
    /// Elsewhere in the record: the field holds `length << 16 | offset` counted from the record's start
    /// (`__data_loc`).
    DataLoc,
    /// The same, but the offset counts from the field's own end (`__rel_loc`).
    RelLoc,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Its C type as the kernel writes it, `unsigned int` or `char[16]`.
    pub type_name: String,
    /// Bytes from the record's start.
    pub offset: usize,
    /// Bytes; 0 for an array that reaches to the record's end.
    pub size: usize,
    /// Whether the kernel calls it signed.
    pub signed: bool,
    /// Where its bytes are.
    pub place: Place,
    /// Whether it is an array, fixed or open.
    pub array: bool,
}

/// One event's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The subsystem, `sched`; the text does not hold it, the caller knows it.
    pub system: String,
    /// The event's name, `sched_switch`.
    pub name: String,
    /// The number records carry in `common_type`.
    pub id: u16,
    /// All fields, the common ones first.
    pub fields: Vec<Field>,
    /// The print format, from which flag tables are read.
    pub print_fmt: String,
}

impl EventFormat {
    /// Reads the text of one `format` file of `system`.
    ///
    /// # Errors
    /// [`FormatError::Line`] and [`FormatError::Missing`].
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
        let mut event = format!("{system}:?");
        let (mut name, mut id, mut print_fmt) = (None, None, None);
        let mut fields = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let fail = |what| FormatError::Line { event: event.clone(), line: index + 1, what };
            if let Some(print_fmt) = &mut print_fmt {
                // It is the last entry, and older kernels break its line where the text it prints has a new one.
                continued(print_fmt, line);
                continue;
            }
            let line = line.trim();
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
                event = format!("{system}:{}", value.trim());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim().parse().map_err(|_| fail("the ID is no number below 65536"))?);
            } else if let Some(value) = line.strip_prefix("print fmt:") {
                print_fmt = Some(value.trim().to_owned());
            } else if line.starts_with("field") {
                fields.push(Field::parse(line).map_err(fail)?);
            } else if !line.is_empty() && line != "format:" {
                return Err(fail("a line that is none of name, ID, format, field, print fmt"));
            }
        }
        let missing = |what| FormatError::Missing { event: event.clone(), what };
        Ok(EventFormat {
            system: system.to_owned(),
            name: name.ok_or_else(|| missing("name:"))?,
            id: id.ok_or_else(|| missing("ID:"))?,
            // Some events of the tracer itself have none; only flag tables are read from it.
            print_fmt: print_fmt.unwrap_or_default(),
            fields: if fields.is_empty() { return Err(missing("field:")) } else { fields },
        })
    }

    /// `system:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// Joins a further line to a print format.
fn continued(print_fmt: &mut String, line: &str) {
    if !line.trim().is_empty() {
        print_fmt.push('\n');
        print_fmt.push_str(line.trim_end());
    }
}

impl Field {
    /// Reads `field:TYPE NAME[N]; offset:O; size:S; signed:B;`.
    fn parse(line: &str) -> Result<Field, &'static str> {
        let (_, rest) = line.split_once(':').ok_or("a field without a colon")?;
        let mut parts = rest.split(';').map(str::trim);
        let declaration = parts.next().unwrap_or_default();
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts.filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once(':').ok_or("a property of a field without a colon")?;
            let value: u32 = value.trim().parse().map_err(|_| "a property of a field that is no number")?;
            match key.trim() {
                "offset" => offset = Some(value as usize),
                "size" => size = Some(value as usize),
                "signed" => signed = value != 0,
                _ => {}
            }
        }
        let (place, declaration) = if let Some(rest) = declaration.strip_prefix("__data_loc ") {
            (Place::DataLoc, rest)
        } else if let Some(rest) = declaration.strip_prefix("__rel_loc ") {
            (Place::RelLoc, rest)
        } else {
            (Place::Fixed, declaration)
        };
        // An array's brackets stand after the name, `char comm[16]`, or after the type, `char[] comm`.
        let (stem, brackets) = match declaration.find('[') {
            Some(at) if declaration.ends_with(']') => declaration.split_at(at),
            _ => (declaration, ""),
        };
        let name_at = stem
            .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(0, |at| at + stem[at..].chars().next().map_or(1, char::len_utf8));
        let (type_name, name) = stem.split_at(name_at);
        if name.is_empty() {
            return Err("a field without a name");
        }
        let type_name = format!("{}{brackets}", type_name.trim());
        Ok(Field {
            name: name.to_owned(),
            array: type_name.ends_with(']'),
            type_name,
            offset: offset.ok_or("a field without its offset")?,
            size: size.ok_or("a field without its size")?,
            signed,
            place,
        })
    }
}

/// Reads the text of `events/header_page`: where a page keeps its time, its fill and its records.
///
/// The kernel's long size is the size of `commit`: the user's may differ.
///
/// # Errors
/// [`FormatError::Line`] and [`FormatError::Missing`].
pub fn parse_header_page(text: &str) -> Result<PageLayout, FormatError> {
    let event = || "header_page".to_owned();
    let mut fields = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fail = |what| FormatError::Line { event: event(), line: index + 1, what };
        fields.push((index + 1, Field::parse(line.trim()).map_err(fail)?));
    }
    let find = |what: &'static str| {
        fields.iter().find(|(_, f)| f.name == what).ok_or(FormatError::Missing { event: event(), what })
    };
    let (_, commit) = find("commit")?;
    let (line, data) = find("data")?;
    PageLayout::new(commit.offset, commit.size, data.offset, data.offset.saturating_add(data.size))
        .ok_or(FormatError::Line { event: event(), line: *line, what: "sizes no ring-buffer page has" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKING: &str = include_str!("../tests/fixtures/formats/sched/sched_waking.txt");

    #[test]
    fn a_kernels_text_becomes_a_field_table() {
        let format = EventFormat::parse("sched", WAKING).unwrap();
        assert_eq!((format.full_name().as_str(), format.fields.len()), ("sched:sched_waking", 8));
        let comm = format.field("comm").unwrap();
        assert_eq!(
            (comm.offset, comm.size, comm.signed, comm.type_name.as_str()),
            (8, 16, false, "char[16]")
        );
        assert!(format.field("pid").unwrap().signed);
        assert_eq!(format.field("common_type").unwrap().type_name, "unsigned short");
        assert!(format.print_fmt.starts_with("\"comm=%s"));
        assert_eq!(format.field("absent"), None);
    }

    #[test]
    fn a_print_format_may_take_several_lines() {
        let text =
            "name: x\nID: 1\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\n\nprint fmt: \"a=%d\n\", REC->a\n";
        let format = EventFormat::parse("s", text).unwrap();
        assert_eq!(format.print_fmt, "\"a=%d\n\", REC->a");
    }

    #[test]
    fn declarations_of_every_shape_are_taken_apart() {
        for (declaration, name, type_name, place, array) in [
            ("int pid", "pid", "int", Place::Fixed, false),
            ("void * function", "function", "void *", Place::Fixed, false),
            ("const char *name", "name", "const char *", Place::Fixed, false),
            ("char buf[]", "buf", "char[]", Place::Fixed, true),
            ("char comm[TASK_COMM_LEN]", "comm", "char[TASK_COMM_LEN]", Place::Fixed, true),
            ("__data_loc char[] name", "name", "char[]", Place::DataLoc, true),
            ("__rel_loc cpumask_t[] mask", "mask", "cpumask_t[]", Place::RelLoc, true),
        ] {
            let field =
                Field::parse(&format!("field:{declaration};\toffset:8;\tsize:4;\tsigned:1;")).unwrap();
            let expected = (name, type_name, place, array);
            assert_eq!(
                (&*field.name, &*field.type_name, field.place, field.array),
                expected,
                "{declaration}"
            );
        }
    }

    #[test]
    fn errors_name_event_and_line() {
        for (text, message) in [
            ("name: x\nID: 70000\n", "format of s:x, line 2: the ID is no number below 65536"),
            (
                "name: x\nID: 1\nfield:int a;\toffset:q;",
                "format of s:x, line 3: a property of a field that is no",
            ),
            ("name: x\nfield:int a;\tsize:4;", "format of s:x, line 2: a field without its offset"),
            ("name: x\nhello", "format of s:x, line 2: a line that is none of"),
            ("name: x\nfield:int a;\toffset:0;\tsize:4;", "format of s:x: there is no `ID:` line"),
            ("ID: 3", "format of s:?: there is no `name:` line"),
            ("", "format of s:?: there is no `name:` line"),
        ] {
            let error = EventFormat::parse("s", text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_page_header_gives_long_size_and_data() {
        let layout = parse_header_page(include_str!("../tests/fixtures/formats/header_page.txt")).unwrap();
        assert_eq!(Some(layout), PageLayout::new(8, 8, 16, 4096));
        let narrow = "field: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      field: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
                      field: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(parse_header_page(narrow).ok(), PageLayout::new(8, 4, 12, 4096));
        for broken in
            ["", "field: local_t commit;\toffset:8;\tsize:3;\nfield: char data;\toffset:12;\tsize:9;"]
        {
            assert!(parse_header_page(broken).is_err(), "{broken:?}");
        }
    }
}
