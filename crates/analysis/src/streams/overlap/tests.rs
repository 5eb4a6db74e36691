//! Streams with two batches in the block layer against an adversary: who orders what the disk serves, who is slow to ask, and best effort that takes every gap.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use surety_device::worst::{Cost, Held, Least};
use surety_stats::random::Pcg;
use surety_units::{Nanos, Rate};

use super::super::*;
use super::gap;

const SCALE: u128 = 1_000_000_000;

fn terms(
    (fixed, rate): (i64, u64),
    (inside, cpu, in_turn): (u64, i64, bool),
    (commits, flushes): (bool, u64),
) -> DiskTerms {
    let cost = Cost { fixed: Nanos::from_micros(fixed), rate: Rate(rate) };
    let cpu = Nanos::from_micros(cpu);
    DiskTerms {
        read: cost,
        write: Some(cost),
        beside_bytes: 128 << 10,
        held: Held::default(),
        inside,
        inside_writes: 0,
        request_bytes: 128 << 10,
        requests: 4096,
        beside_requests: 8,
        write_requests: 4096,
        beside_writes: 0,
        service: Service::ByClass { aged: 0 },
        in_turn,
        gaps: true,
        least: Some(Least { read: cpu, write: cpu, rate: Rate(0) }),
        handing_on: 0,
        commits,
        flushes,
        flush: cost.fixed.mul_ratio(1, 2),
        merged_bytes: 0,
        cpu,
        asks: cpu,
    }
}

/// A stream of the game, in nanoseconds and bytes scaled by 1e9.
struct Player {
    demand: StreamDemand,
    given: Admitted,
    credit: u128,
    asked: u64,
    /// In order.
    moved: u64,
    /// Batches in the block layer: which, and when it was asked for.
    under: Vec<(u64, i64)>,
    wants: BTreeMap<u64, i64>,
    passed: Vec<u64>,
    last: i64,
    free: i64,
    delay: i64,
    wanted: Option<i64>,
}

impl Player {
    fn rate(&self) -> u128 {
        self.demand.rate.0.into()
    }

    fn accrue(&mut self, span: i64) {
        let jitter = u128::from(self.demand.jitter.get_unsigned());
        let most = u128::from(self.given.batch) * SCALE + jitter * self.rate();
        self.credit = (self.credit + u128::from(span.unsigned_abs()) * self.rate()).min(most);
    }

    /// When there is credit for its next batch, and room for it or the data of it.
    fn wants_at(&self, now: i64) -> i64 {
        let price = u128::from(self.given.batch) * SCALE;
        let of_credit = now + price.saturating_sub(self.credit).div_ceil(self.rate()) as i64;
        let end = (self.asked + 1) * self.given.batch;
        let is_read = self.demand.direction == Direction::Read;
        let end = if is_read { end.saturating_sub(self.given.buffer) } else { end };
        let accesses = end.div_ceil(self.demand.access);
        let of_data = u128::from(accesses.saturating_sub(1) * self.demand.access) * SCALE;
        of_credit.max(of_data.div_ceil(self.rate()) as i64)
    }

    /// It goes on from one instant to another, and asks for what it wants as soon as its thread does.
    fn go_on(&mut self, mut at: i64, to: i64) {
        while self.under.len() < 2 {
            let want = self.wanted.unwrap_or_else(|| self.wants_at(at));
            if want > to {
                break;
            }
            self.wanted = Some(want);
            let ask = (want.max(self.free) + self.delay).max(at);
            if ask > to {
                break;
            }
            self.accrue(ask - at);
            self.credit -= u128::from(self.given.batch) * SCALE;
            self.under.push((self.asked, ask));
            self.wants.insert(self.asked, want);
            (self.asked, self.wanted, at) = (self.asked + 1, None, ask);
        }
        self.accrue(to - at);
    }

    fn asks_at(&self, now: i64) -> i64 {
        (self.wanted.unwrap_or_else(|| self.wants_at(now)).max(self.free) + self.delay).max(now)
    }

