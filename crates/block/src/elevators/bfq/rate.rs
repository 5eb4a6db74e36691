//! [`PeakRate`]: the device's rate as BFQ estimates it, and the greatest budget that follows from it.
//!
//! Over a second of back-to-back service, and at least 32 requests and 300 ms, the sectors served give a sample. It is dropped where
//! less than three quarters of the requests were sequential and it is not above the estimate, or where it is above 20 sectors in a microsecond.
//! It counts the more the more of it was sequential and the longer it took. A request that crawls ends the observation early.

use surety_units::Nanos;

/// Rates are sectors in a microsecond with 16 bits behind the point (`BFQ_RATE_SHIFT`).
const SHIFT: u32 = 16;
const SAMPLES_LEAST: u64 = 32;
const INTERVAL_LEAST: Nanos = Nanos::from_millis(300);
const INTERVAL: Nanos = Nanos::SECOND;
const IDLE: Nanos = Nanos::from_millis(100);
/// Requests follow one another when the device was idle for less (`BFQ_MIN_TT`).
pub(super) const SHORT: Nanos = Nanos::from_millis(2);
/// Sectors up to which requests follow one another (`BFQQ_SEEK_THR`).
const SEEK: u64 = 100 * 8;
/// Sectors from which on a request of a device that does not turn is none (`BFQQ_SECT_THR_NONROT`).
pub(super) const LARGE: u32 = 64;
/// A request that took longer than [`SHORT`], at fewer sectors in a microsecond than this, ends the observation: 2^-10.
const CRAWL: u64 = 1 << (SHIFT - 10);

/// Whether a request so far from the last is a seek (`BFQ_RQ_SEEKY`).
pub(super) fn is_seek(distance: u64, sectors: u32, rotational: bool) -> bool {
    distance > SEEK && (rotational || sectors < LARGE)
}
/// Of a disk that turns, and of one that does not (`ref_rate`): 109 and 258 MB/s.
const REFERENCE: [u64; 2] = [14_000, 33_000];

/// What is observed of the device.
#[derive(Clone, Debug)]
pub(super) struct PeakRate {
    rate: u64,
    rotational: bool,
    first: Nanos,
    last: Nanos,
    last_completion: Nanos,
    position: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    /// The largest of the last 32 requests, in sectors.
    largest: u64,
    /// Sectors that the device serves in a slice, once its rate was observed.
    budget: Option<u64>,
    slice: Nanos,
}

impl PeakRate {
    /// Of a device, for slices of a length.
    pub(super) fn new(rotational: bool, slice: Nanos) -> PeakRate {
        PeakRate {
            rate: REFERENCE[usize::from(!rotational)] * 2 / 3,
            rotational,
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            position: 0,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            budget: None,
            slice,
        }
    }

    /// The greatest budget: what the device serves in a slice.
    pub(super) fn budget(&self) -> Option<u64> {
        self.budget
    }

    /// When the device was done with a request last.
    pub(super) fn last_completion(&self) -> Nanos {
        self.last_completion
    }

    /// How long an interactive application is raised: as long as the reference device would take for a large one, by its rate to this
    /// device's (`ref_wr_duration` of 7 s and 2.5 s), within 3 and 25 s.
    pub(super) fn raising(&self) -> Nanos {
        let reference = [Nanos::from_secs(7), Nanos::from_millis(2500)][usize::from(!self.rotational)];
        let scaled = reference.mul_ratio(REFERENCE[usize::from(!self.rotational)], self.rate.max(1));
        scaled.clamp(Nanos::from_secs(3), Nanos::from_secs(25))
    }

    /// The device is done with a request.
    pub(super) fn completed(&mut self, now: Nanos) {
        let took = now - self.last_completion;
        if took > SHORT && (self.largest << SHIFT) / (took.get_unsigned() / 1_000) < CRAWL {
            self.conclude(self.last);
            self.samples = 0;
        }
        self.last_completion = now;
    }

    /// A request goes to the device, in which there are others or not.
    pub(super) fn dispatched(&mut self, now: Nanos, sector: u64, sectors: u32, in_driver: u32) {
        let size = u64::from(sectors);
        if self.samples == 0 {
            self.begin(now, size);
        } else if now - self.last > IDLE && in_driver == 0 {
            self.conclude(self.last);
            self.begin(now, size);
        } else {
            self.samples += 1;
            let is_busy = in_driver > 0 || now - self.last_completion < SHORT;
            let is_next = !is_seek(sector.abs_diff(self.position), sectors, self.rotational);
            self.sequential += u64::from(is_busy && is_next);
            self.sectors += size;
            self.largest = if self.samples.is_multiple_of(32) { size } else { self.largest.max(size) };
            if now - self.first >= INTERVAL {
                self.conclude(now);
                self.begin(now, size);
            }
        }
        (self.position, self.last) = (sector + size, now);
    }

    fn begin(&mut self, now: Nanos, sectors: u64) {
        (self.first, self.samples, self.sequential) = (now, 1, 0);
        (self.sectors, self.largest) = (sectors, sectors);
    }

    /// Takes what was seen up to a dispatch, or a completion after it, as a sample.
    fn conclude(&mut self, last: Nanos) {
        let seen = last - self.first;
        if self.samples < SAMPLES_LEAST || seen < INTERVAL_LEAST {
            return;
        }
        let elapsed = seen.max(self.last_completion - self.first).get_unsigned();
        let rate = (self.sectors << SHIFT) / (elapsed / 1_000);
        let is_sequential = self.sequential >= self.samples * 3 / 4;
        if (!is_sequential && rate <= self.rate) || rate > 20 << SHIFT {
            return;
        }
        let weight = 9 * self.sequential / self.samples * elapsed / INTERVAL.get_unsigned();
        let divisor = 10 - weight.min(8);
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
        self.budget = Some((self.rate * (self.slice.get_unsigned() / 1_000)) >> SHIFT);
    }
}
