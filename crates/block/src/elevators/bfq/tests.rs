//! BFQ by hand.

use surety_units::Nanos;

use super::{Bfq, ROW};
use crate::elevator::{Context, Elevator, Making};
use crate::kernels::Rules;
use crate::request::{Bio, BioId, Op, Priority, Process, ProcessId, Requests};
use crate::script::Script;
use crate::tunable::Settings;

/// Sectors served to each of two processes of priorities 0 and 7 that always have eight requests waiting: 80 to 10.
#[test]
fn weights_divide_the_device() {
    let mut text = String::new();
    for number in 0..3000_u64 {
        text.push_str(&format!(
            "0ms a0 r {} 64\n0ms b7 r {} 64\n",
            1000 + number * 64,
            9_000_000 + number * 64
        ));
    }
    let order = Script::of(&ROW).set("low_latency", 0).text(&text).run();
    let half: Vec<u64> = order.sectors().into_iter().take(2700).collect();
    let of_first = half.iter().filter(|sector| **sector < 9_000_000).count();
    assert!((2250..=2550).contains(&of_first), "{of_first} of 2700");
}

/// Beside ten processes with a backlog each request of one that starts goes next: it waits for the one in the device alone.
#[test]
fn who_starts_goes_first() {
    let mut text = String::new();
    for number in 0..600_u64 {
        for process in 0..10 {
            let (name, from) = (char::from(b'c' + process), u64::from(process) * 1_000_000);
            text.push_str(&format!("{}us {name} r {} 64\n", number * 9000, 1000 + from + number * 64));
        }
    }
    for number in 0..20_u64 {
        text.push_str(&format!("{}us b r {} 8\n", 5_000_500 + number * 3000, 20_000_000 + number * 8000));
    }
    let order = Script::of(&ROW).text(&text).run();
    let of_b = order.0.iter().filter(|taken| taken.sector >= 20_000_000);
    for (number, taken) in of_b.enumerate() {
        let came = Nanos::from_micros(5_000_500 + 3000 * i64::try_from(number).unwrap());
        assert!(taken.completed - came <= Nanos::from_millis(2), "{number}: {}", taken.completed - came);
        assert_eq!(taken.rule.0, "queue with a raised weight, least finish time");
    }
}

#[test]
fn the_idle_class_waits_but_does_not_starve() {
    let mut text = String::from("0ms zi r 5 8\n");
    for number in 0..2000_u64 {
        text.push_str(&format!("0ms a r {} 64\n", 1000 + number * 64));
    }
    let order = Script::of(&ROW).text(&text).run();
    let place = order.sectors().iter().position(|sector| *sector == 5).unwrap();
    assert!((100..700).contains(&place), "{place}");
}

/// A sample is taken of the first request of a process; another process's first request ends that in 6.1, whose new queues are as if they
/// had been looked at last when the machine started.
#[test]
fn a_new_queue_ends_a_sample_in_6_1() {
    for (kernel, goes_on) in [("6.1", false), ("6.12", true), ("7.2", true)] {
        let rules = Rules::named(kernel).unwrap();
        let mut bfq = Bfq::new(&Making { rules, ..Making::new(64, 1, Settings::new(ROW.tunables)) });
        let (mut requests, processes) = (Requests::default(), [Process::default(); 2]);
        let now = Nanos::from_secs(400);
        let mut request = |number: u32| {
            let (sector, process) = (u64::from(number) * 1_000_000, ProcessId(number));
            let bio = Bio {
                op: Op::Read,
                sync: true,
                meta: false,
                cached: false,
                sector,
                sectors: 8,
                process,
                deadline: None,
            };
            requests.make(&bio, BioId(number), Default::default(), now)
        };
        let (first, second) = (request(0), request(1));
        let mut context = Context { now, requests: &mut requests, processes: &processes };
        bfq.insert(&mut context, first);
        bfq.waited = Some(first);
        bfq.insert(&mut context, second);
        assert_eq!(bfq.waited == Some(first), goes_on, "{kernel}");
    }
}

/// 64 tags, of which weights of 80 and 10 give 57 and 7: a queue with its part has the first tag alone for more, one with a request less
/// has any tag.
#[test]
fn a_queue_with_its_part_of_the_tags_waits_for_the_first() {
    for (level, part) in [(0, 57), (7, 7)] {
        let mut settings = Settings::new(ROW.tunables);
        settings.set("low_latency", 0).unwrap();
        let mut bfq = Bfq::new(&Making::new(64, 1, settings));
        let of =
            |level| Process { priority: Priority { level, ..Priority::default() }, ..Process::default() };
        let (mut requests, processes) = (Requests::default(), [of(level), of(7 - level)]);
        let read = |number: u32, process| Bio {
            op: Op::Read,
            sync: true,
            meta: false,
            cached: false,
            sector: u64::from(number) * 1000,
            sectors: 8,
            process: ProcessId(process),
            deadline: None,
        };
        let mut adds = |bfq: &mut Bfq, number: u32, process| {
            let bio = read(number, process);
            let priority = processes[process as usize].priority;
            let id = requests.make(&bio, BioId(number), priority, Nanos::ZERO);
            let mut context = Context { now: Nanos::ZERO, requests: &mut requests, processes: &processes };
            bfq.insert(&mut context, id);
            bfq.depth_limit(&mut context, &read(number + 1, 0))
        };
        adds(&mut bfq, 1000, 1);
        let limits: Vec<Option<u32>> = (0..part).map(|number| adds(&mut bfq, number, 0)).collect();
        let (last, before) = limits.split_last().unwrap();
        assert_eq!(*last, Some(1), "{level}");
        assert!(before.iter().all(Option::is_none), "{level} {before:?}");
    }
}
