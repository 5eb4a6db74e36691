//! What differs between two sides besides their numbers: workload, kernel, CPUs, policies, seeds, and what was found
//! of the machine. A verdict about numbers cannot tell which of these it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use surety_model::environment::CheckVerdict;
use surety_units::Nanos;

use crate::Side;

/// One thing that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `kernel`, `policy of player`.
    pub what: String,
    /// What it is in the runs of `A`, each value once.
    pub a: Vec<String>,
    /// What it is in the runs of `B`.
    pub b: Vec<String>,
    /// Whether it is what was varied on purpose.
    pub is_studied: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} | {}", self.what, shown(&self.a), shown(&self.b))
    }
}

/// At most three values.
fn shown(values: &[String]) -> String {
    match values {
        [] => "none".to_owned(),
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        values => values.join(", "),
    }
}

/// Whether a condition may change from run to run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steadiness {
    /// It is chosen: any difference counts.
    Chosen,
    /// It is found: it counts when each side has one value and they differ.
    Found,
}

type Conditions = BTreeMap<String, (Steadiness, BTreeSet<String>)>;

/// Everything that is not the same on both sides, what was varied on purpose marked.
pub fn differences(a: &Side<'_>, b: &Side<'_>, studied: Option<&str>) -> Vec<Difference> {
    let (of_a, of_b) = (conditions(a), conditions(b));
    let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    let mut list = Vec::new();
    for name in names {
        let steadiness = of_a.get(name).or(of_b.get(name)).map_or(Steadiness::Chosen, |(s, _)| *s);
        let values = |of: &Conditions| of.get(name).map(|(_, values)| values.clone()).unwrap_or_default();
        let (in_a, in_b) = (values(&of_a), values(&of_b));
        let differs = match steadiness {
            Steadiness::Chosen => in_a != in_b,
            Steadiness::Found => in_a != in_b && in_a.len() <= 1 && in_b.len() <= 1,
        };
        if differs {
            let is_studied = studied.is_some_and(|path| belongs_to(path, name));
            let texts = |values: BTreeSet<String>| values.into_iter().collect();
            list.push(Difference { what: name.clone(), a: texts(in_a), b: texts(in_b), is_studied });
        }
    }
    list
}

/// Whether a condition is what setting this path of a workload changes.
fn belongs_to(path: &str, condition: &str) -> bool {
    let mut parts = path.splitn(3, '.').skip(1);
    let (name, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let about_policy = ["policy", "nice", "slice", "reservation"].iter().any(|k| key.starts_with(k));
    match condition {
        "workload" => true,
        "reservations" => key.starts_with("reservation"),
        condition if key == "count" || key == "instances" => condition == format!("threads of {name}"),
        condition => about_policy && condition == format!("policy of {name}"),
    }
}

fn conditions(side: &Side<'_>) -> Conditions {
    let mut all = Conditions::new();
    let mut add = |steadiness, name: &str, value: String| {
        all.entry(name.to_owned()).or_insert((steadiness, BTreeSet::new())).1.insert(value);
    };
    use Steadiness::{Chosen, Found};
    let unknown = || "unknown".to_owned();
    if let Some(workload) = &side.workload {
        add(Chosen, "workload", workload.clone());
    }
    for run in &side.runs {
        add(Chosen, "world", run.world.clone());
        add(Chosen, "kernel", run.in_force.kernel.clone());
        add(Chosen, "CPUs", run.in_force.cpus.to_string());
        add(Chosen, "seed", run.seed.map_or_else(unknown, |seed| seed.to_string()));
        add(Chosen, "duration", run.duration.map_or_else(unknown, rounded));
        add(Chosen, "reservations", if run.reserved { "yes" } else { "no" }.to_owned());
        let names: Vec<&str> = run.activities.iter().map(|a| a.name.as_str()).collect();
        add(Chosen, "activities", names.join(" "));
        for name in names {
            let threads = run.in_force.threads.iter().filter(|t| t.activity == name);
            let policies: BTreeSet<&str> = threads.clone().map(|t| t.policy.as_str()).collect();
            let affinities: BTreeSet<String> = threads.clone().map(|t| t.affinity.to_string()).collect();
            if !policies.is_empty() {
                let policies: Vec<&str> = policies.into_iter().collect();
                add(Chosen, &format!("policy of {name}"), policies.join(" and "));
                add(Chosen, &format!("threads of {name}"), threads.count().to_string());
                let affinities: Vec<String> = affinities.into_iter().collect();
                add(Found, &format!("affinity of {name}"), affinities.join(" and "));
            }
        }
        // What others used meanwhile is told among the reasons to doubt a run, where it is one.
        for (name, value) in run.in_force.environment.iter().filter(|(name, _)| !is_result(name)) {
            add(Found, name, value.clone());
        }
        for check in &run.in_force.checks {
            let word = match check.verdict {
                CheckVerdict::Good => "good",
                CheckVerdict::Limited => "limited",
                CheckVerdict::Bad => "bad",
            };
            add(Found, &format!("check `{}`", check.name), word.to_owned());
        }
    }
    all
}

/// Whether an entry of the environment is what a run did: how much others used, what its timers came to.
fn is_result(name: &str) -> bool {
    name == "used by others" || name.starts_with("timers.cpu")
}

/// The duration to a part in a hundred: the last digits are the machine's.
fn rounded(duration: Nanos) -> String {
    let ns = duration.get_unsigned();
    let mut unit = 1u64;
    while ns / unit >= 1_000 {
        unit *= 10;
    }
    let rounded = (ns + unit * 5) / (unit * 10) * (unit * 10);
    surety_units::Nanos::new(i64::try_from(rounded).unwrap_or(i64::MAX)).to_string()
}

/// Reasons not to take runs at their word, each once with how many runs of `A` and of `B` have it.
pub fn degraded(a: &Side<'_>, b: &Side<'_>) -> Vec<(String, [usize; 2])> {
    let mut list: Vec<(String, [usize; 2])> = Vec::new();
    for (side, place) in [(a, [1, 0]), (b, [0, 1])] {
        for run in &side.runs {
            let reasons: BTreeSet<&String> = run.degraded.iter().collect();
            for reason in reasons {
                // Counts in the words differ from run to run; the reason is the same.
                let kind = |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
                match list.iter_mut().find(|(known, _)| kind(known) == kind(reason)) {
                    Some((_, runs)) => *runs = [runs[0] + place[0], runs[1] + place[1]],
                    None => list.push((reason.clone(), place)),
                }
            }
        }
    }
    list
}
