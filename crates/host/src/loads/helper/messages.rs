//! `messages`: many small processes talking. Each is a group of ten senders and ten receivers; every sender writes a
//! message of `block` bytes (100) to each receiver in turn, over sockets of the machine itself.
//!
//! The shape is that of hackbench, whose groups have twenty of each and whose messages have 100 bytes too.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use surety_kernel::process::{Child, fork_child};
use surety_model::record::loads::message_figures;
use surety_model::workload::{Load, LoadKind, MESSAGE_SENDERS};
use surety_model::world::WorldError;
use surety_units::Bytes;

use crate::loads::helper::{Employer, Shift, Task, refusal};
use crate::loads::{Counts, Ground, LoadDriver, LoadWorker, Workers, refused};

/// A larger message would not fit a socket's buffer at once.
const BLOCK_MAX: Bytes = Bytes(64 << 10);
/// Messages a receiver takes between two times that it says so.
const BATCH: u64 = 64;

/// The row of the kind.
pub(crate) const DRIVER: LoadDriver =
    LoadDriver { kind: LoadKind::Messages, most: 100, prepare, figures: message_figures };

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let block = load.block();
    if block > BLOCK_MAX {
        return Err(refused(load, format!("`block` is at most {BLOCK_MAX}")));
    }
    if let Some(why) = refusal() {
        return Err(refused(load, why));
    }
    let task = Task::Messages(usize::try_from(block.0).unwrap_or(1));
    let make =
        |_| Box::new(Employer { task: task.clone(), mark: ground.mark.clone() }) as Box<dyn LoadWorker>;
    Ok((0..count).map(make).collect())
}

/// What the helper does: makes a group, sleeps to the end, and ends it.
pub(crate) fn work(shift: &Shift, bytes: usize) -> Result<(), String> {
    let mut children: Vec<Child> = Vec::new();
    let mut ends = Vec::new();
    for number in 0..u64::from(MESSAGE_SENDERS) {
        let (write, mut read) = UnixStream::pair().map_err(|e| e.to_string())?;
        let receiver = fork_child(|| receive(shift, number, &mut read, bytes));
        children.push(receiver.map_err(|e| e.to_string())?);
        ends.push(write);
    }
    for _ in 0..MESSAGE_SENDERS {
        let message = vec![1; bytes];
        let sender = fork_child(|| while ends.iter_mut().all(|end| end.write_all(&message).is_ok()) {});
        children.push(sender.map_err(|e| e.to_string())?);
    }
    shift.sleep();
    // Those who wait for each other have to be killed.
    drop(children);
    Ok(())
}

fn receive(shift: &Shift, number: u64, end: &mut UnixStream, bytes: usize) {
    let mut message = vec![0; bytes];
    let mut counts = Counts::default();
    while end.read_exact(&mut message).is_ok() {
        counts.rounds += 1;
        counts.bytes += bytes as u64;
        if counts.rounds.is_multiple_of(BATCH) {
            shift.count(number, counts);
        }
    }
}
