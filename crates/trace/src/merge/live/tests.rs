//! The live merge against the merge of whole sources, for pages that come in any order of CPUs.

use proptest::prelude::*;

use super::super::Merge;
use super::super::tests::{LOST, SIZE, layout, page};
use super::*;

/// CPU, time and value; `None` stands for lost events.
type Seen = Vec<(u32, u64, Option<u32>)>;

fn note(seen: &mut Seen, cpu: CpuId, time: u64, item: Item<'_>) {
    let value = match item {
        Item::Record(bytes) => Endian::Little.u32(bytes, 0),
        Item::Lost(_) => None,
    };
    seen.push((cpu.0, time, value));
}

/// Pages of each CPU: steps of time between records, and whether events were lost before the page.
fn recordings() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let one_page = (prop::collection::vec(0u64..40, 0..12), prop::bool::weighted(0.2));
    let cpu = prop::collection::vec(one_page, 0..8);
    prop::collection::vec(cpu, 1..4).prop_map(|cpus| {
        let mut value = 0;
        let pages_of = |pages: Vec<(Vec<u64>, bool)>| {
            let mut time = 1_000;
            let page_of = |(steps, lost): (Vec<u64>, bool)| {
                let mut records = Vec::new();
                for step in steps {
                    time += step;
                    value += 1;
                    records.push((time, value));
                }
                page(&records, if lost { LOST } else { 0 })
            };
            pages.into_iter().map(page_of).collect()
        };
        cpus.into_iter().map(pages_of).collect()
    })
}

/// The time of a page's first record: what is before it has come.
fn begin(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// The items without losses behind a CPU's last record, and the CPUs with such a loss.
fn without_trailing_losses(seen: &Seen) -> (Seen, Vec<u32>) {
    let is_trailing = |at: usize| {
        let (cpu, _, value) = seen[at];
        value.is_none() && !seen[at + 1..].iter().any(|(other, _, _)| *other == cpu)
    };
    let kept = (0..seen.len()).filter(|at| !is_trailing(*at)).map(|at| seen[at]).collect();
    let mut behind: Vec<u32> = (0..seen.len()).filter(|at| is_trailing(*at)).map(|at| seen[at].0).collect();
    behind.sort_unstable();
    (kept, behind)
}

proptest! {
    #[test]
    fn pages_in_any_order_of_arrival_give_what_whole_sources_give(
        recordings in recordings(),
        order in prop::collection::vec((0usize..4, prop::bool::ANY), 0..64),
    ) {
        let sources = (0..).map(CpuId).zip(recordings.iter().map(|pages| pages.concat()));
        let mut whole = Seen::new();
        let mut merge = Merge::new(layout(), Endian::Little, sources);
        let expected = merge.for_each(|cpu, time, item| note(&mut whole, cpu, time, item)).unwrap();

        let mut live = LiveMerge::new(layout(), Endian::Little);
        let mut seen = Seen::new();
        let mut next = vec![0; recordings.len()];
        for (cpu, look) in order {
            if let Some(page) = recordings.get(cpu).and_then(|pages| pages.get(next[cpu])) {
                live.push(CpuId(cpu as u32), page);
                next[cpu] += 1;
            }
            if look {
                // Everything before the earliest page that is still to come has come; an empty page has no time.
                let to_come = recordings.iter().zip(&next).flat_map(|(pages, next)| &pages[*next..]);
                let until = to_come.map(|p| begin(p)).filter(|t| *t > 0).min().unwrap_or(0);
                let before = seen.len();
                live.drain(until, |cpu, time, item| note(&mut seen, cpu, time, item));
                prop_assert!(seen[before..].iter().all(|s| s.1 < until));
            }
        }
        for (cpu, pages) in recordings.iter().enumerate() {
            pages[next[cpu]..].iter().for_each(|page| live.push(CpuId(cpu as u32), page));
        }
        live.drain(u64::MAX, |cpu, time, item| note(&mut seen, cpu, time, item));
        // A loss behind a CPU's last record can only be told when no page comes any more, so later than in its place.
        let ((seen, behind), (whole, behind_whole)) = (without_trailing_losses(&seen), without_trailing_losses(&whole));
        prop_assert_eq!((seen, &behind), (whole, &behind_whole));
        prop_assert!(live.late() <= behind.len() as u64, "{} late", live.late());
        prop_assert_eq!((live.counts(), live.waiting()), (expected, 0));
    }

    #[test]
    fn whatever_comes_is_walked_and_freed(
        pages in prop::collection::vec((0u32..4, prop::collection::vec(any::<u8>(), 0..2 * SIZE)), 0..12),
        until in any::<u64>(),
    ) {
        let mut live = LiveMerge::new(layout(), Endian::Little);
        let mut last = 0;
        for (cpu, page) in &pages {
            live.push(CpuId(*cpu), page);
            live.drain(until, |_, time, _| {
                assert!(time >= last, "{time} after {last}");
                last = time;
            });
        }
        live.drain(u64::MAX, |_, _, _| {});
        prop_assert_eq!(live.waiting(), 0);
    }
}

#[test]
fn what_comes_too_late_is_given_the_last_time_and_counted() {
    let mut live = LiveMerge::new(layout(), Endian::Little);
    let mut seen = Seen::new();
    live.push(CpuId(0), &page(&[(10, 1), (30, 2)], 0));
    live.drain(40, |cpu, time, item| note(&mut seen, cpu, time, item));
    live.push(CpuId(1), &page(&[(20, 3), (35, 4)], 0));
    live.drain(40, |cpu, time, item| note(&mut seen, cpu, time, item));
    assert_eq!(seen, [(0, 10, Some(1)), (0, 30, Some(2)), (1, 30, Some(3)), (1, 35, Some(4))]);
    assert_eq!(live.late(), 1);
}

#[test]
fn a_loss_is_told_with_the_next_record_however_late_its_page_comes() {
    let mut live = LiveMerge::new(layout(), Endian::Little);
    let mut seen = Seen::new();
    for bytes in [page(&[], LOST), page(&[(9, 1)], 0)] {
        live.push(CpuId(0), &bytes);
        live.drain(100, |cpu, time, item| note(&mut seen, cpu, time, item));
    }
    assert_eq!(seen, [(0, 9, None), (0, 9, Some(1))]);
    // Behind the last record it is told when the recording is over.
    live.push(CpuId(0), &page(&[], LOST));
    live.drain(100, |cpu, time, item| note(&mut seen, cpu, time, item));
    assert_eq!(seen.len(), 2);
    live.drain(u64::MAX, |cpu, time, item| note(&mut seen, cpu, time, item));
    assert_eq!(seen[2..], [(0, 9, None)]);
}
