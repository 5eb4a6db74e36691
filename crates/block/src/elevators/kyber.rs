//! `kyber` (`block/kyber-iosched.c` of 6.1 to 7.2; the percentiles of 2018).
//!
//! Requests stand in domains: reads, writes, discards, others. A domain is dispatched from in the order of arrival, up to its batch, while it has
//! tokens; then the next domain has its turn. Each request in the device holds a token of its domain. They arrive in the software queue of
//! their CPU, and all of them move to the domain's own queue when that is empty and the domain has a turn and a token: a bio joins one of the last
//! eight that have not moved yet. Here all CPUs have one software queue.
//!
//! A completion does not have the queue run by itself: it does where the domain waits for tokens and an eighth of them, eight at most, became free
//! while it did.
//!
//! Latencies are counted in eighths of twice the target, of the device alone and with the time queued. Every 100 ms after a completion: where
//! the device's 90th percentile of any domain is above its target, or a domain's 99th in all, the depth of the domain becomes
//! `depth * (bucket of its 99th + 1) / 4`: less where it is good itself and others are not, more where its own requests wait too long.

use std::collections::VecDeque;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule};
use crate::kernels::Rules;
use crate::queue::tags::Tags;
use crate::request::{Bio, Op, RequestId};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "kyber",
    source: "block/kyber-iosched.c of Linux 6.1 to 7.2",
    front: Front::BlkMq,
    tunables: &[
        Tunable {
            name: "read_lat_nsec",
            default: 2_000_000,
            min: 1,
            max: 1 << 40,
            unit: "ns",
            meaning: "target for the latency of reads",
        },
        Tunable {
            name: "write_lat_nsec",
            default: 10_000_000,
            min: 1,
            max: 1 << 40,
            unit: "ns",
            meaning: "target for the latency of writes",
        },
    ],
    make: |making| Box::new(Kyber::new(making)),
};

const BATCH: Rule = Rule("next in the batch of its domain");
const TURN: Rule = Rule("its domain has its turn");

const DOMAINS: usize = 4;
/// The domain without a target.
const OTHER: usize = 3;
const DEPTHS: [u32; DOMAINS] = [256, 128, 64, 16];
const BATCHES: [u32; DOMAINS] = [16, 8, 1, 1];
/// A bio may be merged with one of the last eight requests of the software queue (`blk_bio_list_merge`).
const LOOKED_AT: usize = 8;
const DISCARD_TARGET: u64 = 5_000_000_000;
const BUCKETS: usize = 8;
/// Buckets up to the target.
const GOOD: usize = 4;
/// Per cent of the tags that requests nobody waits for may have (`KYBER_ASYNC_PERCENT`).
const ASYNC: u32 = 75;
const PERIOD: Nanos = Nanos::from_millis(100);
/// A percentile is taken from so many samples, or when the first is this old.
const SAMPLES: u64 = 500;
const OLD: Nanos = Nanos::SECOND;

#[derive(Clone, Copy, Debug, Default)]
struct Latencies([u64; BUCKETS]);

impl Latencies {
    fn add(&mut self, latency: Nanos, target: u64) {
        let ns = u64::try_from(latency.get()).unwrap_or(0);
        let bucket = ns.saturating_sub(1) / (target / 4).max(1);
        self.0[usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)] += 1;
    }
}

#[derive(Debug)]
struct Domain {
    /// In the software queue, as they came.
    arrived: VecDeque<RequestId>,
    /// In the domain's own, where they wait for a token or a turn.
    queue: VecDeque<RequestId>,
    tokens: Tags,
    rules: &'static Rules,
    /// It had no token when it was asked, and none since.
    waits: bool,
    /// Tokens that became free while it waited, since it was last told.
    freed: u32,
    target: u64,
    /// In all, and of the device.
    total: Latencies,
    device: Latencies,
    /// When its percentiles are taken, however few samples there are.
    due: Option<Nanos>,
    /// The bucket of the 99th percentile, until it was used.
    p99: Option<usize>,
}

