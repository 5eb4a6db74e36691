//! Drawn workloads: a few activities of every kind, each a section of a workload file, and what a run of them says.

use proptest::prelude::*;
use surety_model::event::Event;
use surety_model::platform::Platform;
use surety_model::record::Record;
use surety_model::world::{Observer, RunOptions, World as _, WorldError};
use surety_sim::SimWorld;
use surety_units::{CpuSet, Nanos};

/// A workload of sections, and the machine and options it is run with.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub sections: Vec<String>,
    pub cpus: u32,
    pub kernel: &'static str,
    pub seed: u64,
    pub phase: Nanos,
}

impl Drawn {
    pub fn platform(&self) -> Platform {
        Platform::named(self.kernel, self.cpus).expect("its name is in the table")
    }

    /// The sections as a file; each has a name of its own by its place.
    pub fn text(&self) -> String {
        let named = |(place, section): (usize, &String)| section.replace("NAME", &format!("a{place}"));
        let shared = "[[resource]]\nname = \"plain\"\n[[resource]]\nname = \"lent\"\nprotocol = \"inherit\"\n\
                      [[group]]\nname = \"g\"\nweight = 30\n";
        self.sections.iter().enumerate().map(named).collect::<String>() + shared
    }

    pub fn run(&self, length: Nanos, observer: &mut dyn Observer) -> Result<Record, WorldError> {
        self.run_on(self.platform(), length, observer)
    }

    pub fn run_on(
        &self,
        platform: Platform,
        length: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let world = SimWorld::new(Platform { tick_phase: Some(self.phase), ..platform });
        let options = RunOptions {
            seed: self.seed,
            warm_up: Nanos::ZERO,
            duration: length,
            cpus: Some(CpuSet::first(self.cpus)),
            ..RunOptions::default()
        };
        world.run(&super::workload(&self.text()), &options, observer)
    }
}

/// Every event of a run, in words.
#[derive(Default)]
pub struct Told(pub Vec<(Nanos, String)>);

impl Observer for Told {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        let words = format!("cpu{} {} {:?}", event.cpu, event.current.0, event.kind);
        self.0.push((event.time, words));
    }
}

fn work() -> impl Strategy<Value = String> {
    prop_oneof![
        (50i64..6_000).prop_map(|us| format!("\"{us}us\"")),
        (50i64..3_000, 1i64..3_000).prop_map(|(low, more)| format!(
            "{{ kind = \"uniform\", low = \"{low}us\", high = \"{}us\" }}",
            low + more
        )),
        (100i64..3_000).prop_map(|mean| format!("{{ kind = \"exponential\", mean = \"{mean}us\" }}")),
    ]
}

fn policy() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (-15i32..15).prop_map(|nice| format!("nice = {nice}")),
        1 => Just("policy = \"idle\"".to_owned()),
        1 => Just("policy = \"batch\"".to_owned()),
        1 => (200i64..5_000).prop_map(|us| format!("slice = \"{us}us\"")),
        1 => Just("group = \"g\"".to_owned()),
        2 => (1u32..5).prop_map(|priority| format!("policy = \"fifo:{priority}\"")),
        1 => (1u32..5).prop_map(|priority| format!("policy = \"rr:{priority}\"")),
    ]
}

fn reservation() -> impl Strategy<Value = String> {
    (100i64..900, 10i64..60, any::<bool>(), 0u8..3).prop_map(|(permille_of_ten, period, constrained, flag)| {
        let runtime = period * permille_of_ten / 10;
        let deadline = if constrained { period * 800 } else { period * 1000 };
        let flag = ["", ", reclaim = true", ", demote = true"][usize::from(flag)];
        format!(
            "reservation = {{ runtime = \"{}us\", deadline = \"{deadline}us\", period = \"{period}ms\"{flag} }}",
            runtime.max(20)
        )
    })
}

