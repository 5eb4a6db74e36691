//! [`Around`]: who had the CPUs around one job, fine enough to be drawn.
//!
//! Time is cut into [`CELLS`] cells; in each of them stands who had most of it. So what is kept does not follow how often CPUs changed
//! hands, and a stretch is where it was to a thousandth of the drawing.

use surety_model::event::Comm;
use surety_model::job::Job;
use surety_units::{CpuId, Nanos, Tid};

use super::kind::Kind;
use super::{Culprit, Piece};

/// Cells of the time that is shown.
pub const CELLS: i64 = 1000;
/// CPUs that are shown at most: those on which the job ran or waited first.
pub const LANES_MAX: usize = 8;
/// The time before the release that is shown, as a part of the response: one in so many.
const BEFORE: i64 = 10;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It ran.
    Runs,
    /// It was ready, and its CPU was another's, or its budget used up.
    Ready,
    /// It waited for something else, or was not woken yet.
    Waits,
}

/// Who had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The job's thread.
    Own,
    /// Another thread.
    Other(Culprit),
    /// The trace does not say.
    Unknown,
}

/// A stretch of time in which one thing was the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretched<T> {
    pub from: Nanos,
    pub until: Nanos,
    pub what: T,
}

/// A CPU, and who had it when; what is left out it was idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub cpu: CpuId,
    /// In order of time, without overlap.
    pub held: Vec<Stretched<Holder>>,
}

/// A job and the CPUs around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Around {
    pub tid: Tid,
    /// Its thread's name when it completed.
    pub comm: Comm,
    pub job: Job,
    /// The time that is shown: from a little before the release to the completion.
    pub from: Nanos,
    /// Its end.
    pub until: Nanos,
    /// What became of the job; what is left out is not known.
    pub states: Vec<Stretched<State>>,
    /// CPUs by number.
    pub lanes: Vec<Lane>,
    /// CPUs of the trace that are not shown.
    pub hidden: usize,
}

/// The time that is shown of a job.
pub(super) fn shown(job: &Job) -> (Nanos, Nanos) {
    let before = Nanos::new(job.response().get() / BEFORE);
    (job.release.saturating_sub(before), job.completion)
}

/// What became of a job of which these are the pieces.
pub(super) fn states(pieces: &[Piece], time: (Nanos, Nanos)) -> Vec<Stretched<State>> {
    let mut cells = Cells::new(time, CELLS);
    for piece in pieces {
        let state = match piece.cause.kind() {
            Kind::Cpu => Some(State::Runs),
            Kind::CpuOfOthers => Some(State::Ready),
            Kind::Unknown => None,
            _ => Some(State::Waits),
        };
        cells.add(piece.from, piece.until, state);
    }
    cells.finish()
}

