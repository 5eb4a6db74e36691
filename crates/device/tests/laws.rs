//! What holds of every model under any requests: nothing is lost, nothing is served twice, nothing comes before it can, the
//! parts of each time sum to it, instants do not go back, and the same seed gives the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use proptest::prelude::*;

use surety_device::profile::Profile;
use surety_device::{Completion, Op, Request, SECTOR};
use surety_units::Nanos;

/// A way to ask: what, where (in thousandths of the device, or after the one before), how much, how long after it.
#[derive(Clone, Copy, Debug)]
struct Ask {
    op: Op,
    /// `None`: after the one before.
    place: Option<u64>,
    sectors: u32,
    after: Nanos,
    through: bool,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let op =
        prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard)];
    let place = prop_oneof![2 => Just(None), 3 => (0u64..1000).prop_map(Some)];
    // Bursts, and pauses in which the device does its own work.
    let after =
        prop_oneof![4 => Just(0i64), 3 => 0i64..200_000, 2 => 0i64..20_000_000, 1 => 0i64..200_000_000];
    let ask = (op, place, 1u32..600, after, proptest::bool::weighted(0.1));
    let ask = ask.prop_map(|(op, place, sectors, after, through)| Ask {
        op,
        place,
        sectors,
        after: Nanos::new(after),
        through,
    });
    proptest::collection::vec(ask, 1..60)
}

/// Plays requests into a device, as many at a time as it takes, and returns them with their completions and the digest.
fn play(profile: &Profile, asks: &[Ask], seed: u64) -> (Vec<Request>, Vec<Completion>, u64) {
    let mut device = profile.build(seed);
    let (mut now, mut last_end) = (Nanos::ZERO, 0);
    let (mut requests, mut done): (Vec<Request>, Vec<Completion>) = (Vec::new(), Vec::new());
    for ask in asks {
        let until = now + ask.after;
        loop {
            let full = device.queued() >= device.depth();
            let Some(at) = device.next().filter(|at| full || *at <= until) else { break };
            assert!(at >= now, "{at:?} is before {now:?}");
            now = at;
            while let Some(completion) = device.advance(now) {
                assert_eq!(completion.completed, now, "a completion comes at its instant");
                done.push(completion);
            }
        }
        now = now.max(until);
        let most = device.sectors() - u64::from(ask.sectors);
        let sector = ask.place.map_or(last_end, |place| most / 1000 * place).min(most);
        let sectors = if ask.op == Op::Flush { 0 } else { ask.sectors };
        let request = Request { op: ask.op, sector, sectors, through: ask.through && ask.op == Op::Write };
        last_end = request.end();
        device.accept(now, requests.len() as u32, &request);
        requests.push(request);
    }
    while let Some(at) = device.next() {
        assert!(at >= now, "{at:?} is before {now:?}");
        now = at;
        done.extend(std::iter::from_fn(|| device.advance(now)));
    }
    assert_eq!(device.queued(), 0);
    (requests, done, device.digest())
}

/// The least time the data of a request take over the fastest wire of a profile.
fn least_transfer(profile: &Profile, request: &Request) -> Nanos {
    let bytes_per_second = match profile.name.as_str() {
        "hdd-2004" => 100_000_000,
        "hdd-7200" | "virtio-hdd" => 600_000_000,
        "ssd-sata" => 560_000_000,
        "nvme" => 6_900_000_000,
        "emmc" => 400_000_000,
        _ => return Nanos::ZERO,
    };
    let bytes =
        if matches!(request.op, Op::Read | Op::Write) { u64::from(request.sectors) * SECTOR } else { 0 };
    // Rounded down, and a nanosecond of rounding less.
    Nanos::new((bytes * 1_000_000_000 / bytes_per_second) as i64 - 1)
}

