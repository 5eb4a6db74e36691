//! Where the next requests of queues begin, to find the one closest to a sector (`bfqg->rq_pos_tree`).

use super::*;

/// Sectors within which two queues read close to each other (`BFQQ_CLOSE_THR`).
pub(super) const CLOSE: u64 = 8 * 1024;

impl Bfq {
    /// A queue has another next request, or none, or the one it has begins elsewhere.
    pub(super) fn has_next(&mut self, q: usize, next: Option<RequestId>) {
        let queue = &mut self.queues[q];
        queue.next = next;
        // It is given its place when somebody looks.
        if self.set.merging && !std::mem::replace(&mut queue.has_moved, true) {
            self.moved.push(q);
        }
    }

    /// Queues whose next requests are others now are given their places.
    fn places(&mut self, requests: &Requests) {
        for q in self.moved.drain(..) {
            let (queue, group) = (&mut self.queues[q], self.engine.of(q).group);
            queue.has_moved = false;
            let sector = queue.next.map(|next| requests[next].sector);
            let before = std::mem::replace(&mut queue.begins, sector);
            if before != sector {
                if let Some(before) = before {
                    self.begins.remove(&(group, before, q));
                }
                if let Some(sector) = sector {
                    self.begins.insert((group, sector, q));
                }
            }
        }
    }

    /// The queue of a group whose next request is closest to a sector, where one is close; of two the older.
    pub(super) fn closest(&mut self, context: &Context<'_>, group: usize, sector: u64) -> Option<usize> {
        self.places(context.requests);
        let now = context.now;
        let may = |q: usize| {
            self.queues[q].priority.class != IoClass::Idle && !self.has_been_served_for_long(q, now)
        };
        let best = |best: Option<(u64, usize)>, (_, begins, q): &(usize, u64, usize)| {
            let distance = begins.abs_diff(sector);
            match best {
                Some((closest, _)) if distance > closest => Err(best),
                best if may(*q) => Ok(best.into_iter().chain([(distance, *q)]).min()),
                best => Ok(best),
            }
        };
        let (low, high) = (sector.saturating_sub(CLOSE), sector.saturating_add(CLOSE));
        let mut before = self.begins.range((group, low, 0)..(group, sector, 0)).rev();
        let mut behind = self.begins.range((group, sector, 0)..=(group, high, usize::MAX));
        let sides = [before.try_fold(None, best), behind.try_fold(None, best)];
        let closest = sides.into_iter().filter_map(|side| side.unwrap_or_else(|found| found)).min();
        closest.map(|(_, q)| q)
    }
}
