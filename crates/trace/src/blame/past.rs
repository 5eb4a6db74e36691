//! [`Track`]: what was the case when, as far back as is remembered.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::START_FACTOR;

/// What was the case, from which instant on.
#[derive(Clone, Debug)]
pub(super) struct Track<T> {
    pub(super) changes: VecDeque<(Nanos, T)>,
}

impl<T: Copy + PartialEq> Track<T> {
    pub(super) fn new() -> Track<T> {
        Track { changes: VecDeque::new() }
    }

    /// From `at` on it is `now`. A change that is learned late cannot reach back behind the last one.
    pub(super) fn change(&mut self, at: Nanos, now: T, max: usize) {
        match self.changes.back_mut() {
            Some((_, last)) if *last == now => {}
            Some((since, last)) if *since >= at => *last = now,
            _ => {
                keep(&mut self.changes, (at, now), max);
            }
        }
    }

    /// Forgets what ended before `at`.
    pub(super) fn forget_before(&mut self, at: Nanos) {
        while self.changes.get(1).is_some_and(|(next, _)| *next <= at) {
            self.changes.pop_front();
        }
    }

    /// Until when it is so what was just before `at`, as far as is known.
    pub(super) fn lasts(&self, at: Nanos) -> Nanos {
        let next = self.changes.partition_point(|(change, _)| *change < at);
        self.changes.get(next).map_or(at, |(change, _)| *change)
    }

    /// Walks `from..until`: every instant of it once, in order; `None` where nothing is known.
    pub(super) fn walk(&self, from: Nanos, until: Nanos, mut step: impl FnMut(Nanos, Nanos, Option<T>)) {
        let first = self.changes.partition_point(|(at, _)| *at <= from);
        let mut now = first.checked_sub(1).map(|k| self.changes[k].1);
        let mut cursor = from;
        for (at, next) in self.changes.range(first..) {
            if *at >= until {
                break;
            }
            step(cursor, *at, now);
            (cursor, now) = (*at, Some(*next));
        }
        if cursor < until {
            step(cursor, until, now);
        }
    }
}

/// How many changes are kept where it is `most` while no start-up is under way.
pub(super) fn room(most: usize, is_starting: bool) -> usize {
    if is_starting { most * START_FACTOR } else { most }
}

/// Keeps the last ones.
pub(super) fn keep<T>(kept: &mut VecDeque<T>, last: T, most: usize) {
    while kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(last);
}
