//! [`AtDisk`]: what a thread, or a disk by itself, has to say in the trace.

use surety_model::event::{BlockEvent, GuestDisk, RequestServed, SpanMarker};

/// What happened at a disk, for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtDisk {
    /// A step of a bio or a request. Without a name it is that of the current thread.
    Step(BlockEvent),
    /// Where the time of a request went that is complete now.
    Served(RequestServed<'static>),
    /// A disk is a guest's, a piece of its host's.
    Guest(GuestDisk),
    /// The current thread says something of a start-up or a stream, which is named by its number in [`super::recorder::Recorder::add_activity`].
    Span(SpanMarker<usize>),
}
