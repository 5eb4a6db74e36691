//! [`Account`]: what reading and writing streams have in common: the contract, the credit that holds a stream to it, its memory and what happened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar};

use surety_kernel::pages::{PAGE, Pages};
use surety_model::playout::{Credit, Level, Through, UnderRun, Want};
use surety_units::{Nanos, Rate};

use crate::contract::Contract;
use crate::error::StreamError;
use crate::failure::Failure;
use crate::mode::Mode;
use crate::stats::{Batch, Stats};

/// Batches of a buffer at least: one that the program has, and one that is moved meanwhile.
const BATCHES_MIN: u64 = 2;
/// Batches that are noted at most.
const NOTES_MAX: usize = 1 << 20;

/// The account of one stream.
#[derive(Debug)]
pub(crate) struct Account {
    /// What its file is called in errors.
    pub(crate) path: PathBuf,
    pub(crate) contract: Contract,
    /// The rate that its contract began with: bounds of its disk are of no higher one.
    began_with: Rate,
    pub(crate) stats: Stats,
    pub(crate) notes: Vec<Batch>,
    pub(crate) under_runs: Vec<UnderRun>,
    /// How its batches go.
    pub(crate) through: Through,
    /// Its program waits here.
    pub(crate) wake: Arc<Condvar>,
    /// What keeps it from any guarantee.
    pub(crate) caveats: Vec<String>,
    /// What keeps it from a bound: waits that no model of the disk knows.
    pub(crate) unbounded: Vec<String>,
    pub(crate) credit: Credit,
    /// How long the thread that serves it was ready and had no CPU before it is at it now.
    pub(crate) ready: Nanos,
    /// Since when there is credit for the next batch.
    pub(crate) credit_since: Nanos,
    /// Bytes of a batch.
    pub(crate) batch: u64,
    /// Bytes of its memory.
    pub(crate) memory: u64,
    /// The last transfer that failed, in words.
    failed: Option<String>,
    mode: Mode,
}

impl Account {
    /// A new one, with its memory: batches of pages, locked where they may be.
    ///
    /// # Errors
    /// A contract that cannot be; ENOMEM.
    pub(crate) fn open(
        (path, contract): (&Path, &Contract),
        alignment: Option<u64>,
        now: Nanos,
    ) -> Result<(Account, Vec<Pages>), StreamError> {
        contract.check()?;
        let batch = contract.batch.max(1).next_multiple_of(alignment.unwrap_or(PAGE as u64));
        let count = contract.wanted().div_ceil(batch).max(BATCHES_MIN);
        let [parts, bytes] = [count, batch].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let (pages, refused) = Pages::parts(parts, bytes, true)?;
        let caveats = refused.map(|error| format!("its buffer is not locked in memory: {error}"));
        let credit = Credit::full(contract.rate, batch, contract.jitter, now);
        let account = Account {
            path: path.to_owned(),
            credit: if contract.overlap { credit.of_one(batch) } else { credit },
            contract: *contract,
            began_with: contract.rate,
            stats: Stats::default(),
            notes: Vec::new(),
            under_runs: Vec::new(),
            through: if alignment.is_some() { Through::Disk } else { Through::Cache },
            wake: Arc::new(Condvar::new()),
            caveats: caveats.into_iter().collect(),
            unbounded: Vec::new(),
            ready: Nanos::ZERO,
            credit_since: now,
            batch,
            memory: batch * count,
            failed: None,
            mode: Mode::Steady,
        };
        Ok((account, pages))
    }

    /// When a batch for which there is room since an instant may be asked for.
    pub(crate) fn may_ask(&mut self, bytes: u64, room_since: Nanos, now: Nanos) -> Want {
        self.credit.accrue(now);
        match self.credit.is_enough(bytes) {
            true => Want::Since(self.credit_since.max(room_since).min(now)),
            false => Want::From(self.credit.enough_at(bytes)),
        }
    }

    /// When a program that took or gave its first byte at `begun`, and `moved` bytes since, is owed the next access: one that is faster than its contract waits for that alone.
    pub(crate) fn owed(&self, begun: Option<Nanos>, moved: u64) -> Option<Nanos> {
        let moved = moved / self.contract.access * self.contract.access;
        Some(begun? + Nanos::SECOND.mul_ratio(moved, self.contract.rate.0.max(1)))
    }

