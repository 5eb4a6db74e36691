//! The texts of arguments, as kernels and tools print them, and what becomes of them.

use super::*;
use surety_model::event::TimerFunction;

fn read<'l>(event: &str, arguments: &'l str) -> Option<EventKind<'l>> {
    kind(Known::of(event).unwrap().1, arguments.as_bytes(), &StateTable::usual())
}

fn comm_of(name: &str) -> surety_model::event::Comm {
    comm(name.as_bytes())
}

/// Names that look like what surrounds them, in every form.
const NAMES: &[&str] = &[
    "player",
    "a b",
    "a:1",
    "a:1 [120]",
    ":",
    "-",
    "",
    "a pid=1",
    "x prio=3",
    " ==> ",
    "a:0 [1] R ==>",
    "[120]",
    "kworker/0:1H",
];

#[test]
fn switches_are_read_in_every_form_whatever_the_names() {
    let states = [
        ("R", "0", LeaveState::Runnable { preempted: false }),
        ("R+", "256", LeaveState::Runnable { preempted: true }),
        ("S", "1", LeaveState::Sleeping),
        ("D", "2", LeaveState::Uninterruptible),
        ("T", "4", LeaveState::Stopped),
        ("t", "8", LeaveState::Stopped),
        ("X", "16", LeaveState::Dead),
        ("Z", "32", LeaveState::Dead),
        ("P", "64", LeaveState::Other(b'P')),
        ("I", "128", LeaveState::Other(b'I')),
        ("D|I", "130", LeaveState::Uninterruptible),
        ("R+", "4096", LeaveState::Runnable { preempted: true }),
        ("q", "0", LeaveState::Other(b'q')),
    ];
    for prev in NAMES {
        for next in NAMES {
            for (letters, number, state) in states {
                let expected = |prev_state| EventKind::Switch {
                    prev: Tid(123),
                    prev_comm: comm_of(prev),
                    prev_prio: -1,
                    prev_state,
                    next: Tid(0),
                    next_comm: comm_of(next),
                    next_prio: 120,
                };
                let keyed = format!(
                    "prev_comm={prev} prev_pid=123 prev_prio=-1 prev_state={letters} ==> next_comm={next} next_pid=0 next_prio=120"
                );
                assert_eq!(read("sched_switch", &keyed), Some(expected(state)), "{keyed}");
                let short = format!("{prev}:123 [-1] {letters} ==> {next}:0 [120]");
                if short.starts_with(' ') || short.starts_with("a:0 [1] R ==>") {
                    // Padding and a name that begins with a space cannot be told apart, nor a name that is a switch.
                    continue;
                }
                assert_eq!(read("sched_switch", &short), Some(expected(state)), "{short}");
                if letters == "q" {
                    continue;
                }
                let raw = format!(
                    "prev_comm={prev} prev_pid=123 prev_prio=-1 prev_state={number} next_comm={next} next_pid=0 next_prio=120"
                );
                assert_eq!(read("sched_switch", &raw), Some(expected(state)), "{raw}");
            }
        }
    }
}

#[test]
fn wake_ups_are_read_in_every_form_whatever_the_names() {
    for name in NAMES {
        let expected = Woken { tid: Tid(7), comm: comm_of(name), prio: 120, target: CpuId(3) };
        for text in [
            format!("comm={name} pid=7 prio=120 target_cpu=003"),
            format!("comm={name} pid=7 prio=120 success=1 target_cpu=003"),
            format!("{name}:7 [120] success=1 CPU:003"),
            format!("{name}:7 [120] CPU:003"),
        ] {
            if text.starts_with(' ') {
                continue;
            }
            assert_eq!(read("sched_waking", &text), Some(EventKind::Waking(expected)), "{text}");
            assert_eq!(read("sched_wakeup", &text), Some(EventKind::Wakeup(expected)), "{text}");
            assert_eq!(read("sched_wakeup_new", &text), Some(EventKind::WakeupNew(expected)), "{text}");
        }
        let migrate = format!("comm={name} pid=7 prio=120 orig_cpu=0 dest_cpu=5");
        let expected = EventKind::Migrate { tid: Tid(7), comm: comm_of(name), from: CpuId(0), to: CpuId(5) };
        assert_eq!(read("sched_migrate_task", &migrate), Some(expected), "{migrate}");
        let exit = format!("comm={name} pid=7 prio=120 group_dead=true");
        assert_eq!(
            read("sched_process_exit", &exit),
            Some(EventKind::Exit { tid: Tid(7), comm: comm_of(name) })
        );
        let expected = EventKind::Fork { parent: Tid(6), child: Tid(7), child_comm: comm_of(name) };
        for fork in [
            format!("comm={name} pid=6 child_comm={name} child_pid=7"),
            format!("parent_comm={name} parent_pid=6 child_comm={name} child_pid=7"),
        ] {
            assert_eq!(read("sched_process_fork", &fork), Some(expected), "{fork}");
        }
    }
}

