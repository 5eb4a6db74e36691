//! `--load`: loads from words of the command line, in one notation for every verb.
//!
//! `10r5w` are counts with letters; `ping-flood` and `spinners:4` are kinds with a count; a comma or a second `--load` adds
//! more.

use std::path::PathBuf;

use clap::Args;
use surety_host::Bindings;
use surety_model::source::nearest;
use surety_model::workload::{LOAD_KINDS, Load, LoadKind, Workload};
use surety_units::Bytes;

use crate::exit::{Code, Failure};

/// More of one kind are a slip.
const COUNT_MAX: u32 = 10_000;

/// Loads beside what is measured.
#[derive(Clone, Debug, Default, Args)]
pub struct LoadArgs {
    /// Run this load beside it: 8s (8 spinners), 4s2m (and 2 memory thrashers), 5r5w (5 readers, 5 writers), a kind with a count
    /// such as spinners:4, and a block size such as ping-flood:2:1kB; separate several by commas
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
}

/// Devices for the disks of a workload.
#[derive(Clone, Debug, Default, Args)]
pub struct DiskArgs {
    /// Bind a disk of the workload to this block device, such as d=/dev/loop3; nothing else may use it
    #[arg(long, value_name = "NAME=DEVICE", value_parser = device)]
    pub disk: Vec<(String, PathBuf)>,
}

impl DiskArgs {
    /// Each disk's device; the last one named counts.
    pub fn bindings(&self) -> Bindings {
        self.disk.iter().cloned().collect()
    }
}

fn device(text: &str) -> Result<(String, PathBuf), String> {
    let found = text.split_once('=').filter(|(name, path)| !name.is_empty() && path.starts_with('/'));
    let (name, path) =
        found.ok_or_else(|| format!("`{text}` is no device of a disk such as d=/dev/loop3"))?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Adds loads to a workload. One whose name is taken there gets a number behind it.
pub fn append_loads(workload: &mut Workload, texts: &[String]) -> Result<(), Failure> {
    for load in parse_loads(texts)? {
        let is_taken = |name: &str| workload.activities().iter().any(|taken| taken.name == name);
        let numbered = (2..).map(|n| format!("{}-{n}", load.name));
        let name = std::iter::once(load.name.clone()).chain(numbered).find(|name| !is_taken(name));
        workload.loads.push(Load { name: name.unwrap_or_default(), ..load });
    }
    Ok(())
}

/// The loads that some texts mean together; a kind is in them once.
pub fn parse_loads(texts: &[String]) -> Result<Vec<Load>, Failure> {
    let mut loads: Vec<Load> = Vec::new();
    for text in texts.iter().flat_map(|text| text.split(',')) {
        let (text, block) = split_block(text.trim())?;
        for (kind, count) in parse_one(text)? {
            if block.is_some() && !kind.row().takes("block") {
                let help = format!("a load of kind `{}` takes no `block`", kind.word());
                return Err(wrong(text, &help));
            }
            if block == Some(Bytes(0)) {
                return Err(wrong(text, "a block is more than nothing: ping-flood:2:1kB"));
            }
            if loads.iter().any(|load| load.kind == kind) {
                let what = format!("`--load` names {} twice", kind.word());
                return Err(Failure::new(Code::BadInput, what).help("write one count for each kind"));
            }
            loads.push(Load { block, ..Load::new(kind.word(), kind, count) });
        }
    }
    Ok(loads)
}

/// A third part, behind kind and count, is the load's `block`: `ping-flood:2:60kB`.
fn split_block(text: &str) -> Result<(&str, Option<Bytes>), Failure> {
    let Some((before, block)) = text.rsplit_once(':').filter(|(before, _)| before.contains(':')) else {
        return Ok((text, None));
    };
    let block: Result<Bytes, _> = block.parse();
    block.map(|block| (before, Some(block))).map_err(|why| {
        wrong(text, &format!("behind kind and count stands the size of a block, ping-flood:2:1kB: {why}"))
    })
}

fn parse_one(text: &str) -> Result<Vec<(LoadKind, u32)>, Failure> {
    let count_of = |digits: &str| digits.parse().ok().filter(|n| (1..=COUNT_MAX).contains(n));
    let (word, count) = match text.split_once(':') {
        Some((word, digits)) => (word, count_of(digits)),
        None => (text, Some(1)),
    };
    if let Some(row) = LOAD_KINDS.iter().find(|row| row.word == word) {
        if row.is_program {
            let help =
                format!("a load of kind `{word}` needs its command line: write it in the workload file");
            return Err(wrong(text, &help));
        }
        let help = format!("a count is a whole number from 1 to {COUNT_MAX}: {word}:4");
        return count.map(|count| vec![(row.kind, count)]).ok_or_else(|| wrong(text, &help));
    }
    by_letters(text, count_of).ok_or_else(|| match by_letters(text, |_| Some(1)) {
        Some(_) => wrong(text, &format!("a count is a whole number from 1 to {COUNT_MAX}: 8s, 4s2m, 5r5w")),
        None => unknown(text, word),
    })
}

/// A text that is neither a kind nor letters with counts.
fn unknown(text: &str, word: &str) -> Failure {
    match nearest(word, LOAD_KINDS.iter().map(|row| row.word)) {
        Some(near) if word.len() > 2 => wrong(text, &format!("did you mean {near}?")),
        _ => {
            let known: Vec<&str> = LOAD_KINDS.iter().map(|row| row.word).collect();
            let letters = LOAD_KINDS.iter().filter_map(|row| row.letter);
            let mut letters: Vec<String> =
                letters.map(|(letter, noun)| format!("{letter} ({noun})")).collect();
            let last = letters.pop().unwrap_or_default();
            let help = format!(
                "write counts with {} or {last}: 8s, 4s2m, 5r5w; or a kind, perhaps with a count, spinners:4: {}",
                letters.join(", "),
                known.join(", ")
            );
            wrong(text, &help)
        }
    }
}

/// Counts with the letter of a kind each.
fn by_letters(text: &str, count_of: impl Fn(&str) -> Option<u32>) -> Option<Vec<(LoadKind, u32)>> {
    let mut found = Vec::new();
    let mut digits = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let row = LOAD_KINDS.iter().find(|row| row.letter.is_some_and(|(l, _)| l == character))?;
        found.push((row.kind, count_of(&digits)?));
        digits.clear();
    }
    (!found.is_empty() && digits.is_empty()).then_some(found)
}

