//! What I/O schedulers lose to the best order: eight reads that are all there at the beginning, each order played on the disk's own model.
//!
//! Nothing of it was published. Held against each other are the mean response times of the same reads under each scheduler and in the
//! order that is best ([`surety_sim::disk::optimum`]); the regret of a scheduler is what it takes longer, as a part of the best.

use surety_block::elevators::ELEVATORS;
use surety_device::model::{Model, Op, Request as Access, serve};
use surety_device::profile::Profile;
use surety_model::world::{RunOptions, WorldError};
use surety_sim::disk::optimum::{optimum, scheduled};
use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow};

const DISK: &str = "hdd-2004";
/// Sets of reads of each kind, with one seed.
const SETS: u64 = 200;
/// Reads of a set, and their sectors: 4 KiB.
const READS: usize = 8;
const SECTORS: u32 = 8;

/// Where reads lie: in so many sectors from a place of their own on; `None`: anywhere.
const WHERE: [(&str, Option<u64>); 2] = [("anywhere", None), ("in 16 MiB", Some(16 * 2048))];

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "regret",
    title: "what I/O schedulers lose to the best order of eight reads, found by search on the disk's model",
    source: "no numbers were published",
    worlds: &["sim"],
    reproduce,
    ..COMMON
};

/// The reads of a set, and a disk that has just served another read near them.
struct Set {
    disk: Box<dyn Model + Send>,
    begin: Nanos,
    reads: Vec<Access>,
}

impl Set {
    fn draw(profile: &Profile, seed: u64, number: u64, within: Option<u64>) -> Set {
        let mut chance = Pcg::for_job(seed, stream_of("regret"), number);
        let mut disk = profile.build(seed);
        let width = within.unwrap_or(disk.sectors()) - u64::from(SECTORS);
        let from = chance.below(disk.sectors() - width);
        let mut read = || Access::new(Op::Read, from + chance.below(width), SECTORS);
        let first = read();
        let mut reads: Vec<Access> = Vec::new();
        while reads.len() < READS {
            let one = read();
            // Those that touch would be merged.
            if reads.iter().all(|other| other.end() < one.sector || one.end() < other.sector) {
                reads.push(one);
            }
        }
        let now = Nanos::new(chance.below(1_000_000_000).cast_signed());
        let begin = serve(disk.as_mut(), now, 0, &first).completed;
        Set { disk, begin, reads }
    }
}

/// What was seen of a scheduler, or of the optimum.
#[derive(Clone, Debug, Default)]
struct Seen {
    total: Nanos,
    worst: f64,
}

impl Seen {
    fn add(&mut self, total: Nanos, best: Nanos) {
        self.total += total;
        self.worst = self.worst.max(regret(total, best));
    }

    fn row(&self, at: &str, name: &str, best: &Seen, sets: u64) -> SheetRow {
        let reads = sets as f64 * READS as f64;
        let cells = vec![
            Cell::plain(self.total.get() as f64 / reads),
            Cell::plain(regret(self.total, best.total)),
            Cell::plain(self.worst),
        ];
        SheetRow::new(vec![at.to_owned(), name.to_owned()], cells)
    }
}

fn regret(total: Nanos, best: Nanos) -> f64 {
    (total - best).get() as f64 / best.get() as f64
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let title = |what: &str| format!("sim {what}");
    let columns = [("response", "ns"), ("regret", "%"), ("worst regret", "%")];
    let columns =
        columns.map(|(what, unit)| Column { title: title(what), unit, origin: Origin::World }).to_vec();
    if let Some(world) = bench.worlds().into_iter().find(|world| world != "sim") {
        let why = "it has no model of its disk to search; use `--on sim`".to_owned();
        return Err(WorldError::Unsupported { world, object: "regret".to_owned(), why });
    }
    let sets = SETS * u64::from(request.seeds);
    let mut rows = Vec::new();
    for (at, within) in WHERE {
        let (best, seen) = held(&request.options, sets, within)?;
        rows.push(best.row(at, "optimum", &best, sets));
        rows.extend(ELEVATORS.iter().zip(&seen).map(|(row, seen)| seen.row(at, row.word, &best, sets)));
    }
    Ok(Sheet { keys: vec!["reads", "scheduler"], columns, rows, notes: notes(sets), drawn: Vec::new() })
}

/// The optimum of so many sets, and each scheduler on the same ones.
fn held(options: &RunOptions, sets: u64, within: Option<u64>) -> Result<(Seen, Vec<Seen>), WorldError> {
    let profile = Profile::named(DISK).expect("it comes with the program");
    let (mut best, mut seen) = (Seen::default(), vec![Seen::default(); ELEVATORS.len()]);
    for number in 0..sets {
        if options.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        let seed = options.seed.wrapping_add(number / SETS);
        let Set { disk, begin, reads } = Set::draw(&profile, seed, number % SETS, within);
        let least = optimum(disk.as_ref(), begin, &reads).total;
        best.add(least, least);
        for (row, seen) in ELEVATORS.iter().zip(&mut seen) {
            seen.add(scheduled(row, disk.as_ref(), begin, &reads), least);
        }
    }
    Ok((best, seen))
}

fn notes(sets: u64) -> Vec<String> {
    vec![
        format!(
            "{DISK}; {sets} sets of {READS} reads of 4 KiB, each of a process of its own, all there at the beginning; the disk has one at a time"
        ),
        "response: mean time from the beginning until a read is complete; regret: of the sums over all sets, and of the worst set".to_owned(),
        "optimum: the order of the least sum, found by search over all orders on copies of the disk's model, the disk never idle; a scheduler that \
         keeps it idle may do better where the disk meanwhile reads ahead what is wanted next"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever knows where the arm is loses a tenth at most; whoever goes by sectors more, but less than in the order of arrival.
    #[test]
    fn regret_is_least_where_most_is_known() {
        for (_, within) in WHERE {
            let (best, seen) = held(&RunOptions::default(), 60, within).unwrap();
            let of = |word| {
                let place = ELEVATORS.iter().position(|row| row.word == word).unwrap();
                regret(seen[place].total, best.total)
            };
            let (sptf, by_sector, by_arrival) = (of("sptf"), of("mq-deadline"), of("none"));
            assert!((0.0..0.1).contains(&sptf) && sptf < by_sector && by_sector < by_arrival);
            assert!(by_sector > 0.1, "{sptf} {by_sector} {by_arrival}");
        }
    }
}
