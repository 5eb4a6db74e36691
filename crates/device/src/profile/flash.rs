//! Keys of the models `flash` and `emmc`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::quantity::{Count, Sectors, Share, Speed, Time};
use super::{Device, Open, keys};
use crate::flash::{FastCells, Parameters};
use surety_model::source::Diagnostic;

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
    size: Spanned<Sectors>,
    depth: Spanned<Count>,
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
    channels: Spanned<Count>,
    dies_per_channel: Count,
    page: Spanned<Sectors>,
    pages_per_block: Count,
    read: Time,
    program: Time,
    erase: Time,
    channel: Speed,
    suspend: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    size: Option<Sectors>,
    protected: bool,
    flush: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fast {
    size: Spanned<Sectors>,
    program: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Space {
    spare: Spanned<Share>,
    filled: Share,
    worn_in: bool,
}

pub(super) fn read(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    made(keys)
}

pub(super) fn read_card(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: Keys = keys(text)?;
    if keys.depth.as_ref().0 != 1 {
        let message = format!("a card takes one command at a time, not {}", keys.depth.as_ref().0);
        return Err(
            Diagnostic::new(keys.depth.span(), message).help("write `depth = 1`, or `model = \"flash\"`")
        );
    }
    made(keys)
}

fn made(keys: Keys) -> Result<Device, Diagnostic> {
    let dies = u64::from(keys.cells.channels.as_ref().0) * u64::from(keys.cells.dies_per_channel.0);
    let (sectors, page) = (keys.size.as_ref().0, keys.cells.page.as_ref().0);
    if dies > 4096 {
        let message = format!("{dies} dies are more than any drive has");
        return Err(Diagnostic::new(keys.cells.channels.span(), message));
    }
    if page > 1 << 14 || sectors < page * dies {
        let message = format!("pages of {page} sectors do not fit {dies} dies of {sectors} sectors");
        return Err(Diagnostic::new(keys.cells.page.span(), message));
    }
    let spare = keys.space.spare.as_ref().0;
    let block = page * u64::from(keys.cells.pages_per_block.0);
    if (sectors as f64) * spare < (3 * block * dies) as f64 {
        let message =
            format!("of {spare} not three blocks of each of {dies} dies are spare, and cleaning needs them");
        return Err(Diagnostic::new(keys.space.spare.span(), message));
    }
    let fast = keys.fast_cells.as_ref().filter(|fast| fast.size.as_ref().0 > sectors);
    if let Some(fast) = fast {
        return Err(Diagnostic::new(fast.size.span(), "the fast cells are more than the drive"));
    }
    Ok(Device::Flash(Box::new(Parameters {
        sectors,
        channels: keys.cells.channels.as_ref().0,
        dies_per_channel: keys.cells.dies_per_channel.0,
        page_sectors: page as u32,
        pages_per_block: keys.cells.pages_per_block.0,
        read: keys.cells.read.0,
        program: keys.cells.program.0,
        erase: keys.cells.erase.0,
        channel: keys.cells.channel.0,
        link: keys.link.0,
        frame: keys.frame.0,
        command: keys.command.0,
        latency: keys.latency.0,
        buffer_sectors: keys.buffer.size.map_or(0, |size| size.0),
        protected: keys.buffer.protected,
        flush: keys.buffer.flush.0,
        suspend: keys.cells.suspend.map(|suspend| suspend.0),
        fast: keys
            .fast_cells
            .map(|fast| FastCells { sectors: fast.size.into_inner().0, program: fast.program.0 }),
        spare,
        filled: keys.space.filled.0,
        worn_in: keys.space.worn_in,
        depth: keys.depth.into_inner().0 as usize,
    })))
}
