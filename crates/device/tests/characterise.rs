//! Known devices characterised: the plan is answered by a model, and the profile made from the answers has to be that model again,
//! within stated errors, in its numbers and in what it does with the same requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_device::characterise::{Fitted, Measured, Origin, Plan, Row, Scope, compare, fit, rehearse};
use surety_device::profile::Profile;
use surety_units::Nanos;

fn origin() -> Origin {
    Origin {
        name: "again".to_owned(),
        about: "a model, measured".to_owned(),
        date: "2026-11-24".to_owned(),
        sources: vec!["a model".to_owned()],
        depth: None,
    }
}

fn measured(profile: &Profile, seconds: i64, writes: bool) -> Measured {
    let writable = writes.then(|| profile.sectors());
    let scope = Scope { sectors: profile.sectors(), writable, time: Nanos::from_secs(seconds), seed: 5 };
    let mut plan = Plan::new(scope);
    rehearse(&mut plan, profile.build(3).as_mut());
    plan.into_measured()
}

fn again(name: &str, writes: bool) -> (Measured, Fitted, Vec<Row>) {
    let profile = Profile::named(name).unwrap();
    let measured = measured(&profile, 30, writes);
    let fitted = fit(&measured, &origin()).unwrap();
    let rows = compare(&measured, &fitted.profile);
    (measured, fitted, rows)
}

#[test]
fn look() {
    for name in ["null", "ssd-sata", "nvme", "emmc", "hdd-7200", "hdd-2004", "virtio-hdd"] {
        for writes in [false, true] {
            let begin = std::time::Instant::now();
            let (measured, fitted, rows) = again(name, writes);
            println!("=== {name} {writes} {:?} {:?} {:?}", begin.elapsed(), measured.turning, measured.held);
            println!("{}", fitted.text);
            println!("{:#?}", fitted.notes);
            for row in rows {
                println!(
                    "{:?} n={} p50 {:.1} {:.1} p99 {:.1} {:.1} rate {:.0} {:.0} {:?}",
                    row.part,
                    row.requests,
                    row.measured.p50 / 1e3,
                    row.modelled.p50 / 1e3,
                    row.measured.p99 / 1e3,
                    row.modelled.p99 / 1e3,
                    row.measured.rate,
                    row.modelled.rate,
                    row.off()
                );
            }
        }
    }
}
#[test]
fn dbg() {
    let profile = Profile::named("hdd-7200").unwrap();
    let m = measured(&profile, 30, false);
    for g in &m.groups {
        if let surety_device::characterise::Part::Again(k) = g.part {
            println!("{k} {} counted {}", g.samples.len(), g.responses().len());
            for (a, b) in g.samples.iter().zip(g.samples.iter().skip(k as usize)).take(40) {
                let d = (b.completed - a.completed).get() as f64;
                println!(
                    "  {} {} {} {} -> {:.4}",
                    a.request.sector,
                    b.request.sector,
                    a.response(),
                    b.response(),
                    d / (60e9 / 7200.0)
                );
            }
        }
    }
}
