//! Quantities with their units: the numbers every other crate reasons with.
//!
//! All of them are integers or exact ratios. A float never takes part in a decision; floats appear only in
//! statistics. Text forms always carry a unit ([`parse`]): a bare number where a time is expected is an error.

#![forbid(unsafe_code)]

pub mod bandwidth;
pub mod bytes;
pub mod capability;
pub mod cpuset;
pub mod ids;
pub mod parse;
pub mod probability;
pub mod time;

pub use bandwidth::{Bandwidth, common_divisor};
pub use bytes::{Bytes, Frequency, Rate};
pub use capability::Capabilities;
pub use cpuset::CpuSet;
pub use ids::{CpuId, Tid};
pub use parse::QuantityError;
pub use probability::Probability;
pub use time::Nanos;
