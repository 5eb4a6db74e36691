//! [`PlatformChanges`]: what is to be otherwise on a machine that is computed: `cpus=4,hz=1000`. One row for each key.

use std::fmt;
use std::str::FromStr;

use surety_units::{CpuSet, Nanos};

use super::{
    DiskDriver, Enforcement, FairServer, Overheads, PROFILES, Platform, RealtimeLimit, SCALED_CPUS,
    TimerRules, features, scale_of,
};

/// A key: what its value looks like, what it says, and how it is carried out.
#[derive(Debug)]
pub struct KeyRow {
    pub word: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// A value, for messages and documents.
    pub example: &'static str,
    /// What it sets, with its unit.
    pub about: &'static str,
    set: fn(&mut Platform, &str) -> Result<(), String>,
}

/// Every key, in the order in which changes are carried out.
pub const KEYS: &[KeyRow] = &[
    KeyRow {
        word: "cpus",
        value: "N",
        example: "4",
        about: "number of CPUs, all alike, in one root domain",
        set: set_cpus,
    },
    KeyRow {
        word: "smt",
        value: "N",
        example: "2",
        about: "hardware threads per core, with consecutive numbers (PCs often number siblings i and i+N/2, which is not simulated) [default: 1]",
        set: |platform, value| part(value).map(|smt| platform.topology.get_or_insert_default().smt = smt),
    },
    KeyRow {
        word: "llc",
        value: "N",
        example: "4",
        about: "CPUs per last-level cache, with consecutive numbers [default: all of a node]",
        set: |platform, value| {
            part(value).map(|llc| platform.topology.get_or_insert_default().llc = Some(llc))
        },
    },
    KeyRow {
        word: "nodes",
        value: "N",
        example: "2",
        about: "NUMA nodes, all with the same number of CPUs, consecutive ones [default: 1]",
        set: |platform, value| {
            part(value).map(|nodes| platform.topology.get_or_insert_default().nodes = nodes)
        },
    },
    KeyRow { word: "hz", value: "N", example: "1000", about: "ticks in a second (CONFIG_HZ)", set: set_hz },
    KeyRow {
        word: "tick-phase",
        value: "TIME",
        example: "1500us",
        about: "first tick of the run, less than a tick; drawn from the seed otherwise",
        set: set_tick_phase,
    },
    KeyRow {
        word: "enforcement",
        value: "tick|exact",
        example: "exact",
        about: "end of a budget: `tick`, or `exact` as with HRTICK_DL",
        set: set_enforcement,
    },
    KeyRow {
        word: "base-slice",
        value: "TIME",
        example: "3ms",
        about: "slice of a fair thread (base_slice_ns)",
        set: |platform, value| within(value, SLICE_MIN, SLICE_MAX).map(|slice| platform.base_slice = slice),
    },
    KeyRow {
        word: "rr-slice",
        value: "TIME",
        example: "100ms",
        about: "slice of a SCHED_RR thread (sched_rr_timeslice_ms)",
        set: |platform, value| {
            within(value, SLICE_MIN, SLICE_MAX).map(|slice| platform.round_robin_slice = slice)
        },
    },
    KeyRow {
        word: "class-order",
        value: "SCHEDULER+...",
        example: "realtime+deadline+fair",
        about: "schedulers, the most important first; those left out are those of linux-6.18",
        set: set_class_order,
    },
    KeyRow {
        word: "features",
        value: "NAME+NO_NAME+...",
        example: "NO_RUN_TO_PARITY+NEXT_BUDDY",
        about: "features of the fair class that are otherwise than at boot (/sys/kernel/debug/sched/features); `{ RUN_TO_PARITY = false, NEXT_BUDDY = true }` says the same",
        set: |platform, value| {
            let words = features::words(value)?;
            platform.set_features(&words.iter().map(String::as_str).collect::<Vec<_>>())
        },
    },
    KeyRow {
        word: "autogroup",
        value: "on|off",
        example: "off",
        about: "whether the threads are a session of their own (sched_autogroup_enabled)",
        set: |platform, value| {
            platform.autogroup = on_or_off(value)?;
            Ok(())
        },
    },
    KeyRow {
        word: "fair-server",
        value: "RUNTIME/PERIOD|off",
        example: "50ms/1s",
        about: "runtime and period of each CPU's fair server, or `off`",
        set: |platform, value| {
            let found = share_of_period(value)?;
            platform.fair_server = found.map(|(runtime, period)| FairServer { runtime, period });
            platform.fair_servers.clear();
            Ok(())
        },
    },
    KeyRow {
        word: "ext-server",
        value: "RUNTIME/PERIOD|off",
        example: "50ms/1s",
        about: "what admission books on each CPU for sched_ext, or `off` (7.0 and 7.1 always book it, 7.2 while a scheduler is loaded)",
        set: |platform, value| {
            let found = share_of_period(value)?;
            platform.ext_server = found.map(|(runtime, period)| FairServer { runtime, period });
            Ok(())
        },
    },
    KeyRow {
        word: "rt-limit",
        value: "RUNTIME/PERIOD|off",
        example: "950ms/1s",
        about: "realtime throttling, and the part of each CPU that reservations may have (sched_rt_runtime_us and sched_rt_period_us); `off`, -1 there: no limit of either",
        set: |platform, value| {
            let found = share_of_period(value)?;
            let limit = found.map(|(runtime, period)| RealtimeLimit { runtime, period });
            *platform = platform.clone().with_realtime_limit(limit);
            Ok(())
        },
    },
    KeyRow {
        word: "rt-throttled",
        value: "wait|run|fair",
        example: "run",
        about: "what realtime threads do at `rt-limit`: `wait`; `run` on, as from 6.12 on without CONFIG_RT_GROUP_SCHED, where it limits reservations only; or run on as `fair` threads of nice 0 (no kernel does)",
        set: |platform, value| {
            platform.realtime_demoted = match value {
                "wait" | "run" => false,
                "fair" if platform.realtime_limit.is_some() => true,
                "fair" => return Err("nothing is throttled here without `rt-limit`".to_owned()),
                _ => return Err("`wait`, `run` or `fair`".to_owned()),
            };
            platform.realtime_limit = platform.realtime_limit.filter(|_| value != "run");
            Ok(())
        },
    },
    KeyRow {
        word: "deadline-inheritance",
        value: "kernel|bandwidth",
        example: "bandwidth",
        about: "what a reserved thread lends to the holder of a lock: `kernel`, which is not simulated, or its budget (no kernel does)",
        set: |platform, value| {
            platform.bandwidth_inheritance = match value {
                "kernel" => false,
                "bandwidth" => true,
                _ => return Err("`kernel` or `bandwidth`".to_owned()),
            };
            Ok(())
        },
    },
    KeyRow {
        word: "overheads",
        value: "off",
        example: "off",
        about: "`off`: none of the costs below, as theory has it",
        set: |platform, value| {
            let off = || "`off`; each cost has a key of its own".to_owned();
            (value == "off").then(|| platform.overheads = Overheads::NONE).ok_or_else(off)
        },
    },
    KeyRow {
        word: "switch-cost",
        value: "TIME",
        example: "2us",
        about: "CPU time of a context switch, on the account of the thread switched to",
        set: |platform, value| cost(value).map(|cost| platform.overheads.switch = cost),
    },
    KeyRow {
        word: "wakeup-cost",
        value: "TIME",
        example: "5us",
        about: "CPU time of waking a thread and its timer interrupt, on the account of what runs",
        set: |platform, value| cost(value).map(|cost| platform.overheads.wakeup = cost),
    },
    KeyRow {
        word: "sleep-cost",
        value: "TIME",
        example: "3us",
        about: "CPU time of going to sleep and returning, on the account of the thread that sleeps",
        set: |platform, value| cost(value).map(|cost| platform.overheads.sleep = cost),
    },
    KeyRow {
        word: "tick-cost",
        value: "TIME",
        example: "4us",
        about: "CPU time of a tick, on the account of what runs",
        set: |platform, value| cost(value).map(|cost| platform.overheads.tick = cost),
    },
    KeyRow {
        word: "timer-cost",
        value: "TIME",
        example: "3us",
        about: "CPU time of a timer interrupt that wakes no thread, on the account of what runs",
        set: |platform, value| cost(value).map(|cost| platform.overheads.timer = cost),
    },
    KeyRow {
        word: "timer-slack",
        value: "TIME",
        example: "50us",
        about: "how much later a sleep of a thread may end whose task has no `timer-slack` (PR_SET_TIMERSLACK)",
        set: |platform, value| {
            let slack = within(value, Nanos::ZERO, TimerRules::SLACK_MAX)?;
            platform.timers.get_or_insert_default().slack = slack;
            Ok(())
        },
    },
    KeyRow {
        word: "hrtimers",
        value: "on|off",
        example: "off",
        about: "whether timers expire at their time (CONFIG_HIGH_RES_TIMERS), or on the next tick",
        set: |platform, value| {
            let high_resolution = on_or_off(value)?;
            if !high_resolution && platform.enforcement == Enforcement::Exact {
                return Err("`on`, or with `enforcement=tick`, since budgets end on such a timer".to_owned());
            }
            platform.timers.get_or_insert_default().high_resolution = high_resolution;
            Ok(())
        },
    },
    KeyRow {
        word: "nohz",
        value: "on|off|late",
        example: "off",
        about: "whether the tick of an idle CPU stops (CONFIG_NO_HZ_IDLE): at once, never, or when one has come while it was idle",
        set: |platform, value| {
            let (stops_idle_tick, idle_tick_comes_once) = match value {
                "on" => (true, false),
                "off" => (false, false),
                "late" => (true, true),
                _ => return Err("`on`, `off` or `late`".to_owned()),
            };
            let rules = platform.timers.get_or_insert_default();
            *rules = TimerRules { stops_idle_tick, idle_tick_comes_once, ..*rules };
            Ok(())
        },
    },
    KeyRow {
        word: "disk-driver",
        value: "own|loop:TAGS",
        example: "loop:128",
        about: "what drives disks with a model: the driver of such a disk, or, as in runs on a kernel, a loop device that takes TAGS requests; its queue has twice as many, up to 256",
        set: set_disk_driver,
    },
];

