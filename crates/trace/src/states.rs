//! [`StateTable`]: what the bits of `prev_state` mean, read from the event's own print format.
//!
//! The bits move between kernels ("P" parked was "x" dead once, the bit that marks a preempted thread grew with every
//! new state), so the table the kernel prints with is the only truth:
//!
//! ```text
//! (REC->prev_state & (...)) ? __print_flags(REC->prev_state & (...), "|", { 0x00000001, "S" }, ...) : "R",
//! REC->prev_state & (((0x00000000 | 0x00000001 | ...) + 1) << 1) ? "+" : ""
//! ```
//!
//! The numbers are constant C expressions; the small evaluator below reads them.

use surety_model::event::LeaveState;

/// The flag table of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTable {
    /// Bit and letter, in the kernel's order.
    letters: Vec<(u64, u8)>,
    /// The bit that marks a preempted thread (`R+`); 0 where the kernel has none.
    preempted: u64,
    /// What the low bits say, by their value.
    low: Box<[LeaveState; LOW]>,
}

/// Values whose meaning is looked up: all that one of the flags of a kernel can be, but those that few threads ever have.
const LOW: usize = 256;

impl StateTable {
    /// Reads the table from the print format of `sched_switch`; `None` when it holds none.
    pub fn parse(print_fmt: &str) -> Option<StateTable> {
        let at = print_fmt.find("__print_flags(REC->prev_state")?;
        let table = &print_fmt[at..];
        let mut letters = Vec::new();
        for entry in table.split('{').skip(1) {
            let (inside, after) = entry.split_once('}')?;
            let (bit, letter) = inside.split_once(',')?;
            let letter = *letter.trim().strip_prefix('"')?.as_bytes().first()?;
            letters.push((evaluate(bit)?, letter));
            // The table ends where no comma follows the entry.
            if !after.trim_start().starts_with(',') {
                break;
            }
        }
        let preempted = match table.find("? \"+\"") {
            Some(end) => {
                let condition = &table[..end];
                let from = condition.rfind("REC->prev_state &")? + "REC->prev_state &".len();
                evaluate(&condition[from..])?
            }
            None => 0,
        };
        (!letters.is_empty()).then(|| StateTable::of(letters, preempted))
    }

    /// The flags kernels since 4.14 have, for texts that give a state as a number and hold no table. Kernels before
    /// marked a preempted thread with a higher bit, one of three; these bits have had no other meaning since.
    pub fn usual() -> StateTable {
        let letters = (0..).zip(*b"SDTtXZPI").map(|(bit, letter)| (1 << bit, letter)).collect();
        StateTable::of(letters, 0x100 | 0x400 | 0x800 | 0x1000)
    }

    fn of(letters: Vec<(u64, u8)>, preempted: u64) -> StateTable {
        let low = std::array::from_fn(|value| by_letter(&letters, value as u64));
        StateTable { letters, preempted, low: Box::new(low) }
    }

    /// What a value of `prev_state` says. With several bits the first of the table counts.
    #[inline]
    pub fn state(&self, prev_state: u64) -> LeaveState {
        if prev_state & self.preempted != 0 {
            return LeaveState::Runnable { preempted: true };
        }
        let low = usize::try_from(prev_state).ok().and_then(|value| self.low.get(value));
        low.copied().unwrap_or_else(|| by_letter(&self.letters, prev_state))
    }
}

/// What a value says that does not mark a preempted thread.
fn by_letter(letters: &[(u64, u8)], prev_state: u64) -> LeaveState {
    match letters.iter().find(|(bit, _)| prev_state & bit != 0) {
        None => LeaveState::Runnable { preempted: false },
        Some((_, letter)) => leave_state(*letter),
    }
}

/// The state of a letter, as text traces give it (`R+` is told apart by the caller).
pub fn leave_state(letter: u8) -> LeaveState {
    match letter {
        b'R' => LeaveState::Runnable { preempted: false },
        b'S' => LeaveState::Sleeping,
        b'D' => LeaveState::Uninterruptible,
        b'T' | b't' => LeaveState::Stopped,
        b'X' | b'Z' => LeaveState::Dead,
        other => LeaveState::Other(other),
    }
}

/// The value of a constant expression of C: numbers, parentheses, `~ - * + << >> & ^ |`. `None` when it is none.
fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text.trim(), depth: 0 };
    let value = parser.binary(0)?;
    parser.rest.is_empty().then_some(value)
}

