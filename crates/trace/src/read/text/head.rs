//! [`Head`]: what stands before an event's arguments on a line: the thread, the CPU, the time, the event's name.
//!
//! ```text
//!           player-8795  ( 8795) [001] d..2.  3226.889832: sched_switch: ...      the kernel
//!           player-8795  [001]  3226.889832: sched_switch:         ...            trace-cmd
//!           player  8795 [001]  3226.889832:      sched:sched_switch: ...         perf script
//! ```
//!
//! The thread's group and the columns of flags may be absent; how many flags there are does not matter, they are one
//! word. A name may hold anything, brackets and dashes included, but it fills a field of 16 bytes, so the column behind
//! it is known; only where a text was edited is the first place taken that reads as a head.

use surety_model::event::Comm;
use surety_units::{CpuId, Nanos, Tid};

use crate::read::tracedat::CPUS_MAX;

/// The bytes a thread's name is printed in.
const NAME_WIDTH: usize = 16;

/// The parts of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'l> {
    pub(super) cpu: CpuId,
    pub(super) current: Tid,
    pub(super) time: Nanos,
    /// `sched_switch`, with its system where the text says it (`sched:sched_switch`).
    pub(super) event: &'l [u8],
    /// What stands behind the name's colon.
    pub(super) arguments: &'l [u8],
    /// The further buffer the line is of, where trace-cmd says one.
    pub(super) buffer: Option<&'l [u8]>,
}

/// Why a line is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHead {
    /// Nothing like a CPU and a time is on it.
    Foreign(&'static str),
    /// It is of a tracer of functions: a time, and no event's name.
    Unnamed,
}

/// Takes a line apart.
pub(super) fn parse(line: &[u8]) -> Result<Head<'_>, NoHead> {
    if line.first().is_some_and(|first| *first != b' ')
        && let Some((buffer, rest)) = buffer_name(line)
        && let Ok(head) = parse_main(rest)
    {
        return Ok(Head { buffer: Some(buffer), ..head });
    }
    parse_main(line)
}

/// `NAME: ` before a line: names of threads are padded to more than they can fill, so they begin with a space.
fn buffer_name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.windows(2).position(|pair| pair == b": ")?;
    let name = &line[..colon];
    (!name.contains(&b'[')).then(|| (name, line.get(colon + 2..).unwrap_or_default()))
}

fn parse_main(line: &[u8]) -> Result<Head<'_>, NoHead> {
    let fixed = line.get(NAME_WIDTH).is_some_and(|byte| matches!(byte, b'-' | b' '));
    let mut why = NoHead::Foreign("there is no CPU in brackets");
    for from in [if fixed { NAME_WIDTH } else { 0 }, 0] {
        let mut from = from;
        while let Some(found) = position(&line[from..], b'[') {
            let bracket = from + found;
            from = bracket + 1;
            match parse_at(line, bracket) {
                Ok(head) => return Ok(head),
                Err(NoHead::Unnamed) => return Err(NoHead::Unnamed),
                Err(refused) => why = refused,
            }
        }
        if !fixed {
            break;
        }
    }
    Err(why)
}

/// Takes a line apart whose CPU stands in the brackets at `bracket`.
fn parse_at(line: &[u8], bracket: usize) -> Result<Head<'_>, NoHead> {
    let no = |why| Err(NoHead::Foreign(why));
    let Some((cpu, rest)) = number(&line[bracket + 1..]) else { return no("there is no CPU in brackets") };
    let Some(rest) = rest.strip_prefix(b"]") else { return no("there is no CPU in brackets") };
    let Some(cpu) = u32::try_from(cpu).ok().filter(|cpu| *cpu < CPUS_MAX) else {
        return no("no machine has a CPU of that number");
    };
    let Some(current) = thread(&line[..bracket]) else { return no("there is no thread before the CPU") };
    let mut rest = skip_spaces(rest);
    let time = match time(rest) {
        Some(time) => time,
        None => {
            // One word of flags.
            let word = position(rest, b' ').unwrap_or(rest.len());
            rest = skip_spaces(&rest[word..]);
            match time(rest) {
                Some(time) => time,
                None => return no("there is no time in seconds behind the CPU"),
            }
        }
    };
    let (time, rest) = time;
    let rest = skip_spaces(rest);
    let word = position(rest, b' ').unwrap_or(rest.len());
    let Some((b':', event)) = rest[..word].split_last() else { return Err(NoHead::Unnamed) };
    let arguments = rest.get(word + 1..).unwrap_or_default();
    Ok(Head { cpu: CpuId(cpu), current, time, event, arguments, buffer: None })
}

/// The thread's id at the end of `text`: `name-ID`, `name-ID  (GROUP)`, `name  ID` or `name  GROUP/ID`.
fn thread(text: &[u8]) -> Option<Tid> {
    let mut text = text.trim_ascii_end();
    if let Some(inside) = text.strip_suffix(b")")
        && let Some(open) = inside.iter().rposition(|byte| *byte == b'(')
        && inside[open + 1..].iter().all(|byte| matches!(byte, b' ' | b'-' | b'0'..=b'9'))
    {
        text = text[..open].trim_ascii_end();
    }
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, id) = text.split_at(text.len() - digits);
    let (id, _) = number(id)?;
    let id = i32::try_from(id).ok()?;
    match before.split_last()? {
        // perf's own column stands behind the name's: there a dash is a sign.
        (b'-', name) => Some(Tid(if name.len() > NAME_WIDTH && name.ends_with(b" ") { -id } else { id })),
        (b' ' | b'/', _) => Some(Tid(id)),
        _ => None,
    }
}

