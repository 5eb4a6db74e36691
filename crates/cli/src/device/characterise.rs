//! `surety device characterise`: a disk of this machine measured into a profile of the simulator.

use std::time::SystemTime;

use surety_device::characterise::compare::{Figures, Off, Quantile, share};
use surety_device::characterise::{Fitted, Measured, Origin, Part, Row, compare, fit};
use surety_host::characterise::Target;
use surety_report::table::cells;
use surety_units::{Bytes, Nanos};

use crate::args::CharacteriseArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// The verb.
pub fn characterise(args: &CharacteriseArgs, session: &Session) -> Result<Code, Failure> {
    if session.json {
        return Err(Failure::new(Code::BadInput, "this prints a profile, not a JSON document")
            .help("leave --json out"));
    }
    files::check_outputs([args.output.as_ref()])?;
    let target = Target::open(&args.device, args.write.as_deref())?;
    for caveat in target.caveats() {
        session.note(&caveat);
    }
    session.step(&format!(
        "measuring {} for at most {}",
        args.device.display(),
        args.duration.to_exact_string()
    ));
    let mut kind = None;
    let mut watch = |part: Part| {
        // A heading for each kind of part, not for each of its sizes.
        if kind.replace(heading(part)) != Some(heading(part)) {
            session.step(&format!("  {}", heading(part)));
        }
    };
    let measured = target.measure(args.duration, args.seed, &session.cancel, &mut watch)?;
    let fitted = fit(&measured, &origin(args, &target, &measured)).map_err(|wrong| {
        Failure::new(Code::Undecided, format!("what was measured gives no profile: {wrong}"))
            .help("give it more time (--for)")
    })?;
    let page = page(&measured, &fitted, session);
    match &args.output {
        Some(path) => {
            files::write(path, &fitted.text)?;
            session.print(&page)?;
            session.step(&format!(
                "profile in {}; in a workload: [disk.d] model = \"{}\"",
                path.display(),
                path.display()
            ));
        }
        None => {
            session.step(&page);
            session.print(&fitted.text)?;
        }
    }
    Ok(Code::Kept)
}

fn origin(args: &CharacteriseArgs, target: &Target, measured: &Measured) -> Origin {
    let date = date();
    let named = args.output.as_deref().unwrap_or(&args.device).file_stem();
    let requests: usize = measured.groups.iter().map(|group| group.samples.len()).sum();
    let mut sources =
        vec![format!("surety device characterise, {date}: {requests} requests, seed {}", args.seed)];
    sources.extend(target.told());
    sources.extend(target.caveats());
    sources.extend(args.write.iter().map(|path| format!("writes were measured on {}", path.display())));
    Origin {
        name: named.map_or_else(|| "measured".to_owned(), |name| name.to_string_lossy().into_owned()),
        about: format!("{} as it was measured on {date}", args.device.display()),
        date,
        sources,
        depth: target.depth(),
    }
}

/// The day in UTC, `2026-11-24`.
fn date() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = civil(since.as_secs() / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a day after 1 January 1970, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

/// What is being measured.
fn heading(part: Part) -> &'static str {
    match part {
        Part::WarmUp | Part::Random => "random reads",
        Part::Again(_) => "reads of the same places again: does it turn?",
        Part::Repeat(_) => "reads of what was just read",
        Part::Distance(_) => "reads at growing distances",
        Part::Depth(_) => "several reads at a time",
        Part::Size(_) => "larger reads",
        Part::Sequential(_) | Part::Stream => "sequential reads",
        Part::Write(_) | Part::WriteStream | Part::Flush => "writes and flushes",
    }
}

