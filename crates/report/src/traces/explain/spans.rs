//! Where the time of a program's start-ups went, or of the late and dropped accesses of a stream: of the median one and the slowest, by
//! cause, by whose it is and by the I/O scheduler's rule. JSON: `docs/formats/trace-attribution.md`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use surety_model::event::{Comm, SpanFate};
use surety_trace::blame::{Blames, Cause, DiskCause, Kind, SpanBlame, SpansWanted, Submitter};
use surety_trace::jobs::Anomalies;
use surety_units::Nanos;

use super::super::{ReadTrace, TraceReport, limited};
use super::causes::Names;
use super::{CAUSES_MAX, names_of};
use crate::quantity::number_of;
use crate::table::{Check, cells, checks, led};
use crate::text::Style;

/// Where the time of the chosen start-ups or accesses went.
#[derive(Debug)]
pub struct TraceAttribution {
    pub read: ReadTrace,
    /// Which were asked for.
    pub wanted: SpansWanted,
    /// What the trace shows of them: one at least.
    pub blames: Blames,
}

/// Times with a cause that are told together: threads are told by their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    kind: Kind,
    what: &'static str,
    who: String,
    rule: String,
    word: &'static str,
}

type Rows = BTreeMap<Row, Nanos>;

impl TraceReport for TraceAttribution {
    fn text(&self, style: &Style) -> String {
        let (begin, _) = self.read.summary.span.unwrap_or_default();
        let count = self.blames.spans.told.len();
        let title = if count == 1 { "time" } else { "slowest" };
        let mut columns: Vec<(&str, &SpanBlame)> = vec![(title, self.ranked(0))];
        if count > 2 {
            columns.insert(0, ("median", self.ranked(count / 2)));
        }
        let mut text = String::new();
        for (title, blame) in &columns {
            text += &led(&format!("{title}  "), &self.told(blame, begin), style);
        }
        text += &cells(&titles(&columns), &self.rows(&columns), style);
        text.push('\n');
        text += &led("what  ", &self.what(), style);
        text + &checks(&self.checks(), style)
    }

    fn json(&self) -> Value {
        let spans = &self.blames.spans;
        let names = names_of(&self.blames);
        let place = |blame: &SpanBlame| spans.told.iter().position(|told| std::ptr::eq(told, blame));
        json!({
            "schema": "surety.trace-attribution/1",
            "file": self.read.file,
            "quality": self.read.quality(&self.blames.anomalies),
            "chosen": self.read.chosen(),
            "of": if self.wanted.are_startups { "startups" } else { "accesses" },
            "name": self.wanted.name,
            "not_listed": spans.untold,
            "unended": spans.unended,
            "median": place(self.ranked(spans.told.len() / 2)),
            "slowest": place(self.ranked(0)),
            "spans": spans.told.iter().map(|blame| document(blame, names)).collect::<Vec<_>>(),
        })
    }
}

impl TraceAttribution {
    /// The one at a place counted from the slowest on, which is 0; of equally slow ones the earlier comes first.
    fn ranked(&self, place: usize) -> &SpanBlame {
        let mut ranked: Vec<&SpanBlame> = self.blames.spans.told.iter().collect();
        ranked.sort_by_key(|blame| std::cmp::Reverse(blame.time()));
        ranked[place]
    }

    /// One of them in a line, and where its time went by kind of cause.
    fn told(&self, blame: &SpanBlame, begin: Nanos) -> String {
        let span = &blame.span;
        let after = (span.begin - begin).as_secs_f64();
        let kinds = Kind::ALL.map(|kind| {
            let of_kind = blame.average.causes.iter().filter(|(cause, _)| cause.kind() == kind);
            of_kind.map(|(_, time)| *time).sum::<Nanos>()
        });
        let told =
            Kind::ALL.iter().zip(kinds).zip(shares(&kinds)).filter(|((_, time), _)| time.is_positive());
        let told: Vec<String> = told.map(|((kind, _), share)| format!("{} {share}", kind.words())).collect();
        let number = span.number;
        let fate = match span.fate {
            SpanFate::Ready => format!("start-up {number}, ready after {}", blame.time()),
            SpanFate::GivenUp => format!("start-up {number}, given up after {}", blame.time()),
            SpanFate::Late => format!("access {number}, late: complete {} after its release", blame.time()),
            SpanFate::Dropped => format!("access {number}, dropped {} after its release", blame.time()),
        };
        format!("{fate}, {after:.6} s into the trace: {}", told.join(", "))
    }

