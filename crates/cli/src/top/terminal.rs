//! [`Terminal`]: a screen of its own, and keys as they are pressed; everything is given back when it is dropped.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write, stdout};
use std::path::Path;

use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use surety_kernel::files::{has_input, open_at_once};
use surety_report::top::Sort;
use surety_units::Nanos;

use crate::exit::{Code, Failure};
use crate::harmless::harmless;

/// Keys that choose an order.
pub const SORT_KEYS: [(char, Sort); 7] = [
    ('l', Sort::Latency),
    ('w', Sort::Wait),
    ('m', Sort::Missed),
    ('c', Sort::Cpu),
    ('s', Sort::Switches),
    ('n', Sort::Name),
    ('p', Sort::Pid),
];

/// What the last line says.
pub const KEYS: &str = "q quit  / filter  space pause  l)atency w)ait m)issed c)pu s)witches n)ame p)id";

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Letter(char),
    Enter,
    Escape,
    Delete,
    /// Ctrl-C, which is no signal here, or the terminal is gone.
    Interrupt,
}

/// The terminal, as a screen.
///
/// Keys are read here: the reader of the library never comes back from a terminal that is gone.
pub struct Terminal {
    keys: File,
    pressed: VecDeque<Key>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Where it cannot be one: there are no keys, for instance.
    pub fn open() -> std::io::Result<Terminal> {
        let keys = open_at_once(Path::new("/dev/tty"))?;
        enable_raw_mode()?;
        // From here on it is given back.
        let terminal = Terminal { keys, pressed: VecDeque::new() };
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let (columns, lines) = size().unwrap_or((80, 24));
        (usize::from(columns).max(40), usize::from(lines).max(3))
    }

    /// Waits for a key, so long at most.
    pub fn key(&mut self, within: Nanos) -> Result<Option<Key>, Failure> {
        if self.pressed.is_empty() && has_input(&self.keys, within).map_err(failed)? {
            let mut bytes = [0; 256];
            match self.keys.read(&mut bytes) {
                Ok(0) => self.pressed.push_back(Key::Interrupt),
                Ok(count) => self.pressed.extend(keys_of(&bytes[..count])),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => self.pressed.push_back(Key::Interrupt),
            }
        }
        Ok(self.pressed.pop_front())
    }

    /// Shows these lines, and one at the bottom.
    pub fn draw(&self, lines: &[String], foot: &str) -> Result<(), Failure> {
        let (columns, rows) = self.size();
        let mut frame: Vec<u8> = Vec::new();
        let mut show = || {
            queue!(frame, BeginSynchronizedUpdate)?;
            for row in 0..rows {
                let line = match row + 1 == rows {
                    true => foot.chars().take(columns).collect(),
                    false => lines.get(row).cloned().unwrap_or_default(),
                };
                let row = u16::try_from(row).unwrap_or(u16::MAX);
                let line = Print(harmless(&line, true));
                queue!(frame, cursor::MoveTo(0, row), line, Clear(ClearType::UntilNewLine))?;
            }
            queue!(frame, EndSynchronizedUpdate)?;
            // In one piece, so that no half of a screen is seen.
            let mut out = stdout().lock();
            out.write_all(&frame)?;
            out.flush()
        };
        show().map_err(failed)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What cannot be given back is the user's to reset.
        let _ = execute!(stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Keys of what a terminal sends at a time. What begins with Esc and goes on is a key of its own, such as an arrow, which means nothing here.
fn keys_of(bytes: &[u8]) -> Vec<Key> {
    let of = |letter: char| match letter {
        '\r' | '\n' => Some(Key::Enter),
        '\u{3}' => Some(Key::Interrupt),
        '\u{8}' | '\u{7f}' => Some(Key::Delete),
        letter => (!letter.is_control()).then_some(Key::Letter(letter)),
    };
    match bytes {
        [0x1b] => vec![Key::Escape],
        [0x1b, ..] => Vec::new(),
        bytes => String::from_utf8_lossy(bytes).chars().filter_map(of).collect(),
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(Code::Machine, format!("the terminal: {error}"))
        .help("`surety top | cat` prints tables instead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_those_that_end_something() {
        for (bytes, keys) in [
            (&b"q"[..], vec![Key::Letter('q')]),
            (b"\x1b", vec![Key::Escape]),
            (b"\x1b[A", vec![]),
            ("ä\r".as_bytes(), vec![Key::Letter('ä'), Key::Enter]),
            (b"\x7f\x03\x01", vec![Key::Delete, Key::Interrupt]),
        ] {
            assert_eq!(keys_of(bytes), keys, "{bytes:?}");
        }
    }
}
