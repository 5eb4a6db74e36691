//! [`unaltered`]: whether the parts of a plan file still say the same.
//!
//! A plan says most things twice: a promise as text and in numbers, a fraction in its proof and in its claim, what a budget
//! is worth and what it pays. Before anything is computed each is compared with its twin, and every number is held to what
//! arithmetic and a simulation of it can take, since a file is edited by hand and may hold anything.
//!
//! The costs are deducted again with the overheads that `surety plan` states ([`Overhead::default`]): a file may deduct more,
//! never less. Work whose interrupts were measured with it (`permille` 0) pays no ticks and no handlers beside.

use std::collections::BTreeSet;

use surety_analysis::overheads::{Interruption, all_at_most};
use surety_model::claim::{Claim, ClaimedArrivals, ClaimedWork, RequestClaim, ResponseClaim, Subject};
use surety_model::plan::{Plan, PlannedReservation};
use surety_model::platform::{Enforcement, Platform, TimerRules};
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::reservation::Reservation;
use surety_units::{Bandwidth, Nanos, Probability};

use super::CheckError;
use crate::{Overhead, PlanOptions};

/// The longest time of a claim.
const TIME_MAX: Nanos = Nanos::from_secs(86_400);
/// The shortest distance of releases and of interrupts.
const DISTANCE_MIN: Nanos = Nanos::from_micros(1);
/// The longest tick.
const TICK_MAX: Nanos = Nanos::from_secs(1);
/// The most CPUs of a plan that is simulated.
const CPUS_MAX: u32 = 256;
/// The most reserved threads of a plan.
const THREADS_MAX: u64 = 4_096;
/// The most requests in flight.
const FLIGHT_MAX: u32 = 65_536;
/// Values of a distribution.
const MASSES_MAX: usize = 1 << 20;
/// Fractions and rates survive being written in decimals up to this.
const WRITTEN: f64 = 1e-12;

/// Holds the plan's own numbers to their limits and its parts to each other.
///
/// Errors: the first number or text that does not fit.
pub(super) fn unaltered(plan: &Plan, claims: &[Claim]) -> Result<(), CheckError> {
    platform(&plan.platform)?;
    for (index, planned) in plan.reservations.iter().enumerate() {
        if plan.reservations[..index].iter().any(|other| other.activity == planned.activity) {
            return Err(of_plan(planned, "its reservations", "more than one", "an activity has one"));
        }
        if let Err(error) = planned.reservation.check() {
            return Err(of_plan(planned, "its reservation", error, "the kernel refuses it"));
        }
    }
    let mut threads = others(plan)?;
    for claim in claims {
        limits(claim)?;
        same_as_text(claim)?;
    }
    let handlers: Vec<Interruption> = plan.reservations.iter().filter_map(|p| handler(p, claims)).collect();
    for planned in &plan.reservations {
        let own: Vec<&Claim> = claims.iter().filter(|claim| claim.activity == planned.activity).collect();
        let Some(first) = own.first() else { return Err(CheckError::Nothing(planned.activity.clone())) };
        threads += u64::from(first.threads);
        same_promises(planned, &own)?;
        same_probability(planned, &own)?;
        one_activity(planned, &own)?;
        for claim in own {
            costs(claim, planned.reservation, &handlers, &plan.platform)?;
        }
    }
    if threads > THREADS_MAX {
        return Err(CheckError::TooMuch {
            what: "reserved threads",
            value: threads.to_string(),
            most: THREADS_MAX.to_string(),
        });
    }
    Ok(())
}

fn of_plan(
    planned: &PlannedReservation,
    what: &'static str,
    value: impl ToString,
    rule: &'static str,
) -> CheckError {
    CheckError::Number { activity: planned.activity.clone(), what, value: value.to_string(), rule }
}

fn wrong(claim: &Claim, what: &'static str, value: impl ToString, rule: &'static str) -> CheckError {
    CheckError::Number { activity: claim.activity.clone(), what, value: value.to_string(), rule }
}

