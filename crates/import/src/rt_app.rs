//! The log of a task of rt-app: a line for each phase of its loop.
//!
//! `#idx perf run period start end rel_st slack c_duration c_period wu_lat`, separated by blanks. *Unit*: microseconds.
//! *Read*: `run` as the execution; `wu_lat`, from the timer to the thread, as the latency; the configured period as
//! the deadline, and a negative slack as a missed activation. *Missing*: slack of a task without a timer is 0
//! throughout; then there is no deadline and nothing is missed.

use surety_model::record::Record;
use surety_units::Nanos;

use crate::ImportError;
use crate::assemble::{Assembly, Counts};
use crate::input::{Input, at_line, scaled, whole};

pub(crate) const NAME: &str = "rt-app log";

const UNIT: u64 = 1_000;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().take(8).any(|(_, line)| line.starts_with("#idx") && line.contains("wu_lat"))
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("rt-app");
    // rt-app-player-0: the task's name stands between the log's and the thread's number.
    let stem = input.stem();
    let name = stem.strip_prefix("rt-app-").and_then(|s| s.rsplit_once('-')).map_or(stem, |(name, _)| name);
    let mut columns: Vec<&str> = Vec::new();
    let (mut execution, mut latency) = (Counts::default(), Counts::default());
    let mut missed = 0u64;
    let mut span: Option<(u64, u64)> = None;
    let (mut last_line, mut has_timer) = (1, false);
    let mut periods: Vec<u64> = Vec::new();
    for (line, text) in input.lines().filter(|(_, text)| !text.is_empty()) {
        last_line = line;
        let wrong = at_line(NAME, line);
        if let Some(comment) = text.strip_prefix('#') {
            if let Some(policy) = comment.trim().strip_prefix("Policy") {
                assembly.say("policy", policy.trim_start_matches([' ', ':']));
            } else if comment.starts_with("idx") {
                columns = comment.split_whitespace().collect();
            }
            continue;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() != columns.len() {
            return Err(wrong(format!("{} fields where {} belong", fields.len(), columns.len())));
        }
        let field = |name: &str| {
            let place = columns.iter().position(|column| *column == name);
            place.and_then(|at| fields.get(at)).ok_or_else(|| wrong(format!("there is no column `{name}`")))
        };
        let time = |name: &str| scaled(whole(field(name)?).map_err(&wrong)?, UNIT).map_err(&wrong);
        let (run, woken) = (time("run")?, time("wu_lat")?);
        let (start, end) = (time("start")?, time("end")?);
        let slack: i64 =
            field("slack")?.parse().map_err(|_| wrong("the slack is no whole number".to_owned()))?;
        execution.buckets.push((run, run, 1));
        latency.buckets.push((woken, woken, 1));
        let period = time("c_period")?;
        if !periods.contains(&period) && periods.len() < 2 {
            periods.push(period);
        }
        missed += u64::from(slack < 0);
        has_timer |= slack != 0;
        span = Some(span.map_or((start, end), |(a, b)| (a.min(start), b.max(end))));
    }
    let wrong = at_line(NAME, last_line);
    if let Some((start, end)) = span {
        assembly.lasted(end.saturating_sub(start) as f64 / 1e9);
    }
    assembly.latency(name, latency).map_err(&wrong)?;
    let distribution = execution.distribution(name, &mut Vec::new()).map_err(&wrong)?;
    let activity = assembly.activity(name);
    activity.execution = distribution;
    if has_timer {
        activity.missed = missed;
        if let [period] = periods[..] {
            activity.deadline = i64::try_from(period).ok().map(Nanos::new).filter(|p| p.is_positive());
        }
    }
    Ok(assembly.record())
}
