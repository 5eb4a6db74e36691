//! [`Symbols`]: which timer function an address is.
//!
//! A raw `hrtimer_start` record holds the address of the function the timer will call; only the kernel's symbol table
//! (`/proc/kallsyms`, or the copy in a trace file) gives it a name. Only the few functions that mean something to a job
//! are kept.
//!
//! Where the table is hidden (`kptr_restrict`, every address 0) no address gets a name and every timer is
//! [`TimerFunction::Other`]. Nothing is guessed here: guessing which address is which from the records would need the
//! whole trace before the first event. [`crate::jobs`] recognises throttling by structure instead when no timer of a
//! trace has a name (see there).

use surety_model::event::TimerFunction;

/// The addresses of the timer functions Surety tells apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// A handful: a linear search is the fastest.
    functions: Vec<(u64, TimerFunction)>,
}

impl Symbols {
    /// Reads lines of `ADDRESS TYPE NAME [MODULE]`. Lines that are none are passed over, as is an address of 0.
    pub fn parse(kallsyms: &str) -> Symbols {
        let mut reader = SymbolReader::default();
        reader.take(kallsyms.as_bytes());
        reader.finish()
    }

    /// No timer function has an address: the table was hidden, or there was none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at `address`.
    #[inline]
    pub fn timer_function(&self, address: u64) -> TimerFunction {
        self.functions.iter().find(|(known, _)| *known == address).map_or(TimerFunction::Other, |(_, f)| *f)
    }
}

/// Reads a symbol table as it comes: 5 MB, of which a few lines are kept.
#[derive(Debug, Default)]
pub(crate) struct SymbolReader {
    found: Symbols,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

/// Bytes that are looked at together.
const BLOCK: usize = 64;

impl SymbolReader {
    /// The next piece of the table, of any length.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let newline = |byte: &u8| *byte == b'\n';
        let Some(last) = piece.iter().rposition(newline) else {
            self.rest.extend_from_slice(piece);
            return;
        };
        let (mut whole, rest) = piece.split_at(last + 1);
        if !self.rest.is_empty() {
            let first = whole.iter().position(newline).unwrap_or(last);
            self.rest.extend_from_slice(&whole[..first]);
            self.found.line(&self.rest);
            whole = &whole[first + 1..];
        }
        self.rest.clear();
        self.rest.extend_from_slice(rest);
        self.found.lines(whole);
    }

    /// The table is at its end.
    pub(crate) fn finish(mut self) -> Symbols {
        self.found.line(&self.rest);
        self.found
    }
}

impl Symbols {
    /// Whole lines. They are not told apart where none of them can name anything that is sought.
    fn lines(&mut self, text: &[u8]) {
        let (mut at, mut line) = (0, 0);
        while let Some(block) = text[at..].first_chunk::<{ BLOCK + 2 }>() {
            at += BLOCK;
            if has_beginning(block) {
                let begin = begin_of_line(text, line, at - BLOCK);
                let end = text[at + 1..].iter().position(|byte| *byte == b'\n');
                line = end.map_or(text.len(), |newline| at + 2 + newline);
                text[begin..line].split(|byte| *byte == b'\n').for_each(|line| self.line(line));
                at = line;
            }
        }
        let begin = begin_of_line(text, line, at);
        text[begin..].split(|byte| *byte == b'\n').for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split_ascii_whitespace();
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else { return };
        let function = timer_function(name);
        let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
        if let Some(address) = address.filter(|_| function != TimerFunction::Other) {
            self.functions.push((address, function));
        }
    }
}

/// Where the line begins that `at` is in; one begins at `from`.
fn begin_of_line(text: &[u8], from: usize, at: usize) -> usize {
    text[from..at].iter().rposition(|byte| *byte == b'\n').map_or(from, |newline| from + newline + 1)
}

/// Whether a name that may be sought begins in the block: `dl`, `hr` or `ti` behind a space; it may say so of a block without
/// one. Eight bytes are compared at once, by arithmetic on words (Hacker's Delight, 6-1), as a program built for size has its
/// loops compiled one byte after the other.
fn has_beginning(block: &[u8; BLOCK + 2]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES << 7;
    // The top bit of each byte that is below `limit`, of which some others may have theirs set too.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & TOPS;
    let word = |at: usize| block[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut found = 0;
    for at in (0..BLOCK).step_by(8) {
        let (before, first, second) = (word(at), word(at + 1), word(at + 2));
        let is =
            |[a, b]: [u8; 2]| below((first ^ (ONES * u64::from(a))) | (second ^ (ONES * u64::from(b))), 1);
        found |= below(before, u64::from(b' ') + 1) & (is(*b"dl") | is(*b"hr") | is(*b"ti"));
    }
    found != 0
}

/// The function of that name, as text traces give it. What a compiler appends after a dot is not part of the name.
pub fn timer_function(name: &str) -> TimerFunction {
    match name.split('.').next().unwrap_or_default() {
        "dl_task_timer" => TimerFunction::DeadlineReplenish,
        "hrtimer_wakeup" => TimerFunction::Wakeup,
        // The tick's function was renamed twice: until 6.7, in 6.8, since 6.9.
        "tick_sched_timer" | "tick_nohz_highres_handler" | "tick_nohz_handler" => TimerFunction::Tick,
        _ => TimerFunction::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_look_alikes_are_not() {
        let symbols = Symbols::parse(
            "ffffffff813c5a00 t dl_task_timer\n\
             ffffffff8141e4b0 t hrtimer_wakeup.llvm.123\n\
             ffffffff814332e0 t tick_nohz_handler\n\
             ffffffff81434210 T tick_sched_timer_dying\n\
             ffffffffc0001000 t helper\t[module]\n\
             not a line\n",
        );
        for (address, function) in [
            (0xffff_ffff_813c_5a00, TimerFunction::DeadlineReplenish),
            (0xffff_ffff_8141_e4b0, TimerFunction::Wakeup),
            (0xffff_ffff_8143_32e0, TimerFunction::Tick),
            (0xffff_ffff_8143_4210, TimerFunction::Other),
            (0, TimerFunction::Other),
        ] {
            assert_eq!(symbols.timer_function(address), function, "{address:x}");
        }
    }

    /// Wherever pieces end, and wherever blocks do, the lines that are kept are those.
    #[test]
    fn a_table_is_the_same_in_any_pieces() {
        let filler = |count: usize| format!("{}\n", "x".repeat(count));
        let mut text = String::new();
        for k in 0..200 {
            text += &filler(k % 70);
            text += &format!(
                "{:x} t {}\r\n",
                0x100 + k,
                ["dl_task_timer", "hrtimer_wakeup", "tick_nohz_handler"][k % 3]
            );
            text += "0000000000000100\tt\tdlm_lock\nffffffff81000000 T ti";
        }
        let whole = Symbols::parse(&text);
        let expected: Vec<u64> = (0..200).map(|k| 0x100 + k).collect();
        assert_eq!(whole.functions.iter().map(|(address, _)| *address).collect::<Vec<_>>(), expected);
        for piece in [1, 7, 63, 64, 65, 66, 67, 1000] {
            let mut reader = SymbolReader::default();
            text.as_bytes().chunks(piece).for_each(|piece| reader.take(piece));
            assert_eq!(reader.finish(), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_hidden_table_names_nothing() {
        let hidden = Symbols::parse("0000000000000000 t dl_task_timer\n0000000000000000 t hrtimer_wakeup\n");
        assert!(hidden.is_empty());
        assert_eq!(hidden.timer_function(0), TimerFunction::Other);
    }
}
