//! `surety top`: threads by latency and misses now, reservations and CPUs, an interval at a time.
//!
//! On a terminal it is a screen; anywhere else the same tables one after the other, and with `--json` documents, one a line. A
//! record of it is shown in the same ways.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::path::Path;

use surety_host::top::Sampler;
use surety_kernel::clock;
use surety_model::top::{SCHEMA, Snapshot};
use surety_report::top::{View, is_meant, screen};
use surety_units::Nanos;

use crate::args::TopArgs;
use crate::exit::{Code, Failure};
use crate::files::{self, NewFile};
use crate::session::Session;

use terminal::{Key, Terminal};

mod terminal;

/// Between two looks for a signal.
const LOOK: Nanos = Nanos::from_millis(100);

/// Where intervals come from.
enum Source<'a> {
    Machine(Box<Sampler<'a>>),
    Record(VecDeque<Snapshot>),
}

/// The verb. It ends in 0 however it is ended: Ctrl-C is how one leaves it.
pub fn top(args: &TopArgs, session: &Session) -> Result<Code, Failure> {
    files::check_outputs([args.record.as_ref()])?;
    let is_screen = !session.json && std::io::stdout().is_terminal();
    let mut source = match &args.replay {
        Some(path) => Source::Record(read_record(path)?),
        None => {
            // Without one the snapshots say what is missing.
            let journal = if args.no_trace { None } else { session.need_journal().ok() };
            let sampler = Sampler::begin(&session.kernel, journal, !args.no_trace, args.late)?;
            Source::Machine(Box::new(sampler))
        }
    };
    let record = args.record.as_deref().map(NewFile::create).transpose()?;
    let view = View { sort: args.sort, filter: args.filter.clone(), lines: None };
    let mut shown = match is_screen.then(Terminal::open).and_then(Result::ok) {
        Some(terminal) => Shown::Screen { terminal, view, last: None, is_paused: false, typing: None },
        None => Shown::Printed { view, count: 0 },
    };
    let result = run(args, session, &mut source, &mut shown, record.as_ref());
    // The terminal is given back before anything is said.
    drop(shown);
    result?;
    if let Some(record) = record {
        record.keep()?;
    }
    Ok(Code::Kept)
}

fn run(
    args: &TopArgs,
    session: &Session,
    source: &mut Source<'_>,
    shown: &mut Shown,
    record: Option<&NewFile>,
) -> Result<(), Failure> {
    let mut next = clock::monotonic();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let is_at_end = match source {
            Source::Machine(_) => {
                // A reading that took longer than the interval does not make the next ones shorter.
                next = (next + args.interval).max(clock::monotonic());
                false
            }
            Source::Record(list) => {
                if shown.is_screen() && shown.has_shown() {
                    next = clock::monotonic().saturating_add(list.front().map_or(Nanos::MAX, |s| s.interval));
                }
                list.is_empty()
            }
        };
        if is_at_end && !shown.is_screen() {
            break;
        }
        if !shown.wait(session, next)? {
            break;
        }
        let snapshot = match source {
            Source::Machine(sampler) => sampler.sample()?,
            Source::Record(list) => match list.pop_front() {
                Some(snapshot) => snapshot,
                None => continue,
            },
        };
        if let Some(record) = record {
            let line = line_of(&snapshot)?;
            record.file().write_all(line.as_bytes()).map_err(|error| record.failed(&error))?;
        }
        if !shown.take(snapshot, session)? {
            break;
        }
        left -= 1;
    }
    Ok(())
}

fn line_of(snapshot: &Snapshot) -> Result<String, Failure> {
    let text = serde_json::to_string(snapshot)
        .map_err(|error| Failure::new(Code::Internal, format!("an interval has no JSON form: {error}")))?;
    Ok(text + "\n")
}

/// The intervals of a file.
fn read_record(path: &Path) -> Result<VecDeque<Snapshot>, Failure> {
    let refused = |why: String| {
        Failure::new(Code::BadInput, format!("{}: {why}", path.display()))
            .help("a file that `surety top --record FILE` or `surety top --json` wrote is needed")
    };
    let text = files::read_text(path, files::LENGTH_MAX).map_err(refused)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(at, line)| match serde_json::from_str::<Snapshot>(line) {
        Ok(snapshot) if snapshot.schema == SCHEMA => Ok(snapshot),
        Ok(other) => Err(refused(format!("line {}: it is {}, not {SCHEMA}", at + 1, other.schema))),
        Err(error) => Err(refused(format!("line {}: {error}", at + 1))),
    });
    let list: VecDeque<Snapshot> = read.collect::<Result<_, _>>()?;
    if list.is_empty() { Err(refused("there is no interval in it".to_owned())) } else { Ok(list) }
}

