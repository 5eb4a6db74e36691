//! [`KERNELS`]: what blk-mq and its I/O schedulers do differently from kernel to kernel, as data.
//!
//! Compared were the files `block/*.c`, `lib/sbitmap.c` and the headers they take their limits from, of 6.1.192, 6.12.117 and 7.2.13; of
//! 6.18 what is known is said with each field. Only what this crate has rules for is here: several actuators, several hardware queues
//! and zones are not. `docs/disk-simulator.md` has the same table, and what turned out to be alike.

/// Queues of those who wait for tags, and how many are woken at once at most (`SBQ_WAIT_QUEUES`, `SBQ_WAKE_BATCH`).
pub(crate) const WAIT_QUEUES: u32 = 8;
const WAKE_BATCH: u32 = 8;

/// Where a batch of mq-deadline goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// With the request that lay behind the last one when that was dispatched: what has come between the two since then is passed by.
    Remembered,
    /// With the first request at or above the place where the last one began.
    FromPosition,
}

/// How a limit on tags is told and cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shallow {
    /// Bits of each word of the bitmap, rounded for each of them.
    EachWord,
    /// Bits of the whole bitmap, spread over its words.
    Whole,
}

impl Shallow {
    /// How many bits of word `index` a limit leaves, in a map of `tags` bits with words of `width` (`__map_depth`,
    /// `__map_depth_with_shallow`).
    pub(crate) fn depth(self, tags: u32, width: u32, index: u32, limit: u32) -> u32 {
        let word = width.min(tags - index * width);
        match self {
            Shallow::EachWord => word.min(limit),
            Shallow::Whole if limit >= tags => word,
            Shallow::Whole => {
                let (share, tags) = (u64::from(word) * u64::from(limit), u64::from(tags));
                let is_more = share % tags >= u64::from(index + 1) * u64::from(word);
                (share / tags) as u32 + u32::from(is_more)
            }
        }
    }
}

/// Which request of a plug says by its length that the plug is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    Last,
    First,
}

/// Who runs the queue for a request that comes alone, outside of a plug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Its process, which leaves a run that was put off as it is.
    Process,
    /// The worker of the queue, for which a run that was put off is made now (`mod_delayed_work`).
    Worker,
}

/// Of how many tags BFQ takes its limits for what is not a synchronous read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfqDepths {
    /// Of the queue's requests: 3/4 for synchronous writes and 1/2 for others; 6/16 and 3/16 while a queue is raised.
    Requests,
    /// Of `queue/async_depth` as the I/O scheduler before it has left that: its own value, 3/4 of the requests, is set only after the
    /// limits were computed. All of that for synchronous writes and 2/3 for others; 1/2 and 1/4 while a queue is raised. mq-deadline,
    /// which a disk with one hardware queue begins with, leaves all of the requests.
    Inherited,
}