/// What others have reserved, as far as the kernel would let them: how many threads that are.
fn others(plan: &Plan) -> Result<u64, CheckError> {
    let mut threads = 0u64;
    for (index, other) in plan.platform.others.iter().enumerate() {
        let number = |what, value: String, rule| {
            Err(CheckError::Number { activity: other.name.clone(), what, value, rule })
        };
        if let Err(error) = other.reservation.check() {
            return number("its reservation", error.to_string(), "the kernel refuses it");
        }
        let is_twice = plan.platform.others[..index].iter().any(|o| o.name == other.name);
        if is_twice || plan.reservation_of(&other.name).is_some() {
            return number("its reservations", "more than one".to_owned(), "an activity has one");
        }
        threads = threads.saturating_add(u64::from(other.threads));
    }
    let takes = plan.platform.realtime.as_ref().and_then(|realtime| realtime.takes);
    if let Some(takes) = takes.filter(|takes| takes.is_negative()) {
        let value = takes.to_exact_string();
        return Err(CheckError::TooMuch {
            what: "what realtime threads take",
            value,
            most: "0 or more".to_owned(),
        });
    }
    Ok(threads)
}

/// The platform's numbers, as far as reading a plan does not look at them.
fn platform(platform: &Platform) -> Result<(), CheckError> {
    let too_much = |what, value: String, most: String| Err(CheckError::TooMuch { what, value, most });
    if platform.cpus == 0 || platform.cpus > CPUS_MAX {
        return too_much("CPUs of the platform", platform.cpus.to_string(), CPUS_MAX.to_string());
    }
    if !platform.cpu_specs.is_empty() && platform.cpu_specs.len() != platform.cpus as usize {
        let named = format!("{} CPUs", platform.cpu_specs.len());
        return too_much("the platform's `cpu_specs`", named, "one for each CPU".to_owned());
    }
    let schedulers: BTreeSet<_> = platform.schedulers.iter().collect();
    if schedulers.len() < platform.schedulers.len() {
        let named = format!("{} schedulers", platform.schedulers.len());
        return too_much("the platform's `class_order`", named, "each of them once".to_owned());
    }
    let overrun = match platform.enforcement {
        Enforcement::Tick(tick) => tick,
        Enforcement::Exact => platform.tick,
    };
    let mut times = vec![
        ("the platform's tick", platform.tick, DISTANCE_MIN * 10, TICK_MAX),
        ("the tick of the platform's enforcement", overrun, Nanos::new(1), TICK_MAX),
        ("the platform's `base_slice`", platform.base_slice, DISTANCE_MIN, TICK_MAX),
        ("the platform's `round_robin_slice`", platform.round_robin_slice, DISTANCE_MIN, TIME_MAX),
    ];
    let costs = platform.overheads.each();
    times.extend(costs.map(|(_, cost)| ("a cost of the platform's overheads", cost, Nanos::ZERO, TICK_MAX)));
    times.extend(
        platform.tick_phase.map(|phase| ("the platform's `tick_phase`", phase, Nanos::ZERO, platform.tick)),
    );
    if !platform.fair_servers.is_empty()
        && (platform.fair_servers.len() != platform.cpus as usize
            || platform.clone().with_fair_servers(&platform.fair_servers) != *platform)
    {
        let named = format!("{} of {} CPUs", platform.fair_servers.len(), platform.cpus);
        let most = "one for each CPU, not all alike, the largest share of them `fair_server`".to_owned();
        return too_much("the platform's `fair_servers`", named, most);
    }
    for server in platform.fair_server.iter().chain(&platform.fair_servers) {
        times.push(("the fair server's period", server.period, Nanos::from_micros(100), TIME_MAX));
        times.push(("the fair server's budget", server.runtime, Nanos::ZERO, server.period));
    }
    if let Some(server) = platform.ext_server {
        times.push(("the ext server's period", server.period, Nanos::from_micros(100), TIME_MAX));
        times.push(("the ext server's budget", server.runtime, Nanos::ZERO, server.period));
    }
    if let Some(limit) = platform.realtime_limit {
        times.push(("the realtime limit's period", limit.period, Nanos::from_micros(100), TIME_MAX));
        times.push(("the realtime limit's budget", limit.runtime, Nanos::ZERO, limit.period));
    }
    times.extend(
        platform
            .timers
            .map(|rules| ("the platform's `timers.slack`", rules.slack, Nanos::ZERO, TimerRules::SLACK_MAX)),
    );
    for (what, value, least, most) in times {
        if value < least || value > most {
            let most = format!("{} to {}", least.to_exact_string(), most.to_exact_string());
            return too_much(what, value.to_exact_string(), most);
        }
    }
    let (part, whole) = platform.deadline_cap.ratio();
    if whole == 0 || part > whole || whole > 1 << 40 {
        return too_much("the platform's `deadline_cap`", format!("{part}/{whole}"), "1".to_owned());
    }
    rules(platform)
}

