//! A workload with some of its keys set anew: `[vary]` run by run, and `surety run --ab`.
//!
//! A key is set in the file's own form: the workload is written ([`super::write`]), the value is put where the path
//! says, and the result is read again. So every key of the format can be varied, what is wrong is found by the same
//! checks, and what the path does not name stays as it was.

use std::fmt;
use std::ops::Range;

use toml::{Table, Value};

use crate::source::{Diagnostic, Diagnostics, nearest};
use crate::workload::{VaryValue, Workload};

/// More combinations than this are a slip.
pub const COMBINATIONS_MAX: usize = 1_000;

/// Paths with the value each is set to, in the order of the file: one line of a table of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub Vec<(String, VaryValue)>);

impl fmt::Display for Settings {
    /// `load.busy.count = 4, task.player.policy = fifo:80`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (path, value)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{path} = {value}")?;
        }
        Ok(())
    }
}

/// Every combination of `[vary]`: each of its rows with every product of its keys; one without settings where nothing
/// is varied. The last key changes fastest.
///
/// # Errors
/// Above [`COMBINATIONS_MAX`], or when a row sets a key of the product.
pub fn combinations(workload: &Workload) -> Result<Vec<Settings>, Diagnostics> {
    let vary = &workload.vary;
    let mut list: Vec<Settings> =
        vary.rows.iter().map(|row| Settings(row.clone().into_iter().collect())).collect();
    for (path, _) in list.iter().flat_map(|row| &row.0) {
        if vary.product.contains_key(path) {
            let message = format!("`{path}` is set by a row and by a list of its own");
            return Err(wrong(workload, path, message, "give it one of them".to_owned()));
        }
    }
    if list.is_empty() {
        list.push(Settings::default());
    }
    for (path, values) in &vary.product {
        if list.len().saturating_mul(values.len()) > COMBINATIONS_MAX {
            let message = format!("more than {COMBINATIONS_MAX} combinations with `{path}`");
            return Err(wrong(workload, path, message, "vary less at once".to_owned()));
        }
        list = list
            .iter()
            .flat_map(|before| {
                values.iter().map(move |value| {
                    let mut settings = before.clone();
                    settings.0.push((path.clone(), value.clone()));
                    settings
                })
            })
            .collect();
    }
    Ok(list)
}

/// The workload with these keys set, and nothing varied any more.
///
/// A load with a count of 0 is left out; a reservation set to `none` is taken away.
///
/// # Errors
/// What is wrong with the workload as set, at the place of the path in `[vary]` where it stands in one.
pub fn with(workload: &Workload, settings: &Settings) -> Result<Workload, Diagnostics> {
    let plain = Workload { vary: Default::default(), ..workload.clone() };
    if settings.0.is_empty() {
        return Ok(plain);
    }
    let first = settings.0.first().map_or("", |(path, _)| path.as_str());
    let written = super::write(&plain);
    let mut root: Table = written
        .parse()
        .map_err(|e: toml::de::Error| wrong(workload, first, e.message().to_owned(), String::new()))?;
    for (path, value) in &settings.0 {
        set(&mut root, path, value).map_err(|(message, help)| wrong(workload, path, message, help))?;
    }
    match super::read(&settings.to_string(), &root.to_string()) {
        Ok(read) => {
            // What only a world finds wrong is told where it is set, too.
            let set = settings.0.iter();
            let places =
                set.filter_map(|(path, value)| Some((path.clone(), span_of(workload, path, Some(value))?)));
            Ok(Workload { source: workload.source.with_places(places), ..read })
        }
        Err(found) => {
            let list = found.list.into_iter().map(|d| {
                let path = settings.0.iter().map(|(path, _)| path).find(|path| {
                    let key = path.rsplit('.').next().unwrap_or_default();
                    d.message.contains(key)
                });
                let message = format!("with {settings}: {}", d.message);
                let path = path.map_or(first, String::as_str);
                let value = settings.0.iter().find(|(other, _)| other == path).map(|(_, value)| value);
                place(workload, (path, value), message, d.help)
            });
            Err(Diagnostics { list: list.collect(), ..wrong(workload, first, String::new(), String::new()) })
        }
    }
}

