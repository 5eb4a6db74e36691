//! The JSON is what `docs/formats` says: every key named there is written, every key written is named there, and every
//! value has the type named.

mod shared;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use shared::{plan, records, rows};
use surety_model::plan::{Plan, PlannedDisk, PlannedStream};
use surety_model::platform::{
    CpuSpec, Enforcement, FairServer, IdleState, OtherReservation, Overheads, RealtimeDemand, RealtimeLimit,
    TimerRules, Topology,
};
use surety_model::record::{CpuTimers, NextLargest};
use surety_model::reservation::DiskReservation;
use surety_report::json::{RECORD_SCHEMA, record_json};
use surety_report::plan_file::{PlanFileError, plan_from_json, plan_to_json};
use surety_report::{Report, Summary, summary, summary_of_all};
use surety_units::{Bytes, CpuId, CpuSet, Nanos, Rate};

/// Keys with the type named, from the tables of a format's page.
fn documented(page: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut keys = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| `")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let key = cells.next().expect("a first cell").trim_matches('`').to_owned();
        let known = keys.insert(key.clone(), cells.next().expect("a second cell").to_owned());
        assert_eq!(known, None, "{page} names `{key}` twice");
    }
    assert!(keys.len() > 20, "{page} has its tables");
    keys
}

/// Objects whose keys are free, or another page's or place's.
const FREE: [&str; 7] = [
    "models",
    "results[].in_force.environment",
    "results[].in_force.machine",
    "streams[].proof",
    "plan.streams[].proof",
    "disks[].tunables",
    "plan.disks[].tunables",
];

/// The plan with a stream and its disk.
fn with_stream() -> Plan {
    let mut plan = plan();
    let (activity, promises) = ("movie".to_owned(), plan.reservations[0].promises.clone());
    let reservation = DiskReservation {
        rate: Rate(1_000_000),
        batch: Bytes(65_536),
        buffer: Bytes(262_144),
        jitter: Nanos::from_millis(100),
        overlap: true,
        priority: 0,
        bound: Nanos::from_millis(120),
    };
    let proof = plan.reservations[0].proof.clone();
    plan.streams = vec![PlannedStream { activity, promises, reservation, proof }];
    plan.disks = vec![PlannedDisk {
        disk: "d".to_owned(),
        scheduler: "mq-deadline".to_owned(),
        depth: Some(4),
        request: Some(Bytes(131_072)),
        wbt: Some(Nanos::from_millis(1)),
        tunables: BTreeMap::from([("async_depth".to_owned(), 16)]),
        best_effort: Some(Rate(936_000)),
        because: vec!["it is so".to_owned()],
    }];
    plan.asked = Some("format = 1\n".to_owned());
    plan.models = BTreeMap::from([("mine.toml".to_owned(), "format = 1\n".to_owned())]);
    plan
}

