//! [`choose`]: how many modes there are, and whether what they leave unexplained is independent.
//!
//! The order is the one with the least `k ln n - 2 ln L` (Schwarz, Ann. Stat. 6, 1978; consistent for hidden Markov models under
//! mild conditions, Gassiat and Keribin 2000), k parameters free, among those whose every mode has a number of values. Then the
//! residuals, values as seen by a forecast from all before them, are tested for independence by Ljung and Box's test and
//! their neighbours' correlation; their squares too, since modes missed show as spells of larger residuals.

use crate::correlation::{LjungBox, correlogram};
use crate::goodness::autocorrelation;
use crate::hidden_markov::learn::{Learned, learn};

/// A mode with fewer values than this is not told from chance.
pub const VALUES_MIN: f64 = 10.0;
/// Lags of the portmanteau test.
const LAGS: usize = 20;
/// Orders tried beyond the best so far.
const PATIENCE: usize = 2;

/// One number of modes that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub modes: usize,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Parameters that are free.
    pub parameters: usize,
    /// `k ln n - 2 ln L`.
    pub bic: f64,
    /// Values in the mode with the fewest.
    pub fewest: f64,
    /// What the residuals say.
    pub residuals: Residuals,
}

impl Order {
    /// Whether every mode has enough values.
    pub fn is_told_from_chance(&self) -> bool {
        self.fewest >= VALUES_MIN
    }
}

/// What is left to explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residuals {
    /// Correlation of neighbours.
    pub lag_one: f64,
    /// Independent ones stay within plus and minus this with 95 % confidence.
    pub bound: f64,
    /// All of them at once.
    pub ljung_box: LjungBox,
    /// The same of their squares.
    pub of_squares: LjungBox,
}

impl Residuals {
    /// Of normal residuals in their order; `None` below two or when they do not vary.
    pub fn of(residuals: &[f64]) -> Option<Residuals> {
        let lags = (residuals.len() / 5).clamp(1, LAGS);
        let plain = correlogram(residuals, lags, 0.95)?;
        let squares: Vec<f64> = residuals.iter().map(|r| r * r).collect();
        let squared = correlogram(&squares, lags, 0.95)?;
        Some(Residuals {
            lag_one: autocorrelation(residuals, 1)?,
            bound: plain.bound,
            ljung_box: plain.ljung_box()?,
            of_squares: squared.ljung_box()?,
        })
    }

    /// Whether independence is not rejected at this level, residuals and squares together.
    pub fn are_independent(&self, level: f64) -> bool {
        self.ljung_box.p_value.min(self.of_squares.p_value) >= level / 2.0
    }
}

/// The orders that were tried, and the model of the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// In ascending order, from one mode on.
    pub orders: Vec<Order>,
    /// The one with the least criterion.
    pub best: Learned,
}

impl Choice {
    /// The row of the best.
    pub fn chosen(&self) -> &Order {
        let modes = self.best.model.modes();
        self.orders.iter().find(|order| order.modes == modes).unwrap_or(&self.orders[0])
    }
}

/// Learns 1 to `most` modes and takes the order with the least criterion; orders more than two beyond the best so far are not
/// tried. `None` when nothing can be learnt ([`learn`]).
pub fn choose(values: &[f64], most: usize, seed: u64) -> Option<Choice> {
    let n = values.len() as f64;
    let mut orders: Vec<Order> = Vec::new();
    let mut best: Option<(f64, Learned)> = None;
    for modes in 1..=most.max(1) {
        let Some(learned) = learn(values, modes, seed) else { break };
        let parameters = learned.model.parameters();
        let bic = parameters as f64 * libm::log(n) - 2.0 * learned.log_likelihood;
        let residuals = Residuals::of(&learned.model.residuals(values))?;
        let order = Order {
            modes,
            log_likelihood: learned.log_likelihood,
            parameters,
            bic,
            fewest: learned.fewest,
            residuals,
        };
        let is_better = best.as_ref().is_none_or(|(least, _)| bic < *least);
        if is_better && (modes == 1 || order.is_told_from_chance()) {
            best = Some((bic, learned));
        }
        orders.push(order);
        if best.as_ref().is_some_and(|(_, best)| modes >= best.model.modes() + PATIENCE) {
            break;
        }
    }
    best.map(|(_, best)| Choice { orders, best })
}
