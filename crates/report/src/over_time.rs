//! How long each access of a stream took, and how far apart its frames were, in the order of time: what both drawings of
//! it are made from.

use surety_model::record::Record;
use surety_model::workload::ActivityKind;
use surety_units::Nanos;

/// The series that are drawn over time, what their values are of, and whether one is late beyond the deadline.
const DRAWN: [(&str, &str, bool); 3] = [
    ("read latency", "accesses", true),
    ("write latency", "accesses", true),
    // Only where they differ: frames that all came in time are equally far apart.
    ("frame distance", "frames", false),
];

/// One series in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverTime<'a> {
    pub activity: &'a str,
    pub series: &'a str,
    /// Its values in ns. Accesses are released at equal distances, so a value's place is its time, but for what was
    /// dropped.
    pub values: &'a [u64],
    /// What they are of.
    pub of: &'static str,
    /// How many there were.
    pub count: u64,
    /// Accesses each value stands for.
    pub every: u64,
    /// A longer one is late in any case.
    pub deadline: Option<Nanos>,
    /// How long was observed.
    pub duration: Option<Nanos>,
}

impl<'a> OverTime<'a> {
    /// Every such series of a record.
    pub fn all(record: &'a Record) -> Vec<OverTime<'a>> {
        let streams = record.activities.iter().filter(|a| a.kind == ActivityKind::Stream);
        let of = streams.flat_map(|activity| {
            DRAWN.iter().filter_map(|(name, of, has_deadline)| {
                let sequence = activity.series.get(*name)?.observed()?.in_order()?;
                let values = sequence.values();
                let differ = values.iter().any(|value| Some(value) != values.first());
                (if *has_deadline { !values.is_empty() } else { differ }).then_some(OverTime {
                    activity: &activity.name,
                    series: name,
                    values,
                    of,
                    count: sequence.count(),
                    every: sequence.every(),
                    deadline: activity.deadline.filter(|_| *has_deadline),
                    duration: record.duration,
                })
            })
        });
        of.collect()
    }

    /// The shortest and the longest of each of at most `slots` equal parts.
    pub fn ranges(&self, slots: usize) -> Vec<(u64, u64)> {
        let count = self.values.len();
        let slots = slots.clamp(1, count.max(1));
        let part = |slot: usize| &self.values[slot * count / slots..(slot + 1) * count / slots];
        let of = |values: &[u64]| Some((*values.iter().min()?, *values.iter().max()?));
        (0..slots).filter_map(|slot| of(part(slot))).collect()
    }

    /// What a drawing is called.
    pub fn title(&self) -> String {
        let thinned = match self.every {
            1 => String::new(),
            every => format!(", one of {every} drawn"),
        };
        format!("{}: {} over time ({} {}{thinned})", self.activity, self.series, self.count, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::record::{ActivityRecord, Basis, Distribution, Observed};

    #[test]
    fn frames_are_drawn_where_one_was_late_and_nothing_is_due_after_a_distance() {
        let observed = |values: &[i64]| {
            let mut observed = Observed::default();
            values.iter().for_each(|ms| observed.record(Nanos::from_millis(*ms)));
            Distribution::from(observed)
        };
        let drawn = |distances: &[i64]| {
            let mut activity = ActivityRecord::new("player", ActivityKind::Stream, Basis::Sample);
            activity.deadline = Some(Nanos::from_millis(40));
            activity.series.insert("read latency".to_owned(), observed(&[3, 3, 3]));
            activity.series.insert("frame distance".to_owned(), observed(distances));
            let record = Record { world: "host".to_owned(), activities: vec![activity], ..Record::default() };
            let of = |over: &OverTime<'_>| (over.title(), over.deadline);
            OverTime::all(&record).iter().map(of).collect::<Vec<_>>()
        };
        let reads = ("player: read latency over time (3 accesses)".to_owned(), Some(Nanos::from_millis(40)));
        assert_eq!(drawn(&[40, 40, 40]), std::slice::from_ref(&reads));
        let frames = ("player: frame distance over time (3 frames)".to_owned(), None);
        assert_eq!(drawn(&[40, 80, 40]), [reads, frames]);
    }

    #[test]
    fn every_value_is_in_one_part() {
        let values: Vec<u64> = (0..103).map(|i| (i * 37) % 101).collect();
        let over = OverTime {
            activity: "a",
            series: "s",
            values: &values,
            of: "accesses",
            count: 103,
            every: 1,
            deadline: None,
            duration: None,
        };
        for slots in [1, 2, 50, 103, 500] {
            let ranges = over.ranges(slots);
            assert_eq!(ranges.len(), slots.min(values.len()));
            assert_eq!(ranges.iter().map(|r| r.1).max(), values.iter().max().copied());
            assert_eq!(ranges.iter().map(|r| r.0).min(), values.iter().min().copied());
        }
        assert!(OverTime { values: &[], ..over }.ranges(10).is_empty());
    }
}
