//! What is imported says what the program that wrote it says: counts are equal, quantiles within a bucket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod samples;

use std::collections::BTreeMap;

use samples::{activity, bytes, count, extremes, figure, imported, json};
use surety_import::read;
use surety_units::Nanos;

/// Whether two times are equal within our bucket and some slack of the other side.
fn near(found: Nanos, told: u64, slack: f64) -> bool {
    (found.get() as f64 - told as f64).abs() <= told as f64 * (1.0 / 256.0 + slack) + 1.0
}

/// The same run as JSON and as text: the same counts, the same extremes, the overflow counted in both (trap: it is in
/// neither histogram, and in the JSON it is not even told).
#[test]
fn cyclictest_counts_what_its_histogram_does_not_hold() {
    let told = json("cyclictest.json");
    let (from_json, from_text) = (imported("cyclictest.json"), imported("cyclictest-h.txt"));
    assert_eq!(from_json.world, "cyclictest");
    let mut total = 0;
    for thread in ["0", "1"] {
        let cycles = told["thread"][thread]["cycles"].as_u64().unwrap();
        total += cycles;
        let histogram = told["thread"][thread]["histogram"].as_object().unwrap();
        let within: u64 = histogram.values().map(|n| n.as_u64().unwrap()).sum();
        assert!(within < cycles, "the fixture has an overflow");
        for record in [&from_json, &from_text] {
            let activity = activity(record, &format!("thread {thread}"));
            let latency = activity.latency.as_ref().unwrap();
            assert_eq!((activity.activations, count(latency)), (cycles, cycles));
            let (min, max) = extremes(latency);
            assert_eq!(min, told["thread"][thread]["min"].as_u64().unwrap() * 1_000);
            assert_eq!(max, told["thread"][thread]["max"].as_u64().unwrap() * 1_000);
            // The median of the counts as they stand in the file.
            let mut below = 0;
            let mut values: Vec<(u64, u64)> =
                histogram.iter().map(|(v, n)| (v.parse().unwrap(), n.as_u64().unwrap())).collect();
            values.sort_unstable();
            let median = values.iter().find(|(_, n)| {
                below += n;
                below >= cycles.div_ceil(2)
            });
            let median = median.unwrap().0 * 1_000;
            assert!(near(latency.quantile(0.5).unwrap(), median, 0.0), "{median}");
        }
    }
    for record in [&from_json, &from_text] {
        assert_eq!(activity(record, "all threads").activations, total);
        assert_eq!(record.degraded.len(), 3, "{:?}", record.degraded);
        assert!(record.degraded[0].contains("beyond the last bucket"), "{:?}", record.degraded);
        assert!(record.degraded[2].contains("periods that cyclictest skipped"), "{:?}", record.degraded);
        assert_eq!((record.seed, record.activities[0].missed), (None, 0));
    }
}

/// `-H` adds a column of sums, and a maximum of it: neither is a thread.
#[test]
fn the_column_of_sums_is_no_thread() {
    let record = imported("cyclictest-H.txt");
    let names: Vec<&str> = record.activities.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["all threads", "thread 0", "thread 1"]);
    let of = |name: &str| activity(&record, name).activations;
    assert_eq!(of("all threads"), of("thread 0") + of("thread 1"));
}

#[test]
fn samples_and_live_lines_of_cyclictest() {
    let record = imported("cyclictest-v.txt");
    let text = String::from_utf8(bytes("cyclictest-v.txt")).unwrap();
    for thread in [0, 1] {
        let values: Vec<u64> = text
            .lines()
            .filter_map(|line| {
                let fields: Vec<u64> = line.split(':').filter_map(|f| f.trim().parse().ok()).collect();
                (fields.len() == 3 && fields[0] == thread).then(|| fields[2] * 1_000)
            })
            .collect();
        let latency = activity(&record, &format!("thread {thread}")).latency.as_ref().unwrap();
        assert_eq!(count(latency), values.len() as u64);
        assert_eq!(extremes(latency), (*values.iter().min().unwrap(), *values.iter().max().unwrap()));
    }
    let record = imported("cyclictest-live.txt");
    let thread = activity(&record, "thread 0");
    assert_eq!(thread.activations, 983);
    assert_eq!(figure(thread, "largest latency"), 6_410_000.0);
    assert!(thread.latency.is_none());
}

#[test]
fn programs_without_a_histogram_give_figures() {
    let record = imported("signaltest.json");
    let thread = activity(&record, "thread 1");
    assert_eq!((thread.activations, figure(thread, "largest latency")), (300, 10_290_000.0));
    assert_eq!((record.world.as_str(), record.in_force.kernel.is_empty()), ("signaltest", false));
}

/// oslat's last bucket holds everything that is longer.
#[test]
fn the_last_bucket_of_oslat_has_no_upper_edge() {
    for (name, activity_name) in [("oslat.json", "thread 0"), ("oslat.txt", "core 1")] {
        let record = imported(name);
        let latency = activity(&record, activity_name).latency.as_ref().unwrap();
        let told = json("oslat.json");
        let counts = told["thread"]["0"]["histogram"].as_object().unwrap();
        assert_eq!(count(latency), counts.values().map(|n| n.as_u64().unwrap()).sum::<u64>());
        assert_eq!(extremes(latency), (1_000, 4_066_000));
        assert!(record.degraded[0].contains("372 of"), "{:?}", record.degraded);
        assert_eq!(record.duration, Some(Nanos::SECOND));
    }
}