fn check(name: &str, asks: &[Ask]) -> Result<(), TestCaseError> {
    let profile = Profile::named(name).unwrap();
    let (requests, done, digest) = play(&profile, asks, 7);
    prop_assert_eq!(done.len(), requests.len(), "nothing is lost");
    let mut seen = vec![false; requests.len()];
    let mut before = Nanos::ZERO;
    for completion in &done {
        let tag = completion.tag as usize;
        prop_assert!(!std::mem::replace(&mut seen[tag], true), "{} is served twice", tag);
        prop_assert!(completion.completed >= before, "instants do not go back");
        before = completion.completed;
        let service = completion.service;
        prop_assert_eq!(service.total(), completion.completed - completion.accepted);
        for part in [service.queue, service.overhead, service.seek, service.rotation, service.transfer] {
            prop_assert!(part >= Nanos::ZERO, "{:?}", service);
        }
        let least = least_transfer(&profile, &requests[tag]);
        prop_assert!(service.total() >= least, "{:?} in {:?}", requests[tag], service);
    }
    let (_, again, same) = play(&profile, asks, 7);
    prop_assert_eq!(&again, &done, "the same seed gives the same");
    prop_assert_eq!(same, digest);
    // A flush comes after every write that was complete before it was asked for; a disk's also after every request before it.
    if profile.model == "hdd" {
        for (tag, request) in requests.iter().enumerate().filter(|(_, request)| request.op == Op::Flush) {
            let place = |tag: usize| done.iter().position(|done| done.tag as usize == tag).unwrap();
            prop_assert!((0..tag).all(|other| place(other) < place(tag)), "{:?}", request);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn laws_of_fixed(asks in asks()) {
        check("null", &asks)?;
    }

    #[test]
    fn laws_of_a_disk_with_a_queue(asks in asks()) {
        check("hdd-7200", &asks)?;
    }

    #[test]
    fn laws_of_a_disk_without(asks in asks()) {
        check("hdd-2004", &asks)?;
    }

    #[test]
    fn laws_of_a_solid_state_disk(asks in asks()) {
        check("ssd-sata", &asks)?;
        check("nvme", &asks)?;
    }

    #[test]
    fn laws_of_a_card(asks in asks()) {
        check("emmc", &asks)?;
    }

    #[test]
    fn laws_of_a_virtual_disk(asks in asks()) {
        check("virtio-hdd", &asks)?;
    }
}

/// What is recorded of simulations depends on these: a change changes every result. One digest for each profile, over the same
/// requests; they hold on every machine.
#[test]
fn digests_of_every_profile_stay() {
    let asks: Vec<Ask> = (0..200u64)
        .map(|i| Ask {
            op: [Op::Read, Op::Write, Op::Read, Op::Write, Op::Flush, Op::Discard][(i * 7 % 31 % 6) as usize],
            place: (i % 3 > 0).then_some(i * 337 % 1000),
            sectors: 1 + (i * 53 % 256) as u32,
            after: Nanos::new((i * 7919 % 11 * 400_000) as i64),
            through: i % 17 == 0,
        })
        .collect();
    let digests: Vec<String> = surety_device::profile::PROFILES
        .iter()
        .map(|row| format!("{} {:016x}", row.0, play(&Profile::named(row.0).unwrap(), &asks, 1).2))
        .collect();
    let expected = [
        "emmc 4abc3b731d0bc572",
        "hdd-2004 6971911aab293bec",
        "hdd-7200 fddc760c0a62e502",
        "null 6b746aebfbbed5d3",
        "nvme b99034e054e642a1",
        "ssd-sata 94a96dd6d4f8e9d2",
        "virtio-hdd f93338a09a066a16",
    ];
    assert_eq!(digests, expected);
}

/// What a copy of a device is asked changes nothing of it, and an estimate of an access that is alone is what it then takes.
#[test]
fn an_estimate_comes_true_and_leaves_no_trace() {
    let profile = Profile::named("hdd-2004").unwrap();
    let (mut asked, mut spared) = (profile.build(1), profile.build(1));
    let mut chance = surety_stats::random::Pcg::for_job(1, 2, 3);
    let (mut now, mut last_end) = (Nanos::ZERO, 0);
    for _ in 0..2000 {
        // The moving parts may be at work in the background: what was written goes to the medium.
        now += Nanos::new(chance.below(8_000_000) as i64);
        while asked.next().is_some_and(|at| at <= now) {
            assert!(asked.advance(now).is_none() && spared.advance(now).is_none());
        }
        let op = [Op::Read, Op::Read, Op::Write][chance.below(3) as usize];
        let near =
            [last_end, chance.below(20_000), chance.below(asked.sectors() - 600)][chance.below(3) as usize];
        let request = Request::new(op, near, 1 + chance.below(512) as u32);
        last_end = request.end();
        let (estimate, mut fork) = (asked.estimate(now, &request).unwrap(), asked.fork());
        fork.accept(now, 9, &Request::new(Op::Read, 0, 100));
        asked.accept(now, 0, &request);
        spared.accept(now, 0, &request);
        let done = loop {
            let at = asked.next().unwrap();
            if let Some(done) = asked.advance(at) {
                break done;
            }
        };
        assert_eq!(done.completed - now, estimate, "{request:?}");
        now = done.completed;
        while spared.queued() > 0 {
            let at = spared.next().unwrap();
            spared.advance(at);
        }
    }
    assert_eq!(asked.digest(), spared.digest());
}
