//! Lag bounds, over thousands of random arrivals for each scheduler.
//!
//! The worst-case fair index (B-WFI) of a flow of share p is the smallest `a` for which, over every interval in which it is backlogged, it
//! gets at least `p W - a` of the work W of the server. Where all flows are backlogged the fluid server gives each `p W`, so there `a`
//! bounds how far a flow is behind it; where not, PGPS alone promises something against the fluid server itself.

use surety_block::fairq::gps::{Done, Gps};
use surety_block::fairq::{Curve, Flow, FlowId, Making, by_word};
use surety_units::{Nanos, Rate};

use crate::drive::{Case, RATE, Served, bytes_at, case, micros, run};

/// Bytes done and bytes of a flow done, at an instant.
struct Progress<'a> {
    served: &'a [Served],
    /// Of each item, the bytes done before it: by all, and by the flow.
    before: Vec<(u64, u64)>,
}

impl Progress<'_> {
    fn of(served: &[Served], flow: FlowId) -> Progress<'_> {
        let (mut all, mut own) = (0, 0);
        let mut before = Vec::new();
        for Served { item, .. } in served {
            before.push((all, own));
            all += u64::from(item.length);
            own += if item.flow == flow { u64::from(item.length) } else { 0 };
        }
        before.push((all, own));
        Progress { served, before }
    }

    /// Bytes done by an instant, the part of the item in service that is done with them.
    fn at(&self, flow: FlowId, at: Nanos) -> (u64, u64) {
        let place = self.served.partition_point(|served| served.end <= at);
        let (all, own) = self.before[place];
        let Some(current) = self.served.get(place).filter(|current| current.begun < at) else {
            return (all, own);
        };
        let part = bytes_at(at - current.begun);
        (all + part, own + if current.item.flow == flow { part } else { 0 })
    }
}

/// Intervals in which a flow has items that are not done.
fn backlogged(case: &Case, served: &[Served], flow: FlowId) -> Vec<(Nanos, Nanos)> {
    let came = case.arrivals.iter().filter(|(_, item)| item.flow == flow).map(|(at, _)| *at);
    let went = served.iter().filter(|served| served.item.flow == flow).map(|served| served.end);
    let mut intervals: Vec<(Nanos, Nanos)> = Vec::new();
    for (came, went) in came.zip(went) {
        match intervals.last_mut() {
            Some(last) if came < last.1 => last.1 = went,
            _ => intervals.push((came, went)),
        }
    }
    intervals
}

/// The B-WFI that a flow has seen, in bytes, rounded up: at the ends of its own items, or at every instant.
fn index_seen(case: &Case, served: &[Served], flow: FlowId, at_its_ends: bool) -> u64 {
    let weight = |flow: &Flow| u64::from(flow.weight);
    let (own, all) =
        (weight(&case.making.flows[flow.index()]), case.making.flows.iter().map(weight).sum::<u64>());
    let progress = Progress::of(served, flow);
    let mut worst = 0;
    for (from, to) in backlogged(case, served, flow) {
        // Work is in straight pieces between the ends of items.
        let ends = served.iter().filter(|served| (from..=to).contains(&served.end));
        let mut highest = i128::MIN;
        let ends = ends.map(|served| (served.end, served.item.flow == flow || !at_its_ends));
        for (at, counts) in std::iter::once((from, true)).chain(ends) {
            let (done, of_flow) = progress.at(flow, at);
            let ahead = i128::from(of_flow) * i128::from(all) - i128::from(done) * i128::from(own);
            highest = highest.max(ahead);
            if counts {
                worst = worst.max(highest - ahead);
            }
        }
    }
    u64::try_from(worst).expect("small").div_ceil(all)
}

type Bound = fn(&Making, &Flow) -> f64;

fn total(making: &Making) -> f64 {
    making.flows.iter().map(|flow| f64::from(flow.weight)).sum()
}

fn largest(making: &Making) -> f64 {
    making.flows.iter().map(|flow| f64::from(flow.largest)).fold(0.0, f64::max)
}

/// Bennett and Zhang, 1996, theorem 4: at the ends of the flow's items.
fn of_wf2q_plus(making: &Making, flow: &Flow) -> f64 {
    let share = f64::from(flow.weight) / total(making);
    let own = f64::from(flow.largest);
    own + share * (largest(making) - own)
}

/// At any instant, most of an item may be missing beside, which is in service or about to be.
fn of_wf2q_plus_always(making: &Making, flow: &Flow) -> f64 {
    of_wf2q_plus(making, flow) + f64::from(flow.largest) * (1.0 - f64::from(flow.weight) / total(making))
}

