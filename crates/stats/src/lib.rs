//! Statistics: what is recorded of a run, and what may be concluded from it.
//!
//! *Recorders* take one value per planned activation and allocate nothing: [`Moments`] and [`Histogram`]
//! merge exactly; [`averages`], [`p_square`] and [`sequence`] depend on order and do not merge.
//!
//! *Conclusions* are distribution free wherever possible, and say "unbounded", refuse, or give `None` when there
//! are too few samples:
//!
//! | question | module |
//! |---|---|
//! | how late at most, with what confidence? | [`bounds`] over [`intervals`] |
//! | what if failures, or late values, come in bursts? | [`failures`]; [`blocks`] |
//! | may these samples be treated as independent and alike? | [`correlation`], [`stationarity`], [`assumption`] |
//! | when did the run change? | [`change`] |
//! | which modes does it come and go between? | [`hidden_markov`] |
//! | which of two runs is slower, and by how much? | [`rank_test`], [`bootstrap`] |
//! | what of times that were given up? | [`survival`] |
//! | what of a whole distribution fed to an analysis? | [`band`] |
//! | does a model fit? | [`goodness`] |
//! | what lies beyond the largest value? | [`extreme`] |
//!
//! [`fourier`] is what the analyses convolve distributions with, [`Pcg`] the seeded chance the simulator draws from.
//! [`bins`] knows the histogram bins of other programs.
//!
//! ```
//! use surety_stats::{Histogram, intervals};
//!
//! let mut latency = Histogram::new();
//! (0..30_000u64).for_each(|i| latency.record(1_000 + i % 100));
//! assert_eq!(latency.max(), Some(1_099));
//! // With 95 % confidence at least 99.99 % of wake-ups are no later than the latest of 29 956 or more.
//! assert_eq!(intervals::quantile_upper_rank(latency.count(), 0.9999, 0.95), Some(30_000));
//! assert_eq!(intervals::quantile_upper_rank(1_000, 0.9999, 0.95), None);
//! ```
//!
//! Every result is the same bits on every machine: logarithms and exponentials come from the pure-Rust
//! `libm`, never from the platform, and only operations that IEEE 754 rounds exactly (`+ - * /`, square root,
//! rounding) come from `std`.

#![forbid(unsafe_code)]

pub mod assumption;
pub mod averages;
pub mod band;
pub mod bins;
pub mod blocks;
pub mod bootstrap;
pub mod bounds;
pub mod change;
pub mod correlation;
pub mod extreme;
pub mod failures;
pub mod fourier;
pub mod goodness;
pub mod hidden_markov;
pub mod histogram;
pub mod intervals;
pub mod moments;
pub mod p_square;
pub mod random;
pub mod rank;
pub mod rank_test;
pub mod sample;
pub mod sequence;
pub mod special;
pub mod stationarity;
pub mod survival;

pub use assumption::{Assumption, Finding, Outcome};
pub use blocks::Blocks;
pub use failures::Failures;
pub use histogram::{Histogram, HistogramError};
pub use moments::{Moments, MomentsError};
pub use random::{Pcg, stream_of};
pub use rank::quantile_rank;
pub use sample::Sample;
pub use sequence::Sequence;
pub use special::{normal_cdf, normal_quantile};