    /// How long some bytes last at its rate.
    pub(crate) fn lasts(&self, bytes: u64) -> Nanos {
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.contract.rate.0.max(1));
        Nanos::new(i64::try_from(time).unwrap_or(i64::MAX / 4))
    }

    /// A batch is complete.
    pub(crate) fn note(&mut self, batch: Batch) {
        // What is asked for all at once is bounded by nothing.
        self.stats.came(&batch, self.contract.bound.filter(|_| self.mode == Mode::Steady));
        if self.contract.notes_batches && self.notes.len() < NOTES_MAX {
            self.notes.push(batch);
        }
    }

    /// A batch may wait for metadata from now on, in a call that does not tell it apart.
    pub(crate) fn may_change_metadata(&mut self) {
        if self.through == Through::Disk {
            self.through = Through::Metadata;
        }
    }

    /// Its program needed a batch from an instant on and went on at another.
    pub(crate) fn waited(&mut self, needed: Nanos, batch: &Batch, went_on: Nanos) {
        let Some(under_run) = UnderRun::of(needed, batch, went_on) else { return };
        self.stats.waits.add(&under_run, None);
        if self.contract.notes_batches && self.under_runs.len() < NOTES_MAX {
            self.under_runs.push(under_run);
        }
    }

    /// A transfer failed: no guarantee is left, whatever comes after.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.failed = failure.caveat().or(self.failed.take());
    }

    /// Bytes ahead now: the fewest are kept.
    pub(crate) fn ahead(&mut self, bytes: u64) {
        self.stats.least_ahead = Some(self.stats.least_ahead.map_or(bytes, |least| least.min(bytes)));
    }

    /// Another rate from now on; its memory stays as it is.
    pub(crate) fn change_rate(&mut self, rate: Rate, now: Nanos) {
        self.contract.rate = rate;
        self.credit.change(rate, self.burst(), self.contract.jitter, now);
    }

    /// What is asked for at once from now on.
    pub(crate) fn change_mode(&mut self, mode: Mode, now: Nanos) {
        self.mode = mode;
        self.credit.resize(self.burst(), self.contract.jitter, now);
        self.credit_since = self.credit.enough_at(self.batch).max(now);
    }

    /// Bytes that are asked for at once.
    fn burst(&self) -> u64 {
        match self.mode {
            Mode::Steady => self.batch,
            Mode::Longest => self.memory,
        }
    }

    /// Why bounds of its disk do not hold, where its rate is higher than they count.
    pub(crate) fn faster(&self) -> Option<String> {
        let (rate, began_with) = (self.contract.rate, self.began_with);
        (rate > began_with).then(|| {
            let name = self.path.display();
            format!("{name} has {rate} now and began with {began_with}, which is what the bounds of its disk count")
        })
    }

    /// What is in the way of a higher level, and the level; `waits`: how long a batch is waited for now, `faster`: who of its disk has a higher rate than a bound counts.
    pub(crate) fn level(
        &self,
        of_station: &[String],
        waits: Option<Nanos>,
        faster: Option<String>,
    ) -> (Level, Vec<String>) {
        let faster = faster.filter(|_| self.contract.bound.is_some());
        let unbounded = [&self.unbounded, faster.as_slice()].concat();
        let mut all = [of_station, &self.caveats, self.failed.as_slice(), &unbounded].concat();
        let level = match self.contract.bound {
            _ if all.len() > unbounded.len() => Level::Observed,
            Some(bound)
                if all.is_empty()
                    && self.stats.beyond_bound == 0
                    && self.mode == Mode::Steady
                    && waits.is_none_or(|waits| waits <= bound) =>
            {
                Level::Admitted
            }
            _ => Level::Scheduled,
        };
        if self.contract.bound.is_some() && self.mode == Mode::Longest {
            all.push(
                "the streams of its disk are fetched in the longest batches, which have no bound".to_owned(),
            );
        }
        (level, all)
    }
}
