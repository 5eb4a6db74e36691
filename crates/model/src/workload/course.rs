//! [`Course`]: in which order the steps of a job are taken, loops and all; [`Cursor`]: where a job stands on it.

use super::Phase;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// The step of this number among the leaves.
    Leaf(usize),
    /// The end of a loop: back to an instruction until the loop was passed `times` times.
    Again { to: usize, times: Option<u64>, counter: usize },
}

/// The order of the steps, which are numbered as [`super::leaves`] lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    instructions: Vec<Instruction>,
    leaves: usize,
    loops: usize,
}

impl Course {
    /// That of these phases.
    pub fn of(phases: &[Phase]) -> Course {
        let mut course = Course::default();
        course.add(phases);
        course
    }

    /// One step after another, without loops.
    pub fn straight(leaves: usize) -> Course {
        Course { instructions: (0..leaves).map(Instruction::Leaf).collect(), leaves, loops: 0 }
    }

    fn add(&mut self, phases: &[Phase]) {
        for phase in phases {
            if let Phase::Loop { times, phases } = phase {
                let (to, counter) = (self.instructions.len(), self.loops);
                self.loops += 1;
                self.add(phases);
                // A loop without steps is passed once: nothing in it takes time.
                if self.instructions.len() > to {
                    self.instructions.push(Instruction::Again { to, times: *times, counter });
                }
            } else {
                self.instructions.push(Instruction::Leaf(self.leaves));
                self.leaves += 1;
            }
        }
    }

    /// A cursor at its beginning.
    pub fn cursor(&self) -> Cursor {
        Cursor { at: 0, passed: vec![0; self.loops], taken: vec![0; self.leaves] }
    }
}

/// A step to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Among the leaves, from 0.
    pub leaf: usize,
    /// How often it was taken before in this job.
    pub before: u64,
}

/// Where one job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: usize,
    passed: Vec<u64>,
    taken: Vec<u64>,
}

impl Cursor {
    /// Back to the beginning.
    pub fn restart(&mut self) {
        self.at = 0;
        self.passed.fill(0);
        self.taken.fill(0);
    }

    /// The next step; `None` at the end.
    pub fn next(&mut self, course: &Course) -> Option<Taken> {
        loop {
            match *course.instructions.get(self.at)? {
                Instruction::Leaf(leaf) => {
                    self.at += 1;
                    let before = self.taken[leaf];
                    self.taken[leaf] += 1;
                    return Some(Taken { leaf, before });
                }
                Instruction::Again { to, times, counter } => {
                    self.passed[counter] += 1;
                    if times.is_some_and(|times| self.passed[counter] >= times) {
                        self.passed[counter] = 0;
                        self.at += 1;
                    } else {
                        self.at = to;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(phases: &[Phase], most: usize) -> Vec<(usize, u64)> {
        let course = Course::of(phases);
        let mut cursor = course.cursor();
        let steps = std::iter::from_fn(|| cursor.next(&course).map(|taken| (taken.leaf, taken.before)));
        steps.take(most).collect()
    }

    fn again(times: Option<u64>, phases: Vec<Phase>) -> Phase {
        Phase::Loop { times, phases }
    }

    #[test]
    fn loops_are_taken_as_often_as_they_say_and_again_when_they_are_met_again() {
        let inner = again(Some(2), vec![Phase::Yield]);
        let outer = again(Some(2), vec![Phase::Yield, inner]);
        let all = [Phase::Yield, outer, Phase::Yield];
        let expected = vec![(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (2, 2), (2, 3), (3, 0)];
        assert_eq!(taken(&all, 100), expected);
    }

    #[test]
    fn a_loop_for_ever_has_no_end_and_an_empty_one_no_steps() {
        assert_eq!(taken(&[again(None, vec![Phase::Yield]), Phase::Yield], 3), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(taken(&[again(None, vec![again(Some(3), vec![])]), Phase::Yield], 3), [(0, 0)]);
    }

    #[test]
    fn a_cursor_begins_anew() {
        let course = Course::of(&[again(Some(3), vec![Phase::Yield])]);
        let mut cursor = course.cursor();
        cursor.next(&course);
        cursor.next(&course);
        cursor.restart();
        assert_eq!(cursor, course.cursor());
        assert_eq!(Course::straight(2), Course::of(&[Phase::Yield, Phase::Yield]));
    }
}
