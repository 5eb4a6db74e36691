//! Merging: order, ties, loss, disorder, damage, and sources that fail.

use proptest::prelude::*;

use super::*;

/// A little-endian page of 4-byte records; each is a time and its value.
pub(super) fn page(records: &[(u64, u32)], flags: u64) -> Vec<u8> {
    let start = records.first().map_or(0, |r| r.0);
    let mut bytes = start.to_le_bytes().to_vec();
    let mut body = Vec::new();
    let mut before = start;
    for (time, value) in records {
        // An absolute stamp before each, so that tests may go back in time.
        if *time < before {
            body.extend((31 | ((time & ((1 << 27) - 1)) as u32) << 5).to_le_bytes());
            body.extend(((time >> 27) as u32).to_le_bytes());
            before = *time;
        }
        body.extend((1 | ((time - before) as u32) << 5).to_le_bytes());
        body.extend(value.to_le_bytes());
        before = *time;
    }
    bytes.extend((body.len() as u64 | flags).to_le_bytes());
    bytes.extend(body);
    bytes.resize(SIZE, 0);
    bytes
}

pub(super) const SIZE: usize = 256;
pub(super) const LOST: u64 = 1 << 31;

pub(super) fn layout() -> PageLayout {
    PageLayout::new(8, 8, 16, SIZE).unwrap()
}

/// CPU, time and value; `None` stands for lost events.
fn merged(sources: Vec<(u32, Vec<u8>)>) -> (Vec<(u32, u64, Option<u32>)>, MergeCounts) {
    let mut seen = Vec::new();
    let sources = sources.into_iter().map(|(cpu, bytes)| (CpuId(cpu), bytes));
    let mut merge = Merge::new(layout(), Endian::Little, sources);
    let counts = merge
        .for_each(|cpu, time, item| {
            let value = match item {
                Item::Record(bytes) => Endian::Little.u32(bytes, 0),
                Item::Lost(_) => None,
            };
            seen.push((cpu.0, time, value));
        })
        .unwrap();
    (seen, counts)
}

#[test]
fn by_time_then_cpu_then_as_recorded() {
    let (seen, counts) = merged(vec![
        (3, page(&[(10, 1), (20, 2), (20, 3)], 0)),
        (0, [page(&[(15, 4), (20, 5)], 0), page(&[(20, 6), (30, 7)], 0)].concat()),
        (1, Vec::new()),
    ]);
    let values: Vec<u32> = seen.iter().filter_map(|s| s.2).collect();
    assert_eq!(values, [1, 4, 5, 6, 2, 3, 7]);
    assert_eq!(counts, MergeCounts { pages: 3, ..MergeCounts::default() });
}

#[test]
fn losses_stand_before_what_follows_them() {
    let empty_but_lost = page(&[], LOST);
    let (seen, _) = merged(vec![(0, [page(&[(5, 1)], LOST), empty_but_lost, page(&[(9, 2)], 0)].concat())]);
    assert_eq!(seen, [(0, 5, None), (0, 5, Some(1)), (0, 9, None), (0, 9, Some(2))]);
}

#[test]
fn time_never_goes_back_within_a_cpu() {
    let (seen, counts) =
        merged(vec![(0, [page(&[(100, 1), (97, 2)], 0), page(&[(90, 3), (101, 4)], 0)].concat())]);
    let times: Vec<u64> = seen.iter().map(|s| s.1).collect();
    assert_eq!(times, [100, 100, 100, 101]);
    assert_eq!((counts.disordered, counts.disorder_max), (2, 10));
}

#[test]
fn times_beyond_63_bits_stop_before_they_are_ordered() {
    let (seen, _) = merged(vec![(0, page(&[(u64::MAX, 1)], 0)), (1, page(&[(1 << 63, 2)], 0))]);
    assert_eq!(seen, [(0, TIME_MAX, Some(1)), (1, TIME_MAX, Some(2))]);
}

