//! Streams with a promise, admitted to their disks ([`surety_analysis::streams`]) in the order of the workload.

mod terms;

pub use terms::{CPU, demand, terms};
