//! Scripted waits for disks with the account that each must have.
//!
//! A line is `TIME CPU@THREAD WHAT`, times in microseconds. What: `sw PREV:STATE NEXT`, `waking TID`, `irq`, `irqx`, a step of the block layer by
//! a letter as in blktrace (`Q` queued, `M` appended, `G` made, `I` inserted, `J` joined, `D` issued, `R` requeued, `C` complete)
//! with letters, sector and sectors, or a marker. `vec`, `vecx`: the timer's interrupt; `new TID`: a thread is made. A step behind `g` is of disk 8:16, else of 8:0; a fourth word is the name of who does it.

use super::*;
use crate::blame::{BlameBuilder, Cause};
use crate::wanted::Wanted;
use surety_model::event::{Rwbs, TraceSink, Woken};

fn comm(tid: i32) -> Comm {
    Comm::new(&if tid == 0 { "swapper/0".to_owned() } else { format!("t{tid}") })
}

fn block(step: BlockStep, minor: u32, words: &[&str], current: i32) -> EventKind<'static> {
    let name = words.get(3).map_or_else(|| comm(current), |name| Comm::new(name));
    EventKind::Block(BlockEvent {
        step,
        disk: DiskNumber { major: 8, minor },
        sector: words[1].parse().unwrap(),
        sectors: words[2].parse().unwrap(),
        bytes: 0,
        priority: 0,
        rwbs: Rwbs::new(words[0].as_bytes()),
        comm: if step.has_name() { name } else { Comm::default() },
        error: 0,
    })
}

pub(in crate::blame) fn feed(script: &str, sink: &mut dyn TraceSink) {
    for line in script.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (cpu, current) = words[1].split_once('@').unwrap();
        let current: i32 = current.parse().unwrap();
        let cpu = CpuId(cpu.parse().unwrap());
        let step = |letter| match letter {
            "Q" => Some(BlockStep::BioQueued),
            "M" => Some(BlockStep::BioAppended),
            "G" => Some(BlockStep::RequestMade),
            "I" => Some(BlockStep::Inserted),
            "J" => Some(BlockStep::Joined),
            "D" => Some(BlockStep::Issued),
            "R" => Some(BlockStep::Returned),
            "C" => Some(BlockStep::Completed),
            _ => None,
        };
        let kind = match words[2] {
            "sw" => {
                let (prev, state) = words[3].split_once(':').unwrap_or((words[3], "R"));
                let (prev, next): (i32, i32) = (prev.parse().unwrap(), words[4].parse().unwrap());
                EventKind::Switch {
                    prev: Tid(prev),
                    prev_comm: comm(prev),
                    prev_prio: 120,
                    prev_state: match state {
                        "D" => LeaveState::Uninterruptible,
                        "S" => LeaveState::Sleeping,
                        "X" => LeaveState::Dead,
                        _ => LeaveState::Runnable { preempted: state == "R+" },
                    },
                    next: Tid(next),
                    next_comm: comm(next),
                    next_prio: 120,
                }
            }
            "waking" => {
                let tid: i32 = words[3].parse().unwrap();
                EventKind::Waking(Woken { tid: Tid(tid), comm: comm(tid), prio: 120, target: cpu })
            }
            "new" => {
                let tid: i32 = words[3].parse().unwrap();
                EventKind::WakeupNew(Woken { tid: Tid(tid), comm: comm(tid), prio: 120, target: cpu })
            }
            "vec" => EventKind::VectorEntry { name: "local_timer" },
            "vecx" => EventKind::VectorExit { name: "local_timer" },
            "irq" => EventKind::IrqEntry { irq: 9, name: "disk" },
            "irqx" => EventKind::IrqExit { irq: 9 },
            "says" => EventKind::Marker { text: line.split_once("says ").unwrap().1 },
            letter => {
                let (letter, minor) = letter.strip_prefix('g').map_or((letter, 0), |letter| (letter, 16));
                block(step(letter).unwrap(), minor, &words[3..], current)
            }
        };
        let time = Nanos::from_micros(words[0].parse().unwrap());
        sink.event(&Event { time, cpu, current: Tid(current), kind });
    }
}

