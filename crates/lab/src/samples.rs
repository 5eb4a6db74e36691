//! [`Series`]: every wake-up of one thread; [`WakeUps`] finds them in a trace; [`compare`] says which changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_units::{Nanos, Tid};

use crate::digest::hash64;

/// The wake-ups of one thread, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The thread: its name, and `#2` for the second of that name.
    pub name: String,
    /// How late each came, in ns.
    pub latency_ns: Vec<u64>,
}

/// The hash of samples: the same for the same values only.
pub fn hash_of(series: &[Series]) -> u64 {
    let mut bytes = Vec::new();
    for one in series {
        bytes.extend((one.name.len() as u64).to_le_bytes());
        bytes.extend(one.name.as_bytes());
        bytes.extend((one.latency_ns.len() as u64).to_le_bytes());
        bytes.extend(one.latency_ns.iter().flat_map(|value| value.to_le_bytes()));
    }
    hash64(&[&bytes])
}

/// From the request to wake (`sched_waking`) until the thread has a CPU, for threads of given names.
#[derive(Clone, Debug, Default)]
pub struct WakeUps {
    names: Vec<Comm>,
    /// When a thread was woken that has not run since.
    woken: BTreeMap<Tid, Nanos>,
    /// Index of a thread's series.
    known: BTreeMap<Tid, usize>,
    series: Vec<(Comm, Vec<u64>)>,
}

impl WakeUps {
    /// Of threads of these names, cut as the kernel cuts them.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> WakeUps {
        WakeUps { names: names.into_iter().map(Comm::new).collect(), ..WakeUps::default() }
    }

    /// What was found, in the order in which the threads first woke.
    pub fn finish(self) -> Vec<Series> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let named = self.series.into_iter().map(|(comm, latency_ns)| {
            let name = comm.text().into_owned();
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = if *count == 1 { name } else { format!("{name}#{count}") };
            Series { name, latency_ns }
        });
        named.collect()
    }
}

impl TraceSink for WakeUps {
    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Waking(woken) if self.names.contains(&woken.comm) => {
                self.woken.insert(woken.tid, event.time);
            }
            EventKind::Switch { next, next_comm, .. } => {
                let Some(since) = self.woken.remove(&next) else { return };
                let place = *self.known.entry(next).or_insert_with(|| {
                    self.series.push((next_comm, Vec::new()));
                    self.series.len() - 1
                });
                self.series[place].1.push((event.time - since).get_unsigned());
            }
            _ => {}
        }
    }
}

/// What changed from A to B.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Wake-ups that are in both.
    pub compared: u64,
    /// Of those, how many differ.
    pub changed: u64,
    /// Wake-ups of A that B has not.
    pub missing: u64,
    /// Wake-ups of B that A has not.
    pub added: u64,
    /// The first that differs.
    pub first: Option<Change>,
    /// The one that differs most.
    pub largest: Option<Change>,
}

/// One wake-up that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub thread: String,
    /// Which of its wake-ups, from 0.
    pub index: u64,
    pub before_ns: u64,
    /// In B.
    pub after_ns: u64,
}

impl Change {
    fn size(&self) -> u64 {
        self.before_ns.abs_diff(self.after_ns)
    }

    /// `cpu0's wake-up 17 by +3.2 us (4.1 us, then 7.3 us)`.
    pub fn in_words(&self) -> String {
        let time = |ns: u64| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
        let sign = if self.after_ns >= self.before_ns { "+" } else { "-" };
        format!(
            "{}'s wake-up {} by {sign}{} ({}, then {})",
            self.thread,
            self.index,
            time(self.size()),
            time(self.before_ns),
            time(self.after_ns)
        )
    }
}

impl Changes {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.changed == 0 && self.missing == 0 && self.added == 0
    }

    /// `12 of 2000 wake-ups changed, first ...`.
    pub fn in_words(&self) -> String {
        let mut text = match self.changed {
            0 => format!("0 of {} wake-ups changed", self.compared),
            n => format!("{n} of {} wake-ups changed", self.compared),
        };
        if let Some(first) = &self.first {
            text += &format!(", first {}", first.in_words());
        }
        if let Some(largest) = self.largest.as_ref().filter(|l| Some(*l) != self.first.as_ref()) {
            text += &format!("; most {}", largest.in_words());
        }
        if self.missing > 0 {
            text += &format!("; {} are no longer there", self.missing);
        }
        if self.added > 0 {
            text += &format!("; {} are new", self.added);
        }
        text
    }
}