/// What the platform has otherwise than its kernel, or by one number of it than by another, which `--platform` would refuse as well.
fn rules(platform: &Platform) -> Result<(), CheckError> {
    let too_much = |what, value: String, most: String| Err(CheckError::TooMuch { what, value, most });
    // One setting of the kernel limits both.
    let of_limit = platform.realtime_limit.and_then(|limit| Bandwidth::of(limit.runtime, limit.period));
    let expected = if platform.deadline_unlimited { Some(Bandwidth::ONE) } else { of_limit };
    if let Some(expected) = expected.filter(|expected| *expected != platform.deadline_cap) {
        let most = format!("{expected} by `realtime_limit` or `deadline_unlimited`: make the plan anew");
        return too_much("the platform's `deadline_cap`", platform.deadline_cap.to_string(), most);
    }
    let words: Vec<&str> = platform.features.iter().map(String::as_str).collect();
    if !words.is_empty()
        && let Err(why) = platform.clone().set_features(&words)
    {
        return too_much("the platform's `features`", words.join(" "), why);
    }
    if platform.has_late_timers() && platform.enforcement == Enforcement::Exact {
        let most = "true, or `enforcement` on the tick, since exact budgets end on such a timer".to_owned();
        return too_much("the platform's `timers.high_resolution`", "false".to_owned(), most);
    }
    Ok(())
}