/// `FROM CAUSE` for each piece of the longest wait of thread 7, and its end; empty where none is told.
fn account(script: &'static str) -> String {
    let mut builder = BlameBuilder::of_waits(Wanted { tids: vec![Tid(7)], ..Wanted::default() }, 1);
    feed(script, &mut builder);
    let blames = builder.finish();
    let Some(worst) = blames.worst.first() else { return String::new() };
    let rule = |rule: RuleId| match blames.rules.get(usize::from(rule.0)) {
        Some(words) if !words.is_empty() => format!(" by {words}"),
        _ => String::new(),
    };
    let word = |cause| match cause {
        Cause::Disk(DiskCause::Scheduler(by, of)) => format!("scheduler:{}{}", by.comm, rule(of)),
        Cause::Disk(DiskCause::Held(of)) => format!("held{}", rule(of)),
        Cause::Disk(DiskCause::Unscheduled(by)) => {
            format!("unscheduled{}", by.map(|by| format!(":{}", by.comm)).unwrap_or_default())
        }
        Cause::Disk(DiskCause::Device(by)) => format!("device:{}", by.comm),
        Cause::Disk(other) => format!("{other:?}").to_lowercase(),
        Cause::Thread(culprit) => culprit.comm.to_string(),
        Cause::Irq(irq) => format!("irq{irq}"),
        other => format!("{other:?}").to_lowercase(),
    };
    let mut told: Vec<String> = Vec::new();
    for piece in &worst.chain.pieces {
        told.push(format!("{} {}", piece.from.get() / 1000, word(piece.cause)));
    }
    told.push((worst.chain.job.completion.get() / 1000).to_string());
    told.join("; ")
}