    /// A line for each cause, the rest in one, and the whole.
    fn rows(&self, columns: &[(&str, &SpanBlame)]) -> Vec<Vec<String>> {
        let names = names_of(&self.blames);
        let of: Vec<Rows> = columns.iter().map(|(_, blame)| grouped(blame, names)).collect();
        let time = |rows: &Rows, row: &Row| rows.get(row).copied().unwrap_or(Nanos::ZERO);
        let mut keys: Vec<&Row> = of.iter().flat_map(Rows::keys).collect();
        keys.sort();
        keys.dedup();
        keys.sort_by_key(|key| std::cmp::Reverse(of.iter().map(|rows| time(rows, key)).max()));
        let (told, rest) = keys.split_at(keys.len().min(CAUSES_MAX));
        let times = |rows: &Rows| {
            let mut times: Vec<Nanos> = told.iter().map(|key| time(rows, key)).collect();
            times.push(rest.iter().map(|key| time(rows, key)).sum());
            times
        };
        let times: Vec<Vec<Nanos>> = of.iter().map(times).collect();
        let shares: Vec<Vec<String>> = times.iter().map(|times| shares(times)).collect();
        let mut lines = Vec::new();
        let rest_words = format!("{} other causes", rest.len());
        for at in 0..told.len() + usize::from(!rest.is_empty()) {
            let mut line = match told.get(at) {
                Some(row) => vec![row.what.to_owned(), row.who.clone(), row.rule.clone()],
                None => vec![rest_words.clone(), String::new(), String::new()],
            };
            line.extend(times.iter().zip(&shares).flat_map(|(t, s)| [t[at].to_string(), s[at].clone()]));
            lines.push(line);
        }
        let mut whole = vec!["in all".to_owned(), String::new(), String::new()];
        whole.extend(columns.iter().flat_map(|(_, blame)| [blame.time().to_string(), "100.0 %".to_owned()]));
        lines.push(whole);
        lines
    }

    fn what(&self) -> String {
        let (told, name) = (&self.blames.spans.told, &self.wanted.name);
        let of = |fate| told.iter().filter(|blame| blame.span.fate == fate).count();
        if self.wanted.are_startups {
            let count = number_of(told.len(), "start-up");
            let given_up = of(SpanFate::GivenUp);
            let given_up =
                if given_up > 0 { format!(", {given_up} of them given up") } else { String::new() };
            return format!(
                "{count} of {name}{given_up}: from asking for it to its being ready, over all threads that it waited for"
            );
        }
        let (late, dropped) = (of(SpanFate::Late), of(SpanFate::Dropped));
        format!(
            "accesses of {name}: {late} late, from release to completion, and {dropped} dropped, from release to when its thread came to it; \
             over all threads that they waited for"
        )
    }

    /// How far the trace can be trusted.
    fn checks(&self) -> Vec<Check> {
        let spans = &self.blames.spans;
        let mut list = self.read.incomplete(&Anomalies::default(), "what happened there is unknown");
        if spans.untold > 0 {
            let found = format!("{} more of them are not told; --from and --to choose", spans.untold);
            list.push(limited("not told", found));
        }
        if spans.unended > 0 {
            list.push(limited(
                "no end",
                format!("{} more began and did not end in it", number_of(spans.unended, "start-up")),
            ));
        }
        if self.read.lacks(&["block:block_rq_complete"]) {
            let found =
                "no block events: nothing is known of disks, and who waited for one waited for something"
                    .to_owned();
            list.push(Check::limited("missing", found, "record with `surety trace record --event block`"));
        }
        list
    }
}

fn titles<'a>(columns: &[(&'a str, &SpanBlame)]) -> Vec<&'a str> {
    let mut titles = vec!["cause", "who", "rule"];
    titles.extend(columns.iter().flat_map(|(title, _)| [*title, "share"]));
    titles
}

/// Parts of a whole in tenths of a percent that sum to 100 %: the largest remainders are rounded up.
fn shares(times: &[Nanos]) -> Vec<String> {
    let whole = times.iter().map(|time| i128::from(time.get())).sum::<i128>().max(1);
    let scaled: Vec<i128> = times.iter().map(|time| i128::from(time.get()) * 1000).collect();
    let mut tenths: Vec<i128> = scaled.iter().map(|part| part / whole).collect();
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(scaled[*at] % whole));
    let missing = scaled.iter().sum::<i128>() / whole - tenths.iter().sum::<i128>();
    for at in order.into_iter().take(usize::try_from(missing).unwrap_or(0)) {
        tenths[at] += 1;
    }
    tenths.iter().map(|tenths| format!("{}.{} %", tenths / 10, tenths % 10)).collect()
}