/// Puts a value where a path says.
fn set(root: &mut Table, path: &str, value: &VaryValue) -> Result<(), (String, String)> {
    let parts: Vec<&str> = path.split('.').collect();
    let [kind, name, keys @ .., last] = parts.as_slice() else {
        return Err((
            format!("`{path}` is no path into the workload"),
            "write it as kind.name.key, such as load.busy.count".to_owned(),
        ));
    };
    let is_load_count = (*kind, keys.is_empty(), *last) == ("load", true, "count");
    if is_load_count && *value == VaryValue::Integer(0) {
        object(root, kind, name)?;
        if let Some(Value::Array(list)) = root.get_mut(*kind) {
            list.retain(|item| item.get("name").and_then(Value::as_str) != Some(name));
        }
        return Ok(());
    }
    let mut table = object(root, kind, name)?;
    for key in keys {
        table = match table.entry(*key).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => inner,
            other => {
                let help = format!("set {kind}.{name}.{key} as a whole");
                return Err((
                    format!("`{key}` is {}, not a table with `{last}` in it", other.type_str()),
                    help,
                ));
            }
        };
    }
    if *last == "reservation" && *value == VaryValue::Text("none".to_owned()) {
        table.remove(*last);
        return Ok(());
    }
    let value = match value {
        VaryValue::Text(text) => Value::String(text.clone()),
        VaryValue::Integer(number) => Value::Integer(*number),
        VaryValue::Boolean(yes) => Value::Boolean(*yes),
    };
    table.insert((*last).to_owned(), value);
    Ok(())
}

/// The table of an object.
fn object<'t>(root: &'t mut Table, kind: &str, name: &str) -> Result<&'t mut Table, (String, String)> {
    let names: Vec<String> = match root.get(kind) {
        Some(Value::Array(list)) => {
            list.iter().filter_map(|t| t.get("name").and_then(Value::as_str)).map(str::to_owned).collect()
        }
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let missing = || {
        let help = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {kind}.{near}?"),
            None if names.is_empty() => format!("the workload has no {kind}"),
            None => format!("there are {}", names.join(", ")),
        };
        (format!("there is no {kind} `{name}`"), help)
    };
    let found = match root.get_mut(kind) {
        Some(Value::Array(list)) => {
            list.iter_mut().find(|t| t.get("name").and_then(Value::as_str) == Some(name))
        }
        Some(Value::Table(table)) => table.get_mut(name),
        _ => None,
    };
    found.and_then(Value::as_table_mut).ok_or_else(missing)
}

fn wrong(workload: &Workload, path: &str, message: String, help: String) -> Diagnostics {
    let diagnostic = place(workload, (path, None), message, Some(help).filter(|h| !h.is_empty()));
    let in_file = span_of(workload, path, None).is_some();
    let (name, text) = if in_file {
        (workload.source.name().unwrap_or_default().to_owned(), workload.source.text().to_owned())
    } else {
        ("the variable".to_owned(), path.to_owned())
    };
    Diagnostics { name, text, list: vec![diagnostic] }
}

/// Where a value of a path stands in `[vary]`, else where the path does.
fn span_of(workload: &Workload, path: &str, value: Option<&VaryValue>) -> Option<Range<usize>> {
    let of_value = value.and_then(|value| workload.source.span_of(&value.place(path)));
    of_value.or_else(|| workload.source.span_of(&format!("vary.{path}")))
}

