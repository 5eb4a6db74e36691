//! Input latency of a browser in a video conference under each scheduler: which order the schedulers have, not how long anything takes.
//!
//! At OSPM 2023 (S. Rostedt, Y. Esmat) two Chromebooks, of two and of four CPUs, were measured from an event to its picture. Published are two
//! values (the mouse with critical threads in control groups and out of them, on two CPUs) and orders. What the threads need was not
//! published: [`workload`] is an assumption, the same for every scheduler, so times are not compared and orders are.

use surety_model::formats::toml;
use surety_model::platform::{Enforcement, Platform};
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_stats::bounds::mean_interval;
use surety_units::Nanos;

use crate::published::Table;
use crate::{Bench, COMMON, Cell, Column, Experiment, Mark, Origin, Request, Sheet, SheetRow};

/// What is published, as printed.
const PUBLISHED: &str = include_str!("../../published/chromebook.csv");
/// Its row of the mouse.
const MOUSE: &str = "mouse latency 2 cores: critical tasks inside cgroups -> moved out (ms)";
/// Seeds of each configuration at least: an interval needs several.
const SEEDS: u32 = 20;
/// Of each end of an interval, so that both together are of 95 %.
const CONFIDENCE: f64 = 0.975;
/// Before it is looked at.
const SETTLES: Nanos = Nanos::from_secs(1);
/// Ticks of ChromeOS: 1000 Hz.
const TICK: Nanos = Nanos::from_millis(1);
/// What all participants' video takes of a machine's CPUs, in hundredths: 16 participants of 2.19 ms every 33 ms on two.
const VIDEO: u32 = 53;

/// How the critical threads are scheduled.
#[derive(Debug)]
struct Variant {
    name: &'static str,
    /// Lines of the workload file that say so.
    keys: &'static str,
    /// Whether they stay in the groups.
    is_grouped: bool,
    /// Whether all of them are scheduled so; at first one was not.
    is_whole: bool,
    /// Schedulers below the realtime one.
    schedulers: &'static [&'static str],
}

const IN_GROUPS: Variant = Variant {
    name: "fix-prio",
    keys: "nice = -8",
    is_grouped: true,
    is_whole: true,
    schedulers: &["cfs-6.1"],
};
const OUTSIDE: Variant = Variant { name: "no-cgroup", is_grouped: false, ..IN_GROUPS };
/// Latency-nice -20 as kernels have it: a slice of 100 us.
const EEVDF: Variant = Variant {
    name: "EEVDF",
    keys: "nice = -8\nslice = '100us'",
    is_grouped: true,
    is_whole: true,
    schedulers: &["eevdf-6.12"],
};

const VARIANTS: [Variant; 8] = [
    Variant { name: "base", is_whole: false, ..IN_GROUPS },
    IN_GROUPS,
    OUTSIDE,
    Variant { name: "RT", keys: "policy = 'fifo:1'", ..OUTSIDE },
    Variant { name: "HIGH", keys: "policy = 'high'\nnice = -8", schedulers: &["high", "cfs-6.1"], ..OUTSIDE },
    Variant { name: "MuQSS", keys: "nice = -10", schedulers: &["muqss"], ..OUTSIDE },
    EEVDF,
    Variant { name: "EEVDF, no-cgroup", is_grouped: false, ..EEVDF },
];

/// What is measured, and how many participants there are.
const EVENTS: [(&str, u32); 2] = [("key press", 16), ("mouse", 49)];
const CPUS: [u32; 2] = [2, 4];

