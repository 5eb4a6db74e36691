//! [`Talker`]: a process of a `messages` load. Ten senders write one message after another to each of ten receivers in turn, through a socket
//! of each receiver (`host::loads::helper::messages`).
//!
//! A socket (`net/unix/af_unix.c`, `net/core/sock.c`) takes a message while those in it take less than its buffer. Who waits for room is woken
//! when a message was read and a quarter of the buffer at most is taken, all of them at once; the receiver is woken when it waits and
//! one has come.

use surety_model::record::loads::Counts;
use surety_units::Nanos;

use crate::cpu::program::{Moment, Step};

/// Bytes of a socket's buffer: `net.core.wmem_default`.
const BUFFER: u64 = 212_992;
/// What the kernel keeps for a message beside it: `struct sk_buff` with its slab, and `struct skb_shared_info`.
const SKB: u64 = 256;
const SHARED: u64 = 320;
/// The largest message that one slab holds; larger ones are in pages, whose size in memory is not simulated.
pub(in crate::world) const BLOCK_MAX: u64 = 4096 - SHARED;

/// Memory that a message takes: its data lie in a slab of a power of two (`SKB_TRUESIZE`).
fn memory(block: u64) -> u64 {
    SKB + (block + SHARED).next_power_of_two().max(512)
}

/// A socket, with the events for which its receiver and its senders wait.
#[derive(Clone, Debug)]
pub(in crate::world) struct Socket {
    data: usize,
    room: usize,
    /// Messages that take room, those being written and read too, and those that can be read.
    held: u64,
    ready: u64,
    /// How many fit.
    most: u64,
    receiver_waits: bool,
    senders_wait: bool,
}

impl Socket {
    /// An empty one for messages of this size.
    pub(in crate::world) fn new(data: usize, room: usize, block: u64) -> Socket {
        let most = BUFFER.div_ceil(memory(block));
        Socket { data, room, held: 0, ready: 0, most, receiver_waits: false, senders_wait: false }
    }
}

/// What it is about to do.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// To look at its socket.
    Looks,
    /// Has written or read a message.
    Moved,
}

/// One process: a sender to all sockets of its group, or the receiver of one.
#[derive(Clone, Debug)]
pub(in crate::world) struct Talker {
    /// The first socket of its group, and how many there are.
    sockets: (usize, usize),
    /// The one it is at.
    at: usize,
    sends: bool,
    /// CPU time of its part of a message.
    cost: Nanos,
    block: u64,
    stage: Stage,
    /// From when on messages count.
    observe: Nanos,
    done: Counts,
}

impl Talker {
    /// One that writes to each of the sockets.
    pub(in crate::world) fn sender(sockets: (usize, usize), cost: Nanos) -> Talker {
        let (stage, done) = (Stage::Looks, Counts::default());
        Talker { sockets, at: 0, sends: true, cost, block: 0, stage, observe: Nanos::ZERO, done }
    }

    /// The one that reads from a socket, messages of `block` bytes.
    pub(in crate::world) fn receiver(socket: usize, cost: Nanos, block: u64, observe: Nanos) -> Talker {
        Talker { sends: false, block, observe, ..Talker::sender((socket, 1), cost) }
    }

    /// Messages it received while it was observed, and their bytes.
    pub(in crate::world) fn done(&self) -> Counts {
        self.done
    }

    pub(in crate::world) fn next(&mut self, at: Moment, sockets: &mut [Socket]) -> Step {
        let socket = &mut sockets[self.sockets.0 + self.at];
        match (self.stage, self.sends) {
            (Stage::Looks, true) if socket.held >= socket.most => {
                socket.senders_wait = true;
                Step::Wait(socket.room)
            }
            (Stage::Looks, false) if socket.ready == 0 => {
                socket.receiver_waits = true;
                Step::Wait(socket.data)
            }
            (Stage::Looks, sends) => {
                if sends {
                    socket.held += 1;
                } else {
                    socket.ready -= 1;
                }
                self.stage = Stage::Moved;
                Step::Run(self.cost)
            }
            (Stage::Moved, true) => {
                socket.ready += 1;
                let wakes = std::mem::take(&mut socket.receiver_waits).then_some(socket.data);
                self.at = (self.at + 1) % self.sockets.1;
                self.goes_on(wakes, at, sockets)
            }
            (Stage::Moved, false) => {
                socket.held -= 1;
                if at.now >= self.observe {
                    self.done.rounds += 1;
                    self.done.bytes += self.block;
                }
                let has_room = socket.held * 4 <= socket.most;
                let wakes = (has_room && std::mem::take(&mut socket.senders_wait)).then_some(socket.room);
                self.goes_on(wakes, at, sockets)
            }
        }
    }

    /// Wakes who waits for this event, where somebody does, and looks at its socket next.
    fn goes_on(&mut self, wakes: Option<usize>, at: Moment, sockets: &mut [Socket]) -> Step {
        self.stage = Stage::Looks;
        match wakes {
            Some(event) => Step::SignalAll(event),
            None => self.next(at, sockets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes take 768, so that 278 messages fit. Linux 6.18 took 278 of 100 and of 192 bytes, 167 of 193, 93 of 1000 and 49 of 3776, and had
    /// room again with 69, 69, 41, 23 and 12 of them unread.
    #[test]
    fn a_message_takes_its_slab() {
        let most = |block| Socket::new(0, 0, block).most;
        assert_eq!((memory(100), memory(192), memory(193), memory(BLOCK_MAX)), (768, 768, 1280, 4352));
        assert_eq!([100, 192, 193, 1000, BLOCK_MAX].map(most), [278, 278, 167, 93, 49]);
    }
}
