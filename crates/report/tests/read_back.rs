//! Results read back from their JSON say what the ones that were written said.

mod shared;

use serde_json::{Value, json};
use shared::{records, rows, workload};
use surety_model::formats::record::{RecordFileError, read};
use surety_model::record::Distribution;
use surety_report::json::record_json;
use surety_report::{Report, Row};

/// The first place at which two documents differ.
fn difference(left: &Value, right: &Value, path: &str) -> Option<String> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a.iter().find_map(|(key, value)| {
            difference(value, b.get(key).unwrap_or(&Value::Null), &format!("{path}/{key}"))
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(index, (a, b))| difference(a, b, &format!("{path}/{index}"))),
        _ => (left != right).then(|| format!("{path}: {left} and {right}")),
    }
}

#[test]
fn what_is_read_writes_the_same_document() {
    let (workload, records) = (workload(), records());
    let rows = rows(&records);
    let report = Report { title: workload.title.as_deref(), rows: &rows, ..Report::default() };
    let written = record_json(&report);
    let file = read(&written.to_string()).unwrap();
    assert_eq!(file.results.len(), rows.len());
    for (result, row) in file.results.iter().zip(&rows) {
        let again =
            Row { label: result.label.clone(), record: &result.record, verdicts: row.verdicts.clone() };
        assert_eq!(again.record.activities.len(), row.record.activities.len());
        let again = record_json(&Report { rows: &[again], ..Report::default() });
        let first = record_json(&Report { rows: std::slice::from_ref(row), ..Report::default() });
        assert_eq!(difference(&again["results"], &first["results"], ""), None, "{}", row.label);
        for activity in &result.record.activities {
            let promises: Vec<_> = activity.promised.iter().map(|promised| promised.promise).collect();
            assert_eq!(promises, workload.promises_of(&activity.name));
        }
    }
}

#[test]
fn older_files_without_sums_are_read() {
    let records = records();
    let rows = rows(&records);
    let mut written = record_json(&Report { rows: &rows, ..Report::default() });
    let mut without = 0;
    for activity in written["results"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .flat_map(|r| r["activities"].as_array_mut().unwrap().iter_mut())
    {
        if let Some(response) = activity["response_ns"].as_object_mut() {
            without += usize::from(response.remove("moments").is_some());
        }
    }
    assert!(without > 0);
    let file = read(&written.to_string()).unwrap();
    let mut compared = 0;
    for (result, (_, record)) in file.results.iter().zip(&records) {
        for (read, written) in result.record.activities.iter().zip(&record.activities) {
            let observed = |d: &Option<Distribution>| d.as_ref().and_then(|d| d.observed().cloned());
            let Some((read, written)) = observed(&read.response).zip(observed(&written.response)) else {
                continue;
            };
            assert_eq!(read.histogram, written.histogram);
            let (near, exact) = (read.moments.mean().unwrap(), written.moments.mean().unwrap());
            assert!((near / exact - 1.0).abs() < 1.0 / 256.0, "{near} {exact}");
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn what_is_no_result_is_refused_with_its_place() {
    let said = |text: &str| read(text).unwrap_err().to_string();
    assert!(said("{").contains("line 1"), "{}", said("{"));
    assert!(matches!(
        read(r#"{"schema":"surety.doctor/1"}"#),
        Err(RecordFileError::Schema { found }) if found == "surety.doctor/1"
    ));
    let records = records();
    let rows = rows(&records);
    let whole = record_json(&Report { rows: &rows, ..Report::default() });
    let with = |path: &str, value: serde_json::Value| {
        let mut changed = whole.clone();
        *changed.pointer_mut(path).unwrap() = value;
        said(&changed.to_string())
    };
    let first = "/results/0/activities/0";
    assert!(with(&format!("{first}/kind"), json!("spoon")).contains("no kind of activity `spoon`"));
    assert!(with("/results/0/hash", json!("xyz")).contains("no hash"));
    assert!(with("/results/0/in_force/cpus", json!("1-")).contains("CPUs"));
    assert!(with(&format!("{first}/response_ns/max"), json!(1)).contains("contradict"));
    let missed = whole["results"].as_array().unwrap().iter().position(|r| r["activities"][0]["missed"] != 0);
    let missed = format!("/results/{}/activities/0/missed", missed.expect("a result with misses"));
    assert!(with(&missed, json!(0)).contains("the cells of its misses hold"));
    assert!(with(&format!("{first}/response_ns/histogram/0"), json!([5, 4, 1])).contains("no bucket"));
}
