//! Pages built by hand: every record type in both byte orders and both long sizes, and pages that are damaged.

use proptest::prelude::*;

use super::*;

/// Writes a page word by word.
struct Builder {
    endian: Endian,
    long: usize,
    body: Vec<u8>,
}

impl Builder {
    fn new(endian: Endian, long: usize) -> Builder {
        Builder { endian, long, body: Vec::new() }
    }

    fn layout(&self) -> PageLayout {
        PageLayout::new(8, self.long, 8 + self.long, 4096).unwrap()
    }

    fn put(&self, out: &mut Vec<u8>, value: u64, size: usize) {
        match self.endian {
            Endian::Little => out.extend_from_slice(&value.to_le_bytes()[..size]),
            Endian::Big => out.extend_from_slice(&value.to_be_bytes()[8 - size..]),
        }
    }

    fn word(mut self, value: u32) -> Builder {
        let mut out = std::mem::take(&mut self.body);
        self.put(&mut out, u64::from(value), 4);
        self.body = out;
        self
    }

    fn head(self, kind: u32, delta: u32) -> Builder {
        let word = match self.endian {
            Endian::Little => kind | delta << 5,
            Endian::Big => kind << 27 | delta,
        };
        self.word(word)
    }

    fn finish(&self, time: u64, flags: u64) -> Vec<u8> {
        let mut page = Vec::new();
        self.put(&mut page, time, 8);
        self.put(&mut page, self.body.len() as u64 | flags, self.long);
        page.extend_from_slice(&self.body);
        if flags & MISSING_STORED != 0 {
            self.put(&mut page, 77, self.long);
        }
        page.resize(4096, 0xee);
        page
    }
}

fn shapes() -> impl Iterator<Item = Builder> {
    [(Endian::Little, 8), (Endian::Little, 4), (Endian::Big, 8), (Endian::Big, 4)]
        .into_iter()
        .map(|(endian, long)| Builder::new(endian, long))
}

fn times_and_lengths(page: &[u8], builder: &Builder) -> (Vec<(u64, usize)>, Option<PageFault>) {
    let mut records = Records::new(page, builder.layout(), builder.endian);
    let read = records.by_ref().map(|r| (r.time, r.bytes.len())).collect();
    (read, records.fault())
}

#[test]
fn every_record_type_in_every_shape() {
    for shape in shapes() {
        let page = shape
            .head(1, 0)
            .word(1)
            .head(28, 5)
            .body_of(28)
            .head(30, 3) // + 3 + (2 << 27)
            .word(2)
            .head(2, 0)
            .word(7)
            .word(7)
            .head(0, 10) // ten bytes of content, rounded up to twelve
            .word(4 + 10)
            .body_of(3)
            .head(29, 100) // discarded, eight bytes in all; its time counts
            .word(4)
            .head(1, 1)
            .word(0)
            .head(31, 9) // absolute: (4 << 27) + 9
            .word(4)
            .head(1, 1)
            .word(0)
            .head(29, 0) // the rest of the page is empty
            .word(0xdead_beef)
            .head(1, 1)
            .word(0);
        let (read, fault) = times_and_lengths(&page.finish(1000, 0), &page);
        let extended = 1000 + 5 + 3 + (2 << 27);
        let stamped = (4 << 27) + 9;
        let expected = [
            (1000, 4),
            (1005, 112),
            (extended, 8),
            (extended + 10, 12),
            (extended + 111, 4),
            (stamped + 1, 4),
        ];
        assert_eq!(read, expected, "{:?} {}", page.endian, page.long);
        assert_eq!(fault, None);
    }
}

impl Builder {
    fn body_of(self, words: u32) -> Builder {
        (0..words).fold(self, Builder::word)
    }
}

#[test]
fn record_bytes_are_the_payload() {
    for shape in shapes() {
        let page = shape.head(2, 0).word(0x0102_0304).word(5);
        let bytes = page.finish(0, 0);
        let record = Records::new(&bytes, page.layout(), page.endian).next().unwrap();
        assert_eq!(page.endian.u32(record.bytes, 0), Some(0x0102_0304));
        assert_eq!(page.endian.u32(record.bytes, 4), Some(5));
    }
}

#[test]
fn lost_events_with_and_without_their_number() {
    for shape in shapes() {
        let page = shape.head(1, 0).word(1);
        for (flags, lost) in
            [(0, None), (MISSING_EVENTS, Some(None)), (MISSING_EVENTS | MISSING_STORED, Some(Some(77)))]
        {
            let bytes = page.finish(5, flags);
            let records = Records::new(&bytes, page.layout(), page.endian);
            assert_eq!(records.lost(), lost);
            assert_eq!(records.count(), 1, "the flags do not hide the records");
        }
    }
}

