//! [`Mode`]: when the streams of a station are served; and [`Rest`], what its disk had for itself meanwhile.

pub use surety_model::playout::Rest;
/// When a station serves its streams. It can be changed while they run: steady, a batch as soon as there is room and credit for it, is what admission bounds; with the
/// longest batches the buffers of all streams are filled, or emptied, when one has no more ahead than its jitter lasts, and nothing is asked for in between.
pub use surety_model::workload::BatchMode as Mode;