/// What was found, and measured beside modelled.
fn page(measured: &Measured, fitted: &Fitted, session: &Session) -> String {
    let turns = match measured.turning {
        Some(turning) => format!(
            "it turns: {:.0} times a minute ({}), found in {} times between reads of the same sector\n",
            60e9 / turning.revolution,
            Nanos::from_f64_rounded(turning.revolution),
            turning.times
        ),
        None => "it does not turn, as far as reads tell\n".to_owned(),
    };
    let rows = compare(measured, &fitted.profile);
    let notes: String = fitted.notes.iter().map(|note| format!("{note}\n")).collect();
    let times: Vec<Vec<String>> = rows.iter().map(times).collect();
    let times = cells(&["requests", "n", "p50", "model", "", "p99", "model", ""], &times, &session.style());
    let rates: Vec<Vec<String>> = rows.iter().filter_map(rates).collect();
    let rates = cells(&["requests", "MB/s", "model", "", "1/s", "model"], &rates, &session.style());
    let off: Vec<String> = rows.iter().filter_map(off).collect();
    let verdict = match off.as_slice() {
        [] => "the model follows all of it: medians within 10 %, rates within 15 %, 99th percentiles within 25 %, or within chance\n".to_owned(),
        off => format!("the model does not follow: {}\n", off.join("; ")),
    };
    format!("{turns}{notes}\n{times}\n{rates}\n{verdict}")
}

/// A row that the model does not follow, and in what; `None`: it does.
fn off(row: &Row) -> Option<String> {
    let words = row.off().into_iter().map(|off| match off {
        Off::Median => "median",
        Off::Tail => "tail",
        Off::Rate => "rate",
    });
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| format!("{} ({})", said(row.part, row.bytes), words.join(", ")))
}

/// A row of the table of times.
fn times(row: &Row) -> Vec<String> {
    let mut line = vec![said(row.part, row.bytes), row.requests.to_string()];
    let time = |of: &Quantile| Nanos::from_f64_rounded(of.value).to_string();
    let sides: [fn(&Figures) -> &Quantile; 2] = [|figures| &figures.p50, |figures| &figures.p99];
    for of in sides {
        let (measured, modelled) = (of(&row.measured), of(&row.modelled));
        line.extend([time(measured), time(modelled), percent(measured.value, modelled.value)]);
    }
    line
}

/// A row of the table of rates, where there is one.
fn rates(row: &Row) -> Option<Vec<String>> {
    let (measured, modelled) = row.measured.rate.zip(row.modelled.rate)?;
    let megabytes = |rate: f64| four_digits(rate * row.bytes as f64 / 1e6);
    Some(vec![
        said(row.part, row.bytes),
        megabytes(measured),
        megabytes(modelled),
        percent(measured, modelled),
        four_digits(measured),
        four_digits(modelled),
    ])
}

fn percent(measured: f64, modelled: f64) -> String {
    format!("{:+.0} %", share(measured, modelled) * 100.0)
}

/// A number with four digits at most.
fn four_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        value if value < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A group of requests in few words: `x 8` is eight at a time, a row one behind the other.
fn said(part: Part, bytes: u64) -> String {
    let size = Bytes(bytes).to_exact_string();
    let place = |sector: u64| format!("{:.1} GB", (sector * 512) as f64 / 1e9);
    match part {
        Part::WarmUp => "warm-up".to_owned(),
        Part::Random | Part::Size(_) => format!("random {size}"),
        Part::Again(places) => format!("{places} places again"),
        Part::Repeat(_) => format!("{size} just read"),
        Part::Distance(far) => format!("{} on", place(far)),
        Part::Depth(depth) => format!("random {size} x {depth}"),
        Part::Sequential(first) => format!("row from {}", place(first)),
        Part::Stream => format!("row of {size} x 32"),
        Part::Write(depth) => format!("write {size} x {depth}"),
        Part::WriteStream => "write row x 32".to_owned(),
        Part::Flush => "flush".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The epoch, leap days, the end of a century that has none, and one that has.
    #[test]
    fn days_are_dates() {
        let known = [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_781, (2026, 11, 24)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ];
        for (days, date) in known {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}
