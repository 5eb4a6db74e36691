//! The sample files, and what is in a record made of one.

use std::path::Path;

use surety_import::read;
use surety_model::record::{ActivityRecord, Distribution, Record};

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

pub fn imported(name: &str) -> Record {
    read(name, &bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}")).record
}

pub fn json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

pub fn activity<'a>(record: &'a Record, name: &str) -> &'a ActivityRecord {
    let names: Vec<&str> = record.activities.iter().map(|a| a.name.as_str()).collect();
    record.activity(name).unwrap_or_else(|| panic!("{name} is not among {names:?}"))
}

pub fn figure(activity: &ActivityRecord, name: &str) -> f64 {
    let names: Vec<&str> = activity.figures.iter().map(|f| f.name.as_str()).collect();
    let found = activity.figures.iter().find(|f| f.name == name);
    found.unwrap_or_else(|| panic!("{name} is not among {names:?}")).value
}

pub fn count(distribution: &Distribution) -> u64 {
    distribution.observed().unwrap().histogram.count()
}

pub fn extremes(distribution: &Distribution) -> (u64, u64) {
    let histogram = &distribution.observed().unwrap().histogram;
    (histogram.min().unwrap(), histogram.max().unwrap())
}
