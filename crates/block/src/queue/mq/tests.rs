//! Plugs, limits of requests, tags and the worker.

use super::*;
use crate::tunable::Settings;

/// A bio of 8 sectors.
fn write(process: u32, sector: u64) -> Bio {
    let process = ProcessId(process);
    Bio {
        op: Op::Write,
        sync: false,
        meta: false,
        cached: false,
        sector,
        sectors: 8,
        process,
        deadline: None,
    }
}

fn made(kernel: &str) -> Box<dyn Queue> {
    let row = crate::elevators::by_word("mq-deadline").expect("it is one of them");
    let rules = crate::Rules::named(kernel).expect("it has a row");
    let mut queue = make(row, &Making { rules, ..Making::new(256, 128, Settings::new(row.tunables)) });
    queue.add_process(Process::default());
    queue
}

/// A plug with 4 KiB and 128 KiB that nothing joins: with a third request it goes to the driver where the last is looked at, and
/// stays where the first is. With 128 KiB first it is the other way round.
#[test]
fn a_plug_is_full_by_its_last_request_or_by_its_first() {
    for (kernel, sizes, goes) in [
        ("6.1", [8, 256, 8], true),
        ("6.12", [8, 256, 8], false),
        ("7.2", [8, 256, 8], false),
        ("6.1", [256, 8, 8], true),
        ("6.12", [256, 8, 8], true),
    ] {
        let mut queue = made(kernel);
        queue.plug(Nanos::ZERO, ProcessId(0));
        let mut sent = 0;
        for (number, sectors) in (0..).zip(sizes) {
            let bio = Bio { sectors, ..write(0, u64::from(number) * 10_000) };
            assert_eq!(queue.submit(Nanos::ZERO, bio, BioId(number)), Submitted::Accepted);
            while queue.next(Nanos::ZERO).is_some() {
                sent += 1;
            }
        }
        assert_eq!(sent > 0, goes, "{kernel} {sizes:?}");
    }
}

/// Five bios of 1 MiB, one behind the other: one request of 1280 KiB at most has one of them, of 4 MiB four.
#[test]
fn requests_grow_to_the_limit_of_their_kernel() {
    for (kernel, limit, expected) in
        [("6.1", 2560, 2048), ("6.12", 2560, 2048), ("6.18", 8192, 8192), ("7.2", 8192, 8192)]
    {
        let mut queue = made(kernel);
        assert_eq!(queue.max_sectors(), limit, "{kernel}");
        queue.plug(Nanos::ZERO, ProcessId(0));
        for number in 0..5 {
            let bio = Bio { sectors: 2048, ..write(0, u64::from(number) * 2048) };
            assert_eq!(queue.submit(Nanos::ZERO, bio, BioId(number)), Submitted::Accepted);
        }
        queue.unplug(Nanos::ZERO, ProcessId(0));
        let (first, _) = queue.next(Nanos::ZERO).expect("the device is free");
        assert_eq!(queue.request(first).sectors, expected, "{kernel}");
    }
}

/// Eight tags, of which each of two processes has four by weight. One has four, the first tag for the request that goes last, and waits
/// with a fifth for the first tag, though others are free and it soon has fewer than its part.
#[test]
fn a_limit_holds_until_there_is_a_tag() {
    let row = crate::elevators::by_word("bfq").expect("it is one of them");
    let mut settings = Settings::new(row.tunables);
    settings.set("low_latency", 0).expect("it is one of its tunables");
    let mut queue = make(row, &Making::new(8, 1, settings));
    let read = |process, sector| Bio { op: Op::Read, sync: true, ..write(process, sector) };
    (0..2).for_each(|_| queue.add_process(Process::default()));
    for (number, sector) in [(0, 4000), (1, 1000), (2, 2000), (3, 3000)] {
        assert_eq!(queue.submit(Nanos::ZERO, read(0, sector), BioId(number)), Submitted::Accepted);
    }
    assert_eq!(queue.submit(Nanos::ZERO, read(1, 90_000), BioId(4)), Submitted::Accepted);
    let fifth = read(0, 5000);
    assert_eq!(queue.submit(Nanos::ZERO, fifth, BioId(5)), Submitted::Wait);
    assert_eq!(queue.submit(Nanos::ZERO, read(1, 91_000), BioId(6)), Submitted::Accepted);
    for (sector, expected) in [
        (1000, Submitted::Wait),
        (2000, Submitted::Wait),
        (3000, Submitted::Wait),
        (4000, Submitted::Accepted),
    ] {
        let (id, _) = queue.next(Nanos::ZERO).expect("the device is free");
        assert_eq!(queue.request(id).sector, sector);
        let (mut done, mut woken) = (Vec::new(), Vec::new());
        queue.complete(Nanos::ZERO, id, &mut done, &mut woken);
        assert_eq!(woken, [ProcessId(0)], "{sector}");
        assert_eq!(queue.submit(Nanos::ZERO, fifth, BioId(5)), expected, "{sector}");
    }
}