/// The CPUs to show of so many: those of the pieces first.
pub(super) fn chosen(pieces: &[Piece], cpus: usize) -> Vec<CpuId> {
    let mut chosen: Vec<CpuId> = Vec::new();
    let own = pieces.iter().filter_map(|piece| piece.cpu);
    for cpu in own.chain((0..).map(CpuId).take(cpus)) {
        if chosen.len() == LANES_MAX {
            break;
        }
        if !chosen.contains(&cpu) {
            chosen.push(cpu);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The same stretches in fewer cells of the time: in each stands what was the case for most of it.
pub fn coarse<T: Copy + PartialEq>(
    stretches: &[Stretched<T>],
    time: (Nanos, Nanos),
    count: i64,
) -> Vec<Stretched<T>> {
    let mut cells = Cells::new(time, count);
    let mut cursor = time.0;
    for stretch in stretches {
        cells.add(cursor, stretch.from, None);
        cells.add(stretch.from, stretch.until, Some(stretch.what));
        cursor = stretch.until;
    }
    cells.add(cursor, time.1, None);
    cells.finish()
}

/// Puts stretches into cells.
#[derive(Debug)]
pub(super) struct Cells<T> {
    from: Nanos,
    length: i64,
    count: i64,
    /// The cell that is open.
    cell: i64,
    /// What was the case in it, for how long.
    seen: Vec<(Option<T>, i64)>,
    out: Vec<Stretched<T>>,
}

impl<T: Copy + PartialEq> Cells<T> {
    /// The time in `count` cells.
    pub(super) fn new((from, until): (Nanos, Nanos), count: i64) -> Cells<T> {
        let length = (until - from).get().max(1);
        Cells { from, length, count: count.max(1), cell: 0, seen: Vec::new(), out: Vec::new() }
    }

    /// Where a cell begins.
    fn border(&self, cell: i64) -> Nanos {
        let part = i128::from(self.length) * i128::from(cell) / i128::from(self.count);
        Nanos::new(self.from.get().saturating_add(i64::try_from(part).unwrap_or(i64::MAX)))
    }

    /// From `from` to `until`, not before what was told last, this was the case; `None`: nothing is to be shown.
    pub(super) fn add(&mut self, from: Nanos, until: Nanos, what: Option<T>) {
        let mut cursor = from.max(self.from);
        while cursor < until && self.cell < self.count {
            let end = self.border(self.cell + 1);
            if cursor >= end {
                self.close();
                continue;
            }
            let part = (until.min(end) - cursor).get();
            match self.seen.iter_mut().find(|(seen, _)| *seen == what) {
                Some((_, time)) => *time += part,
                None => self.seen.push((what, part)),
            }
            cursor = until.min(end);
        }
    }

    fn close(&mut self) {
        let most = self.seen.iter().max_by_key(|(_, time)| *time).and_then(|(what, _)| *what);
        let (from, until) = (self.border(self.cell), self.border(self.cell + 1));
        self.cell += 1;
        self.seen.clear();
        let Some(what) = most else { return };
        match self.out.last_mut() {
            Some(last) if last.what == what && last.until == from => last.until = until,
            _ => self.out.push(Stretched { from, until, what }),
        }
    }

    pub(super) fn finish(mut self) -> Vec<Stretched<T>> {
        if self.cell < self.count {
            self.close();
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cell_is_whose_most_of_it_was() {
        let mut cells = Cells::new((Nanos::ZERO, Nanos::new(CELLS * 10)), CELLS);
        for (from, until, what) in
            [(0, 14, Some('a')), (14, 25, Some('b')), (25, 40, None), (40, 60, Some('b'))]
        {
            cells.add(Nanos::new(from), Nanos::new(until), what);
        }
        let told: Vec<(i64, i64, char)> =
            cells.finish().iter().map(|s| (s.from.get(), s.until.get(), s.what)).collect();
        assert_eq!(told, [(0, 10, 'a'), (10, 20, 'b'), (40, 60, 'b')]);
    }

    #[test]
    fn fewer_cells_show_what_took_most() {
        let at = |from, until, what| Stretched { from: Nanos::new(from), until: Nanos::new(until), what };
        let fine = [at(0, 30, 'a'), at(30, 40, 'b'), at(60, 100, 'c')];
        let time = (Nanos::ZERO, Nanos::new(200));
        assert_eq!(coarse(&fine, time, 4), [at(0, 50, 'a'), at(50, 100, 'c')]);
        assert_eq!(coarse(&fine, time, 200), fine);
    }

    proptest! {
        /// Whatever comes, stretches are in order, apart, inside, and at most as many as cells.
        #[test]
        fn stretches_stay_inside(steps in proptest::collection::vec((0i64..4000, 0u8..4), 0..200), length in 1i64..100_000) {
            let mut cells = Cells::new((Nanos::new(5), Nanos::new(5 + length)), CELLS);
            let mut at = 0;
            for (step, what) in steps {
                cells.add(Nanos::new(at), Nanos::new(at + step), (what > 0).then_some(what));
                at += step;
            }
            let told = cells.finish();
            prop_assert!(told.len() as i64 <= CELLS);
            prop_assert!(told.iter().all(|s| 5 <= s.from.get() && s.from <= s.until && s.until.get() <= 5 + length));
            prop_assert!(told.windows(2).all(|pair| pair[0].until <= pair[1].from));
        }
    }
}
