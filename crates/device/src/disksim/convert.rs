//! `dm_disk`: layout and mechanics of a drive.

use std::ops::RangeInclusive;

use super::Open;
use super::syntax::{Block, Field, Kind, Value};
use crate::hdd::geometry::{
    CYLINDERS_MAX, Geometry, HEADS_MAX, HeadOrder, SECTORS_PER_TRACK_MAX, Sparing, Zone,
};
use crate::hdd::seek::SeekCurve;
use surety_model::source::{Diagnostic, Diagnostics};

/// Milliseconds of a time at most.
const TIME_MAX: f64 = 10_000.0;
/// Sectors, or revolutions, of a skew at most.
const SKEW_MAX: f64 = 65_536.0;

/// What a `dm_disk` gives.
#[derive(Clone, Debug)]
pub struct Mechanics {
    pub geometry: Geometry,
    pub seek: SeekCurve,
    /// Milliseconds.
    pub head_switch: f64,
    /// Milliseconds.
    pub write_settle: f64,
    /// Milliseconds.
    pub revolution: f64,
}

/// The fields of a block, looked up by key.
pub struct Fields<'a>(pub &'a Block);

impl<'a> Fields<'a> {
    /// The field of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&'a Field> {
        self.0.fields.iter().find(|field| field.key == key)
    }

    fn need(&self, key: &str) -> Result<&'a Field, Diagnostic> {
        self.get(key).ok_or_else(|| {
            let end = self.0.span.start + self.0.kind.len();
            Diagnostic::new(self.0.span.start..end, format!("this {} has no `{key}`", self.0.kind))
        })
    }

    /// A number in a range.
    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64, Diagnostic> {
        let field = self.need(key)?;
        let wrong = |message| Err(Diagnostic::new(field.value.span.clone(), message));
        match field.value.kind {
            Kind::Number(number) if range.contains(&number) => Ok(number),
            Kind::Number(number) => {
                let (least, most) = (range.start(), range.end());
                wrong(format!("`{key}` is {number}, and should be between {least} and {most}"))
            }
            _ => wrong(format!("`{key}` should be a number")),
        }
    }

    /// A whole number in a range.
    pub fn count(&self, key: &str, range: RangeInclusive<u32>) -> Result<u32, Diagnostic> {
        let number = self.number(key, f64::from(*range.start())..=f64::from(*range.end()))?;
        if number != libm::floor(number) {
            let span = self.need(key)?.value.span.clone();
            return Err(Diagnostic::new(span, format!("`{key}` is {number}, and should be a whole number")));
        }
        Ok(number as u32)
    }

    /// Milliseconds of a time, up to ten seconds.
    pub fn time(&self, key: &str) -> Result<f64, Diagnostic> {
        self.number(key, 0.0..=TIME_MAX)
    }

    fn word(&self, key: &str) -> Result<&'a str, Diagnostic> {
        let field = self.need(key)?;
        match &field.value.kind {
            Kind::Word(word) => Ok(word),
            _ => Err(Diagnostic::new(field.value.span.clone(), format!("`{key}` should be a word"))),
        }
    }

    fn block(&self, key: &str) -> Result<&'a Block, Diagnostic> {
        let field = self.need(key)?;
        match &field.value.kind {
            Kind::Block(block) => Ok(block),
            _ => Err(Diagnostic::new(field.value.span.clone(), format!("`{key}` should be a block"))),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [Value], Diagnostic> {
        let field = self.need(key)?;
        match &field.value.kind {
            Kind::List(list) => Ok(list),
            _ => Err(Diagnostic::new(field.value.span.clone(), format!("`{key}` should be a list"))),
        }
    }

    /// Refuses keys that are not in a list.
    pub fn known(&self, keys: &[&str]) -> Result<(), Diagnostic> {
        match self.0.fields.iter().find(|field| !keys.contains(&field.key.as_str())) {
            None => Ok(()),
            Some(field) => {
                let message = format!("`{}` is not a key of {}", field.key, self.0.kind);
                Err(Diagnostic::new(field.span.clone(), message))
            }
        }
    }
}

