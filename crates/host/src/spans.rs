//! [`Speaker`]: what start-ups and streams say of themselves in the trace, where one is recorded.

use surety_kernel::tracefs::Marker;
use surety_model::event::SpanMarker;

/// Writes markers for one thread; without a recording it does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speaker {
    marker: Option<Marker>,
    text: String,
}

impl Speaker {
    /// One that writes here.
    pub fn new(marker: Option<Marker>) -> Speaker {
        Speaker { marker, text: String::new() }
    }

    /// Writes a marker. A recording without it is a recording all the same.
    pub fn say(&mut self, said: &SpanMarker<&str>) {
        if let Some(marker) = &self.marker {
            self.text.clear();
            said.write(&mut self.text);
            let _ = marker.mark(self.text.as_bytes());
        }
    }
}
