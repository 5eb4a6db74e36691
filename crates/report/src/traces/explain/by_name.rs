//! [`lines`]: causes told one by one, then by name where several threads bear it, until what is left is little.

use surety_trace::blame::{Cause, Culprit, DiskCause, Submitter};
use surety_units::{Nanos, Tid};

/// "other causes" is at most this part of the delay: one in ten.
pub(super) const LEFT: i64 = 10;

/// Causes that are told together: one, or all threads of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) causes: Vec<Cause>,
}

/// Of causes with the most important first: a line for each of the `first`, then one for each name, those with the most time first, until
/// `is_little` says that of what is left or there are `most` lines. What is left comes second.
pub(super) fn lines(
    causes: &[Cause],
    (first, most): (usize, usize),
    time: impl Fn(&Cause) -> Nanos,
    is_little: impl Fn(&[Cause]) -> bool,
) -> (Vec<Line>, Vec<Cause>) {
    let (told, rest) = causes.split_at(causes.len().min(first));
    let mut lines: Vec<Line> = told.iter().map(|cause| Line { causes: vec![*cause] }).collect();
    let mut named: Vec<(Cause, Vec<Cause>)> = Vec::new();
    for cause in rest {
        let name = without_id(*cause);
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, causes)) => causes.push(*cause),
            None => named.push((name, vec![*cause])),
        }
    }
    named.sort_by_key(|(_, causes)| std::cmp::Reverse(causes.iter().map(&time).sum::<Nanos>()));
    let mut left: Vec<Cause> = rest.to_vec();
    for (name, causes) in named {
        if lines.len() >= most || is_little(&left) {
            break;
        }
        left.retain(|cause| without_id(*cause) != name);
        lines.push(Line { causes });
    }
    (lines, left)
}

/// The cause with the name of the thread in it alone.
fn without_id(cause: Cause) -> Cause {
    let named = |culprit: Culprit| Culprit { tid: Tid::IDLE, ..culprit };
    let by = |submitter: Submitter| Submitter { tid: Tid::IDLE, ..submitter };
    match cause {
        Cause::Thread(culprit) => Cause::Thread(named(culprit)),
        Cause::Ran(culprit) => Cause::Ran(named(culprit)),
        Cause::Lock(culprit) => Cause::Lock(named(culprit)),
        Cause::Awaited(culprit) => Cause::Awaited(named(culprit)),
        Cause::Disk(DiskCause::Device(of)) => Cause::Disk(DiskCause::Device(by(of))),
        Cause::Disk(DiskCause::Scheduler(of, rule)) => Cause::Disk(DiskCause::Scheduler(by(of), rule)),
        Cause::Disk(DiskCause::Unsubmitted(of)) => Cause::Disk(DiskCause::Unsubmitted(by(of))),
        Cause::Disk(DiskCause::Unscheduled(Some(of))) => Cause::Disk(DiskCause::Unscheduled(Some(by(of)))),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::Comm;

    fn thread(tid: i32, name: &str) -> Cause {
        Cause::Thread(Culprit { tid: Tid(tid), comm: Comm::new(name), prio: 120 })
    }

    #[test]
    fn threads_of_a_name_are_told_together_until_little_is_left() {
        let causes =
            [Cause::Own, thread(1, "a"), thread(2, "b"), thread(3, "a"), thread(4, "b"), thread(5, "c")];
        let time = |cause: &Cause| match cause {
            Cause::Thread(culprit) if culprit.comm == Comm::new("b") => Nanos::new(5),
            _ => Nanos::new(3),
        };
        let little = |left: &[Cause]| left.len() < 2;
        let (told, left) = lines(&causes, (2, 9), time, little);
        let told: Vec<usize> = told.iter().map(|line| line.causes.len()).collect();
        // Itself, the first `a`, both `b`; then the other `a`, and `c` is little.
        assert_eq!((told, left), (vec![1, 1, 2, 1], vec![thread(5, "c")]));
        let (told, left) = lines(&causes, (1, 2), time, |_| false);
        assert_eq!((told.len(), left.len()), (2, 3));
        assert_eq!(lines(&causes, (6, 6), time, little).1, []);
    }
}
