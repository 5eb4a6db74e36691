//! `surety trace stats`: the jobs of threads in a trace file, or with `--distribution` all there is to say of those of one
//! thread.

use surety_report::number_of;
use surety_report::traces::{Subject, TraceStats};
use surety_trace::distribution::Found;
use surety_trace::{DistributionBuilder, StatisticsBuilder};

use super::{distribution, file};
use crate::args::StatsArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The verb.
pub fn stats(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    if args.closely.distribution {
        return of_thread(args, session);
    }
    let mut builder = StatisticsBuilder::new(args.selection.wanted());
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let (recorded, anomalies) = builder.finish();
    if recorded.threads.is_empty() && read.chosen.chooses_threads() {
        return Err(file::nobody(&args.file, &args.selection, &recorded.names));
    }
    file::print(&TraceStats { read, anomalies, recorded, top: args.top }, session)
}

fn of_thread(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    let mut builder = DistributionBuilder::new(args.selection.wanted(), args.closely.grid);
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
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
    distribution::publish(read, found.anomalies, Subject::Thread(thread), &args.closely, session)
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