/// What a claim's numbers may be at all.
fn limits(claim: &Claim) -> Result<(), CheckError> {
    if claim.threads == 0 {
        return Err(wrong(claim, "its number of threads", 0, "at least one has the reservation"));
    }
    if u64::from(claim.threads) > THREADS_MAX {
        return Err(wrong(claim, "its number of threads", claim.threads, "at most 4096 are checked"));
    }
    let long = "times are between 0 and a day";
    let time = |what: &'static str, value: Nanos| {
        let fits = !value.is_negative() && value <= TIME_MAX;
        if fits { Ok(()) } else { Err(wrong(claim, what, value.to_exact_string(), long)) }
    };
    let distance = |what: &'static str, value: Nanos| {
        let rule = "it is at least 1us and at most a day";
        let fits = value >= DISTANCE_MIN && value <= TIME_MAX;
        if fits { Ok(()) } else { Err(wrong(claim, what, value.to_exact_string(), rule)) }
    };
    match &claim.about {
        Subject::Share { share, over } => {
            let (part, whole) = share.ratio();
            if whole == 0 || part > whole || whole > 1 << 40 {
                let rule = "a share is a part of one CPU, in parts of at most 2^40";
                return Err(wrong(claim, "the share", format!("{part}/{whole}"), rule));
            }
            over.map_or(Ok(()), |window| distance("the window", window))
        }
        Subject::Response(response) => {
            distance("the inter-arrival time of releases", response.gap)?;
            distance("the limit", response.limit)?;
            for (what, value) in [
                ("the jitter", response.jitter),
                ("the costs of a budget", response.beside),
                ("the budget left for work", response.worth),
            ] {
                time(what, value)?;
            }
            if !response.worth.is_positive() {
                let rule = "a server without a budget serves no job";
                return Err(wrong(claim, "the budget left for work", response.worth.to_exact_string(), rule));
            }
            if response.permille > 1_000 {
                return Err(wrong(
                    claim,
                    "`permille`",
                    response.permille,
                    "costs are at most the work itself",
                ));
            }
            for (what, value) in
                [("the promised fraction", response.promised), ("the proven fraction", response.proven)]
            {
                if !(0.0..=1.0).contains(&value) {
                    return Err(wrong(claim, what, value, "a fraction lies between 0 and 1"));
                }
            }
            work(claim, &response.work)
        }
        Subject::Requests(requests) => {
            match requests.arrivals {
                ClaimedArrivals::Apart(gap) => distance("the inter-arrival time of interrupts", gap)?,
                ClaimedArrivals::Independent(rate) => {
                    if !(0.001..=1e6).contains(&rate) {
                        let rule = "between 0.001 and 1000000 come in a second";
                        return Err(wrong(claim, "the rate of interrupts", format!("{rate:e}"), rule));
                    }
                }
                ClaimedArrivals::Closed(outstanding, service) => {
                    distance("the time in the device", service)?;
                    if outstanding == 0 || outstanding > FLIGHT_MAX {
                        let rule = "from 1 to 65536 requests are in flight";
                        return Err(wrong(claim, "the requests in flight", outstanding, rule));
                    }
                }
            }
            time("the hard handler", requests.hard)?;
            time("what a budget leaves for requests", requests.worth)?;
            if requests.buffer == Some(0) {
                return Err(wrong(claim, "the buffer", 0, "a device that holds nothing loses everything"));
            }
            if let Some(rate) = requests.rate
                && !(rate.is_finite() && rate > 0.0)
            {
                return Err(wrong(claim, "the promised rate", rate, "a rate is above 0"));
            }
            work(claim, &requests.work)
        }
    }
}

fn work(claim: &Claim, work: &ClaimedWork) -> Result<(), CheckError> {
    let times = match work {
        ClaimedWork::Constant(a) | ClaimedWork::Exponential(a) => vec![*a],
        ClaimedWork::Uniform(a, b) | ClaimedWork::Normal(a, b) | ClaimedWork::LogNormal(a, b) => vec![*a, *b],
        ClaimedWork::Masses(masses) if masses.len() > MASSES_MAX => {
            let rule = "at most 1048576 are read";
            return Err(wrong(claim, "the values of its work", masses.len(), rule));
        }
        ClaimedWork::Sequence(jobs) if jobs.len() > MASSES_MAX => {
            let rule = "at most 1048576 are read";
            return Err(wrong(claim, "the jobs of its work", jobs.len(), rule));
        }
        ClaimedWork::Sequence(jobs) => jobs.clone(),
        ClaimedWork::Masses(masses) => masses.iter().map(|(value, _)| *value).collect(),
    };
    match times.into_iter().find(|time| time.is_negative() || *time > TIME_MAX) {
        Some(time) => Err(wrong(claim, "its work", time.to_exact_string(), "times are between 0 and a day")),
        None => Ok(()),
    }
}

