//! Busy periods with work laid on the grid of their releases.

use surety_units::Nanos;

use crate::job::Job;

/// One planned activation with the work that was done for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// From the first piece's release to the last one's completion, with the CPU time of all.
    pub job: Job,
    /// Busy periods with work.
    pub pieces: u32,
    /// Points of the grid before the next release that passed while it was busy.
    pub passed: i64,
    /// Points before the next release at which it slept.
    pub absent: i64,
}

impl Activation {
    fn of(job: &Job) -> Activation {
        Activation { job: *job, pieces: 1, passed: 0, absent: 0 }
    }

    fn take(&mut self, piece: &Job) {
        self.pieces += 1;
        let job = &mut self.job;
        job.completion = piece.completion;
        job.execution = job.execution.saturating_add(piece.execution);
        job.interrupted = job.interrupted.saturating_add(piece.interrupted);
        job.preemptions = job.preemptions.saturating_add(piece.preemptions);
        job.preempted = job.preempted.saturating_add(piece.preempted);
        job.inferred = job.inferred.saturating_add(piece.inferred);
        job.unknown = job.unknown.saturating_add(piece.unknown);
        job.throttled = job.throttled.saturating_add(piece.throttled);
    }

    /// The point of the grid after it that is nearest to a release.
    fn steps_to(&self, release: Nanos, period: Nanos) -> i64 {
        (release - self.job.release).saturating_add(period / 2).div_floor(period)
    }
}

/// Activations on a grid of this period, in order of their releases.
///
/// The grid follows the releases: each is as many points after the one before as its distance says, rounded. So neither
/// jitter below half a period nor a period that is a little off moves an activation to another's point; releases that fall
/// behind by a whole period have left a point out. Where that gives more activations than the time holds, pieces of work are
/// put together by the period they fall in.
pub fn on_grid(jobs: &[Job], period: Nanos) -> Vec<Activation> {
    let Some((first, last)) = jobs.first().zip(jobs.last()) else { return Vec::new() };
    // The points the time holds, and one beside each border.
    let room = (last.release - first.release).div_floor(period) + 2;
    let near = gather(jobs, |current, job| current.steps_to(job.release, period) == 0, period);
    if i64::try_from(near.len()).is_ok_and(|count| count <= room) {
        return near;
    }
    let cell = |job: &Job| (job.release - first.release).div_floor(period);
    gather(jobs, |current, job| cell(&current.job) == cell(job), period)
}

fn gather(jobs: &[Job], belongs: impl Fn(&Activation, &Job) -> bool, period: Nanos) -> Vec<Activation> {
    let mut list: Vec<Activation> = Vec::new();
    // The point the last activation stands for, counted from the first release.
    let mut point = 0;
    for job in jobs {
        match list.last_mut() {
            Some(current) if job.index.is_none() && belongs(current, job) => current.take(job),
            Some(current) => {
                let first = jobs.first().map_or(job.release, |first| first.release);
                let behind = (job.release - first).div_floor(period) - point;
                let between = (current.steps_to(job.release, period) - 1).max(behind - 1).max(0);
                point += between + 1;
                current.passed =
                    (current.job.completion - current.job.release).div_floor(period).clamp(0, between);
                current.absent = between - current.passed;
                list.push(Activation::of(job));
            }
            None => list.push(Activation::of(job)),
        }
    }
    list
}
