//! The rungs of the ladder of disk models, each with answers reckoned by hand.
//!
//! One small disk: two heads, ten cylinders, ten sectors on a track, a revolution of 10 ms, so a sector takes 1 ms. A step of
//! cylinders takes 1 ms, each further one 1 ms more; another head takes 1 ms. At instant 0 sector 0 is under the head.

use super::geometry::{Geometry, HeadOrder, Sparing, Zone};
use super::seek::SeekCurve;
use super::*;

/// Two sectors of skew hide the switch of heads and the step of cylinders, which take one each.
fn parameters() -> Parameters {
    let zone = Zone::plain(0..10, 10, 2.0, 2.0);
    Parameters {
        geometry: Geometry::new(2, HeadOrder::Same, Sparing::None, vec![zone]).unwrap(),
        seek: SeekCurve::Table(vec![(1, 1.0), (9, 9.0)]),
        head_switch: 1.0,
        write_settle: 0.0,
        revolution: 10.0,
        overheads: Overheads::default(),
        sector_transfer: 0.0,
        segments: 0,
        segment_sectors: 0,
        read_ahead: ReadAhead::None,
        read_ahead_after_hit: false,
        joins_stream: false,
        reads_while_waiting: false,
        zero_latency_read: false,
        zero_latency_write: false,
        hits_on_writes: false,
        write_back: None,
        answers_while_busy: false,
        depth: 4,
        age_limit: Nanos::MAX,
        retries: None,
    }
}

/// A request: instant in microseconds, what, first sector, sectors.
type Asked = (i64, Op, u64, u32);

/// A tag and the instant of its completion.
type End = (u32, i64);