/// The time of each cause, with threads of one name together.
fn grouped(blame: &SpanBlame, names: Names<'_>) -> Rows {
    let mut rows = Rows::new();
    for (cause, time) in &blame.average.causes {
        *rows.entry(Row::of(*cause, names)).or_insert(Nanos::ZERO) += *time;
    }
    rows
}

impl Row {
    fn of(cause: Cause, names: Names<'_>) -> Row {
        let (what, who) = match cause {
            Cause::Disk(cause) => at_disk(cause),
            Cause::Own | Cause::Earlier => ("CPU time", String::new()),
            Cause::Ran(culprit) => ("CPU time", culprit.comm.to_string()),
            Cause::Think => ("think time", String::new()),
            Cause::Thread(culprit) => ("ready, its CPU had by", culprit.comm.to_string()),
            Cause::Irq(_) | Cause::Vector(_) | Cause::Softirq(_) => {
                ("its CPU had by an interrupt", names.interrupt(cause))
            }
            Cause::Throttled => ("out of budget", String::new()),
            Cause::Idle => ("ready, its CPU idle", String::new()),
            Cause::Unwoken => ("not woken yet", String::new()),
            Cause::Lock(culprit) => ("lock held by", culprit.comm.to_string()),
            Cause::Awaited(culprit) => ("asleep until woken by", culprit.comm.to_string()),
            Cause::Blocked => ("asleep, waker unknown", String::new()),
            Cause::Device(context) => {
                ("asleep until an interrupt", names.interrupt(super::causes::interrupt_of(context)))
            }
            Cause::Clock => ("asleep until an instant", String::new()),
            Cause::Others => ("further threads", String::new()),
            Cause::Unknown => ("unknown", String::new()),
        };
        let rule = names.rule_of(cause).unwrap_or_default().to_owned();
        Row { kind: cause.kind(), what, who, rule, word: super::causes::word(cause) }
    }
}

/// What a request waits for or is at, and whose.
fn at_disk(cause: DiskCause) -> (&'static str, String) {
    let whose = |by: Submitter| match by.comm == Comm::default() {
        true => "the device's own work".to_owned(),
        false => by.comm.to_string(),
    };
    match cause {
        DiskCause::Unsubmitted(by) => ("asleep, its request not yet submitted by", whose(by)),
        DiskCause::Unscheduled(None) => ("before the I/O scheduler", String::new()),
        DiskCause::Unscheduled(Some(by)) => ("no request free, behind", whose(by)),
        DiskCause::Scheduler(by, _) => ("I/O scheduler, behind", whose(by)),
        DiskCause::Held(_) => ("I/O scheduler, the disk idle", String::new()),
        DiskCause::Device(by) => ("device queue, behind", whose(by)),
        DiskCause::Overhead => ("disk: overhead", String::new()),
        DiskCause::Seek => ("disk: seek", String::new()),
        DiskCause::Rotation => ("disk: rotation", String::new()),
        DiskCause::Transfer => ("disk: transfer", String::new()),
        DiskCause::Service => ("disk: service", String::new()),
        DiskCause::Completed => ("disk done, not woken yet", String::new()),
    }
}

fn document(blame: &SpanBlame, names: Names<'_>) -> Value {
    let span = &blame.span;
    let text = |words: String| (!words.is_empty()).then_some(words);
    let mut parts: Vec<(Row, Nanos)> = grouped(blame, names).into_iter().collect();
    parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let whole = blame.time().get().max(1) as f64;
    let part = |(row, time): (Row, Nanos)| {
        json!({
            "kind": row.kind.name(),
            "cause": row.word,
            "name": text(row.who),
            "rule": text(row.rule),
            "time_ns": time,
            "share": time.get() as f64 / whole,
        })
    };
    json!({
        "number": span.number,
        "fate": span.fate.name(),
        "begin_ns": span.begin,
        "end_ns": span.end,
        "time_ns": blame.time(),
        "parts": parts.into_iter().map(part).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_a_hundred_percent() {
        for times in [vec![1, 1, 1], vec![0, 7], vec![1, 999, 333_333, 1], vec![5; 17]] {
            let times: Vec<Nanos> = times.into_iter().map(Nanos::new).collect();
            let tenths =
                |share: &String| share.trim_end_matches(" %").replace('.', "").parse::<i64>().unwrap();
            assert_eq!(shares(&times).iter().map(tenths).sum::<i64>(), 1000, "{times:?}");
        }
        assert_eq!(shares(&[Nanos::new(2), Nanos::new(1)]), ["66.7 %", "33.3 %"]);
        assert_eq!(shares(&[Nanos::ZERO]), ["0.0 %"], "nothing of nothing");
    }
}