/// The promise's text says what the numbers say.
fn same_as_text(claim: &Claim) -> Result<(), CheckError> {
    let promise = &claim.promise;
    let is_none = matches!(promise.comparison, Comparison::Equal | Comparison::AtMost)
        && promise.bound == Bound::Count(0)
        && matches!(promise.metric, Metric::Lost | Metric::Dropped | Metric::Missed | Metric::Late);
    let close = |a: f64, b: f64| (a - b).abs() <= WRITTEN * a.abs().max(1.0);
    let (same, numbers) = match &claim.about {
        Subject::Response(response) => {
            let exclusive = if promise.comparison == Comparison::Below { Nanos::new(1) } else { Nanos::ZERO };
            let limit_fits = match promise.response_limit() {
                Some(limit) => limit - exclusive == response.limit && promise.over.is_none(),
                None => is_none,
            };
            let at = promise.at.map_or(1.0, Probability::as_f64);
            let limit = response.limit.to_exact_string();
            (
                limit_fits && close(at, response.promised),
                format!("{} % within {limit}", response.promised * 100.0),
            )
        }
        Subject::Share { share, over } => (
            promise.metric == Metric::Share
                && promise.comparison == Comparison::AtLeast
                && promise.bound == Bound::Share(*share)
                && promise.over == *over
                && promise.at.is_none(),
            match over {
                Some(window) => format!("{share} of a CPU in every {}", window.to_exact_string()),
                None => format!("{share} of a CPU"),
            },
        ),
        Subject::Requests(requests) => match (requests.rate, promise.bound) {
            (Some(rate), Bound::Frequency(promised)) => (
                promise.metric == Metric::Rate
                    && promise.comparison == Comparison::AtLeast
                    && close(promised.per_second(), rate),
                format!("{rate} requests a second"),
            ),
            (Some(rate), _) => (false, format!("{rate} requests a second")),
            (None, _) => (is_none, "no request lost".to_owned()),
        },
    };
    if same {
        return Ok(());
    }
    Err(CheckError::Altered {
        activity: claim.activity.clone(),
        one: format!("the promise `{}`", claim.promise),
        other: format!("its numbers ({numbers})"),
    })
}

/// A reservation lists the promises that are claimed of it, no other and none twice.
fn same_promises(planned: &PlannedReservation, own: &[&Claim]) -> Result<(), CheckError> {
    let mut listed: Vec<String> = planned.promises.iter().map(Promise::to_string).collect();
    let mut claimed: Vec<String> = own.iter().map(|claim| claim.promise.to_string()).collect();
    listed.sort_unstable();
    claimed.sort_unstable();
    if listed == claimed {
        return Ok(());
    }
    let quoted = |promises: &[String]| match promises {
        [] => "none".to_owned(),
        some => format!("`{}`", some.join("`, `")),
    };
    Err(CheckError::Altered {
        activity: planned.activity.clone(),
        one: format!("its reservation's promises ({})", quoted(&listed)),
        other: format!("its claims ({})", quoted(&claimed)),
    })
}

/// The proof's fraction is the least that is claimed.
fn same_probability(planned: &PlannedReservation, own: &[&Claim]) -> Result<(), CheckError> {
    let proven = own.iter().filter_map(|claim| match &claim.about {
        Subject::Response(response) => Some(response.proven),
        _ => None,
    });
    let least = proven.reduce(f64::min);
    let same = match (least, planned.proof.probability) {
        (None, None) => true,
        (Some(claimed), Some(stated)) => (claimed - stated).abs() <= WRITTEN,
        _ => false,
    };
    let words = |p: Option<f64>| p.map_or_else(|| "none".to_owned(), |p| p.to_string());
    if same {
        return Ok(());
    }
    Err(CheckError::Altered {
        activity: planned.activity.clone(),
        one: format!("the fraction of its proof ({})", words(planned.proof.probability)),
        other: format!("the least fraction that is claimed ({})", words(least)),
    })
}

