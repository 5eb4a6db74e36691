//! [`Code`]: the instructions of a task as steps of its jobs.

use std::ops::Range;

use surety_units::Nanos;

use super::system::{Island, described};
use super::{File, TICKS_MAX};
use crate::distribution::TimeDistribution;
use crate::formats::foreign::Reading;
use crate::workload::Phase;

/// An instruction with its place.
pub(super) struct Code<'j> {
    kind: Kind<'j>,
    span: Range<usize>,
}

enum Kind<'j> {
    /// Ticks at speed 1, and what is computed.
    Fixed(i64, &'j str),
    Suspend(i64),
    /// Of a resource.
    Wait(&'j str),
    Signal(&'j str),
}

/// Reads the instructions of a line, which end with `;` or the line.
pub(super) fn instructions<'j>(
    reading: &mut Reading,
    line: &'j str,
    span: &Range<usize>,
    file: &mut File,
    all: &mut Vec<Code<'j>>,
) -> Option<()> {
    for said in line.split(';').map(str::trim).filter(|said| !said.is_empty()) {
        let parts =
            said.split_once('(').and_then(|(word, rest)| Some((word.trim(), rest.strip_suffix(')')?)));
        let Some((word, inside)) = parts else {
            let help = "write `fixed(10,bzip2)`".to_owned();
            reading.wrong(span, format!("`{said}` is no instruction"), Some(help));
            return None;
        };
        let parameters: Vec<&str> = inside.split(',').map(str::trim).collect();
        let kind = kind(reading, word, &parameters, span)?;
        if let Kind::Wait(resource) | Kind::Signal(resource) = kind {
            let Some((name, _)) = file.resources.get_key_value(resource) else {
                let help = "name it in `resources`, with its `initial_state`".to_owned();
                reading.wrong(span, format!("there is no resource `{resource}`"), Some(help));
                return None;
            };
            let event = file.names.of(name);
            file.events.insert(name.clone(), event);
            if matches!(kind, Kind::Wait(_)) {
                file.waited.insert(name.clone());
            }
        }
        all.push(Code { kind, span: span.clone() });
    }
    Some(())
}

fn kind<'j>(
    reading: &mut Reading,
    word: &str,
    parameters: &[&'j str],
    span: &Range<usize>,
) -> Option<Kind<'j>> {
    let ticks = |reading: &mut Reading, said: &str| {
        let ticks = said.parse::<i64>().ok().filter(|ticks| (0..=TICKS_MAX).contains(ticks));
        if ticks.is_none() {
            reading.wrong(span, format!("`{said}` is no number of ticks"), None);
        }
        ticks
    };
    match (word, parameters) {
        ("fixed", [cost]) => Some(Kind::Fixed(ticks(reading, cost)?, "")),
        ("fixed", [cost, workload]) => Some(Kind::Fixed(ticks(reading, cost)?, workload)),
        ("suspend", [length]) => Some(Kind::Suspend(ticks(reading, length)?)),
        ("lock" | "wait", [resource]) => Some(Kind::Wait(resource)),
        ("unlock" | "signal", [resource]) => Some(Kind::Signal(resource)),
        ("fixed" | "suspend" | "lock" | "wait" | "unlock" | "signal", _) => {
            let help = "`fixed` has a number and a workload, the others have one".to_owned();
            reading.wrong(span, format!("`{word}` has other parameters"), Some(help));
            None
        }
        _ => {
            let help = "`fixed`, `suspend`, `lock`, `wait`, `unlock` and `signal` have one".to_owned();
            reading.wrong(span, format!("the instruction `{word}` has no counterpart"), Some(help));
            None
        }
    }
}

impl Code<'_> {
    /// The step that it is on an island.
    pub(super) fn phase(&self, reading: &mut Reading, island: &Island, file: &File) -> Option<Vec<Phase>> {
        Some(vec![match self.kind {
            Kind::Fixed(cost, workload) => match island.ticks(cost, workload) {
                Ok(ticks) if ticks <= TICKS_MAX => {
                    Phase::Run(TimeDistribution::Constant(Nanos::from_micros(ticks)))
                }
                Ok(_) => {
                    let message = format!("{} takes more than {TICKS_MAX} ticks for this", described(island));
                    let help =
                        format!("lower {cost}, or look at the speed that its model has for `{workload}`");
                    reading.wrong(&self.span, message, Some(help));
                    return None;
                }
                Err(help) => {
                    let message = format!("{} does not know the workload `{workload}`", described(island));
                    reading.wrong(&self.span, message, Some(help));
                    return None;
                }
            },
            Kind::Suspend(length) => Phase::Sleep(Nanos::from_micros(length)),
            Kind::Wait(resource) => Phase::Wait(file.events[resource].clone()),
            Kind::Signal(resource) => Phase::Signal(file.events[resource].clone()),
        }])
    }
}
