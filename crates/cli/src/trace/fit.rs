//! `surety trace fit`: a trace becomes a workload file.

use std::collections::BTreeSet;

use surety_fit::{FitOptions, TraceView, fit_trace};
use surety_model::event::{Comm, Event, TraceSink};
use surety_model::formats::toml;
use surety_report::traces::TraceFit;
use surety_trace::jobs::Jobs;
use surety_trace::write::keep::Kept;
use surety_trace::{InterruptBuilder, JobBuilder, Wanted};
use surety_units::CpuId;

use super::file;
use crate::args::FitArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// Both builders, and the CPUs that were seen.
struct Builders {
    jobs: JobBuilder,
    interrupts: InterruptBuilder,
    cpus: BTreeSet<CpuId>,
}

impl TraceSink for Builders {
    fn event(&mut self, event: &Event<'_>) {
        self.cpus.insert(event.cpu);
        self.jobs.event(event);
        self.interrupts.event(event);
    }
}

/// Reads a trace and fits it.
pub(super) fn read(args: &FitArgs, session: &Session) -> Result<TraceFit, Failure> {
    let trace = file::open(&args.file, &args.selection, session)?;
    if args.selection.cpus.is_some() {
        let said = "a workload is fitted to whole threads, wherever they ran".to_owned();
        return Err(Failure::new(Code::BadInput, said).help("choose threads with --tid or --comm"));
    }
    let wanted = args.selection.wanted();
    let builders = Builders {
        jobs: JobBuilder::new(),
        interrupts: InterruptBuilder::new(Wanted::default()),
        cpus: BTreeSet::new(),
    };
    let in_time = Wanted { from: wanted.from, to: wanted.to, ..Wanted::default() };
    let mut kept = Kept::new(in_time.clone(), builders);
    let read = file::read_whole(trace, &args.file, &args.selection, session, &mut kept)?;
    let builders = kept.into_inner();
    let seen = u32::try_from(builders.cpus.len()).unwrap_or(u32::MAX);
    let Jobs { threads, anomalies } = builders.jobs.finish();
    let histories: Vec<_> = threads.into_iter().map(|thread| thread.at_most()).collect();
    let interrupts = builders.interrupts.finish();
    let options = FitOptions {
        share_min: args.min_share,
        interrupts: !args.order.no_irqs,
        tids: wanted.tids.clone(),
        names: wanted.names.clone(),
        in_order: args.order.in_order,
        shortest: args.order.shortest_job,
    };
    if wanted.chooses_threads() && !histories.iter().any(|history| options.chooses(history)) {
        let names: Vec<Comm> = histories.iter().map(|h| h.comm).collect();
        return Err(file::nobody(&args.file, &args.selection, &names));
    }
    let view = TraceView {
        histories: &histories,
        interrupts: &interrupts,
        cpus: read.description.cpus.unwrap_or(seen).max(seen),
        span: in_time.span(read.summary.span.unwrap_or_default()),
    };
    let written = args.output.as_ref().map(|path| path.display().to_string());
    let fitted = fit_trace(&view, &options);
    let fitted = if read.lacks_wake_ups() { fitted.without_wake_ups() } else { fitted };
    Ok(TraceFit { read, anomalies, fitted, written })
}

/// The verb.
pub fn fit(args: &FitArgs, session: &Session) -> Result<Code, Failure> {
    let shown = read(args, session)?;
    let text = toml::write_commented(&shown.fitted.workload, &shown.fitted.comments);
    if let Err(errors) = toml::read("the fitted workload", &text) {
        return Err(Failure::new(Code::Internal, format!("what was fitted does not read back: {errors}")));
    }
    if let Some(path) = &args.output {
        files::write(path, &text)?;
    }
    file::print(&shown, session)
}
