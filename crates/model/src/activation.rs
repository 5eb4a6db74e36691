//! [`Activations`]: when the jobs of a task are released, and what became of every planned one.
//!
//! Every world obeys these rules and counts by them, so that a measured and a simulated run differ only in what
//! happened. Times count from the start of the run.

use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use crate::distribution::TimeDistribution;
use crate::platform::Platform;
use crate::record::JobOutcome;
use crate::workload::{Late, Release, Sleep, Task};

/// The plan by which a thread's jobs are released.
#[derive(Clone, Debug, PartialEq)]
pub struct Activations {
    /// When jobs are released.
    pub release: Release,
    /// How far apart they are where that is drawn.
    pub spacing: Option<Spacing>,
    /// What becomes of releases that pass while a job still runs.
    pub late: Late,
    pub sleep: Sleep,
    /// It ends after this many jobs.
    pub jobs: u64,
    /// Its work never ends: it has no activations.
    pub endless: bool,
    /// How long a job takes at least on average, where the next comes when it is done.
    pub pass: Option<Nanos>,
}

/// Distances of releases, drawn for each job from a stream of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Spacing {
    distances: TimeDistribution,
    seed: u64,
    stream: u64,
}

impl Spacing {
    /// From the release before job `job` to its own, before the smallest gap is observed.
    fn before(&self, job: u64) -> Nanos {
        self.distances.draw_from(&mut Pcg::for_job(self.seed, self.stream, job))
    }
}

/// One job as the world that ran it saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index on the grid.
    pub job: u64,
    /// Planned release.
    pub release: Nanos,
    /// First instant on a CPU.
    pub start: Nanos,
    /// End; `None` while open when the run ended.
    pub completion: Option<Nanos>,
    /// CPU time used.
    pub execution: Nanos,
}

impl Activations {
    /// The plan of the thread that draws under `key` ([`draw_key`]).
    pub fn of(task: &Task, key: &str, seed: u64) -> Activations {
        let sporadic = matches!(task.release, Release::Sporadic { .. });
        let spacing = task.spacing.clone().filter(|_| sporadic).map(|distances| Spacing {
            distances,
            seed,
            stream: stream_of(&format!("{key}~spacing")),
        });
        Activations {
            release: task.release,
            spacing,
            late: task.late,
            sleep: task.sleep,
            jobs: task.jobs.unwrap_or(u64::MAX),
            endless: task.is_endless(),
            pass: matches!(task.release, Release::BackToBack { .. }).then(|| task.usual_pass()),
        }
    }

    /// The first point of the grid.
    pub fn start(&self) -> Nanos {
        self.release.start()
    }

    /// When job `job` is planned, its predecessor having been planned for `before`; there is an interval.
    ///
    /// Drawn distances below the smallest gap count as the gap, so that its analysis as a sporadic task holds.
    fn next_release(&self, job: u64, before: Nanos, interval: Nanos) -> Nanos {
        let distance = self.spacing.as_ref().map_or(interval, |s| s.before(job).max(interval));
        before.saturating_add(distance)
    }

    /// How much later than its grid point job `job` of the thread `key` is released: even between 0 and the jitter,
    /// drawn like work.
    pub fn jitter(&self, seed: u64, key: &str, job: u64) -> Nanos {
        match self.release {
            Release::Periodic { jitter, .. } if jitter.is_positive() => {
                let delay = TimeDistribution::Uniform { low: Nanos::ZERO, high: jitter };
                delay.draw(seed, &format!("{key}~jitter"), job)
            }
            _ => Nanos::ZERO,
        }
    }

    /// The activation after job `job`, which was planned for `release` and completed at `completion`.
    ///
    /// `queue`: the next planned release, passed or not. `skip`: the first that is not before the completion; those
    /// between are given up. A relative sleeper looks at the clock when its job is done and sleeps for the rest
    /// of the period, so a late job moves the whole grid. Back to back: at the completion. `None` where there is no grid or no further job.
    pub fn after(&self, job: u64, release: Nanos, completion: Nanos) -> Option<(u64, Nanos)> {
        let follower = job + 1;
        if let Release::BackToBack { .. } = self.release {
            return (follower < self.jobs).then_some((follower, completion));
        }
        let interval = self.release.interval()?;
        let next = match (self.sleep, self.late) {
            (Sleep::Relative, _) => {
                (follower, self.next_release(follower, release, interval).max(completion))
            }
            (Sleep::Absolute, Late::Queue) => (follower, self.next_release(follower, release, interval)),
            (Sleep::Absolute, Late::Skip) if self.spacing.is_some() => {
                let mut next = (follower, self.next_release(follower, release, interval));
                while next.1 < completion && next.0 < self.jobs {
                    next = (next.0 + 1, self.next_release(next.0 + 1, next.1, interval));
                }
                next
            }
            (Sleep::Absolute, Late::Skip) => {
                // On a grid the first point after the completion needs no search.
                let passed = ((completion - release).div_ceil(interval) - 1).max(0);
                (follower + passed.unsigned_abs(), release + interval * (passed + 1))
            }
        };
        (next.0 < self.jobs).then_some(next)
    }