/// As derived in the header of the engine.
fn of_b_wf2q_plus(making: &Making, flow: &Flow) -> f64 {
    let budget = |flow: &Flow| f64::from(flow.largest.max(making.quantum));
    let most = making.flows.iter().map(budget).fold(0.0, f64::max);
    2.0 * budget(flow) + f64::from(flow.weight) / total(making) * most
}

/// Checconi, Rizzo and Valente, 2013, with budgets for items; and DRR among the flows of an aggregate.
fn of_qfq_plus(making: &Making, flow: &Flow) -> f64 {
    let alike = making.flows.iter().filter(|other| *other == flow).count();
    // The last aggregate of a kind may hold fewer; none holds more.
    let most = making.flows.iter().map(|flow| 8.0 * f64::from(flow.largest)).fold(0.0, f64::max);
    let weight = f64::from(flow.weight);
    let slot = (0..25).map(|i| 2f64.powi(25 + i - 30)).find(|slot| *slot >= f64::from(flow.largest) / weight);
    let slot = slot.expect("a group for every flow");
    let together = if alike == 1 { 0.0 } else { 3.0 * f64::from(flow.largest) };
    3.0 * weight * slot + 2.0 * weight / total(making) * most + together
}

#[test]
fn no_flow_is_further_behind_its_share_than_the_index_of_its_scheduler() {
    let bounds: [(&str, Bound, bool); 4] = [
        ("wf2q+", of_wf2q_plus, true),
        ("wf2q+", of_wf2q_plus_always, false),
        ("b-wf2q+", of_b_wf2q_plus, false),
        ("qfq", of_qfq_plus, false),
    ];
    for (word, bound, at_its_ends) in bounds {
        let mut closest = 0f64;
        for seed in 0..150 {
            let case = case(seed, 400);
            let served = run(by_word(word).expect("a scheduler"), &case.making, &case.arrivals);
            for (place, flow) in case.making.flows.iter().enumerate() {
                let seen =
                    index_seen(&case, &served, FlowId(u32::try_from(place).expect("few")), at_its_ends);
                let bound = bound(&case.making, flow).ceil();
                assert!(
                    seen as f64 <= bound + 1.0,
                    "{word}, seed {seed}, flow {place}: {seen} beyond {bound}"
                );
                closest = closest.max(seen as f64 / bound);
            }
        }
        // A bound that nothing comes near proves little.
        assert!(closest > 0.3, "{word}: {closest}");
    }
}

/// What the test above can fail by.
#[test]
fn wfq_and_fifo_have_no_such_index() {
    for word in ["wfq", "fifo"] {
        let beyond = (0..150).any(|seed| {
            let case = case(seed, 400);
            let served = run(by_word(word).expect("a scheduler"), &case.making, &case.arrivals);
            case.making.flows.iter().enumerate().any(|(place, flow)| {
                let seen = index_seen(&case, &served, FlowId(u32::try_from(place).expect("few")), true);
                seen as f64 > of_wf2q_plus(&case.making, flow) + 1.0
            })
        });
        assert!(beyond, "{word}");
    }
}

/// Parekh and Gallager, 1993, theorem 1 and its corollary: under PGPS an item is done at most the time of the largest after it is in
/// the fluid server, and no flow is further behind than the largest item.
#[test]
fn wfq_is_behind_the_fluid_server_by_at_most_the_largest_item() {
    for seed in 0..150 {
        let case = case(seed, 400);
        let most = case.making.flows.iter().map(|flow| flow.largest).max().expect("a flow");
        let served = run(by_word("wfq").expect("a scheduler"), &case.making, &case.arrivals);
        let mut fluid = Gps::new(RATE, case.making.flows.iter().map(|flow| flow.weight).collect());
        let mut done = vec![None; case.arrivals.len()];
        for (at, item) in &case.arrivals {
            fluid.advance(*at, |Done { number, at, .. }| done[number as usize] = Some(at));
            fluid.arrive(*at, *item);
        }
        fluid.advance(Nanos::from_secs(1_000), |Done { number, at, .. }| done[number as usize] = Some(at));
        for Served { item, end, .. } in &served {
            let fluid = done[item.number as usize].expect("the fluid server is done with all");
            assert!(
                *end <= fluid + micros(u64::from(most)),
                "seed {seed}: {item:?} at {end}, {fluid} in the fluid"
            );
        }
    }
}

