//! Interrupt sources: what a device loses, what its thread handles, and the rules that foretell both.

mod common;

use common::{exact, ms, options, simulate, try_simulate, us, workload, world};
use proptest::prelude::*;
use surety_analysis::interrupts::pending::Interrupt;
use surety_analysis::interrupts::throughput::closed;
use surety_analysis::supply::Supply;
use surety_model::distribution::TimeDistribution;
use surety_model::event::{Event, EventKind};
use surety_model::platform::Platform;
use surety_model::record::{ActivityRecord, Evidence, Record};
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Late, Load, LoadKind, PolicySpec, Task, Workload};
use surety_model::world::{Observer, RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_units::{CpuSet, Frequency, Nanos};

fn figure(record: &ActivityRecord, name: &str) -> f64 {
    record.figures.iter().find(|f| f.name == name).expect("it is there").value
}

fn constant(work: Nanos) -> TimeDistribution {
    TimeDistribution::Constant(work)
}

/// Runs without warm-up, so that nothing that happened is out of sight.
fn watch(platform: &Platform, workload: &Workload, span: Nanos) -> Record {
    let machine = SimWorld::new(Platform { tick_phase: Some(us(500)), ..platform.clone() });
    let options = RunOptions {
        duration: span,
        warm_up: Nanos::ZERO,
        cpus: Some(CpuSet::first(platform.cpus)),
        ..RunOptions::default()
    };
    machine.run(workload, &options, &mut Unobserved).unwrap_or_else(|e| panic!("{e}"))
}

fn hogs() -> Load {
    Load::new("busy", LoadKind::Spinners, 1)
}

#[test]
fn an_idle_cpu_handles_each_request_as_it_comes() {
    let text = r#"
[[irq]]
name     = "net"
arrivals = { kind = "periodic", period = "1ms" }
work     = "100us"
hard     = "5us"
buffer   = 1
promise  = ["lost == 0", "response <= 105us @ 99%", "response < 105us", "rate >= 1000/s", "rate >= 1001/s"]
"#;
    let record = simulate(text, 2, 1);
    let net = record.activity("net").unwrap();
    assert_eq!((net.kind.word(), net.activations, net.completed, net.skipped), ("irq", 2000, 2000, 0));
    let response = &net.response.as_ref().unwrap().observed().unwrap().moments;
    assert_eq!((response.min(), response.max()), (Some(105_000.0), Some(105_000.0)));
    assert_eq!(net.latency.as_ref().unwrap().observed().unwrap().moments.max(), Some(5_000.0));
    assert_eq!(net.execution.as_ref().unwrap().observed().unwrap().moments.mean(), Some(100_000.0));
    assert_eq!((figure(net, "rate"), figure(net, "lost"), figure(net, "longest queue")), (1000.0, 0.0, 1.0));
    assert!((net.share_received().unwrap() - 0.1).abs() < 1e-9);
    let value = |value| Evidence::Value { value, of_demand: None };
    let counted = |within| Evidence::Counted((0..2000).map(|_| within == 0).collect());
    assert_eq!(net.evidence(), [&value(0.0), &counted(2000), &counted(0), &value(1000.0), &value(1000.0)]);
    assert_eq!(record.in_force.threads[0].policy, "fifo:50");
}

/// A thread of higher priority keeps the CPU for 10 ms of every 100: of the ten interrupts in that time a buffer of
/// three keeps three.
#[test]
fn a_full_buffer_loses_what_comes() {
    for (buffer, lost) in [(1, 90), (3, 70), (9, 10), (10, 0), (11, 0)] {
        let text = format!(
            r#"
[[task]]
name   = "above"
period = "100ms"
work   = "10ms"
policy = "fifo:60"

[[irq]]
name     = "net"
arrivals = {{ kind = "sporadic", gap = "1ms" }}
work     = "10us"
buffer   = {buffer}
"#
        );
        let record = simulate(&text, 1, 1);
        let net = record.activity("net").unwrap();
        // The task is first at equal times: interrupts at 0, 1, ... 9 ms find it running.
        assert_eq!((net.activations, net.skipped), (1000, lost), "buffer {buffer}");
        assert_eq!(figure(net, "longest queue"), f64::min(buffer as f64, 10.0));
        assert_eq!(net.missed, lost);
    }
}

#[test]
fn a_hard_handler_takes_time_from_whatever_runs() {
    let text = r#"
[[task]]
name   = "worker"
period = "100ms"
work   = "10ms"

[[irq]]
name     = "net"
arrivals = { kind = "periodic", period = "1ms" }
work     = "0us"
hard     = "100us"
"#;
    let record = simulate(text, 1, 1);
    let worker = record.activity("worker").unwrap();
    // The interrupts at 0, 1, ... 11 ms come before it is done: 10 ms and twelve handlers.
    let response = &worker.response.as_ref().unwrap().observed().unwrap().moments;
    assert_eq!((response.min(), response.max()), (Some(11.2e6), Some(11.2e6)));
    let share = worker.share_received().unwrap();
    assert!((share - 0.112).abs() < 0.001, "charged to the task as the kernel does: {share}");
}

/// Handlers that take longer than the time between interrupts starve everybody, and coalesce.
#[test]
fn an_interrupt_storm_leaves_nothing_and_ends() {
    let text = r#"
[[irq]]
name     = "a"
arrivals = { kind = "periodic", period = "10us" }
work     = "1us"
hard     = "20us"
buffer   = 4

[[irq]]
name     = "b"
arrivals = { kind = "poisson", rate = "1kHz" }
work     = "1us"
hard     = "3us"
"#;
    let record = simulate(text, 1, 1);
    let storm = record.activity("a").unwrap();
    assert_eq!(storm.activations, 100_000);
    assert_eq!(storm.completed, 0);
    assert_eq!(storm.skipped + storm.unfinished, storm.activations);
}

#[test]
fn a_closed_loop_turns_at_the_pace_of_its_slower_half() {
    // (in flight, device, thread, cycles a second)
    for (outstanding, service, work, rate) in
        [(1, 600, 400, 1000.0), (2, 600, 400, 1e6 / 600.0), (8, 100, 400, 2500.0), (0, 100, 100, 0.0)]
    {
        let arrivals = Arrivals::Closed { outstanding, service: us(service) };
        let irqs = vec![Irq::new("disk", arrivals, constant(us(work)))];
        let record = watch(&exact(1), &Workload { irqs, ..Workload::default() }, ms(6_000));
        let disk = record.activity("disk").unwrap();
        let found = figure(disk, "rate");
        assert!((found - rate).abs() <= 1.0, "{outstanding}: {found}");
        assert!(disk.activations - disk.completed <= u64::from(outstanding));
        assert!(figure(disk, "longest queue") <= f64::from(outstanding));
    }
}

/// The rate under a reservation is min(1, (Q/T) / need) of the rate without, need being the thread's share then.
#[test]
fn a_reservation_below_the_need_scales_the_rate() {
    let arrivals = Arrivals::Closed { outstanding: 1, service: us(68) };
    let free = Irq::new("disk", arrivals, constant(us(932)));
    let rate = |q: Option<i64>, platform: &Platform| {
        let reservation = q.map(|q| Reservation::implicit(ms(q), ms(100)));
        let irqs = vec![Irq { reservation, ..free.clone() }];
        let loads = vec![hogs()];
        let record = watch(platform, &Workload { irqs, loads, ..Workload::default() }, ms(20_000));
        figure(record.activity("disk").unwrap(), "rate")
    };
    for platform in [exact(1), Platform { fair_server: None, ..Platform::linux_6_18(1) }] {
        let whole = rate(None, &platform);
        assert!((whole - 1000.0).abs() < 1.0);
        for q in [2, 6, 20, 50, 90] {
            let expected = whole * q as f64 / 100.0 / 0.932;
            let found = rate(Some(q), &platform);
            assert!((found / expected - 1.0).abs() < 0.01, "{q}: {found} {expected}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let irq = |more: &str| format!("[[irq]]\nname = \"n\"\nwork = \"9us\"\n{more}");
    for text in [
        irq("arrivals = { kind = \"poisson\", rate = \"0/s\" }"),
        irq("arrivals = { kind = \"poisson\", rate = \"99999999kHz\" }"),
        irq(
            "arrivals = { kind = \"sporadic\", gap = \"1ms\" }\nreservation = { runtime = \"99ms\", period = \"100ms\" }",
        ) + "\n[[irq]]\nname = \"m\"\nwork = \"9us\"\narrivals = { kind = \"sporadic\", gap = \"1ms\" }\nreservation = { runtime = \"99ms\", period = \"100ms\" }",
    ] {
        let error = try_simulate(&text, 1, 2).unwrap_err().to_string();
        assert!(error.contains("irq.") && error.contains(';'), "{error}");
    }
}

/// Keeps what a trace analysis reads of interrupts.
#[derive(Default)]
struct Trace {
    open: Option<Nanos>,
    entries: u64,
    inside: Nanos,
    woken: u64,
    run: Nanos,
    since: Nanos,
    notices: Vec<String>,
}

impl Observer for Trace {
    fn wants_events(&self) -> bool {
        true
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }

    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::IrqEntry { irq, name } => {
                assert_eq!((irq, name, self.open), (1, "eth", None));
                self.open = Some(event.time);
                self.entries += 1;
            }
            EventKind::IrqExit { irq } => {
                assert_eq!(irq, 1);
                self.inside += event.time - self.open.take().expect("an exit follows an entry");
            }
            EventKind::Waking(thread) if thread.comm.text() == "irq/1-eth" => self.woken += 1,
            EventKind::Switch { prev_comm, next_comm, .. } => {
                assert_eq!(self.open, None, "nothing changes hands inside a hard handler");
                if prev_comm.text() == "irq/1-eth" {
                    self.run += event.time - self.since;
                }
                if next_comm.text() == "irq/1-eth" {
                    self.since = event.time;
                }
            }
            _ => {}
        }
    }
}

#[test]
fn events_show_the_handler_and_the_thread_and_change_nothing() {
    let text = r#"
[[irq]]
name        = "net"
device      = "eth"
arrivals    = { kind = "sporadic", gap = "700us" }
work        = { kind = "exponential", mean = "80us" }
hard        = "3us"
reservation = { runtime = "3ms", period = "10ms" }

[[load]]
name = "busy"
kind = "spinners"
"#;
    let mut trace = Trace::default();
    let options = RunOptions { warm_up: Nanos::ZERO, ..options(3, 1) };
    let record = world().run(&workload(text), &options, &mut trace).unwrap();
    let silent = world().run(&workload(text), &options, &mut Unobserved).unwrap();
    assert_eq!(record.hash, silent.hash);
    let net = record.activity("net").unwrap();
    assert_eq!(trace.entries, net.activations);
    assert_eq!(trace.inside, us(3) * trace.entries as i64);
    assert!(trace.woken > 3000 && trace.woken <= trace.entries + 1, "{}", trace.woken);
    assert_eq!(trace.run, net.share.as_ref().unwrap().run());
    assert!(trace.notices.iter().any(|n| n.contains("irq.net") && n.contains("700")), "{:?}", trace.notices);
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        (50i64..3000).prop_map(|p| Arrivals::Periodic { period: us(p) }),
        (50i64..3000).prop_map(|p| Arrivals::Sporadic { gap: us(p) }),
        (300_000u64..15_000_000).prop_map(|r| Arrivals::Poisson { rate: Frequency(r) }),
        (1u32..12, 20i64..2000).prop_map(|(outstanding, s)| Arrivals::Closed { outstanding, service: us(s) }),
    ]
}

