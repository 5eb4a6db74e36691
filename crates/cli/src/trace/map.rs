//! `surety trace map`: who has which CPU, change by change (`docs/formats/trace-map.md`).

use surety_trace::write::map::MapLines;

use super::lines::{self, Input};
use crate::args::MapArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Prints the changes of all CPUs as a map, or as JSON lines.
pub fn map(args: &MapArgs, session: &Session) -> Result<Code, Failure> {
    let input = Input::open(&args.file, &args.selection, session)?;
    let style = session.style();
    let width = if style.every_column { usize::MAX } else { style.width };
    let wanted = args.selection.wanted();
    let map = MapLines::new(lines::out(), wanted, session.json, args.limit, (width, input.cpus()));
    let (summary, map) = input.read(map, MapLines::is_done)?;
    let written = map.finish().map(|(written, hidden)| {
        if !hidden.is_empty() {
            session.note(&format!(
                "no room for CPUs {hidden} in {width} columns: choose with --cpus, or widen with --width"
            ));
        }
        written
    });
    lines::ended(&args.file, &args.selection, session, (summary, written), ("switch", true))
}
