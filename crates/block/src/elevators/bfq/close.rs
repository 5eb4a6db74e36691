//! Where the next requests of queues begin, to find the one closest to a sector (`bfqg->rq_pos_tree`).

use super::*;

/// Sectors within which two queues read close to each other (`BFQQ_CLOSE_THR`).
pub(super) const CLOSE: u64 = 8 * 1024;

impl Bfq {
    /// A queue has another next request, or none, or the one it has begins elsewhere.
    pub(super) fn has_next(&mut self, requests: &Requests, q: usize, next: Option<RequestId>) {
        self.queues[q].next = next;
        self.places(q, next.map(|next| requests[next].sector));
    }

    /// A queue's next request begins at a sector; `None`: it has none.
    pub(super) fn places(&mut self, q: usize, sector: Option<u64>) {
        let sector = sector.filter(|_| self.set.merging && !self.is_flash_with_queue());
        let before = std::mem::replace(&mut self.queues[q].begins, sector);
        if before != sector {
            if let Some(before) = before {
                self.begins.remove(&(before, q));
            }
            if let Some(sector) = sector {
                self.begins.insert((sector, q));
            }
        }
    }

    /// It has turned out that queues that read close to each other are merged on this device.
    pub(super) fn places_all(&mut self, requests: &Requests) {
        for q in 0..self.queues.len() {
            self.has_next(requests, q, self.queues[q].next);
        }
    }

    /// The queue whose next request is closest to a sector, where one is close; of two the older.
    pub(super) fn closest(&self, now: Nanos, sector: u64) -> Option<usize> {
        let may = |q: usize| {
            self.queues[q].priority.class != IoClass::Idle && !self.has_been_served_for_long(q, now)
        };
        let best = |best: Option<(u64, usize)>, (begins, q): &(u64, usize)| {
            let distance = begins.abs_diff(sector);
            match best {
                Some((closest, _)) if distance > closest => Err(best),
                best if may(*q) => Ok(best.into_iter().chain([(distance, *q)]).min()),
                best => Ok(best),
            }
        };
        let (low, high) = (sector.saturating_sub(CLOSE), sector.saturating_add(CLOSE));
        let mut before = self.begins.range((low, 0)..(sector, 0)).rev();
        let mut behind = self.begins.range((sector, 0)..=(high, usize::MAX));
        let sides = [before.try_fold(None, best), behind.try_fold(None, best)];
        let closest = sides.into_iter().filter_map(|side| side.unwrap_or_else(|found| found)).min();
        closest.map(|(_, q)| q)
    }
}
