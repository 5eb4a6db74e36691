//! Keys that several sections have: commands, policies, counts, promises, reservations.

use std::ops::Range;

use surety_units::{CpuSet, Nanos};
use toml::de::DeValue;

use super::table::{Field, Reading, Table};
use crate::platform::TimerRules;
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::workload::*;

pub(super) const COUNT_32: Range<i64> = 1..u32::MAX as i64;
/// More threads of one kind than this, in all or on a CPU, measure nothing any more.
const INSTANCES: Range<i64> = 1..10_001;

pub(super) fn command_text(reading: &mut Reading, field: &Field<'_>) -> Option<String> {
    let text = field.text(reading, "a command line")?;
    if text.trim().is_empty() {
        reading.wrong(field.span.clone(), "the command is empty".to_owned(), "nothing to run", None);
        return None;
    }
    Some(text.to_owned())
}

/// `timer-slack`: the kernel takes 0 for its default, so the least is 1 ns.
pub(super) fn timer_slack(reading: &mut Reading, table: &Table<'_>) -> Option<Nanos> {
    let field = table.field(reading, "timer-slack")?;
    let slack: Nanos = field.quantity(reading, "50us")?;
    if !(Nanos::new(1)..=TimerRules::SLACK_MAX).contains(&slack) {
        let message = format!("timer slack {} is outside the range of 1ns to 1s", slack.to_exact_string());
        reading.wrong(field.span.clone(), message, "out of range", None);
    }
    Some(slack)
}

/// `util-min` and `util-max`.
pub(super) fn util(reading: &mut Reading, table: &Table<'_>) -> UtilClamp {
    let mut of = |key| {
        let field = table.field(reading, key)?;
        let clamp = field.integer(reading, 0..i64::from(UtilClamp::SCALE) + 1)?;
        u32::try_from(clamp).ok()
    };
    let clamp = UtilClamp { min: of("util-min"), max: of("util-max") };
    if let Some(field) = table.field(reading, "util-min").filter(|_| !clamp.is_in_order(false)) {
        let message = "`util-min` is more than `util-max`".to_owned();
        reading.wrong(field.span, message, "out of order", None);
    }
    clamp
}

/// `policy`, `nice`, `slice` and `latency_nice` together.
pub(super) fn policy(reading: &mut Reading, table: &Table<'_>) -> PolicySpec {
    let nice_field = table.field(reading, "nice");
    let nice = nice_field.as_ref().and_then(|f| f.integer(reading, -20..20)).map(|n| n as i32);
    let slice_field = table.field(reading, "slice");
    let slice: Option<Nanos> = slice_field.as_ref().and_then(|f| f.quantity(reading, "3ms"));
    if let (Some(field), Some(time)) = (&slice_field, slice)
        && !(Nanos::from_micros(100)..=Nanos::from_millis(100)).contains(&time)
    {
        let message =
            format!("slice {} is outside the kernel's range of 100us to 100ms", time.to_exact_string());
        reading.wrong(field.span.clone(), message, "out of range", None);
    }
    let latency_field = table.field(reading, "latency_nice");
    let latency_nice = latency_field.as_ref().and_then(|f| f.integer(reading, -20..20)).map(|n| n as i32);
    if let (Some(field), Some(_)) = (&latency_field, &slice_field) {
        let message = "`slice` and `latency_nice` both say how long a slice is".to_owned();
        reading.wrong(field.span.clone(), message, "leave one out", None);
    }
    let given = PolicyParameters { nice: nice.unwrap_or(0), slice, priority: 0, latency_nice };
    let fair = PolicySpec::fair(given);
    let Some(field) = table.field(reading, "policy") else { return fair };
    let Some(text) = field.text(reading, "a policy such as \"fifo:80\"") else { return fair };
    let (word, priority) = text.split_once(':').map_or((text, None), |(w, p)| (w, Some(p)));
    let priority = priority.map(|p| p.parse().ok().filter(|p| (1..=99).contains(p)).unwrap_or(0));
    let is_named = |row: &&PolicyRow| row.word == word && row.takes("priority") == priority.is_some();
    let Some(row) = policies().find(is_named).filter(|_| priority != Some(0)) else {
        reading.wrong(field.span, format!("`{text}` is no policy"), "not known", Some(known_policies()));
        return fair;
    };
    let fields = [(nice_field, "nice"), (slice_field, "slice"), (latency_field, "latency_nice")];
    for (given, name) in fields {
        if let Some(field) = given
            && !row.takes(name)
        {
            let message = format!("policy `{text}` takes no `{name}`");
            reading.wrong(field.span, message, "has no effect", None);
        }
    }
    row.with(PolicyParameters { priority: priority.unwrap_or(0), ..given })
}

