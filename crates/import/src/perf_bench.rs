//! `perf bench`: the text, and the lone number of `--format=simple`.
//!
//! *Read*: the total time of `sched pipe`, `sched messaging` and others that tell one (`syscall basic`), in runs as those of
//! hackbench, and of a single run the time and the rate of operations as figures. *Unit*: seconds of a total, microseconds of
//! an operation, as the text says. *Simple* is a number and nothing else: the file's name stands for the
//! benchmark. *Left out*: benchmarks that tell no total (`mem`, `futex`, `epoll`); the record names them. *Missing*: the
//! distribution of operations, which no benchmark of it writes.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX};
use crate::input::{Input, at_line, number, seconds};
use crate::totals::{Figures, Totals};

pub(crate) const TEXT: &str = "perf bench text";
pub(crate) const SIMPLE: &str = "perf bench simple";

pub(crate) fn detect_text(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| benchmark(line).is_some())
}

/// The name in `# Running 'sched/pipe' benchmark:`, or in `# Running sched/pipe benchmark...` of `all`.
fn benchmark(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Running ")?;
    let name = rest.strip_suffix(" benchmark:").or_else(|| rest.strip_suffix(" benchmark..."))?;
    let name = name.trim_matches('\'');
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    name.split_once('/').filter(|(suite, bench)| is_name(suite) && is_name(bench)).map(|_| name)
}

/// A total of `--format=simple`: seconds with three decimals and nothing else.
fn is_total(line: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    line.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part) && part.len() == 3)
}

fn assembly() -> Assembly {
    let mut assembly = Assembly::new("perf bench");
    assembly.say("not measured", "the latency of an operation: a time is that of all operations of a run");
    assembly
}

/// A run that began and what it told so far.
struct Run<'a> {
    head: usize,
    name: &'a str,
    configuration: String,
    total: Option<u64>,
    figures: Figures,
}

pub(crate) fn read_text(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = assembly();
    let mut benches: Vec<(&str, Totals)> = Vec::new();
    let mut open: Option<Run<'_>> = None;
    for (line, text) in input.lines() {
        let wrong = at_line(TEXT, line);
        if let Some(name) = benchmark(text) {
            if let Some(run) = open.take() {
                close(run, &mut benches, &mut assembly)?;
            }
            open = Some(Run {
                head: line,
                name,
                configuration: String::new(),
                total: None,
                figures: Vec::new(),
            });
            continue;
        }
        let Some(run) = &mut open else { continue };
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut keep_total = |value: &str| -> Result<(), ImportError> {
            if run.total.is_some() {
                return Err(wrong("a second total of one run".to_owned()));
            }
            run.total = Some(number(value).and_then(seconds).map_err(&wrong)?);
            Ok(())
        };
        match words[..] {
            ["Total", "time:", value, "[sec]"] => keep_total(value)?,
            [value] if is_total(value) => keep_total(value)?,
            [value, "usecs/op"] => {
                run.figures.push(("time of an operation, mean", number(value).map_err(&wrong)? * 1e3, "ns"));
            }
            [value, "ops/sec"] => run.figures.push(("operations", number(value).map_err(&wrong)?, "/s")),
            ["#", ..] => {
                let separator = if run.configuration.is_empty() { "" } else { "; " };
                run.configuration.push_str(separator);
                run.configuration.push_str(text.trim_start_matches(['#', ' ']));
            }
            _ => {}
        }
    }
    if let Some(run) = open {
        close(run, &mut benches, &mut assembly)?;
    }
    for (name, totals) in benches {
        totals.into_activities(name, &mut assembly);
    }
    Ok(assembly.record())
}

fn close<'a>(
    run: Run<'a>,
    benches: &mut Vec<(&'a str, Totals)>,
    assembly: &mut Assembly,
) -> Result<(), ImportError> {
    let wrong = at_line(TEXT, run.head);
    let Some(total) = run.total else {
        // The benchmarks that are known to tell a total were cut off; others tell none.
        if run.name.starts_with("sched/") {
            return Err(wrong("no total time follows: the text is cut off".to_owned()));
        }
        assembly.doubt(format!("line {}: {} tells no total time and is left out", run.head, run.name));
        return Ok(());
    };
    let at = match benches.iter().position(|(name, _)| *name == run.name) {
        Some(at) => at,
        None if benches.len() == COLUMNS_MAX => {
            return Err(wrong(format!("more than {COLUMNS_MAX} benchmarks")));
        }
        None => {
            benches.push((run.name, Totals::default()));
            benches.len() - 1
        }
    };
    let totals = &mut benches[at].1;
    totals.run(&run.configuration, total, run.figures).map_err(wrong)
}

pub(crate) fn detect_simple(input: &Input<'_>) -> bool {
    let mut lines = input.lines().filter(|(_, line)| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(|(_, line)| is_total(line))
}

pub(crate) fn read_simple(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = assembly();
    assembly.say("benchmark", "not written: the file's name stands for it");
    let mut totals = Totals::default();
    for (line, text) in input.lines().filter(|(_, text)| !text.is_empty()) {
        let wrong = at_line(SIMPLE, line);
        let time = number(text).and_then(seconds).map_err(&wrong)?;
        totals.run("", time, Vec::new()).map_err(wrong)?;
    }
    totals.into_activities(input.stem(), &mut assembly);
    Ok(assembly.record())
}
