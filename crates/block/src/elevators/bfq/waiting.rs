//! [`Waiting`]: the queues that wait for their turn, in the order in which they began to (`bfqd->active_list`).

/// The ends of a list, as a queue's neighbour: no queue has so high a number.
const NONE: usize = usize::MAX;

/// A list through the numbers of queues: each knows its neighbours.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    last: usize,
    /// Before each, and behind it.
    links: Vec<(usize, usize)>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { last: NONE, links: Vec::new() }
    }
}

impl Waiting {
    /// Adds one, which is not in it, at the end.
    pub(super) fn push(&mut self, id: usize) {
        let room = self.links.len().max(id + 1);
        self.links.resize(room, (NONE, NONE));
        self.links[id] = (self.last, NONE);
        if let Some(last) = self.links.get_mut(self.last) {
            last.1 = id;
        }
        self.last = id;
    }

    /// Takes one out that is in it.
    pub(super) fn remove(&mut self, id: usize) {
        let (before, behind) = self.links[id];
        if let Some(link) = self.links.get_mut(before) {
            link.1 = behind;
        }
        match self.links.get_mut(behind) {
            Some(link) => link.0 = before,
            None => self.last = before,
        }
    }

    /// The last to come first.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let first = (self.last != NONE).then_some(self.last);
        std::iter::successors(first, |id| Some(self.links[*id].0).filter(|before| *before != NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_come_is_the_first() {
        let mut waiting = Waiting::default();
        [3, 0, 5, 1].into_iter().for_each(|id| waiting.push(id));
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [1, 5, 0, 3]);
        [5, 1, 3].into_iter().for_each(|id| waiting.remove(id));
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [0]);
        waiting.push(5);
        waiting.remove(0);
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [5]);
        waiting.remove(5);
        assert_eq!(waiting.iter().count(), 0);
    }
}
