//! `messages` loads: groups of senders and receivers over sockets, held against what the kernel of this machine does with one.

mod common;

use common::{options, share, simulate, workload};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use surety_model::event::{Event, EventKind};
use surety_model::platform::{Overheads, Platform};
use surety_model::record::Record;
use surety_model::world::{Observer, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_units::{CpuSet, Nanos};

const LOAD: &str = "[[load]]\nname = 'talk'\nkind = 'messages'\nmessage-cost = '1us'\n";

fn figure(record: &Record, name: &str) -> f64 {
    let figures = &record.activity("talk").expect("it is there").figures;
    figures.iter().find(|figure| figure.name == name).expect("it has that figure").value
}

/// Switches to threads of the load, and how often they were woken.
#[derive(Default)]
struct Counted {
    switches: u64,
    wakeups: u64,
}

impl Observer for Counted {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Switch { next, .. } => self.switches += u64::from(next.0 != 0),
            EventKind::Wakeup(_) => self.wakeups += 1,
            _ => {}
        }
    }
}

fn counted(text: &str, platform: Platform) -> (Record, Counted) {
    let mut counted = Counted::default();
    let options = surety_model::world::RunOptions { warm_up: Nanos::ZERO, ..options(1, platform.cpus) };
    let record = SimWorld::new(platform).run(&workload(text), &options, &mut counted).expect("it runs");
    (record, counted)
}

/// Every message costs what it is said to: a CPU that does nothing else carries a million of 1 us in a second. Two carry more, and less than the
/// double: a sender waits for one receiver while others have nothing to read.
#[test]
fn a_cpu_carries_as_many_messages_as_they_cost() {
    let one = simulate(LOAD, 2, 1);
    let messages = figure(&one, "messages");
    assert!((messages / 1e6 - 1.0).abs() < 0.01, "{messages}");
    assert!((share(&one, "talk") - 1.0).abs() < 0.01);
    assert!((figure(&one, "rate") - messages * 100.0).abs() < 1.0);
    assert_eq!(one.activity("talk").unwrap().share.as_ref().unwrap().threads.len(), 20);
    let two = figure(&simulate(LOAD, 2, 2), "messages");
    assert!(two > messages * 1.5 && two <= messages * 2.0, "{two} of {messages}");
}

/// Under FIFO a sender goes on until a socket is full, and each receiver until its own is empty: 20 switches for 2780 messages. Linux 6.18 on one
/// CPU carried 928,000 messages in a second with 6,752 switches to processes of the load, 0.00728 for a message.
#[test]
fn under_fifo_a_switch_is_for_as_many_messages_as_on_the_host() {
    let (record, counted) = counted(&format!("{LOAD}policy = 'fifo:1'\n"), Platform::linux_6_18(1));
    let messages = figure(&record, "messages");
    let (switches, wakeups) = (counted.switches as f64 / messages, counted.wakeups as f64 / messages);
    assert!((switches / 0.00728 - 1.0).abs() < 0.03, "{switches} switches for a message");
    assert!((wakeups / switches - 1.0).abs() < 0.03, "{wakeups} wake-ups for a message");
}

/// Costs of wake-ups and switches come on top, so fewer messages are carried.
#[test]
fn wake_ups_and_switches_are_priced() {
    let overheads =
        Overheads { switch: Nanos::from_micros(5), wakeup: Nanos::from_micros(5), ..Overheads::default() };
    let plain = figure(&counted(LOAD, Platform::linux_6_18(1)).0, "messages");
    let (record, counted) = counted(LOAD, Platform { overheads, ..Platform::linux_6_18(1) });
    let messages = figure(&record, "messages");
    let least = 5e-6 * (counted.switches.min(counted.wakeups)) as f64;
    assert!(messages < plain * (1.0 - least), "{messages} of {plain}, {least} s at least for these");
}

/// How many messages a socket takes that nobody reads (`talker.rs` computes the same) is what the kernel of this machine takes, where its
/// buffers have their usual size.
#[test]
fn a_socket_of_the_kernel_takes_as_many_messages_as_a_simulated_one() {
    let usual = std::fs::read_to_string("/proc/sys/net/core/wmem_default");
    if !usual.as_ref().is_ok_and(|bytes| bytes.trim() == "212992") {
        eprintln!("SKIPPED: the sockets of this machine have buffers of another size: {usual:?}");
        return;
    }
    for (block, most) in [(100, 278), (192, 278), (193, 167), (1000, 93), (3776, 49)] {
        let (mut write, _read) = UnixStream::pair().unwrap();
        write.set_nonblocking(true).unwrap();
        let message = vec![1; block];
        let mut taken = 0;
        let end = loop {
            match write.write_all(&message) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((taken, end.kind()), (most, ErrorKind::WouldBlock), "{block}");
    }
}

#[test]
fn what_is_not_known_of_messages_is_refused() {
    let refused = |text: &str| {
        let world = SimWorld::new(Platform::linux_6_18(1));
        let workload = workload(text);
        assert_eq!(world.objections(&workload).len(), 1);
        world.run(&workload, &options(1, 1), &mut Unobserved).unwrap_err().to_string()
    };
    for (keys, why) in [
        ("", "add `message-cost`"),
        ("message-cost = '10ns'\n", "is simulated from 100 ns to 1.000 ms, not 10 ns"),
        ("message-cost = '2us'\nblock = '4KiB'\n", "messages of up to 3776 bytes"),
    ] {
        let said = refused(&format!("[[load]]\nname = 'talk'\nkind = 'messages'\n{keys}"));
        assert!(said.contains("load.talk") && said.contains(why), "{said}");
    }
    // A group of its own, and CPUs of it.
    let text = format!("{LOAD}group = 'g'\n[[group]]\nname = 'g'\ncpus = '1'\n");
    let record = simulate(&text, 1, 2);
    assert!((share(&record, "talk") - 1.0).abs() < 0.01);
    assert!(
        record
            .in_force
            .threads
            .iter()
            .all(|thread| thread.affinity == CpuSet::single(surety_units::CpuId(1)))
    );
}
