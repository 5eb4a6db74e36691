//! Control groups: which one a queue is in, and how many have something to do (`block/bfq-cgroup.c`).

use super::*;

impl Bfq {
    /// The group of a process by its place, from 1; 0: the root.
    pub(super) fn group_of_process(&self, context: &Context<'_>, process: ProcessId) -> usize {
        let below_root = self.pending.len() - 1;
        context.processes[process.index()]
            .group
            .filter(|group| *group < below_root)
            .map_or(0, |group| group + 1)
    }

    /// The group of a queue, alike.
    pub(super) fn group_of(&self, q: usize) -> usize {
        self.engine.of(q).group
    }

    /// A queue has something to do (`bfq_add_bfqq_in_groups_with_pending_reqs`).
    pub(super) fn pends(&mut self, q: usize) {
        if !std::mem::replace(&mut self.queues[q].pends, true) {
            let queues = &mut self.pending[self.engine.of(q).group];
            self.groups_pending += usize::from(*queues == 0);
            *queues += 1;
        }
    }

    /// A queue has nothing to do any more, here or in the device.
    pub(super) fn pends_no_more(&mut self, q: usize) {
        if std::mem::take(&mut self.queues[q].pends) {
            let queues = &mut self.pending[self.engine.of(q).group];
            *queues -= 1;
            self.groups_pending -= usize::from(*queues == 0);
        }
        self.engine.pends_no_more(q);
    }

