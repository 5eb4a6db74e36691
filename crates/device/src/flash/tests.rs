//! Known answers of a flash disk, reckoned by hand.
//!
//! Two channels with a die each, pages of 8 sectors, blocks of 4 pages; a read 50 us, a program 500 us, an erase 2 ms. A sector
//! takes 1 us over a channel and half of that over the link.

use super::*;

fn parameters() -> Parameters {
    Parameters {
        sectors: 8_000,
        channels: 2,
        dies_per_channel: 1,
        page_sectors: 8,
        pages_per_block: 4,
        read: Nanos::from_micros(50),
        program: Nanos::from_micros(500),
        erase: Nanos::from_millis(2),
        channel: Rate(512_000_000),
        link: Rate(1_024_000_000),
        frame: Nanos::ZERO,
        command: Nanos::from_micros(2),
        latency: Nanos::from_micros(3),
        buffer_sectors: 16,
        protected: false,
        flush: Nanos::from_micros(100),
        suspend: None,
        fast: None,
        spare: 0.1,
        filled: 0.0,
        worn_in: false,
        streams: 4,
        depth: 32,
    }
}

/// A request: instant in microseconds, what, first sector, sectors.
type Asked = (i64, Op, u64, u32);

/// A tag and the instant of its completion.
type End = (u32, i64);

fn run(parameters: Parameters, asked: &[Asked]) -> Vec<Completion> {
    let mut disk = Flash::new(parameters, 1);
    let mut done = Vec::new();
    for (tag, (at, op, sector, sectors)) in asked.iter().enumerate() {
        let at = Nanos::from_micros(*at);
        while let Some(next) = disk.next().filter(|next| *next <= at) {
            done.extend(std::iter::from_fn(|| disk.advance(next)));
        }
        disk.accept(at, tag as u32, &Request::new(*op, *sector, *sectors));
    }
    while let Some(next) = disk.next() {
        done.extend(std::iter::from_fn(|| disk.advance(next)));
    }
    assert_eq!(done.len(), asked.len());
    done
}

/// Tags and instants of completion in nanoseconds.
fn ends(done: &[Completion]) -> Vec<End> {
    done.iter().map(|done| (done.tag, done.completed.get())).collect()
}

#[test]
fn known_answers() {
    let cases: &[(&[Asked], &[End])] = &[
        // 2 + 3 of the command, 50 of the cells, 8 over the channel, 4 over the link.
        (&[(0, Op::Read, 0, 8)], &[(0, 67_000)]),
        // A part of a page: the cells take as long, the wires do not.
        (&[(0, Op::Read, 2, 2)], &[(0, 58_000)]),
        // Two pages on two dies are read beside each other; the link carries one after the other.
        (&[(0, Op::Read, 0, 16)], &[(0, 71_000)]),
        // On the same die one after the other, and the controller takes 2 of each.
        (&[(0, Op::Read, 0, 8), (0, Op::Read, 16, 8)], &[(0, 67_000), (1, 117_000)]),
        // On different dies beside each other.
        (&[(0, Op::Read, 0, 8), (0, Op::Read, 8, 8)], &[(0, 67_000), (1, 71_000)]),
        // A write is complete when the buffer has it: 5 of the command, 4 of the link.
        (&[(0, Op::Write, 0, 8)], &[(0, 9_000)]),
        // The buffer has room for two pages; the third write waits for the first program: 9 + 8 + 500.
        (
            &[(0, Op::Write, 0, 8), (0, Op::Write, 8, 8), (0, Op::Write, 16, 8)],
            &[(0, 9_000), (1, 13_000), (2, 517_000)],
        ),
        // A read behind a program on its die waits for all of it.
        (&[(0, Op::Write, 0, 8), (20, Op::Read, 0, 8)], &[(0, 9_000), (1, 579_000)]),
        // A flush: what is in the buffer is programmed, a part of a page too, and the map is written.
        (&[(0, Op::Write, 0, 2), (10, Op::Flush, 0, 0)], &[(0, 6_000), (1, 623_000)]),
        (&[(0, Op::Flush, 0, 0)], &[(0, 105_000)]),
        // Nothing is read from the cells for a discard.
        (&[(0, Op::Discard, 0, 8)], &[(0, 5_000)]),
    ];
    for (asked, expected) in cases {
        assert_eq!(ends(&run(parameters(), asked)), *expected, "{asked:?}");
    }
}