#[test]
fn interrupts_timers_and_marks_are_read() {
    let timer = 0x0000_0000_78a9_5970;
    for (event, arguments, expected) in [
        (
            "sched_process_exec",
            "filename=/bin/a pid=1 b pid=8 old_pid=7",
            EventKind::Exec { tid: Tid(8), old: Tid(7) },
        ),
        (
            "irq_handler_entry",
            "irq=24 name=virtio0-input.0",
            EventKind::IrqEntry { irq: 24, name: "virtio0-input.0" },
        ),
        ("irq_handler_exit", "irq=24 ret=handled", EventKind::IrqExit { irq: 24 }),
        ("local_timer_entry", "vector=236", EventKind::VectorEntry { name: "local_timer" }),
        ("call_function_single_exit", "vector=251", EventKind::VectorExit { name: "call_function_single" }),
        ("softirq_raise", "vec=7 [action=SCHED]", EventKind::SoftirqRaise { vector: 7 }),
        ("softirq_entry", "vec=1", EventKind::SoftirqEntry { vector: 1 }),
        ("softirq_exit", "[action=NET_RX]", EventKind::SoftirqExit { vector: 3 }),
        (
            "hrtimer_start",
            "hrtimer=0000000078a95970 function=dl_task_timer expires=3226892000000 softexpires=3226892000000 mode=ABS",
            EventKind::TimerStart {
                timer,
                function: TimerFunction::DeadlineReplenish,
                expires: Nanos::new(3_226_892_000_000),
            },
        ),
        (
            "hrtimer_start",
            "hrtimer=0x78a95970 function=hrtimer_wakeup/0x0 expires=-5 softexpires=0",
            EventKind::TimerStart { timer, function: TimerFunction::Wakeup, expires: Nanos::new(-5) },
        ),
        (
            "hrtimer_expire_entry",
            "hrtimer=0x78a95970 function=tick_nohz_handler now=3226888031290",
            EventKind::TimerExpire { timer, function: TimerFunction::Tick },
        ),
        (
            "hrtimer_expire_entry",
            "hrtimer=0x78a95970 now=3226888031290 function=0xffffffff81000000",
            EventKind::TimerExpire { timer, function: TimerFunction::Other },
        ),
        (
            "hrtimer_cancel",
            "hrtimer=0xffff888078a95970",
            EventKind::TimerCancel { timer: 0xffff_8880_78a9_5970 },
        ),
        ("tracing_mark_write", " surety:b:0: 1 ", EventKind::Marker { text: " surety:b:0: 1 " }),
        ("print", "   tracing_mark_write: surety:b:0:1", EventKind::Marker { text: "surety:b:0:1" }),
        ("print", "  ip=tracing_mark_write buf=a buf=b", EventKind::Marker { text: "a buf=b" }),
        ("print", " tracing_mark_write:", EventKind::Marker { text: "" }),
    ] {
        assert_eq!(read(event, arguments), Some(expected), "{event}: {arguments}");
    }
}

#[test]
fn what_is_cut_is_no_event() {
    let whole = [
        (
            "sched_switch",
            "prev_comm=a prev_pid=1 prev_prio=2 prev_state=S ==> next_comm=b next_pid=3 next_prio=4",
        ),
        ("sched_switch", "a:1 [120] R ==> b:2 [120]"),
        ("sched_waking", "comm=a pid=1 prio=2 target_cpu=3"),
        ("sched_migrate_task", "comm=a pid=1 prio=2 orig_cpu=3 dest_cpu=4"),
        ("sched_process_fork", "comm=a pid=1 child_comm=b child_pid=2"),
        ("sched_process_exec", "filename=a pid=1 old_pid=2"),
        ("irq_handler_entry", "irq=1 name="),
        ("softirq_raise", "vec=1"),
        ("hrtimer_start", "hrtimer=1 function=a expires=1"),
    ];
    for (event, arguments) in whole {
        assert!(read(event, arguments).is_some(), "{event}: {arguments}");
        for end in 0..arguments.len() {
            assert_eq!(read(event, &arguments[..end]), None, "{event}: {}", &arguments[..end]);
        }
    }
    for (event, arguments) in [
        ("sched_waking", "comm=a pid=1 prio=2 target_cpu=-3"),
        ("sched_waking", "comm=a pid=99999999999 prio=2 target_cpu=3"),
        ("sched_waking", "comm=a-name-of-more-than-15-bytes pid=1 prio=2 target_cpu=3"),
        ("irq_handler_exit", "irq=4294967296"),
        ("softirq_raise", "[action=NOTHING]"),
        ("hrtimer_cancel", "hrtimer=(null)"),
    ] {
        assert_eq!(read(event, arguments), None, "{event}: {arguments}");
    }
}
