//! [`Transcript`]: what a guest said so far, run by run.

use surety_model::world::{Observer, WorldError};
use surety_units::Nanos;

use crate::error::LabError;
use crate::job::{Product, Refusal};
use crate::protocol::{Message, WHOLE_MAX};

/// What follows from a message.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing yet.
    More,
    /// This came of the run that was on; the next begins.
    Run(Result<Product, WorldError>),
    /// Everything was said.
    Done,
}

/// What was said so far.
pub(crate) struct Transcript {
    spans: Vec<Nanos>,
    /// How many runs are over.
    over: usize,
    /// Done and of all, in the run that is on.
    progress: (u64, u64),
    document: Vec<u8>,
    window: Option<(Nanos, Nanos)>,
    samples: Vec<u8>,
    trace: Vec<u8>,
}

impl Transcript {
    /// Nothing, of runs that take so long each.
    pub(crate) fn new(spans: Vec<Nanos>) -> Transcript {
        let (document, samples, trace) = (Vec::new(), Vec::new(), Vec::new());
        Transcript { spans, over: 0, progress: (0, 0), window: None, document, samples, trace }
    }

    /// Takes a message.
    pub(crate) fn take(&mut self, message: Message, observer: &mut dyn Observer) -> Result<Step, LabError> {
        let rubbish = |why: String| LabError::Rubbish { why };
        let nanos = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let add = |to: &mut Vec<u8>, piece: Vec<u8>| {
            to.extend(piece);
            if to.len() > WHOLE_MAX { Err(rubbish("it sends without end".to_owned())) } else { Ok(()) }
        };
        let refusal = |json: &[u8]| match serde_json::from_slice::<Refusal>(json) {
            Ok(refusal) => Ok(refusal.into_error("the lab")),
            Err(e) => Err(rubbish(format!("its refusal: {e}"))),
        };
        if self.over >= self.spans.len() && !matches!(message, Message::Done | Message::Failed(_)) {
            return Err(rubbish("it speaks of a run that it was not given".to_owned()));
        }
        match message {
            Message::Hello { .. } => {}
            Message::Progress { done, total } => {
                self.progress = (done, total);
                observer.progress(nanos(done), nanos(total));
            }
            Message::Notice(text) => observer.notice(&text),
            Message::Observed { from, until } => self.window = Some((nanos(from), nanos(until))),
            Message::Record(piece) => add(&mut self.document, piece)?,
            Message::Samples(piece) => add(&mut self.samples, piece)?,
            Message::Trace(piece) => add(&mut self.trace, piece)?,
            Message::Refused(json) => {
                let refused = refusal(&json)?;
                self.next();
                return Ok(Step::Run(Err(refused)));
            }
            Message::Finished => {
                let window = self.window;
                let (document, samples, trace) = self.next();
                let wrong = |what: &str, e: &dyn std::fmt::Display| rubbish(format!("its {what}: {e}"));
                return Ok(Step::Run(Ok(Product {
                    document: String::from_utf8(document).map_err(|e| wrong("record", &e))?,
                    samples: serde_json::from_slice(&samples).map_err(|e| wrong("samples", &e))?,
                    window,
                    trace,
                })));
            }
            Message::Done if self.over < self.spans.len() => {
                return Err(rubbish(format!("it left {} runs out", self.spans.len() - self.over)));
            }
            Message::Done => return Ok(Step::Done),
            Message::Failed(json) => return Err(LabError::Guest(refusal(&json)?)),
        }
        Ok(Step::More)
    }

    /// The end of a run: its document, samples and trace.
    fn next(&mut self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        self.over += 1;
        (self.progress, self.window) = ((0, 0), None);
        let Transcript { document, samples, trace, .. } = self;
        (std::mem::take(document), std::mem::take(samples), std::mem::take(trace))
    }

    /// How much of all runs is done, in words.
    pub(crate) fn done(&self) -> String {
        let wide = |ns: Nanos| u128::from(ns.get_unsigned());
        let all: u128 = self.spans.iter().map(|span| wide(*span)).sum();
        let over: u128 = self.spans.iter().take(self.over).map(|span| wide(*span)).sum();
        let on = match (self.spans.get(self.over), self.progress) {
            (Some(span), (done, total @ 1..)) => {
                wide(*span) * u128::from(done.min(total)) / u128::from(total)
            }
            _ => 0,
        };
        match (over + on, all) {
            (0, _) | (_, 0) => "nothing".to_owned(),
            (done, all) => format!("{} %", done * 100 / all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::world::Unobserved;

    fn transcript(runs: usize) -> Transcript {
        Transcript::new(vec![Nanos::SECOND; runs])
    }

    fn take(transcript: &mut Transcript, message: Message) -> Result<Step, LabError> {
        transcript.take(message, &mut Unobserved)
    }

    fn refusal(what: &str) -> Vec<u8> {
        serde_json::to_vec(&Refusal::machine(what)).unwrap()
    }

    #[test]
    fn each_run_has_its_own_and_a_refused_one_leaves_nothing_to_the_next() {
        let mut transcript = transcript(3);
        let mut came = Vec::new();
        for message in [
            Message::Record(b"one".to_vec()),
            Message::Samples(b"[]".to_vec()),
            Message::Observed { from: 5, until: 9 },
            Message::Trace(vec![1]),
            Message::Finished,
            Message::Record(b"of the refused".to_vec()),
            Message::Observed { from: 10, until: 11 },
            Message::Trace(vec![2]),
            Message::Refused(refusal("no such CPU")),
            Message::Record(b"th".to_vec()),
            Message::Record(b"ree".to_vec()),
            Message::Samples(b"[]".to_vec()),
            Message::Finished,
        ] {
            if let Step::Run(product) = take(&mut transcript, message).unwrap() {
                came.push(product.map(|product| (product.document, product.window, product.trace)));
            }
        }
        assert_eq!(came[0], Ok(("one".to_owned(), Some((Nanos::new(5), Nanos::new(9))), vec![1])));
        assert!(came[1].as_ref().unwrap_err().to_string().contains("no such CPU"));
        assert_eq!(came[2], Ok(("three".to_owned(), None, Vec::new())));
        assert!(matches!(take(&mut transcript, Message::Done), Ok(Step::Done)));
    }

    #[test]
    fn runs_that_are_missing_or_too_many_are_rubbish() {
        assert!(matches!(take(&mut transcript(1), Message::Done), Err(LabError::Rubbish { .. })));
        let mut one = transcript(1);
        assert!(matches!(take(&mut one, Message::Refused(refusal("x"))), Ok(Step::Run(Err(_)))));
        assert!(matches!(take(&mut one, Message::Finished), Err(LabError::Rubbish { .. })));
        assert!(matches!(take(&mut transcript(2), Message::Failed(refusal("x"))), Err(LabError::Guest(_))));
        assert!(
            matches!(take(&mut transcript(1), Message::Finished), Err(LabError::Rubbish { .. })),
            "no samples"
        );
    }

    #[test]
    fn what_is_done_is_told_of_all_runs() {
        let mut transcript = Transcript::new([1, 3].map(Nanos::from_secs).to_vec());
        assert_eq!(transcript.done(), "nothing");
        take(&mut transcript, Message::Progress { done: 50, total: 100 }).unwrap();
        assert_eq!(transcript.done(), "12 %");
        take(&mut transcript, Message::Refused(refusal("x"))).unwrap();
        assert_eq!(transcript.done(), "25 %");
        take(&mut transcript, Message::Progress { done: 1, total: 3 }).unwrap();
        assert_eq!(transcript.done(), "50 %");
    }
}