#[test]
fn an_absolute_stamp_keeps_the_top_bits_and_sees_a_wrap() {
    let top = 1 << 60;
    for (before, stamp, after) in [
        (100, 200, 200),
        (100, 50, 50), // no top bits: the clock is young, so this is disorder, not a wrap
        (top | 100, 200, top | 200),
        (top | 100, 50, (top | 50) + (1 << 59)),
    ] {
        assert_eq!(absolute(before, stamp), after);
    }
}

#[test]
fn damage_ends_the_page_and_keeps_what_came_before() {
    for shape in shapes() {
        let good = shape.head(1, 2).word(1);
        let (endian, long) = (good.endian, good.long);
        let damaged = [
            good.again().head(28, 1).word(0),       // longer than what was committed
            good.again().head(0, 1),                // its length word is missing
            good.again().head(0, 1).word(0),        // a length that does not hold itself
            good.again().head(0, 1).word(u32::MAX), // a length beyond everything
            good.again().head(29, 1).word(1000),    // discarded, beyond the page
            good.again().head(30, 1),               // half an extension
        ];
        for page in damaged {
            let (read, fault) = times_and_lengths(&page.finish(10, 0), &page);
            assert_eq!((read, fault), (vec![(12, 4)], Some(PageFault::Overlong)), "{endian:?} {long}");
        }
    }
}

impl Builder {
    fn again(&self) -> Builder {
        Builder { endian: self.endian, long: self.long, body: self.body.clone() }
    }
}

#[test]
fn a_cut_page_keeps_whole_records() {
    for shape in shapes() {
        let page = shape.head(1, 1).word(1).head(1, 1).word(2).head(1, 1).word(3);
        let whole = page.finish(0, 0);
        let data = 8 + page.long;
        for cut in 0..data + page.body.len() {
            let (read, fault) = times_and_lengths(&whole[..cut], &page);
            assert_eq!(read.len(), cut.saturating_sub(data) / 8, "cut at {cut}");
            assert_eq!(fault, (cut > 0).then_some(PageFault::Truncated), "cut at {cut}");
        }
    }
}

#[test]
fn a_commit_larger_than_a_page_is_damage() {
    let page = Builder::new(Endian::Little, 8).head(1, 0).word(0);
    let mut bytes = page.finish(0, 0);
    bytes[8..12].copy_from_slice(&0x07ff_ffff_u32.to_le_bytes());
    let mut records = Records::new(&bytes, page.layout(), page.endian);
    assert_eq!(records.by_ref().next().map(|r| r.bytes.len()), Some(4));
    records.by_ref().for_each(drop);
    assert_eq!(records.fault(), Some(PageFault::Overlong));
}

proptest! {
    /// Whatever the bytes: no panic, records lie inside the page in order, and there are not more than fit.
    #[test]
    fn random_pages_are_walked_to_an_end(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        little in any::<bool>(),
        wide in any::<bool>(),
        commit in 0u32..700,
    ) {
        let long = if wide { 8 } else { 4 };
        let endian = if little { Endian::Little } else { Endian::Big };
        let layout = PageLayout::new(8, long, 8 + long, 600).unwrap();
        let mut bytes = bytes;
        let raw = if little { commit.to_le_bytes() } else { commit.to_be_bytes() };
        let low = if little || !wide { 8 } else { 12 };
        if let Some(place) = bytes.get_mut(low..low + 4) {
            place.copy_from_slice(&raw);
        }
        let base = bytes.as_ptr() as usize;
        let mut reached = base;
        let mut count = 0;
        let mut records = Records::new(&bytes, layout, endian);
        for record in records.by_ref() {
            let start = record.bytes.as_ptr() as usize;
            prop_assert!(start >= reached && start + record.bytes.len() <= base + bytes.len());
            reached = start + record.bytes.len();
            count += 1;
        }
        prop_assert!(count <= bytes.len() / 4);
        prop_assert_eq!(records.next(), None, "an exhausted page stays exhausted");
    }

    /// Times within a page only grow, unless an absolute stamp says otherwise.
    #[test]
    fn times_grow_without_stamps(
        deltas in prop::collection::vec((0u32..1 << 27, 1u32..5), 1..40),
        start in 0u64..1 << 62,
    ) {
        let mut page = Builder::new(Endian::NATIVE, 8);
        for (delta, words) in &deltas {
            page = page.head(*words, *delta).body_of(*words);
        }
        let bytes = page.finish(start, 0);
        let times: Vec<u64> = Records::new(&bytes, page.layout(), page.endian).map(|r| r.time).collect();
        prop_assert_eq!(times.len(), deltas.len());
        prop_assert!(times.is_sorted() && times[0] >= start);
    }
}