impl Domain {
    /// The next request, if it has a token.
    fn take(&mut self) -> Option<RequestId> {
        if self.queue.is_empty() && self.arrived.is_empty() {
            return None;
        }
        let token = self.tokens.take(None);
        self.waits = token.is_none();
        let token = token?;
        if self.queue.is_empty() {
            self.queue.append(&mut self.arrived);
        }
        let id = self.queue.pop_front().expect("it has one");
        self.tokens.give(token, id);
        Some(id)
    }

    /// A request gives its token back; whether the domain is told of it (`sbitmap_queue_wake_up`).
    fn give_back(&mut self, id: RequestId) -> bool {
        self.tokens.free(id);
        if !self.waits {
            return false;
        }
        let batch = self.rules.wake_batch(self.tokens.count(), u32::MAX);
        self.freed += 1;
        let is_told = self.freed >= batch;
        if is_told {
            self.freed -= batch;
            self.waits = false;
        }
        is_told
    }

    /// Those that a bio may join, the youngest first.
    fn joinable(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.arrived.iter().rev().take(LOOKED_AT).copied()
    }
}

#[derive(Debug)]
struct Kyber {
    domains: [Domain; DOMAINS],
    current: usize,
    batching: u32,
    asynchronous: u32,
    limits_writes: bool,
    timer: Option<Nanos>,
    /// A domain was told of free tokens.
    runs: bool,
}

fn domain(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        Op::Flush => OTHER,
    }
}

impl Kyber {
    fn new(making: &Making) -> Kyber {
        let targets =
            [making.settings.get("read_lat_nsec"), making.settings.get("write_lat_nsec"), DISCARD_TARGET, 0];
        let domain = |number: usize| Domain {
            arrived: VecDeque::new(),
            queue: VecDeque::new(),
            tokens: Tags::new(DEPTHS[number], making.rules),
            rules: making.rules,
            waits: false,
            freed: 0,
            target: targets[number],
            total: Latencies::default(),
            device: Latencies::default(),
            due: None,
            p99: None,
        };
        Kyber {
            domains: std::array::from_fn(domain),
            current: 0,
            batching: 0,
            asynchronous: making.rules.share(making.requests, ASYNC, 100),
            limits_writes: making.rules.kyber_limits_writes,
            timer: None,
            runs: false,
        }
    }

    /// The next request of the current domain, if it has a token.
    fn take(&mut self) -> Option<RequestId> {
        let id = self.domains[self.current].take()?;
        self.batching += 1;
        Some(id)
    }

    /// The bucket in which a percentile of a domain lies, if it is to be taken now.
    fn percentile(&mut self, number: usize, of_device: bool, percent: u64, now: Nanos) -> Option<usize> {
        let domain = &mut self.domains[number];
        let latencies = if of_device { &mut domain.device } else { &mut domain.total };
        let samples: u64 = latencies.0.iter().sum();
        if samples == 0 {
            return None;
        }
        let due = *domain.due.get_or_insert(now + OLD);
        if samples < SAMPLES && now < due {
            return None;
        }
        domain.due = None;
        let rank = (samples * percent).div_ceil(100);
        let mut seen = 0;
        let bucket = latencies.0.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        *latencies = Latencies::default();
        Some(bucket.unwrap_or(BUCKETS - 1))
    }
}

impl Elevator for Kyber {
    fn depth_limit(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<u32> {
        (!bio.sync || (self.limits_writes && bio.op != Op::Read)).then_some(self.asynchronous)
    }

    fn least_limit(&self) -> u32 {
        self.asynchronous
    }

    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, _bio: &Bio) -> bool {
        self.domains[domain(context.requests[into].op)].joinable().any(|id| id == into)
    }

    fn front_merge(&mut self, context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        self.domains[domain(bio.op)].joinable().find(|id| context.requests[*id].sector == bio.end())
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        self.domains[domain(context.requests[id].op)].arrived.push_back(id);
    }

