//! [`MapLines`]: a column for each CPU, a short name for each thread, a line for each change (`docs/formats/trace-map.md`).

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};

use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use super::jsonl;
use super::lines::{Out, integer, seconds, word};
use crate::wanted::{Wanted, Window};

/// Columns of the time and the blank behind it.
const TIME_COLUMNS: usize = 17;
/// Columns of a CPU: a mark, and the two letters of a thread.
const CPU_COLUMNS: usize = 3;
/// Columns that one thread's legend takes at most: letters, name and number; where less are left on a line it has its own.
const LEGEND_COLUMNS: usize = 32;
/// CPUs with a number below this are followed.
const CPUS_MAX: usize = 1 << 16;
/// Threads that are gone and may stand in the order beside as many as have letters.
const ORDER_SLACK: usize = 1 << 13;
const FIRST: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SECOND: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The letters of a thread.
type Letters = [u8; 2];

/// What stands in the column of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Nothing is known.
    Unknown,
    Idle,
    /// A thread that was not asked for.
    Other,
    Thread(Tid, Letters),
}

/// A thread with letters.
#[derive(Clone, Copy, Debug)]
struct Named {
    letters: Letters,
    comm: Comm,
    /// Its legend was written.
    is_told: bool,
}

/// Writes a line of text or of JSON whenever another wanted thread, or none, has a wanted CPU.
#[derive(Debug)]
pub struct MapLines<W> {
    out: Out<W>,
    wanted: Wanted,
    window: Option<Window>,
    json: bool,
    width: usize,
    cells: Vec<Cell>,
    names: Names,
    /// CPUs with changes and no column.
    hidden: CpuSet,
}

impl<W: Write> MapLines<W> {
    /// At most `limit` lines, none wider than `width`, into `out`, which should be buffered; `cpus` where it is known how many
    /// there are.
    pub fn new(
        out: W,
        wanted: Wanted,
        json: bool,
        limit: Option<u64>,
        (width, cpus): (usize, usize),
    ) -> MapLines<W> {
        let (names, cells) = (Names::default(), vec![Cell::Unknown; cpus.min(CPUS_MAX)]);
        let out = Out::new(out, limit);
        MapLines { out, wanted, window: None, json, width, cells, names, hidden: CpuSet::default() }
    }

    /// Whether nothing more will be written.
    pub fn is_done(&self) -> bool {
        self.out.is_done()
    }

    /// Flushes; returns how many lines were written, and the CPUs with changes for which they had no room.
    ///
    /// # Errors
    /// The first that the output gave.
    pub fn finish(self) -> io::Result<(u64, CpuSet)> {
        Ok((self.out.finish()?, self.hidden))
    }

    /// How many CPUs have a column.
    fn columns(&self) -> usize {
        (self.width.saturating_sub(TIME_COLUMNS) / CPU_COLUMNS).max(1)
    }

    /// A CPU changes hands; `cell` is who has it now.
    fn change(&mut self, cpu: CpuId, at: Nanos, cell: Cell) {
        let index = cpu.index();
        if index >= CPUS_MAX {
            return;
        }
        if self.cells.len() <= index {
            self.cells.resize(index + 1, Cell::Unknown);
        }
        let before = std::mem::replace(&mut self.cells[index], cell);
        let is_thread = |cell| matches!(cell, Cell::Thread(..));
        let concerns = !self.wanted.chooses_threads() || is_thread(before) || is_thread(cell);
        let is_inside = concerns && self.window.unwrap_or(Window::ALL).contains(at);
        if before == cell || !is_inside || !self.wanted.cpu(cpu) || self.is_done() {
            return;
        }
        if self.json {
            self.object(cpu, at, cell);
            self.out.end();
        } else {
            self.line(cpu, at);
        }
    }

    fn line(&mut self, changed: CpuId, at: Nanos) {
        let all = (0..).map(CpuId).take(self.cells.len());
        let shown: Vec<CpuId> = all.filter(|cpu| self.wanted.cpu(*cpu)).take(self.columns()).collect();
        if !shown.contains(&changed) {
            self.hidden.insert(changed);
            return;
        }
        let new: Vec<Tid> =
            shown.iter().filter_map(|cpu| self.names.untold(self.cells[cpu.index()])).collect();
        let room = self.width.saturating_sub(TIME_COLUMNS + CPU_COLUMNS * shown.len() + 1);
        let stands_behind = room >= LEGEND_COLUMNS.saturating_mul(new.len());
        if !stands_behind {
            for tid in &new {
                self.out.line.push_str("# ");
                self.names.tell(&mut self.out.line, *tid);
                self.out.note();
            }
        }
        let line = &mut self.out.line;
        seconds(line, at);
        line.push(' ');
        for cpu in shown {
            line.push(if cpu == changed { '*' } else { ' ' });
            match self.cells[cpu.index()] {
                Cell::Unknown => line.push_str("? "),
                Cell::Idle => line.push_str(". "),
                Cell::Other => line.push_str("- "),
                Cell::Thread(_, letters) => line.extend(letters.map(char::from)),
            }
        }
        if stands_behind {
            for (k, tid) in new.iter().enumerate() {
                line.push_str(if k == 0 { " " } else { ", " });
                self.names.tell(line, *tid);
            }
        }
        let kept = line.trim_end().len();
        line.truncate(kept);
        self.out.end();
    }

