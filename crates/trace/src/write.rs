//! Writers of traces: one format is one file beside this module. They fill a [`std::io::Write`]; the file is the caller's.
//!
//! [`tracedat`] writes pages as the kernel made them. [`tracedat_events`], [`jsonl`], [`csv`] and [`perfetto`] take events
//! one by one ([`surety_model::event::TraceSink`]), so a recorded trace and a simulated run go through the same writer;
//! [`keep`] stands before them where only some events are wanted. The words of texts are in `fields.rs`; [`lines`],
//! [`timehist`] and [`map`] are for people.

pub mod csv;
mod fields;
pub mod jsonl;
pub mod keep;
pub mod lines;
pub mod map;
pub mod perfetto;
pub mod timehist;
pub mod tracedat;
pub mod tracedat_events;

pub use fields::FIELDS;

/// Whether a terminal obeys a character instead of showing it, or shows what stands around it in another order.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