    /// One is there: whether those that are now there in order took no longer than they may.
    fn is_served(&mut self, place: usize, now: i64, cpu: Nanos) -> Result<(), TestCaseError> {
        // Who waits for a CPU to ask waits no longer because the other one is there meanwhile.
        if self.under.len() == 2 {
            self.free = now;
        }
        self.passed.push(self.under.swap_remove(place).0);
        while let Some(at) = self.passed.iter().position(|number| *number == self.moved) {
            self.passed.swap_remove(at);
            let took = now - self.wants[&self.moved].max(self.last);
            let most = (self.given.latency.max(self.given.at_start) + cpu).get();
            prop_assert!(took <= most, "a batch took {took} ns, of {:?}", self.given);
            let released = u128::from(now.unsigned_abs()) * self.rate() / SCALE;
            let before = u128::from(self.moved * self.given.batch);
            if self.demand.direction == Direction::Write {
                let access = u128::from(self.demand.access);
                let held = (released / access + 1) * access - before;
                prop_assert!(held <= u128::from(self.given.needed), "{held} bytes wait, of {:?}", self.given);
            } else {
                let lag = released.saturating_sub(before) * SCALE / self.rate();
                let most = u128::from(self.given.behind.get_unsigned());
                prop_assert!(lag <= most, "{lag} ns behind, of {:?}", self.given);
            }
            (self.moved, self.last) = (self.moved + 1, now);
        }
        Ok(())
    }
}

