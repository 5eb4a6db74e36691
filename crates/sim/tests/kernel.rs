//! The simulator against what Linux 6.18 (250 Hz, two CPUs, base slice 1.4 ms) did with the same threads.
//!
//! The kernel's numbers were measured with busy loops and a periodic thread that counts its own CPU time by the gaps
//! it sees, all pinned to one CPU save those with a reservation, the median of several runs of 6 to 10 s.

mod common;

use common::{ms, options, share, simulate, us, workload, world};
use surety_model::platform::{Platform, RealtimeLimit};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_units::Nanos;

#[test]
fn a_fifo_hog_leaves_a_fair_thread_what_the_fair_server_gives() {
    let record = simulate(
        "[[task]]\nname = \"hog\"\nwork = \"forever\"\npolicy = \"fifo:50\"\n[[load]]\nname = \"spin\"\nkind = \"spinners\"\ncount = 1",
        20,
        1,
    );
    // Measured: 94.98 and 5.00 %, the fair thread without CPU for up to 952 ms, the hog for up to 54.
    assert!((share(&record, "hog") - 0.9498).abs() < 0.003);
    assert!((share(&record, "spin") - 0.0500).abs() < 0.003);
    let gap = |name| record.activity(name).unwrap().longest_gap.unwrap();
    assert!(gap("spin") > ms(940) && gap("spin") < ms(960), "{}", gap("spin"));
    assert!(gap("hog") >= ms(50) && gap("hog") <= ms(54), "{}", gap("hog"));
}

/// One waiting FIFO thread, and the fair server at work on both CPUs: each pushed it to the other for ever, at one instant.
#[test]
fn fifo_threads_that_take_all_of_two_cpus_end_beside_fair_ones() {
    for instances in [200, 500] {
        let record = simulate(
            &format!(
                "[[task]]\nname = \"control\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
                 [[task]]\nname = \"camera\"\nperiod = \"33ms\"\nwork = \"5ms\"\n\
                 [[task]]\nname = \"logger\"\nperiod = \"100ms\"\nwork = \"10ms\"\n\
                 [[task]]\nname = \"motor\"\nperiod = \"50ms\"\nwork = \"300us\"\npolicy = \"fifo:80\"\n\
                 [[task]]\nname = \"bus\"\nperiod = \"100ms\"\nwork = \"1ms\"\npolicy = \"fifo:70\"\ninstances = {instances}"
            ),
            2,
            2,
        );
        // Two servers of 50 ms in 1 s each leave 95 % of both CPUs, and 0.6 % are the motor's.
        let bus = share(&record, "bus");
        assert!((1.88..=1.96).contains(&bus), "{instances}: {bus}");
    }
}

/// A CPU that picks a reservation pushes no realtime thread, and one that idles or leaves a fair thread pulls none. In the lab 6.1, 6.12 and 7.2 leave
/// the hog 47.8, 49.9 and 49.9 % beside an idle CPU; on the host it was pulled once `migration/0` had run on the other one.
#[test]
fn a_fifo_hog_stays_behind_a_reservation_beside_an_idle_cpu() {
    // `instant` has the turn of the other CPU.
    let text = "[[task]]\nname = \"hog\"\nwork = \"forever\"\npolicy = \"fifo:10\"\n[[task]]\nname = \"instant\"\nperiod = \"100s\"\n\
                work = \"10us\"\n[[task]]\nname = \"r\"\nperiod = \"10ms\"\nstart = \"2ms\"\n\
                work = \"5ms\"\nreservation = { runtime = \"6ms\", period = \"10ms\" }\n";
    let hog = share(&simulate(text, 5, 2), "hog");
    assert!((hog - 0.499).abs() < 0.005, "{hog}");
    let above = "[[task]]\nname = \"above\"\nperiod = \"2s\"\nstart = \"1004ms\"\nwork = \"5us\"\npolicy = \"fifo:99\"\n";
    let hog = share(&simulate(&format!("{text}{above}"), 5, 2), "hog");
    // Half a second of the five is before that.
    assert!((hog - 0.95).abs() < 0.005, "pulled when `above` had left the other CPU: {hog}");
}