/// Operators by how tightly they bind, loosest first.
const LEVELS: &[&[&str]] = &[&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*"]];
/// Nesting beyond this is no kernel's text.
const DEPTH_MAX: u32 = 64;

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn binary(&mut self, level: usize) -> Option<u64> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|o| self.rest.starts_with(**o)) {
            self.take(operator);
            let right = self.binary(level + 1)?;
            value = match *operator {
                "|" => value | right,
                "^" => value ^ right,
                "&" => value & right,
                "<<" => value.checked_shl(u32::try_from(right).ok()?)?,
                ">>" => value.checked_shr(u32::try_from(right).ok()?)?,
                "+" => value.wrapping_add(right),
                "-" => value.wrapping_sub(right),
                _ => value.wrapping_mul(right),
            };
        }
        Some(value)
    }

    fn unary(&mut self) -> Option<u64> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = if self.take("~") {
            !self.unary()?
        } else if self.take("-") {
            self.unary()?.wrapping_neg()
        } else if self.take("(") {
            let inner = self.binary(0)?;
            if !self.take(")") {
                return None;
            }
            inner
        } else {
            self.number()?
        };
        self.depth -= 1;
        Some(value)
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        self.rest = rest.trim_start();
        value.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::EventFormat;
    use proptest::prelude::*;

    #[test]
    fn this_kernels_table() {
        let text = include_str!("../tests/fixtures/formats/sched/sched_switch.txt");
        let table = StateTable::parse(&EventFormat::parse("sched", text).unwrap().print_fmt).unwrap();
        for (value, state) in [
            (0, LeaveState::Runnable { preempted: false }),
            (0x100, LeaveState::Runnable { preempted: true }),
            (0x101, LeaveState::Runnable { preempted: true }),
            (1, LeaveState::Sleeping),
            (2, LeaveState::Uninterruptible),
            (4, LeaveState::Stopped),
            (8, LeaveState::Stopped),
            (0x10, LeaveState::Dead),
            (0x20, LeaveState::Dead),
            (0x40, LeaveState::Other(b'P')),
            (0x80, LeaveState::Other(b'I')),
            (3, LeaveState::Sleeping),
        ] {
            assert_eq!(table.state(value), state, "{value:#x}");
        }
    }

    #[test]
    fn an_old_kernels_table_with_other_bits() {
        // The form of 4.9: decimal numbers, "x" where "P" is now, preempted at 2048.
        let table = StateTable::parse(
            "\"...\", REC->prev_comm, REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), \"|\", \
             { 1, \"S\"} , { 2, \"D\" }, { 64, \"x\" }, { 1024, \"N\" }) : \"R\", \
             REC->prev_state & 2048 ? \"+\" : \"\", REC->next_comm",
        )
        .unwrap();
        for (value, state) in [
            (2048, LeaveState::Runnable { preempted: true }),
            (256, LeaveState::Runnable { preempted: false }),
            (64, LeaveState::Other(b'x')),
            (1, LeaveState::Sleeping),
        ] {
            assert_eq!(table.state(value), state, "{value}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in [
            "",
            "\"%d\", REC->prev_state",
            "__print_flags(REC->prev_state & 3, \"|\")",
            "__print_flags(REC->prev_state, \"|\", { x, \"S\" })",
            "__print_flags(REC->prev_state, \"|\", { 1, S })",
            "__print_flags(REC->prev_state, \"|\", { 1, \"S\" }) : \"R\", REC->prev_state & huh ? \"+\" : \"\"",
        ] {
            assert_eq!(StateTable::parse(text), None, "{text}");
        }
    }

    #[test]
    fn expressions_follow_c() {
        for (text, value) in [
            ("1 | 2 + 4", Some(7)),
            ("(1 + 1) << 1 << 1", Some(8)),
            ("0x10UL", Some(16)),
            ("6 & 3 | 8", Some(10)),
            ("2 * 3 + 1", Some(7)),
            ("~0 & 0xff", Some(255)),
            ("1 << 64", None),
            ("1 +", None),
            ("(1", None),
            ("1)", None),
            ("", None),
        ] {
            assert_eq!(evaluate(text), value, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ -~]{0,60}", expression in "[0-9()|&+~<> -]{0,40}") {
            let _ = StateTable::parse(&text);
            let _ = evaluate(&expression);
            let _ = StateTable::parse(&format!("__print_flags(REC->prev_state {expression}, {{ {text} }} ? \"+\""));
        }
    }
}
