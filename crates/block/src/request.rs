//! [`Bio`], [`Request`] and the processes they are of.
//!
//! Sectors have 512 bytes. A request is made from one bio and grows as adjacent ones are merged into it; it keeps the list of
//! its bios, and with its completion all of them are done.

mod by_arrival;

use surety_units::Nanos;

pub(crate) use by_arrival::{ByArrival, Ends, Links};

/// What is done to the sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Read,
    Write,
    Discard,
    /// The device's volatile cache goes to the medium; no sectors.
    Flush,
}

/// Class of an I/O priority (`ioprio_set(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    Realtime,
    /// Of a process without a priority of its own, too.
    #[default]
    BestEffort,
    Idle,
}

impl IoClass {
    /// Number of classes.
    pub const COUNT: usize = 3;

    /// Its place, the most important first.
    pub fn place(self) -> usize {
        self as usize
    }
}

/// An I/O priority: its class, and its level from 0, the most important, to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    pub class: IoClass,
    /// 0 to 7; the class idle has none.
    pub level: u8,
}

impl Default for Priority {
    /// Best effort, level 4: what the kernel derives from nice 0.
    fn default() -> Priority {
        Priority { class: IoClass::BestEffort, level: 4 }
    }
}

/// A process, by its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// Index into lists that have an entry for every process.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A control group, of which a disk's I/O scheduler may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoGroup {
    /// `io.bfq.weight`, 1 to 1000.
    pub weight: u32,
    /// The group it is in, by its place in the list of all; `None`: the root.
    pub parent: Option<usize>,
}

/// What schedulers know of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub priority: Priority,
    /// Its control group, by its place in the list of all; `None`: the root.
    pub group: Option<usize>,
}

/// A bio, by number; numbers are given by whoever submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BioId(pub u32);

/// What a process asks of a disk at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    pub op: Op,
    /// Somebody waits for it: every read, and writes that are `O_DIRECT` or `fsync`'s.
    pub sync: bool,
    /// Metadata (`REQ_META`).
    pub meta: bool,
    /// What the page cache writes, whoever waits for it: not what a program writes past it.
    pub cached: bool,
    /// First sector.
    pub sector: u64,
    /// Above zero, unless it is a flush.
    pub sectors: u32,
    pub process: ProcessId,
    /// When its process is late without it; `None`: its process has not said. The kernel's bios have none.
    pub deadline: Option<Nanos>,
}

impl Bio {
    /// The first sector after it.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// A request of a queue, by number; the numbers of completed requests are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// Its place in lists that have an entry for every request.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Adjacent bios on their way to the driver together: a line of memory, of which thousands that wait have one each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Request {
    pub op: Op,
    pub sync: bool,
    pub meta: bool,
    pub cached: bool,
    pub sector: u64,
    pub sectors: u32,
    /// Who submitted its first bio.
    pub process: ProcessId,
    /// Its priority when it was made.
    pub priority: Priority,
    /// Place in the order in which requests were made.
    pub sequence: u64,
    /// The earliest deadline of its bios; [`NEVER`]: none has one.
    deadline: Nanos,
    /// When it came to the elevator.
    pub inserted: Nanos,
    /// When the driver took it; before, when it was made.
    pub issued: Nanos,
    /// Its only bio, where it has no list of them.
    bio: BioId,
    /// The place of the list of its bios; [`ONE`]: it has none.
    list: u32,
}

/// Later than any deadline.
const NEVER: Nanos = Nanos::MAX;
/// No list has this place.
const ONE: u32 = u32::MAX;

impl Request {
    /// The first sector after it.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    /// The earliest deadline of its bios, if any has one.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.deadline != NEVER).then_some(self.deadline)
    }
}

/// The requests of a queue.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    slots: Vec<Request>,
    free: Vec<RequestId>,
    made: u64,
    /// Bios of requests that have had more than one, in the order of their sectors.
    lists: Vec<Vec<BioId>>,
    free_lists: Vec<u32>,
    /// Their places in the order of arrival.
    pub(crate) links: Links,
}