fn place(
    workload: &Workload,
    (path, value): (&str, Option<&VaryValue>),
    message: String,
    help: Option<String>,
) -> Diagnostic {
    let span = span_of(workload, path, value).unwrap_or(0..path.len());
    Diagnostic { message, span, label: "set here".to_owned(), help }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::toml::read;
    use crate::workload::{Instances, PolicySpec};

    const TEXT: &str = r#"format = 1
[[task]]
name = "player"
period = "40ms"
work = "10ms"
promise = ["response <= 40ms @ 99%"]
[[load]]
name = "busy"
kind = "spinners"
count = 2
[vary]
"task.player.policy" = ["fair", "fifo:80"]
"load.busy.count" = [0, 4]
rows = [{ "task.player.late" = "skip" }, { "task.player.late" = "queue", "task.player.work" = "12ms" }]
"#;

    fn text(value: &str) -> VaryValue {
        VaryValue::Text(value.to_owned())
    }

    #[test]
    fn rows_times_products_and_the_last_key_fastest() {
        let workload = read("v.toml", TEXT).unwrap();
        let list = combinations(&workload).unwrap();
        let lines: Vec<String> = list.iter().map(Settings::to_string).collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[0], "task.player.late = skip, load.busy.count = 0, task.player.policy = fair");
        assert_eq!(lines[1], "task.player.late = skip, load.busy.count = 0, task.player.policy = fifo:80");
        let last = with(&workload, &list[7]).unwrap();
        assert_eq!(last.tasks[0].policy, PolicySpec::Fifo { priority: 80 });
        assert_eq!(last.loads[0].count, Instances::Count(4));
        assert!(last.vary.is_empty() && last.source.name() == Some("v.toml"));
        assert!(with(&workload, &list[0]).unwrap().loads.is_empty());
        let plain = Workload { vary: Default::default(), ..workload };
        assert_eq!(combinations(&plain).unwrap(), [Settings::default()]);
        assert_eq!(with(&plain, &Settings::default()).unwrap(), plain);
    }

    #[test]
    fn nested_keys_are_made_and_taken_away() {
        let workload = read("v.toml", TEXT).unwrap();
        let reservation = |key: &str, value: &str| (format!("task.player.reservation.{key}"), text(value));
        let settings = Settings(vec![
            reservation("runtime", "11ms"),
            reservation("deadline", "20ms"),
            reservation("period", "40ms"),
        ]);
        let reserved = with(&workload, &settings).unwrap();
        assert!(reserved.is_reserved());
        let none = Settings(vec![("task.player.reservation".to_owned(), text("none"))]);
        assert!(!with(&reserved, &none).unwrap().is_reserved());
    }

    #[test]
    fn what_cannot_be_set_is_said_where_it_stands() {
        let workload = read("v.toml", TEXT).unwrap();
        for (path, value, says) in [
            ("task.player.policy", text("fifo:800"), "v.toml:12:1"),
            ("task.player.polcy", text("fifo:80"), "did you mean `policy`"),
            ("task.plyer.policy", text("fifo:80"), "did you mean task.player?"),
            ("disk.d.scheduler", text("bfq"), "the workload has no disk"),
            ("task.player", text("x"), "kind.name.key"),
            ("task.player.period.x", text("x"), "not a table"),
            ("load.busy.count", VaryValue::Integer(-1), "between"),
        ] {
            let error = with(&workload, &Settings(vec![(path.to_owned(), value)])).unwrap_err().to_string();
            assert!(error.contains(says), "{path}: {error}");
        }
        // A value of the file is told itself, and so is one that only a world finds wrong.
        let bad = TEXT.replace("\"fifo:80\"]", "\"fifo:800\"]");
        let bad = read("v.toml", &bad).unwrap();
        let settings = combinations(&bad).unwrap();
        let error = with(&bad, &settings[1]).unwrap_err().to_string();
        assert!(error.contains("v.toml:12:33"), "{error}");
        let set = with(&workload, &combinations(&workload).unwrap()[7]).unwrap();
        assert_eq!(set.source.locate("load.busy.count").as_deref(), Some("v.toml:13:25"));
        assert_eq!(set.source.locate("task.player.work").as_deref(), Some("v.toml:14:95"));
        let twice = TEXT.replace("\"task.player.late\" = \"skip\"", "\"load.busy.count\" = 1");
        let error = combinations(&read("v.toml", &twice).unwrap()).unwrap_err().to_string();
        assert!(error.contains("set by a row"), "{error}");
    }

    #[test]
    fn too_many_combinations_are_refused() {
        let mut workload = read("v.toml", TEXT).unwrap();
        let many: Vec<VaryValue> = (1..400).map(VaryValue::Integer).collect();
        workload.vary.product.insert("load.busy.count".to_owned(), many);
        assert!(combinations(&workload).unwrap_err().to_string().contains("1000 combinations"));
    }
}