#[test]
fn a_protected_buffer_makes_a_flush_free_and_none_makes_writes_wait() {
    let protected = Parameters { protected: true, ..parameters() };
    assert_eq!(
        ends(&run(protected, &[(0, Op::Write, 0, 2), (10, Op::Flush, 0, 0)])),
        [(0, 6_000), (1, 15_000)]
    );
    let none = Parameters { buffer_sectors: 0, ..parameters() };
    // 9 until it is there, 8 over the channel, 500 of the program.
    assert_eq!(ends(&run(none.clone(), &[(0, Op::Write, 0, 8)])), [(0, 517_000)]);
    // Three pages: the third is behind the first on its die.
    assert_eq!(ends(&run(none, &[(0, Op::Write, 0, 24)])), [(0, 17_000 + 508_000 + 508_000)]);
}

#[test]
fn force_unit_access_waits_for_the_cells() {
    let mut disk = Flash::new(parameters(), 1);
    disk.accept(Nanos::ZERO, 0, &Request { through: true, ..Request::new(Op::Write, 0, 8) });
    let mut done = None;
    while let (None, Some(at)) = (done, disk.next()) {
        done = disk.advance(at);
    }
    assert_eq!(done.unwrap().completed, Nanos::from_micros(517));
}

/// A read interrupts a program after the time that takes; the program is done later by the read.
#[test]
fn programs_are_interrupted_where_they_can_be() {
    let suspends = Parameters { suspend: Some(Nanos::from_micros(10)), ..parameters() };
    let done = run(suspends, &[(0, Op::Write, 0, 8), (20, Op::Read, 0, 8), (40, Op::Flush, 0, 0)]);
    // The read at 25: 10 to interrupt, 50, 8, 4. The program, of which 25 - 17 were done, goes on at 85 for 492; the map 100.
    assert_eq!(ends(&done), [(0, 9_000), (1, 97_000), (2, 677_000)]);
}

/// Under reads without end a program goes on after sixteen.
#[test]
fn reads_do_not_starve_a_program() {
    let suspends = Parameters { suspend: Some(Nanos::from_micros(10)), depth: 64, ..parameters() };
    let mut asked: Vec<Asked> = vec![(0, Op::Write, 0, 8)];
    asked.extend((0..40).map(|i| (20 + i * 20, Op::Read, 0, 8)));
    asked.push((21 + 39 * 20, Op::Flush, 0, 0));
    let done = run(suspends, &asked);
    let place = |tag: u32| done.iter().position(|done| done.tag == tag).unwrap();
    assert!(place(41) < place(40), "the flush, which needs the program, is before the last read");
    assert!(place(41) > 15);
}

/// A drive that has no free blocks cleans: random writes take longer than sequential ones, which leave nothing to copy.
#[test]
fn cleaning_costs_random_writes_more() {
    let worn =
        Parameters { filled: 1.0, worn_in: true, sectors: 80_000, buffer_sectors: 256, ..parameters() };
    let rate = |is_random: bool| {
        let mut disk = Flash::new(worn.clone(), 3);
        let mut chance = Pcg::new(1, 1);
        let (mut now, mut begin, mut count) = (Nanos::ZERO, Nanos::ZERO, 0u64);
        while count < 12_100 {
            if disk.queued() < 4 {
                // Until then the buffer fills.
                begin = if count == 100 { now } else { begin };
                let page = if is_random { chance.below(10_000) } else { count % 10_000 };
                disk.accept(now, 0, &Request::new(Op::Write, page * 8, 8));
                count += 1;
                continue;
            }
            now = disk.next().unwrap();
            while disk.advance(now).is_some() {}
        }
        (now - begin).as_secs_f64() / (count - 100) as f64
    };
    let (sequential, random) = (rate(false), rate(true));
    // Two dies, 508 us a page and a quarter of an erase of 2 ms: 504 us a page.
    assert!((450e-6..560e-6).contains(&sequential), "{sequential}");
    assert!(random > 2.0 * sequential, "{random} {sequential}");
}

/// Fast cells take what they hold sooner; a die that has rested empties them.
#[test]
fn fast_cells_are_fast_until_they_are_full_and_empty_at_rest() {
    let fast = FastCells { sectors: 8, program: Nanos::from_micros(100) };
    let cells = Parameters { fast: Some(fast), buffer_sectors: 0, channels: 1, ..parameters() };
    let write = |at| (at, Op::Write, 0, 8);
    // The first page is in the fast cells, the second is not; after 10 ms of rest and 550 us of moving there is room again.
    let done = run(cells, &[write(0), write(1_000), write(20_000)]);
    let times: Vec<i64> = done.iter().map(|done| done.service.total().get() / 1000).collect();
    assert_eq!(times, [117, 517, 117]);
}
