//! DiskSim's validation traces of four drives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::path::PathBuf;

use surety_device::demerit::{correlation, demerit};
use surety_device::hdd::Hdd;
use surety_device::{Completion, Model, Op, Request, disksim};
use surety_units::Nanos;

struct Line {
    request: Request,
    service: f64,
    after: Nanos,
}

fn data() -> Option<PathBuf> {
    let given = std::env::var_os("SURETY_DISK_DATA").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disks");
    given.or(Some(beside)).filter(|d| d.is_dir())
}

fn trace(text: &str) -> Vec<Line> {
    text.lines()
        .map(|line| {
            let w: Vec<&str> = line.split_whitespace().collect();
            let op = if w[0] == "R" { Op::Read } else { Op::Write };
            Line {
                request: Request::new(op, w[2].parse().unwrap(), w[3].parse().unwrap()),
                service: w[4].parse::<f64>().unwrap() / 1000.0,
                after: Nanos::from_f64_rounded(w[5].parse::<f64>().unwrap() * 1000.0),
            }
        })
        .collect()
}

fn replay(disk: &mut Hdd, lines: &[Line]) -> Vec<Completion> {
    let mut now = Nanos::ZERO;
    let mut all = Vec::new();
    for line in lines {
        disk.accept(now, 0, &line.request);
        let done = loop {
            let at = disk.next().unwrap();
            if let Some(done) = disk.advance(at) {
                break done;
            }
        };
        all.push(done);
        now = done.completed + line.after;
    }
    all
}

#[test]
fn four() {
    let dir = data().unwrap();
    for name in ["atlas10k", "barracuda", "cheetah4LP", "hp_c2490a"] {
        let path = dir.join(format!("{name}.diskspecs"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut open = |file: &str| std::fs::read_to_string(dir.join(file)).map_err(|e| e.to_string());
        let drive = disksim::read(name, &text, &mut open).unwrap_or_else(|e| panic!("{e}"));
        let lines = trace(&std::fs::read_to_string(dir.join(format!("{name}.trace"))).unwrap());
        let mut parameters = drive.parameters;
        if name == "hp_c2490a" {
            parameters.sector_transfer = 0.1484;
        }
        let mut disk = Hdd::new(parameters, 1);
        let done = replay(&mut disk, &lines);
        let model: Vec<f64> = done.iter().map(|d| (d.completed - d.accepted).as_millis_f64()).collect();
        let real: Vec<f64> = lines.iter().map(|l| l.service).collect();
        println!(
            "{name}: demerit {:.3} corr {:.3} mean {:.3} {:.3}",
            demerit(&real, &model).unwrap(),
            correlation(&real, &model).unwrap(),
            real.iter().sum::<f64>() / real.len() as f64,
            model.iter().sum::<f64>() / real.len() as f64
        );
        if let Some(out) = std::env::var_os("DUMP") {
            let mut s = String::new();
            for (l, d) in lines.iter().zip(&done) {
                s += &format!(
                    "{:?} {} {} {} {} {:?} {:?}\n",
                    l.request.op,
                    l.request.sector,
                    l.request.sectors,
                    l.service,
                    (d.completed - d.accepted).as_millis_f64(),
                    d.hit,
                    d.service
                );
            }
            std::fs::write(PathBuf::from(out).join(name), s).unwrap();
        }
    }
}