fn wrong(text: &str, help: &str) -> Failure {
    Failure::new(Code::BadInput, format!("`{text}` is no load")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::workload::Instances;

    fn read(texts: &[&str]) -> Option<Vec<(LoadKind, u32)>> {
        let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
        Some(parse_loads(&texts).ok()?.iter().map(|l| (l.kind, l.count.on(1))).collect())
    }

    #[test]
    fn a_third_part_is_the_block() {
        let loads = parse_loads(&["ping-flood:2:60kB,writers".to_owned()]).unwrap();
        assert_eq!((loads[0].block, loads[1].block), (Some(Bytes(60_000)), None));
        assert_eq!(loads[0].count.on(1), 2);
        // Every kind takes on the command line what it takes in a file.
        for row in LOAD_KINDS.iter().filter(|row| !row.is_program) {
            let taken = parse_loads(&[format!("{}:2:1kB", row.word)]);
            assert_eq!(taken.is_ok(), row.takes("block"), "{}", row.word);
        }
        assert_eq!(parse_loads(&["udp-flood:2:1kB".to_owned()]).unwrap()[0].block, Some(Bytes(1000)));
        for bad in
            ["ping-flood:2:x", "ping-flood:2:0B", "spinners:2:1kB", "ping-flood:1kB", "ping-flood:2:1kB:3"]
        {
            assert!(parse_loads(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn loads_are_counts_with_letters_or_kinds_with_counts() {
        use LoadKind::{MemoryThrash, PingFlood, Readers, Spinners, Writers};
        type Case<'a> = (&'a [&'a str], &'a [(LoadKind, u32)]);
        let cases: [Case<'_>; 6] = [
            (&["4s2m"], &[(Spinners, 4), (MemoryThrash, 2)]),
            (&["10r"], &[(Readers, 10)]),
            (&["5r5w"], &[(Readers, 5), (Writers, 5)]),
            (&["ping-flood"], &[(PingFlood, 1)]),
            (&["spinners:4,ping-flood"], &[(Spinners, 4), (PingFlood, 1)]),
            (&["10r", "spinners:2"], &[(Readers, 10), (Spinners, 2)]),
        ];
        for (texts, expected) in cases {
            assert_eq!(read(texts).as_deref(), Some(expected), "{texts:?}");
        }
        for bad in [
            "",
            "s",
            "4",
            "4x",
            "4s4s",
            "0s",
            "4s2",
            "spinners:0",
            "spinners:",
            "spinners:4:4",
            "4s,",
            "command",
            "ping",
        ] {
            assert_eq!(read(&[bad]), None, "{bad}");
        }
        assert_eq!(read(&["4s", "spinners"]), None);
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let mut workload = Workload::default();
        workload.loads.push(Load::new("readers", LoadKind::Readers, 3));
        append_loads(&mut workload, &["5r".to_owned()]).unwrap_or_else(|_| panic!("a load"));
        let names: Vec<_> = workload.loads.iter().map(|l| (l.name.as_str(), l.count)).collect();
        assert_eq!(names, [("readers", Instances::Count(3)), ("readers-2", Instances::Count(5))]);
    }
}