/// Reads a `dm_disk` of a file.
pub fn disk(block: &Block, file: &str, text: &str, open: &mut Open<'_>) -> Result<Mechanics, Diagnostics> {
    let fail = |diagnostic| Diagnostics::one(file, text, diagnostic);
    let fields = Fields(block);
    let geometry = layout(&fields).map_err(fail)?;
    let mechanical = Fields(fields.block("Mechanical Model").map_err(fail)?);
    let seek = seek_curve(&mechanical, &geometry, (file, text), open)?;
    let rest = || -> Result<(f64, f64, f64), Diagnostic> {
        if mechanical.word("Access time type")? != "trackSwitchPlusRotation" {
            let span = mechanical.need("Access time type")?.value.span.clone();
            return Err(Diagnostic::new(
                span,
                "rotation is always reckoned exactly: `trackSwitchPlusRotation`",
            ));
        }
        let switch = mechanical.time("Head switch time")?;
        let settle = mechanical.number("Add. write settling delay", -1000.0..=1000.0)?;
        let rpm = mechanical.number("Rotation speed (in rpms)", 60.0..=60_000.0)?;
        Ok((switch, settle, 60_000.0 / rpm))
    };
    let (head_switch, write_settle, revolution) = rest().map_err(fail)?;
    Ok(Mechanics { geometry, seek, head_switch, write_settle, revolution })
}

fn layout(fields: &Fields<'_>) -> Result<Geometry, Diagnostic> {
    fields.known(&[
        "Number of data surfaces",
        "Number of cylinders",
        "Block count",
        "Layout Model",
        "Mechanical Model",
    ])?;
    let heads = fields.count("Number of data surfaces", 1..=HEADS_MAX)?;
    let layout = Fields(fields.block("Layout Model")?);
    if layout.0.kind != "dm_layout_g1" {
        let message = format!("the layout {} is not modelled; dm_layout_g1 is", layout.0.kind);
        return Err(Diagnostic::new(layout.0.span.clone(), message));
    }
    layout.known(&[
        "LBN-to-PBN mapping scheme",
        "Sparing scheme used",
        "Rangesize for sparing",
        "Skew units",
        "Zones",
    ])?;
    let order = match layout.count("LBN-to-PBN mapping scheme", 0..=u32::MAX)? {
        0 => HeadOrder::Same,
        1 => HeadOrder::Alternating,
        2 => HeadOrder::AlternatingOverall,
        other => return Err(unmodelled(&layout, "LBN-to-PBN mapping scheme", other)),
    };
    let range = layout.count("Rangesize for sparing", 0..=CYLINDERS_MAX)?;
    let sectors = |tracks, moves_skew| Sparing::Sectors { tracks, moves_skew };
    let sparing = match layout.count("Sparing scheme used", 0..=u32::MAX)? {
        0 => Sparing::None,
        1 => Sparing::Tracks,
        2 => sectors(heads, true),
        3 => sectors(1, true),
        8 => sectors(range.saturating_mul(heads), false),
        9 => sectors(0, false),
        other => return Err(unmodelled(&layout, "Sparing scheme used", other)),
    };
    let mut zones = Vec::new();
    let list = layout.list("Zones")?;
    for value in list {
        let Kind::Block(block) = &value.kind else {
            return Err(Diagnostic::new(value.span.clone(), "a zone should be a block dm_layout_g1_zone"));
        };
        zones.push(zone(&Fields(block), layout.get("Skew units"))?);
    }
    if zones.is_empty() {
        return Err(Diagnostic::new(layout.need("Zones")?.span.clone(), "the drive has no zones"));
    }
    Geometry::new(heads, order, sparing, zones).map_err(|(number, words)| {
        Diagnostic::new(list[number].span.clone(), format!("zone {number} cannot be: {words}"))
    })
}

/// The refusal of a scheme.
fn unmodelled(fields: &Fields<'_>, key: &str, value: u32) -> Diagnostic {
    let span = fields.get(key).map_or(0..0, |field| field.value.span.clone());
    Diagnostic::new(span, format!("`{key}` {value} is not modelled"))
}

