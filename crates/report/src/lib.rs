//! Reports: what worlds returned and plans promise, as text for a terminal, as JSON, as one HTML file.
//!
//! The same [`Row`]s go into every form: a label, a record, and the verdict of each promise. [`table`] writes for a
//! terminal or a log, [`json`] for programs (`surety.record/1`), [`html`] for a browser without a network, [`gates`] for a build, and
//! [`plan_file`] writes and reads plans (`surety.plan/1`). What a trace file shows is in [`traces`]. Everything here is a function from values to text: no I/O,
//! no clock, no look at the terminal; width and colour are parameters.

#![forbid(unsafe_code)]

pub mod gates;
pub mod html;
pub mod json;
pub mod plan_file;
pub mod table;
pub mod top;
pub mod traces;

mod chains;
mod compare;
mod counted;
mod over_time;
mod paper;
mod quantity;
mod row;
mod sheet;
mod startups;
mod text;
mod timeline;

pub use counted::Counted;
pub use paper::Paper;
pub use quantity::number_of;
pub use row::{Report, Row, Summary, summary, summary_of_all};
pub use text::{Style, Tone};
pub use timeline::Timeline;
