//! `surety trace`: what the scheduler does, recorded into a file; what a file says of its threads and of what kept them
//! waiting; its events to read, and in other formats.

use crate::args::{TraceArgs, TraceVerb};
use crate::exit::{Code, Failure};
use crate::session::Session;

mod convert;
mod distribution;
mod explain;
mod file;
pub mod fit;
mod irqs;
mod lines;
mod map;
mod missing_threads;
pub mod output;
pub mod record;
mod reserve;
mod show;
mod spool;
mod stats;
mod timehist;

/// The verb.
pub fn trace(args: &TraceArgs, session: &Session) -> Result<Code, Failure> {
    match &args.verb {
        TraceVerb::Record(args) => record::record(args, session),
        TraceVerb::Explain(args) => explain::explain(args, session),
        TraceVerb::Irqs(args) => irqs::irqs(args, session),
        TraceVerb::Show(args) => show::show(args, session),
        TraceVerb::Timehist(args) => timehist::timehist(args, session),
        TraceVerb::Map(args) => map::map(args, session),
        TraceVerb::Stats(args) => stats::stats(args, session),
        TraceVerb::Fit(args) => fit::fit(args, session),
        TraceVerb::Reserve(args) => reserve::reserve(args, session),
        TraceVerb::Convert(args) => convert::convert(args, session),
    }
}