fn zone(fields: &Fields<'_>, units: Option<&Field>) -> Result<Zone, Diagnostic> {
    fields.known(&[
        "First cylinder number",
        "Last cylinder number",
        "Blocks per track",
        "Offset of first block",
        "Skew units",
        "Empty space at zone front",
        "Skew for track switch",
        "Skew for cylinder switch",
        "Number of spares",
        "slips",
        "defects",
    ])?;
    let sectors_per_track = fields.count("Blocks per track", 1..=SECTORS_PER_TRACK_MAX)?;
    let units = fields.get("Skew units").or(units);
    let in_revolutions =
        units.is_some_and(|field| matches!(&field.value.kind, Kind::Word(word) if word == "revolutions"));
    let scale = if in_revolutions { f64::from(sectors_per_track) } else { 1.0 };
    let skew = |key| match fields.get(key) {
        Some(_) => fields.number(key, 0.0..=SKEW_MAX).map(|skew| skew * scale),
        None => Ok(0.0),
    };
    let defects = fields.list("defects")?;
    for pair in defects.chunks(2) {
        // A sector moved to itself is how a drive writes of one that is there.
        if pair.len() < 2 || pair[0].kind != pair[1].kind {
            let message = "sectors that were moved to spare ones are not modelled";
            return Err(Diagnostic::new(pair[0].span.clone(), message));
        }
    }
    let mut slips = Vec::new();
    for value in fields.list("slips")? {
        match value.kind {
            Kind::Number(number) if (0.0..9e15).contains(&number) => slips.push(number as u64),
            _ => return Err(Diagnostic::new(value.span.clone(), "a slip should be the number of a sector")),
        }
    }
    Ok(Zone {
        first_cylinder: fields.count("First cylinder number", 0..=CYLINDERS_MAX - 1)?,
        last_cylinder: fields.count("Last cylinder number", 0..=CYLINDERS_MAX - 1)?,
        sectors_per_track,
        offset: skew("Offset of first block")?,
        track_skew: skew("Skew for track switch")?,
        cylinder_skew: skew("Skew for cylinder switch")?,
        reserved: fields.count("Empty space at zone front", 0..=u32::MAX)?.into(),
        spares: fields.count("Number of spares", 0..=u32::MAX)?.into(),
        slips,
    })
}

/// The seek curve of a `dm_mech_g1`; an extracted one is in a file of its own.
fn seek_curve(
    fields: &Fields<'_>,
    geometry: &Geometry,
    (file, text): (&str, &str),
    open: &mut Open<'_>,
) -> Result<SeekCurve, Diagnostics> {
    let fail = |diagnostic| Diagnostics::one(file, text, diagnostic);
    let single = || fields.time("Single cylinder seek time").map_err(fail);
    match fields.word("Seek type").map_err(fail)? {
        "constant" => Ok(SeekCurve::Constant(single()?)),
        "curve" => Ok(SeekCurve::Root {
            single: single()?,
            full: full_strobe(fields).map_err(fail)?,
            cylinders: geometry.cylinders(),
        }),
        "extracted" => {
            let path = fields.word("Full seek curve").map_err(fail)?;
            let span = fields.need("Full seek curve").map_err(fail)?.value.span.clone();
            let table = open(path)
                .map_err(|why| fail(Diagnostic::new(span, format!("{path} cannot be read: {why}"))))?;
            seek_table(&table, geometry.cylinders()).map_err(|wrong| Diagnostics::one(path, &table, wrong))
        }
        other => {
            let span = fields.need("Seek type").map_err(fail)?.value.span.clone();
            Err(fail(
                Diagnostic::new(span, format!("the seek type {other} is not modelled"))
                    .help("use constant, curve or extracted"),
            ))
        }
    }
}

/// The longest seek of a curve, which is no shorter than the one to the next cylinder.
fn full_strobe(fields: &Fields<'_>) -> Result<f64, Diagnostic> {
    let single = fields.time("Single cylinder seek time")?;
    fields.number("Full strobe seek time", single..=TIME_MAX)
}

/// A `.seek` file: a head line, then `distance, milliseconds` on each; what follows those is passed over.
fn seek_table(text: &str, cylinders: u32) -> Result<SeekCurve, Diagnostic> {
    let (mut points, mut at): (Vec<(u32, f64)>, usize) = (Vec::new(), 0);
    let mut last = 0..0;
    for line in text.split_inclusive('\n') {
        let span = at..at + line.trim_end().len();
        at += line.len();
        if line.trim().is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let mut parts = line.split(',').map(str::trim);
        let distance = parts.next().and_then(|part| part.parse::<u32>().ok());
        let time = parts.next().and_then(|part| part.parse::<f64>().ok());
        let (Some(distance), Some(time)) = (distance, time.filter(|time| (0.0..=TIME_MAX).contains(time)))
        else {
            return Err(Diagnostic::new(span, "`CYLINDERS, MILLISECONDS` should stand here")
                .help(format!("cylinders are from 1 on, and a seek takes between 0 and {TIME_MAX} ms")));
        };
        if points.last().is_some_and(|(before, _)| *before >= distance) || distance == 0 {
            return Err(Diagnostic::new(
                span,
                format!("distance {distance} is not beyond the one before it"),
            ));
        }
        points.push((distance, time));
        last = span;
    }
    if points.is_empty() {
        return Err(Diagnostic::new(0..0, "the seek curve has no points"));
    }
    let curve = SeekCurve::Table(points);
    curve.check(cylinders).map_err(|why| Diagnostic::new(last, why))?;
    Ok(curve)
}