    /// How many jobs a run of this length can hold.
    pub fn room(&self, length: Nanos) -> u64 {
        let mean = self.spacing.as_ref().map(|s| Nanos::from_f64_rounded(s.distances.mean_ns()));
        let planned = match self.release.interval().map(|gap| mean.map_or(gap, |mean| mean.max(gap))) {
            Some(interval) => length.div_ceil(interval).max(0).unsigned_abs() + 2,
            None => match self.pass {
                Some(pass) if pass.is_positive() => length.div_ceil(pass).max(0).unsigned_abs() + 2,
                Some(_) => u64::MAX,
                None => 2,
            },
        };
        planned.min(self.jobs)
    }

    /// What became of every planned activation whose release lies in `[observe, end)`, told by the jobs that ran.
    ///
    /// An activation that did not run was skipped when a later one ran or when, under `skip`, a job was still open past
    /// its release; else it is open. The releases of a relative sleeper and of jobs back to back follow from what ran, which is all there was. Endless
    /// work has none.
    pub fn outcomes(&self, stamps: &[Stamp], observe: Nanos, end: Nanos) -> Vec<JobOutcome> {
        let outcome = |s: &Stamp| match s.completion {
            Some(completion) => JobOutcome::Completed {
                release: s.release,
                start: s.start,
                completion,
                execution: s.execution,
            },
            None => JobOutcome::Unfinished { release: s.release, until: end },
        };
        if self.endless {
            return Vec::new();
        }
        let is_back_to_back = matches!(self.release, Release::BackToBack { .. });
        let interval = match self.release.interval() {
            None if !is_back_to_back => return stamps.iter().map(outcome).collect(),
            interval => interval,
        };
        let Some(interval) = interval.filter(|_| self.sleep == Sleep::Absolute) else {
            return stamps.iter().filter(|s| s.release >= observe).map(outcome).collect();
        };
        let last = stamps.last();
        let mut stamps = stamps.iter().peekable();
        let mut outcomes = Vec::new();
        let mut release = self.start();
        for job in 0..self.jobs {
            if job > 0 {
                release = self.next_release(job, release, interval);
            }
            if release >= end {
                break;
            }
            let stamp = stamps.next_if(|s| s.job == job);
            if release < observe {
                continue;
            }
            outcomes.push(match (stamp, last) {
                (Some(stamp), _) => outcome(stamp),
                (None, Some(last)) if job < last.job => JobOutcome::Skipped { release },
                (None, Some(last)) if self.late == Late::Skip && last.completion.is_none() => {
                    JobOutcome::Skipped { release }
                }
                (None, _) => JobOutcome::Unfinished { release, until: end },
            });
        }
        outcomes
    }
}

/// How long before time 0 the threads of a run are made, at least: from then on they are scheduled as they are to be.
pub const RUN_UP: Nanos = Nanos::from_millis(100);

/// How long after time 0 the first tick comes: drawn from the seed, the same in every world.
///
/// Releases often keep their place between two ticks for a whole run (40 ms is ten ticks of 4 ms), and what is done on
/// the tick then depends on that place. So a run chooses it, where it can, instead of leaving it to the instant at which
/// it happens to begin.
pub fn tick_phase(seed: u64, tick: Nanos) -> Nanos {
    let mut chance = Pcg::for_job(seed, stream_of("~tick"), 0);
    Nanos::new(i64::try_from(chance.below(tick.get_unsigned().max(1))).expect("below a tick"))
}

/// How long after time 0 the first tick of a platform comes.
pub fn first_tick(platform: &Platform, seed: u64) -> Nanos {
    platform.tick_phase.unwrap_or_else(|| tick_phase(seed, platform.tick))
}

/// The name instance `instance` of a task draws its work under.
pub fn draw_key(task: &str, instance: u32) -> String {
    if instance == 0 { task.to_owned() } else { format!("{task}#{instance}") }
}

/// The name a `run` phase draws under that its job has taken `before` times before, in a loop.
pub fn again_key(run_key: &str, before: u64) -> String {
    if before == 0 { run_key.to_owned() } else { format!("{run_key}~{before}") }
}