/// What differs in one kernel.
#[derive(Debug)]
pub struct Rules {
    /// The first two numbers of its release; empty: no kernel was named.
    pub kernel: &'static str,
    /// What was read for it.
    pub seen: &'static str,
    /// `block/mq-deadline.c`, `deadline_next_request`: 6.1 keeps `next_rq`; 6.12 and 7.2 search from `latest_pos`. 6.18.44: as recorded
    /// (`crates/block/tests/kernel_order.rs`).
    pub deadline: Onward,
    /// `lib/sbitmap.c`, `__sbitmap_get_shallow`: in 6.1 the limit is cut off at each word; 6.12.117 (a stable release: it came after 6.12)
    /// and 7.2 spread it over all of them (`__map_depth_with_shallow`). The schedulers compute to suit (`dd_to_word_depth`,
    /// `kyber_depth_updated`, `bfq_update_depths`). 6.18: not read.
    pub shallow: Shallow,
    /// `block/kyber-iosched.c`, `kyber_limit_depth`: whether the limit for what is asynchronous holds for synchronous writes, too. It does
    /// in 7.2 and not in 6.1 and 6.12. 6.18: not before the change of February 2026, which its stable releases may have taken.
    pub kyber_limits_writes: bool,
    /// `block/bfq-iosched.c`, `bfq_update_depths` of 6.1 and 6.12, `bfq_depth_updated` and `bfq_init_queue` of 7.2. 6.18.44 has no
    /// `queue/async_depth`.
    pub bfq_depths: BfqDepths,
    /// `block/bfq-iosched.c`, `bfq_init_bfqq`: 6.12 and 7.2 set `decrease_time_jif` of a new queue. In 6.1 it is 0: from five minutes after
    /// boot on what is known of injection is thrown away with the first request of each new queue, and with it the sample that is being
    /// taken (`bfq_add_request`, `bfq_reset_inject_limit`). 6.18: not read.
    pub bfq_new_queue_ends_sample: bool,
    /// `block/bfq-iosched.c`, `bfq_asymmetric_scenario`: in 6.1 one group below the root is enough to make queues unequal
    /// (`num_groups_with_pending_reqs > 0`, which does not count the root); in 6.12 there have to be two, the root counted. 6.18 and 7.2:
    /// not read for this.
    pub bfq_one_group_is_asymmetric: bool,
    /// `block/blk-mq.c`, `blk_add_rq_to_plug`: the request that `rq_list_peek` gives, which is the last in 6.1, whose list grows at its
    /// head, and the first in 6.12.117 and 7.2, whose list grows at its tail. 6.18: not read.
    pub plug: Measured,
    /// `block/blk-mq.c`, `blk_mq_submit_bio`: a request without a plug has the queue run by its worker. In 6.12 no bio of a disk is without:
    /// `__submit_bio` in `block/blk-core.c` plugs around it, and the end of that plug runs the queue in the process. 6.18: not read.
    pub alone: Alone,
    /// `block/mq-deadline.c`, `dd_depth_updated`: whether it says that its least limit on tags is one, whatever it is (6.1 and 6.12), so that who waits
    /// for a tag is woken alone; 7.2 says its limit. 6.18: not read.
    pub deadline_says_one: bool,
    /// `lib/sbitmap.c`, `__sbitmap_queue_wake_up`: whether a batch of those who wait for tags is woken from the first of the eight queues in
    /// which somebody stands, however few (6.1), or from all of them in turn (6.12.117). 6.18 and 7.2: not read.
    pub wakes_of_one_queue: bool,
    /// Sectors of a request, where the device takes more: `BLK_DEF_MAX_SECTORS` (6.1) and `BLK_DEF_MAX_SECTORS_CAP` of
    /// `include/linux/blkdev.h` (6.12) and `block/blk.h` (7.2). 6.18.44: `max_sectors_kb` of a disk without a limit is 4096.
    pub max_sectors: u32,
}

/// What is simulated where no kernel is named: 6.12, with the plugs of 6.1.
pub static UNNAMED: Rules = COMMON;

const COMMON: Rules = Rules {
    kernel: "",
    seen: "6.12.117, plugs of 6.1.192",
    deadline: Onward::FromPosition,
    deadline_says_one: true,
    shallow: Shallow::Whole,
    kyber_limits_writes: false,
    bfq_depths: BfqDepths::Requests,
    bfq_new_queue_ends_sample: false,
    bfq_one_group_is_asymmetric: false,
    plug: Measured::Last,
    alone: Alone::Process,
    wakes_of_one_queue: false,
    max_sectors: 2560,
};

/// The kernels that have a name, the oldest first.
pub static KERNELS: [Rules; 4] = [
    Rules {
        kernel: "6.1",
        seen: "6.1.192",
        deadline: Onward::Remembered,
        shallow: Shallow::EachWord,
        bfq_new_queue_ends_sample: true,
        bfq_one_group_is_asymmetric: true,
        wakes_of_one_queue: true,
        alone: Alone::Worker,
        ..COMMON
    },
    Rules { kernel: "6.12", seen: "6.12.117", plug: Measured::First, ..COMMON },
    Rules {
        kernel: "6.18",
        seen: "in part: 6.18.44 as it runs; what it does not show is as in both 6.12.117 and 7.2.13",
        plug: Measured::First,
        max_sectors: 8192,
        ..COMMON
    },
    Rules {
        kernel: "7.2",
        seen: "7.2.13",
        deadline_says_one: false,
        kyber_limits_writes: true,
        bfq_depths: BfqDepths::Inherited,
        plug: Measured::First,
        alone: Alone::Worker,
        max_sectors: 8192,
        ..COMMON
    },
];