/// Every key of a document with every value seen at it.
fn keys_of<'v>(value: &'v Value, path: &str, found: &mut BTreeMap<String, Vec<&'v Value>>) {
    match value {
        Value::Object(object) if !FREE.contains(&path) => {
            for (key, value) in object {
                let is_series = path.ends_with(".series");
                let shown = if is_series { "*" } else { key };
                let mut below = if path.is_empty() { key.clone() } else { format!("{path}.{shown}") };
                found.entry(below.clone()).or_default().push(value);
                let name = key.as_str();
                if path == "results[].activities[]"
                    && ["response_ns", "latency_ns", "execution_ns"].contains(&name)
                    || is_series
                {
                    below = "distribution".to_owned();
                }
                keys_of(value, &below, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys_of(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("`{other}` is no type of JSON"),
    }
}

/// Holds documents, which together show every key, against a page.
fn agree(page: &str, documents: &[Value]) {
    let documented = documented(page);
    let mut found = BTreeMap::new();
    documents.iter().for_each(|d| keys_of(d, "", &mut found));
    for (key, values) in &found {
        let Some(types) = documented.get(key) else { panic!("{page} does not name `{key}`") };
        for value in values {
            assert!(types.split(" or ").any(|t| has_type(value, t)), "`{key}` is {types}, found {value}");
        }
    }
    for key in documented.keys() {
        assert!(found.contains_key(key), "{page} names `{key}`, which is never written");
    }
}

#[test]
fn records_are_as_documented() {
    let mut records = records();
    // What only a probe is asked.
    let untold = NextLargest::untold(90, "too few values");
    let peaks = Some(120);
    let told =
        NextLargest { peaks, median_ns: Some(Nanos::from_micros(143)), because: None, ..untold.clone() };
    records[0].1.activities[0].next_largest = Some(told);
    records[0].1.activities[1].next_largest = Some(untold);
    let timers =
        CpuTimers { cpu: CpuId(0), interrupts: 3, ticks: 2, idle_exits: 1, cost: Nanos::from_micros(9) };
    records[0].1.in_force.timers = vec![timers];
    records[0].1.in_force.unvalidated = vec!["fair class eevdf-6.6".to_owned()];
    let rows = rows(&records);
    let plan = with_stream();
    let report = Report {
        title: Some("A <title>"),
        file: Some("player.toml"),
        rows: &rows,
        plan: Some(&plan),
        exit: Some(4),
        made: Some("now"),
        ..Report::default()
    };
    let bare = Report::default();
    // Through text and back: what a reader sees.
    let read = |r: &Report<'_>| serde_json::from_str(&record_json(r).to_string()).unwrap();
    let documents: Vec<Value> = vec![read(&report), read(&bare)];
    agree("record.md", &documents);
    assert_eq!(documents[0]["schema"], RECORD_SCHEMA);
    assert_eq!(documents[0]["exit"], 4);
    assert_eq!(documents[1]["verdict"]["outcome"], Value::Null);
}

#[test]
fn every_key_is_always_there() {
    let records = records();
    let rows = rows(&records);
    let value = record_json(&Report { rows: &rows, ..Report::default() });
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let results = value["results"].as_array().unwrap();
    assert!(results.iter().all(|r| keys(r) == keys(&results[0])));
    let activities: Vec<&Value> = results.iter().flat_map(|r| r["activities"].as_array().unwrap()).collect();
    assert!(activities.iter().all(|a| keys(a) == keys(activities[0])));
}

#[test]
fn numbers_say_what_the_record_says() {
    let records = records();
    let rows = rows(&records);
    let value = record_json(&Report { rows: &rows, ..Report::default() });
    let activity = |result: usize, activity: usize| &value["results"][result]["activities"][activity];
    let player = activity(0, 0);
    let account = &records[0].1.activities[0];
    assert_eq!(player["missed"], account.missed);
    assert_eq!(player["deadline_ns"], 40_000_000);
    let observed = account.response.as_ref().unwrap().observed().unwrap();
    assert_eq!(player["response_ns"]["max"], observed.histogram.max().unwrap());
    let sum: u64 = player["response_ns"]["histogram"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket[2].as_u64().unwrap())
        .sum();
    assert_eq!(player["response_ns"]["count"], sum);
    // The 0.99 quantile needs 368 values for an upper end, the 0.999 quantile 3688; there are 625.
    // Activations that queue behind each other are late together, and worth fewer; those of the reserved run are not.
    assert!(player["response_ns"]["quantiles"][3]["high"].is_null());
    let quantiles = &activity(4, 0)["response_ns"]["quantiles"];
    assert_eq!((&quantiles[3]["q"], quantiles[3]["high"].is_u64()), (&Value::from(0.99), true));
    assert_eq!((&quantiles[4]["q"], quantiles[4]["high"].is_null()), (&Value::from(0.999), true));
    for quantile in quantiles.as_array().unwrap() {
        let number = |key: &str| quantile[key].as_u64();
        assert!(number("low") <= number("value"), "{quantile}");
        assert!(number("high").is_none_or(|high| Some(high) >= number("value")), "{quantile}");
    }
    let limit = &activity(1, 0)["response_ns"];
    let expected =
        r#"{"basis":"bound","quantiles":[{"q":0.99,"value":40000000,"low":null,"high":40000000}]}"#;
    assert_eq!(*limit, serde_json::from_str::<Value>(expected).unwrap());
    assert_eq!(value["results"][0]["seed"], 1);
    assert_eq!(value["results"][1]["seed"], u64::MAX.to_string());
    assert_eq!(value["results"][2]["hash"], "0123456789abcdef");
    assert_eq!(player["promises"][0]["text"], "response <= 40ms @ 99%");
    assert_eq!(player["promises"][0]["verdict"], "broken");
}

#[test]
fn what_is_not_finite_is_null() {
    let mut records = records();
    for figure in records.iter_mut().flat_map(|(_, r)| &mut r.activities).flat_map(|a| &mut a.figures) {
        figure.value = f64::INFINITY;
    }
    let rows = rows(&records);
    let mut plan = plan();
    plan.reservations[0].proof.residual = Some(f64::NAN);
    let value = record_json(&Report { rows: &rows, plan: Some(&plan), ..Report::default() });
    assert_eq!(value["results"][0]["activities"][3]["figures"][0]["value"], Value::Null);
    assert_eq!(value["plan"]["reservations"][0]["proof"]["residual"], Value::Null);
}

#[test]
fn plans_read_back_and_are_as_documented() {
    let mut other = plan();
    other.platform.tick_phase = Some(Nanos::from_micros(1_500));
    other.platform.enforcement = Enforcement::Exact;
    let cost = Nanos::from_micros(2);
    other.platform.overheads = Overheads { switch: cost, wakeup: cost, sleep: cost, tick: cost, timer: cost };
    other.platform.fair_server = None;
    other.platform.fair_servers = vec![FairServer::DEFAULT; other.platform.cpus as usize];
    other.platform.fair_server_charged = false;
    other.platform.other_cpus = 2;
    other.platform.ext_server = Some(FairServer::DEFAULT);
    other.platform.root_domains = vec![CpuSet::first(other.platform.cpus)];
    other.reservations[0].root_domains = other.platform.root_domains.clone();
    let (exit_latency, residency) = (Nanos::from_micros(2), Nanos::from_micros(20));
    let idle_states = vec![IdleState { name: "C1".to_owned(), exit_latency, residency }];
    other.platform.cpu_specs =
        vec![CpuSpec { idle_states, ..CpuSpec::default() }; other.platform.cpus as usize];
    other.platform.realtime_limit =
        Some(RealtimeLimit { runtime: Nanos::from_millis(950), period: Nanos::SECOND });
    other.platform.realtime_demoted = true;
    other.platform.deadline_unlimited = true;
    other.platform.bandwidth_inheritance = true;
    other.platform.features = vec!["NO_RUN_TO_PARITY".to_owned()];
    other.platform.timers = Some(TimerRules::default());
    other.platform.topology = Some(Topology { llc: Some(2), ..Topology::default() });
    let reservation = other.reservations[0].reservation;
    let standing = OtherReservation::unknown("other (thread 7)".to_owned(), reservation);
    other.platform.others =
        vec![OtherReservation { root_domain: Some(other.platform.root_domains[0]), ..standing }];
    let takes = Some(Nanos::from_millis(33));
    other.platform.realtime = Some(RealtimeDemand { who: "rt".to_owned(), takes });
    other.reservations[0].proof.confidence = Some(0.95);
    other.reservations[0].proof = other.reservations[0].proof.sealed();
    let mut endless = other.clone();
    endless.platform.realtime.iter_mut().for_each(|realtime| realtime.takes = None);
    let mut documents = Vec::new();
    for plan in [plan(), with_stream(), other, endless] {
        let text = plan_to_json(&plan);
        assert!(text.ends_with("}\n"));
        assert_eq!(plan_from_json(&text).unwrap(), plan);
        let mut value: Value = serde_json::from_str(&text).unwrap();
        // Documented in one line with its two forms.
        value["platform"]["enforcement"] = match &value["platform"]["enforcement"] {
            Value::String(word) => Value::from(word.as_str()),
            tick => {
                assert!(tick["tick"].is_u64());
                Value::Object(serde_json::Map::new())
            }
        };
        documents.push(value);
    }
    agree("plan.md", &documents);
}

#[test]
fn what_is_no_plan_is_refused_with_what_to_do() {
    let good: Value = serde_json::from_str(&plan_to_json(&plan())).unwrap();
    let changed = |pointer: &str, to: Value| {
        let mut value = good.clone();
        *value.pointer_mut(pointer).unwrap() = to;
        value.to_string()
    };
    let apart = |domains: &[&str]| {
        let mut value = good.clone();
        value["platform"]["cpus"] = 2.into();
        value["platform"]["root_domains"] = domains.to_vec().into();
        value.to_string()
    };
    assert!(plan_from_json(&apart(&["1", "0"])).is_ok());
    let unlike = {
        let mut value = good.clone();
        value["platform"]["cpu_specs"] = serde_json::json!([{ "capacity": 1024 }, { "capacity": 512 }]);
        value.to_string()
    };
    let with_disk = |key: &str, to: Value| {
        let mut value: Value = serde_json::from_str(&plan_to_json(&with_stream())).unwrap();
        value["streams"][0]["reservation"][key] = to;
        value.to_string()
    };
    let records = records();
    let rows = rows(&records);
    let record = record_json(&Report { rows: &rows, ..Report::default() }).to_string();
    for (text, says) in [
        ("{ no".to_owned(), "not JSON"),
        ("[]".to_owned(), "has no `schema`"),
        (changed("/schema", "surety.plan/9".into()), "\"surety.plan/9\" is not known"),
        (changed("/reservations", 1.into()), "damaged"),
        (changed("/reservations/0/reservation/period", 0.into()), "`player` cannot be"),
        (changed("/reservations/0/reservation/runtime", (-5).into()), "`player` cannot be"),
        (changed("/platform/deadline_cap/denominator", 0.into()), "denominator"),
        (changed("/platform/cpus", 0.into()), "`cpus`"),
        (changed("/platform/tick", 0.into()), "`tick`"),
        (unlike, "`cpu_specs` are unlike"),
        (apart(&["0-1", ""]), "`root_domains`"),
        (apart(&["0-1", "1"]), "`root_domains`"),
        (apart(&["0"]), "`root_domains`"),
        (apart(&["1-0"]), "runs backwards"),
        (record, "this is a record"),
        (with_disk("priority", 8.into()), "`movie` cannot be: `priority`"),
        (with_disk("batch", 1000.into()), "`movie` cannot be: `batch`"),
        (with_disk("buffer", 4096.into()), "`movie` cannot be: `buffer`"),
        (with_disk("bound", 0.into()), "`movie` cannot be: `bound`"),
        (with_disk("priority", Value::Null), "damaged"),
    ] {
        let error: PlanFileError = plan_from_json(&text).unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn the_summary_counts_proofs_for_what_watching_cannot_decide() {
    let records = records();
    let rows = rows(&records);
    let of = |count: usize| -> Summary { summary(&rows[..count]) };
    // Host unreserved alone: seen broken.
    assert_eq!(of(1).outcome.map(|o| o.to_string()).as_deref(), Some("broken"));
    assert_eq!((of(1).counts, of(1).by_proof), ([1, 3, 1, 0], 0));
    // The loop: "every activation" is decided by the proof.
    assert_eq!((of(5).counts, of(5).by_proof), ([5, 0, 0, 0], 1));
    // A proof about the reserved state says nothing about the unreserved one.
    assert_eq!((of(3).counts, of(3).by_proof), ([1, 3, 1, 0], 0));
    // Without the analysis it stays undecided.
    let without: Vec<_> = rows.iter().filter(|r| r.label != "analysis").cloned().collect();
    assert_eq!((summary(&without).counts, summary(&without).by_proof), ([4, 0, 1, 0], 0));
}

/// Where every row counts, a broken promise in any of them is told, and what one row cannot see another may.
#[test]
fn the_summary_of_all_rows_is_as_bad_as_the_worst() {
    let records = records();
    let rows = rows(&records);
    let all = summary_of_all(&rows);
    assert_eq!((all.outcome.unwrap().to_string().as_str(), all.row.as_deref()), ("broken", None));
    assert_eq!(all.sentence, "A promise is broken in 2 of 5 results: host unreserved, sim unreserved.");
    // Analysis and the reserved runs: what the analysis does not see the others keep, and it proves the rest.
    let reserved: Vec<_> = rows.iter().filter(|r| r.record.reserved).cloned().collect();
    let kept = summary_of_all(&reserved);
    assert_eq!(kept.sentence, "Every promise is kept in all 3 results.");
    assert!(kept.by_proof >= 1 && kept.counts[1..] == [0, 0, 0], "{kept:?}");
    assert_eq!(summary_of_all(&rows[..1]), summary(&rows[..1]));
    assert_eq!(summary_of_all(&[]).outcome, None);
    let report = Report { rows: &rows, all_rows: true, ..Report::default() };
    assert_eq!(record_json(&report)["verdict"]["sentence"], all.sentence.as_str());
}