/// Where every flow is backlogged from the beginning, the lag against the fluid server itself is within the index.
#[test]
fn with_all_flows_backlogged_the_lag_against_the_fluid_server_is_within_the_index() {
    let bounds: [(&str, Bound); 3] =
        [("wf2q+", of_wf2q_plus_always), ("b-wf2q+", of_b_wf2q_plus), ("qfq", of_qfq_plus)];
    for seed in 0..40 {
        let mut case = case(seed, 600);
        for (at, _) in &mut case.arrivals {
            *at = Nanos::ZERO;
        }
        let flows = case.making.flows.len();
        for (word, bound) in bounds {
            let served = run(by_word(word).expect("a scheduler"), &case.making, &case.arrivals);
            let mut fluid = Gps::new(RATE, case.making.flows.iter().map(|flow| flow.weight).collect());
            let mut left = vec![0u64; flows];
            for (at, item) in &case.arrivals {
                fluid.arrive(*at, *item);
                left[item.flow.index()] += u64::from(item.length);
            }
            if left.contains(&0) {
                continue;
            }
            let came = left.clone();
            for Served { item, end, .. } in &served {
                left[item.flow.index()] -= u64::from(item.length);
                fluid.advance(*end, |_| ());
                let of_fluid =
                    |flow: usize| fluid.served(FlowId(u32::try_from(flow).expect("few"))) / 1_000_000_000;
                if (0..flows).any(|flow| left[flow] == 0 || of_fluid(flow) >= u128::from(came[flow])) {
                    break;
                }
                for (flow, limits) in case.making.flows.iter().enumerate() {
                    let done = u128::from(came[flow] - left[flow]);
                    let lag = of_fluid(flow).saturating_sub(done) as f64;
                    let bound = bound(&case.making, limits).ceil() + 1.0;
                    assert!(lag <= bound, "{word}, seed {seed}, flow {flow}: {lag} behind, beyond {bound}");
                }
            }
        }
    }
}

/// The service-curve guarantee (Stoica, Zhang and Ng, 1997, theorem 2): with curves that together are below the server's, every item is done at
/// most the time of the largest item after `max over t of (t + C^-1(bytes from t on))`, t the instants at which the flow became backlogged.
#[test]
fn hfsc_keeps_every_deadline_of_its_curves_but_for_the_largest_item() {
    for seed in 0..200 {
        let mut case = case(seed, 300);
        let flows = case.making.flows.len() as u64;
        // Concave and linear curves, all of whose first slopes together are the server's; some flows have none.
        for (place, flow) in case.making.flows.iter_mut().enumerate() {
            let first = Rate(RATE.0 / flows);
            let bend = Nanos::from_micros(i64::from(flow.largest) * 3);
            flow.curve = match place % 3 {
                0 => Some(Curve { first, bend, then: Rate(first.0 / 4) }),
                1 => Some(Curve::linear(first)),
                _ => None,
            };
        }
        let most = case.making.flows.iter().map(|flow| flow.largest).max().expect("a flow");
        let served = run(by_word("hfsc").expect("a scheduler"), &case.making, &case.arrivals);
        for (place, flow) in case.making.flows.iter().enumerate() {
            let Some(curve) = flow.curve else { continue };
            let flow = FlowId(u32::try_from(place).expect("few"));
            let own: Vec<&Served> = served.iter().filter(|served| served.item.flow == flow).collect();
            // Beginnings of backlog, with the bytes done before.
            let periods = backlogged(&case, &served, flow);
            for item in &own {
                let done = |until: Nanos| -> u64 {
                    own.iter().filter(|s| s.end <= until).map(|s| u64::from(s.item.length)).sum()
                };
                let begun = periods.iter().filter(|(from, _)| *from < item.end).map(|(from, _)| *from);
                let due = begun.map(|from| from + inverse(curve, done(item.end) - done(from))).max();
                let due = due.expect("it was backlogged");
                assert!(item.end <= due + micros(u64::from(most)), "seed {seed}: {item:?} is due at {due}");
            }
        }
    }
}

/// The instant at which a curve reaches so many bytes.
fn inverse(curve: Curve, bytes: u64) -> Nanos {
    let ns = |bytes: u128, rate: Rate| (bytes * 1_000_000_000).div_ceil(u128::from(rate.0));
    let first = u128::from(curve.bend.get_unsigned()) * u128::from(curve.first.0) / 1_000_000_000;
    let bytes = u128::from(bytes);
    let ns = match bytes.checked_sub(first) {
        Some(rest) if rest > 0 => u128::from(curve.bend.get_unsigned()) + ns(rest, curve.then),
        _ => ns(bytes, curve.first),
    };
    Nanos::new(i64::try_from(ns).expect("short"))
}