#[test]
fn every_part_of_a_wait_is_told() {
    for (what, script, expected) in [
        (
            "behind another's request in the scheduler, then in a device of two, woken in the interrupt, then behind a thread",
            "1 0@8 sw 0 8
             2 0@8 Q W 100 8
             3 0@8 I W 100 8
             4 0@8 D W 100 8
             5 0@8 sw 8:S 7
             6 0@7 Q R 0 8
             7 0@7 G R 0 8
             8 0@7 I R 0 8
             9 0@7 sw 7:D 8
             12 1@0 irq
             13 1@0 C W 100 8
             14 1@0 D R 0 8
             15 1@0 irqx
             30 0@8 irq
             31 0@8 C R 0 8
             33 0@8 waking 7
             34 0@8 irqx
             40 0@8 sw 8:R+ 7
             50 0@7 sw 7:S 0",
            "9 scheduler:t8; 13 held; 14 service; 31 completed; 33 irq9; 34 t8; 40",
        ),
        (
            "side by side in the device: until the last completion before its own it is behind that one",
            "1 0@8 sw 0 8
             2 0@8 Q R 100 8
             3 0@8 D R 100 8
             4 0@8 Q R 200 8
             5 0@8 D R 200 8
             6 0@8 sw 8:S 7
             7 0@7 Q R 0 8
             8 0@7 D R 0 8
             9 0@7 sw 7:D 0
             20 1@0 irq
             21 1@0 C R 100 8
             22 1@0 irqx
             24 0@0 irq
             25 0@0 C R 0 8
             26 0@0 waking 7
             27 0@0 irqx
             28 0@0 sw 0 7
             29 0@7 sw 7:S 0",
            "9 device:t8; 21 service; 25 completed; 26 irq9; 27 idle; 28",
        ),
        (
            "what a simulated disk says: behind others, overhead, seek, rotation, transfer, and the rules",
            "1 0@8 sw 0 8
             2 0@8 Q W 100 8
             2 0@8 I W 100 8
             3 0@8 D W 100 8
             4 0@8 sw 8:S 7
             5 0@7 Q R 0 8
             5 0@7 I R 0 8
             6 0@7 sw 7:D 0
             19 0@0 says surety:d:8:0:100:0:0:0:0:16000:first, come
             19 0@0 C W 100 8
             20 0@0 D R 0 8
             30 0@0 says surety:d:8:0:0:1000:2000:3000:4000:0:nearest
             30 0@0 C R 0 8
             30 0@0 waking 7
             30 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "6 scheduler:t8 by first, come; 19 held by nearest; 20 device:; 21 overhead; 23 seek; 26 rotation; 30",
        ),
        (
            "a bio that another's request took along; requests that were joined; one that the driver gave back",
            "1 0@8 sw 0 8
             2 0@8 Q R 0 8
             2 0@8 G R 0 8
             2 0@8 I R 0 8
             3 0@8 Q R 16 8
             3 0@8 I R 16 8
             4 0@8 sw 8:S 7
             5 0@7 Q R 8 8
             6 0@7 M R 8 8
             6 0@7 J R 16 8
             7 0@7 sw 7:D 0
             10 0@0 D R 0 24
             11 0@0 R R 0 24
             15 0@0 D R 0 24
             20 0@0 C R 0 8
             25 0@0 C R 8 16
             25 0@0 waking 7
             26 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "7 held; 15 service; 25 idle; 26",
        ),
        (
            "a page that another thread has read",
            "1 0@8 sw 0 8
             2 0@8 Q R 0 8
             3 0@8 D R 0 8
             4 0@8 sw 8:S 7
             5 0@7 sw 7:D 0
             9 0@0 irq
             10 0@0 C R 0 8
             11 0@0 waking 7
             12 0@0 irqx
             13 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "5 service; 10 completed; 11 irq9; 12 idle; 13",
        ),
        (
            "two threads wait for a flush each, one after the other",
            "1 0@8 sw 0 8
             2 0@8 Q FWS 0 0
             3 0@8 D FF 0 0
             4 0@8 sw 8:D 7
             5 0@7 Q FF 0 0
             6 0@7 sw 7:D 0
             10 0@0 C FF 0 0
             10 0@0 waking 8
             10 0@0 D FF 0 0
             11 0@0 sw 0 8
             19 0@8 sw 8:S 0
             20 0@0 C FF 18446744073709551615 0
             20 0@0 waking 7
             22 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "6 unscheduled; 10 service; 20 idle; 22",
        ),
        (
            "who sleeps so that a signal wakes it, and is woken by another thread, did not wait for its request",
            "1 0@0 sw 0 7
             2 0@7 Q R 0 8
             3 0@7 D R 0 8
             4 0@7 sw 7:S 8
             10 1@0 irq
             11 1@0 C R 0 8
             12 1@0 irqx
             20 0@8 waking 7
             21 0@8 sw 8:S 7
             40 0@7 sw 7:S 0",
            "",
        ),
        (
            "who has read ahead and sleeps until another thread hands over to it, which a completion woke at the same instant",
            "1 0@0 sw 0 7
             2 0@7 Q RA 0 8
             3 0@7 D RA 0 8
             4 0@7 sw 7:S 8
             5 0@8 Q R 100 8
             6 0@8 D R 100 8
             7 0@8 sw 8:D 0
             10 0@0 C RA 0 8
             20 0@0 C R 100 8
             20 0@0 irq
             20 0@0 waking 8
             20 0@0 irqx
             20 0@0 sw 0 8
             20 0@8 waking 7
             20 0@8 sw 8:S 7
             40 0@7 sw 7:S 0",
            "",
        ),
        (
            "who sleeps until an instant, and the timer's interrupt comes on top of one in which another's completion was told",
            "1 0@0 sw 0 8
             2 0@8 Q R 0 8
             3 0@8 D R 0 8
             4 0@8 sw 8:D 7
             5 0@7 sw 7:S 0
             20 0@0 irq
             20 0@0 C R 0 8
             21 0@0 vec
             22 0@0 waking 7
             23 0@0 vecx
             24 0@0 waking 8
             25 0@0 irqx
             26 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "",
        ),
        (
            "two threads woken in interrupts of one completion, the first of which runs at once",
            "1 0@0 sw 0 8
             2 0@8 Q R 0 8
             3 0@8 D R 0 8
             4 0@8 sw 8:D 7
             5 0@7 sw 7:D 0
             20 0@0 C R 0 8
             20 0@0 irq
             20 0@0 waking 8
             20 0@0 irqx
             20 0@0 sw 0 8
             20 0@8 irq
             20 0@8 waking 7
             20 0@8 irqx
             22 0@8 sw 8:S 7
             40 0@7 sw 7:S 0",
            "5 service; 20 t8; 22",
        ),
        (
            "no request free for a bio that it has queued: what completes meanwhile, its own too, is not what it waits for",
            "1 0@8 sw 0 8
             2 0@8 Q R 200 8
             2 0@8 G R 200 8
             2 0@8 I R 200 8
             3 0@8 sw 8:S 7
             4 0@7 Q RA 0 8
             4 0@7 G RA 0 8
             4 0@7 I RA 0 8
             4 0@7 D RA 0 8
             5 0@7 Q RA 100 8
             6 0@7 sw 7:D 0
             10 0@0 C RA 0 8
             11 0@0 D R 200 8
             30 0@0 C R 200 8
             30 0@0 irq
             30 0@0 waking 7
             30 0@0 irqx
             31 0@0 sw 0 7
             31 0@7 G RA 100 8
             40 0@7 sw 7:S 0",
            "6 unscheduled:t7; 10 unscheduled; 11 unscheduled:t8; 30 idle; 31",
        ),
        (
            "no request free for the bio whose completion it waited for, then a plug",
            "1 0@8 sw 0 8
             2 0@8 Q R 200 8
             2 0@8 G R 200 8
             2 0@8 D R 200 8
             3 0@8 Q RA 0 8
             4 0@8 sw 8:D 7
             5 0@7 sw 7:D 0
             10 0@0 C R 200 8
             10 0@0 irq
             10 0@0 waking 8
             10 0@0 irqx
             11 0@0 sw 0 8
             12 0@8 G RA 0 8
             14 0@8 I RA 0 8
             14 0@8 D RA 0 8
             15 0@8 sw 8:S 0
             20 0@0 C RA 0 8
             20 0@0 irq
             20 0@0 waking 7
             20 0@0 irqx
             22 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "5 unscheduled:t8; 10 unscheduled; 14 service; 20 idle; 22",
        ),
        (
            "its own write is complete, and it sleeps until another's of the same file is",
            "1 0@8 sw 0 8
             2 0@8 Q W 100 8
             2 0@8 G W 100 8
             2 0@8 I W 100 8
             3 0@8 sw 8:S 7
             4 0@7 Q WS 0 8
             4 0@7 G WS 0 8
             4 0@7 D WS 0 8
             5 0@7 sw 7:D 0
             10 0@0 C WS 0 8
             10 0@0 D W 100 8
             30 0@0 irq
             30 0@0 C W 100 8
             32 0@0 waking 7
             33 0@0 irqx
             34 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "5 scheduler:t7; 10 service; 30 completed; 32 irq9; 33 idle; 34",
        ),
    ] {
        assert_eq!(account(script), expected, "{what}");
    }
}

