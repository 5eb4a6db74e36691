//! What the verbs do that print a trace line by line: they end when whoever reads wants no more.

use std::cell::Cell;
use std::io::{self, BufWriter, ErrorKind, StdoutLock};
use std::path::Path;
use std::rc::Rc;

use surety_model::event::{Event, TraceSink};
use surety_trace::{ReadSummary, TraceReader};

use super::file;
use crate::args::Selection;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 18;

/// Where lines go.
pub fn out() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(BUFFER, io::stdout().lock())
}

/// An open trace that need not be read to its end.
pub struct Input<'a> {
    path: &'a Path,
    session: &'a Session,
    trace: Box<dyn TraceReader>,
    stop: Rc<Cell<bool>>,
}

impl<'a> Input<'a> {
    /// Opens a trace file of any format.
    pub fn open(path: &'a Path, selection: &Selection, session: &'a Session) -> Result<Input<'a>, Failure> {
        let stop = Rc::new(Cell::new(false));
        let trace = file::open_stoppable(path, selection, session, Rc::clone(&stop))?;
        Ok(Input { path, session, trace, stop })
    }

    /// CPUs of the trace, where it says how many before it is read.
    pub fn cpus(&self) -> usize {
        self.trace.description().cpus.and_then(|cpus| usize::try_from(cpus).ok()).unwrap_or(0)
    }

    /// Reads it into `sink` until that is done, and gives it back; the summary is that of a trace read to its end.
    pub fn read<K: TraceSink>(
        mut self,
        sink: K,
        is_done: impl Fn(&K) -> bool,
    ) -> Result<(Option<ReadSummary>, K), Failure> {
        let mut until = Until { sink, is_done, stop: Rc::clone(&self.stop) };
        match self.trace.read(&mut until) {
            Ok(summary) => Ok((Some(summary), until.sink)),
            Err(_) if self.stop.get() => Ok((None, until.sink)),
            Err(error) => Err(file::unfinished(self.path, self.session, &error)),
        }
    }
}

/// A sink that ends the reading when it is done.
struct Until<K, F> {
    sink: K,
    is_done: F,
    stop: Rc<Cell<bool>>,
}

impl<K: TraceSink, F: Fn(&K) -> bool> TraceSink for Until<K, F> {
    fn event(&mut self, event: &Event<'_>) {
        self.sink.event(event);
        if (self.is_done)(&self.sink) {
            self.stop.set(true);
        }
    }
}

/// The end of the verb: says where nothing fits what was chosen. Quiet when whoever reads the output wants no more. `what` a line is of,
/// and whether no line may mean that there is no such thread.
pub fn ended(
    path: &Path,
    chosen: &Selection,
    session: &Session,
    (summary, written): (Option<ReadSummary>, io::Result<u64>),
    what: (&str, bool),
) -> Result<Code, Failure> {
    match written {
        Ok(written) => told(path, chosen, session, (summary.as_ref(), written), what)?,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Code::Kept),
        Err(error) => {
            return Err(Failure::new(Code::Machine, format!("the lines could not be written: {error}"))
                .help("make room, or write them elsewhere"));
        }
    }
    summary.iter().for_each(|summary| file::note_missing(summary, session));
    Ok(Code::Kept)
}

/// Says where nothing fits; a trace that was not read to its end had enough.
fn told(
    path: &Path,
    chosen: &Selection,
    session: &Session,
    (summary, written): (Option<&ReadSummary>, u64),
    (what, may_be_nobody): (&str, bool),
) -> Result<(), Failure> {
    let Some(summary) = summary.filter(|summary| written == 0 && summary.delivered > 0) else {
        return Ok(());
    };
    file::within(path, chosen, summary)?;
    let in_part = chosen.cpus.is_some() || chosen.from.is_some() || chosen.to.is_some();
    if chosen.wanted().chooses_threads() && !in_part && may_be_nobody {
        return Err(file::nobody(path, chosen, &[]));
    }
    session
        .note(&format!("no {what} fits what was chosen; `surety trace stats` shows threads, CPUs and times"));
    Ok(())
}