    /// Whether as many groups have something to do as make their queues unequal.
    pub(super) fn are_groups_asymmetric(&self) -> bool {
        match self.rules.bfq_one_group_is_asymmetric {
            true => self.engine.has_pending_group(),
            false => self.groups_pending > 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROW;
    use crate::script::{Order, Script};

    /// Processes that have all of their requests at once: each so many of 64 sectors one behind the other, each process from a sector of
    /// its own on, 10,000,000 times its place.
    fn greedy(names: &[&str], requests: u64) -> String {
        let mut text = String::new();
        for number in 0..requests {
            for (place, name) in names.iter().enumerate() {
                text.push_str(&format!("0ms {name} r {} 64\n", place as u64 * 10_000_000 + number * 64));
            }
        }
        text
    }

    /// How many of the first so many requests are of each process.
    fn shares(order: &Order, first: usize, processes: usize) -> Vec<usize> {
        let mut shares = vec![0; processes];
        for sector in order.sectors().iter().take(first) {
            shares[usize::try_from(sector / 10_000_000).unwrap()] += 1;
        }
        shares
    }

    fn script() -> Script {
        Script::of(&ROW).set("low_latency", 0)
    }

    /// The kernel's documentation (`Documentation/block/bfq-iosched.rst`): each group gets the part of the throughput that its weight is of
    /// all.
    #[test]
    fn groups_share_by_weight() {
        let text = greedy(&["a@0", "b@1"], 4000);
        let order = script().groups(&[(100, None), (200, None)]).text(&text).run();
        let got = shares(&order, 5400, 2);
        assert!(got[0].abs_diff(1800) <= 256, "{got:?}");
        // A process of the root stands beside them with the weight of its priority, 40.
        let text = greedy(&["a@0", "b@1", "c"], 4000);
        let order = script().groups(&[(100, None), (200, None)]).text(&text).run();
        let got = shares(&order, 5100, 3);
        for (got, wanted) in got.iter().zip([1500, 3000, 600]) {
            assert!(got.abs_diff(wanted) <= 256, "{got}, not {wanted}");
        }
    }

    /// However many read in a group, it has its part; flat each process has.
    #[test]
    fn many_readers_get_no_more_than_one_in_another_group() {
        let names = ["a@0", "b@0", "c@0", "d@0", "e@0", "f@0", "g@0", "h@0", "i@0", "j@0", "k@1"];
        let text = greedy(&names, 3000);
        let run = |switch| script().set("groups", switch).groups(&[(100, None); 2]).text(&text).run();
        let got = shares(&run(1), 4000, 11);
        assert!(got[10].abs_diff(2000) <= 256, "{got:?}");
        let got = shares(&run(0), 5500, 11);
        assert!(got[10].abs_diff(500) <= 256, "{got:?}");
    }

    /// Groups in groups: a half of the device is shared one to three inside.
    #[test]
    fn groups_share_what_the_group_above_gets() {
        let text = greedy(&["a@1", "b@2", "c@3"], 6000);
        let groups = [(100, None), (50, Some(0)), (150, Some(0)), (100, None)];
        let got = shares(&script().groups(&groups).text(&text).run(), 8000, 3);
        for (got, wanted) in got.iter().zip([1000, 3000, 4000]) {
            assert!(got.abs_diff(wanted) <= 512, "{got}, not {wanted}");
        }
    }

    /// A group is of the class best effort: inside it the real-time class goes first, and not before other groups; a real-time process of
    /// the root goes before all groups (`bfq_class_idx`).
    #[test]
    fn classes_hold_inside_a_group() {
        let text = greedy(&["A@0", "b@0", "c@1"], 2000);
        let got = shares(&script().groups(&[(100, None); 2]).text(&text).run(), 3000, 3);
        assert!(got[0].abs_diff(1500) <= 256 && got[2].abs_diff(1500) <= 256, "{got:?}");
        let text = greedy(&["A", "b@0"], 2000);
        let got = shares(&script().groups(&[(100, None)]).text(&text).run(), 2000, 2);
        assert_eq!(got, [2000, 0]);
        // The idle class of a group waits for nobody outside of it.
        let text = greedy(&["zi@0", "c@1"], 2000);
        let got = shares(&script().groups(&[(100, None); 2]).text(&text).run(), 2000, 2);
        assert!(got[0] > 400, "{got:?}");
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Arrivals of processes of some groups over some time.
    fn drawn(seed: u64, requests: u64, groups: u64, spread: u64) -> String {
        let mut random = Random(seed);
        let mut time = 0;
        let mut text = String::new();
        let mut at = [0; 40];
        for _ in 0..requests {
            time += if random.below(200) == 0 {
                random.below(3000 * spread + 1)
            } else {
                random.below(spread + 1)
            };
            let who = random.below(40);
            let place = usize::try_from(who).unwrap();
            if random.below(3) == 0 {
                at[place] = random.below(1_000_000) * 64;
            }
            // The letter is who it is, its case the class, its level the weight.
            let letter = char::from(b'a' + u8::try_from(who % 26).unwrap());
            let name = match who % 7 {
                0 => format!("{}{}", letter.to_ascii_uppercase(), who % 8),
                1 => "zi".to_owned(),
                _ => format!("{letter}{}x{who}", who % 8),
            };
            let group = if groups == 0 { String::new() } else { format!("@{}", who % groups) };
            let (op, sectors) = (["r", "r", "s", "w"][place % 4], 8 << random.below(5));
            text.push_str(&format!("{time}us {name}{group} {op} {} {sectors}\n", at[place]));
            at[place] += sectors;
        }
        text
    }

    /// Every request is served, once, whatever groups and settings there are (the script counts them).
    #[test]
    fn nothing_is_lost_in_groups() {
        for seed in 0..40 {
            let groups = [(100, None), (1, Some(0)), (1000, Some(0)), (37, None), (250, Some(2))];
            for (name, value) in
                [("low_latency", 1), ("slice_idle", 0), ("strict_guarantees", 1), ("groups", 0)]
            {
                let text = drawn(seed, 1000, 5, 1500);
                let kernel = ["6.1", "6.12"][usize::try_from(seed % 2).unwrap()];
                let order =
                    Script::of(&ROW).set(name, value).kernel(kernel).groups(&groups).text(&text).run();
                let mut sectors = order.sectors();
                sectors.sort_unstable();
                let mut wanted: Vec<u64> =
                    text.lines().map(|line| line.split(' ').nth(3).unwrap().parse().unwrap()).collect();
                wanted.sort_unstable();
                assert_eq!(sectors, wanted);
            }
        }
    }

    /// All in one group are served as without groups. What comes while another is served would take the device from it only without
    /// groups: the kernel looks at the root alone (`next_queue_may_preempt`).
    #[test]
    fn one_group_is_as_none() {
        for seed in 0..20 {
            let run = |groups| {
                let text = drawn(seed, 2000, groups, 0);
                Script::of(&ROW).groups(&[(100, None)]).text(&text).run().sectors()
            };
            assert_eq!(run(0), run(1));
        }
    }
}
