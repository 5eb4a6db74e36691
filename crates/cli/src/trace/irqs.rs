//! `surety trace irqs`: every interrupt of a trace file as a source of work, or with `--distribution` all there is to say of
//! one.

use surety_report::traces::{ReadTrace, Subject, TraceIrqs, interrupt_title};
use surety_trace::InterruptBuilder;
use surety_trace::interrupts::{InterruptChoice, Interrupts};

use super::{distribution, file};
use crate::args::IrqsArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The verb.
pub fn irqs(args: &IrqsArgs, session: &Session) -> Result<Code, Failure> {
    let detail = args.closely.distribution.then_some(args.closely.grid);
    let choice = InterruptChoice { which: args.irq.clone(), detail };
    let mut builder = InterruptBuilder::of(args.selection.wanted(), choice);
    let read = file::read(&args.file, &args.selection, session, &mut builder)?;
    let found = builder.finish();
    if args.closely.distribution {
        return of_interrupt(args, read, found, session);
    }
    if found.sources.is_empty() && (args.irq.is_some() || read.chosen.chooses_threads()) {
        return Err(none(args));
    }
    file::print(&TraceIrqs { read, found }, session)
}

fn of_interrupt(
    args: &IrqsArgs,
    read: ReadTrace,
    Interrupts { mut sources, anomalies, .. }: Interrupts,
    session: &Session,
) -> Result<Code, Failure> {
    let titles: Vec<String> = sources.iter().map(interrupt_title).collect();
    let mut source = match (sources.pop(), sources.is_empty()) {
        (Some(source), true) => source,
        (None, _) => return Err(none(args)),
        (Some(_), false) => {
            let said = format!("several interrupts: {}", titles.join(", "));
            return Err(file::refused(&args.file, said).help("choose one by its number or name with --irq"));
        }
    };
    let Some(detail) = source.detail.take() else { return Err(none(args)) };
    distribution::publish(read, anomalies, Subject::Interrupt(source, *detail), &args.closely, session)
}

/// A choice that fits no interrupt.
fn none(args: &IrqsArgs) -> Failure {
    let asked = args.irq.as_deref().map_or_else(String::new, |irq| format!(" `{irq}`"));
    let waking = if args.selection.wanted().chooses_threads() { " that wakes that thread" } else { "" };
    file::refused(&args.file, format_args!("no interrupt{asked}{waking} is in it"))
        .help("`surety trace irqs` without --irq, --tid and --comm shows all of them")
}
