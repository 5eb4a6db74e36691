//! `surety trace stats`: the jobs of threads in a trace file, or with `--distribution` all there is to say of those of one
//! thread.

use surety_model::event::{Event, TraceSink};
use surety_model::record::Record;
use surety_report::gates::Gate;
use surety_report::number_of;
use surety_report::traces::{ReadTrace, Subject, TraceStats};
use surety_trace::distribution::Found;
use surety_trace::{DistributionBuilder, MeasuredBuilder, StatisticsBuilder};

use super::{distribution, file};
use crate::args::StatsArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::gates;
use crate::session::Session;

/// The verb.
pub fn stats(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    if args.closely.distribution {
        return of_thread(args, session);
    }
    let mut builder = StatisticsBuilder::new(args.selection.wanted());
    let (read, record) = measured(args, session, &mut builder)?;
    let (recorded, anomalies) = builder.finish();
    if recorded.threads.is_empty() && read.chosen.chooses_threads() {
        return Err(file::nobody(&args.file, &args.selection, &recorded.names));
    }
    let code = held(args, &read, record.as_ref(), session)?;
    file::print(&TraceStats { read, anomalies, recorded, top: args.top }, session)?;
    Ok(code)
}

/// Two who want the same events.
struct Both<'a>(&'a mut dyn TraceSink, &'a mut dyn TraceSink);

impl TraceSink for Both<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.0.event(event);
        self.1.event(event);
    }
}

/// Reads the file into `sink`, and where something is expected of it, into a record.
fn measured(
    args: &StatsArgs,
    session: &Session,
    sink: &mut dyn TraceSink,
) -> Result<(ReadTrace, Option<Record>), Failure> {
    let told = &args.gates.told;
    files::check_outputs([told.junit.as_ref(), told.tap.as_ref()])?;
    if args.gates.expect.is_empty() {
        return Ok((file::read(&args.file, &args.selection, session, sink)?, None));
    }
    let mut builder = MeasuredBuilder::new(args.selection.wanted());
    let read = file::read(&args.file, &args.selection, session, &mut Both(sink, &mut builder))?;
    Ok((read, Some(builder.finish())))
}

/// Holds what is expected of the threads.
fn held(
    args: &StatsArgs,
    read: &ReadTrace,
    record: Option<&Record>,
    session: &Session,
) -> Result<Code, Failure> {
    let Some(record) = record else { return Ok(Code::Kept) };
    // Jobs that came and went where events were lost are in no number.
    let doubt =
        if read.summary.is_complete() { left_out(read) } else { Some("the trace is not whole".to_owned()) };
    let checked = args.gates.expect.iter().map(|expected| match &doubt {
        Some(why) => expected.check(record).doubted(why),
        None => expected.check(record),
    });
    let gate = Gate { label: &read.file, checked: checked.collect() };
    gates::conclude(&[gate], &args.gates.told, Code::Kept, session)
}

/// Why jobs may be missing or look other than they were: the recording left events out. Those of the threads of `--pid` are all there, but nothing in
/// the file says which threads these were.
fn left_out(read: &ReadTrace) -> Option<String> {
    read.summary.left_out.as_ref().map(|words| format!("the recording left events out ({words})"))
}

fn of_thread(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    let mut builder = DistributionBuilder::new(args.selection.wanted(), args.closely.grid);
    let (read, record) = measured(args, session, &mut builder)?;
    let mut found = builder.finish();
    let thread = match (found.threads.pop(), found.threads.is_empty() && found.others == 0) {
        (Some(thread), true) => thread,
        (None, _) => return Err(nobody(args, &found)),
        (Some(last), false) => {
            found.threads.push(last);
            let names = found.threads.iter();
            let names = names.map(|t| format!("{} {} ({})", t.tid, t.comm, number_of(t.jobs, "job")));
            let names = names.collect::<Vec<_>>().join(", ");
            let more = if found.others > 0 { ", and more" } else { "" };
            let said = format!("several threads have jobs: {names}{more}");
            return Err(file::refused(&args.file, said).help("choose one with --tid"));
        }
    };
    let code = held(args, &read, record.as_ref(), session)?;
    distribution::publish(read, found.anomalies, Subject::Thread(thread), &args.closely, session)?;
    Ok(code)
}

fn nobody(args: &StatsArgs, found: &Found) -> Failure {
    let names: Vec<_> = found.names.iter().copied().collect();
    let wanted = args.selection.wanted();
    if names.iter().any(|name| wanted.names.contains(name)) || !wanted.chooses_threads() {
        return file::refused(&args.file, "no job of that thread is in what is chosen")
            .help("`surety trace stats` shows which threads have jobs");
    }
    file::nobody(&args.file, &args.selection, &names)
}
