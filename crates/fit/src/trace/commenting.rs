//! The figures of a fit as comments of the workload file.

use surety_model::formats::toml::Comments;
use surety_model::workload::ActivityKind;
use surety_units::Nanos;

use crate::trace::{FitOptions, Kind, SourceFit, TraceView, Unfitted, summary};

/// Groups of things left out that get a line of their own.
const NAMED: usize = 12;

/// The workload's one line.
pub(crate) fn title(view: &TraceView<'_>) -> String {
    let length = view.span.1 - view.span.0;
    format!("Fitted to a trace of {length} on {} CPUs", view.cpus)
}

/// Comments for the file and for each of its activities.
pub(crate) fn comments(
    view: &TraceView<'_>,
    options: &FitOptions,
    sources: &[SourceFit],
    remainder: &[Unfitted],
) -> Comments {
    let mut comments = Comments::new();
    let length = view.span.1 - view.span.0;
    let mut head = vec![
        format!(
            "Fitted to a trace of {length} on {} CPUs: threads with {} of a CPU or more.",
            view.cpus,
            options.share_min.to_exact_string()
        ),
        "Not in it: promises, reservations, which thread wakes which.".to_owned(),
    ];
    head.extend(left_out(remainder));
    comments.insert(String::new(), head);
    for source in sources {
        let kind = match source.kind {
            Kind::Load => ActivityKind::Load,
            Kind::Interrupt => ActivityKind::Irq,
            _ => ActivityKind::Task,
        };
        comments.insert(kind.path(&source.name), of_source(source));
    }
    comments
}

/// The remainder: those with the most time by name, the rest as one sum.
fn left_out(remainder: &[Unfitted]) -> Vec<String> {
    let groups = summary(remainder);
    let mut lines: Vec<String> = groups
        .iter()
        .take(NAMED)
        .map(|left| {
            format!(
                "Left out: {} {}, {:.2} % of a CPU: {}.",
                left.count,
                left.name,
                left.share * 100.0,
                left.why
            )
        })
        .collect();
    let rest = groups.get(NAMED..).unwrap_or_default();
    if !rest.is_empty() {
        let share: f64 = rest.iter().map(|left| left.share).sum();
        let count: usize = rest.iter().map(|left| left.count).sum();
        lines.push(format!("Left out: {count} more, {:.2} % of a CPU together.", share * 100.0));
    }
    lines
}

fn of_source(source: &SourceFit) -> Vec<String> {
    const SHOWN: usize = 8;
    let mut threads: Vec<String> = source.threads.iter().take(SHOWN).map(ToString::to_string).collect();
    if source.threads.len() > SHOWN {
        threads.push(format!("{} more", source.threads.len() - SHOWN));
    }
    let whose = match (source.kind, source.threads.is_empty()) {
        (Kind::Interrupt, true) => format!("handler {}", source.seen_as),
        (Kind::Interrupt, false) => format!("handler {}, thread {}", source.seen_as, threads.join(", ")),
        _ => format!("{}, thread {}", source.seen_as, threads.join(", ")),
    };
    let mut lines = vec![format!("{whose}: {}, {:.2} % of a CPU", source.kind.word(), source.share * 100.0)];
    match source.kind {
        Kind::Load => {}
        Kind::Interrupt => {
            let every = source.distance.unwrap_or(Nanos::ZERO);
            lines.push(format!("{} arrivals, {every} apart on average", source.jobs));
        }
        _ => {
            let every = source.distance.unwrap_or(Nanos::ZERO);
            lines.push(format!("{} jobs, {every} apart on average", source.jobs));
        }
    }
    if let Some(work) = &source.work {
        lines.push(format!(
            "work: mean {}, 99 % {}, largest {}",
            Nanos::from_f64_rounded(work.mean),
            work.samples.quantile(0.99),
            work.maximum()
        ));
    }
    lines.extend(source.notes.iter().cloned());
    lines
}
