//! [`Buffer`]: the segments of a drive's buffer, and which sectors each holds.
//!
//! A segment holds one run of sectors; what does not fit falls out at its front. The one used longest ago is taken for new
//! data. Writes are put in segments too, which stay until their sectors are on the medium.

/// Index of a segment.
pub type SegmentId = usize;

/// One run of sectors in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    /// The first sector after it; equal to `start`: it is empty.
    pub end: u64,
    /// When it was used last, in uses of the buffer.
    used: u64,
    /// Writes of it that are not on the medium.
    pub dirty: u32,
}

impl Segment {
    /// Whether it holds a sector.
    pub fn holds(&self, sector: u64) -> bool {
        (self.start..self.end).contains(&sector)
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// All segments.
#[derive(Clone, Debug)]
pub struct Buffer {
    segments: Vec<Segment>,
    /// Sectors of a segment.
    size: u64,
    uses: u64,
}

impl Buffer {
    /// `count` segments of `size` sectors.
    pub fn new(count: usize, size: u64) -> Buffer {
        Buffer { segments: vec![Segment::default(); count], size, uses: 0 }
    }

    /// What a segment holds.
    pub fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id]
    }

    /// The segment that holds a sector and most after it.
    pub fn find(&self, sector: u64) -> Option<SegmentId> {
        let holds = self.segments.iter().enumerate().filter(|(_, segment)| segment.holds(sector));
        holds.max_by_key(|(_, segment)| segment.end).map(|(id, _)| id)
    }

    /// A dirty segment that ends at a sector and has room for more.
    pub fn find_appendable(&self, sector: u64) -> Option<SegmentId> {
        self.segments.iter().position(|segment| segment.dirty > 0 && segment.end == sector)
    }

    /// Counts a use.
    pub fn touch(&mut self, id: SegmentId) {
        self.uses += 1;
        self.segments[id].used = self.uses;
    }

    /// A clean segment that a write makes stale anyway, emptied at its first sector.
    pub fn take_stale(&mut self, start: u64, end: u64) -> Option<SegmentId> {
        let id =
            self.segments.iter().position(|segment| segment.dirty == 0 && segment.overlaps(start, end))?;
        (self.segments[id].start, self.segments[id].end) = (start, start);
        self.touch(id);
        Some(id)
    }

    /// Takes the segment used longest ago that is not dirty, and empties it at a sector; an empty one is taken first.
    pub fn take(&mut self, sector: u64) -> Option<SegmentId> {
        // One number to compare, for this is asked for each request: those that are not empty come behind all that are.
        let age = |segment: &Segment| segment.used | u64::from(segment.start < segment.end) << 63;
        let free = self.segments.iter().enumerate().filter(|(_, segment)| segment.dirty == 0);
        let (id, _) = free.map(|(id, segment)| (id, age(segment))).min_by_key(|(_, age)| *age)?;
        self.segments[id] = Segment { start: sector, end: sector, used: 0, dirty: 0 };
        self.touch(id);
        Some(id)
    }

    /// Lets a segment hold a run; of more than its size the end stays.
    pub fn set(&mut self, id: SegmentId, start: u64, end: u64) {
        let segment = &mut self.segments[id];
        segment.end = end;
        segment.start = start.max(end.saturating_sub(self.size));
    }

    /// Notes a write that is not on the medium, or that it is.
    pub fn mark(&mut self, id: SegmentId, dirty: bool) {
        let count = &mut self.segments[id].dirty;
        *count = if dirty { *count + 1 } else { *count - 1 };
    }

    /// Empties what a write makes stale, but for the segment the write is in and dirty ones, which are written first.
    pub fn forget(&mut self, start: u64, end: u64, but: Option<SegmentId>) {
        for (id, segment) in self.segments.iter_mut().enumerate() {
            if Some(id) != but && segment.overlaps(start, end) && segment.dirty == 0 {
                segment.end = segment.start;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_used_longest_ago_is_taken_and_dirty_ones_stay() {
        let mut buffer = Buffer::new(3, 10);
        let ids: Vec<SegmentId> = [0, 100, 200]
            .into_iter()
            .map(|at| {
                let id = buffer.take(at).unwrap();
                buffer.set(id, at, at + 15);
                id
            })
            .collect();
        assert_eq!(buffer.segment(ids[0]).start, 5, "what does not fit falls out at the front");
        buffer.mark(ids[0], true);
        buffer.touch(ids[1]);
        assert_eq!(buffer.take(300), Some(ids[2]));
        assert_eq!((buffer.find(7), buffer.find(207)), (Some(ids[0]), None));
        buffer.forget(0, 1000, None);
        assert_eq!((buffer.find(7), buffer.find(107)), (Some(ids[0]), None));
        assert_eq!(buffer.find_appendable(15), Some(ids[0]));
    }
}