    fn dispatch(&mut self, _context: &mut Context<'_>, out: &mut Outgoing) {
        if self.batching < BATCHES[self.current]
            && let Some(id) = self.take()
        {
            return out.append(id, BATCH);
        }
        self.batching = 0;
        for _ in 0..DOMAINS {
            self.current = (self.current + 1) % DOMAINS;
            if let Some(id) = self.take() {
                return out.append(id, TURN);
            }
        }
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let domain = &mut self.domains[domain(request.op)];
        self.runs |= domain.give_back(id);
        if domain.target > 0 {
            domain.total.add(context.now - request.inserted, domain.target);
            domain.device.add(context.now - request.issued, domain.target);
            let due = context.now + PERIOD;
            self.timer = Some(self.timer.map_or(due, |timer| timer.min(due)));
        }
    }

    fn runs_queue(&mut self) -> bool {
        std::mem::take(&mut self.runs)
    }

    fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    fn expired(&mut self, context: &mut Context<'_>) -> bool {
        self.timer = None;
        let now = context.now;
        let mut is_bad = false;
        for number in 0..OTHER {
            is_bad |= self.percentile(number, true, 90, now).is_some_and(|bucket| bucket >= GOOD);
        }
        for (number, most) in DEPTHS.iter().enumerate().take(OTHER) {
            let mut p99 = self.percentile(number, false, 99, now);
            let domain = &mut self.domains[number];
            if is_bad {
                p99 = p99.or(domain.p99.take());
                domain.p99 = None;
            } else if p99.is_some() {
                domain.p99 = p99;
            }
            if let Some(bucket) = p99.filter(|bucket| is_bad || *bucket >= GOOD) {
                let bucket = u32::try_from(bucket).expect("of eight");
                domain.tokens.resize((domain.tokens.count() * (bucket + 1) / 4).clamp(1, *most));
            }
        }
        false
    }

