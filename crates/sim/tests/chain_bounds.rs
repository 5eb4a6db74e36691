//! Bounds of chains against chains that are simulated: no event takes longer than is proven.

mod common;

use std::fmt::Write as _;

use common::{us, workload};
use surety_analysis::AnalysisWorld;
use surety_model::platform::{Enforcement, FairServer, Overheads, Platform, RealtimeLimit};
use surety_model::record::{Evidence, Record};
use surety_model::verdict::{Outcome, judge};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::{CpuSet, Nanos};

const COSTS: Overheads = Overheads {
    switch: Nanos::from_micros(2),
    wakeup: Nanos::from_micros(5),
    sleep: Nanos::from_micros(3),
    tick: Nanos::from_micros(4),
    timer: Nanos::from_micros(3),
};

/// Whether stages have fixed priorities, reservations, or each one of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Classes {
    Fixed,
    Reserved,
    Mixed,
}

/// Drawn workloads of chains.
struct Drawn {
    pcg: Pcg,
    cpus: u32,
    classes: Classes,
    /// Whether realtime threads come near the limit at which the kernel stops them.
    is_full: bool,
    /// Whether jobs are an eighth as long, and events come sooner.
    is_brief: bool,
}

impl Drawn {
    fn below(&mut self, n: u64) -> u64 {
        self.pcg.below(n)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let count = of.len() as u64;
        of[self.below(count) as usize]
    }

    /// A task by its lines; `period`: of one that is released by itself.
    fn task(&mut self, name: &str, period: Option<u64>) -> String {
        let is_reserved = match self.classes {
            Classes::Fixed => false,
            Classes::Reserved => true,
            Classes::Mixed => self.below(2) == 0,
        };
        let work = (200 + self.below(1_500)) / if self.is_brief { 8 } else { 1 };
        let work = match self.below(3) {
            0 => format!("'{work}us'"),
            _ => format!("{{ kind = 'uniform', low = '{}us', high = '{work}us' }}", work / 2),
        };
        let mut text = format!("[[task]]\nname = '{name}'\nwork = {work}\n");
        if let Some(period) = period {
            let jitter = self.below(4) * period / 8;
            let start = self.below(3) * period / 2;
            writeln!(text, "period = '{period}ms'\njitter = '{jitter}ms'\nstart = '{start}ms'")
                .expect("a text takes it");
        }
        if is_reserved {
            let (runtime, server) = (1 + self.below(2), self.one(&[8, 10, 20]));
            let deadline = if self.below(3) == 0 { server / 2 } else { server };
            writeln!(
                text,
                "reservation = {{ runtime = '{runtime}ms', deadline = '{deadline}ms', period = '{server}ms' }}"
            )
            .expect("a text takes it");
        } else {
            let class = self.one(&["fifo", "fifo", "rr"]);
            writeln!(text, "policy = '{class}:{}'", 10 + self.below(4)).expect("a text takes it");
            if self.cpus > 1 {
                writeln!(text, "cpus = '{}'", self.below(u64::from(self.cpus))).expect("a text takes it");
            }
        }
        text
    }

