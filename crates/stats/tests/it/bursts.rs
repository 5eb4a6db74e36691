//! Bounds of the fraction that fails hold as often as said, however the failures come.
//!
//! A bound at 95 % may be on the wrong side in 5 % of runs, plus three standard errors of 1,000 runs: 70. Every run
//! has ten bursts or more in the mean.

use surety_stats::Pcg;
use surety_stats::failures::Failures;

const RUNS: u64 = 1_000;
const WRONG_MAX: u64 = 70;

fn exponential(pcg: &mut Pcg, mean: f64) -> f64 {
    -mean * pcg.unit_open().ln()
}

/// How failures come: in `bursts` of `long` trials in a run of `n`, in the mean.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Independent,
    Periodic,
    /// Bursts of one length that begin at any time; those that meet are one.
    Poisson,
    /// Two states, left with a constant probability, the bad one failing this often.
    TwoStates(f64),
}

/// A run with the fraction that fails in the long run.
fn run(kind: Kind, n: usize, bursts: f64, long: f64, seed: u64) -> (Vec<bool>, f64) {
    let mut pcg = Pcg::for_job(seed, 77, 1);
    let mut failed = vec![false; n];
    let apart = n as f64 / bursts;
    let burst = |failed: &mut Vec<bool>, at: f64| {
        let first = at.floor() as i64;
        (first..first + long as i64)
            .filter_map(|i| usize::try_from(i).ok())
            .filter(|i| *i < n)
            .for_each(|i| failed[i] = true);
    };
    match kind {
        Kind::Independent => {
            failed.iter_mut().for_each(|trial| *trial = pcg.unit_open() < bursts / n as f64);
            (failed, bursts / n as f64)
        }
        Kind::Periodic => {
            let mut at = (pcg.unit_open() - 1.0) * apart;
            while at < n as f64 {
                burst(&mut failed, at);
                at += apart;
            }
            (failed, long / apart)
        }
        Kind::Poisson => {
            let mut at = -10.0 * long;
            while at < n as f64 {
                burst(&mut failed, at);
                at += exponential(&mut pcg, apart);
            }
            (failed, 1.0 - (-long / apart).exp())
        }
        Kind::TwoStates(fails) => {
            let (leave_bad, leave_good) = (1.0 / long, 1.0 / (apart - long));
            let mut is_bad = pcg.unit_open() < long / apart;
            for trial in &mut failed {
                *trial = is_bad && pcg.unit_open() < fails;
                let leave = pcg.unit_open();
                is_bad = if is_bad { leave >= leave_bad } else { leave < leave_good };
            }
            (failed, fails * long / apart)
        }
    }
}

#[test]
fn bounds_of_failures_in_bursts_hold_as_often_as_said() {
    let kinds =
        [Kind::Independent, Kind::Periodic, Kind::Poisson, Kind::TwoStates(1.0), Kind::TwoStates(0.5)];
    let (mut worst, mut independent_alone) = (0, 0);
    for kind in kinds {
        for (n, bursts, long) in
            [(1_250, 12.5, 15.0), (3_000, 10.0, 15.0), (3_000, 20.0, 50.0), (5_000, 100.0, 5.0)]
        {
            let (mut kept, mut broken) = (0, 0);
            for seed in 1..=RUNS {
                let (failed, fraction) = run(kind, n, bursts, long, seed);
                let failures: Failures = failed.into_iter().collect();
                let effective = failures.effective();
                // Promised is just what is not kept, or just what is.
                kept += u64::from(effective.upper(0.05) < fraction);
                broken += u64::from(effective.lower(0.05) > fraction);
                let alone =
                    surety_stats::intervals::failure_upper(failures.failures(), failures.trials(), 0.95);
                independent_alone += u64::from(alone < fraction);
            }
            worst = worst.max(kept).max(broken);
            assert!(
                kept <= WRONG_MAX && broken <= WRONG_MAX,
                "{kind:?}, {bursts} bursts of {long} in {n}: {kept} falsely kept, {broken} falsely broken of {RUNS}"
            );
        }
    }
    assert!(worst > 20, "the bounds are never wrong: far too wide");
    // The same runs, with bounds for independent trials.
    assert!(independent_alone > 3 * 20 * RUNS / 20, "{independent_alone}: nothing here depends on anything");
}