fn works() -> impl Strategy<Value = TimeDistribution> {
    prop_oneof![
        (0i64..900).prop_map(|w| constant(us(w))),
        (1i64..400).prop_map(|w| TimeDistribution::Exponential { mean: us(w) }),
    ]
}

prop_compose! {
    fn irq()(
        arrivals in arrivals(), work in works(), hard in proptest::option::of(0i64..40),
        buffer in proptest::option::of(1u64..40), reserved in proptest::option::of((1i64..8, 10i64..40)),
    ) -> Irq {
        Irq {
            hard: hard.map(us),
            buffer,
            reservation: reserved.map(|(q, t)| Reservation::implicit(ms(q), ms(t))),
            ..Irq::new("", arrivals, work)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every request is handled, lost or open; the buffer holds no more than it can; a closed loop has no more in
    /// flight than it may; the time of all threads is no more than there was.
    #[test]
    fn requests_are_conserved(
        set in proptest::collection::vec(irq(), 1..4), cpus in 1u32..3, spin: bool, coarse: bool,
    ) {
        let irqs: Vec<Irq> =
            set.into_iter().enumerate().map(|(i, irq)| Irq { name: format!("i{i}"), ..irq }).collect();
        let reserved: f64 = irqs.iter().filter_map(|i| i.reservation).map(|r| r.bandwidth().as_f64()).sum();
        prop_assume!(reserved <= 0.9 * f64::from(cpus));
        let loads = if spin { vec![hogs()] } else { Vec::new() };
        let workload = Workload { irqs, loads, ..Workload::default() };
        let platform = if coarse { Platform::linux_6_18(cpus) } else { exact(cpus) };
        let span = ms(300);
        let record = watch(&platform, &workload, span);
        let mut used = Nanos::ZERO;
        for activity in &record.activities {
            used += activity.share.as_ref().unwrap().run();
        }
        prop_assert!(used <= span * i64::from(cpus));
        for irq in &workload.irqs {
            let seen = record.activity(&irq.name).unwrap();
            prop_assert_eq!(seen.activations, seen.completed + seen.skipped + seen.unfinished);
            prop_assert_eq!(figure(seen, "lost"), seen.skipped as f64);
            let longest = figure(seen, "longest queue");
            prop_assert!(irq.buffer.is_none_or(|room| longest <= room as f64));
            prop_assert!(irq.buffer.is_some() || seen.skipped == 0);
            prop_assert!(longest >= seen.unfinished.saturating_sub(1) as f64);
            match irq.arrivals {
                // At 0 and every period after it, before the end.
                Arrivals::Periodic { period } | Arrivals::Sporadic { gap: period } => {
                    prop_assert_eq!(seen.activations as i64, span.div_ceil(period));
                }
                Arrivals::Closed { outstanding, service } => {
                    prop_assert!(seen.unfinished <= u64::from(outstanding));
                    prop_assert!(seen.activations as i64 <= span.div_floor(service));
                }
                Arrivals::Poisson { .. } => {}
            }
        }
        prop_assert_eq!(watch(&platform, &workload, span).hash, record.hash);
    }
}

/// Reservations of one CPU whose bandwidths sum up to at most the kernel's cap, the first the interrupt thread's.
fn reservations() -> impl Strategy<Value = Vec<Reservation>> {
    proptest::collection::vec((2i64..30, 1u32..60), 1..5).prop_map(|set| {
        let whole: u32 = set.iter().map(|(_, part)| *part).sum::<u32>().max(60);
        let of = |(period, part): &(i64, u32)| {
            let runtime = ms(*period).mul_ratio(u64::from(*part) * 94, u64::from(whole) * 100);
            Reservation::implicit(runtime.max(us(2)), ms(*period))
        };
        set.iter().map(of).collect()
    })
}

fn reserved_hog(index: usize, reservation: Reservation) -> Task {
    let mut task = Task::periodic(&format!("t{index}"), reservation.period, constant(reservation.runtime));
    // As much as they may have, and more than they reserved in every other job.
    task.body = surety_model::workload::TaskBody::Synthetic(surety_model::workload::Work::Drawn(
        TimeDistribution::Uniform { low: Nanos::ZERO, high: reservation.runtime * 2 },
    ));
    task.late = Late::Queue;
    task.reservation = Some(reservation);
    task
}

/// Everything that can stand in the way of a reserved interrupt thread on one CPU.
fn against(reservations: &[Reservation], irq: Irq) -> Workload {
    let mut tasks: Vec<Task> =
        reservations[1..].iter().enumerate().map(|(i, r)| reserved_hog(i, *r)).collect();
    let mut above = Task::periodic("rt", ms(1_000), constant(ms(1)));
    above.body = surety_model::workload::TaskBody::Synthetic(surety_model::workload::Work::Forever);
    above.policy = PolicySpec::Fifo { priority: 99 };
    tasks.push(above);
    Workload { tasks, irqs: vec![irq], ..Workload::default() }
}

/// What a sporadic source loses under the first of some reservations, enforced exactly on one CPU; a request needs up to
/// `load` percent of what the reservation has for it, always so when `even`.
fn lost_with(set: &[Reservation], gap: Nanos, load: u64, even: bool, buffer: i64) -> u64 {
    let Reservation { runtime, period, .. } = set[0];
    let most = gap.mul_ratio(runtime.get_unsigned() * load, period.get_unsigned() * 100);
    let record = watch(&exact(1), &against(set, source_under(set, gap, most, even, buffer)), period * 30);
    record.activity("net").expect("it is there").skipped
}

/// A sporadic source under the first of some reservations whose requests need `most`, or up to that.
fn source_under(set: &[Reservation], gap: Nanos, most: Nanos, even: bool, buffer: i64) -> Irq {
    let work = match even {
        true => constant(most),
        false => TimeDistribution::Uniform { low: Nanos::ZERO, high: most },
    };
    Irq {
        buffer: Some(buffer.unsigned_abs()),
        reservation: Some(set[0]),
        ..Irq::new("net", Arrivals::Sporadic { gap }, work)
    }
}

/// A rule that is broken loses: a budget that is used up leaves a gap of T - Q.
#[test]
fn too_small_a_buffer_loses_under_a_reservation() {
    let reservation = Reservation::implicit(ms(10), ms(100));
    let hog = Reservation::implicit(ms(80), ms(100));
    assert!(lost_with(&[reservation, hog], ms(1), 100, true, 40) > 0);
    assert_eq!(lost_with(&[reservation, hog], ms(1), 100, true, 91), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The safe rule: with exact enforcement, 2 (T - Q) / P < N_c loses nothing, whatever else is reserved on the CPU,
    /// while a request needs at most (Q/T) P. With the smallest buffer that keeps the rule.
    #[test]
    fn the_safe_rule_loses_nothing(set in reservations(), gap in 100i64..4000, load in 1u64..=100, even: bool) {
        let Reservation { runtime, period, .. } = set[0];
        let buffer = ((period - runtime) * 2).div_floor(us(gap)) + 1;
        let lost = lost_with(&set, us(gap), load, even, buffer);
        prop_assert_eq!(lost, 0, "buffer {}", buffer);
    }

    /// A steady source needs less. A server whose thread asks for no more than its bandwidth is never throttled far
    /// ahead of its deadline: woken at s under a deadline d it has at least (Q/T) (d - s) less one request left. So the
    /// published rule (T - Q) / P < N_c and room for one more are enough.
    #[test]
    fn a_steady_source_keeps_to_the_published_rule(
        set in reservations(), gap in 100i64..4000, load in 1u64..=100, even: bool,
    ) {
        let Reservation { runtime, period, .. } = set[0];
        let buffer = (period - runtime).div_floor(us(gap)) + 2;
        let lost = lost_with(&set, us(gap), load, even, buffer);
        prop_assert_eq!(lost, 0, "buffer {}", buffer);
    }

    /// Room for the most that the analysis says can be pending is enough, beside other reservations with exact
    /// enforcement and alone on a CPU that looks at budgets on its tick; and no more than that is ever pending.
    #[test]
    fn never_more_is_pending_than_the_analysis_says(
        set in reservations(), gap in 100i64..4000, load in 1u64..=95, even: bool, coarse: bool,
    ) {
        let set = if coarse { set[..1].to_vec() } else { set };
        let platform =
            if coarse { Platform { fair_server: None, ..Platform::linux_6_18(1) } } else { exact(1) };
        let Reservation { runtime, period, .. } = set[0];
        let (gap, load) = (us(gap), runtime.get_unsigned() * load);
        let work = gap.mul_ratio(load, period.get_unsigned() * 100).max(Nanos::new(1));
        let supply = Supply::new(set[0], platform.enforcement, coarse);
        let device = Interrupt { distance: gap, held: 1, work };
        let (most, _) = device.most_pending(&supply).unwrap().expect("it needs less than its share");
        let irq = source_under(&set, gap, work, even, i64::try_from(most).unwrap());
        let record = watch(&platform, &against(&set, irq), (period * 30).min(ms(1_000)));
        let net = record.activity("net").unwrap();
        prop_assert_eq!(net.skipped, 0, "buffer {} longest {}", most, figure(net, "longest queue"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A thread handles no more than its reservation can carry, and a larger budget in the same period never handles
    /// less than what one request and one budget are worth.
    #[test]
    fn the_rate_follows_the_budget(
        t in 5i64..60, mut parts in proptest::array::uniform3(5i64..90), outstanding in 1u32..40,
        service in 5i64..500, work in 20i64..800, coarse: bool,
    ) {
        parts.sort_unstable();
        let platform = if coarse { Platform { fair_server: None, ..Platform::linux_6_18(1) } } else { exact(1) };
        let span = ms(t * 60);
        let (mut before, mut last_q) = (0u64, Nanos::ZERO);
        for part in parts {
            let reservation = Reservation::implicit((ms(t) * part).mul_ratio(1, 100), ms(t));
            let arrivals = Arrivals::Closed { outstanding, service: us(service) };
            let irq = Irq { reservation: Some(reservation), ..Irq::new("disk", arrivals, constant(us(work))) };
            let record = watch(&platform, &against(&[reservation], irq), span);
            let disk = record.activity("disk").unwrap();
            let supply = Supply::new(reservation, platform.enforcement, true);
            prop_assert!(us(work) * (disk.completed as i64) <= supply.at_most(span));
            // The simulated device serves one at a time: a request is in it for at most all of their services.
            let whole = us(service) * i64::from(outstanding);
            let least = closed(outstanding, whole, us(work), &supply).unwrap().at_least;
            let most = closed(outstanding, us(service), us(work), &supply).unwrap().at_most;
            let done = disk.completed as f64;
            let ahead = supply.at_most(span).as_secs_f64() / us(work).as_secs_f64();
            prop_assert!(done + f64::from(outstanding) + 1.0 >= least * (span - supply.blackout()).as_secs_f64(), "{done} < {least}");
            prop_assert!(done <= (most * span.as_secs_f64() + 1.0).max(ahead), "{done} > {most}");
            let slack = (last_q + platform.enforcement.overrun_max() * 2).div_ceil(us(work)) + 2;
            prop_assert!(
                disk.completed as i64 + slack >= before as i64,
                "{} after {} with {part} %", disk.completed, before
            );
            (before, last_q) = (disk.completed, reservation.runtime);
        }
    }
}