impl Rules {
    /// The rules of a kernel by its two numbers, such as `6.12`; `None`: it is not in the table.
    pub fn named(kernel: &str) -> Option<&'static Rules> {
        KERNELS.iter().find(|rules| rules.kernel == kernel)
    }

    /// The rules of a kernel by its release, such as `6.12.117-amd64`; `None`: its two numbers are not in the table.
    pub fn of_release(release: &str) -> Option<&'static Rules> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Rules::named(&format!("{}.{}", numbers.next()?, numbers.next()?))
    }

    /// Bits of a word of a bitmap with so many (`sbitmap_calculate_shift`): at least four words, of 64 bits at most.
    pub(crate) fn word(requests: u32) -> u32 {
        let mut word = 64;
        while requests >= 4 && 4 * word > requests {
            word /= 2;
        }
        word
    }

    /// How many of `requests` tags may be taken under a limit, as [`Rules::share`] and [`Rules::limit`] give it.
    fn allowed(&self, requests: u32, limit: u32) -> u32 {
        let width = Rules::word(requests);
        (0..requests.div_ceil(width)).map(|index| self.shallow.depth(requests, width, index, limit)).sum()
    }

    /// How many of those who wait for tags are woken at once, where the I/O scheduler has this least limit (`sbq_calc_wake_batch`).
    pub(crate) fn wake_batch(&self, requests: u32, least: u32) -> u32 {
        (self.allowed(requests, least) / WAIT_QUEUES).clamp(1, WAKE_BATCH)
    }

    /// The limit that a share is, `parts` of `of`: of a word's tags or of all; at least one.
    pub(crate) fn share(&self, requests: u32, parts: u32, of: u32) -> u32 {
        let all = match self.shallow {
            Shallow::Whole => requests,
            Shallow::EachWord => Rules::word(requests),
        };
        (all * parts / of).max(1)
    }

    /// The limit of BFQ for what is not a synchronous read: for synchronous writes (`sync`) and others, while a queue is raised and
    /// while none is.
    pub(crate) fn bfq_depth(&self, requests: u32, raised: bool, sync: bool) -> u32 {
        let (parts, of) = match (self.bfq_depths, raised, sync) {
            (BfqDepths::Requests, false, true) => (3, 4),
            (BfqDepths::Requests, false, false) => (1, 2),
            (BfqDepths::Requests, true, true) => (6, 16),
            (BfqDepths::Requests, true, false) => (3, 16),
            (BfqDepths::Inherited, false, true) => (1, 1),
            (BfqDepths::Inherited, false, false) => (2, 3),
            (BfqDepths::Inherited, true, true) => (1, 2),
            (BfqDepths::Inherited, true, false) => (1, 4),
        };
        self.share(requests, parts, of)
    }

    /// What a limit, as [`Rules::share`] gives it, is of all tags (`bfq_limit_depth`: of a word's tags it is multiplied by their number).
    pub(crate) fn of_all(&self, requests: u32, limit: u32) -> u64 {
        match self.shallow {
            Shallow::Whole => u64::from(limit),
            Shallow::EachWord => u64::from(requests) * u64::from(limit) / u64::from(Rules::word(requests)),
        }
    }

    /// The limit that allows `limit` of `requests` tags: of a word's tags or of all.
    pub(crate) fn limit(&self, requests: u32, limit: u32) -> u32 {
        match self.shallow {
            Shallow::Whole => limit,
            Shallow::EachWord => {
                let word = u64::from(limit) * u64::from(Rules::word(requests));
                u32::try_from(word.div_ceil(u64::from(requests.max(1)))).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A rule that is not the same in all kernels, in words.
pub struct Difference {
    /// The I/O schedulers it is of, by their words; empty: all of blk-mq.
    pub schedulers: &'static [&'static str],
    pub rule: &'static str,
    /// File and function.
    pub source: &'static str,
    /// What it is in a kernel.
    pub says: fn(&Rules) -> String,
}

/// All of them.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        schedulers: &["mq-deadline"],
        rule: "a batch goes on with",
        source: "block/mq-deadline.c, deadline_next_request",
        says: |rules| match rules.deadline {
            Onward::Remembered => "what lay behind the last request when it went".to_owned(),
            Onward::FromPosition => "the first at or above the last request's begin".to_owned(),
        },
    },
    Difference {
        schedulers: &["mq-deadline", "kyber", "bfq"],
        rule: "a limit on tags is of",
        source: "lib/sbitmap.c, __sbitmap_get_shallow, __map_depth_with_shallow",
        says: |rules| match rules.shallow {
            Shallow::EachWord => "each word".to_owned(),
            Shallow::Whole => "all words, spread over them".to_owned(),
        },
    },
    Difference {
        schedulers: &["kyber"],
        rule: "three quarters of the tags for",
        source: "block/kyber-iosched.c, kyber_limit_depth",
        says: |rules| match rules.kyber_limits_writes {
            true => "all but synchronous reads".to_owned(),
            false => "what nobody waits for".to_owned(),
        },
    },
    Difference {
        schedulers: &["bfq"],
        rule: "of 64 tags for synchronous writes, others; while raised",
        source: "block/bfq-iosched.c, bfq_update_depths, bfq_depth_updated",
        says: |rules| {
            let of = |raised, sync| rules.allowed(64, rules.bfq_depth(64, raised, sync));
            format!("{}, {}; {}, {}", of(false, true), of(false, false), of(true, true), of(true, false))
        },
    },
    Difference {
        schedulers: &["bfq"],
        rule: "a new queue ends the sample for injection",
        source: "block/bfq-iosched.c, bfq_init_bfqq",
        says: |rules| if rules.bfq_new_queue_ends_sample { "yes" } else { "no" }.to_owned(),
    },
    Difference {
        schedulers: &["bfq"],
        rule: "groups make queues unequal from",
        source: "block/bfq-iosched.c, bfq_asymmetric_scenario",
        says: |rules| match rules.bfq_one_group_is_asymmetric {
            true => "one below the root on".to_owned(),
            false => "two on, the root counted".to_owned(),
        },
    },
    Difference {
        schedulers: &[],
        rule: "a plug is full where it has 32 requests, or 128 KiB in",
        source: "block/blk-mq.c, blk_add_rq_to_plug",
        says: |rules| match rules.plug {
            Measured::Last => "its last".to_owned(),
            Measured::First => "its first".to_owned(),
        },
    },
    Difference {
        schedulers: &[],
        rule: "for a request that comes alone the queue is run by",
        source: "block/blk-mq.c, blk_mq_submit_bio; block/blk-core.c, __submit_bio",
        says: |rules| {
            match rules.alone {
                Alone::Process => "its process",
                Alone::Worker => "the worker",
            }
            .to_owned()
        },
    },
    Difference {
        schedulers: &[],
        rule: "a request has at most",
        source: "include/linux/blkdev.h, BLK_DEF_MAX_SECTORS(_CAP)",
        says: |rules| format!("{} KiB", rules.max_sectors / 2),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::Making;
    use crate::elevators::by_word;
    use crate::request::{Bio, Op, ProcessId, Requests};
    use crate::tunable::Settings;

    /// 62 tags are seven words of eight and one of six (`sbitmap_calculate_shift`), 64 are four of 16. Kyber's 75 of 100 are 12 of 16, or six
    /// of eight: 48 of 62, where the whole has 46; a half is four of eight and four of six. A limit of ten is three of each 16 (`dd_to_word_depth` rounds up), 12 in all.
    #[test]
    fn limits_are_cut_off_at_each_word_in_6_1() {
        let [old, new] = ["6.1", "6.12"].map(|name| Rules::named(name).unwrap());
        for (requests, parts, of, by_word, whole) in
            [(64, 75, 100, 48, 48), (62, 75, 100, 48, 46), (62, 1, 2, 32, 31), (256, 3, 16, 48, 48)]
        {
            let found = [old, new].map(|rules| rules.allowed(requests, rules.share(requests, parts, of)));
            assert_eq!(found, [by_word, whole], "{parts}/{of} of {requests}");
        }
        for (requests, limit, by_word, whole) in [(64, 10, 12, 10), (64, 1, 4, 1), (256, 256, 256, 256)] {
            let found = [old, new].map(|rules| rules.allowed(requests, rules.limit(requests, limit)));
            assert_eq!(found, [by_word, whole], "{limit}");
        }
    }

    /// Tags that a synchronous write and another one may be among, by each scheduler of 64 and kernel.
    #[test]
    fn writes_have_the_tags_that_their_kernel_gives_them() {
        for (kernel, word, sync, other) in [
            ("6.1", "kyber", None, Some(48)),
            ("6.12", "kyber", None, Some(48)),
            ("6.18", "kyber", None, Some(48)),
            ("7.2", "kyber", Some(48), Some(48)),
            ("6.1", "bfq", Some(48), Some(32)),
            ("6.12", "bfq", Some(48), Some(32)),
            ("7.2", "bfq", Some(64), Some(42)),
            ("6.1", "mq-deadline", Some(12), Some(12)),
            ("6.12", "mq-deadline", Some(10), Some(10)),
            ("7.2", "mq-deadline", Some(10), Some(10)),
        ] {
            let row = by_word(word).unwrap();
            let mut settings = Settings::new(row.tunables);
            if word == "mq-deadline" {
                settings.set("async_depth", 10).unwrap();
            }
            let making = Making { rules: Rules::named(kernel).unwrap(), ..Making::new(64, 32, settings) };
            let mut elevator = (row.make)(&making);
            let mut limit = |op, sync| {
                let mut requests = Requests::default();
                let process = ProcessId(0);
                let bio = Bio {
                    op,
                    sync,
                    meta: false,
                    cached: false,
                    sector: 0,
                    sectors: 8,
                    process,
                    deadline: None,
                };
                let now = surety_units::Nanos::ZERO;
                let processes = [crate::Process::default()];
                let mut context = crate::Context { now, requests: &mut requests, processes: &processes };
                elevator.depth_limit(&mut context, &bio).map(|limit| making.rules.allowed(64, limit))
            };
            assert_eq!(
                (limit(Op::Write, true), limit(Op::Write, false)),
                (sync, other),
                "{word} of {kernel}"
            );
            assert_eq!(limit(Op::Read, true), None, "{word} of {kernel}");
        }
    }

    /// While a queue is raised (`async_depths[1]`).
    #[test]
    fn bfq_keeps_fewer_tags_free_while_it_raises_in_7_2() {
        let rules = |kernel| Rules::named(kernel).unwrap();
        let of = |kernel, sync| rules(kernel).allowed(64, rules(kernel).bfq_depth(64, true, sync));
        assert_eq!((of("6.12", true), of("6.12", false)), (24, 12));
        assert_eq!((of("7.2", true), of("7.2", false)), (32, 16));
    }

    #[test]
    fn a_release_has_the_rules_of_its_two_numbers() {
        let kernel = |release| Rules::of_release(release).map(|rules| rules.kernel);
        assert_eq!(kernel("6.12.117+deb13-cloud-amd64"), Some("6.12"));
        assert_eq!((kernel("6.1"), kernel("6.11.4"), kernel("none")), (Some("6.1"), None, None));
    }

    /// Every difference is one: two kernels have it otherwise.
    #[test]
    fn no_row_says_the_same_of_all_kernels() {
        for difference in DIFFERENCES {
            let said: std::collections::BTreeSet<String> =
                KERNELS.iter().map(|rules| (difference.says)(rules)).collect();
            assert!(said.len() > 1, "{}", difference.rule);
            for word in difference.schedulers {
                assert!(by_word(word).is_some(), "{word}");
            }
        }
    }
}
