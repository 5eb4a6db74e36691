//! Statistics: what is recorded of a run, and what may be concluded from it.
//!
//! Three kinds of thing live here. *Recorders* ([`Moments`], [`Histogram`], [`Sample`]) take one value per
//! planned activation and merge exactly. *Conclusions* ([`intervals`], [`goodness`]) are distribution free
//! wherever possible, and say "unbounded" or `None` when there are too few samples. *Models* ([`Pmf`],
//! [`Pcg`]) are the distributions the analyses convolve and the seeded chance the simulator draws from.
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
pub mod bootstrap;
pub mod bounds;
pub mod change;
pub mod correlation;
pub mod counter;
pub mod ecdf;
pub mod extreme;
pub mod goodness;
pub mod histogram;
pub mod intervals;
pub mod moments;
pub mod p_square;
pub mod pmf;
pub mod random;
pub mod rank;
pub mod rank_test;
pub mod sample;
pub mod shape;
pub mod special;
pub mod stationarity;
pub mod survival;

pub use histogram::{Histogram, HistogramError};
pub use intervals::{ProbabilityInterval, RankInterval};
pub use moments::{Moments, MomentsError};
pub use pmf::{Pmf, PmfError};
pub use random::{Pcg, stream_of};
pub use rank::quantile_rank;
pub use sample::Sample;
pub use special::{normal_cdf, normal_quantile};
