// throwaway: which counter-runs leave the fewest figures outside
use surety_model::event::TraceSink;
use surety_model::world::{EventsTo, RunOptions, World as _};
use surety_reproduce::validation::*;
use surety_sim::SimWorld;
use surety_units::{CpuSet, Nanos};

fn sim(s: &Scenario, kept: &Kept, b: Beside, seed: u64, traced: bool) -> Option<Vec<Figures>> {
    let w = b.with(&s.text)?;
    let m = if traced { kept.under(Condition::Traced)?.1 } else { kept.machine.as_ref()? };
    let m = b.on(m);
    let options = RunOptions { seed, duration: kept.duration, warm_up: kept.warm_up + b.later(), cpus: Some(CpuSet::first(m.cpus)), ..RunOptions::default() };
    let mut p = Placement::of(&s.workload, m.topology, CpuSet::first(m.cpus));
    let record = SimWorld::new(m).run(&w, &options, &mut EventsTo(&mut p as &mut dyn TraceSink)).ok()?;
    Some(figures_of(&record, Some(p)))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (kernel, title, mode) = (&args[0], &args[1], &args[2]);
    let path = format!("{}/{}.json", args.get(3).map(String::as_str).unwrap_or("/tmp/wt/labx/crates/sim/tests/golden-lab/validation"), kernel.replace(':', "-"));
    let file: Kernel = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let all = scenarios();
    let s = all.iter().find(|s| s.title == *title).unwrap();
    let kept = &file.scenarios[title];
    let none = Beside::Later { ms: 0 };
    let mut all = vec![("none".to_owned(), none, kept.seed)];
    let p = [3000, 3100, 4100, 5000, 7000, 9000, 11000, 13000, 16000, 17000, 20000, 26000, 33000];
    let w = [3, 5, 10, 15, 20, 30, 50];
    match mode.as_str() {
        "every" => for period_us in p { for work_us in w { all.push((format!("every {period_us} {work_us}"), Beside::Thread { period_us, work_us }, kept.seed)); } },
        "stolen" => for period_us in (100..3000).step_by(37).map(|p| p * 1000) { all.push((format!("stolen {period_us}"), Beside::Stolen { period_us, work_us: 5 }, kept.seed)); },
        "costs" => for ticks in (0..=200).step_by(10) { for wakeups in [90, 100, 110, 120] { all.push((format!("costs w{wakeups} t{ticks}"), Beside::Costs { wakeups, ticks }, kept.seed)); } },
        "later" => for ms in (0..1000).step_by(20) { all.push((format!("later {ms}"), Beside::Later { ms }, kept.seed)); },
        "seeds" => for seed in 1..40 { all.push((format!("seed {seed}"), none, seed)); },
        _ => {}
    }
    let verbose = mode == "none";
    let mut found = Vec::new();
    for (word, b, seed) in all {
        let Some(plain) = sim(s, kept, b, seed, false) else { continue };
        let traced = sim(s, kept, b, seed, true);
        let rows = judged((s, kernel, kept), &plain, traced.as_deref());
        let out = rows.iter().filter(|r| !r.agrees()).count();
        let text: Vec<String> = rows.iter().filter(|r| verbose || r.unit != Unit::Nanoseconds || !r.agrees()).map(|r| {
            let scale = if r.unit == Unit::Nanoseconds { 1e6 } else { 1.0 };
            format!("{} {} {:.2}/{:.2}{}", r.activity, r.figure, r.measured / scale, r.simulated / scale, if r.agrees() { "" } else { "!" })
        }).collect();
        found.push((out, rows.len(), word, text));
    }
    found.sort_by_key(|f| f.0);
    let place = found.iter().position(|f| f.2 == "none");
    for (n, (out, of, word, text)) in found.iter().enumerate() {
        if n < 6 || Some(n) == place { println!("{out}/{of} {word}: {}", text.join("; ")); }
    }
    let _ = Nanos::ZERO;
}