fn release() -> impl Strategy<Value = String> {
    let grid =
        (2i64..60, 0i64..50).prop_map(|(ms, start)| format!("period = \"{ms}ms\"\nstart = \"{start}ms\"\n"));
    let jittered = (5i64..60, 1i64..5)
        .prop_map(|(ms, jitter)| format!("period = \"{ms}ms\"\njitter = \"{jitter}ms\"\n"));
    let sporadic = (1i64..20, 2i64..40).prop_map(|(gap, mean)| {
        format!("gap = \"{gap}ms\"\nspacing = {{ kind = \"exponential\", mean = \"{}ms\" }}\n", gap + mean)
    });
    prop_oneof![grid, jittered, sporadic]
}

/// A task of jobs: of plain work, or of phases.
pub fn task() -> impl Strategy<Value = String> {
    let phases = prop_oneof![
        3 => work().prop_map(|work| format!("work = {work}\n")),
        1 => (work(), work(), 100i64..5_000).prop_map(|(first, second, us)| {
            format!("phases = [{{ run = {first} }}, {{ sleep = \"{us}us\" }}, {{ run = {second} }}]\n")
        }),
        1 => (work(), any::<bool>()).prop_map(|(work, lent)| {
            let lock = if lent { "lent" } else { "plain" };
            format!("phases = [{{ lock = \"{lock}\" }}, {{ run = {work} }}, {{ unlock = \"{lock}\" }}]\n")
        }),
    ];
    (release(), phases, policy(), any::<bool>(), any::<bool>(), 1u32..4).prop_map(
        |(release, phases, policy, skips, relative, instances)| {
            let late = if skips { "skip" } else { "queue" };
            let sleep = if relative && !release.contains("spacing") { "sleep = \"relative\"\n" } else { "" };
            format!("[[task]]\nname = \"NAME\"\n{release}{phases}{policy}\nlate = \"{late}\"\n{sleep}instances = {instances}\n")
        },
    )
}

fn reserved() -> impl Strategy<Value = String> {
    let jobs = (release(), work()).prop_map(|(release, work)| format!("{release}work = {work}\n"));
    let uses = prop_oneof![2 => jobs, 1 => Just("work = \"forever\"\n".to_owned())];
    (uses, reservation())
        .prop_map(|(uses, reservation)| format!("[[task]]\nname = \"NAME\"\n{uses}{reservation}\n"))
}

fn load() -> impl Strategy<Value = String> {
    (policy(), 1u32..3).prop_map(|(policy, count)| {
        format!("[[load]]\nname = \"NAME\"\nkind = \"spinners\"\ncount = {count}\n{policy}\n")
    })
}

fn irq() -> impl Strategy<Value = String> {
    let arrivals = prop_oneof![
        (1i64..20).prop_map(|ms| format!("{{ kind = \"periodic\", period = \"{ms}ms\" }}")),
        (100u32..2_000).prop_map(|hz| format!("{{ kind = \"poisson\", rate = \"{hz}Hz\" }}")),
        (1u32..5, 200i64..2_000)
            .prop_map(|(n, us)| format!("{{ kind = \"closed\", outstanding = {n}, service = \"{us}us\" }}")),
    ];
    (arrivals, 5i64..300, 0i64..10).prop_map(|(arrivals, work, hard)| {
        format!("[[irq]]\nname = \"NAME\"\narrivals = {arrivals}\nwork = \"{work}us\"\nhard = \"{hard}us\"\nbuffer = 16\n")
    })
}

/// Any few activities on a machine of any profile that has all they ask for.
pub fn drawn(cpus: std::ops::Range<u32>) -> impl Strategy<Value = Drawn> {
    let section = prop_oneof![4 => task(), 2 => reserved(), 2 => load(), 1 => irq()];
    let has_all =
        |of: surety_model::platform::Profile| of(1).fair_version().is_some_and(|v| v.lacks.is_empty());
    let kernels: Vec<&'static str> = surety_model::platform::PROFILES
        .iter()
        .filter(|(_, of)| has_all(*of))
        .map(|(name, _)| *name)
        .collect();
    (
        proptest::collection::vec(section, 1..12),
        cpus,
        proptest::sample::select(kernels),
        any::<u64>(),
        (0i64..4_000).prop_map(Nanos::from_micros),
    )
        .prop_map(|(sections, cpus, kernel, seed, phase)| Drawn { sections, cpus, kernel, seed, phase })
}