/// Of two that are released at one instant on one CPU the reservation runs, and one on the other CPU leaves it after 4 ms. Up to 6.6 a CPU with a
/// single realtime thread gives none: in the lab a quarter of its jobs are late on 6.1, none on 6.12 and 7.2.
#[test]
fn a_lone_fifo_thread_behind_a_reservation_is_pulled_from_6_7_on() {
    let text = "[[task]]\nname = \"fifo\"\nperiod = \"10ms\"\nwork = \"3ms\"\npolicy = \"fifo:10\"\n\
                [[task]]\nname = \"first\"\nperiod = \"20ms\"\nwork = \"4ms\"\nreservation = { runtime = \"5ms\", period = \"20ms\" }\n\
                [[task]]\nname = \"second\"\nperiod = \"40ms\"\nwork = \"12ms\"\nreservation = { runtime = \"14ms\", period = \"40ms\" }\n\
                [[load]]\nname = \"normal\"\nkind = \"spinners\"\ncount = 2\n";
    for (platform, late) in [(Platform::linux_6_1(2), 0.25), (Platform::linux_6_12(2), 0.0)] {
        let record =
            SimWorld::new(platform).run(&workload(text), &options(5, 2), &mut Unobserved).expect("a run");
        let fifo = record.activity("fifo").expect("it ran");
        let missed = fifo.missed as f64 / fifo.activations as f64;
        assert!((missed - late).abs() < 0.02, "{missed}");
    }
}

/// A realtime thread that is about to take the CPU where it woke is not pulled to one that another thread was woken on: the loop has 76.7 % on
/// the host and 73.9 in the lab (6.12), and had 90.6 % here, since the two realtime threads shared a CPU.
#[test]
fn realtime_threads_stay_where_they_take_the_cpu() {
    let task = |name, period, low, high, policy| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}ms\"\nwork = {{ kind = \"uniform\", low = \"{low}us\", high = \"{high}us\" }}\n{policy}\n"
        )
    };
    let tasks = [
        task("a", 2, 270, 810, "policy = \"fifo:33\""),
        task("b", 2, 280, 840, "nice = -5"),
        task("c", 20, 2005, 6015, "policy = \"rr:35\""),
    ];
    let text = tasks.concat() + "[[load]]\nname = \"spin\"\nkind = \"spinners\"\ncount = 1";
    let spin = share(&simulate(&text, 10, 2), "spin");
    assert!((0.72..0.82).contains(&spin), "{spin}");
}

fn reserved(runtime: i64, period: i64, more: &str, cpus: u32, phase: i64) -> (f64, Nanos) {
    let text = format!(
        "[[task]]\nname = \"r\"\nwork = \"forever\"\nreservation = {{ runtime = \"{runtime}ms\", period = \"{period}ms\"{more} }}\n[[load]]\nname = \"spin\"\nkind = \"spinners\"\ncount = \"2 per-cpu\""
    );
    let mut world = world();
    world.platform.tick_phase = Some(Nanos::from_micros(phase));
    let record =
        world.run(&workload(&text), &options(20, cpus), &mut Unobserved).expect("it can be simulated");
    (
        share(&record, "r"),
        record.activity("r").expect("it can be simulated").longest_gap.expect("it can be simulated"),
    )
}

#[test]
fn reservations_get_the_measured_shares_and_gaps() {
    // (Q, T): share and longest gap, both measured.
    for (runtime, period, measured, longest) in [
        (1, 10, 0.099, 37.3),
        (2, 10, 0.1993, 18.9),
        (5, 10, 0.5003, 8.3),
        (26, 40, 0.6492, 18.1),
        (10, 100, 0.1003, 93.3),
    ] {
        let mut gap = Nanos::ZERO;
        for phase in [0, 700, 1300, 2100, 2900, 3700] {
            let (share, longest) = reserved(runtime, period, "", 2, phase);
            assert!((share - measured).abs() < 0.002, "({runtime}, {period}): {share}, measured {measured}");
            gap = gap.max(longest);
        }
        assert!(
            (gap.as_millis_f64() / longest - 1.0).abs() < 0.1,
            "({runtime}, {period}): {gap}, measured {longest}"
        );
        // The bound trace analyses use: (1 + ceil(tick/Q)) T - Q.
        let bound = ms((1 + (4 + runtime - 1) / runtime) * period - runtime);
        assert!(gap <= bound, "({runtime}, {period}): {gap} above {bound}");
    }
}