/// All claims of an activity describe the same threads, releases and device.
fn one_activity(planned: &PlannedReservation, own: &[&Claim]) -> Result<(), CheckError> {
    let differs = |what: &str| {
        Err(CheckError::Altered {
            activity: planned.activity.clone(),
            one: format!("one of its claims ({what})"),
            other: "another one".to_owned(),
        })
    };
    if own.iter().any(|claim| claim.threads != own[0].threads) {
        return differs("the number of threads");
    }
    if own.iter().any(|claim| claim.wakes_inside != own[0].wakes_inside) {
        return differs("whether it may sleep inside a budget");
    }
    let responses = own.iter().filter_map(|claim| match &claim.about {
        Subject::Response(response) => Some(response),
        _ => None,
    });
    let releases = |r: &ResponseClaim| (r.gap, r.jitter, r.grid, r.skips, r.beside, r.permille, r.worth);
    let mut releases = responses.map(releases);
    if let Some(first) = releases.next()
        && releases.any(|other| other != first)
    {
        return differs("how jobs are released, and what a budget pays");
    }
    let mut devices = own.iter().filter_map(|claim| match &claim.about {
        Subject::Requests(requests) => Some(RequestClaim { rate: None, ..requests.clone() }),
        _ => None,
    });
    if let Some(first) = devices.next()
        && devices.any(|other| other != first)
    {
        return differs("its device");
    }
    Ok(())
}

/// The hard handler of a planned interrupt.
fn handler(planned: &PlannedReservation, claims: &[Claim]) -> Option<Interruption> {
    let own = claims.iter().filter(|claim| claim.activity == planned.activity);
    let mut requests = own.filter_map(|claim| match &claim.about {
        Subject::Requests(requests) => Some(requests),
        _ => None,
    });
    let requests = requests.next()?;
    let distance = match requests.arrivals {
        ClaimedArrivals::Apart(gap) | ClaimedArrivals::Closed(_, gap) => gap,
        ClaimedArrivals::Independent(rate) => Nanos::from_f64_rounded(1e8 / rate).max(Nanos::new(1)),
    };
    requests.hard.is_positive().then_some(Interruption { cost: requests.hard, distance })
}

/// The budget pays what `surety plan` deducts at the least, and what is left is the worth that is claimed.
fn costs(
    claim: &Claim,
    reservation: Reservation,
    handlers: &[Interruption],
    platform: &Platform,
) -> Result<(), CheckError> {
    let runtime = reservation.runtime;
    let stated: Overhead = PlanOptions::new(platform.clone()).costs();
    let ticks = stated.per_tick * runtime.div_ceil(platform.tick);
    let hard = all_at_most(handlers, reservation.period);
    let (worth, beside, permille) = match &claim.about {
        Subject::Share { .. } => return Ok(()),
        Subject::Response(response) => {
            let is_measured = response.permille == 0;
            let spread = spread(response, reservation);
            let jobs = Nanos::new(stated.per_job.div_ceil(Nanos::new(spread)));
            let own = stated.per_period + jobs;
            let least = if is_measured { own } else { (own + ticks).saturating_add(hard) };
            if response.beside < least || !(is_measured || response.permille >= stated.interrupts_permille) {
                let value = format!("{} and {} permille", response.beside, response.permille);
                return Err(CheckError::Costs {
                    activity: claim.activity.clone(),
                    value,
                    least: if is_measured {
                        format!("{least} of work measured with its interrupts")
                    } else {
                        format!("{least} and {} permille", stated.interrupts_permille)
                    },
                });
            }
            (response.worth, response.beside, response.permille)
        }
        Subject::Requests(requests) => {
            (requests.worth, (stated.per_period + ticks).saturating_add(hard), stated.interrupts_permille)
        }
    };
    let left = (runtime - beside).max(Nanos::ZERO).mul_ratio(1000, 1000 + u64::from(permille));
    if worth > left || !worth.is_positive() {
        return Err(CheckError::Worth {
            activity: claim.activity.clone(),
            runtime: runtime.to_exact_string(),
            left: left.to_string(),
            worth: worth.to_string(),
        });
    }
    Ok(())
}

/// Over how many budgets the costs of a job may be spread at the most: what one claim allows.
fn spread(response: &ResponseClaim, reservation: Reservation) -> i64 {
    let between = response.gap.div_floor(reservation.period);
    let within = (response.limit - reservation.deadline).div_floor(reservation.period) + 1;
    let is_aligned = response.grid && response.gap % reservation.period == Nanos::ZERO;
    let inside = reservation.deadline < reservation.period && !is_aligned;
    between.min(within - i64::from(inside)).max(1)
}
