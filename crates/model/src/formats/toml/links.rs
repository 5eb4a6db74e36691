//! Sections of networks: `[link.NAME]`, `[[flow]]`.

use surety_units::{Bytes, Nanos, Rate};

use super::keys::promises;
use super::table::{Reading, Table};
use super::times::arrivals_of;
use crate::workload::*;

/// Flows of one kind: as many as threads.
const COUNT: std::ops::Range<i64> = 1..10_001;
/// A message of a flow has at most so many bytes: a second of 8 Gbit/s.
const MESSAGE_MAX: Bytes = Bytes(1_000_000_000);

pub(super) fn link(reading: &mut Reading, table: Table<'_>, name: &str) -> Option<Link> {
    let rate = table.required(reading, "rate", "\"100Mbit/s\"");
    let rate: Option<Rate> = rate.and_then(|field| {
        let rate: Rate = field.quantity(reading, "100Mbit/s")?;
        if rate.0 == 0 {
            reading.wrong(field.span, "the link carries nothing".to_owned(), "more than nothing", None);
        }
        Some(rate)
    });
    let words: Vec<_> = LINK_SCHEDULERS.iter().map(|row| (row.word, row.word)).collect();
    let scheduler = table.word(reading, "scheduler", &words).unwrap_or(LINK_SCHEDULERS[0].word);
    let quantum = sized(reading, &table, "quantum", Bytes(1 << 20));
    table.finish(reading);
    Some(Link { name: name.to_owned(), rate: rate?, scheduler: scheduler.to_owned(), quantum })
}

/// A size from 1 B to `most`.
fn sized(reading: &mut Reading, table: &Table<'_>, key: &'static str, most: Bytes) -> Option<Bytes> {
    let field = table.field(reading, key)?;
    let size: Bytes = field.quantity(reading, "1500B")?;
    if size.0 == 0 || size > most {
        let message = format!("`{key}` is {size}, and takes 1B to {most}");
        reading.wrong(field.span, message, "out of range", None);
    }
    Some(size)
}

pub(super) fn flow(reading: &mut Reading, table: &Table<'_>, name: String) -> Option<Flow> {
    let link = table.required(reading, "link", "\"l\"");
    let arrivals =
        table.required(reading, "arrivals", "{ kind = \"closed\", outstanding = 64, service = \"1ms\" }");
    let weights = 1..i64::from(Flow::WEIGHT_MAX) + 1;
    let flow = Flow {
        count: table.integer(reading, "count", COUNT).unwrap_or(1) as u32,
        weight: table.integer(reading, "weight", weights).unwrap_or(1) as u32,
        packet: sized(reading, table, "packet", Flow::PACKET_MAX).unwrap_or(Flow::PACKET),
        size: sized(reading, table, "size", MESSAGE_MAX),
        curve: table.table(reading, "curve").and_then(|table| curve(reading, table)),
        start: table.quantity(reading, "start", "1s").unwrap_or(Nanos::ZERO),
        promises: promises(reading, table),
        name,
        link: link.and_then(|field| field.text(reading, "a link's name").map(str::to_owned))?,
        arrivals: arrivals.and_then(|field| arrivals_of(reading, &field))?,
    };
    Some(flow)
}

fn curve(reading: &mut Reading, table: Table<'_>) -> Option<ServiceCurve> {
    let mut rate = |key: &'static str| {
        let field = table.required(reading, key, "\"64kbit/s\"")?;
        let rate: Rate = field.quantity(reading, "64kbit/s")?;
        if rate.0 == 0 {
            reading.wrong(field.span, format!("`{key}` is zero"), "more than nothing", None);
        }
        Some(rate)
    };
    let (first, then) = (rate("first"), rate("then"));
    let bend = table.required(reading, "bend", "\"5ms\"").and_then(|field| field.quantity(reading, "5ms"));
    table.finish(reading);
    Some(ServiceCurve { first: first?, bend: bend?, then: then? })
}

#[cfg(test)]
mod tests {
    use super::super::read;

    #[test]
    fn mistakes_in_links_and_flows_are_reported_at_their_place() {
        let link = "format = 1\n[link.l]\nrate = \"1MB/s\"\n";
        let flow = |keys: &str| {
            format!(
                "{link}[[flow]]\nname = \"f\"\nlink = \"l\"\narrivals = {{ kind = \"periodic\", period = \"1s\" }}\n{keys}\n"
            )
        };
        for (text, place, says) in [
            ("format = 1\n[link.l]\nrate = \"0B/s\"\n".to_owned(), "3:8", "carries nothing"),
            ("format = 1\n[link.l]\n".to_owned(), "2:1", "`rate` is missing"),
            (format!("{link}scheduler = \"dr\"\n"), "4:13", "did you mean \"drr\"?"),
            (format!("{link}quantum = \"2MiB\"\n"), "4:11", "1B to 1MiB"),
            (flow("weight = 1025"), "8:10", "1024"),
            (flow("packet = \"65KiB\""), "8:10", "1B to 64KiB"),
            (flow("size = \"0B\""), "8:8", "`size` is 0B"),
            (flow("rate = \"1MB/s\""), "8:1", "unknown key"),
            (flow("curve = { first = \"1MB/s\", then = \"1MB/s\" }"), "8:9", "`bend` is missing"),
            (flow("curve = { first = \"0B/s\", bend = \"1s\", then = \"1MB/s\" }"), "8:19", "zero"),
            (flow("[vary]\n\"link.k.scheduler\" = [\"drr\"]"), "9:1", "there is no link `k`"),
            (flow("").replace("link = \"l\"", "link = \"k\""), "6:8", "there is no link `k`"),
        ] {
            let said = read("f.toml", &text).expect_err(&text).to_string();
            assert!(said.contains(&format!("f.toml:{place}")) && said.contains(says), "{text}\n{said}");
        }
    }
}