#[test]
fn reclaiming_takes_what_is_left() {
    // Measured on two CPUs: 95.17 % alone, 95.14 % beside fair threads. The kernel's ratio of 269/256 gives 95.17.
    let (share, _) = reserved(2, 10, ", reclaim = true", 2, 500);
    assert!((share - 0.9517).abs() < 0.001, "{share}");
}

#[test]
fn nice_values_share_by_weight() {
    let text: String = [-5, 0, 5]
        .iter()
        .map(|n| format!("[[load]]\nname = \"n{n}\"\nkind = \"spinners\"\ncount = 1\nnice = {n}\n"))
        .collect();
    let record = simulate(&text, 10, 1);
    // Measured: 69.4, 22.8 and 7.5 %, gaps of 8, 20 and 64 ms.
    for (name, measured, gap) in [("n-5", 0.694, 8), ("n0", 0.228, 20), ("n5", 0.0745, 64)] {
        assert!((share(&record, name) - measured).abs() < 0.005, "{name}: {}", share(&record, name));
        let simulated = record.activity(name).unwrap().longest_gap.unwrap();
        assert!(simulated <= ms(gap + 1), "{name}: {simulated}");
    }
}

/// The work is what the measured jobs really used: log-normal with a mean of 14 ms as drawn, 14.7 ms as the kernel
/// booked it, because interrupts and the hypervisor's time were no progress for the thread.
fn beside_hogs(late: &str, seconds: i64) -> Vec<(f64, f64, f64)> {
    let text = format!(
        "[[task]]\nname = \"player\"\nperiod = \"40ms\"\nwork = {{ kind = \"lognormal\", mean = \"14.7ms\", p99 = \"23.1ms\" }}\nlate = \"{late}\"\n[[load]]\nname = \"spin\"\nkind = \"spinners\"\ncount = 4"
    );
    let run = |phase| {
        let mut world = world();
        world.platform.tick_phase = Some(Nanos::from_micros(phase));
        let options = RunOptions { seed: 1, ..options(seconds, 1) };
        let record = world.run(&workload(&text), &options, &mut Unobserved).expect("it can be simulated");
        let player = record.activity("player").expect("it can be simulated");
        // Of the jobs that were done, as measured: half of the activations are skipped.
        let response = player.response.as_ref().and_then(|times| times.observed()).expect("jobs are done");
        let quantile = |q| response.histogram.quantile(q).expect("jobs are done") as f64 / 1e6;
        (quantile(0.5), quantile(0.95), player.miss_ratio().expect("it can be simulated"))
    };
    (0..4000).step_by(400).map(run).collect()
}