/// A conference: critical threads handle events and pages of it, beside them threads of the same groups that are not critical.
fn workload(variant: &Variant, participants: u32, cpus: u32) -> Workload {
    let critical = |name: &str, group: &str, keys: &str| {
        let policy = if name == "renderer" && !variant.is_whole { "nice = 0" } else { variant.keys };
        let group = if variant.is_grouped { format!("group = '{group}'\n") } else { String::new() };
        format!("[[task]]\nname = '{name}'\n{keys}\n{group}{policy}\n")
    };
    let drawn =
        |mean: &str, p99: &str| format!("work = {{ kind = 'lognormal', mean = '{mean}', p99 = '{p99}' }}");
    let video = 33_000 * VIDEO * cpus / (100 * participants);
    let (mean, p99) = (format!("{video}us"), format!("{}us", 3 * video));
    let other = |name: &str, group: &str, count: u32, keys: &str| {
        format!("[[task]]\nname = '{name}'\ninstances = {count}\ngroup = '{group}'\n{keys}\n")
    };
    let sometimes = |gap: &str, work: &str| {
        format!(
            "gap = '{gap}'\nspacing = {{ kind = 'exponential', mean = '{gap}' }}\nwork = {{ kind = 'exponential', mean = '{work}' }}"
        )
    };
    let text = [
        "format = 1\n[[group]]\nname = 'render'\n[[group]]\nname = 'foreground'\nparent = 'render'\n"
            .to_owned(),
        "[[group]]\nname = 'background'\nparent = 'render'\nweight = 10\n[[group]]\nname = 'ui'\n".to_owned(),
        critical("input", "ui", "work = '500us'"),
        critical("browser", "ui", &drawn("3ms", "9ms")),
        critical("renderer", "foreground", &drawn("6ms", "18ms")),
        critical("compositor", "foreground", "period = '16.6ms'\nlate = 'skip'\nwork = '4ms'"),
        critical("present", "ui", "work = '2ms'"),
        other(
            "video",
            "foreground",
            participants,
            &format!("period = '33ms'\njitter = '10ms'\nlate = 'skip'\n{}", drawn(&mean, &p99)),
        ),
        other("helper", "ui", 4, &sometimes("20ms", "1ms")),
        other("tab", "background", 4, &sometimes("50ms", "3ms")),
        "[[chain]]\nname = 'event'\nstart = { kind = 'poisson', rate = '5/s' }\n".to_owned(),
        "through = ['input', 'browser', 'renderer', 'compositor', 'present']\n".to_owned(),
        "[[chain]]\nname = 'page'\nstart = { kind = 'periodic', period = '33ms' }\nthrough = ['renderer']\n"
            .to_owned(),
    ];
    toml::read("chromebook", &text.concat()).expect("the workload is read by a test")
}

fn platform(variant: &Variant, cpus: u32) -> Platform {
    let order = ["deadline", "realtime"].iter().chain(variant.schedulers);
    Platform {
        name: format!("linux-6.1 at 1000 Hz with {}", variant.name),
        tick: TICK,
        enforcement: Enforcement::Tick(TICK),
        schedulers: order.map(|word| (*word).to_owned()).collect(),
        ..Platform::linux_6_1(cpus)
    }
}

/// Figures of a variant, one for each seed.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Mean responses, ns.
    response: Vec<f64>,
    /// Parts of the compositor's frames that were late or given up.
    dropped: Vec<f64>,
    /// Whether no kernel was held against what was simulated.
    is_unvalidated: bool,
}

impl Seen {
    fn add(&mut self, record: &Record) {
        self.is_unvalidated |= !record.in_force.unvalidated.is_empty();
        let event =
            record.activity("event").and_then(|event| event.response.as_ref()?.observed()?.moments.mean());
        self.response.extend(event);
        self.dropped.extend(record.activity("compositor").and_then(|frames| frames.miss_ratio()));
    }

    fn cells(&self) -> [Cell; 3] {
        let interval = |values: &[f64]| mean_interval(values, CONFIDENCE);
        let middle = |values: &[f64]| {
            interval(values).map_or(Cell::Empty, |(low, high)| Cell::plain((low + high) / 2.0))
        };
        let half =
            interval(&self.response).map_or(Cell::Empty, |(low, high)| Cell::plain((high - low) / 2.0));
        [middle(&self.response), half, middle(&self.dropped)]
    }
}

/// What an order is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Response,
    Dropped,
}

/// A published order: the first has less of a figure than the second.
type Order = (&'static str, &'static str, Figure);

const ORDERS: [Order; 9] = [
    ("fix-prio", "base", Figure::Response),
    ("no-cgroup", "fix-prio", Figure::Response),
    ("RT", "no-cgroup", Figure::Response),
    ("HIGH", "no-cgroup", Figure::Response),
    ("MuQSS", "no-cgroup", Figure::Response),
    ("fix-prio", "EEVDF", Figure::Response),
    ("no-cgroup", "EEVDF, no-cgroup", Figure::Response),
    ("fix-prio", "EEVDF", Figure::Dropped),
    ("MuQSS", "no-cgroup", Figure::Dropped),
];

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    AsPublished,
    Reversed,
    /// The interval of the difference has both signs.
    Undecided,
}

impl Found {
    fn in_words(self) -> &'static str {
        match self {
            Found::AsPublished => "as published",
            Found::Reversed => "the other way round",
            Found::Undecided => "undecided",
        }
    }
}

/// The differences of an order, seed by seed, in ms or points: their interval, and what that says. `None` without runs of both.
fn found(order: &Order, seen: &[Seen]) -> Option<((f64, f64), Found)> {
    let of = |name: &str| {
        VARIANTS.iter().zip(seen).find(|(variant, _)| variant.name == name).map(|(_, seen)| seen)
    };
    let values = |seen: &Seen| match order.2 {
        Figure::Response => seen.response.iter().map(|ns| ns / 1e6).collect::<Vec<f64>>(),
        Figure::Dropped => seen.dropped.iter().map(|part| part * 100.0).collect(),
    };
    let (less, more) = (values(of(order.0)?), values(of(order.1)?));
    let differences: Vec<f64> = less.iter().zip(&more).map(|(less, more)| more - less).collect();
    let (low, high) = mean_interval(&differences, CONFIDENCE)?;
    let found = match (low > 0.0, high < 0.0) {
        (true, _) => Found::AsPublished,
        (_, true) => Found::Reversed,
        _ => Found::Undecided,
    };
    Some(((low, high), found))
}