#[test]
fn jitterdebugger_and_its_samples() {
    let record = imported("jitterdebugger.json");
    let told = json("jitterdebugger.json");
    for thread in ["0", "1"] {
        let told = &told["cpu"][thread];
        let latency = activity(&record, &format!("thread {thread}")).latency.as_ref().unwrap();
        assert_eq!(count(latency), told["count"].as_u64().unwrap());
        let extreme = |key: &str| told[key].as_u64().unwrap() * 1_000;
        assert_eq!(extremes(latency), (extreme("min"), extreme("max")));
        // Its own mean is exact to the rounding of the counts to buckets.
        let mean = latency.observed().unwrap().moments.mean().unwrap();
        let avg = told["avg"].as_f64().unwrap() * 1e3;
        let beyond = record.degraded.iter().any(|d| d.starts_with(&format!("thread {thread}:")));
        assert!(beyond || (mean / avg - 1.0).abs() < 0.02, "{mean} {avg}");
    }
    // Packed, 28 bytes each.
    let mut raw = Vec::new();
    for (thread, value) in [(0u32, 3u64), (1, 5), (0, 90)] {
        raw.extend(thread.to_le_bytes());
        raw.extend(17i64.to_le_bytes());
        raw.extend(999_999_999i64.to_le_bytes());
        raw.extend(value.to_le_bytes());
    }
    assert_eq!(raw.len(), 3 * 28);
    let record = read("dir/samples.raw", &raw).unwrap().record;
    let latency = activity(&record, "thread 0").latency.as_ref().unwrap();
    assert_eq!((count(latency), extremes(latency)), (2, (3_000, 90_000)));
    assert_eq!(activity(&record, "all threads").activations, 3);
}

