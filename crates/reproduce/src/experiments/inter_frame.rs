//! Inter-frame times of two video players on one CPU: under SCHED_FIFO the one's heavy frames delay the other, under
//! SCHED_DEADLINE each pays for its own.
//!
//! Published is a graph without numbers, so nothing of it can be held against a value; what it shows is the order of the
//! spreads. An inter-frame time is the distance between the completions of two frames, one after the other. A player
//! that is late works off its frames in order and drops none, so frame `k` is done at `k T + R(k)`, and the distance to the
//! next is `T + R(k+1) - R(k)`: the response times of a record, in their order, hold all of it.
//!
//! By the rule the distance is `T` in the mean, and where no frame needs more than the budget, each is done within its period:
//! no distance is above `2 T - C` with the shortest frame `C`.

use surety_model::distribution::TimeDistribution;
use surety_model::record::{ActivityRecord, Distribution, Observed, Record};
use surety_model::reservation::Reservation;
use surety_model::workload::{Late, PolicySpec, Task, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use super::schedulers::run_alone;
use crate::{Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, one_cpu};

/// A record keeps the order of fewer than 2048 values whole: so long the faster player can be looked at.
const LONGEST: Nanos = Nanos::from_secs(60);

/// A player.
struct Player {
    name: &'static str,
    period: Nanos,
    budget: Nanos,
    /// The shortest frame, where none needs more than the budget.
    shortest: Option<Nanos>,
}

/// 25 frames a second, 16 ms each in the mean, and one in a hundred above 50 ms; and 30 a second of 6 to 10 ms.
const PLAYERS: [Player; 2] = [
    Player { name: "heavy", period: Nanos::from_millis(40), budget: Nanos::from_millis(23), shortest: None },
    Player {
        name: "light",
        period: Nanos::from_millis(33),
        budget: Nanos::from_micros(10_500),
        shortest: Some(Nanos::from_millis(6)),
    },
];

impl Player {
    fn work(&self) -> TimeDistribution {
        match self.shortest {
            None => TimeDistribution::LogNormal { mean: Nanos::from_millis(16), p99: Nanos::from_millis(50) },
            Some(low) => TimeDistribution::Uniform { low, high: Nanos::from_millis(10) },
        }
    }

    /// The largest distance that the rule allows under its reservation.
    fn largest(&self) -> Option<Nanos> {
        self.shortest.map(|shortest| self.period * 2 - shortest)
    }
}

/// What schedules the players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Priorities of the two.
    Fifo([u32; 2]),
    Deadline {
        reclaim: bool,
    },
}

const POLICIES: [(&str, Policy); 4] = [
    ("FIFO, heavy first", Policy::Fifo([20, 10])),
    ("FIFO, light first", Policy::Fifo([10, 20])),
    ("DEADLINE", Policy::Deadline { reclaim: false }),
    ("DEADLINE, reclaiming", Policy::Deadline { reclaim: true }),
];
/// Those that the graph shows.
const SHOWN: [Policy; 2] = [POLICIES[0].1, POLICIES[2].1];

fn workload(policy: Policy) -> Workload {
    let task = |(player, index): (&Player, usize)| {
        let mut task = Task::periodic(player.name, player.period, player.work());
        task.late = Late::Queue;
        match policy {
            Policy::Fifo(priorities) => task.policy = PolicySpec::Fifo { priority: priorities[index] },
            Policy::Deadline { reclaim } => {
                let reservation = Reservation::implicit(player.budget, player.period);
                task.reservation = Some(Reservation { reclaim, ..reservation });
            }
        }
        task
    };
    Workload { tasks: PLAYERS.iter().zip(0..).map(task).collect(), ..Workload::default() }
}

/// The distances between the completions of the frames of a player; `None` where a frame was dropped, or the record does not hold all of
/// them in order.
fn distances(player: &ActivityRecord, period: Nanos) -> Option<Vec<Nanos>> {
    let sequence = player.response.as_ref()?.observed()?.in_order()?;
    if player.skipped > 0 || sequence.every() > 1 {
        return None;
    }
    let responses: Vec<Nanos> =
        sequence.values().iter().map(|r| i64::try_from(*r).map(Nanos::new)).collect::<Result<_, _>>().ok()?;
    Some(responses.windows(2).map(|pair| period + pair[1] - pair[0]).collect())
}

/// A number of the inter-frame times, in milliseconds.
type Statistic = fn(&Observed) -> Option<f64>;

const MEAN: &str = "mean";
const LARGEST: &str = "max";
const STATISTICS: [(&str, Statistic); 6] = [
    (MEAN, |o| o.moments.mean().map(millis)),
    ("std dev", |o| o.moments.std_dev().map(millis)),
    ("min", |o| o.moments.min().map(millis)),
    ("p5", |o| quantile(o, 0.05)),
    ("p95", |o| quantile(o, 0.95)),
    (LARGEST, |o| o.moments.max().map(millis)),
];

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

