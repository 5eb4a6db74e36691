//! [`SeekCurve`]: how long the arm takes for a distance in cylinders.
//!
//! A measured table is interpolated linearly between its points and extrapolated beyond the last, as DiskSim does with an
//! extracted curve. A drive of which only the data sheet is known gets `minimum + (full - minimum) * sqrt(d / D)` with the mean
//! of the data sheet: over two independent uniform cylinders the mean of `sqrt(d / D)` is 8/15, so `full = minimum +
//! (average - minimum) * 15/8`.

/// Milliseconds of a seek at most.
pub const SEEK_MAX: f64 = 20_000.0;

/// Distance in cylinders to milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum SeekCurve {
    /// The same for every distance but 0.
    Constant(f64),
    /// `single + (full - single) * sqrt((d - 1) / (cylinders - 2))`.
    Root {
        /// To the next cylinder.
        single: f64,
        /// Over all cylinders.
        full: f64,
        /// How many cylinders there are.
        cylinders: u32,
    },
    /// Distances, strictly rising, and their times.
    Table(Vec<(u32, f64)>),
}

impl SeekCurve {
    /// The curve of a drive of which the shortest and the average seek are known.
    pub fn of_average(single: f64, average: f64, cylinders: u32) -> SeekCurve {
        SeekCurve::Root { single, full: single + (average - single) * 15.0 / 8.0, cylinders }
    }

    /// Milliseconds for a distance; 0 for none.
    pub fn time(&self, distance: u32) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        match self {
            SeekCurve::Constant(time) => *time,
            SeekCurve::Root { single, full, cylinders } => {
                let span = f64::from(cylinders.saturating_sub(2).max(1));
                single + (full - single) * libm::sqrt(f64::from(distance - 1) / span)
            }
            SeekCurve::Table(points) => interpolate(points, distance),
        }
    }

    /// Milliseconds of the longest movement over no more than a distance: a measured curve need not rise.
    pub fn longest_within(&self, distance: u32) -> f64 {
        let points = match self {
            SeekCurve::Table(points) => points.as_slice(),
            _ => &[],
        };
        let at_points = points.iter().filter(|(d, _)| *d <= distance).map(|(_, time)| *time);
        at_points.chain([self.time(distance), self.time(distance.min(1))]).fold(0.0, f64::max)
    }

    /// Refuses a curve that goes on to a seek over all cylinders which no disk takes.
    ///
    /// # Errors
    /// How long that would be, and how long it may be.
    pub fn check(&self, cylinders: u32) -> Result<(), String> {
        let last = cylinders.saturating_sub(1);
        let time = self.time(last);
        if (0.0..=SEEK_MAX).contains(&time) {
            return Ok(());
        }
        Err(format!(
            "the last two points go on to {time:.1} ms for all {last} cylinders, which is not between 0 ms and {SEEK_MAX} ms"
        ))
    }

    /// The shortest, the mean over two independent uniform cylinders, and the longest, in milliseconds.
    pub fn summary(&self, cylinders: u32) -> (f64, f64, f64) {
        let all = f64::from(cylinders);
        let last = cylinders.saturating_sub(1).max(1);
        let shortest = (1..=last.min(64)).map(|d| self.time(d)).fold(f64::INFINITY, f64::min);
        // Distance d has 2 (C - d) of the C^2 pairs.
        let step = (last / 20_000).max(1);
        let (mut sum, mut weight) = (0.0, all * f64::from(step));
        for distance in (1..=last).step_by(step as usize) {
            let pairs = 2.0 * (all - f64::from(distance)) * f64::from(step);
            sum += pairs * self.time(distance);
            weight += pairs;
        }
        (shortest, sum / weight, self.time(last))
    }
}

/// Linear between the two points around a distance; beyond the last by the last two.
fn interpolate(points: &[(u32, f64)], distance: u32) -> f64 {
    let after = points.partition_point(|point| point.0 < distance);
    let upper = after.min(points.len() - 1);
    let (d, time) = points[upper];
    if d == distance || points.len() == 1 {
        return time;
    }
    if upper == 0 {
        return time;
    }
    let (before, earlier) = points[upper - 1];
    earlier + (f64::from(distance) - f64::from(before)) * (time - earlier) / f64::from(d - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points, between two, before the first, beyond the last; a falling pair, as measured tables have.
    #[test]
    fn a_table_is_interpolated_and_extrapolated() {
        let curve = SeekCurve::Table(vec![(2, 1.0), (4, 2.0), (8, 1.0), (10, 3.0)]);
        for (distance, time) in
            [(0, 0.0), (1, 1.0), (2, 1.0), (3, 1.5), (4, 2.0), (6, 1.5), (10, 3.0), (12, 5.0)]
        {
            assert!((curve.time(distance) - time).abs() < 1e-12, "{distance}");
        }
    }

    /// The mean of the root is 8/15, so the curve of a data sheet has the data sheet's mean.
    #[test]
    fn the_curve_of_a_data_sheet_has_its_average() {
        let curve = SeekCurve::of_average(1.0, 8.5, 100_000);
        let (shortest, mean, longest) = curve.summary(100_000);
        assert!((shortest - 1.0).abs() < 1e-9, "{shortest}");
        assert!((mean - 8.5).abs() < 0.01, "{mean}");
        assert!((longest - 15.0625).abs() < 1e-3, "{longest}");
    }
}