/// Which batch the disk takes: where it serves in turn the oldest of a direction or, once, the one behind that, else any, mostly of who was served last.
fn choose(
    players: &[Player],
    disk: &DiskTerms,
    (last, let_by): (usize, &mut BTreeSet<(usize, u64)>),
    now: i64,
    chance: &mut Pcg,
) -> Option<(usize, usize)> {
    let of = |(who, player): (usize, &Player)| {
        let here = player.under.iter().enumerate().filter(|(_, (_, ask))| *ask <= now);
        here.map(|(place, (number, ask))| (*ask, *number, who, place)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = players.iter().enumerate().flat_map(of).collect();
    all.sort_unstable();
    if disk.in_turn {
        let way = chance.below(2) == 0;
        let is_it = |who: usize| (players[who].demand.direction == Direction::Write) == way;
        let same: Vec<_> = all.iter().filter(|(_, _, who, _)| is_it(*who)).collect();
        let same = if same.is_empty() { all.iter().collect() } else { same };
        // The next one may pass it while it is handed on, once.
        let (first, second) = (same.first()?, same.get(1));
        let by = second.filter(|_| chance.below(2) == 0 && let_by.insert((first.2, first.1)));
        let (_, _, who, place) = by.unwrap_or(first);
        return Some((*who, *place));
    }
    // What was asked for last goes first, so that the oldest waits.
    let own = all.iter().rev().find(|(_, _, who, _)| *who == last).filter(|_| chance.below(4) > 0);
    let any = || (!all.is_empty()).then(|| &all[chance.below(all.len() as u64) as usize]);
    own.or_else(any).map(|(_, _, who, place)| (*who, *place))
}

fn play(
    demands: &[StreamDemand],
    disk: &DiskTerms,
    admission: &Admission,
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut chance = Pcg::for_job(seed, 3, 4);
    let cpu = disk.cpu.get_unsigned();
    let mut players = Vec::new();
    for (demand, given) in demands.iter().zip(&admission.streams) {
        for _ in 0..demand.count {
            players.push(Player {
                demand: demand.clone(),
                given: *given,
                credit: u128::from(given.batch) * SCALE,
                asked: 0,
                moved: 0,
                under: Vec::new(),
                wants: BTreeMap::new(),
                passed: Vec::new(),
                last: 0,
                free: 0,
                delay: 0,
                wanted: None,
            });
        }
    }
    let part = |whole: Nanos, chance: &mut Pcg| match chance.below(4) {
        0 => chance.below(whole.get_unsigned().max(1)) as i64,
        _ => whole.get(),
    };
    let (mut now, mut last, mut let_by) = (0, 0, BTreeSet::new());
    let mut before_all = (0, 0);
    for _ in 0..600 {
        players.iter_mut().for_each(|player| player.go_on(now, now));
        let next = choose(&players, disk, (last, &mut let_by), now, &mut chance);
        // What goes before all classes, in a run of batches.
        let is_passed = next.is_some() && before_all != (0, 0) && chance.below(2) == 0;
        let next = next.filter(|_| !is_passed);
        let took = match next {
            _ if is_passed && before_all.0 > 0 => {
                before_all.0 -= 1;
                part(disk.write.unwrap_or_default().of(PAGE), &mut chance)
            }
            _ if is_passed => {
                before_all.1 -= 1;
                part(disk.flush, &mut chance)
            }
            Some((who, _)) => part(players[who].given.service, &mut chance).max(disk.asks.get()),
            None if chance.below(3) > 0 => {
                before_all = (u64::from(disk.commits), disk.flushes);
                (0..disk.inside).map(|_| part(disk.beside(), &mut chance)).sum::<i64>().max(1)
            }
            None => players.iter().map(|player| player.asks_at(now) - now).min().unwrap_or(1).max(1),
        };
        players.iter_mut().for_each(|player| player.go_on(now, now + took));
        now += took;
        if let Some((who, place)) = next {
            last = who;
            players[who].is_served(place, now, disk.cpu)?;
            players[who].delay = if chance.below(3) > 0 { cpu } else { chance.below(cpu + 1) } as i64;
        }
    }
    Ok(())
}

fn demands() -> impl Strategy<Value = Vec<StreamDemand>> {
    let one = (1u32..4, 100_000u64..1_500_000, proptest::option::of(1u64..64), 0i64..800, 1u64..40, 0u32..3);
    let one = one.prop_map(|(count, rate, batch, jitter, access, direction)| StreamDemand {
        count,
        rate: Rate(rate),
        direction: if direction == 0 { Direction::Write } else { Direction::Read },
        access: access * 4096,
        batch: batch.map(|pages| pages * 4096),
        longest: None,
        jitter: Nanos::from_millis(jitter),
        buffer: None,
        deadline: None,
        overlap: true,
    });
    proptest::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However the disk orders what streams ask for, and whatever best effort does where it gets in: no batch is there later than its bound says, and no stream is further behind.
    #[test]
    fn nothing_takes_longer_than_its_bound(
        demands in demands(),
        disk in ((100i64..12_000, 5_000_000u64..100_000_000), (0u64..6, 0i64..3_000, any::<bool>()), (any::<bool>(), 0u64..4)),
        seed in 0u64..1 << 32,
    ) {
        let disk = terms(disk.0, disk.1, disk.2);
        if let Ok(admission) = admit(&demands, &disk, &Floors::default())
            && admission.streams.iter().all(|given| given.service >= disk.asks)
        {
            play(&demands, &disk, &admission, seed)?;
        }
    }
}

/// Each condition that does not hold is told, and with all of them nothing is.
#[test]
fn a_gap_is_refused() {
    let fixed =
        |least: i64| Some(Least { read: Nanos::from_micros(least), write: Nanos::ZERO, rate: Rate(0) });
    let disk = DiskTerms {
        merged_bytes: 128 << 10,
        least: fixed(2_000),
        ..terms((1_000, 10_000_000), (5, 1_000, true), (true, 2))
    };
    let demand = |overlap| StreamDemand {
        count: 1,
        rate: Rate(1_000_000),
        direction: Direction::Read,
        access: 4096,
        batch: None,
        longest: None,
        jitter: Nanos::ZERO,
        buffer: None,
        deadline: None,
        overlap,
    };
    let of = |batch: u64, disk: &DiskTerms| gap(&demand(true), batch, disk);
    let (kib, asks) = (1 << 10, Nanos::MILLISECOND);
    assert_eq!(of(128 * kib, &disk), None);
    assert_eq!(of(64 * kib, &disk), Some(Gap::Merged { batch: 64 * kib, longest: 128 * kib }));
    assert_eq!(of(68 * kib, &disk), None);
    assert_eq!(of(192 * kib, &disk), None);
    assert_eq!(of(192 * kib, &DiskTerms { merged_bytes: 1 << 20, ..disk }), Some(Gap::Divided));
    assert_eq!(of(128 * kib, &DiskTerms { least: None, ..disk }), Some(Gap::Together));
    assert_eq!(of(128 * kib, &DiskTerms { service: Service::InOrder, ..disk }), Some(Gap::InOrder));
    let least = Nanos::from_micros(900);
    assert_eq!(of(128 * kib, &DiskTerms { least: fixed(900), ..disk }), Some(Gap::Brief { least, asks }));
    assert_eq!(gap(&demand(false), 4096, &disk), None);
}
