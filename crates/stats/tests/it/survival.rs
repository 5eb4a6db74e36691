//! Kaplan-Meier on the remissions of Freireich and others (1963), with the figures textbooks print
//! (Kalbfleisch and Prentice; Collett) and those of lifelines 0.30.3.

use surety_stats::survival::{KaplanMeier, Observation};

use crate::lines;

fn remissions() -> (Vec<Observation>, Vec<Observation>) {
    let group = |line: &str| -> Vec<Observation> {
        let observation = |word: &str| match word.strip_suffix('+') {
            Some(time) => Observation::given_up(time.parse().unwrap()),
            None => Observation::ended(word.parse().unwrap()),
        };
        line.split_whitespace().map(observation).collect()
    };
    let lines = lines(include_str!("../data/freireich.txt"));
    (group(lines[0]), group(lines[1]))
}

#[test]
fn the_curve_under_6_mp() {
    let curve = KaplanMeier::new(&remissions().0);
    assert_eq!((curve.count(), curve.censored()), (21, 12));
    for (time, at_risk, survival, low, high) in [
        (6, 21, 0.857143, 0.619718, 0.951552),
        (7, 17, 0.806723, 0.563147, 0.922809),
        (10, 15, 0.752941, 0.503200, 0.889362),
        (13, 12, 0.690196, 0.431610, 0.849066),
        (16, 11, 0.627451, 0.367511, 0.804912),
        (22, 7, 0.537815, 0.267779, 0.746791),
        (23, 6, 0.448179, 0.188052, 0.680143),
    ] {
        let step = curve.steps().iter().find(|step| step.time == time).unwrap();
        assert_eq!(step.at_risk, at_risk);
        let interval = curve.survival_interval(time, 0.95);
        for (actual, expected) in [(step.survival, survival), (interval.0, low), (interval.1, high)] {
            assert!((actual - expected).abs() < 1e-6, "{time}: {actual} {expected}");
        }
    }
    // Greenwood's standard error at six weeks, 0.0764, as every textbook prints it.
    assert!((curve.steps()[0].standard_error() - 0.0764).abs() < 5e-5);
}

#[test]
fn medians_and_their_intervals() {
    let (treated, placebo) = remissions();
    let median = KaplanMeier::new(&treated).median(0.95);
    assert_eq!((median.estimate, median.low, median.high), (Some(23), Some(13), None));
    assert_eq!(median.to_string(), "50 % end by 23, with 95 % confidence between 13 and unbounded");
    let median = KaplanMeier::new(&placebo).median(0.95);
    assert_eq!((median.estimate, median.low, median.high), (Some(8), Some(4), Some(11)));
}
