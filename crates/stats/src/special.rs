//! Special functions, each in its own file: what the exact intervals and the goodness-of-fit tests are made
//! of.
//!
//! | file | functions |
//! |---|---|
//! | `gamma` | the logarithm of the gamma function, and binomial masses that keep their digits |
//! | `beta` | the regularised incomplete beta function, both tails, and their inverses |
//! | `incomplete_gamma` | the regularised incomplete gamma function, both tails, and the chi-square tail |
//! | `normal` | the standard normal distribution function and its inverse |
//! | `kolmogorov` | the tail of Kolmogorov's distribution |
//! | `student` | quantiles of Student's distribution |
//!
//! Both tails are offered wherever one of them may be tiny: `1 - p` of a `p` near 1 has no digits left.

mod beta;
mod gamma;
mod incomplete_gamma;
mod kolmogorov;
mod normal;
mod student;

pub use beta::{beta_lower, beta_upper, inverse_beta_lower, inverse_beta_upper};
pub use gamma::ln_gamma;
pub use incomplete_gamma::{chi_square_tail, gamma_lower, gamma_upper};
pub use kolmogorov::kolmogorov_tail;
pub use normal::{normal_cdf, normal_quantile};
pub use student::student_quantile;