/// The name the `place`-th `run` phase of a job draws under, of the thread that draws under `key`.
pub fn run_key(key: &str, place: usize) -> String {
    if place == 0 { key.to_owned() } else { format!("{key}/{place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn every(period: i64, start: i64, late: Late) -> Activations {
        let mut task = Task::periodic("t", ms(period), TimeDistribution::Constant(ms(1)));
        task.release = Release::Periodic { period: ms(period), start: ms(start), jitter: Nanos::ZERO };
        task.late = late;
        Activations::of(&task, "t", 1)
    }

    #[test]
    fn queue_keeps_every_point_and_skip_drops_those_passed() {
        for (late, completion, expected) in [
            (Late::Queue, 30, (1, 45)),
            (Late::Queue, 300, (1, 45)),
            (Late::Skip, 30, (1, 45)),
            (Late::Skip, 45, (1, 45)),
            (Late::Skip, 46, (2, 85)),
            (Late::Skip, 200, (5, 205)),
        ] {
            let next = every(40, 5, late).after(0, ms(5), ms(completion));
            assert_eq!(next, Some((expected.0, ms(expected.1))), "{late:?} {completion}");
        }
        let relative = Activations { sleep: Sleep::Relative, ..every(40, 5, Late::Queue) };
        assert_eq!(relative.after(0, ms(5), ms(30)), Some((1, ms(45))));
        assert_eq!(relative.after(0, ms(5), ms(70)), Some((1, ms(70))));
        let single = Activations { jobs: 1, ..every(40, 5, Late::Queue) };
        assert_eq!(single.after(0, ms(5), ms(30)), None);
    }

    #[test]
    fn every_planned_activation_has_an_outcome() {
        let stamp = |job: u64, completion: Option<i64>| Stamp {
            job,
            release: ms(10) * job as i64,
            start: ms(10) * job as i64,
            completion: completion.map(ms),
            execution: ms(1),
        };
        // Jobs 0 and 3 ran, 1 and 2 were passed, 4 was open at 55 ms, 5 came while it was.
        let stamps = [stamp(0, Some(25)), stamp(3, Some(31)), stamp(4, None)];
        let kinds = |late| -> String {
            let letter = |o: &JobOutcome| match o {
                JobOutcome::Completed { .. } => 'c',
                JobOutcome::Skipped { .. } => 's',
                JobOutcome::Unfinished { .. } => 'u',
            };
            every(10, 0, late).outcomes(&stamps, ms(10), ms(55)).iter().map(letter).collect()
        };
        assert_eq!(kinds(Late::Skip), "sscus");
        assert_eq!(kinds(Late::Queue), "sscuu");
        let endless = Activations { endless: true, ..every(10, 0, Late::Queue) };
        assert_eq!(endless.outcomes(&stamps, ms(0), ms(55)), []);
    }

    #[test]
    fn drawn_distances_keep_the_gap_and_are_planned_alike_by_all() {
        let mut task = Task::periodic("t", ms(1), TimeDistribution::Constant(ms(1)));
        task.release = Release::Sporadic { gap: ms(3) };
        task.spacing = Some(TimeDistribution::Exponential { mean: ms(10) });
        for late in [Late::Queue, Late::Skip] {
            task.late = late;
            let plan = Activations::of(&task, "t", 5);
            let mut releases = vec![Nanos::ZERO];
            let mut stamps = Vec::new();
            let mut next = Some((0, Nanos::ZERO));
            while let Some((job, release)) = next.filter(|(_, release)| *release < ms(10_000)) {
                // Every tenth job takes as long as three mean distances.
                let completion = release + if job % 10 == 9 { ms(30) } else { ms(1) };
                stamps.push(Stamp {
                    job,
                    release,
                    start: release,
                    completion: Some(completion),
                    execution: ms(1),
                });
                releases.push(release);
                next = plan.after(job, release, completion);
                if late == Late::Skip {
                    assert!(next.is_none_or(|(_, next)| next >= completion));
                }
            }
            assert!(releases[1..].windows(2).all(|w| w[1] - w[0] >= ms(3)));
            let outcomes = plan.outcomes(&stamps, Nanos::ZERO, ms(10_000));
            let ran = outcomes.iter().filter(|o| matches!(o, JobOutcome::Completed { .. })).count();
            let skipped = outcomes.iter().filter(|o| matches!(o, JobOutcome::Skipped { .. })).count();
            assert_eq!(ran, stamps.len());
            assert_eq!(skipped > 0, late == Late::Skip);
            // E max(3, X) = 3 + 10 exp(-0.3): 10.4 ms, so about 961 releases, with a deviation of about 28.
            assert!((870..1050).contains(&outcomes.len()), "{}", outcomes.len());
        }
    }
}
