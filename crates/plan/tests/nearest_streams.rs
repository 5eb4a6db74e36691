//! What is offered instead of a refused stream, typed back into its workload: the plan has the stream then, and every other one that it had before.

use std::collections::BTreeMap;

use surety_model::formats::toml;
use surety_model::plan::{Plan, Refusal};
use surety_model::platform::{DiskDriver, Platform};
use surety_plan::{PlanOptions, plan};

const DISK: &str = "[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\njournal = false\n";
const LOAD: &str = "[[load]]\nname = 'readers'\nkind = 'readers'\ncount = 2\ndisk = 'd'\n";

/// A stream, with these keys.
fn stream(name: &str, keys: &str) -> String {
    format!("[[stream]]\nname = '{name}'\ndisk = 'd'\nfile = {{ make = '24MB' }}\n{keys}\n")
}

fn planned(text: &str, driver: DiskDriver) -> Plan {
    let workload = toml::read("w.toml", text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    let platform = Platform { disk_driver: driver, ..Platform::linux_6_18(2) };
    plan(&workload, &BTreeMap::new(), &PlanOptions::new(platform))
}

/// A section of a file with a key set, or left out.
fn with_key(text: &str, section: &str, key: &str, value: Option<&str>) -> String {
    let mut sections: Vec<String> = text.split_inclusive("\n").fold(Vec::new(), |mut all, line| {
        match all.last_mut() {
            Some(last) if !line.starts_with('[') => last.push_str(line),
            _ => all.push(line.to_owned()),
        }
        all
    });
    let place = sections.iter().position(|one| one.contains(section)).unwrap_or_else(|| panic!("{section}"));
    let kept = sections[place].lines().filter(|line| line.split('=').next().map(str::trim) != Some(key));
    let mut changed: String = kept.map(|line| format!("{line}\n")).collect();
    changed.extend(value.map(|value| format!("{key} = {value}\n")));
    sections[place] = changed;
    sections.concat()
}

/// What is offered, as somebody types it in.
fn typed(text: &str, refusal: &Refusal, offered: &str) -> String {
    let section = format!("name = '{}'", refusal.activity);
    if let Some(limit) = offered.strip_prefix("response <= ") {
        return with_key(text, &section, "promise", Some(&format!("'response <= {limit}'")));
    }
    if let Some(words) = offered.strip_suffix(" of disk d") {
        return with_key(text, "[disk.d]", "best-effort", words.split_once(" = ").map(|(_, value)| value));
    }
    if offered == "`best-effort` of disk d left out" {
        return with_key(text, "[disk.d]", "best-effort", None);
    }
    offered.split(", ").fold(text.to_owned(), |text, words| match words.split_once(" = ") {
        Some((key, value)) => with_key(&text, &section, key, Some(value)),
        None => {
            let key = words.trim_matches('`').split('`').next().unwrap_or_default();
            with_key(&text, &section, key, None)
        }
    })
}

/// Each refusal of a workload with everything that is offered, which is planned when it is typed in; the beginnings of what is offered.
fn offered(text: &str, driver: DiskDriver) -> Vec<String> {
    let before = planned(text, driver);
    let mut all = Vec::new();
    for refusal in &before.refusals {
        for offered in &refusal.nearest {
            let text = typed(text, refusal, offered);
            let after = planned(&text, driver);
            let had = before.streams.iter().map(|planned| &planned.activity).chain([&refusal.activity]);
            for name in had {
                assert!(after.stream_of(name).is_some(), "{offered}: {name}: {:?}\n{text}", after.refusals);
            }
            all.push(format!(
                "{}: {}",
                refusal.activity,
                offered.split([' ', '"']).next().unwrap_or_default()
            ));
        }
    }
    all
}

const OF_DISK: DiskDriver = DiskDriver::OfDisk;
const LOOP: DiskDriver = DiskDriver::Loop { tags: Some(128) };

#[test]
fn what_is_offered_is_planned() {
    let movie = |keys: &str| stream("movie", &format!("promise = 'late == 0'\n{keys}"));
    let four = |keys: &str| movie(&format!("count = 4\nrate = '1MB/s'\nread = '64KiB'\n{keys}"));
    let floor = |rate: &str, load: &str| {
        let two = movie("count = 2\nrate = '1MB/s'\nread = '64KiB'");
        format!("{}best-effort = '{rate}'\n{two}{load}", DISK)
    };
    for (text, driver, expected) in [
        (format!("{DISK}depth = 4\n{}{LOAD}", four("batch = '16KiB'")), LOOP, &["movie: batch"][..]),
        (format!("{DISK}{}{LOAD}", four("buffer = '96KiB'")), OF_DISK, &["movie: buffer"]),
        (
            format!("{DISK}{}{LOAD}", movie("rate = '4MB/s'\nread = '64KiB'\njitter = '0s'")),
            OF_DISK,
            &["movie: jitter"],
        ),
        (format!("{DISK}{}", movie("rate = '1GB/s'\nread = '64KiB'")), OF_DISK, &["movie: rate"]),
        (format!("{DISK}{}", movie("rate = '1MB/s'\nread = '1B'")), OF_DISK, &["movie: rate"]),
        (
            format!("{DISK}{}", movie("count = 30\nrate = '1MB/s'\nread = '64KiB'")),
            OF_DISK,
            &["movie: rate", "movie: count"],
        ),
        (
            format!("{DISK}{}", movie("count = 100000\nrate = '1kB/s'\nread = '64KiB'")),
            OF_DISK,
            &["movie: count"],
        ),
        (floor("9MB/s", LOAD), OF_DISK, &["movie: best-effort"]),
        (floor("1MB/s", ""), OF_DISK, &["movie: `best-effort`"]),
    ] {
        let text = format!("format = 1\n{text}");
        let found = offered(&text, driver);
        for kind in expected {
            assert!(found.iter().any(|of| of == kind), "{kind} is none of {found:?}\n{text}");
        }
    }
}

/// A limit of responses that is too short is offered with one that is kept, also where another promise is refused with it.
#[test]
fn a_longer_response_is_offered() {
    let quick =
        |promise: &str| stream("quick", &format!("rate = '100kB/s'\nread = '8KiB'\npromise = {promise}"));
    let text = format!("format = 1\n{DISK}{}{LOAD}", quick("'response <= 5ms'"));
    let found = offered(&text, OF_DISK);
    assert!(found.iter().any(|of| of == "quick: response"), "{found:?}");
    let both =
        planned(&format!("format = 1\n{DISK}{}{LOAD}", quick("['late == 0', 'response <= 5ms']")), OF_DISK);
    assert_eq!(both.refusals.len(), 2, "{both:?}");
    assert_eq!(both.refusals[0].nearest, both.refusals[1].nearest);
    assert!(both.refusals[0].nearest[0].starts_with("response <= "), "{:?}", both.refusals);
}