/// Puts requests in at their instants and returns the completions in their order.
fn run(parameters: Parameters, asked: &[Asked]) -> Vec<Completion> {
    let mut disk = Hdd::new(parameters, 1);
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

/// Tags and instants of completion in microseconds.
fn ends(done: &[Completion]) -> Vec<End> {
    done.iter().map(|done| (done.tag, done.completed.get() / 1000)).collect()
}

/// Rungs 2 to 4: seek, exact rotation, skew, head switch. Queue, seek, rotation and transfer in microseconds.
#[test]
fn an_access_is_seek_rotation_and_transfer() {
    let cases: &[(Asked, [i64; 3])] = &[
        // At instant 0 sector 0 is there.
        ((0, Op::Read, 0, 1), [0, 0, 1_000]),
        // Sector 5 comes after half a revolution; at 7.5 ms it is 7.5 ms away.
        ((0, Op::Read, 5, 2), [0, 5_000, 2_000]),
        ((7_500, Op::Read, 5, 2), [0, 7_500, 2_000]),
        // Another head takes 1 ms, after which sector 10, two sectors on, is 1 ms away.
        ((0, Op::Read, 10, 1), [1_000, 1_000, 1_000]),
        // Cylinder 1: a step of 1 ms; its sector 0 is at angle 2 + 2.
        ((0, Op::Read, 20, 1), [1_000, 3_000, 1_000]),
        // Cylinder 9: 9 ms; its sector 0 is at 9 * (2 + 2) = 36, so at 6: 7 ms on from 9.
        ((0, Op::Read, 180, 1), [9_000, 7_000, 1_000]),
        // Over a switch of heads: 5 sectors, 1 ms of switch, 1 ms of the skew that is left, 5 sectors.
        ((0, Op::Read, 5, 10), [1_000, 6_000, 10_000]),
        // Over the step of cylinders likewise.
        ((0, Op::Read, 15, 10), [2_000, 7_000, 10_000]),
    ];
    for (asked, [seek, rotation, transfer]) in cases {
        let done = run(parameters(), &[*asked]);
        let service = done[0].service;
        let found = [service.seek, service.rotation, service.transfer].map(|part| part.get() / 1000);
        assert_eq!(found, [*seek, *rotation, *transfer], "{asked:?}");
    }
}

/// A write settles after a movement, and only then.
#[test]
fn writes_settle() {
    let settles = Parameters { write_settle: 0.5, ..parameters() };
    let seek = |op, sector| run(settles.clone(), &[(0, op, sector, 1)])[0].service.seek.get() / 1000;
    assert_eq!([seek(Op::Write, 5), seek(Op::Write, 20), seek(Op::Read, 20)], [0, 1_500, 1_000]);
}

/// With zero-latency access a whole track takes one revolution from wherever the head comes down.
#[test]
fn zero_latency_access_begins_in_the_middle() {
    for (zero_latency_read, end) in [(false, 15_000), (true, 15_000)] {
        let cut = Parameters { zero_latency_read, ..parameters() };
        // From 5 ms: sectors 5 to 9, then 0 to 4, or a wait for sector 0 and all of them.
        let done = run(cut, &[(5_000, Op::Read, 0, 10)]);
        let end = if zero_latency_read { end } else { end + 5_000 };
        assert_eq!(ends(&done), [(0, end)]);
    }
}

/// Rung 5: the buffer has what was read and what was read ahead; what streams past is waited for.
#[test]
fn read_segments_and_read_ahead() {
    let buffered =
        Parameters { segments: 2, segment_sectors: 20, read_ahead: ReadAhead::Sectors(10), ..parameters() };
    // Each case: requests, and of the last one how it was found and how long it took, in microseconds.
    let cases: &[(&[Asked], Hit, i64)] = &[
        // Read again: whole, at once.
        (&[(0, Op::Read, 0, 2), (2_500, Op::Read, 0, 2)], Hit::Whole, 0),
        // Read ahead to sector 4 when asked for at 5 ms.
        (&[(0, Op::Read, 0, 2), (5_000, Op::Read, 2, 2)], Hit::Whole, 0),
        // Sectors 4 and 5 are there at 6 ms, and at 4.5 ms the first of them is not yet.
        (&[(0, Op::Read, 0, 2), (5_000, Op::Read, 4, 2)], Hit::Partial, 1_000),
        (&[(0, Op::Read, 0, 2), (4_500, Op::Read, 4, 2)], Hit::Miss, 11_500),
        (&[(0, Op::Read, 0, 2), (5_000, Op::Read, 3, 3)], Hit::Partial, 1_000),
        // Another place stops it: sectors from 5 on are not in the buffer then, 0 to 4 are.
        (&[(0, Op::Read, 0, 2), (5_000, Op::Read, 20, 1), (50_000, Op::Read, 0, 5)], Hit::Whole, 0),
        (&[(0, Op::Read, 0, 2), (5_000, Op::Read, 20, 1), (50_000, Op::Read, 0, 6)], Hit::Partial, 6_000),
        // Two segments: a third run takes the one used longest ago.
        (
            &[
                (0, Op::Read, 0, 2),
                (50_000, Op::Read, 40, 1),
                (100_000, Op::Read, 80, 1),
                (150_000, Op::Read, 0, 1),
            ],
            Hit::Miss,
            11_000,
        ),
        // Reading ahead was over long before; what more is wanted is read from then on, not from when it was over.
        (&[(0, Op::Read, 0, 2), (50_000, Op::Read, 5, 2), (50_000, Op::Read, 10, 4)], Hit::Partial, 6_000),
        // Written, it is stale.
        (&[(0, Op::Read, 0, 2), (12_000, Op::Write, 1, 1), (30_000, Op::Read, 0, 1)], Hit::Miss, 1_000),
    ];
    for (asked, hit, takes) in cases {
        let last = *run(buffered.clone(), asked).last().unwrap();
        let found = (last.hit, (last.completed - last.accepted).get() / 1000);
        assert_eq!(found, (*hit, *takes), "{asked:?}");
    }
}

/// The sector that is being read ahead at the moment is a hit for a drive that joins its stream.
#[test]
fn a_drive_may_join_its_stream() {
    for (joins_stream, takes) in [(false, 10_900), (true, 900)] {
        let buffered = Parameters {
            segments: 2,
            segment_sectors: 20,
            read_ahead: ReadAhead::Sectors(10),
            joins_stream,
            ..parameters()
        };
        // At 4.1 ms sector 4 is under the head: it is whole at 5 ms.
        let done = run(buffered, &[(0, Op::Read, 0, 2), (4_100, Op::Read, 4, 1)]);
        assert_eq!((done[1].completed - done[1].accepted).get() / 1000, takes);
    }
}

/// While sector 5 is waited for, those before it pass and are read.
#[test]
fn sectors_that_pass_are_read_by_the_way() {
    for (reads_while_waiting, hit) in [(false, Hit::Miss), (true, Hit::Whole)] {
        let buffered = Parameters { segments: 1, segment_sectors: 20, reads_while_waiting, ..parameters() };
        let done = run(buffered, &[(0, Op::Read, 5, 1), (7_000, Op::Read, 2, 1)]);
        assert_eq!(done[1].hit, hit);
    }
}

/// How far each kind of reading ahead goes after sectors 2 and 3, seen by what is a hit long afterwards.
#[test]
fn reading_ahead_ends_where_it_should() {
    for (read_ahead, last) in [
        (ReadAhead::None, 3),
        (ReadAhead::Track, 9),
        (ReadAhead::Cylinder, 19),
        (ReadAhead::Sectors(3), 6),
        (ReadAhead::TrackThenNext, 9),
    ] {
        let buffered = Parameters { segments: 4, segment_sectors: 40, read_ahead, ..parameters() };
        for (sector, hit) in [(last, Hit::Whole), (last + 1, Hit::Miss)] {
            let done = run(buffered.clone(), &[(0, Op::Read, 2, 2), (500_000, Op::Read, sector, 1)]);
            assert_eq!(done[1].hit, hit, "{read_ahead:?} {sector}");
        }
    }
}

/// Rung 6: writes are reported when the buffer has them, one run at a time; others wait for the medium.
#[test]
fn immediate_write_reporting() {
    let reports = Parameters {
        segments: 2,
        segment_sectors: 20,
        hits_on_writes: true,
        sector_transfer: 0.1,
        write_back: Some(WriteBack { runs: 1, sectors: 20, combines: true }),
        ..parameters()
    };
    let cases: &[(&[Asked], &[End])] = &[
        // Over the wire only.
        (&[(0, Op::Write, 5, 2)], &[(0, 200)]),
        // The second run waits until the first is on the medium, at 7 ms.
        (&[(0, Op::Write, 5, 2), (300, Op::Write, 15, 1)], &[(0, 200), (1, 7_100)]),
        // One that goes on where the first ends does not, in a drive that answers meanwhile; this one is busy until 7 ms.
        (&[(0, Op::Write, 5, 2), (300, Op::Write, 7, 1)], &[(0, 200), (1, 7_100)]),
        // A read of what was written has it from the buffer, when the drive is not busy any more.
        (&[(0, Op::Write, 5, 2), (300, Op::Read, 5, 1)], &[(0, 200), (1, 7_100)]),
        // A read of something else begins after the write: sector 0 comes at 10 ms.
        (&[(0, Op::Write, 5, 2), (300, Op::Read, 0, 1)], &[(0, 200), (1, 11_100)]),
    ];
    for (asked, expected) in cases {
        assert_eq!(ends(&run(reports.clone(), asked)), *expected, "{asked:?}");
    }
    let answers = Parameters { answers_while_busy: true, ..reports };
    for (asked, expected) in [
        ((300, Op::Write, 7, 1), (1, 400)),
        ((300, Op::Read, 5, 1), (1, 400)),
        ((300, Op::Write, 15, 1), (1, 7_100)),
    ] {
        let done = run(answers.clone(), &[(0, Op::Write, 5, 2), asked]);
        assert_eq!(ends(&done)[1], expected, "{asked:?}");
    }
}

/// Force-unit-access goes to the medium even so.
#[test]
fn a_write_through_waits_for_the_medium() {
    let reports = Parameters {
        segments: 2,
        segment_sectors: 20,
        write_back: Some(WriteBack { runs: 1, sectors: 20, combines: true }),
        ..parameters()
    };
    let mut disk = Hdd::new(reports, 1);
    disk.accept(Nanos::ZERO, 0, &Request { through: true, ..Request::new(Op::Write, 5, 2) });
    let at = disk.next().unwrap();
    assert_eq!((disk.advance(at).unwrap().completed, at), (Nanos::from_millis(7), Nanos::from_millis(7)));
}

/// Rung 7: each kind of command has its overhead, by what was before it.
#[test]
fn overheads_go_by_the_command_and_the_one_before() {
    let overheads = Overheads {
        read_hit: [0.1, 0.2],
        read_miss: [0.3, 0.4],
        write: [0.5, 0.6],
        read_completion: 0.0,
        write_completion: 0.0,
    };
    let buffered = Parameters { segments: 2, segment_sectors: 20, overheads, ..parameters() };
    let asked: &[Asked] = &[
        (0, Op::Read, 5, 1),
        (50_000, Op::Read, 5, 1),
        (100_000, Op::Write, 80, 1),
        (150_000, Op::Write, 80, 1),
        (200_000, Op::Read, 5, 1),
        (250_000, Op::Write, 90, 1),
        (300_000, Op::Read, 40, 1),
    ];
    let overheads: Vec<i64> =
        run(buffered, asked).iter().map(|done| done.service.overhead.get() / 1000).collect();
    assert_eq!(overheads, [300, 100, 500, 600, 200, 500, 400]);
}

/// Rung 8: what is under the head soonest goes first, and what has waited too long before that.
#[test]
fn the_queue_goes_by_positioning_time_and_age() {
    // While sector 0 is read until 1 ms: 8 is 7 ms away then, 2 is 1 ms away, 20 (cylinder 1, angle 4) is 3 ms away.
    let asked: &[Asked] =
        &[(0, Op::Read, 0, 1), (100, Op::Read, 8, 1), (200, Op::Read, 2, 1), (300, Op::Read, 20, 1)];
    let by_position = run(parameters(), asked);
    // 2 ends at 3 ms; then 8 is 5 ms away and 20, at 4 ms, 0 ms after a step of 1 ms.
    assert_eq!(ends(&by_position), [(0, 1_000), (2, 3_000), (3, 5_000), (1, 9_000)]);
    let aged = Parameters { age_limit: Nanos::from_micros(500), ..parameters() };
    let done = run(aged, asked);
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// Rung 9: a flush waits for all before it and for the medium, and all after it wait for the flush.
#[test]
fn a_flush_is_not_queued() {
    let reports = Parameters {
        segments: 4,
        segment_sectors: 20,
        hits_on_writes: true,
        answers_while_busy: true,
        write_back: Some(WriteBack { runs: 4, sectors: 40, combines: true }),
        ..parameters()
    };
    let done = run(
        reports,
        &[(0, Op::Write, 5, 1), (100, Op::Write, 8, 1), (200, Op::Flush, 0, 0), (300, Op::Read, 5, 1)],
    );
    // Sector 5 is written at 6 ms, sector 8 at 9 ms; the read, though the buffer has it, comes after.
    assert_eq!(ends(&done), [(0, 0), (1, 100), (2, 9_000), (3, 9_000)]);
}

/// Rung 10: a share of the accesses takes whole revolutions longer, the same ones for the same seed.
#[test]
fn retries_are_chance() {
    let fails =
        Parameters { retries: Some(Retries { probability: 0.25, most_revolutions: 3 }), ..parameters() };
    let asked: Vec<Asked> = (0..400).map(|i| (i * 100_000, Op::Read, 5, 1)).collect();
    let times: Vec<i64> =
        run(fails.clone(), &asked).iter().map(|done| done.service.total().get() / 1000).collect();
    let retried = times.iter().filter(|time| **time > 6_000).count();
    assert!((60..140).contains(&retried), "{retried}");
    assert!(times.iter().all(|time| [6_000, 16_000, 26_000, 36_000].contains(time)));
    let again: Vec<i64> = run(fails, &asked).iter().map(|done| done.service.total().get() / 1000).collect();
    assert_eq!(times, again);
}

/// An elevator that goes by positioning time asks what an access would take: it is what it then takes.
#[test]
fn an_estimate_is_what_the_access_takes() {
    for sector in [0, 5, 17, 20, 63, 180] {
        let mut disk = Hdd::new(parameters(), 1);
        let (now, request) = (Nanos::from_micros(3_300), Request::new(Op::Read, sector, 1));
        let estimate = disk.estimate(now, &request).unwrap();
        disk.accept(now, 0, &request);
        let at = disk.next().unwrap();
        assert_eq!(disk.advance(at).unwrap().completed - now, estimate, "{sector}");
    }
}