fn told(place: &str, order: &Order, seen: &[Seen]) -> Option<String> {
    let ((low, high), found) = found(order, seen)?;
    let what = if order.2 == Figure::Response { "ms" } else { "points of dropped frames" };
    let why = REASONS.iter().find(|(variant, _)| *variant == order.0 && found == Found::Reversed);
    let why = why.map_or_else(String::new, |(_, reason)| format!("; {reason}"));
    Some(format!(
        "{place}: published {} below {}; the difference is {low:.2} to {high:.2} {what}: {}{why}",
        order.0,
        order.1,
        found.in_words()
    ))
}

/// Why a variant does not come before another as published, where it does not: from its rules.
const REASONS: [(&str, &str); 2] = [
    (
        "MuQSS",
        "by its rules a job of nice -10 is due in 16 ms and one of nice 0 in 40: whoever of nice 0 has waited 25 ms comes before a critical thread that \
         wakes, and without groups that is all video",
    ),
    (
        "fix-prio",
        "the compositor wants what its weight gives it beside the video threads that wait in its group, so under CFS it wakes where the others' virtual \
         times are, not the granularity behind them with which it would preempt, and waits behind video (mouse, 2 CPUs, traces of 5 s of seed 1: 7.0 ms of \
         16.6 in the mean, 82 of 226 jobs begin at once); under EEVDF it preempts wherever it is eligible, as its deadline is earlier (0.1 ms, 293 of 329). \
         With nice -15 for it alone CFS drops none",
    ),
];

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "chromebook",
    title: "input latency of a browser in a conference: the order of schedulers and arrangements",
    source: "S. Rostedt and Y. Esmat, as reported of OSPM 2023: orders, and two values",
    worlds: &["sim"],
    duration: Nanos::from_secs(20),
    reproduce,
    ..COMMON
};

/// The published times of the mouse on two CPUs, in the groups and out of them, ns.
fn published() -> Option<(f64, f64)> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let row = (0..table.len()).find(|row| table.text(*row, "claim") == Some(MOUSE))?;
    let (inside, outside) = table.text(row, "value")?.split_once("->")?;
    let ns = |text: &str| text.trim().parse::<f64>().ok().map(|ms| ms * 1e6);
    Some((ns(inside)?, ns(outside)?))
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let worlds = bench.worlds();
    let column = |title: String, unit, origin| Column { title, unit, origin };
    let mut columns = vec![column("published".to_owned(), "ns", Origin::Published)];
    for world in &worlds {
        columns.push(column(format!("{world} response"), "ns", Origin::World));
        columns.push(column(format!("{world} +-"), "ns", Origin::World));
        columns.push(column(format!("{world} dropped"), "%", Origin::World));
    }
    let seeds = request.seeds.max(SEEDS);
    let mut notes = notes(seeds);
    let mut rows = Vec::new();
    for (event, participants) in EVENTS {
        for cpus in CPUS {
            let place = format!("{event}, {cpus} CPUs");
            let mut of_worlds = Vec::new();
            for world in 0..worlds.len() {
                let runs = runs(bench, (world, seeds), (participants, cpus), &request.options)?;
                let prefix =
                    if worlds.len() > 1 { format!("{}: {place}", worlds[world]) } else { place.clone() };
                let seen: Vec<Seen> = runs.iter().map(|run| run.clone().unwrap_or_default()).collect();
                notes.extend(ORDERS.iter().filter_map(|order| told(&prefix, order, &seen)));
                of_worlds.push(runs);
            }
            for (number, variant) in VARIANTS.iter().enumerate() {
                let mut cells = vec![published_cell(event, cpus, variant)];
                for runs in &of_worlds {
                    match &runs[number] {
                        Ok(seen) => cells.extend(seen.cells()),
                        Err(why) => cells.extend([Cell::Refused(why.clone()), Cell::Empty, Cell::Empty]),
                    }
                }
                let keys = vec![event.to_owned(), cpus.to_string(), variant.name.to_owned()];
                let is_unvalidated = |runs: &Vec<Result<Seen, String>>| matches!(&runs[number], Ok(seen) if seen.is_unvalidated);
                let mark = of_worlds.iter().any(is_unvalidated).then_some(Mark::Unvalidated);
                rows.push(SheetRow { mark, ..SheetRow::new(keys, cells) });
            }
        }
    }
    Ok(Sheet { keys: vec!["event", "CPUs", "variant"], columns, rows, notes, drawn: Vec::new() })
}