#[test]
fn damage_is_counted_and_told_as_loss() {
    let mut damaged = page(&[(5, 1), (6, 2)], 0);
    damaged[24] = 28; // the second record now claims 112 bytes
    let (seen, counts) = merged(vec![(0, [damaged, page(&[(9, 3)], 0)].concat())]);
    assert_eq!(seen, [(0, 5, Some(1)), (0, 9, None), (0, 9, Some(3))]);
    assert_eq!((counts.damaged_pages, counts.truncated), (1, 0));
}

#[test]
fn a_cut_file_keeps_what_is_whole() {
    let mut bytes = [page(&[(5, 1)], 0), page(&[(6, 2), (7, 3)], 0)].concat();
    bytes.truncate(SIZE + 16 + 8 + 3);
    let (seen, counts) = merged(vec![(0, bytes)]);
    assert_eq!(seen, [(0, 5, Some(1)), (0, 6, Some(2))]);
    assert_eq!((counts.damaged_pages, counts.truncated), (0, 1));
}

#[test]
fn a_merge_can_be_walked_twice() {
    let bytes = page(&[(5, 1), (6, 2)], 0);
    let mut merge = Merge::new(layout(), Endian::Little, [(CpuId(0), bytes)]);
    for _ in 0..2 {
        let mut count = 0;
        merge.for_each(|_, _, _| count += 1).unwrap();
        assert_eq!(count, 2);
    }
}

struct Broken;

impl ReadAt for Broken {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset > 0 {
            return Err(io::Error::other("disk gone"));
        }
        page(&[(1, 1)], 0).read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        1000
    }
}

#[test]
fn a_failing_source_says_where() {
    let mut merge = Merge::new(layout(), Endian::Little, [(CpuId(4), Broken)]);
    let mut records = 0;
    let error = merge.for_each(|_, _, _| records += 1).unwrap_err();
    assert_eq!(records, 1, "the page before the one that cannot be read");
    assert_eq!(error.to_string(), "cannot read the pages of CPU 4 at byte 256: disk gone");
}

proptest! {
    /// Random bytes as pages: never a panic, times per CPU never go back, and the global order holds.
    #[test]
    fn hostile_streams_come_out_in_order(
        sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4 * SIZE), 0..4),
        fill in 0u64..SIZE as u64,
    ) {
        let sources = sources.into_iter().enumerate().map(|(cpu, mut bytes)| {
            for page in bytes.chunks_mut(SIZE) {
                if let Some(commit) = page.get_mut(8..12) {
                    commit.copy_from_slice(&(fill as u32).to_le_bytes());
                }
                // Time bases within the same second, so that streams interleave.
                if let Some(high) = page.get_mut(4..8) {
                    high.fill(0);
                }
            }
            (cpu as u32, bytes)
        });
        let (seen, _) = merged(sources.collect());
        prop_assert!(seen.is_sorted_by_key(|(cpu, time, _)| (*time, *cpu)));
    }

    /// Sorted inputs: the merge is the stable sort of everything by time and CPU.
    #[test]
    fn a_merge_is_a_stable_sort(streams in prop::collection::vec(prop::collection::vec(0u64..50, 0..40), 1..5)) {
        let mut expected = Vec::new();
        let mut sources = Vec::new();
        for (cpu, mut times) in streams.into_iter().enumerate() {
            times.sort_unstable();
            let records: Vec<(u64, u32)> = times.iter().enumerate().map(|(k, t)| (*t, k as u32)).collect();
            expected.extend(records.iter().map(|(t, v)| (cpu as u32, *t, Some(*v))));
            sources.push((cpu as u32, records.chunks(10).flat_map(|c| page(c, 0)).collect()));
        }
        expected.sort_by_key(|(cpu, time, value)| (*time, *cpu, *value));
        prop_assert_eq!(merged(sources).0, expected);
    }
}