fn quantile(observed: &Observed, q: f64) -> Option<f64> {
    observed.histogram.quantile(q).map(|value| millis(value as f64))
}

/// What a world gave for a policy: the times of each player, or why there are none.
type Found = Result<[Observed; PLAYERS.len()], String>;

fn run_all(
    bench: &mut dyn Bench,
    world: (usize, &str),
    (words, policy): (&str, Policy),
    request: &Request,
    builds: &mut Builds,
) -> Result<Found, WorldError> {
    let mut found: [Observed; PLAYERS.len()] = Default::default();
    for seed in (0..request.seeds).map(|k| request.options.seed.wrapping_add(u64::from(k))) {
        let duration = request.options.duration.min(LONGEST);
        let options = RunOptions { seed, duration, ..one_cpu(&request.options) };
        let label = format!("{}: {words}, seed {seed}", world.1);
        let result = run_alone(bench, world, &workload(policy), &options, &label);
        builds.add(world.1, &result);
        let record = match result {
            Ok(record) => record,
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
            Err(why) => return Ok(Err(why.to_string())),
        };
        for (player, found) in PLAYERS.iter().zip(&mut found) {
            match of_player(&record, player) {
                Some(times) => times.into_iter().for_each(|time| found.record(time)),
                None => {
                    return Ok(Err(format!(
                        "{label}: the frames of {} are not known one by one",
                        player.name
                    )));
                }
            }
        }
    }
    Ok(Ok(found))
}

fn of_player(record: &Record, player: &Player) -> Option<Vec<Nanos>> {
    distances(record.activity(player.name)?, player.period)
}

fn rows(found: &[Vec<Found>]) -> Vec<SheetRow> {
    let mut rows = Vec::new();
    for (index, (words, policy)) in POLICIES.iter().enumerate() {
        for (which, player) in PLAYERS.iter().enumerate() {
            for (name, statistic) in STATISTICS {
                let period = player.period.as_millis_f64();
                let rule = match (name, policy, player.largest()) {
                    (MEAN, ..) => Cell::plain(period),
                    (LARGEST, Policy::Deadline { reclaim: false }, Some(largest)) => {
                        Cell::Below(largest.as_millis_f64())
                    }
                    _ => Cell::Empty,
                };
                let mut cells = vec![rule];
                cells.extend(found.iter().map(|world| match &world[index] {
                    Ok(times) => statistic(&times[which]).map_or(Cell::Empty, Cell::plain),
                    Err(why) => Cell::Refused(why.clone()),
                }));
                let keys = vec![(*words).to_owned(), player.name.to_owned(), name.to_owned()];
                rows.push(SheetRow::new(keys, cells));
            }
        }
    }
    rows
}

/// Whether a world shows what the graph shows: the spread of the player below falls.
fn in_words(world: &str, found: &[Found]) -> Option<String> {
    let spread = |policy: Policy| {
        let index = POLICIES.iter().position(|(_, other)| *other == policy)?;
        let [heavy, light] = found[index].as_ref().ok()?;
        Some((millis(heavy.moments.std_dev()?), millis(light.moments.std_dev()?)))
    };
    let [(_, fifo), (_, deadline)] = [spread(SHOWN[0])?, spread(SHOWN[1])?];
    let side = if deadline < fifo { "as published" } else { "not as published" };
    Some(format!(
        "{world}: the light player's inter-frame times deviate by {fifo:.2} ms below the heavy one under FIFO and by \
         {deadline:.2} ms under DEADLINE: {side}"
    ))
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "inter-frame",
    title: "inter-frame times of two video players under FIFO and under DEADLINE",
    source: super::interrupts::SOURCE,
    worlds: &["sim:linux-6.12"],
    duration: LONGEST,
    // Frames take milliseconds, and a busy second costs the host a quarter.
    lab_shift: 2,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let worlds = bench.worlds();
    let mut builds = Builds::default();
    let mut found: Vec<Vec<Found>> = Vec::new();
    for (index, world) in worlds.iter().enumerate() {
        let each = POLICIES
            .iter()
            .map(|policy| run_all(bench, (index, world), *policy, request, &mut builds))
            .collect::<Result<_, _>>()?;
        found.push(each);
    }
    let column = |title: String, origin| Column { title, unit: "ms", origin };
    let mut columns = vec![column("by the rule".to_owned(), Origin::Theory)];
    columns.extend(worlds.iter().map(|world| column(world.clone(), Origin::World)));
    let mut notes: Vec<String> =
        worlds.iter().zip(&found).filter_map(|(world, found)| in_words(world, found)).collect();
    notes.extend(said());
    notes.extend(builds.0);
    Ok(Sheet {
        keys: vec!["policy", "player", "inter-frame"],
        columns,
        rows: rows(&found),
        notes,
        drawn: drawn(&worlds, &found),
    })
}

