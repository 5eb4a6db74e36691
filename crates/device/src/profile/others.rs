//! Keys of the models `fixed` and `virtio`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use surety_units::Rate;
use toml::Spanned;

use super::quantity::{Count, DISK_MAX, Size, Speed, Time};
use super::{Device, Open, keys};
use crate::model::DEPTH_MAX;
use crate::{fixed, virtio};
use surety_model::source::Diagnostic;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FixedKeys {
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
    size: Size<DISK_MAX>,
    read: Time,
    write: Time,
    flush: Time,
    rate: Option<Speed>,
    lanes: Option<Count<DEPTH_MAX>>,
    depth: Count<DEPTH_MAX>,
}

pub(super) fn fixed(text: &str, _: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: FixedKeys = keys(text)?;
    Ok(Device::Fixed(fixed::Parameters {
        sectors: keys.size.0,
        read: keys.read.0,
        write: keys.write.0,
        flush: keys.flush.0,
        rate: keys.rate.map_or(Rate(0), |rate| rate.0),
        lanes: keys.lanes.map_or(1, |lanes| lanes.0 as usize),
        depth: keys.depth.0 as usize,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VirtioKeys {
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
    behind: Spanned<String>,
    wake: Time,
    submit: Time,
    complete: Time,
    depth: Count<DEPTH_MAX>,
    size: Option<Spanned<Size<DISK_MAX>>>,
}

pub(super) fn virtio(text: &str, open: &mut Open<'_>) -> Result<Device, Diagnostic> {
    let keys: VirtioKeys = keys(text)?;
    let behind = open(keys.behind.as_ref())
        .map_err(|why| Diagnostic::new(keys.behind.span(), format!("`behind`: {why}")))?;
    if let Some(size) = keys.size.as_ref().filter(|size| size.as_ref().0 > behind.sectors()) {
        let message = format!(
            "`size`: {} sectors are more than the {} of {}",
            size.as_ref().0,
            behind.sectors(),
            behind.name
        );
        return Err(Diagnostic::new(size.span(), message).help("leave `size` out to have all of them"));
    }
    let parameters = virtio::Parameters {
        depth: keys.depth.0 as usize,
        wake: keys.wake.0,
        submit: keys.submit.0,
        complete: keys.complete.0,
        sectors: keys.size.map(|size| size.into_inner().0),
    };
    Ok(Device::Virtio(parameters, Box::new(behind)))
}