impl Requests {
    /// Makes a request from a bio at an instant.
    ///
    /// # Panics
    /// Beyond 2^32 - 1 requests at a time.
    pub fn make(&mut self, bio: &Bio, id: BioId, priority: Priority, now: Nanos) -> RequestId {
        let sequence = self.made;
        self.made += 1;
        let fresh = Request {
            op: bio.op,
            sync: bio.sync,
            meta: bio.meta,
            cached: bio.cached,
            sector: bio.sector,
            sectors: bio.sectors,
            process: bio.process,
            priority,
            sequence,
            deadline: bio.deadline.unwrap_or(NEVER),
            inserted: now,
            issued: now,
            bio: id,
            list: ONE,
        };
        match self.free.pop() {
            Some(free) => {
                self.drop_list(free);
                self.slots[free.index()] = fresh;
                free
            }
            None => {
                let number = u32::try_from(self.slots.len()).ok().filter(|number| *number < u32::MAX);
                self.slots.push(fresh);
                RequestId(number.expect("fewer than 2^32 requests"))
            }
        }
    }

    #[inline]
    fn drop_list(&mut self, id: RequestId) {
        let list = std::mem::replace(&mut self.slots[id.index()].list, ONE);
        if list != ONE {
            self.lists[list as usize].clear();
            self.free_lists.push(list);
        }
    }

    /// The bios of a request as a list that can grow.
    fn list(&mut self, id: RequestId) -> &mut Vec<BioId> {
        let request = &mut self.slots[id.index()];
        if request.list == ONE {
            request.list = self.free_lists.pop().unwrap_or_else(|| {
                self.lists.push(Vec::new());
                u32::try_from(self.lists.len() - 1).expect("fewer than 2^32 requests")
            });
            self.lists[request.list as usize].push(request.bio);
        }
        &mut self.lists[request.list as usize]
    }

    /// The bios of a request, in the order of their sectors.
    pub fn bios(&self, id: RequestId) -> &[BioId] {
        let request = &self.slots[id.index()];
        if request.list == ONE {
            std::slice::from_ref(&request.bio)
        } else {
            &self.lists[request.list as usize]
        }
    }

    /// Appends a bio that begins where the request ends.
    pub fn append(&mut self, id: RequestId, bio: &Bio, number: BioId) {
        let request = &mut self.slots[id.index()];
        debug_assert_eq!(request.end(), bio.sector);
        request.sectors += bio.sectors;
        request.deadline = request.deadline.min(bio.deadline.unwrap_or(NEVER));
        self.list(id).push(number);
    }

    /// Puts a bio in front that ends where the request begins.
    pub fn prepend(&mut self, id: RequestId, bio: &Bio, number: BioId) {
        let request = &mut self.slots[id.index()];
        debug_assert_eq!(bio.end(), request.sector);
        request.sector = bio.sector;
        request.sectors += bio.sectors;
        request.deadline = request.deadline.min(bio.deadline.unwrap_or(NEVER));
        self.list(id).insert(0, number);
    }

    /// Appends a request that begins where `kept` ends; `gone` is no more. The earlier instant of insertion stays.
    pub fn join(&mut self, kept: RequestId, gone: RequestId) {
        let mut bios = std::mem::take(self.list(gone));
        self.list(kept).append(&mut bios);
        *self.list(gone) = bios;
        let (sector, sectors, inserted, deadline) = {
            let gone = &self.slots[gone.index()];
            (gone.sector, gone.sectors, gone.inserted, gone.deadline)
        };
        let request = &mut self.slots[kept.index()];
        debug_assert_eq!(request.end(), sector);
        request.sectors += sectors;
        request.inserted = request.inserted.min(inserted);
        request.deadline = request.deadline.min(deadline);
        self.drop_list(gone);
        self.free.push(gone);
    }

    /// The request is completed: its number may be used again. Its bios stay readable until then.
    pub fn release(&mut self, id: RequestId) {
        self.free.push(id);
    }

    /// Requests there are at present.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<RequestId> for Requests {
    type Output = Request;

    fn index(&self, id: RequestId) -> &Request {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.slots[id.index()]
    }
}
