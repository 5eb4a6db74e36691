//! Pages as a busy machine would record them, written through this kernel's own formats: a tick that wakes a thread,
//! the thread's run with a device interrupt on top, and its sleep.

use std::collections::BTreeMap;

use surety_trace::EventFormat;

/// Events of one round on one CPU.
pub const ROUND: usize = 14;
const PAGE: usize = 4096;

/// Writes the records of one CPU.
pub struct Writer {
    formats: BTreeMap<String, EventFormat>,
    current: i32,
    time: u64,
    pages: Vec<u8>,
    body: Vec<u8>,
    start: u64,
    last: u64,
}

impl Writer {
    /// A writer by these formats.
    pub fn new(formats: &[(String, String)]) -> Writer {
        let parse = |(name, text): &(String, String)| {
            let format = EventFormat::parse(name.split(':').next().unwrap(), text).unwrap();
            (format.name.clone(), format)
        };
        Writer {
            formats: formats.iter().map(parse).collect(),
            current: 0,
            time: 1_000_000_000,
            pages: Vec::new(),
            body: Vec::new(),
            start: 0,
            last: 0,
        }
    }

    /// One record, `step` nanoseconds after the last.
    fn event(&mut self, step: u64, name: &str, values: &[(&str, u64)], comms: &[(&str, &str)]) {
        self.time += step;
        let format = &self.formats[name];
        let size = format.fields.iter().map(|f| f.offset + f.size).max().unwrap().next_multiple_of(4);
        let mut record = vec![0; size];
        let common =
            [("common_type", u64::from(format.id)), ("common_pid", u64::from(self.current.cast_unsigned()))];
        for (field, value) in common.iter().chain(values) {
            let field = format.field(field).unwrap();
            record[field.offset..field.offset + field.size]
                .copy_from_slice(&value.to_le_bytes()[..field.size]);
        }
        for (field, comm) in comms {
            let at = format.field(field).unwrap().offset;
            record[at..at + comm.len()].copy_from_slice(comm.as_bytes());
        }
        if self.body.len() + 8 + size > PAGE - 16 {
            self.turn();
        }
        if self.body.is_empty() {
            self.start = self.time;
            self.last = self.time;
        }
        let head = (size as u32 / 4) | ((self.time - self.last) as u32) << 5;
        self.last = self.time;
        self.body.extend(head.to_le_bytes());
        self.body.extend(record);
    }

    fn turn(&mut self) {
        self.pages.extend(self.start.to_le_bytes());
        self.pages.extend((self.body.len() as u64).to_le_bytes());
        let end = self.pages.len().next_multiple_of(PAGE);
        self.pages.append(&mut self.body);
        self.pages.resize(end.max(self.pages.len().next_multiple_of(PAGE)), 0);
    }

    /// A thread is woken by the tick, runs, is interrupted, and sleeps.
    fn round(&mut self, tid: i32, cpu: u64) {
        let (pid, comm) = (u64::from(tid.cast_unsigned()), format!("worker-{tid}"));
        let woken: [(&str, u64); 3] = [("pid", pid), ("prio", 120), ("target_cpu", cpu)];
        let timer = ("hrtimer", 0xffff_8880_0000_0000 + pid * 64);
        let function = ("function", 0xffff_ffff_8141_e4b0);
        self.event(2000, "local_timer_entry", &[("vector", 236)], &[]);
        self.event(300, "hrtimer_expire_entry", &[timer, function], &[]);
        self.event(200, "sched_waking", &woken, &[("comm", &comm)]);
        self.event(400, "sched_wakeup", &woken, &[("comm", &comm)]);
        self.event(300, "local_timer_exit", &[("vector", 236)], &[]);
        self.event(
            900,
            "sched_switch",
            &[("prev_pid", 0), ("prev_prio", 120), ("next_pid", pid), ("next_prio", 120)],
            &[("prev_comm", "swapper/0"), ("next_comm", &comm)],
        );
        self.current = tid;
        self.event(5000, "irq_handler_entry", &[("irq", 30)], &[]);
        self.event(900, "softirq_raise", &[("vec", 3)], &[]);
        self.event(200, "irq_handler_exit", &[("irq", 30), ("ret", 1)], &[]);
        self.event(100, "softirq_entry", &[("vec", 3)], &[]);
        self.event(3000, "softirq_exit", &[("vec", 3)], &[]);
        self.event(9000, "hrtimer_start", &[timer, function, ("expires", self.time)], &[]);
        self.event(300, "hrtimer_cancel", &[timer], &[]);
        self.event(
            700,
            "sched_switch",
            &[("prev_pid", pid), ("prev_prio", 120), ("prev_state", 1), ("next_pid", 0), ("next_prio", 120)],
            &[("prev_comm", &comm), ("next_comm", "swapper/0")],
        );
        self.current = 0;
    }

    /// The pages of `rounds` rounds over 50 threads, each round on a page of its own: many bytes and few events.
    pub fn sparse(mut self, rounds: usize, cpu: u64) -> Vec<u8> {
        for round in 0..rounds {
            self.round(1000 + 100 * cpu as i32 + (round % 50) as i32, cpu);
            self.turn();
        }
        self.pages
    }

    /// The pages of `rounds` rounds over 50 threads.
    pub fn rounds(mut self, rounds: usize, cpu: u64) -> Vec<u8> {
        for round in 0..rounds {
            self.round(1000 + 100 * cpu as i32 + (round % 50) as i32, cpu);
        }
        self.turn();
        self.pages
    }
}

/// Pages over and over, each time later: as long a recording as is asked for, without a file.
pub struct Repeated {
    pages: Vec<u8>,
    /// From the beginning of one repetition to that of the next.
    period: u64,
    length: u64,
}

impl Repeated {
    /// At least one page, repeated up to `length` bytes.
    pub fn new(pages: Vec<u8>, length: u64) -> Repeated {
        let time = |page: &[u8]| u64::from_le_bytes(page[..8].try_into().unwrap());
        let last = &pages[pages.len() - PAGE..];
        // No page is longer than a second.
        let period = time(last) - time(&pages) + 1_000_000_000;
        Repeated { pages, period, length: length / PAGE as u64 * PAGE as u64 }
    }
}

impl surety_trace::ReadAt for Repeated {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        if offset >= self.length {
            return Ok(0);
        }
        let (number, within) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        let count = (self.pages.len() / PAGE) as u64;
        let at = (number % count) as usize * PAGE;
        let mut page: [u8; PAGE] = self.pages[at..at + PAGE].try_into().unwrap();
        let time = u64::from_le_bytes(page[..8].try_into().unwrap()) + number / count * self.period;
        page[..8].copy_from_slice(&time.to_le_bytes());
        let length = buf.len().min(PAGE - within);
        buf[..length].copy_from_slice(&page[within..within + length]);
        Ok(length)
    }

    fn len(&self) -> u64 {
        self.length
    }
}
