//! HdrHistogram's interval log (`.hlog`), versions 1.2 and 1.3 with histograms of encoding V2.
//!
//! A line is `[Tag=NAME,]start,length,maximum,histogram`; every interval is added up, a tag is an activity. *Unit*: not
//! written; nanoseconds are taken, and the record says so. *A histogram* is base64 of a big-endian cookie, a length
//! and a zlib stream, which holds: cookie, length of the counts, normalizing offset, digits, lowest and highest
//! value, a float ratio, then the counts as ZigZag LEB128 numbers, a negative one standing for so many empty
//! buckets. Buckets are those of [`HdrBins`]; each stands for its upper edge.

use std::collections::BTreeMap;

use surety_model::record::Record;
use surety_stats::bins::HdrBins;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX, Counts};
use crate::input::{Input, at_line, number};

pub(crate) const NAME: &str = "HdrHistogram log";

const COOKIE: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;

/// The low bits of the second nibble tell the width of a counter; V2 always says 0x10.
const COOKIE_MASK: u32 = 0xffff_ff0f;

/// No histogram is larger than this when inflated: one of three digits takes half a megabyte at most.
const INFLATED_MAX: usize = 8 << 20;

/// Buckets of one histogram, and of all tags together. Bounds memory.
const BUCKETS_MAX: usize = 1 << 20;

const HEADER: usize = 40;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.text.contains("Interval_Compressed_Histogram")
        || input.text.starts_with("#[Histogram log format version")
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("HdrHistogram");
    assembly.doubt("the file does not say its unit: its values are taken as nanoseconds");
    let mut tags: BTreeMap<&str, BTreeMap<(u64, u64), u64>> = BTreeMap::new();
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    for (line, text) in input.lines() {
        let wrong = at_line(NAME, line);
        if text.is_empty() || text.starts_with('#') || text.starts_with('"') {
            continue;
        }
        let (tag, rest) = match text.strip_prefix("Tag=").map(|t| t.split_once(',')) {
            Some(Some((tag, rest))) => (tag, rest),
            Some(None) => return Err(wrong("behind a tag comes a comma".to_owned())),
            None => (input.stem(), text),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let [start, length, _, histogram] = fields.as_slice() else {
            return Err(wrong("a line is start, length, maximum, histogram".to_owned()));
        };
        let start = number(start.trim()).map_err(&wrong)?;
        first = first.min(start);
        last = last.max(start + number(length.trim()).map_err(&wrong)?);
        if !tags.contains_key(tag) && tags.len() == COLUMNS_MAX {
            return Err(wrong(format!("more than {COLUMNS_MAX} tags")));
        }
        if tags.values().map(BTreeMap::len).sum::<usize>() > BUCKETS_MAX {
            return Err(wrong(format!("more than {BUCKETS_MAX} buckets in all")));
        }
        let sums = tags.entry(tag).or_default();
        for (bucket, count) in decode(histogram.trim()).map_err(&wrong)? {
            let sum = sums.entry(bucket).or_default();
            *sum = sum.checked_add(count).ok_or_else(|| wrong("more than 2^64 - 1 values".to_owned()))?;
        }
    }
    assembly.lasted(last - first);
    for (tag, sums) in tags {
        let buckets = sums.into_iter().map(|((low, high), count)| (low, high, count)).collect();
        assembly.latency(tag, Counts { buckets, ..Counts::default() }).map_err(at_line(NAME, 1))?;
    }
    Ok(assembly.record())
}

/// A bucket's smallest and largest value with its count.
type Bucket = ((u64, u64), u64);

fn decode(text: &str) -> Result<Vec<Bucket>, String> {
    let bytes = base64(text)?;
    let (cookie, rest) = word(&bytes)?;
    let (length, rest) = word(rest)?;
    match cookie & COOKIE_MASK {
        COOKIE_COMPRESSED => {
            let stream = usize::try_from(length).ok().and_then(|length| rest.get(..length));
            let stream = stream.ok_or("the histogram is cut off")?;
            let inflated = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(stream, INFLATED_MAX);
            counts(&inflated.map_err(|e| format!("the histogram cannot be inflated: {:?}", e.status))?)
        }
        COOKIE => counts(&bytes),
        _ => Err(format!("{cookie:#010x} begins no histogram of encoding V2")),
    }
}