/// Every key with what stands for its value: `cpus=N, hz=N, ...`.
pub fn keys_in_words() -> String {
    let keys: Vec<String> = KEYS.iter().map(|row| format!("{}={}", row.word, row.value)).collect();
    keys.join(", ")
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("`on` or `off`".to_owned()),
    }
}

/// How many CPUs or nodes there are of a kind.
fn part(value: &str) -> Result<u32, String> {
    let part = value.parse().ok().filter(|part| (1..=CpuSet::LIMIT).contains(part));
    part.ok_or_else(|| format!("a number from 1 to {}", CpuSet::LIMIT))
}

fn cost(value: &str) -> Result<Nanos, String> {
    within(value, Nanos::ZERO, SLICE_MAX)
}

fn set_cpus(platform: &mut Platform, value: &str) -> Result<(), String> {
    let cpus = value.parse().ok().filter(|cpus| (1..=CpuSet::LIMIT).contains(cpus));
    let cpus = cpus.ok_or_else(|| format!("a number from 1 to {}", CpuSet::LIMIT))?;
    // The kernel scales the slice with the number of CPUs.
    let most = platform.fair_version().map_or(SCALED_CPUS, |version| version.scales_to);
    let scale = |cpus: u32| u64::from(scale_of(cpus, most));
    let slice = platform.base_slice.mul_ratio(scale(cpus), scale(platform.cpus));
    (platform.cpus, platform.other_cpus, platform.base_slice) = (cpus, 0, slice);
    platform.cpu_specs.clear();
    platform.fair_servers.clear();
    platform.root_domains.clear();
    platform.topology = None;
    Ok(())
}

