//! What of the events is recorded: of which processes, on which CPUs, by which expressions.

use surety_host::recorder::EventFilter;
use surety_kernel::Kernel;
use surety_model::source::nearest;
use surety_units::{CpuSet, Tid};

use crate::args::RecordArgs;
use crate::exit::{Code, Failure};

/// The CPUs to record: those asked for, or all that are online.
pub fn cpus(args: &RecordArgs, kernel: &dyn Kernel) -> Result<CpuSet, Failure> {
    let online = kernel.online_cpus()?;
    match args.cpus {
        Some(cpus) if !cpus.is_subset(&online) => {
            let what = format!("--cpus {cpus}: CPUs {} are not online", cpus.without(&online));
            Err(Failure::new(Code::BadInput, what).help(format!("online are {online}")))
        }
        chosen => Ok(chosen.unwrap_or(online)),
    }
}

/// The processes and threads to record, each of which is there; none: all.
pub fn pids(args: &RecordArgs, kernel: &dyn Kernel) -> Result<Vec<Tid>, Failure> {
    let mut pids: Vec<Tid> = args.pid.iter().copied().map(Tid).collect();
    pids.sort_unstable();
    pids.dedup();
    for pid in &pids {
        if pid.0 <= 0 || kernel.owner(*pid).is_err() {
            return Err(Failure::new(
                Code::BadInput,
                format!("--pid {pid}: there is no such process or thread"),
            )
            .help("`surety top` shows threads by number and name"));
        }
    }
    Ok(pids)
}

/// The filters, one for an event at most, of events that are recorded.
pub fn filters(args: &RecordArgs, events: &[String]) -> Result<Vec<EventFilter>, Failure> {
    let mut filters: Vec<EventFilter> = Vec::new();
    for text in &args.filter {
        let filter = filter(text, events)?;
        if filters.iter().any(|other| other.event == filter.event) {
            let what = format!("--filter: {} has two filters", filter.event);
            return Err(Failure::new(Code::BadInput, what).help("join them with && or ||"));
        }
        filters.push(filter);
    }
    Ok(filters)
}

/// What the recording leaves out by choice, as it was asked for.
pub fn in_words(args: &RecordArgs) -> Option<String> {
    let pids = args.pid.iter().map(|pid| format!("--pid {pid}"));
    let cpus = args.cpus.iter().map(|cpus| format!("--cpus {cpus}"));
    let filters = args.filter.iter().map(|filter| format!("--filter '{filter}'"));
    let words = pids.chain(cpus).chain(filters).collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then(|| words.replace(char::is_control, " "))
}

/// `EVENT:EXPRESSION`, where the event is named with its system or, where only one bears the name, without.
fn filter(text: &str, events: &[String]) -> Result<EventFilter, Failure> {
    let wrong = |what: String, help: String| Err(Failure::new(Code::BadInput, what).help(help));
    let Some((first, rest)) = text.split_once(':') else {
        return wrong(
            format!("--filter {text}: EVENT:EXPRESSION is needed"),
            "such as 'sched_switch:prev_prio < 100'".to_owned(),
        );
    };
    let made = |event: &str, expression: &str| {
        Ok(EventFilter { event: event.to_owned(), expression: expression.trim().to_owned() })
    };
    if let Some((name, expression)) = rest.split_once(':') {
        let event = format!("{}:{}", first.trim(), name.trim());
        if events.contains(&event) {
            return made(&event, expression);
        }
    }
    let name = first.trim();
    let named: Vec<&String> =
        events.iter().filter(|event| event.split_once(':').is_some_and(|(_, n)| n == name)).collect();
    match named.as_slice() {
        [event] => made(event, rest),
        [] => {
            let names = events.iter().filter_map(|event| event.split(':').nth(1));
            let help = match nearest(name, names) {
                Some(near) => format!("did you mean {near}? Other events are recorded with --event"),
                None => "name it with --event too".to_owned(),
            };
            wrong(format!("--filter {text}: no event `{name}` is recorded"), help)
        }
        several => {
            let several: Vec<&str> = several.iter().map(|event| event.as_str()).collect();
            wrong(format!("--filter {text}: several events bear that name"), several.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_an_event_with_or_without_its_system() {
        let events =
            ["sched:sched_switch", "irq:entry", "softirq:entry", "my:sched_exit"].map(str::to_owned).to_vec();
        for (text, event, expression) in [
            ("sched_switch:prev_prio < 100", "sched:sched_switch", "prev_prio < 100"),
            ("sched:sched_switch:next_comm ~ \"a:b*\"", "sched:sched_switch", "next_comm ~ \"a:b*\""),
            ("sched_switch: next_comm ~ \"a:b*\"", "sched:sched_switch", "next_comm ~ \"a:b*\""),
            ("irq:entry:irq == 9", "irq:entry", "irq == 9"),
        ] {
            let found = filter(text, &events).ok().unwrap();
            assert_eq!((found.event.as_str(), found.expression.as_str()), (event, expression));
        }
        for text in ["sched_switch", "entry:irq == 9", "sched_swich:1", "block:rq:1", ""] {
            assert!(filter(text, &events).is_err(), "{text}");
        }
    }
}