/// Every variant in one world, in order; what a world cannot run is said in words.
fn runs(
    bench: &mut dyn Bench,
    (world, seeds): (usize, u32),
    (participants, cpus): (u32, u32),
    options: &RunOptions,
) -> Result<Vec<Result<Seen, String>>, WorldError> {
    let mut all = Vec::new();
    for variant in &VARIANTS {
        let (workload, platform) = (workload(variant, participants, cpus), platform(variant, cpus));
        let mut seen = Ok(Seen::default());
        for number in 0..seeds {
            let seed = options.seed.wrapping_add(u64::from(number));
            let options =
                RunOptions { seed, cpus: None, warm_up: options.warm_up.max(SETTLES), ..options.clone() };
            let label = format!("{}, {participants} participants, {cpus} CPUs, seed {seed}", variant.name);
            match bench.run_on(&platform, world, &workload, &options, &label) {
                Ok(record) => {
                    if let Ok(seen) = &mut seen {
                        seen.add(&record);
                    }
                }
                Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                Err(why) => {
                    seen = Err(why.to_string());
                    break;
                }
            }
        }
        all.push(seen);
    }
    Ok(all)
}

fn published_cell(event: &str, cpus: u32, variant: &Variant) -> Cell {
    let value = match (event, cpus, variant.name) {
        ("mouse", 2, "fix-prio") => published().map(|(inside, _)| inside),
        ("mouse", 2, "no-cgroup") => published().map(|(_, outside)| outside),
        _ => None,
    };
    value.map_or(Cell::Empty, Cell::plain)
}

fn notes(seeds: u32) -> Vec<String> {
    vec![
        format!(
            "means over {seeds} seeds, with half of their 95 % interval; an order is held by the differences seed by seed, 95 % too"
        ),
        format!(
            "what the threads need is assumed, the same under every scheduler: an event five times a second through input (0.5 ms), browser (3), renderer (6), \
             compositor (4, every 16.6 ms) and present (2), the page through the renderer every 33 ms, video for {VIDEO} % of the CPUs in the \
             renderer's group, helpers and background tabs; so times are not compared with the published ones"
        ),
        "base: the renderer has nice 0, other critical threads -8; EEVDF: latency-nice -20 as a slice of 100 us; MuQSS with nice -10, which knows \
         no groups; frames are dropped that are not done in 16.6 ms"
            .to_owned(),
        "the load was chosen where the arrangements under CFS differ, after others had been tried: that one load gives these orders is what is shown"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use surety_model::world::{Unobserved, World as _};

    use super::*;

    fn simulated(participants: u32, cpus: u32) -> Vec<Seen> {
        let of = |variant: &Variant| {
            let world = surety_sim::SimWorld::new(platform(variant, cpus));
            let mut seen = Seen::default();
            for seed in 1..=u64::from(SEEDS) {
                let duration = Nanos::from_secs(12);
                let options = RunOptions { seed, duration, warm_up: SETTLES, ..RunOptions::default() };
                let record =
                    world.run(&workload(variant, participants, cpus), &options, &mut Unobserved).unwrap();
                seen.add(&record);
            }
            seen
        };
        VARIANTS.iter().map(of).collect()
    }

    /// A21. Held is what is reported: MuQSS does not come out, and CFS drops more frames than EEVDF.
    #[test]
    fn orders_are_as_published_but_those_of_muqss_and_of_dropped_frames() {
        use Found::{AsPublished, Reversed, Undecided};
        let [two, four] = CPUS.map(|cpus| {
            let seen = simulated(EVENTS[0].1, cpus);
            let marked = VARIANTS.iter().zip(&seen).filter(|(_, seen)| seen.is_unvalidated);
            assert_eq!(marked.map(|(variant, _)| variant.name).collect::<Vec<_>>(), ["HIGH", "MuQSS"]);
            ORDERS.map(|order| found(&order, &seen).expect("every variant was run").1)
        });
        let of_responses =
            [AsPublished, AsPublished, AsPublished, AsPublished, Reversed, AsPublished, AsPublished];
        assert_eq!((&two[..7], &four[..7]), (&of_responses[..], &of_responses[..]));
        assert_eq!((&two[7..], &four[7..]), (&[Reversed; 2][..], &[Undecided; 2][..]));
        let reversed = ORDERS.iter().zip(&two).filter(|(_, found)| **found == Reversed);
        for (order, _) in reversed {
            assert!(REASONS.iter().any(|(variant, _)| *variant == order.0), "{order:?} has no cause");
        }
    }

    #[test]
    fn the_published_values_are_read() {
        assert_eq!(published(), Some((121e6, 71e6)));
        assert_eq!(published_cell("mouse", 2, &OUTSIDE), Cell::plain(71e6));
        assert_eq!(published_cell("mouse", 4, &OUTSIDE), Cell::Empty);
    }
}