    /// Up to two chains of up to four stages, some of which sample or are shared, beside other threads and spinners of the fair class.
    fn workload(&mut self) -> String {
        let mut text = String::new();
        let mut chains = String::new();
        let mut names: Vec<String> = Vec::new();
        for chain in 0..1 + self.below(2) {
            let mut through: Vec<String> = Vec::new();
            for stage in 0..1 + self.below(4) {
                if !names.is_empty() && self.below(6) == 0 {
                    let shared = self.below(names.len() as u64) as usize;
                    if !through.contains(&names[shared]) {
                        through.push(names[shared].clone());
                        continue;
                    }
                }
                let name = format!("c{chain}s{stage}");
                let period = (self.below(4) == 0).then(|| self.one(&[12, 20, 30]));
                text += &self.task(&name, period);
                through.push(name.clone());
                names.push(name);
            }
            let kind = self.one(&["periodic', period", "sporadic', gap"]);
            let gap = if self.is_brief { self.one(&[2, 3, 5, 9]) } else { self.one(&[9, 16, 25, 33, 40]) };
            let list: Vec<String> = through.iter().map(|name| format!("'{name}'")).collect();
            writeln!(
                chains,
                "[[chain]]\nname = 'c{chain}'\nstart = {{ kind = '{kind} = '{gap}ms' }}\nthrough = [{}]\npromise = 'response <= 60ms'",
                list.join(", ")
            )
            .expect("a text takes it");
        }
        for beside in 0..self.below(3) {
            let period = self.one(&[10, 15, 24]);
            if self.below(3) == 0 {
                text += &self.task(&format!("b{beside}"), None);
                writeln!(text, "gap = '{period}ms'").expect("a text takes it");
            } else {
                text += &self.task(&format!("b{beside}"), Some(period));
            }
        }
        if self.is_full {
            let (cpu, work) = (self.below(u64::from(self.cpus)), 12 + self.below(7));
            writeln!(text, "[[task]]\nname = 'full'\nperiod = '20ms'\nwork = '{work}ms'\npolicy = 'fifo:5'\ncpus = '{cpu}'")
                .expect("a text takes it");
        }
        text + &chains + "[[load]]\nname = 'spin'\nkind = 'spinners'\ncount = 2\n"
    }
}

/// The longest response of a chain that was seen.
fn longest(record: &Record, name: &str) -> Option<Nanos> {
    let activity = record.activity(name)?;
    let max = activity.response.as_ref()?.observed()?.moments.max()?;
    Some(Nanos::from_f64_rounded(max))
}

/// Draws chains until `wanted` of them have a bound: the longest response seen of each as a part of its bound.
fn compared(platform: &Platform, classes: Classes, is_brief: bool, wanted: usize, seed: u128) -> Vec<f64> {
    let is_full = platform.realtime_limit.is_some();
    let mut drawn = Drawn { pcg: Pcg::new(seed, 77), cpus: platform.cpus, classes, is_full, is_brief };
    let options = RunOptions {
        duration: Nanos::from_secs(3),
        cpus: Some(CpuSet::first(platform.cpus)),
        ..RunOptions::default()
    };
    let mut parts = Vec::new();
    for round in 0..40 * wanted as u64 {
        if parts.len() >= wanted {
            break;
        }
        let text = drawn.workload();
        let workload = workload(&text);
        let options = RunOptions { seed: round, ..options.clone() };
        let analysed = AnalysisWorld::new(platform.clone())
            .run(&workload, &options, &mut Unobserved)
            .expect("it is played");
        let bound = |name: &str| analysed.activity(name)?.response.as_ref()?.quantile(1.0);
        if workload.chains.iter().all(|chain| bound(&chain.name).is_none()) {
            continue;
        }
        let simulated =
            SimWorld::new(platform.clone()).run(&workload, &options, &mut Unobserved).expect("it is played");
        for chain in &workload.chains {
            let (Some(bound), Some(seen)) = (bound(&chain.name), longest(&simulated, &chain.name)) else {
                continue;
            };
            assert!(seen <= bound, "{}: {seen} seen, {bound} proven, seed {round}\n{text}", chain.name);
            let proven = judge(analysed.activity(&chain.name).expect("it is there"));
            let broken = judge(simulated.activity(&chain.name).expect("it is there"));
            assert!(proven[0].outcome != Outcome::Kept || broken[0].outcome != Outcome::Broken, "{text}");
            parts.push(seen.get() as f64 / bound.get() as f64);
        }
    }
    assert!(parts.len() >= wanted, "{platform:?} {classes:?}: {} of {wanted} had a bound", parts.len());
    parts
}

