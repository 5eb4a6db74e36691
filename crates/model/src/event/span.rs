//! [`SpanMarker`]: what an activity that is more than the jobs of one thread says of itself in the trace: a start-up, from asking for it
//! to its being ready, and an access of a stream that was late or dropped.

use std::fmt;

use surety_units::{Nanos, Tid};

/// What became of an activity's start or access. It tells which of the two it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanFate {
    /// A start-up was ready.
    Ready,
    /// A start-up was given up.
    GivenUp,
    /// An access of a stream was complete after it was due.
    Late,
    /// An access of a stream was due before it could begin.
    Dropped,
}

impl SpanFate {
    /// All, with their words.
    const WORDS: [(SpanFate, &'static str); 4] = [
        (SpanFate::Ready, "ready"),
        (SpanFate::GivenUp, "given-up"),
        (SpanFate::Late, "late"),
        (SpanFate::Dropped, "dropped"),
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        SpanFate::WORDS.iter().find(|(fate, _)| *fate == self).map_or("", |(_, word)| word)
    }

    /// Whether it is a start-up's; otherwise it is that of an access of a stream.
    pub fn is_startup(self) -> bool {
        matches!(self, SpanFate::Ready | SpanFate::GivenUp)
    }
}

/// A start-up or an access of a stream that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<N> {
    pub fate: SpanFate,
    /// Which it is of its activity, from 0.
    pub number: u64,
    /// When a start-up was asked for, or an access was released, on the trace's clock.
    pub begin: Nanos,
    /// When it was ready, complete, given up or dropped.
    pub end: Nanos,
    /// The thread that did the work; `None`: it is the one that writes this. Of a program its first thread: who writes only waited.
    pub thread: Option<Tid>,
    /// The activity's name.
    pub name: N,
}

/// A marker about a start-up or an access of a stream; `N` is what names the activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanMarker<N> {
    /// A start-up begins: what happens from here on is to be remembered.
    Begun(N),
    /// It is over.
    Over(Span<N>),
    /// The thread that writes this did from one instant to another what a recorded program did between two requests: it looked at the clock.
    Thought {
        /// When it began.
        from: Nanos,
        /// When it was over.
        until: Nanos,
    },
}

impl<N> SpanMarker<N> {
    /// The same with another kind of name.
    pub fn named<M>(self, name: impl FnOnce(N) -> M) -> SpanMarker<M> {
        match self {
            SpanMarker::Begun(named) => SpanMarker::Begun(name(named)),
            SpanMarker::Over(Span { fate, number, begin, end, thread, name: named }) => {
                SpanMarker::Over(Span { fate, number, begin, end, thread, name: name(named) })
            }
            SpanMarker::Thought { from, until } => SpanMarker::Thought { from, until },
        }
    }
}

impl<N: fmt::Display> SpanMarker<N> {
    /// Writes the marker's text behind what `text` holds.
    pub fn write(&self, text: &mut String) {
        use fmt::Write as _;
        let _ = match self {
            SpanMarker::Begun(name) => write!(text, "surety:begun:{name}"),
            SpanMarker::Over(Span { fate, number, begin, end, thread, name }) => {
                let (fate, thread) = (fate.name(), thread.unwrap_or(Tid::IDLE));
                let (begin, end) = (begin.get(), end.get());
                write!(text, "surety:over:{fate}:{number}:{begin}:{end}:{thread}:{name}")
            }
            SpanMarker::Thought { from, until } => {
                write!(text, "surety:thought:{}:{}", from.get(), until.get())
            }
        };
    }
}

impl<'a> SpanMarker<&'a str> {
    /// Reads a marker's text; `None` when it is another's, or says that it ended before it began, or that before the clock did.
    pub fn parse(text: &'a str) -> Option<SpanMarker<&'a str>> {
        let (kind, rest) = text.trim_end().strip_prefix("surety:")?.split_once(':')?;
        let ordered = |begin: &str, end: &str| {
            let (begin, end) = (Nanos::new(begin.parse().ok()?), Nanos::new(end.parse().ok()?));
            (!begin.is_negative() && begin <= end).then_some((begin, end))
        };
        match kind {
            "begun" => Some(SpanMarker::Begun(rest)),
            "thought" => {
                let (from, until) = rest.split_once(':')?;
                let (from, until) = ordered(from, until)?;
                Some(SpanMarker::Thought { from, until })
            }
            "over" => {
                let mut words = rest.splitn(6, ':');
                let fate = words.next()?;
                let fate = SpanFate::WORDS.iter().find(|(_, word)| *word == fate)?.0;
                let number = words.next()?.parse().ok()?;
                let (begin, end) = ordered(words.next()?, words.next()?)?;
                let thread = Some(Tid(words.next()?.parse().ok()?)).filter(|tid| *tid != Tid::IDLE);
                Some(SpanMarker::Over(Span { fate, number, begin, end, thread, name: words.next()? }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_read_back() {
        let (begin, end) = (Nanos::new(5), Nanos::new(i64::MAX));
        let over = |fate, thread| {
            SpanMarker::Over(Span {
                fate,
                number: u64::MAX,
                begin,
                end,
                thread,
                name: "a name: with a colon",
            })
        };
        let mut markers: Vec<SpanMarker<&str>> =
            SpanFate::WORDS.iter().map(|(fate, _)| over(*fate, Some(Tid(77)))).collect();
        markers.extend([over(SpanFate::Ready, None), SpanMarker::Begun("xterm")]);
        markers.push(SpanMarker::Thought { from: begin, until: begin });
        for marker in markers {
            let mut text = String::new();
            marker.write(&mut text);
            assert_eq!(SpanMarker::parse(&text), Some(marker), "{text}");
        }
    }

    #[test]
    fn what_is_another_s_is_none() {
        for other in [
            "",
            "surety:b:1:2",
            "surety:over:ready:0:5:4:0:x",
            "surety:over:soon:0:5:6:0:x",
            "surety:over:ready:0:5:6:0",
            "surety:thought:5:4",
            "surety:thought:-5:4",
            "surety:thought:5",
        ] {
            assert_eq!(SpanMarker::parse(other), None, "{other}");
        }
    }
}
