//! Measured beside modelled: the same requests on the profile that was made from them.

use super::plan::Measured;
use super::rehearse::replay;
use super::samples::{Group, Part, quantile};
use crate::profile::Profile;

/// A group of requests on both.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub part: Part,
    /// Requests that count.
    pub requests: usize,
    /// Bytes of each.
    pub bytes: u64,
    pub measured: Figures,
    pub modelled: Figures,
}

/// A quantile of response times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantile {
    pub value: f64,
    /// Where it is in the long run, with about 95 % confidence; `None`: no request was beyond it, so it may be anything above.
    pub low: f64,
    pub high: Option<f64>,
}

/// Of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub p50: Quantile,
    pub p99: Quantile,
    /// Requests a second, where several are made at a time or one behind the other.
    pub rate: Option<f64>,
}

/// What of a row the model does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    Median,
    Tail,
    Rate,
}

/// A median that is further off than this share is not followed.
pub const NEAR: f64 = 0.1;
/// The same of a rate, of which there is one number for all of its requests.
pub const NEAR_RATE: f64 = 0.15;
/// The same of a 99th percentile.
pub const NEAR_TAIL: f64 = 0.25;

impl Row {
    /// What the model does not follow: what is further off than the limits, by more than chance explains.
    pub fn off(&self) -> Vec<Off> {
        let (measured, modelled) = (&self.measured, &self.modelled);
        let quantile = |of: fn(&Figures) -> Quantile, near| {
            let (a, b) = (of(measured), of(modelled));
            let apart = a.high.is_some_and(|high| high < b.low) || b.high.is_some_and(|high| high < a.low);
            apart && share(a.value, b.value).abs() > near
        };
        let rate = measured.rate.zip(modelled.rate).is_some_and(|(a, b)| share(a, b).abs() > NEAR_RATE);
        let checks = [
            (Off::Median, quantile(|figures| figures.p50, NEAR)),
            (Off::Tail, quantile(|figures| figures.p99, NEAR_TAIL)),
            (Off::Rate, rate),
        ];
        checks.into_iter().filter_map(|(off, is_off)| is_off.then_some(off)).collect()
    }
}

/// How much larger the second is, as a share of the first.
pub fn share(measured: f64, modelled: f64) -> f64 {
    if measured > 0.0 { modelled / measured - 1.0 } else { 0.0 }
}

/// Every group that tells something, on the device and on the model.
pub fn compare(measured: &Measured, profile: &Profile) -> Vec<Row> {
    let is_told =
        |group: &&Group| !matches!(group.part, Part::WarmUp | Part::Again(_)) && group.interval().is_some();
    let groups: Vec<&Group> = measured.groups.iter().filter(is_told).collect();
    let replayed = replay(&groups, profile.build(1).as_mut());
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
    let has_rate = group.depth > 1 || matches!(group.part, Part::Sequential(_));
    let rate = group.interval().filter(|_| has_rate).map(|interval| 1e9 / interval.max(1.0));
    Figures { p50: within(&responses, 0.5), p99: within(&responses, 0.99), rate }
}

/// A quantile of rising values with its confidence interval: the ranks two standard deviations of the binomial to either side.
fn within(sorted: &[f64], q: f64) -> Quantile {
    let count = sorted.len() as f64;
    let (middle, spread) = (q * count, 2.0 * libm::sqrt(q * (1.0 - q) * count));
    // A cast of a negative float saturates at 0.
    let low = sorted.get(libm::floor(middle - spread) as usize).copied().unwrap_or(0.0);
    let high = sorted.get(libm::ceil(middle + spread) as usize).copied();
    Quantile { value: quantile(sorted, q), low, high }
}
