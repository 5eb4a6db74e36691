//! [`Line`]: a straight line through points, with what they lie beside it.

/// A straight line by least squares.
pub(crate) struct Line {
    pub(crate) slope: f64,
    offset: f64,
    /// Standard error of the slope.
    pub(crate) error: f64,
}

impl Line {
    /// `None` where it does not rise.
    pub(crate) fn through(index: &[f64], times: &[f64]) -> Option<Line> {
        let n = index.len() as f64;
        let (mean_i, mean_t) = (index.iter().sum::<f64>() / n, times.iter().sum::<f64>() / n);
        let square: f64 = index.iter().map(|i| (i - mean_i) * (i - mean_i)).sum();
        let cross: f64 = index.iter().zip(times).map(|(i, t)| (i - mean_i) * (t - mean_t)).sum();
        let slope = cross / square;
        let offset = mean_t - slope * mean_i;
        let rest = index.iter().zip(times).map(|(i, t)| t - offset - slope * i).map(|r| r * r).sum::<f64>();
        let error = (rest / (n - 2.0).max(1.0) / square).sqrt();
        (slope.is_finite() && slope > 0.0).then_some(Line { slope, offset, error })
    }

    pub(crate) fn residuals(&self, index: &[f64], times: &[f64]) -> Vec<f64> {
        index.iter().zip(times).map(|(i, t)| t - self.offset - self.slope * i).collect()
    }
}