fn word(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or("the histogram is cut off")?;
    Ok((u32::from_be_bytes(*word), rest))
}

fn counts(bytes: &[u8]) -> Result<Vec<Bucket>, String> {
    let (cookie, rest) = word(bytes)?;
    if cookie & COOKIE_MASK != COOKIE {
        return Err(format!("{cookie:#010x} begins no histogram of encoding V2"));
    }
    let (length, rest) = word(rest)?;
    let (offset, rest) = word(rest)?;
    let (digits, rest) = word(rest)?;
    let lowest = rest.first_chunk::<8>().ok_or("the histogram is cut off")?;
    if offset != 0 {
        return Err("a histogram with a shifted index is not read".to_owned());
    }
    let bins = HdrBins::new(u64::from_be_bytes(*lowest), digits);
    let bins =
        bins.ok_or_else(|| format!("a histogram has 1 to 5 digits above a lowest value, not {digits}"))?;
    let payload = usize::try_from(length).ok().and_then(|length| bytes.get(HEADER..)?.get(..length));
    let mut payload = payload.ok_or("the histogram is cut off")?;
    let mut found = Vec::new();
    // The value of a bucket's lower edge; it only grows, and never past what a counter can stand for.
    let mut low = Some(0u64);
    while !payload.is_empty() {
        let (number, rest) = zigzag(payload)?;
        payload = rest;
        let beyond = || "there are more buckets than values".to_owned();
        if number < 0 {
            low = Some(skip(bins, low.ok_or_else(beyond)?, number.unsigned_abs())?);
            continue;
        }
        let (start, end) = bins.range(low.ok_or_else(beyond)?);
        if found.len() == BUCKETS_MAX {
            return Err(format!("more than {BUCKETS_MAX} buckets"));
        }
        if number > 0 {
            found.push(((start, end), number.unsigned_abs()));
        }
        low = end.checked_add(1);
    }
    Ok(found)
}

/// The lower edge of the bucket so many further on. Buckets of one octave are alike, so whole runs are passed at once.
fn skip(bins: HdrBins, mut low: u64, mut buckets: u64) -> Result<u64, String> {
    let beyond = || "there are more buckets than values".to_owned();
    while buckets > 0 {
        let (start, end) = bins.range(low);
        let width = end - start + 1;
        // Up to the next power of two all buckets are as wide as this one.
        let octave = start.max(1).checked_next_power_of_two().filter(|o| *o > start);
        let octave = octave.or_else(|| start.checked_mul(2)).unwrap_or(u64::MAX).max(end);
        let run = ((octave - start) / width).clamp(1, buckets);
        low = run.checked_mul(width).and_then(|w| start.checked_add(w)).ok_or_else(beyond)?;
        buckets -= run;
    }
    Ok(low)
}

/// A ZigZag LEB128 number of at most nine bytes, the ninth of which has eight bits.
fn zigzag(bytes: &[u8]) -> Result<(i64, &[u8]), String> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        let shift = 7 * index;
        let ends = byte & 0x80 == 0 || index == 8;
        let bits = if index == 8 { u64::from(*byte) } else { u64::from(byte & 0x7f) };
        value |= bits << shift;
        if ends {
            let half = i64::try_from(value >> 1).map_err(|_| "a count is out of range".to_owned())?;
            let number = if value & 1 == 1 { -half - 1 } else { half };
            return Ok((number, bytes.get(index + 1..).unwrap_or_default()));
        }
    }
    Err("the histogram is cut off".to_owned())
}

/// Bytes of a base64 text (RFC 4648, the ordinary alphabet), with or without its padding.
fn base64(text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0);
    for (place, byte) in text.bytes().enumerate() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("character {} of the histogram is no base64", place + 1)),
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(((bits >> count) & 0xff) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(out)
}