/// A guest's request is at what the host's disk does with the last of those made for it there.
#[test]
fn a_guests_wait_is_told_down_to_the_hosts_disk() {
    for (what, script, expected) in [
        (
            "in two pieces on the host's disk, behind another guest's request",
            "1 0@0 sw 0 7
             1 0@7 says surety:g:8:16:8:0:1000:500:vm/a
             2 0@7 Q R 2000 8 vm/b
             2 0@7 I R 2000 8 vm/b
             2 0@7 D R 2000 8 vm/b
             3 0@7 gQ R 100 16
             3 0@7 gI R 100 16
             3 0@7 gD R 100 16
             3 0@7 Q R 1100 8 vm/a
             3 0@7 Q R 1108 8 vm/a
             3 0@7 I R 1100 8 vm/a
             3 0@7 I R 1108 8 vm/a
             4 0@7 sw 7:D 0
             10 0@0 C R 2000 8
             10 0@0 D R 1100 8
             20 0@0 C R 1100 8
             20 0@0 D R 1108 8
             30 0@0 says surety:d:8:0:1108:0:1000:2000:3000:4000:nearest
             30 0@0 C R 1108 8
             30 0@0 says surety:d:8:16:100:17000:1000:2000:3000:4000:order of arrival
             30 0@0 gC R 100 16
             30 0@0 irq
             30 0@0 waking 7
             30 0@0 irqx
             31 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "4 scheduler:vm/b; 10 scheduler:vm/a; 20 overhead; 21 seek; 23 rotation; 26 transfer; 30 idle; 31",
        ),
        (
            "a flush",
            "1 0@0 sw 0 7
             1 0@7 says surety:g:8:16:8:0:1000:500:vm/a
             2 0@7 Q W 2000 8 vm/b
             2 0@7 D W 2000 8 vm/b
             3 0@7 gQ FF 0 0
             3 0@7 gD FF 0 0
             3 0@7 Q FF 0 0 vm/a
             4 0@7 sw 7:D 0
             10 0@0 C W 2000 8
             10 0@0 D FF 0 0
             30 0@0 C FF 0 0
             30 0@0 gC FF 0 0
             30 0@0 irq
             30 0@0 waking 7
             30 0@0 irqx
             31 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "4 unscheduled; 10 service; 30 idle; 31",
        ),
        (
            "what lies elsewhere on the host's disk, or was there before, is not for it",
            "1 0@0 sw 0 7
             1 0@7 says surety:g:8:16:8:0:1000:500:vm/a
             1 0@7 Q R 1100 8 vm/a
             1 0@7 D R 1100 8 vm/a
             3 0@7 gQ R 100 8
             3 0@7 gD R 100 8
             3 0@7 sw 7:D 0
             10 0@0 C R 1100 8
             30 0@0 gC R 100 8
             30 0@0 irq
             30 0@0 waking 7
             30 0@0 irqx
             31 0@0 sw 0 7
             40 0@7 sw 7:S 0",
            "3 service; 30 idle; 31",
        ),
    ] {
        assert_eq!(account(script), expected, "{what}");
    }
}