    fn queued(&self) -> usize {
        self.domains.iter().map(|domain| domain.arrived.len() + domain.queue.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    /// Batches of 16 reads and 8 writes; each domain in the order of arrival.
    #[test]
    fn domains_take_turns_in_batches() {
        let mut text = String::new();
        for number in 0..40 {
            text.push_str(&format!("0ms a r {} 8\n0ms b w {} 8\n", 1000 - number * 8, 50_000 - number * 8));
        }
        let order = Script::of(&ROW).text(&text).run().sectors();
        let reads: Vec<bool> = order.iter().map(|sector| *sector < 10_000).collect();
        let mut lengths = Vec::new();
        for run in reads.chunk_by(|one, other| one == other) {
            lengths.push((run[0], run.len()));
        }
        let expected = [(true, 16), (false, 8), (true, 16), (false, 8), (true, 8), (false, 24)];
        assert_eq!(lengths, expected);
        let first: Vec<u64> = order.iter().copied().filter(|sector| *sector < 10_000).take(3).collect();
        assert_eq!(first, [1000, 992, 984]);
    }

    /// A device that takes 8 ms of the 2 ms wanted of reads: writes, which are good in themselves, get fewer tokens.
    #[test]
    fn writes_give_way_where_reads_are_late() {
        let settings = crate::tunable::Settings::new(ROW.tunables);
        let making = Making { rotational: false, ..Making::new(256, 32, settings) };
        let mut kyber = Kyber::new(&making);
        for _ in 0..600 {
            kyber.domains[0].device.add(Nanos::from_millis(8), 2_000_000);
            kyber.domains[0].total.add(Nanos::from_millis(9), 2_000_000);
            kyber.domains[1].device.add(Nanos::from_millis(1), 10_000_000);
            kyber.domains[1].total.add(Nanos::from_millis(1), 10_000_000);
        }
        let mut requests = crate::request::Requests::default();
        let mut context = Context { now: Nanos::SECOND, requests: &mut requests, processes: &[] };
        kyber.expired(&mut context);
        // Bucket 0 of its 99th: a quarter. Reads: bucket 7, at most as many as before.
        assert_eq!((kyber.domains[0].tokens.count(), kyber.domains[1].tokens.count()), (256, 32));
    }

    /// 16 tokens for writes, and 20 writes: a completion has the queue run where two tokens came free while the domain waited, as an eighth of
    /// all is.
    #[test]
    fn a_domain_without_tokens_is_told_of_them_in_batches() {
        let mut kyber = Kyber::new(&Making::new(128, 64, crate::tunable::Settings::new(ROW.tunables)));
        kyber.domains[1].tokens.resize(16);
        let mut requests = crate::request::Requests::default();
        let ids: Vec<RequestId> = (0..20)
            .map(|number| {
                let (process, sector) = (crate::request::ProcessId(0), 1000 * number);
                let bio = Bio {
                    op: Op::Write,
                    sync: true,
                    meta: false,
                    cached: false,
                    sector,
                    sectors: 8,
                    process,
                    deadline: None,
                };
                requests.make(
                    &bio,
                    crate::request::BioId(0),
                    crate::request::Priority::default(),
                    Nanos::ZERO,
                )
            })
            .collect();
        let mut context = Context { now: Nanos::ZERO, requests: &mut requests, processes: &[] };
        ids.iter().for_each(|id| kyber.insert(&mut context, *id));
        let dispatched = |kyber: &mut Kyber, context: &mut Context<'_>| {
            let mut out = Outgoing::default();
            let ask = || {
                kyber.dispatch(context, &mut out);
                out.take()
            };
            std::iter::from_fn(ask).count()
        };
        assert_eq!(dispatched(&mut kyber, &mut context), 16);
        let runs: Vec<bool> = ids[..6]
            .iter()
            .map(|id| {
                kyber.completed(&mut context, *id);
                kyber.runs_queue()
            })
            .collect();
        // It does not wait again before it was asked.
        assert_eq!(runs, [false, true, false, false, false, false]);
        assert_eq!((dispatched(&mut kyber, &mut context), kyber.queued()), (4, 0));
    }

    /// A bio joins one of the last eight requests that came, of those that have not moved to the domain's queue.
    #[test]
    fn a_bio_joins_a_request_that_came_lately() {
        let mut kyber = Kyber::new(&Making::new(128, 64, crate::tunable::Settings::new(ROW.tunables)));
        let mut requests = crate::request::Requests::default();
        let read = |sector| Bio {
            op: Op::Read,
            sync: true,
            meta: false,
            cached: false,
            sector,
            sectors: 8,
            process: crate::request::ProcessId(0),
            deadline: None,
        };
        let ids: Vec<RequestId> = (0..10)
            .map(|number| {
                let (bio, id) = (read(1000 * number), crate::request::BioId(0));
                requests.make(&bio, id, crate::request::Priority::default(), Nanos::ZERO)
            })
            .collect();
        let mut context = Context { now: Nanos::ZERO, requests: &mut requests, processes: &[] };
        ids.iter().for_each(|id| kyber.insert(&mut context, *id));
        let joins = |kyber: &mut Kyber, context: &mut Context<'_>, number: usize| {
            kyber.may_merge(context, ids[number], &read(0))
        };
        let front = |kyber: &mut Kyber, context: &mut Context<'_>, number: u64| {
            kyber.front_merge(context, &read(1000 * number - 8)).is_some()
        };
        assert_eq!([1, 2, 9].map(|number| joins(&mut kyber, &mut context, number)), [false, true, true]);
        assert_eq!([1, 2, 9].map(|number| front(&mut kyber, &mut context, number)), [false, true, true]);
        kyber.dispatch(&mut context, &mut Outgoing::default());
        assert!(!joins(&mut kyber, &mut context, 9), "all have moved");
    }
}
