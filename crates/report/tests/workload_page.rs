//! `docs/formats/workload.md` against the reader: its examples read, and its tables name exactly the known keys.
//!
//! The reader itself says which keys it knows: an unknown key far from all others is answered with their list.

use std::collections::BTreeSet;
use std::path::Path;

use surety_model::formats::toml::read;
use surety_model::promise::Promise;
use surety_model::workload::{LOAD_KINDS, LoadKey, LoadKind, LoadRow};

const UNKNOWN: &str = "zzzzzzzzzzzz";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/workload.md");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The text of a section, up to the next heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let at = page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let body = &page[at + heading.len() + 2..];
    &body[..body.find("\n#").unwrap_or(body.len())]
}

/// Rows of the section's first table: the cells of each.
fn rows(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter(|l| l.starts_with("| `"));
    // A head whose first title is code (`kind`) is no row.
    let lines = lines.filter(|l| !l.starts_with("| `kind` | keys"));
    lines.map(|l| l.split('|').map(str::trim).filter(|c| !c.is_empty()).collect()).collect()
}

fn keys(section: &str) -> BTreeSet<String> {
    rows(section).iter().map(|r| r[0].trim_matches('`').to_owned()).collect()
}

/// What the reader says is known in the table an unknown key stands in.
fn known(text: &str) -> BTreeSet<String> {
    let errors = read("t", text).expect_err("an unknown key is an error");
    let error =
        errors.list.iter().find(|d| d.message.contains(UNKNOWN)).unwrap_or_else(|| panic!("{errors}"));
    let help = error.help.as_deref().expect("it names what is known");
    let list = help.strip_prefix("known here: ").unwrap_or_else(|| panic!("{help}"));
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_table_names_exactly_the_known_keys() {
    let page = page();
    let u = format!("{UNKNOWN} = 1");
    let task = |inside: &str| format!("format = 1\n[[task]]\nname = \"t\"\n{inside}");
    for (heading, text) in [
        ("## The file", format!("format = 1\n{u}")),
        ("## task", task(&format!("work = \"1ms\"\n{u}"))),
        (
            "## irq",
            format!(
                "format = 1\n[[irq]]\nname = \"i\"\narrivals = {{ kind = \"sporadic\", gap = \"1ms\" }}\nwork = \"1us\"\n{u}"
            ),
        ),
        ("## disk", format!("format = 1\n[disk.d]\n{u}")),
        ("## stream", format!("format = 1\n[[stream]]\nname = \"s\"\nfile = \"f\"\nrate = \"1MB/s\"\n{u}")),
        ("## startup", format!("format = 1\n[[startup]]\nname = \"s\"\ncommand = \"true\"\n{u}")),
        ("## link", format!("format = 1\n[link.l]\nrate = \"1MB/s\"\n{u}")),
        (
            "## flow",
            format!(
                "format = 1\n[link.l]\nrate = \"1MB/s\"\n[[flow]]\nname = \"f\"\nlink = \"l\"\n\
                 arrivals = {{ kind = \"periodic\", period = \"1s\" }}\n{u}"
            ),
        ),
        ("## load", format!("format = 1\n[[load]]\nname = \"l\"\nkind = \"spinners\"\n{u}")),
        ("## group", format!("format = 1\n[[group]]\nname = \"g\"\n{u}")),
        (
            "## chain",
            format!(
                "format = 1\n[[chain]]\nname = \"c\"\nstart = {{ kind = \"poisson\", rate = \"1/s\" }}\nthrough = []\n{u}"
            ),
        ),
        ("## resource", format!("format = 1\n[[resource]]\nname = \"r\"\n{u}")),
        ("### phases", task(&format!("phases = [{{ run = \"1ms\", {u} }}]"))),
        ("### worker", task(&format!("command = \"x\"\nworker = {{ comm = \"x\", {u} }}"))),
        ("### match", task(&format!("match = {{ comm = \"x\", {u} }}"))),
        (
            "### reservation",
            task(&format!("work = \"1ms\"\nreservation = {{ runtime = \"1ms\", period = \"2ms\", {u} }}")),
        ),
    ] {
        assert_eq!(keys(section(&page, heading)), known(&text), "{heading}");
    }
}

#[test]
fn every_kind_names_exactly_its_keys() {
    let page = page();
    for row in rows(section(&page, "### distributions")) {
        let kind = row[0].trim_matches('`');
        // The reader asks for counts only once there are values.
        let values = if kind == "empirical" { "values = [\"1ms\"], " } else { "" };
        let work = format!("{{ kind = \"{kind}\", {values}{UNKNOWN} = 1 }}");
        let text = format!("format = 1\n[[task]]\nname = \"t\"\nwork = {work}");
        let named: BTreeSet<String> = code(row[1]).chain(["kind".to_owned()]).collect();
        // The task's table looks for a trace file before it looks at the kind.
        let mut known = known(&text);
        known.remove("trace");
        assert_eq!(named, known, "{kind}");
    }
    for row in rows(section(&page, "### arrivals")) {
        let kind = row[0].trim_matches('`');
        let text = format!(
            "format = 1\n[[irq]]\nname = \"i\"\nwork = \"1us\"\narrivals = {{ kind = \"{kind}\", {UNKNOWN} = 1 }}"
        );
        let named: BTreeSet<String> = code(row[1]).chain(["kind".to_owned()]).collect();
        assert_eq!(named, known(&text), "{kind}");
    }
}

/// The texts between back quotes.
fn code(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

#[test]
fn every_example_reads() {
    let page = page();
    let mut blocks = 0;
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().expect("a block ends");
        read("example", text).unwrap_or_else(|e| panic!("{e}"));
        blocks += 1;
    }
    assert_eq!(blocks, 2);
    let with = "format = 1\n[disk.d]\n[link.l]\nrate = \"1MB/s\"\n[[group]]\nname = \"ui\"\n[[group]]\nname = \"background\"\n\
                [[group]]\nname = \"session\"\n[[task]]\nname = \"compositor\"\nphases = [{ run = \"1ms\" }, { signal = \"free\" }, { wait = \"free\" }]\n";
    // The smallest object of each kind beside the example, without the example's own key.
    let smallest: [(&str, &str, &[&str]); 11] = [
        ("task", "[[task]]", &["name = \"ui\"", "period = \"40ms\"", "work = \"1ms\""]),
        (
            "irq",
            "[[irq]]",
            &["name = \"i\"", "arrivals = { kind = \"sporadic\", gap = \"1ms\" }", "work = \"1us\""],
        ),
        ("disk", "[disk.e]", &[]),
        ("stream", "[[stream]]", &["name = \"s\"", "file = \"f\"", "rate = \"1MB/s\""]),
        ("startup", "[[startup]]", &["name = \"s\"", "command = \"true\""]),
        ("link", "[link.k]", &["rate = \"1MB/s\""]),
        (
            "flow",
            "[[flow]]",
            &["name = \"f\"", "link = \"l\"", "arrivals = { kind = \"periodic\", period = \"1s\" }"],
        ),
        ("load", "[[load]]", &["name = \"l\"", "kind = \"readers\""]),
        ("group", "[[group]]", &["name = \"g\""]),
        ("resource", "[[resource]]", &["name = \"r\""]),
        ("event", "[[event]]", &["name = \"free\"", "raised = 2"]),
    ];
    for (kind, head, lines) in smallest {
        for row in rows(section(&page, &format!("## {kind}"))) {
            let key = row[0].trim_matches('`');
            let example = row[3].trim_matches('`');
            let replaced: &[&str] = match (kind, key) {
                (
                    "task",
                    "phases" | "command" | "match" | "prepare" | "package" | "worker" | "user"
                    | "keep_capabilities",
                ) => &["work"],
                ("task", "gap" | "spacing" | "release" | "together") => &["period"],
                ("startup", "replay") => &["command"],
                _ => &[],
            };
            let kept = lines.iter().filter(|l| {
                let own = l.split(" = ").next().expect("a key");
                own != key && !replaced.contains(&own)
            });
            let mut lines: Vec<String> = kept.map(|l| (*l).to_owned()).collect();
            let only_of = match (kind, key) {
                ("load", "command" | "user" | "keep_capabilities") => Some("command"),
                ("load", "period") => Some("timers"),
                ("load", "once") => Some("file-copy"),
                ("load", "message-cost") => Some("messages"),
                _ => None,
            };
            if let Some(word) = only_of {
                lines.retain(|l| !l.starts_with("kind"));
                lines.push(format!("kind = \"{word}\""));
            }
            if let ("disk", "on" | "io-priority" | "group") = (kind, key) {
                lines.push("make = \"1GiB\"".to_owned());
            }
            if (kind, key) == ("disk", "faults") {
                lines.push("make = \"1GiB\"\nmodel = \"hdd-2004\"".to_owned());
            }
            if let ("disk", "io-priority" | "group") = (kind, key) {
                lines.push("on = \"d\"".to_owned());
            }
            if let ("stream", "jitter" | "overlap" | "bound") = (kind, key) {
                lines.push("batch = \"128KiB\"".to_owned());
            }
            if let ("group", "quota-period" | "burst") = (kind, key) {
                lines.push("quota = \"20ms\"".to_owned());
            }
            if (kind, key) == ("task", "together") {
                lines.push("release = \"back-to-back\"".to_owned());
            }
            if (kind, key) == ("task", "spacing") {
                lines.push("gap = \"1ms\"".to_owned());
            }
            if let ("task", "prepare" | "package" | "worker")
            | ("task" | "load", "user" | "keep_capabilities") = (kind, key)
            {
                lines.push("command = \"x\"".to_owned());
            }
            lines.push(format!("{key} = {example}"));
            let text = format!("{with}{head}\n{}\n", lines.join("\n"));
            read(&format!("{kind}.{key}"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
}

/// A key of the page, with its default behind it.
fn key_of(row: &LoadRow, text: &str) -> bool {
    let (key, default) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    row.keys.iter().any(|known| {
        key == format!("`{}`", known.word())
            && match *known {
                LoadKey::Size(bytes) | LoadKey::Block(bytes) => default.parse() == Ok(bytes),
                LoadKey::Rate(Some(rate)) => default.parse() == Ok(rate),
                LoadKey::Period(time) => default.parse() == Ok(time),
                LoadKey::Rate(None)
                | LoadKey::Disk
                | LoadKey::Direct
                | LoadKey::Random
                | LoadKey::IoPriority
                | LoadKey::Once
                | LoadKey::MessageCost => default.is_empty(),
            }
    })
}

#[test]
fn every_kind_of_load_takes_what_the_page_says() {
    let page = page();
    let lines = section(&page, "### kinds of load").lines().filter(|line| line.starts_with("| `"));
    let kinds: Vec<&str> = lines.skip(1).collect();
    assert_eq!(kinds.len(), LOAD_KINDS.len());
    for (row, line) in LOAD_KINDS.iter().zip(kinds) {
        let cells: Vec<&str> = line.split('|').skip(1).map(str::trim).collect();
        assert_eq!(cells[0], format!("`{}`", row.word));
        let keys =
            cells[2].split(',').map(str::trim).filter(|key| key.starts_with('`') && *key != "`command`");
        let keys: Vec<&str> = keys.collect();
        assert_eq!(keys.len(), row.keys.len(), "{}", row.word);
        assert!(keys.iter().all(|key| key_of(row, key)), "{}: {keys:?}", row.word);
        assert_eq!(cells[2].contains("`command`"), row.is_program, "{}", row.word);
    }
}

#[test]
fn every_word_is_known() {
    let page = page();
    let loads = section(&page, "## load");
    for (word, _) in LoadKind::words() {
        assert!(loads.contains(&format!("`{word}`")), "{word}");
    }
    let promises = rows(section(&page, "## Promises"));
    assert_eq!(promises.len(), 10);
    for row in promises {
        let metric = row[0].trim_matches('`');
        let value = match row[1] {
            v if v.starts_with("time") => "5ms",
            "percentage" => "25%",
            "count" => "0",
            _ => "1MB/s",
        };
        Promise::parse(&format!("{metric} <= {value}")).unwrap_or_else(|e| panic!("{metric}: {e}"));
        let idle = Promise::parse(&format!("{metric} <= 1.2x idle"));
        assert_eq!(idle.is_ok(), row[1].contains("idle"), "{metric}");
    }
}
