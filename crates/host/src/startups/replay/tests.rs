//! Replays in a directory for temporary files: who makes which request when.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use surety_model::startup::Attempt;
use surety_model::workload::{IoPriority, Ready, Startup, StartupBody};
use surety_stats::Pcg;
use surety_units::{CpuId, CpuSet, Tid};

use super::super::Subject;
use super::super::pace::Pace;
use super::*;
use crate::rights::rights_of;

/// A recording in which chance decides who does what where, and how long it thinks.
fn recording(seed: u64, processes: u64, requests: u64) -> Recorded {
    let mut chance = Pcg::for_job(seed, 0, 0);
    let mut text = String::new();
    for _ in 0..requests {
        let action = ["R", "RA", "RM", "W"][chance.below(4) as usize];
        let (who, place) = (chance.below(processes), chance.below(64) * 8);
        let (think, sectors) = (chance.below(300), 8 + chance.below(4) * 8);
        writeln!(text, "p-{who} .{think:06} {sectors} {place} Rand 0 0 {action} 0 C").unwrap();
    }
    let trace = IoTrace::parse(&text).unwrap();
    Recorded { layout: trace.layout(), trace }
}

fn job(recorded: &Arc<Recorded>, directory: &Path) -> Job {
    let startup = Startup {
        name: "s".to_owned(),
        body: StartupBody::Replay("s.trace".to_owned()),
        prepare: None,
        rights: surety_model::workload::Rights::default(),
        ready: Ready::Exit,
        cold: false,
        repeat: 1,
        gap: Nanos::ZERO,
        timeout: None,
        disk: None,
        io_priority: None,
        group: None,
        promises: Vec::new(),
    };
    Job {
        startup,
        subject: Subject::Replay(Arc::clone(recorded)),
        directory: Some(directory.to_owned()),
        forget: false,
        below: None,
        counter: None,
        pace: Pace::default(),
        mark: None,
        cpus: CpuSet::single(CpuId(0)),
        limit: Nanos::from_secs(600),
        latest: Nanos::MAX,
        stop: Arc::new(AtomicBool::new(false)),
        number: 0,
        speaker: crate::spans::Speaker::default(),
    }
}

#[test]
fn requests_are_made_in_their_order_each_by_its_process_and_none_before_what_it_depends_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(RECORDED);
    for (seed, processes, requests) in [(1, 1, 40), (2, 3, 200), (3, 16, 300)] {
        let recorded = Arc::new(recording(seed, processes, requests));
        std::fs::write(&path, vec![7; recorded.layout.size as usize]).unwrap();
        let files = match Files::open(&path) {
            Ok(files) => files,
            Err(error) => {
                eprintln!("SKIPPED: no file can be opened past the page cache here: {error}");
                return;
            }
        };
        let job = job(&recorded, directory.path());
        let begin = clock::monotonic();
        let turn = recorded.perform(&files, &job, job.until(begin));
        assert!(turn.error.is_none() && !turn.over, "{:?}", turn.error);
        let requests = &recorded.trace.requests;
        // What was issued, by when it was issued: exactly the recording, nothing twice and nothing left out.
        let mut issued: Vec<(Nanos, usize)> = turn.made.iter().map(|m| (m.issued, m.index)).collect();
        issued.sort_unstable();
        let order: Vec<usize> = issued.iter().map(|(_, index)| *index).collect();
        assert_eq!(order, (0..requests.len()).collect::<Vec<_>>(), "seed {seed}");
        // One thread for each process, and another one for each.
        let mut threads: BTreeMap<usize, Tid> = BTreeMap::new();
        for made in &turn.made {
            let process = requests[made.index].process;
            assert_eq!(*threads.entry(process).or_insert(made.thread), made.thread, "seed {seed}");
        }
        let mut distinct: Vec<Tid> = threads.values().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), recorded.trace.processes.len(), "seed {seed}");
        // Each after the end of the one before, across processes too, by at least its think time.
        let mut before = begin;
        for made in &turn.made {
            assert!(made.since >= before, "seed {seed}: {made:?}");
            assert!(made.issued - before >= requests[made.index].think, "seed {seed}: {made:?}");
            assert!(made.ended >= made.issued);
            before = made.ended;
        }
    }
}

#[test]
fn a_start_has_its_io_priority() {
    let directory = tempfile::tempdir().unwrap();
    let mut job = job(&Arc::new(recording(1, 1, 1)), directory.path());
    job.startup.io_priority = Some(IoPriority::Idle);
    let rights = rights_of("startup.s", &job.startup.rights).unwrap();
    job.subject = Subject::Program("sh -c 'ionice | grep -qx idle'".to_owned(), rights);
    let outcome = std::thread::spawn(move || job.run()).join().unwrap().unwrap();
    assert!(matches!(outcome.attempt, Attempt::Ready(_)), "{:?}", outcome.attempt);
}

#[test]
fn a_replay_that_is_ended_or_fails_is_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(RECORDED);
    let recorded = Arc::new(recording(4, 3, 50));
    std::fs::write(&path, vec![7; recorded.layout.size as usize]).unwrap();
    if let Err(error) = Files::open(&path) {
        eprintln!("SKIPPED: no file can be opened past the page cache here: {error}");
        return;
    }
    let stopped = job(&recorded, directory.path());
    stopped.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(matches!(recorded.replay(&stopped), Err(WorldError::Interrupted)));
    // Given up before its first request.
    let late = Job { limit: Nanos::ZERO, ..job(&recorded, directory.path()) };
    let outcome = recorded.replay(&late).unwrap();
    assert!(matches!(outcome.attempt, surety_model::startup::Attempt::GivenUp(_)));
    // A file that ends before the recording does, as of a disk that went away.
    std::fs::write(&path, [7; 4096]).unwrap();
    let error = match recorded.replay(&job(&recorded, directory.path())) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a file of one block cannot hold it"),
    };
    assert!(error.contains("startup.s") && error.contains("the replay failed"), "{error}");
}