/// Where intervals go.
enum Shown {
    /// Tables or documents, one after the other.
    Printed { view: View, count: u64 },
    /// A screen.
    Screen {
        terminal: Terminal,
        view: View,
        last: Option<Box<Snapshot>>,
        is_paused: bool,
        /// The filter before, while another is typed.
        typing: Option<String>,
    },
}

impl Shown {
    fn is_screen(&self) -> bool {
        matches!(self, Shown::Screen { .. })
    }

    fn has_shown(&self) -> bool {
        matches!(self, Shown::Screen { last: Some(_), .. })
    }

    /// Waits until an instant, and does what keys say meanwhile; `false`: it is to end.
    fn wait(&mut self, session: &Session, until: Nanos) -> Result<bool, Failure> {
        loop {
            let now = clock::monotonic();
            if session.cancel.is_cancelled() {
                return Ok(false);
            }
            let is_paused = matches!(self, Shown::Screen { is_paused: true, .. });
            if now >= until && !is_paused {
                return Ok(true);
            }
            let part = if is_paused { LOOK } else { LOOK.min(until - now) };
            match self {
                Shown::Printed { .. } => drop(clock::sleep_until(now + part, None)?),
                Shown::Screen { terminal, .. } => {
                    if let Some(key) = terminal.key(part)?
                        && !self.obey(key, session)?
                    {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Does what a key says; `false` for the one that ends it.
    fn obey(&mut self, key: Key, session: &Session) -> Result<bool, Failure> {
        let Shown::Screen { view, is_paused, typing, .. } = self else { return Ok(true) };
        match (key, &typing) {
            (Key::Interrupt, _) => return Ok(false),
            (Key::Enter, Some(_)) => *typing = None,
            (Key::Escape, Some(before)) => {
                view.filter.clone_from(before);
                *typing = None;
            }
            (Key::Delete, Some(_)) => drop(view.filter.pop()),
            (Key::Letter(letter), Some(_)) => view.filter.push(letter),
            (Key::Letter('q') | Key::Escape, None) => return Ok(false),
            (Key::Letter('/'), None) => *typing = Some(std::mem::take(&mut view.filter)),
            (Key::Letter(' '), None) => *is_paused = !*is_paused,
            (Key::Letter(letter), None) => {
                if let Some((_, sort)) = terminal::SORT_KEYS.iter().find(|(key, _)| *key == letter) {
                    view.sort = *sort;
                }
            }
            _ => {}
        }
        self.draw(session)?;
        Ok(true)
    }

    /// Shows an interval; `false` when nobody reads on.
    fn take(&mut self, snapshot: Snapshot, session: &Session) -> Result<bool, Failure> {
        match self {
            Shown::Printed { view, .. } if session.json => {
                let mut snapshot = snapshot;
                snapshot.threads.retain(|thread| is_meant(&view.filter, thread));
                session.print_json_line(&line_of(&snapshot)?)
            }
            Shown::Printed { view, count } => {
                let between = if *count > 0 { "\n" } else { "" };
                *count += 1;
                // Every thread, as wide as it takes, unless a width is asked for.
                let style = session.style();
                let style =
                    if style.every_column { surety_report::Style { width: 132, ..style } } else { style };
                session.print_to_reader(&format!("{between}{}\n", screen(&snapshot, view, &style).join("\n")))
            }
            Shown::Screen { last, .. } => {
                *last = Some(Box::new(snapshot));
                self.draw(session)?;
                Ok(true)
            }
        }
    }

    fn draw(&mut self, session: &Session) -> Result<(), Failure> {
        let Shown::Screen { terminal, view, last, is_paused, typing } = self else { return Ok(()) };
        let (columns, lines) = terminal.size();
        let style = session.style();
        let style = surety_report::Style { width: style.width.min(columns), every_column: false, ..style };
        view.lines = Some(lines.saturating_sub(1));
        let foot = match typing {
            Some(_) => format!("only threads with: {}_   Enter keeps it, Esc takes it back", view.filter),
            None if *is_paused => "paused; space goes on".to_owned(),
            None => terminal::KEYS.to_owned(),
        };
        let body = match last {
            Some(snapshot) => screen(snapshot, view, &style),
            None => vec!["reading".to_owned()],
        };
        terminal.draw(&body, &foot)
    }
}