#[test]
fn a_periodic_thread_beside_hogs_is_as_late_as_measured() {
    // Medians of the measured runs: 68.5 ms, 106.2 ms, 199 of 200 missed; with a queue 1.97 s and 3.72 s.
    // With a queue the backlog grows, so the run is as long as the measured ones.
    for (late, seconds, middle, tail) in [("skip", 200, 68.5, 106.2), ("queue", 8, 1970.0, 3720.0)] {
        let runs = beside_hogs(late, seconds);
        let mean = |of: fn(&(f64, f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        assert!((mean(|r| r.0) / middle - 1.0).abs() < 0.1, "{late}: {runs:?}");
        assert!((mean(|r| r.1) / tail - 1.0).abs() < 0.1, "{late}: {runs:?}");
        // The 95 % interval of 199 of 200.
        assert!((0.972..=1.0).contains(&mean(|r| r.2)), "{late}: {runs:?}");
    }
}

/// Measured in runs of 10 s: 7.5 to 8.3 %. Two fair servers of 50 ms in 1 s each, and the thread is not always where one is due: by which CPU it
/// was on when the hogs came and where the ticks are it has 7.5 or 9 % here.
#[test]
fn a_fair_thread_between_two_fifo_hogs_is_served_on_both_cpus() {
    let text = "[[task]]\nname = \"hog\"\nwork = \"forever\"\npolicy = \"fifo:50\"\ninstances = 2\n\
                [[load]]\nname = \"spin\"\nkind = \"spinners\"\ncount = 1";
    let phases = [0, 700, 1300, 2100, 2900, 3700];
    let mut mean = 0.0;
    for phase in phases {
        let mut world = world();
        world.platform.tick_phase = Some(Nanos::from_micros(phase));
        let record =
            world.run(&workload(text), &options(20, 2), &mut Unobserved).expect("it can be simulated");
        let spin = share(&record, "spin");
        assert!((0.07..0.095).contains(&spin), "{phase}: {spin}");
        mean += spin / phases.len() as f64;
        assert!((share(&record, "hog") + spin - 2.0).abs() < 1e-3, "{phase}");
    }
    assert!((0.07..=0.085).contains(&mean), "{mean}");
}

/// A reservation takes a fifth of a CPU between its ticks, and a fair thread runs there alone whenever a tick looks. Kernel 6.12 of the
/// lab, two CPUs: 93.6 to 96.8 %, by where the ticks are; where they are between, it stops the thread 23 times in 4 s to move it.
#[test]
fn a_fair_thread_leaves_a_cpu_that_reservations_use_for_an_idle_one() {
    let text = "[[task]]\nname = \"short\"\nperiod = \"4ms\"\nwork = \"900us\"\nreservation = { runtime = \"1200us\", period = \"4ms\" }\n\
                [[task]]\nname = \"long\"\nperiod = \"200ms\"\nwork = \"12ms\"\nreservation = { runtime = \"15ms\", period = \"200ms\" }\n\
                [[load]]\nname = \"hog\"\nkind = \"spinners\"\ncount = 1";
    for phase in [2000, 2400, 3000, 3500] {
        let mut world = world();
        world.platform.tick_phase = Some(us(phase));
        let record = world.run(&workload(text), &options(4, 2), &mut Unobserved).unwrap();
        let share = share(&record, "hog");
        assert!(share > 0.925 && share < 0.975, "{phase}: {share}");
    }
}

/// Where a throttling period ends decides what two hogs leave a fair thread on two CPUs: a CPU that is throttled while the server of the other one
/// acts leaves it nothing, one that is throttled at another time takes it. A host of 6.18, whose periods ended anywhere: 8.1 to 8.9 %.
/// A sleeper of nice -5 that has had more than its share stays in the queue, and loads its CPU, for some ms after each job, then no more (6.12 in the
/// lab, by a probe of the CPU's load: 2579 to 2709 with one of 1 of 10 ms beside a spinner, where 4145 would be all of the time). So the CPU has
/// room for one of three spinners that leave another one together.
#[test]
fn a_sleeper_loads_a_cpu_until_it_leaves_its_queue() {
    let record = simulate(
        "[[task]]\nname = \"audio\"\nperiod = \"40ms\"\nwork = \"1ms\"\nnice = -5\ncpus = \"0\"\n\
         [[task]]\nname = \"bound\"\nwork = \"forever\"\ncpus = \"0\"\n\
         [[task]]\nname = \"freed\"\nperiod = \"60s\"\ninstances = 3\n\
         phases = [{ cpus = \"1\" }, { run = \"100ms\" }, { cpus = \"all\" }, { run = \"30s\" }]",
        10,
        2,
    );
    assert!(share(&record, "bound") < 0.6, "{}", share(&record, "bound"));
}

#[test]
fn a_throttling_period_that_lasts_already_ends_when_it_did() {
    let text = "[[task]]\nname = \"first\"\nwork = \"forever\"\npolicy = \"fifo:10\"\n\
                [[task]]\nname = \"second\"\nwork = \"forever\"\npolicy = \"fifo:10\"\n\
                [[task]]\nname = \"normal\"\nwork = \"forever\"";
    let fair = |left: Option<i64>| {
        let mut world = world();
        world.platform.realtime_limit = Some(RealtimeLimit { runtime: ms(950), period: ms(1000) });
        world.platform.realtime_period_left = left.map(ms);
        share(&world.run(&workload(text), &options(10, 2), &mut Unobserved).unwrap(), "normal")
    };
    // One that begins as threads are made ends 900 ms after the start.
    assert_eq!(fair(None), fair(Some(900)));
    assert!(fair(Some(500)) > 0.095, "{}", fair(Some(500)));
    assert!(fair(None) < 0.075, "{}", fair(None));
}