/// The median and the least of some parts.
fn summary(mut parts: Vec<f64>) -> (f64, f64) {
    parts.sort_by(f64::total_cmp);
    (parts[parts.len() / 2], parts[0])
}

fn exact(cpus: u32) -> Platform {
    Platform { enforcement: Enforcement::Exact, fair_server: None, ..Platform::linux_6_18(cpus) }
}

/// With a fair server that acts often.
fn served(cpus: u32) -> Platform {
    let server = FairServer { runtime: Nanos::from_millis(10), period: Nanos::from_millis(40) };
    Platform { fair_server: Some(server), ..Platform::linux_6_12(cpus) }
}

/// That stops realtime threads often, or seldom.
fn limited(cpus: u32, runtime: i64, period: i64) -> Platform {
    let limit = RealtimeLimit { runtime: Nanos::from_millis(runtime), period: Nanos::from_millis(period) };
    Platform { realtime_limit: Some(limit), fair_server: None, ..Platform::linux_6_1(cpus) }
}

/// 1,500 chains, no response beyond its bound; of half of the bounds the part that stands with them is reached. What reservations take to be done
/// is nearer to the work of a job than to the deadline, which is what is proven.
#[test]
fn no_event_takes_longer_than_is_proven() {
    let costly = |platform: Platform| Platform { overheads: COSTS, ..platform };
    let sets = [
        (exact(1), Classes::Fixed, 0.5),
        (costly(exact(1)), Classes::Fixed, 0.5),
        (exact(2), Classes::Fixed, 0.6),
        (exact(1), Classes::Reserved, 0.2),
        (costly(exact(1)), Classes::Reserved, 0.2),
        (exact(2), Classes::Reserved, 0.2),
        (Platform::linux_6_18(1), Classes::Reserved, 0.1),
        (exact(1), Classes::Mixed, 0.2),
        (served(1), Classes::Fixed, 0.03),
        (served(3), Classes::Fixed, 0.03),
        (limited(2, 95, 100), Classes::Fixed, 0.4),
        (costly(served(1)), Classes::Mixed, 0.02),
        (served(3), Classes::Fixed, 0.005),
        (limited(2, 95, 100), Classes::Fixed, 0.3),
        (limited(2, 950, 1000), Classes::Mixed, 0.15),
    ];
    /// Of the sets.
    const BRIEF: std::ops::Range<usize> = 12..15;
    // More of each are drawn on demand.
    let wanted =
        std::env::var("SURETY_CHAINS").map_or(100, |count| count.parse().expect("a number of chains"));
    for (number, (platform, classes, median)) in sets.into_iter().enumerate() {
        let is_brief = BRIEF.contains(&number);
        let (middle, least) = summary(compared(&platform, classes, is_brief, wanted, number as u128));
        let Platform { cpus, enforcement, .. } = &platform;
        println!("{cpus} CPUs, {classes:?}, {enforcement:?}: median {middle:.3}, least {least:.3}");
        assert!(middle >= median, "{cpus} {classes:?} {enforcement:?}: {middle:.3}");
    }
}

/// What a chain has on a machine: its bound, or why it has none, and the longest response that is seen.
fn both(text: &str, platform: &Platform, name: &str, secs: i64, seed: u64) -> (Result<Nanos, String>, Nanos) {
    let workload = workload(text);
    let options = RunOptions { duration: Nanos::from_secs(secs), seed, ..RunOptions::default() };
    let analysed =
        AnalysisWorld::new(platform.clone()).run(&workload, &options, &mut Unobserved).expect("it is played");
    let simulated =
        SimWorld::new(platform.clone()).run(&workload, &options, &mut Unobserved).expect("it is played");
    let chain = analysed.activity(name).expect("it is there");
    let bound = chain.response.as_ref().and_then(|response| response.quantile(1.0));
    let bound = bound.ok_or_else(|| match &chain.promised[0].evidence {
        Evidence::NotObservable { because } => because.clone(),
        other => panic!("{other:?}"),
    });
    (bound, longest(&simulated, name).expect("events come through"))
}