/// Compares two results of one scenario, thread by thread, wake-up by wake-up.
pub fn compare(before: &[Series], after: &[Series]) -> Changes {
    let by_name = |list: &[Series]| -> BTreeMap<String, Vec<u64>> {
        list.iter().map(|s| (s.name.clone(), s.latency_ns.clone())).collect()
    };
    let (a, b) = (by_name(before), by_name(after));
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut changes = Changes::default();
    for name in names {
        let values = |of: &BTreeMap<String, Vec<u64>>| of.get(name).cloned().unwrap_or_default();
        let (a, b) = (values(&a), values(&b));
        let both = a.len().min(b.len());
        changes.compared += both as u64;
        changes.missing += (a.len() - both) as u64;
        changes.added += (b.len() - both) as u64;
        for (index, (before_ns, after_ns)) in a.into_iter().zip(b).enumerate() {
            if before_ns == after_ns {
                continue;
            }
            changes.changed += 1;
            let change = Change { thread: name.clone(), index: index as u64, before_ns, after_ns };
            if changes.largest.as_ref().is_none_or(|largest| change.size() > largest.size()) {
                changes.largest = Some(change.clone());
            }
            changes.first.get_or_insert(change);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surety_model::event::{LeaveState, Woken};
    use surety_units::CpuId;

    fn series(name: &str, values: &[u64]) -> Series {
        Series { name: name.to_owned(), latency_ns: values.to_vec() }
    }

    #[test]
    fn wake_ups_are_measured_from_the_request() {
        let mut found = WakeUps::of(["player", "other-name-that-is-long"]);
        let woken = |tid, name| {
            EventKind::Waking(Woken { tid: Tid(tid), comm: Comm::new(name), prio: 120, target: CpuId(0) })
        };
        let switch = |tid, name| EventKind::Switch {
            prev: Tid(0),
            prev_comm: Comm::new("swapper/0"),
            prev_prio: 120,
            prev_state: LeaveState::Runnable { preempted: true },
            next: Tid(tid),
            next_comm: Comm::new(name),
            next_prio: 120,
        };
        let cut = "other-name-that";
        let events = [
            (10, woken(5, "player")),
            (17, switch(5, "player")),
            (20, switch(5, "player")),
            (30, woken(6, "player")),
            (31, woken(7, "stranger")),
            (33, switch(7, "stranger")),
            (40, switch(6, "player")),
            (50, woken(8, cut)),
            (51, switch(8, cut)),
        ];
        for (time, kind) in events {
            found.event(&Event { time: Nanos::new(time), cpu: CpuId(0), current: Tid(0), kind });
        }
        let expected = [series("player", &[7]), series("player#2", &[10]), series(cut, &[1])];
        assert_eq!(found.finish(), expected);
    }

    #[test]
    fn changes_are_told_in_one_sentence() {
        let changes = compare(&[series("a", &[1, 2000, 3])], &[series("a", &[1, 5000, 9])]);
        let said = "2 of 3 wake-ups changed, first a's wake-up 1 by +3us (2us, then 5us)";
        assert_eq!(changes.in_words().replace(".000", "").replace(" us", "us"), said);
        let changes = compare(&[series("a", &[1, 2])], &[series("b", &[1])]);
        assert_eq!((changes.missing, changes.added, changes.compared), (2, 1, 0));
        assert!(!changes.is_none());
    }

    proptest! {
        #[test]
        fn equal_hashes_and_no_changes_go_together(
            a in proptest::collection::vec(0u64..3, 0..6),
            b in proptest::collection::vec(0u64..3, 0..6),
        ) {
            let (a, b) = ([series("x", &a)], [series("x", &b)]);
            prop_assert_eq!(compare(&a, &b).is_none(), hash_of(&a) == hash_of(&b));
        }
    }
}