/// What a reader must know.
fn said() -> [String; 3] {
    [
        "a reserved thread may run on every CPU of its root domain, or the kernel refuses it: on a host with more CPUs than one \
         the rows under DEADLINE are not of one CPU. What reclaiming hands out is the kernel's affair, and no rule is given for it"
            .to_owned(),
        "published is a graph of two players whose values are not printed: what is compared is that the spread of the one \
         below falls under DEADLINE. Its players and their reservations are not known either"
            .to_owned(),
        format!(
            "assumed, on one CPU: `heavy` shows 25 frames a second of 16 ms in the mean, one in a hundred above 50 ms, \
             `light` 30 a second of 6 to 10 ms; their reservations are {} in {} and {} in {}, so frames of `heavy` above its \
             budget are late by its own account. No frame is dropped. Drawn is `light`. The same seed draws the same frames in every world and \
             under every policy",
            PLAYERS[0].budget, PLAYERS[0].period, PLAYERS[1].budget, PLAYERS[1].period
        ),
    ]
}

/// The light player's times under the policies of the graph.
fn drawn(worlds: &[String], found: &[Vec<Found>]) -> Vec<(String, Distribution)> {
    let mut drawn = Vec::new();
    for (world, found) in worlds.iter().zip(found) {
        for ((_, policy), found) in POLICIES.iter().zip(found) {
            let word = match policy {
                Policy::Fifo(_) => "FIFO",
                Policy::Deadline { .. } => "DEADLINE",
            };
            if let (true, Ok([_, light])) = (SHOWN.contains(policy), found) {
                drawn.push((format!("{word} {world}"), Distribution::from(light.clone())));
            }
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::Platform;
    use surety_model::record::{Account, Basis, JobOutcome};
    use surety_sim::SimWorld;

    use surety_model::world::{Unobserved, World};

    #[test]
    fn distances_are_those_of_the_completions() {
        let ms = Nanos::from_millis;
        let mut account = Account::of_task(&workload(SHOWN[0]).tasks[0], Basis::Sample);
        let mut job = |release, completion| {
            let (release, completion) = (ms(release), ms(completion));
            account.add(JobOutcome::Completed { release, start: release, completion, execution: ms(1) });
        };
        for (release, completion) in [(0, 10), (40, 90), (80, 95), (120, 130)] {
            job(release, completion);
        }
        let record = account.clone().finish(None);
        assert_eq!(distances(&record, ms(40)), Some(vec![ms(80), ms(5), ms(35)]));
        account.add(JobOutcome::Skipped { release: ms(160) });
        assert_eq!(
            distances(&account.finish(None), ms(40)),
            None,
            "over a dropped frame no distance is known"
        );
    }

    /// The simulator is exact, so what it says of a reservation is what the rule says, and what FIFO does to the player
    /// below is what the graph shows.
    #[test]
    fn the_light_player_is_spread_by_fifo_and_bounded_under_its_reservation() {
        let run = |policy| {
            let options = RunOptions { duration: LONGEST, ..RunOptions::default() };
            let record = SimWorld::new(Platform::linux_6_12(1))
                .run(&workload(policy), &options, &mut Unobserved)
                .unwrap();
            PLAYERS.each_ref().map(|player| {
                let mut observed = Observed::default();
                of_player(&record, player).unwrap().into_iter().for_each(|time| observed.record(time));
                observed
            })
        };
        let found: Vec<Found> = POLICIES.iter().map(|(_, policy)| Ok(run(*policy))).collect();
        let light = |index: usize| &found[index].as_ref().unwrap()[1];
        let deviation = |index| light(index).moments.std_dev().unwrap();
        assert!(deviation(0) > 2.0 * deviation(2), "{} {}", deviation(0), deviation(2));
        assert!(deviation(0) > 2.0 * deviation(1), "above the other it is not delayed");
        let (largest, max) = (PLAYERS[1].largest().unwrap(), light(2).moments.max().unwrap());
        assert!(Nanos::from_f64_rounded(max) <= largest, "{max} of {largest}");
        assert!(in_words("sim", &found).unwrap().ends_with(": as published"));
        let mut turned = found.clone();
        turned.swap(0, 2);
        assert!(in_words("sim", &turned).unwrap().ends_with("not as published"));
        assert_eq!(in_words("sim", &vec![Err(String::new()); POLICIES.len()]), None);
        let rows = rows(&[found]);
        assert_eq!(rows.len(), POLICIES.len() * PLAYERS.len() * STATISTICS.len());
        let means = rows.iter().filter(|row| row.keys[2] == MEAN);
        for (rule, mean) in means.map(|row| (row.cells[0].value().unwrap(), row.cells[1].value().unwrap())) {
            // Of about 1500 frames the last may be some periods late.
            assert!((mean / rule - 1.0).abs() < 0.01, "{mean} of {rule}");
        }
    }
}
