//! Which events are recorded: the usual ones, and those a user names by pattern.

use surety_kernel::tracefs::Tracefs;
use surety_model::source::nearest;
use surety_trace::{EVENTS, REQUIRED_EVENTS};

use crate::args::RecordArgs;
use crate::exit::{Code, Failure};

/// The events to record, each once.
pub fn chosen(args: &RecordArgs, tracefs: &Tracefs) -> Result<Vec<String>, Failure> {
    let usual = if args.only_events { &[] } else { EVENTS };
    let mut events: Vec<String> = usual.iter().map(|event| (*event).to_owned()).collect();
    if !args.event.is_empty() {
        let known = tracefs.events()?;
        for pattern in &args.event {
            events.extend(matching(pattern, &known)?);
        }
    }
    events.sort_unstable();
    events.dedup();
    if args.stop_when.is_some() {
        let missing: Vec<&str> =
            REQUIRED_EVENTS.iter().copied().filter(|r| !events.iter().any(|e| e == r)).collect();
        if !missing.is_empty() {
            let what =
                format!("--stop-when looks at jobs, and there are none without {}", missing.join(" and "));
            return Err(Failure::new(Code::BadInput, what).help("leave --only-events out, or name them too"));
        }
    }
    Ok(events)
}

/// The events a pattern names: `sched` is `sched:*`.
fn matching(pattern: &str, known: &[String]) -> Result<Vec<String>, Failure> {
    let (system, name) = pattern.split_once(':').unwrap_or((pattern, "*"));
    let fits = |event: &&String| {
        event.split_once(':').is_some_and(|(s, n)| {
            glob(system.as_bytes(), s.as_bytes()) && glob(name.as_bytes(), n.as_bytes())
        })
    };
    let found: Vec<String> = known.iter().filter(fits).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = match pattern.split_once(':') {
        Some(_) => nearest(pattern, known.iter().map(String::as_str)),
        None => nearest(pattern, known.iter().filter_map(|e| e.split(':').next())),
    };
    let help = match near {
        Some(near) => format!("did you mean {near}?"),
        None => {
            "`ls /sys/kernel/tracing/events` shows systems, and the directories there their events".to_owned()
        }
    };
    Err(Failure::new(Code::BadInput, format!("this kernel has no event `{pattern}`")).help(help))
}

/// Whether `*` (any text) and `?` (any byte) of the pattern can stand for the text. A star is tried at ever later places,
/// and only the last one met, so the time is at most the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), text.get(t)) {
            (Some(b'*'), _) => {
                star = Some((p + 1, t));
                p += 1;
            }
            (Some(a), Some(b)) if a == b || *a == b'?' => {
                p += 1;
                t += 1;
            }
            (None, None) => return true,
            _ => match star {
                Some((after, from)) if from < text.len() => {
                    star = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<String> {
        ["irq:irq_handler_entry", "sched:sched_switch", "sched:sched_waking", "sched_ext:sched_ext_dump"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn patterns_name_events() {
        for (pattern, expected) in [
            ("sched:sched_switch", &["sched:sched_switch"][..]),
            ("sched", &["sched:sched_switch", "sched:sched_waking"]),
            ("sched:*", &["sched:sched_switch", "sched:sched_waking"]),
            ("sched:*w*g", &["sched:sched_waking"]),
            ("s*:*", &["sched:sched_switch", "sched:sched_waking", "sched_ext:sched_ext_dump"]),
            ("???:irq*entry", &["irq:irq_handler_entry"]),
        ] {
            assert_eq!(matching(pattern, &known()).ok().unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_name_none_are_refused() {
        for pattern in ["sched:sched_swich", "shed", "sched:", "", "sched:sched_switch:x", "*:*_"] {
            assert!(matching(pattern, &known()).is_err(), "{pattern}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("**", "abc", true),
            ("a*c*", "abcbc", true),
            ("*b", "abc", false),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*aab", "aaaab", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let long = "a".repeat(2_000);
        assert!(!glob(format!("{}b", "*a".repeat(500)).as_bytes(), long.as_bytes()));
    }
}