/// In a marked job the wait for the disk is one of its parts, beside its own CPU time.
#[test]
fn a_marked_job_has_its_reads_in_its_account() {
    let script = "1 0@0 sw 0 7
        2 0@7 says surety:b:0:1000
        3 0@7 Q R 0 8
        3 0@7 D R 0 8
        4 0@7 sw 7:D 0
        10 0@0 irq
        11 0@0 C R 0 8
        12 0@0 waking 7
        13 0@0 irqx
        14 0@0 sw 0 7
        20 0@7 says surety:e:0
        30 0@7 sw 7:S 0";
    let mut builder = BlameBuilder::new(Wanted { tids: vec![Tid(7)], ..Wanted::default() }, 1);
    feed(script, &mut builder);
    let blames = builder.finish();
    let time = |cause| blames.all.causes.get(&cause).copied();
    assert_eq!(time(Cause::Disk(DiskCause::Service)), Some(Nanos::from_micros(7)));
    assert_eq!(time(Cause::Disk(DiskCause::Completed)), Some(Nanos::from_micros(1)));
    assert_eq!(time(Cause::Own), Some(Nanos::from_micros(9)));
    assert_eq!(blames.all.causes.values().copied().sum::<Nanos>(), Nanos::from_micros(19));
}

/// Memory is bounded: bios that never come back, disks and rules without end.
#[test]
fn what_never_ends_is_bounded() {
    let mut disks = Disks::default();
    for k in 0..(BIOS_MAX as u64 + 100) {
        let EventKind::Block(mut event) = block(BlockStep::BioQueued, 0, &["R", "0", "8"], 7) else {
            panic!()
        };
        event.sector = k * 8;
        event.disk.minor = if k % 2 == 0 { 0 } else { (k % 1000) as u32 };
        let kind = EventKind::Block(event);
        disks.event(&Event { time: Nanos::new(1), cpu: CpuId(0), current: Tid(7), kind });
        let text = format!("surety:d:8:0:1:0:0:0:0:0:rule {k}");
        let kind = EventKind::Marker { text: &text };
        disks.event(&Event { time: Nanos::new(1), cpu: CpuId(0), current: Tid(7), kind });
    }
    assert_eq!((disks.disks.len(), disks.rules.len()), (DISKS_MAX, RULES_MAX));
    assert!(disks.disks.iter().all(|disk| disk.bios.len() <= BIOS_MAX));
}
