//! [`ThreadNote`]: where a thread is when a recording ends, told by a marker, for those of which no event tells.

use std::fmt::Write;

use surety_units::{CpuId, Tid};

use super::Comm;

/// `surety:t:TID:STATE:CPU:NAME`, written by the recorder of each thread there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNote {
    /// The thread.
    pub tid: Tid,
    /// The kernel's letter of its state: `R` runs or is ready, `S`, `D`, `I` sleep.
    pub state: u8,
    /// The CPU it is on, was last on, or is queued on.
    pub cpu: CpuId,
    /// Its name.
    pub comm: Comm,
}

impl ThreadNote {
    /// From `/proc/TID/stat`; `None` where that is none.
    pub fn of_stat(text: &str) -> Option<ThreadNote> {
        let (tid, rest) = text.split_once(" (")?;
        // A name may hold any byte but zero.
        let (name, fields) = rest.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // `processor` is the 39th, `state` the third.
        let cpu = fields.nth(35)?.parse().ok()?;
        Some(ThreadNote { tid: Tid(tid.parse().ok()?), state, cpu: CpuId(cpu), comm: Comm::new(name) })
    }

    /// Whether it runs or is ready to.
    pub fn is_runnable(&self) -> bool {
        self.state == b'R'
    }

    /// Writes the marker's text behind what `text` holds.
    pub fn write(&self, text: &mut String) {
        let ThreadNote { tid, state, cpu, comm } = self;
        let _ = write!(text, "surety:t:{tid}:{}:{cpu}:{comm}", char::from(*state));
    }

    /// Reads a marker's text; `None` when it is another's.
    pub fn parse(text: &str) -> Option<ThreadNote> {
        let mut words = text.trim_end_matches('\n').strip_prefix("surety:t:")?.splitn(4, ':');
        let tid = Tid(words.next()?.parse().ok()?);
        let &[state] = words.next()?.as_bytes() else { return None };
        let cpu = CpuId(words.next()?.parse().ok()?);
        Some(ThreadNote { tid, state, cpu, comm: Comm::new(words.next()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_the_kernels_line_read_back() {
        let fields = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for (name, state) in [("sh", 'S'), ("a) R (b:c", 'R'), ("kworker/0:1", 'I')] {
            let note = ThreadNote::of_stat(&format!("71 ({name}) {state} {fields}\n")).unwrap();
            assert_eq!((note.tid, note.cpu, note.comm), (Tid(71), CpuId(39), Comm::new(name)));
            assert_eq!((note.state, note.is_runnable()), (state as u8, state == 'R'));
            let mut text = String::new();
            note.write(&mut text);
            assert_eq!(ThreadNote::parse(&text), Some(note));
        }
        for other in ["", "surety:t:1:S", "surety:t:1:SS:0:x", "surety:t:x:S:0:x", "surety:d:1:S:0:x"] {
            assert_eq!(ThreadNote::parse(other), None, "{other}");
        }
        assert_eq!(ThreadNote::of_stat("71 (sh) S 1 2"), None);
    }
}