fn set_class_order(platform: &mut Platform, value: &str) -> Result<(), String> {
    let words: Vec<String> = value.split('+').map(|word| word.trim().to_owned()).collect();
    if words.iter().any(|word| word.is_empty() || words.iter().filter(|other| *other == word).count() > 1) {
        return Err("words of schedulers with `+` between them, each once".to_owned());
    }
    platform.schedulers = words;
    Ok(())
}

fn set_disk_driver(platform: &mut Platform, value: &str) -> Result<(), String> {
    let tags = |text: &str| text.parse().ok().filter(|tags| (1..=TAGS_MAX).contains(tags));
    platform.disk_driver = match value {
        "own" => DiskDriver::OfDisk,
        _ => match value.strip_prefix("loop:").and_then(tags) {
            Some(tags) => DiskDriver::Loop { tags: Some(tags) },
            None => return Err(format!("`own`, or `loop:TAGS` with 1 to {TAGS_MAX}")),
        },
    };
    Ok(())
}

fn set_hz(platform: &mut Platform, value: &str) -> Result<(), String> {
    let hz = value.parse().ok().filter(|hz| (24..=100_000).contains(hz));
    let hz: i64 = hz.ok_or("a number from 24 to 100000, such as 100, 250, 300 or 1000")?;
    platform.tick = Nanos::from_secs(1) / hz;
    if let Enforcement::Tick(tick) = &mut platform.enforcement {
        *tick = platform.tick;
    }
    Ok(())
}