/// On CPU 1 the kernel stops realtime threads, `x` among them; the events that wait come to `y` at once, which stands above `z` on CPU 0.
#[test]
fn who_is_fed_by_a_throttled_stage_is_not_bounded() {
    let text = "
[[task]]\nname = 'x'\nwork = '100us'\npolicy = 'fifo:20'\ncpus = '1'
[[task]]\nname = 'hog'\nperiod = '100ms'\nwork = '89ms'\npolicy = 'fifo:5'\ncpus = '1'
[[task]]\nname = 'y'\nwork = '500us'\npolicy = 'fifo:20'\ncpus = '0'
[[task]]\nname = 'z'\nwork = '5ms'\npolicy = 'fifo:10'\ncpus = '0'
[[chain]]\nname = 'a'\nstart = { kind = 'periodic', period = '1ms' }\nthrough = ['x', 'y']\npromise = 'response <= 500ms'
[[chain]]\nname = 'b'\nstart = { kind = 'periodic', period = '40ms' }\nthrough = ['z']\npromise = 'response <= 15ms'
[[load]]\nname = 'spin'\nkind = 'spinners'\ncount = 4
";
    let (bound, seen) = both(text, &limited(2, 950, 1000), "b", 5, 1);
    let why = bound.unwrap_err();
    assert!(why.contains("`y` stands above") && why.contains("it would stop them all"), "{why}");
    assert!(seen > Nanos::from_millis(15), "{seen}");
}

/// Realtime threads leave most of their CPUs, and the fair server acts above them: fair threads that move, or sleep, come late in a period of which the
/// budget is used up.
#[test]
fn the_fair_server_acts_beside_realtime_threads_that_leave_time() {
    let moving = "
[[task]]\nname = 'c0s0'\nwork = { kind = 'uniform', low = '11us', high = '100us' }\npolicy = 'rr:11'\ncpus = '0'
[[task]]\nname = 'c1s0'\nwork = { kind = 'uniform', low = '81us', high = '800us' }\npolicy = 'rr:11'\ncpus = '2'
[[task]]\nname = 'c1s1'\nwork = '300us'\npolicy = 'rr:11'\ncpus = '1'
[[task]]\nname = 'b0'\nwork = '300us'\nperiod = '20ms'\npolicy = 'fifo:12'\ncpus = '2'
[[chain]]\nname = 'c0'\nstart = { kind = 'periodic', period = '3ms' }\nthrough = ['c0s0']\npromise = 'response <= 60ms'
[[chain]]\nname = 'c1'\nstart = { kind = 'periodic', period = '16ms' }\nthrough = ['c1s0', 'c1s1']\npromise = 'response <= 60ms'
[[load]]\nname = 'spin'\nkind = 'spinners'\ncount = 2
";
    let sleeping = "
[[task]]\nname = 'a'\nwork = '2ms'\npolicy = 'fifo:10'
[[task]]\nname = 'fair'\nperiod = '53ms'\nwork = '500us'
[[chain]]\nname = 'c1'\nstart = { kind = 'periodic', period = '13ms' }\nthrough = ['a']\npromise = 'response <= 60ms'
";
    let tick = Nanos::MILLISECOND;
    for (text, platform, seed, without) in [
        (
            moving,
            Platform { tick, fair_server: served(3).fair_server, ..Platform::linux_6_6(3) },
            50_955,
            us(1_400),
        ),
        (sleeping, Platform { tick, ..served(1) }, 1, us(2_000)),
    ] {
        let platform = Platform { overheads: Overheads::default(), ..platform };
        let (bound, seen) = both(text, &platform, "c1", 3, seed);
        let bound = bound.unwrap();
        assert!(seen > without && seen <= bound, "{seen} seen, {bound} proven\n{text}");
    }
}
