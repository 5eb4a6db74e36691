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
            for row in compare(&measured, &Profile::named(name).unwrap()) {
                if !row.off().is_empty() {
                    println!("noise: {:?} {:?} {:?}", row.part, row.off(), (row.measured, row.modelled));
                }
            }
            for row in rows {
                println!(
                    "{:?} n={} p50 {:.1} {:.1} p99 {:.1} {:.1} rate {:.0} {:.0} {:?}",
                    row.part,
                    row.requests,
                    row.measured.p50.value / 1e3,
                    row.modelled.p50.value / 1e3,
                    row.measured.p99.value / 1e3,
                    row.modelled.p99.value / 1e3,
                    row.measured.rate.unwrap_or(0.),
                    row.modelled.rate.unwrap_or(0.),
                    row.off()
                );
            }
        }
    }
}
#[test]
fn dbg() {
    let profile = Profile::named("hdd-2004").unwrap();
    let m = measured(&profile, 30, true);
    for g in &m.groups {
        if matches!(
            g.part,
            surety_device::characterise::Part::Write(1) | surety_device::characterise::Part::Flush
        ) {
            println!(
                "{:?} {:?}",
                g.part,
                g.samples.iter().take(24).map(|s| (s.request.op, s.response() / 1e3)).collect::<Vec<_>>()
            );
        }
    }
}