/// `SECONDS.FRACTION:` and what follows.
fn time(text: &[u8]) -> Option<(Nanos, &[u8])> {
    let (seconds, rest) = number(text)?;
    let fraction = rest.strip_prefix(b".")?;
    let (value, rest) = number(fraction)?;
    let digits = fraction.len() - rest.len();
    let rest = rest.strip_prefix(b":")?;
    let scale = 10i64.checked_pow(9u32.checked_sub(u32::try_from(digits).ok()?)?)?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(value.checked_mul(scale)?)?;
    Some((Nanos::new(nanos), rest))
}

/// Digits at the beginning of `text` and what follows them.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0i64;
    let mut end = 0;
    while let Some(digit) = text.get(end).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.checked_mul(10)?.checked_add(i64::from(digit))?;
        end += 1;
    }
    (end > 0).then(|| (value, &text[end..]))
}

/// Where `byte` stands first.
#[inline]
pub(super) fn position(text: &[u8], byte: u8) -> Option<usize> {
    text.iter().position(|b| *b == byte)
}

#[inline]
fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    &text[spaces..]
}

/// A thread's name from its bytes; what does not fit in 15 is cut.
#[inline]
pub(super) fn comm(bytes: &[u8]) -> Comm {
    let mut name = [0; 16];
    let kept = bytes.len().min(15);
    name[..kept].copy_from_slice(&bytes[..kept]);
    Comm(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> (i32, u32, i64, String, String) {
        let head = parse(line.as_bytes()).unwrap_or_else(|why| panic!("{line:?}: {why:?}"));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (head.current.0, head.cpu.0, head.time.get(), text(head.event), text(head.arguments))
    }

    #[test]
    fn every_layout_of_columns_is_read() {
        let expected = (8795, 1, 3_226_889_832_000, "event".to_owned(), "a=1".to_owned());
        for line in [
            // The kernel: all columns; real-time kernels have more; without them; with the group, known or not.
            "          player-8795    [001] d..2.  3226.889832: event: a=1",
            "          player-8795    [001] d..2...  3226.889832: event: a=1",
            "          player-8795    [001]  3226.889832: event: a=1",
            "          player-8795    (   8795) [001] d..2.  3226.889832: event: a=1",
            "          player-8795    (-------) [001]  3226.889832: event: a=1",
            // trace-cmd, with and without flags; perf script, with and without the group.
            "          player-8795  [001]  3226.889832: event: a=1",
            "          player-8795  [001] d..2  3226.889832: event: a=1",
            "          player  8795 [001]  3226.889832: event: a=1",
            "          player  8795/8795  [001]  3226.889832: event: a=1",
            // Edited by hand.
            "player-8795 [001] 3226.889832: event: a=1",
            "player 8795 [001] 3226.889832: event: a=1",
        ] {
            assert_eq!(said(line), expected, "{line}");
        }
        assert_eq!(said("          player-7 [000]  1.123456789: e: ").2, 1_123_456_789);
        assert_eq!(said("             :-1    -1 [000]  1.5: e: ").0, -1);
    }

    #[test]
    fn names_of_threads_may_hold_anything() {
        for name in ["a b", "a-1 [000] 1.0:", "kworker/0:1-ev", "[x]", "(sd-pam)", "-", "a: b-2", "1.5: e: f"]
        {
            let line = format!("{name:>16}-42      [003] d..2.  7.000001: sched_waking: x");
            let (current, cpu, time, event, arguments) = said(&line);
            assert_eq!(
                (current, cpu, time, &*event, &*arguments),
                (42, 3, 7_000_001_000, "sched_waking", "x"),
                "{line}"
            );
            assert_eq!(
                parse(format!("{name:>16} 42 [003] 7.000001: e: x").as_bytes()).unwrap().current,
                Tid(42),
                "{name}"
            );
        }
    }

    #[test]
    fn lines_of_further_buffers_say_so() {
        let line = b"guest:           player-42    [003]  7.000001: sched_waking: x";
        let head = parse(line).unwrap();
        assert_eq!((head.buffer, head.current), (Some(b"guest".as_slice()), Tid(42)));
    }

    #[test]
    fn what_is_no_event_says_why() {
        for (line, why) in [
            ("", NoHead::Foreign("there is no CPU in brackets")),
            ("          player-42    [x] 1.0: e: ", NoHead::Foreign("there is no CPU in brackets")),
            (
                "          player-42    [99999] 1.0: e: ",
                NoHead::Foreign("no machine has a CPU of that number"),
            ),
            (
                "          player-42    [001] 1: e: ",
                NoHead::Foreign("there is no time in seconds behind the CPU"),
            ),
            (
                "          player-42    [001] d..2. 1.0123456789: e: ",
                NoHead::Foreign("there is no time in seconds behind the CPU"),
            ),
            (
                "          player-42    [001] d..2. 99999999999.0: e: ",
                NoHead::Foreign("there is no time in seconds behind the CPU"),
            ),
            (
                "          player       [001] d..2. 1.0: e: ",
                NoHead::Foreign("there is no thread before the CPU"),
            ),
            ("          player-42    [001] d..2. 1.0: do_exit <-do_group_exit", NoHead::Unnamed),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(why), "{line}");
        }
    }
}
