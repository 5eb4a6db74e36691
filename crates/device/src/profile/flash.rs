//! Keys of the models `flash` and `emmc`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::quantity::{BUFFER_MAX, Count, DISK_MAX, Share, Size, Speed, Time};
use super::{Device, Open, keys};
use crate::flash::{FastCells, Parameters};
use crate::model::DEPTH_MAX;
use surety_model::source::Diagnostic;

/// Dies of a drive at most.
const DIES_MAX: u32 = 4096;
/// Sectors of a page at most: 8 MiB.
const PAGE_MAX: u64 = 1 << 14;
/// Pages of a block at most.
const PAGES_MAX: u32 = 1 << 14;
/// Sequential runs at most that a drive follows beside each other: each write looks through all of them.
const STREAMS_MAX: u32 = 256;
/// Blocks of a die that cleaning needs: two to clean into, and one to clean.
const SPARE_BLOCKS: u64 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(rename = "format")]
    _format: IgnoredAny,
    #[serde(rename = "model")]
    _model: IgnoredAny,
    #[serde(rename = "about")]
    _about: IgnoredAny,
    #[serde(rename = "sources")]
    _sources: IgnoredAny,
    #[serde(rename = "slowest_read")]
    _slowest_read: Option<IgnoredAny>,
    size: Spanned<Size<DISK_MAX>>,
    depth: Spanned<Count<DEPTH_MAX>>,
    link: Speed,
    frame: Time,
    command: Time,
    latency: Time,
    cells: Cells,
    buffer: Buffer,
    fast_cells: Option<Fast>,
    space: Space,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cells {
    channels: Spanned<Count<DIES_MAX>>,
    dies_per_channel: Spanned<Count<DIES_MAX>>,
    page: Spanned<Size<PAGE_MAX>>,
    pages_per_block: Spanned<Count<PAGES_MAX>>,
    read: Time<1>,
    program: Time<1>,
    erase: Time,
    channel: Speed,
    suspend: Option<Time<1>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    /// Left out: there is none.
    size: Option<Spanned<Size<BUFFER_MAX>>>,
    protected: bool,
    flush: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fast {
    size: Spanned<Size<DISK_MAX>>,
    program: Time<1>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Space {
    spare: Spanned<Share>,
    filled: Share,
    worn_in: bool,
    streams: Count<STREAMS_MAX>,
}

pub(super) fn read(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    made(keys)
}

pub(super) fn read_card(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    if keys.depth.as_ref().0 != 1 {
        let message = format!("`depth`: a card takes one command at a time, not {}", keys.depth.as_ref().0);
        return Err(
            Diagnostic::new(keys.depth.span(), message).help("write `depth = 1`, or `model = \"flash\"`")
        );
    }
    made(keys)
}

/// What of the keys does not go together, each in its own range.
fn check(keys: &Keys) -> Result<(), Diagnostic> {
    let (channels, each) = (keys.cells.channels.as_ref().0, keys.cells.dies_per_channel.as_ref().0);
    let dies = u64::from(channels) * u64::from(each);
    let (sectors, page) = (keys.size.as_ref().0, keys.cells.page.as_ref().0);
    let wrong = |span, message: String, help: String| Err(Diagnostic::new(span, message).help(help));
    if dies > u64::from(DIES_MAX) {
        let (key, span) = match channels > each {
            true => ("channels", keys.cells.channels.span()),
            false => ("dies_per_channel", keys.cells.dies_per_channel.span()),
        };
        let message = format!("`{key}`: {channels} channels of {each} dies are more dies than any drive has");
        return wrong(span, message, format!("together at most {DIES_MAX}"));
    }
    if sectors < page * dies {
        let message = format!("`page`: of {dies} dies with {sectors} sectors not each has a page of {page}");
        return wrong(keys.cells.page.span(), message, format!("at most {} sectors", sectors / dies));
    }
    if let Some(size) = keys.buffer.size.as_ref().filter(|size| size.as_ref().0 < page) {
        let message = format!("`size`: a buffer of {} sectors never fills a page of {page}", size.as_ref().0);
        return wrong(size.span(), message, "give it a page or more, or leave `size` out".to_owned());
    }
    let spare = keys.space.spare.as_ref().0;
    let needed = SPARE_BLOCKS * page * u64::from(keys.cells.pages_per_block.as_ref().0) * dies;
    if (sectors as f64) * spare < needed as f64 {
        let share = needed as f64 / sectors as f64;
        if share > 1.0 {
            let message = format!(
                "`pages_per_block`: {SPARE_BLOCKS} blocks of each of {dies} dies, which cleaning needs, are more than the drive"
            );
            return wrong(keys.cells.pages_per_block.span(), message, "make blocks smaller".to_owned());
        }
        let message = format!(
            "`spare`: of {spare} not three blocks of each of {dies} dies are spare, and cleaning needs them"
        );
        let least = libm::ceil(share * 1e6) / 1e6;
        return wrong(keys.space.spare.span(), message, format!("from {least} to 1, or smaller blocks"));
    }
    if let Some(fast) = keys.fast_cells.as_ref().filter(|fast| fast.size.as_ref().0 > sectors) {
        let message = "`size`: the fast cells are more than the drive".to_owned();
        return wrong(fast.size.span(), message, format!("at most its {sectors} sectors"));
    }
    Ok(())
}

fn made(keys: Keys) -> Result<Device, Diagnostic> {
    check(&keys)?;
    Ok(Device::Flash(Box::new(Parameters {
        sectors: keys.size.as_ref().0,
        channels: keys.cells.channels.as_ref().0,
        dies_per_channel: keys.cells.dies_per_channel.as_ref().0,
        page_sectors: keys.cells.page.as_ref().0 as u32,
        pages_per_block: keys.cells.pages_per_block.as_ref().0,
        read: keys.cells.read.0,
        program: keys.cells.program.0,
        erase: keys.cells.erase.0,
        channel: keys.cells.channel.0,
        link: keys.link.0,
        frame: keys.frame.0,
        command: keys.command.0,
        latency: keys.latency.0,
        buffer_sectors: keys.buffer.size.map_or(0, |size| size.as_ref().0),
        protected: keys.buffer.protected,
        flush: keys.buffer.flush.0,
        suspend: keys.cells.suspend.map(|suspend| suspend.0),
        fast: keys
            .fast_cells
            .map(|fast| FastCells { sectors: fast.size.into_inner().0, program: fast.program.0 }),
        spare: keys.space.spare.as_ref().0,
        filled: keys.space.filled.0,
        worn_in: keys.space.worn_in,
        streams: keys.space.streams.0,
        depth: keys.depth.into_inner().0 as usize,
    })))
}