    fn object(&mut self, cpu: CpuId, at: Nanos, cell: Cell) {
        let line = &mut self.out.line;
        let _ = write!(line, r#"{{"time_ns":{},"cpu":{},"tid":"#, at.get(), cpu.0);
        match cell {
            Cell::Unknown | Cell::Other => {
                let _ = write!(
                    line,
                    r#"null,"name":null,"letters":"{}"}}"#,
                    if cell == Cell::Other { "-" } else { "?" }
                );
            }
            Cell::Idle => line.push_str(r#"0,"name":"idle","letters":"."}"#),
            Cell::Thread(tid, letters) => {
                let _ = write!(line, r#"{tid},"name":"#);
                jsonl::string(line, &self.names.comm(tid).text());
                let [a, b] = letters.map(char::from);
                let _ = write!(line, r#","letters":"{a}{b}"}}"#);
            }
        }
    }

    /// This thread leaves the CPU: where its column shows another one, a switch is missing, and the one that comes is new there.
    fn expect(&mut self, cpu: CpuId, prev: Tid) {
        let Some(cell) = self.cells.get_mut(cpu.index()) else { return };
        let is_missing = match cell {
            Cell::Thread(tid, _) => *tid != prev,
            Cell::Idle => prev != Tid::IDLE,
            Cell::Unknown | Cell::Other => false,
        };
        if is_missing {
            *cell = Cell::Unknown;
        }
    }

    fn cell(&mut self, tid: Tid, comm: Comm) -> Cell {
        if tid == Tid::IDLE {
            Cell::Idle
        } else if self.wanted.thread(tid, comm) {
            Cell::Thread(tid, self.names.letters(tid, comm, &self.cells))
        } else {
            Cell::Other
        }
    }
}

impl<W: Write> TraceSink for MapLines<W> {
    fn event(&mut self, event: &Event<'_>) {
        self.window.get_or_insert_with(|| self.wanted.window(event.time));
        match event.kind {
            EventKind::Switch { prev, prev_state, next, next_comm, .. } => {
                self.expect(event.cpu, prev);
                let cell = self.cell(next, next_comm);
                self.change(event.cpu, event.time, cell);
                if prev_state == LeaveState::Dead {
                    self.names.forget(prev);
                }
            }
            EventKind::Lost { .. } => self.change(event.cpu, event.time, Cell::Unknown),
            _ => {}
        }
    }
}

/// Who has which letters.
#[derive(Debug, Default)]
struct Names {
    named: HashMap<Tid, Named>,
    /// Letters that were never given, from this number on.
    next: usize,
    /// Letters of threads that are gone, those that went first in front.
    free: VecDeque<Letters>,
    /// Threads in the order in which they got letters.
    order: VecDeque<(Tid, Letters)>,
}

impl Names {
    /// The letters of a thread, new ones where it has none. Where all are given, the thread gives its up that had them longest and has no CPU.
    fn letters(&mut self, tid: Tid, comm: Comm, cells: &[Cell]) -> Letters {
        if let Some(named) = self.named.get_mut(&tid) {
            if named.comm != comm {
                (named.comm, named.is_told) = (comm, false);
            }
            return named.letters;
        }
        let letters = self.fresh().or_else(|| self.free.pop_front()).unwrap_or_else(|| self.taken(cells));
        self.named.insert(tid, Named { letters, comm, is_told: false });
        if self.order.len() > 2 * self.named.len() + ORDER_SLACK {
            self.order
                .retain(|(tid, letters)| self.named.get(tid).is_some_and(|named| named.letters == *letters));
        }
        self.order.push_back((tid, letters));
        letters
    }

    fn fresh(&mut self) -> Option<Letters> {
        let first = FIRST.get(self.next / SECOND.len())?;
        let letters = [*first, SECOND[self.next % SECOND.len()]];
        self.next += 1;
        Some(letters)
    }

    fn taken(&mut self, cells: &[Cell]) -> Letters {
        for _ in 0..self.order.len() {
            let Some((tid, letters)) = self.order.pop_front() else { break };
            if self.named.get(&tid).is_none_or(|named| named.letters != letters) {
                continue;
            }
            if !cells.contains(&Cell::Thread(tid, letters)) {
                self.named.remove(&tid);
                return letters;
            }
            self.order.push_back((tid, letters));
        }
        // As many CPUs as there are letters have a thread each.
        *b"??"
    }

    /// A thread is gone.
    fn forget(&mut self, tid: Tid) {
        if let Some(named) = self.named.remove(&tid) {
            self.free.push_back(named.letters);
        }
    }

    fn untold(&self, cell: Cell) -> Option<Tid> {
        let Cell::Thread(tid, _) = cell else { return None };
        self.named.get(&tid).filter(|named| !named.is_told).map(|_| tid)
    }

    fn comm(&self, tid: Tid) -> Comm {
        self.named.get(&tid).map_or(Comm::default(), |named| named.comm)
    }

    /// Writes `A0 = NAME TID`.
    fn tell(&mut self, line: &mut String, tid: Tid) {
        let Some(named) = self.named.get_mut(&tid) else { return };
        named.is_told = true;
        line.extend(named.letters.map(char::from));
        line.push_str(" = ");
        word(line, &named.comm);
        line.push(' ');
        integer(line, tid.0.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::feed;

    fn lines(script: &str, wanted: Wanted, json: bool, width: usize) -> (Vec<String>, CpuSet) {
        let mut map = MapLines::new(Vec::new(), wanted, json, None, (width, 0));
        feed(script, &mut map);
        let (hidden, out) = (map.hidden, map.out.into_inner());
        (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), hidden)
    }

    const SCRIPT: &str = "0 0 sw 0 7
        1 1 sw 0 8
        2 0 sw 7:S 9
        3 0 sw 9:X 0
        4 1 sw 8:R+ 10
        5 1 lost
        6 1 sw 10:S 7";

    #[test]
    fn a_line_shows_every_cpu_and_names_who_is_new() {
        let told = [
            "     0.000000000 *A0 A0 = t7 7",
            "     0.000001000  A0*A1 A1 = t8 8",
            "     0.000002000 *A2 A1 A2 = t9 9",
            "     0.000003000 *.  A1",
            "     0.000004000  . *A3 A3 = t10 10",
            "     0.000005000  . *?",
            "     0.000006000  . *A0",
        ];
        assert_eq!(lines(SCRIPT, Wanted::default(), false, 80).0, told);
        let narrow = lines(SCRIPT, Wanted::default(), false, 40).0;
        assert_eq!(narrow[..2], ["# A0 = t7 7", "     0.000000000 *A0"]);
        assert!(narrow.iter().all(|line| line.len() <= 40));
    }

    /// Threads that are not asked for are a dash, and their changes no lines; who runs as the part begins is named in it.
    #[test]
    fn what_is_chosen_is_shown() {
        let one = Wanted { tids: vec![Tid(7)], ..Wanted::default() };
        assert_eq!(
            lines(SCRIPT, one, false, 80).0,
            ["     0.000000000 *A0 A0 = t7 7", "     0.000002000 *-  -", "     0.000006000  . *A0"]
        );
        let late = Wanted { from: Some(Nanos::from_micros(2)), ..Wanted::default() };
        assert_eq!(lines(SCRIPT, late, false, 90).0[0], "     0.000002000 *A2 A1 A2 = t9 9, A1 = t8 8");
        let cpu = Wanted { cpus: Some("1".parse().unwrap()), ..Wanted::default() };
        assert_eq!(lines(SCRIPT, cpu, false, 80).0[0], "     0.000001000 *A1 A1 = t8 8");
    }

    #[test]
    fn a_thread_that_comes_back_after_a_switch_that_is_missing_has_a_line() {
        let told = lines("0 0 sw 0 7\n5 0 sw 8:S 7", Wanted::default(), false, 80).0;
        assert_eq!(told, ["     0.000000000 *A0 A0 = t7 7", "     0.000005000 *A0"]);
    }

    #[test]
    fn cpus_without_room_are_told() {
        let script = "0 3 sw 0 7\n1 0 sw 0 8";
        let (told, hidden) = lines(script, Wanted::default(), false, 23);
        assert_eq!((told.len(), hidden.to_string()), (2, "3".to_owned()));
        assert_eq!(told[1], "     0.000001000 *A1 ?");
    }

    #[test]
    fn json_lines_say_who_has_the_cpu_now() {
        let told = lines(SCRIPT, Wanted::default(), true, 80).0;
        let values: Vec<serde_json::Value> =
            told.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = serde_json::json!({ "time_ns": 0, "cpu": 0, "tid": 7, "name": "t7", "letters": "A0" });
        let idle = serde_json::json!({ "time_ns": 3000, "cpu": 0, "tid": 0, "name": "idle", "letters": "." });
        assert_eq!((&values[0], &values[3]), (&first, &idle));
    }

    /// More threads than letters: letters go from those that had them longest, and from no one who has a CPU.
    #[test]
    fn letters_are_given_again_when_all_are_taken() {
        let mut names = Names::default();
        let most = FIRST.len() * SECOND.len();
        let given: Vec<Letters> =
            (1..).take(most).map(|tid| names.letters(Tid(tid), Comm::default(), &[])).collect();
        let (mut sorted, runs) = (given.clone(), Cell::Thread(Tid(1), given[0]));
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), most);
        assert_eq!(names.letters(Tid(1_000_000), Comm::default(), &[runs]), given[1]);
        names.forget(Tid(9));
        assert_eq!(names.letters(Tid(1_000_001), Comm::default(), &[runs]), given[8]);
        assert_eq!(names.letters(Tid(1), Comm::default(), &[runs]), given[0]);
    }
}
