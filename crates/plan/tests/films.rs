//! The table of docs/modes.md: how many pictures of one recorded film are late, predicted from the other one.
//!
//! `films/a.txt` and `films/b.txt` hold the microseconds that ffmpeg 5.1 took for each picture of two films of 300 s, in their
//! order, as `surety trace fit --in-order` read them off one trace; the films and the commands are told in docs/modes.md.
//! Half a microsecond was rounded away.

use surety_analysis::cbs::in_order::settled;
use surety_analysis::cbs::modulated::ModulatedBacklog;
use surety_analysis::sampled::modes::MeasuredModes;
use surety_model::distribution::Empirical;
use surety_model::modes::modes;
use surety_stats::random::Pcg;
use surety_units::Nanos;

const TABLE: &str = include_str!("../../../docs/modes.md");
/// Pictures of a block: longer than a scene.
const BLOCK: usize = 1_000;

fn film(text: &str) -> Vec<Nanos> {
    text.split_whitespace().map(|us| Nanos::from_micros(us.parse().expect("a number"))).collect()
}

/// Which pictures are late: response above one period, by the recursion of the backlog through exact budgets.
fn late(film: &[Nanos], runtime: Nanos) -> Vec<bool> {
    let mut backlog = Nanos::ZERO;
    let mut is_late = |work: &Nanos| {
        let all = backlog + *work;
        backlog = (all - runtime).max(Nanos::ZERO);
        all > runtime
    };
    film.iter().map(&mut is_late).collect()
}

/// A 95 % interval of the fraction: blocks drawn with replacement.
fn interval(late: &[bool]) -> (f64, f64) {
    let mut before = vec![0u32];
    late.iter().for_each(|l| before.push(before[before.len() - 1] + u32::from(*l)));
    let mut generator = Pcg::new(3, 1);
    let blocks = late.len() / BLOCK;
    let mut mean = || {
        let mut block = |_| {
            let from = generator.below((late.len() - BLOCK) as u64) as usize;
            f64::from(before[from + BLOCK] - before[from])
        };
        (0..blocks).map(&mut block).sum::<f64>() / (blocks * BLOCK) as f64
    };
    let mut means: Vec<f64> = (0..2_000).map(|_| mean()).collect();
    means.sort_by(f64::total_cmp);
    (means[50], means[1949])
}

#[test]
fn modes_of_one_film_predict_the_other_and_independence_does_not() {
    let a = film(include_str!("films/a.txt"));
    let b = film(include_str!("films/b.txt"));
    assert_eq!((a.len(), b.len()), (15_026, 15_029));
    assert!(Empirical::in_order(&a).is_ok());
    let learnt = modes(&a).expect("pictures in a row are alike");
    assert_eq!(learnt.modes(), 6, "{}", learnt.describe());
    assert!(!learnt.explains_all(), "the document says that some dependence is left");
    let measured = MeasuredModes::of(&learnt).as_measured();
    let percent = |fraction: f64| format!("{:.1} %", 100.0 * fraction);
    let mut rows = Vec::new();
    for us in [6_500, 7_000, 7_500, 8_000] {
        let runtime = Nanos::from_micros(us);
        let found = ModulatedBacklog::stationary(&measured, runtime, 1).expect("it is stable");
        let by_modes = 1.0 - found.solution.within(1).value;
        let independent = 1.0 - found.independent.within(1).value;
        let seen = late(&b, runtime);
        let fraction = seen.iter().filter(|l| **l).count() as f64 / seen.len() as f64;
        let (low, high) = interval(&seen);
        // Played over and over, which nobody did, it is much the same.
        let round = settled(&b, runtime, (1, 1)).expect("it is stable");
        assert!((1.0 - round.fraction(true) - fraction).abs() < 1e-3);
        assert!(low <= by_modes && by_modes <= high, "{us}: {by_modes} is not in {low} to {high}");
        if us == 7_000 {
            assert!(independent < low && 2.0 * independent < fraction, "{independent} {low} {fraction}");
        }
        rows.push(format!(
            "| {:.1} ms | {} | {} | {} | {:.1} to {} |",
            us as f64 / 1e3,
            percent(by_modes),
            percent(independent),
            percent(fraction),
            100.0 * low,
            percent(high)
        ));
    }
    let all = rows.join("\n");
    assert!(TABLE.contains(&all), "docs/modes.md has other numbers than:\n{all}");
}
