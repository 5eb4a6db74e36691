//! [`PeakRate`]: the device's rate as BFQ estimates it, and the greatest budget that follows from it.
//!
//! Over a second of back-to-back service, and at least 32 requests and 300 ms, the sectors served give a sample. It is dropped where
//! less than three quarters of the requests were sequential and it is not above the estimate, or where it is above 20 sectors in a microsecond.
//! It counts the more the more of it was sequential and the longer it took.

use surety_units::Nanos;

/// Rates are sectors in a microsecond with 16 bits behind the point (`BFQ_RATE_SHIFT`).
const SHIFT: u32 = 16;
const SAMPLES_LEAST: u64 = 32;
const INTERVAL_LEAST: Nanos = Nanos::from_millis(300);
const INTERVAL: Nanos = Nanos::SECOND;
const IDLE: Nanos = Nanos::from_millis(100);
/// Requests follow one another when the device was idle for less (`BFQ_MIN_TT`).
pub(super) const SHORT: Nanos = Nanos::from_millis(2);
/// Sectors between sequential requests (`BFQQ_SEEK_THR`).
pub(super) const SEEK: u64 = 100 * 8;
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
}

impl PeakRate {
    pub(super) fn new(rotational: bool) -> PeakRate {
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
        }
    }

    /// The greatest budget: what the device serves in a slice.
    pub(super) fn budget(&self, slice: Nanos) -> u64 {
        (self.rate * slice.get_unsigned() / 1_000) >> SHIFT
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
        self.last_completion = now;
    }

    /// A request goes to the device, in which there are others or not.
    pub(super) fn dispatched(&mut self, now: Nanos, sector: u64, sectors: u64, in_driver: u32) {
        if self.samples == 0 {
            self.begin(now, sectors);
        } else if now - self.last > IDLE && in_driver == 0 {
            self.conclude();
            self.begin(now, sectors);
        } else {
            self.samples += 1;
            let is_busy = in_driver > 0 || now - self.last_completion < SHORT;
            self.sequential += u64::from(is_busy && sector.abs_diff(self.position) < SEEK);
            self.sectors += sectors;
            if now - self.first >= INTERVAL {
                self.conclude();
                self.begin(now, sectors);
            }
        }
        (self.position, self.last) = (sector + sectors, now);
    }

    fn begin(&mut self, now: Nanos, sectors: u64) {
        (self.first, self.samples, self.sequential, self.sectors) = (now, 1, 0, sectors);
    }

    fn conclude(&mut self) {
        let elapsed = (self.last - self.first).max(self.last_completion - self.first).max(Nanos::ZERO);
        if self.samples < SAMPLES_LEAST || elapsed < INTERVAL_LEAST {
            return;
        }
        let rate = (self.sectors << SHIFT) / (elapsed.get_unsigned() / 1_000).max(1);
        let is_sequential = self.sequential >= self.samples * 3 / 4;
        if (!is_sequential && rate <= self.rate) || rate > 20 << SHIFT {
            return;
        }
        let weight = 9 * self.sequential / self.samples * elapsed.get_unsigned() / INTERVAL.get_unsigned();
        let divisor = 10 - weight.min(8);
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
    }
}
