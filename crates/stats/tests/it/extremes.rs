//! The fits of Coles, An Introduction to Statistical Modeling of Extreme Values (2001), as the book prints
//! them, and with all digits as SciPy 1.17.1 (`genextreme`, `genpareto`, Nelder-Mead) finds them.

use surety_stats::extreme::{GevFit, GpdFit, decluster};

use crate::{assert_near, lines, numbers};

fn column(text: &str, index: usize) -> Vec<f64> {
    lines(text).into_iter().map(|line| numbers(line)[index]).collect()
}

/// Section 3.4.1, annual maxima at Port Pirie: 3.87, 0.198, -0.050, log-likelihood 4.34; the 10-year level 4.30,
/// the 100-year level 4.69 with a profile interval from 4.50 to 5.27 read from the figure.
#[test]
fn sea_levels_at_port_pirie() {
    let fit = GevFit::new(&column(include_str!("../data/port-pirie.txt"), 1)).unwrap();
    assert_eq!(fit.count(), 65);
    for (actual, scipy, printed, half_digit) in [
        (fit.gev.location, 3.8747498561851668, 3.87, 0.005),
        (fit.gev.scale, 0.19804395670145028, 0.198, 0.0005),
        (fit.gev.shape, -0.0501095304966407, -0.050, 0.0005),
        (fit.log_likelihood, 4.339058473679426, 4.34, 0.005),
    ] {
        assert!((actual - scipy).abs() < 1e-5, "{actual} {scipy}");
        assert!((actual - printed).abs() <= half_digit, "{actual} {printed}");
    }
    for (probability, level, low, high) in [
        (0.1, 4.296211939764812, 4.204611255827386, 4.445080329357353),
        (0.01, 4.688403757147953, 4.49043681083534, 5.260704571483179),
    ] {
        let found = fit.level(probability, 0.95).unwrap();
        assert_near(found.estimate, level, 1e-5, "level");
        assert_near(found.low.unwrap(), low, 1e-5, "low");
        assert_near(found.high.unwrap(), high, 1e-4, "high");
    }
    let goodness = fit.goodness(1);
    assert!(goodness.finding(0.95).holds(), "{goodness:?}");
}

/// Section 4.4.1, daily rainfall above 30 mm: 152 excesses, 7.44 and 0.184, log-likelihood -485.1; the 100-year
/// level 106.3.
#[test]
fn daily_rainfall() {
    let rain = column(include_str!("../data/rainfall.txt"), 1);
    let fit = GpdFit::new(&rain, 30.0).unwrap();
    assert_eq!(fit.count(), 152);
    for (actual, scipy, printed, half_digit) in [
        (fit.gpd.scale, 7.440268789582204, 7.44, 0.005),
        (fit.gpd.shape, 0.1844990810261227, 0.184, 0.001),
        (fit.log_likelihood, -485.0937213138592, -485.1, 0.05),
    ] {
        assert_near(actual, scipy, 2e-5, "SciPy");
        assert!((actual - printed).abs() <= half_digit, "{actual} {printed}");
    }
    let ratio = 36_525.0 * 152.0 / 17_531.0;
    let level = fit.level(ratio, 0.95);
    assert_near(level.estimate, 106.34276998469186, 1e-4, "level");
    assert_near(level.low.unwrap(), 80.86418012848816, 1e-4, "low");
    assert_near(level.high.unwrap(), 185.03563802249218, 1e-3, "high");
    assert!(fit.goodness(1).finding(0.95).holds());
}

/// Rain comes in spells: days above the threshold are fewer clusters than days.
#[test]
fn spells_of_rain_are_clusters() {
    let text = include_str!("../data/rainfall.txt");
    let mut days = vec![0.0; 17_531];
    for (day, rain) in column(text, 0).into_iter().zip(column(text, 1)) {
        days[day as usize] = rain;
    }
    let clusters = decluster(&days, 30.0);
    assert_eq!(clusters.exceedances, 152);
    assert!((0.6..1.0).contains(&clusters.extremal_index), "{}", clusters.extremal_index);
    assert!(clusters.peaks.len() < 152 && clusters.peaks.len() > 90, "{}", clusters.peaks.len());
}