/// fio prints the middles of its bins, so its percentiles are within a bin (1/64) of ours, ours never below the value,
/// and ours never above the maximum (trap: fio's are).
#[test]
fn fio_bins_and_rates() {
    let record = imported("fio.json");
    let told = json("fio.json");
    let job = activity(&record, "a");
    let mut seen = 0;
    for direction in ["read", "write"] {
        let told = &told["jobs"][0][direction];
        assert_eq!(figure(job, &format!("{direction} rate")), told["bw_bytes"].as_f64().unwrap());
        for time in ["clat", "lat"] {
            let told = &told[format!("{time}_ns")];
            if told["bins"].is_null() {
                continue;
            }
            let ours = &job.series[&format!("{direction} {time}")];
            assert_eq!(count(ours), told["N"].as_u64().unwrap());
            assert_eq!(extremes(ours), (told["min"].as_u64().unwrap(), told["max"].as_u64().unwrap()));
            for (percent, value) in told["percentile"].as_object().unwrap() {
                let q = percent.parse::<f64>().unwrap() / 100.0;
                let found = ours.quantile(q).unwrap();
                assert!(
                    near(found, value.as_u64().unwrap(), 1.0 / 64.0),
                    "{direction} {time} {percent}: {found}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 34, "{seen}");
    // Deviations of two directions are never added: nothing but counts makes one.
    assert!(job.figures.iter().all(|f| !f.name.contains("dev")));
}

#[test]
fn plain_fio_gives_its_percentiles_as_figures() {
    let record = imported("fio-plain.json");
    let told = json("fio-plain.json");
    let job = activity(&record, "a");
    let p99 = told["jobs"][0]["read"]["clat_ns"]["percentile"]["99.000000"].as_f64().unwrap();
    assert_eq!(figure(job, "read clat p99"), p99);
    assert!(job.series.is_empty() && record.in_force.environment.contains_key("no distributions"));
}

#[test]
fn fio_histogram_log_adds_up() {
    let record = imported("fio_clat_hist.1.log");
    let text = String::from_utf8(bytes("fio_clat_hist.1.log")).unwrap();
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<u64> = line.split(',').map(|f| f.trim().parse().unwrap()).collect();
        *sums.entry(fields[1]).or_default() += fields[3..].iter().sum::<u64>();
    }
    let job = activity(&record, "fio");
    assert_eq!(count(&job.series["read clat"]), sums[&0]);
    assert_eq!(count(&job.series["write clat"]), sums[&1]);
    assert_eq!(record.duration, Some(Nanos::from_millis(301)));
}

/// Columns are series, samples over the range count, the sum is checked, and the width of a bucket is not guessed low.
#[test]
fn rtla_columns() {
    let record = imported("rtla-timerlat.txt");
    let cpu = activity(&record, "CPU 1");
    assert_eq!(cpu.series.keys().collect::<Vec<_>>(), ["IRQ", "Thr", "Usr"]);
    assert_eq!((count(&cpu.series["Usr"]), extremes(&cpu.series["Usr"])), (991, (4_000, 2_400_000)));
    // 934 of 990 are below 10 us: the median is at most the bucket's upper edge.
    assert!(near(cpu.series["Thr"].quantile(0.5).unwrap(), 9_000, 0.0));
    assert_eq!(extremes(&activity(&record, "CPU 2").series["IRQ"]), (0, 31_000));
    assert_eq!((record.activities.len(), record.duration), (2, Some(Nanos::from_secs(100))));
    assert!(record.in_force.environment["bucket width"].contains("10"));

    let record = imported("rtla-osnoise.txt");
    assert_eq!(count(&activity(&record, "CPU 0").series["noise"]), 90_117);
    assert_eq!(record.degraded, ["CPU 0, noise: 90120 samples are reported, its rows hold 90117"]);
}

#[test]
fn schbench_percentiles_are_figures() {
    for name in ["schbench.json", "schbench.txt"] {
        let record = imported(name);
        let schbench = activity(&record, "schbench");
        assert_eq!(figure(schbench, "wakeup latency p99"), 272_000.0, "{name}");
        assert_eq!(figure(schbench, "wakeup latency p99.9"), 1_266_000.0, "{name}");
        assert_eq!(figure(schbench, "wakeup latency max"), 10_481_000.0, "{name}");
        assert_eq!(figure(schbench, "requests p50"), 3_009.0, "{name}");
    }
    let record = imported("schbench.txt");
    assert_eq!(figure(activity(&record, "schbench"), "wakeup latency samples"), 21_770.0);
    assert_eq!(record.duration, Some(Nanos::from_secs(20)));
}

/// Against the values that the Python package gave when it wrote the files.
#[test]
fn hdr_logs_and_tables() {
    for (name, slack) in [("hdr.hlog", 0.0005), ("hdr.hgrm", 0.0)] {
        let record = imported(name);
        let latency = activity(&record, "hdr").latency.as_ref().unwrap();
        assert_eq!(count(latency), 1_201, "{name}");
        if name == "hdr.hlog" {
            for (q, told) in [(0.5, 58_495), (0.9, 209_791), (0.99, 665_599), (0.999, 2_006_015)] {
                let found = latency.quantile(q).unwrap();
                assert!(near(found, told, slack), "{q}: {found}");
            }
        } else {
            assert!(near(latency.quantile(0.5).unwrap(), 58_000, 0.0));
        }
        assert!(near(latency.quantile(1.0).unwrap(), 123_470_000, 0.001), "{name}");
        assert!(record.degraded[0].contains("unit"), "{name}");
    }
}

#[test]
fn rt_app_lines_are_activations() {
    let record = imported("rt-app-player-0.log");
    let player = activity(&record, "player");
    assert_eq!((player.activations, player.missed), (10, 0));
    let latency = player.latency.as_ref().unwrap();
    let text = String::from_utf8(bytes("rt-app-player-0.log")).unwrap();
    let woken =
        text.lines().filter(|l| !l.starts_with('#')).map(|l| l.rsplit(' ').next().unwrap().parse::<u64>());
    assert_eq!(extremes(latency).1, woken.map(|w| w.unwrap() * 1_000).max().unwrap());
    assert_eq!(player.deadline, Some(Nanos::from_millis(10)));
    assert_eq!(count(player.execution.as_ref().unwrap()), 10);
    assert!(record.in_force.environment["policy"].starts_with("SCHED_OTHER"));
}

/// The suite's confidence is a constant and a wrong tail off; the repetitions it was made of can be found from it, and the
/// right one follows. Values: 1.25 1.31 1.18 1.42 1.29, and eight throughputs.
#[test]
fn the_confidence_of_s_is_computed_anew() {
    let record = imported("bfq-10r0w-seq-lat_thr_stat.txt");
    let activity = activity(&record, "bfq-10r0w-seq-lat_thr_stat");
    assert_eq!(figure(activity, "Latency repetitions"), 5.0);
    assert_eq!(figure(activity, "Aggregated throughput repetitions"), 8.0);
    // Student's 99.5 % quantiles of 4 and 7 degrees of freedom: 4.6041 and 3.4995 (any table).
    let deviation = figure(activity, "Latency std dev");
    let half = figure(activity, "Latency mean +- (99 %)");
    assert!((half / (4.6041 * deviation / 5f64.sqrt()) - 1.0).abs() < 1e-4, "{half}");
    let (deviation, half) = (
        figure(activity, "Aggregated throughput std dev"),
        figure(activity, "Aggregated throughput mean +- (99 %)"),
    );
    assert!((half / (3.4995 * deviation / 8f64.sqrt()) - 1.0).abs() < 1e-4, "{half}");
    assert_eq!(figure(activity, "Latency max"), 1.42e9);
    assert_eq!(figure(activity, "Aggregated throughput min"), 98.1 * 1_048_576.0);
    // No deviation, no confidence.
    assert!(activity.figures.iter().all(|f| f.name != "Write throughput mean +- (99 %)"));
    assert!(record.in_force.environment.contains_key("confidence of Write throughput"));
}
