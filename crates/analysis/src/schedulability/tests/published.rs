//! Published sets in `published.txt`: the library's answers and the simulated schedule, against what was published.

use super::twin::{Job, Rule, densest, in_time, play, task};
use crate::schedulability::fixed::response_times;
use crate::schedulability::uniprocessor::processor_demand;
use crate::schedulability::{Outcome, SporadicTask, catalogue};

const PUBLISHED: &str = include_str!("published.txt");

/// A line of the file.
struct Known<'a> {
    source: &'a str,
    scheduler: &'a str,
    cpus: u32,
    tasks: Vec<SporadicTask>,
    answer: Vec<&'a str>,
}

fn parse(text: &str) -> Vec<Known<'_>> {
    let (mut found, mut source) = (Vec::new(), "");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(named) = line.strip_prefix("@ ") {
            source = named;
            continue;
        }
        let (question, answer) = line.split_once(" = ").expect("a question and its answer");
        let mut words = question.split_whitespace();
        let scheduler = words.next().expect("a scheduler");
        let cpus = words.next().and_then(|word| word.parse().ok()).expect("a number of CPUs");
        let of = |word: &str| {
            let numbers: Vec<i64> = word.split('/').map(|n| n.parse().expect("a number")).collect();
            task(numbers[0], numbers[1], numbers[2])
        };
        found.push(Known {
            source,
            scheduler,
            cpus,
            tasks: words.map(of).collect(),
            answer: answer.split_whitespace().collect(),
        });
    }
    found
}

/// The responses when all tasks are released at once, over what is at least two hyperperiods of these sets.
fn simulated(tasks: &[SporadicTask], cpus: u32, rule: Rule) -> Vec<i64> {
    const END: i64 = 25_000;
    let jobs: Vec<Job> = (0..tasks.len()).flat_map(|i| densest(i, &tasks[i], END)).collect();
    play(&jobs, tasks.len(), cpus as usize, rule, true, END)
}

#[test]
fn published_sets_have_their_published_answers() {
    let all = parse(PUBLISHED);
    assert!(all.len() >= 19, "{} sets", all.len());
    for Known { source, scheduler, cpus, tasks, answer } in all {
        match scheduler {
            "fixed" => {
                let verdict = response_times(&tasks);
                let seen = simulated(&tasks, cpus, Rule::Fixed);
                for (level, expected) in answer.iter().enumerate() {
                    let computed = verdict.responses.get(level).map(|r| r.get());
                    let known = expected.parse::<i64>().ok();
                    assert_eq!(computed, known, "{source}: task {level}: {:?}", verdict.steps);
                    match known {
                        Some(known) => assert_eq!(seen[level], known, "{source}: task {level}, simulated"),
                        None => assert!(seen[level] > tasks[level].deadline.get(), "{source}: {seen:?}"),
                    }
                }
                let kept = !answer.contains(&"late");
                assert_eq!(verdict.outcome == Outcome::Holds, kept, "{source}");
            }
            "edf" => {
                let kept = answer == ["kept"];
                assert_eq!(processor_demand(&tasks).holds(), kept, "{source}");
                assert_eq!(in_time(&tasks, &simulated(&tasks, 1, Rule::Edf)), kept, "{source}, simulated");
            }
            "gedf" => {
                let question = catalogue::Question {
                    tasks: &tasks,
                    cpus,
                    scheduler: catalogue::Scheduler::Edf,
                    migrate: true,
                };
                let answers = catalogue::answers(&question);
                let accept: Vec<&str> =
                    answers.iter().filter(|a| a.verdict.holds()).map(|a| a.word).collect();
                let late = answer == ["late"];
                let expected = if late || answer == ["none"] { String::new() } else { answer.join(" ") };
                assert_eq!(accept.join(" "), expected, "{source}");
                if late {
                    assert!(!in_time(&tasks, &simulated(&tasks, cpus, Rule::Edf)), "{source}, simulated");
                }
            }
            other => panic!("{source}: no scheduler `{other}`"),
        }
    }
}