/// A worker without a CPU leaves the device idle, and runs the queue once when it has one; a process runs it without the worker.
#[test]
fn a_worker_without_a_cpu_runs_the_queue_later() {
    let row = crate::elevators::by_word("mq-deadline").expect("it is one of them");
    let mut queue = make(row, &Making::new(4, 1, Settings::new(row.tunables)));
    queue.add_process(Process::default());
    let sent =
        |queue: &mut Box<dyn Queue>| queue.next(Nanos::ZERO).map(|(id, _)| (queue.request(id).sector, id));
    for (number, sector) in [(0, 1000), (1, 2000), (2, 3000)] {
        assert_eq!(queue.submit(Nanos::ZERO, write(0, sector), BioId(number)), Submitted::Accepted);
    }
    let first = sent(&mut queue).expect("the device is free");
    assert_eq!((first.0, sent(&mut queue)), (1000, None));
    queue.holds_worker(Nanos::ZERO, true);
    let (mut done, mut woken) = (Vec::new(), Vec::new());
    queue.complete(Nanos::ZERO, first.1, &mut done, &mut woken);
    assert_eq!(sent(&mut queue), None);
    queue.holds_worker(Nanos::ZERO, false);
    let second = sent(&mut queue).expect("the worker has run");
    queue.holds_worker(Nanos::ZERO, true);
    queue.complete(Nanos::ZERO, second.1, &mut done, &mut woken);
    assert_eq!((second.0, sent(&mut queue)), (2000, None));
    assert_eq!(queue.submit(Nanos::ZERO, write(0, 4000), BioId(3)), Submitted::Accepted);
    assert_eq!(sent(&mut queue).map(|(sector, _)| sector), Some(3000));
}

/// Four tags: one request is in the device, one taken ahead, two lie 8 sectors apart; two processes wait. A bio between the two joins
/// them and sets a tag free without a completion: the next completion wakes both processes.
#[test]
fn a_tag_that_a_merge_sets_free_wakes_somebody() {
    let row = crate::elevators::by_word("mq-deadline").expect("it is one of them");
    let settings = Settings::new(row.tunables);
    let mut queue = make(row, &Making::new(4, 1, settings));
    for _ in 0..3 {
        queue.add_process(Process::default());
    }
    assert_eq!(queue.submit(Nanos::ZERO, write(0, 1000), BioId(0)), Submitted::Accepted);
    let (first, _) = queue.next(Nanos::ZERO).expect("the device is free");
    for (number, sector) in [(1, 2000), (2, 100), (3, 116)] {
        assert_eq!(queue.submit(Nanos::ZERO, write(0, sector), BioId(number)), Submitted::Accepted);
    }
    for process in [1, 2] {
        let far = write(process, 5000 * u64::from(process));
        assert_eq!(queue.submit(Nanos::ZERO, far, BioId(3 + process)), Submitted::Wait);
    }
    assert_eq!(queue.submit(Nanos::ZERO, write(0, 108), BioId(6)), Submitted::Accepted);
    let (mut done, mut woken) = (Vec::new(), Vec::new());
    queue.complete(Nanos::ZERO, first, &mut done, &mut woken);
    assert_eq!((done, woken), (vec![BioId(0)], vec![ProcessId(1), ProcessId(2)]));
}