/// Help that lists the words of all policies.
fn known_policies() -> String {
    let number = |row: &PolicyRow| if row.takes("priority") { ":N" } else { "" };
    let words = policies().map(|row| format!("{}{}", row.word, number(row)));
    let mut words: Vec<String> = words.collect();
    let last = words.pop().unwrap_or_default();
    format!("use {} or {last} with N from 1 to 99", words.join(", "))
}

/// `cpus`, which are not none.
pub(super) fn cpus(reading: &mut Reading, table: &Table<'_>) -> Option<CpuSet> {
    let field = table.field(reading, "cpus")?;
    let cpus: CpuSet = field.quantity(reading, "0,2-3")?;
    if cpus.is_empty() {
        reading.wrong(field.span, "`cpus` is no CPU at all".to_owned(), "here", None);
        return None;
    }
    Some(cpus)
}

pub(super) fn instances(reading: &mut Reading, table: &Table<'_>, key: &'static str) -> Option<Instances> {
    let field = table.field(reading, key)?;
    match field.value {
        DeValue::String(text) => {
            let each = match text.strip_suffix("per-cpu").map(str::trim) {
                Some("") => Some(1),
                Some(number) => number.parse().ok().filter(|n: &u32| INSTANCES.contains(&i64::from(*n))),
                None => None,
            };
            if each.is_none() {
                let message = format!("`{text}` is no number of instances");
                let help =
                    format!("write 4, \"per-cpu\", or \"4 per-cpu\" with at most {}", INSTANCES.end - 1);
                reading.wrong(field.span, message, "here", Some(help));
            }
            each.map(Instances::PerCpu)
        }
        _ => field.integer(reading, INSTANCES).map(|n| Instances::Count(n as u32)),
    }
}

pub(super) fn promises(reading: &mut Reading, table: &Table<'_>) -> Vec<Promise> {
    let Some(field) = table.field(reading, "promise") else { return Vec::new() };
    let mut list = Vec::new();
    for item in field.items() {
        reading.places.insert(item.path.clone(), item.span.clone());
        let Some(text) = item.text(reading, "a promise such as \"response <= 40ms @ 99%\"") else { continue };
        match Promise::parse(text) {
            Ok(promise) => list.push(promise),
            Err(error) => {
                let help = "a promise is METRIC OP VALUE [@ PERCENT] [over DURATION]".to_owned();
                reading.wrong(item.inside(error.span.clone()), error.message, "here", Some(help));
            }
        }
    }
    list
}

/// `reservation` of a thread with a policy.
pub(super) fn reservation(
    reading: &mut Reading,
    table: &Table<'_>,
    policy: PolicySpec,
) -> Option<Reservation> {
    let table = table.table(reading, "reservation")?;
    let runtime = table.required(reading, "runtime", "\"5ms\"").and_then(|f| f.quantity(reading, "5ms"));
    let period = table.required(reading, "period", "\"40ms\"").and_then(|f| f.quantity(reading, "40ms"));
    let deadline = table.quantity(reading, "deadline", "40ms");
    let reclaim = table.boolean(reading, "reclaim").unwrap_or(false);
    let demote = table.boolean(reading, "demote").unwrap_or(false);
    let span = table.span.clone();
    let path = table.path.clone();
    table.finish(reading);
    let (runtime, period) = (runtime?, period?);
    let reservation = Reservation { runtime, deadline: deadline.unwrap_or(period), period, reclaim, demote };
    if let Err(error) = policy.check_reservation(&reservation) {
        use crate::reservation::ReservationError::*;
        let key = match error {
            PeriodOutOfRange(_) => "period",
            DeadlineAbovePeriod { .. } => "deadline",
            _ => "runtime",
        };
        let span = reading.places.get(&format!("{path}.{key}")).cloned().unwrap_or(span);
        let help = "the kernel takes 1024ns <= runtime <= deadline <= period, 100us <= period <= 4194304us";
        reading.wrong(span, error.to_string(), "the kernel refuses this", Some(help.to_owned()));
        return None;
    }
    Some(reservation)
}
