//! [`demerit`]: how far a model's distribution of access times is from the drive's.
//!
//! Ruemmler and Wilkes ("An introduction to disk drive modeling", IEEE Computer 27(3), 1994) plot both cumulative distributions
//! and take the root mean square of the horizontal distance between them. DiskSim reckons it over the quantiles 0.0001,
//! 0.0002, ... 1. It says nothing about single requests: a model can win with the wrong order, so [`correlation`] belongs beside it.

/// Steps of the quantiles.
const STEPS: usize = 10_000;

/// The root mean square distance of two distributions over their quantiles, in the unit of the samples; `None` when one is empty.
pub fn demerit(measured: &[f64], modelled: &[f64]) -> Option<f64> {
    if measured.is_empty() || modelled.is_empty() {
        return None;
    }
    let sorted = |samples: &[f64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (measured, modelled) = (sorted(measured), sorted(modelled));
    let squares: f64 = (1..=STEPS)
        .map(|step| {
            let level = step as f64 / STEPS as f64;
            let distance = quantile(&measured, level) - quantile(&modelled, level);
            distance * distance
        })
        .sum();
    Some(libm::sqrt(squares / STEPS as f64))
}

/// The value at a level of the cumulative distribution, linear between its steps.
fn quantile(sorted: &[f64], level: f64) -> f64 {
    // The k-th of n values, from 1, is at level k/n.
    let place = (level * sorted.len() as f64 - 1.0).max(0.0);
    let below = (place as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// Pearson's correlation of pairs; `None` when one side does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len().min(b.len()) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let (mut saa, mut sbb, mut sab) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        saa += (x - ma) * (x - ma);
        sbb += (y - mb) * (y - mb);
        sab += (x - ma) * (y - mb);
    }
    (saa > 0.0 && sbb > 0.0).then(|| sab / libm::sqrt(saa * sbb))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shift has its length as demerit; order is of no matter to it, and all to the correlation.
    #[test]
    fn a_shift_is_its_length() {
        let a: Vec<f64> = (0..1000).map(f64::from).collect();
        let b: Vec<f64> = a.iter().rev().map(|x| x + 2.5).collect();
        assert!((demerit(&a, &b).unwrap() - 2.5).abs() < 1e-9);
        assert!((correlation(&a, &b).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!((demerit(&[], &b), correlation(&[1.0, 1.0], &[1.0, 2.0])), (None, None));
    }
}