fn set_tick_phase(platform: &mut Platform, value: &str) -> Result<(), String> {
    let phase: Nanos = value.parse().map_err(|error| format!("{error}"))?;
    if phase.is_negative() || phase >= platform.tick {
        return Err(format!("from 0 to less than a tick, {}", platform.tick.to_exact_string()));
    }
    platform.tick_phase = Some(phase);
    Ok(())
}

fn set_enforcement(platform: &mut Platform, value: &str) -> Result<(), String> {
    platform.enforcement = match value {
        "tick" => Enforcement::Tick(platform.tick),
        "exact" => Enforcement::Exact,
        _ => return Err("`tick` or `exact`".to_owned()),
    };
    Ok(())
}

/// Tags that a driver of the kernel has at most (`BLK_MQ_MAX_DEPTH`).
const TAGS_MAX: u32 = 10_240;

/// Shorter slices and periods make nothing but events.
const SLICE_MIN: Nanos = Nanos::from_micros(1);
const PERIOD_MIN: Nanos = Nanos::from_micros(100);
const SLICE_MAX: Nanos = Nanos::from_secs(1);
const PERIOD_MAX: Nanos = Nanos::from_secs(10);

/// A time within limits.
fn within(value: &str, least: Nanos, most: Nanos) -> Result<Nanos, String> {
    let time: Nanos = value.parse().map_err(|error| format!("{error}"))?;
    let limits = || format!("a time from {} to {}", least.to_exact_string(), most.to_exact_string());
    (least..=most).contains(&time).then_some(time).ok_or_else(limits)
}

/// `RUNTIME/PERIOD`, or `off`.
fn share_of_period(value: &str) -> Result<Option<(Nanos, Nanos)>, String> {
    if value == "off" {
        return Ok(None);
    }
    let (runtime, period) = value.split_once('/').ok_or("RUNTIME/PERIOD or `off`")?;
    let (runtime, period) =
        (within(runtime, SLICE_MIN, PERIOD_MAX)?, within(period, PERIOD_MIN, PERIOD_MAX)?);
    if runtime > period {
        return Err("a runtime no longer than its period".to_owned());
    }
    Ok(Some((runtime, period)))
}

