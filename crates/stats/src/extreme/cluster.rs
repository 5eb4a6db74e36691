//! Exceedances come in clusters when neighbours depend on each other: how much, and which belong together.
//!
//! The *extremal index* `θ` is one over the mean size of clusters; 1 for independent samples. Estimated from
//! the times `T_i` between exceedances (Ferro and Segers, JRSS B 65, 2003):
//!
//! ```text
//! max T <= 2:   θ = 2 (Σ T)² / (N Σ T²)               else   θ = 2 (Σ (T - 1))² / (N Σ (T - 1)(T - 2))
//! ```
//!
//! The `θ N` longest of these times are the gaps between clusters; no run length has to be chosen. Of each
//! cluster the largest value is its peak.

/// The clusters of the values above a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The largest value of each, in order.
    pub peaks: Vec<f64>,
    /// How many values were above the threshold.
    pub exceedances: u64,
    /// The extremal index, above 0 and at most 1; 1 below two exceedances.
    pub extremal_index: f64,
    /// Exceedances at most this many samples apart belong together; 0: each is alone.
    pub run_length: u64,
}

/// The extremal index from the times between exceedances, in samples; 1 without any.
pub fn extremal_index(times: &[u64]) -> f64 {
    let n = times.len() as f64;
    let longest = times.iter().copied().max().unwrap_or(0);
    let (mut sum, mut products) = (0.0, 0.0);
    for &time in times {
        let t = time as f64;
        let (first, second) = if longest <= 2 { (t, t * t) } else { (t - 1.0, (t - 1.0) * (t - 2.0)) };
        sum += first;
        products += second;
    }
    if products > 0.0 { (2.0 * sum * sum / (n * products)).min(1.0) } else { 1.0 }
}

/// Finds the clusters of a run, in the order it was taken, above a threshold.
pub fn decluster(samples: &[f64], threshold: f64) -> Clusters {
    let above: Vec<usize> =
        samples.iter().enumerate().filter(|(_, x)| **x > threshold).map(|(i, _)| i).collect();
    let times: Vec<u64> = above.windows(2).map(|pair| (pair[1] - pair[0]) as u64).collect();
    let extremal_index = extremal_index(&times);
    let mut longest_first = times.clone();
    longest_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut gaps = (extremal_index * times.len() as f64).floor() as usize;
    // Equal times cannot be told apart: none of them is a gap.
    while gaps > 0 && gaps < times.len() && longest_first[gaps - 1] == longest_first[gaps] {
        gaps -= 1;
    }
    let run_length = longest_first.get(gaps).copied().unwrap_or(0);
    let mut peaks: Vec<f64> = Vec::new();
    for (i, &at) in above.iter().enumerate() {
        let apart = i == 0 || times[i - 1] > run_length;
        match peaks.last_mut() {
            Some(peak) if !apart => *peak = peak.max(samples[at]),
            _ => peaks.push(samples[at]),
        }
    }
    Clusters { peaks, exceedances: above.len() as u64, extremal_index, run_length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;

    /// The larger of two neighbouring exponential values: each extreme shows twice, so the index is one half.
    #[test]
    fn moving_maxima_have_an_index_of_one_half() {
        let mut pcg = Pcg::for_job(101, 1, 1);
        let chance: Vec<f64> = (0..20_001).map(|_| -libm::log(pcg.unit_open())).collect();
        let threshold = libm::log(50.0);
        let alone = decluster(&chance, threshold);
        assert!(alone.extremal_index > 0.85 && alone.peaks.len() as f64 > 0.85 * alone.exceedances as f64);
        let paired: Vec<f64> = chance.windows(2).map(|pair| pair[0].max(pair[1])).collect();
        let found = decluster(&paired, threshold);
        assert!((found.extremal_index - 0.5).abs() < 0.08, "{}", found.extremal_index);
        assert!((found.peaks.len() as f64 / found.exceedances as f64 - 0.5).abs() < 0.08);
    }

    #[test]
    fn few_exceedances_stand_alone() {
        let none = decluster(&[1.0, 2.0], 5.0);
        assert_eq!((none.peaks.len(), none.extremal_index, none.run_length), (0, 1.0, 0));
        assert_eq!(decluster(&[9.0, 1.0], 5.0).peaks, [9.0]);
        let pair = decluster(&[9.0, 8.0, 0.0, 0.0, 0.0, 7.0], 5.0);
        assert_eq!((pair.exceedances, pair.peaks.first()), (3, Some(&9.0)));
    }
}
