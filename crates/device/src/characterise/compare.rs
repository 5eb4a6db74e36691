//! Measured beside modelled: the same requests on the profile that was made from them.

use super::plan::Measured;
use super::rehearse::replay;
use super::samples::{Group, Part, quantile};
use crate::profile::Profile;

/// A group of requests on both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub part: Part,
    /// Requests that count.
    pub requests: usize,
    /// Bytes of each.
    pub bytes: u64,
    pub measured: Figures,
    pub modelled: Figures,
}

/// Of one side. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub p50: f64,
    pub p99: f64,
    /// Requests a second.
    pub rate: f64,
}

/// What of a row the model does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    Median,
    Tail,
    Rate,
}

/// A median, or a rate, that is further off than this share is not followed.
pub const NEAR: f64 = 0.1;
/// The same of a 99th percentile.
pub const NEAR_TAIL: f64 = 0.25;

impl Row {
    /// How much larger the model's figure is, as a share.
    pub fn error(&self, of: fn(&Figures) -> f64) -> f64 {
        let (measured, modelled) = (of(&self.measured), of(&self.modelled));
        if measured > 0.0 { modelled / measured - 1.0 } else { 0.0 }
    }

    /// What is further off than [`NEAR`] and [`NEAR_TAIL`].
    pub fn off(&self) -> Vec<Off> {
        let checks: [(Off, fn(&Figures) -> f64, f64); 3] = [
            (Off::Median, |figures| figures.p50, NEAR),
            (Off::Tail, |figures| figures.p99, NEAR_TAIL),
            (Off::Rate, |figures| figures.rate, NEAR),
        ];
        checks
            .into_iter()
            .filter(|(_, of, near)| self.error(*of).abs() > *near)
            .map(|check| check.0)
            .collect()
    }
}

/// Every group that tells something, on the device and on the model.
pub fn compare(measured: &Measured, profile: &Profile) -> Vec<Row> {
    let is_told =
        |group: &&Group| !matches!(group.part, Part::WarmUp | Part::Again(_)) && group.interval().is_some();
    let groups: Vec<&Group> = measured.groups.iter().filter(is_told).collect();
    let replayed = replay(&groups, profile.build(1).as_mut(), usize::MAX);
    let row = |(group, replayed): (&&Group, &Group)| Row {
        part: group.part,
        requests: group.samples.iter().filter(|sample| sample.counts).count(),
        bytes: group.bytes(),
        measured: figures(group),
        modelled: figures(replayed),
    };
    groups.iter().zip(&replayed).map(row).collect()
}

fn figures(group: &Group) -> Figures {
    let responses = group.responses();
    let interval = group.interval().unwrap_or(f64::INFINITY);
    Figures { p50: quantile(&responses, 0.5), p99: quantile(&responses, 0.99), rate: 1e9 / interval.max(1.0) }
}