/// What is to be otherwise, by the places of the keys in [`KEYS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformChanges(Vec<(usize, String)>);

impl PlatformChanges {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its keys with their values.
    pub fn said(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, value)| (KEYS[*key].word, value.as_str()))
    }

    /// These, and of others those whose keys are not among them.
    pub fn over(mut self, others: &PlatformChanges) -> PlatformChanges {
        let is_new = |(key, _): &&(usize, String)| !self.0.iter().any(|(known, _)| known == key);
        let new: Vec<(usize, String)> = others.0.iter().filter(is_new).cloned().collect();
        self.0.extend(new);
        self.0.sort_unstable();
        self
    }

    /// A machine with the changes, which its name tells.
    ///
    /// # Errors
    /// The first change that this machine cannot have, and what it may be.
    pub fn on(&self, platform: &Platform) -> Result<Platform, String> {
        let changed = self.carried_out(platform)?;
        if let Some(why) = changed.topology_objection() {
            return Err(why);
        }
        Ok(changed)
    }

    /// The same, whose CPUs may not be divisible as its topology says.
    fn carried_out(&self, platform: &Platform) -> Result<Platform, String> {
        let mut changed = platform.clone();
        if !self.is_empty() {
            changed.name = format!("{} with {self}", platform.name);
        }
        for (key, value) in &self.0 {
            let KeyRow { word, example, set, .. } = &KEYS[*key];
            set(&mut changed, value)
                .map_err(|wanted| format!("{word}={value}: {wanted}; such as {word}={example}"))?;
        }
        Ok(changed)
    }
}

/// `KEY=VALUE`, separated by commas; each key once.
impl FromStr for PlatformChanges {
    type Err = String;

    fn from_str(text: &str) -> Result<PlatformChanges, String> {
        let mut changes: Vec<(usize, String)> = Vec::new();
        let mut depth = 0_u32;
        let is_between = |c: char| {
            depth = depth.saturating_add(u32::from(c == '{')).saturating_sub(u32::from(c == '}'));
            c == ',' && depth == 0
        };
        for part in text.split(is_between) {
            let (word, value) =
                part.trim().split_once('=').ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            let key = KEYS.iter().position(|row| row.word == word).ok_or_else(|| {
                let known: Vec<&str> = KEYS.iter().map(|row| row.word).collect();
                format!("no key `{word}`: known are {}", known.join(", "))
            })?;
            if changes.iter().any(|(known, _)| *known == key) {
                return Err(format!("`{word}` is given twice"));
            }
            let value = match (word, value.trim_start().starts_with('{')) {
                // The name of a machine has it in one form.
                ("features", true) => features::words(value)?.join("+"),
                _ => value.to_owned(),
            };
            changes.push((key, value));
        }
        changes.sort_unstable();
        let changes = PlatformChanges(changes);
        // What one of the known machines can have is tried on the one it is for.
        let mut tried = PROFILES.iter().map(|(_, profile)| changes.carried_out(&profile(1)));
        // How many CPUs there are to be divided is known there alone.
        match changes.carried_out(&Platform::linux_6_18(1)) {
            Err(error) if !tried.any(|changed| changed.is_ok()) => Err(error),
            _ => Ok(changes),
        }
    }
}

/// As it is read.
impl fmt::Display for PlatformChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{}={value}", KEYS[*key].word)).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Topology;

    fn changed(text: &str) -> Result<Platform, String> {
        text.parse::<PlatformChanges>()?.on(&Platform::linux_6_18(2))
    }

    #[test]
    fn every_key_changes_what_it_says() {
        for row in KEYS {
            // Only where something is throttled there is something to say of it.
            let before =
                if row.word == "rt-throttled" { Platform::linux_6_1(8) } else { Platform::linux_6_18(8) };
            let text = format!("{}={}", row.word, row.example);
            let changes: PlatformChanges = text.parse().unwrap();
            assert_eq!(changes.to_string(), text);
            let same = matches!(row.word, "rr-slice" | "fair-server" | "overheads");
            assert_eq!(
                Platform { name: before.name.clone(), ..changes.on(&before).unwrap() } == before,
                same,
                "{text}: an example of another machine"
            );
        }
        assert_eq!(changed("hz=1000,cpus=4").unwrap().name, "linux-6.18 with cpus=4,hz=1000");
        assert_eq!(changed("fair-server=off").unwrap().fair_server, None);
        let both = changed("ext-server=50ms/1s").unwrap();
        assert_eq!((both.booked_at(0), both.servers_in_words()), (2 * 52_428, "fair and ext servers"));
        assert!(both.in_words().contains("an ext server"), "{}", both.in_words());
        let divided = changed("nodes=2,smt=2,cpus=8").unwrap();
        assert_eq!(divided.topology, Some(Topology { smt: 2, llc: None, nodes: 2 }));
        assert!(divided.in_words().contains("8 CPUs, smt=2,nodes=2"), "{}", divided.in_words());
        assert!("smt=4".parse::<PlatformChanges>().is_ok(), "the machine may have as many CPUs");
        assert!(changed("smt=4").unwrap_err().contains("cannot be divided by `smt`, 4"));
        let looped =
            |value: &str| changed(&format!("disk-driver={value}")).map(|machine| machine.disk_driver);
        assert_eq!(looped("loop:64"), Ok(DiskDriver::Loop { tags: Some(64) }));
        assert_eq!(looped("own"), Ok(DiskDriver::OfDisk));
        for value in ["loop", "loop:0", "loop:10241", "scsi"] {
            assert!(looped(value).unwrap_err().contains("`own`, or `loop:TAGS`"), "{value}");
        }
        let [asked, said] = ["hz=1000,cpus=4", "cpus=2,overheads=off"].map(|text| text.parse().unwrap());
        let both: PlatformChanges = asked;
        assert_eq!(both.over(&said).to_string(), "cpus=4,hz=1000,overheads=off");
        assert_eq!(changed("cpus=8").unwrap().base_slice, Platform::linux_6_18(8).base_slice);
        let fast = changed("enforcement=tick,hz=1000,tick-phase=900us").unwrap();
        assert_eq!((fast.tick, fast.tick_phase), (Nanos::MILLISECOND, Some(Nanos::from_micros(900))));
        assert_eq!(
            fast.enforcement,
            Enforcement::Tick(Nanos::MILLISECOND),
            "in whichever order they are written"
        );
    }

    /// Each root domain would be a machine of its own with the topology of all.
    #[test]
    fn root_domains_and_a_topology_are_not_had_together() {
        let parts = |changes: &str| {
            changes.parse::<PlatformChanges>().unwrap().on(&Platform::linux_6_18(4).partitioned(&[2, 2]))
        };
        assert!(parts("llc=2").unwrap_err().contains("leave the topology out, or say `cpus=N`"));
        assert!(parts("llc=2,cpus=4").is_ok() && parts("hz=1000").is_ok());
    }

    /// `init_dl_bw` and `dl_bandwidth_enabled` in `kernel/sched/deadline.c`: the cap is `sched_rt_runtime_us / sched_rt_period_us`, and
    /// there is none at -1.
    #[test]
    fn the_limit_of_realtime_threads_is_that_of_reservations_too() {
        let of = |text: &str, machine: &Platform| {
            let changed = text.parse::<PlatformChanges>().unwrap().on(machine).unwrap();
            let percent = changed.deadline_cap.to_exact_percent().unwrap();
            (percent, changed.deadline_unlimited, changed.realtime_limit.is_some())
        };
        for (_, profile) in PROFILES {
            let machine = profile(1);
            assert_eq!(of("rt-limit=500ms/1s", &machine), ("50%".to_owned(), false, true));
            assert_eq!(of("rt-limit=500ms/1s,rt-throttled=run", &machine), ("50%".to_owned(), false, false));
            assert_eq!(of("rt-limit=off", &machine), ("100%".to_owned(), true, false));
        }
        let said = "rt-limit=500ms/1s".parse::<PlatformChanges>().unwrap();
        let half = said.on(&Platform::linux_6_12(1)).unwrap();
        assert_eq!(half.admitted_per_cpu(), Some(1 << 19));
        assert!(half.in_words().contains("reservations up to 50.00 %"), "{}", half.in_words());
        let off = "rt-limit=off".parse::<PlatformChanges>().unwrap().on(&half).unwrap();
        assert_eq!(off.admitted_per_cpu(), None);
        assert!(off.in_words().contains("no limit of reservations"), "{}", off.in_words());
    }

    /// Features are those of the fair class that the machine has with the other changes.
    #[test]
    fn features_are_those_of_the_machine_that_is_changed() {
        let changed = |text: &str, machine: Platform| text.parse::<PlatformChanges>()?.on(&machine);
        let table = "hz=1000,features={ RUN_TO_PARITY = false, NEXT_BUDDY = true },cpus=4";
        let table = changed(table, Platform::linux_6_18(2)).unwrap();
        assert_eq!(table.features, ["NO_RUN_TO_PARITY", "NEXT_BUDDY"]);
        assert!(table.name.contains("features=NO_RUN_TO_PARITY+NEXT_BUDDY"), "{}", table.name);
        let sleepers = "features=NO_GENTLE_FAIR_SLEEPERS";
        assert_eq!(changed(sleepers, Platform::linux_6_1(1)).unwrap().features, ["NO_GENTLE_FAIR_SLEEPERS"]);
        assert!(
            changed(sleepers, Platform::linux_6_18(1)).unwrap_err().contains("has no GENTLE_FAIR_SLEEPERS")
        );
        let of_cfs = format!("{sleepers},class-order=deadline+realtime+cfs-6.1");
        assert!(changed(&of_cfs, Platform::linux_6_18(1)).is_ok());
    }

    #[test]
    fn what_no_machine_can_be_is_refused_with_what_it_may_be() {
        for (text, words) in [
            ("cpus=0", "a number from 1 to 1024"),
            ("cpus", "is not KEY=VALUE"),
            ("cpu=2", "known are cpus, smt, llc, nodes, hz"),
            ("smt=0", "a number from 1 to 1024"),
            ("hz=0", "from 24 to 100000"),
            ("cpus=2,cpus=3", "given twice"),
            ("class-order=fair+fair", "each once"),
            ("class-order=realtime+", "words of schedulers"),
            ("hz=1000,tick-phase=1ms", "less than a tick, 1ms"),
            ("enforcement=soon", "`tick` or `exact`"),
            ("fair-server=2s/1s", "no longer than its period"),
            ("base-slice=0ms", "a time from 1us to 1s"),
            ("fair-server=1us/1us", "a time from 100us to 10s"),
            ("switch-cost=2s", "a time from 0s to 1s"),
            ("switch-cost=much", "switch-cost=2us"),
            ("overheads=2us", "each cost has a key of its own"),
            ("rt-limit=off,rt-throttled=fair", "nothing is throttled here without `rt-limit`"),
            ("rt-throttled=never", "`wait`, `run` or `fair`"),
            ("deadline-inheritance=on", "`kernel` or `bandwidth`"),
            (
                "features=SLOW",
                "no feature `SLOW` in the fair class of any version: that of 6.17 to 7.0 has PLACE_LAG",
            ),
            ("features={ RUN_TO_PARITY = off }", "`RUN_TO_PARITY = off` is neither"),
            ("features=NO_WA_BIAS", "WA_BIAS is on in the simulator: the simulator does not know"),
        ] {
            let error = text.parse::<PlatformChanges>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
