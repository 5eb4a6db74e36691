//! [`Device`]: what a guest has beside its CPUs and memory: a disk, or two network cards that are joined inside the emulator, each
//! for an `[[irq]]` of the workload.
//!
//! Each stands at a place of the PCI bus that follows from its number, so the guest finds it without guessing. Places are chosen
//! so that a card that receives shares its interrupt line with no other device but the receiver of another pair: of the old lines there are two (`hw/i386/pc_piix.c` routes
//! a slot's line by its number, the firmware gives four routes two lines).
//!
//! What repeats and what does not: cards, the hub between them and the SD card's host are moved on by the instructions of the
//! guest; a read of the SD card is done while the emulator waits for it. A virtio disk is read by threads of the host, which
//! report when they are done.

use std::path::Path;

use serde::{Deserialize, Serialize};
use surety_model::source::nearest;
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_units::{Bytes, Nanos};

use crate::error::LabError;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// An SD card behind a PCI host, which moves the data itself.
    SdCard,
    /// The same with data moved by the interrupt thread, word by word.
    SdCardPio,
    /// A disk that threads of the host read.
    VirtioBlk,
    /// Two Intel 82540EM.
    E1000,
    /// Two AMD 79C970: what its ring has no place for is lost at once.
    Pcnet,
    /// Two cards of virtio.
    VirtioNet,
}

/// Every model with its word and what it is.
pub const MODELS: [(Model, &str); 6] = [
    (Model::SdCard, "sd-card"),
    (Model::SdCardPio, "sd-card-pio"),
    (Model::VirtioBlk, "virtio-blk"),
    (Model::E1000, "e1000"),
    (Model::Pcnet, "pcnet"),
    (Model::VirtioNet, "virtio-net"),
];

/// How many devices a guest can have: one needs four places.
pub const DEVICES_MAX: usize = 3;
/// The size of a disk: a power of two, as SD cards are.
pub const DISK_BYTES: u64 = 64 << 20;

impl Model {
    /// Its word.
    pub fn word(self) -> &'static str {
        MODELS.iter().find(|(model, _)| *model == self).map_or("", |(_, word)| word)
    }

    /// The model of a word.
    ///
    /// # Errors
    /// [`LabError::Options`] with the nearest.
    pub fn of_word(word: &str) -> Result<Model, LabError> {
        let words = MODELS.iter().map(|(_, word)| *word);
        let found = MODELS.iter().find(|(_, known)| *known == word).map(|(model, _)| *model);
        found.ok_or_else(|| LabError::Options {
            what: format!("a guest has no device `{word}`"),
            help: nearest(word, words.clone()).map_or_else(
                || format!("use {}", words.collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean {near}?"),
            ),
        })
    }

    /// Whether it is a disk.
    pub fn is_disk(self) -> bool {
        matches!(self, Model::SdCard | Model::SdCardPio | Model::VirtioBlk)
    }

    /// Modules of its driver, with parameters.
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Model::SdCard => &["sdhci_pci", "mmc_block"],
            // Of the host's ways to move data itself (SDMA, ADMA) the driver then believes both broken.
            Model::SdCardPio => &["sdhci:debug_quirks=0x60", "sdhci_pci", "mmc_block"],
            Model::VirtioBlk => &["virtio_blk"],
            Model::E1000 => &["e1000"],
            Model::Pcnet => &["pcnet32"],
            Model::VirtioNet => &["virtio_net"],
        }
    }

    fn card(self) -> &'static str {
        match self {
            Model::Pcnet => "pcnet",
            Model::VirtioNet => "virtio-net-pci",
            _ => "e1000",
        }
    }
}

/// A device of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The role in the workload that it stands for.
    pub role: String,
    pub model: Model,
    /// Bytes of a read, of a disk.
    #[serde(default = "block")]
    pub block: u64,
    /// Whether packets are handled in softirqs of the interrupt thread instead of in a thread of their own, of cards.
    #[serde(default)]
    pub softirqs: bool,
    /// Where the emulator repeats a frame: at this distance, whole microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Nanos>,
    /// Whether a thread of the guest sends although the emulator could.
    #[serde(default)]
    pub sent: bool,
}

/// The smallest read of a disk.
const BLOCK: u64 = 4096;
/// The largest: more would not be one request.
const BLOCK_MAX: u64 = 64 << 10;

fn block() -> u64 {
    BLOCK
}

/// Where a device stands on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The disk, or the card that sends.
    pub first: String,
    /// The card that receives.
    pub second: Option<String>,
    /// The card of the metronome.
    pub third: Option<String>,
}

fn slot(number: usize, model: Model) -> (usize, usize) {
    let first = 0x10 + 4 * number;
    if model.is_disk() { (first + 3, first + 3) } else { (first, first + 2) }
}

/// The place of a metronome's card, whose line is not that of the card that receives.
fn third(number: usize) -> usize {
    0x10 + 4 * number + 3
}

impl Device {
    /// A device as it is where nothing more is said.
    pub fn new(role: &str, model: Model) -> Device {
        Device { role: role.to_owned(), model, block: BLOCK, softirqs: false, every: None, sent: false }
    }

    /// `ROLE=MODEL`; a disk's with `:BYTES` read at once, a card's with `:softirqs`.
    ///
    /// # Errors
    /// [`LabError::Options`].
    pub fn of_words(text: &str) -> Result<Device, LabError> {
        let wrong =
            |help: &str| LabError::Options { what: format!("the device `{text}`"), help: help.to_owned() };
        let (role, rest) = text.split_once('=').ok_or_else(|| wrong("write ROLE=MODEL, as eth=pcnet"))?;
        let (word, more) = rest.split_once(':').map_or((rest, None), |(word, more)| (word, Some(more)));
        let mut device = Device::new(role, Model::of_word(word)?);
        match (device.model.is_disk(), more) {
            (_, None) => {}
            (false, Some(more)) => {
                for word in more.split(':') {
                    match word {
                        "softirqs" => device.softirqs = true,
                        "sent" => device.sent = true,
                        _ => return Err(wrong("a card takes `:softirqs` and `:sent`, nothing else")),
                    }
                }
            }
            (true, Some(more)) => {
                let bytes = more
                    .parse::<Bytes>()
                    .map_err(|_| wrong("a disk takes the bytes of a read, as `:32KiB`"))?
                    .0;
                if !(BLOCK..=BLOCK_MAX).contains(&bytes) || !bytes.is_power_of_two() {
                    return Err(wrong("a read has a power of two of bytes, 4KiB to 64KiB"));
                }
                device.block = bytes;
            }
        }
        Ok(device)
    }

    /// Where the guest finds the device of this number.
    pub fn places(&self, number: usize) -> Places {
        let (first, second) = slot(number, self.model);
        let name = |slot: usize| format!("0000:00:{slot:02x}.0");
        let is_card = !self.model.is_disk();
        Places {
            first: name(first),
            second: is_card.then(|| name(second)),
            third: (is_card && self.every.is_some()).then(|| name(third(number))),
        }
    }

    /// What the emulator is told. Disks are files in the room.
    pub fn arguments(&self, number: usize, room: &Path) -> Vec<String> {
        let (first, second) = slot(number, self.model);
        if !self.model.is_disk() {
            let card = self.model.card();
            let end = |slot: usize, end: &str, mac: usize| {
                [
                    "-netdev".to_owned(),
                    format!("hubport,hubid={number},id=net{number}{end}"),
                    "-device".to_owned(),
                    format!(
                        "{card},netdev=net{number}{end},addr={slot:#x},mac=52:54:00:00:{number:02x}:{mac:02x}"
                    ),
                ]
            };
            let mut words = [end(first, "a", 1), end(second, "b", 2)].concat();
            if let Some(every) = self.every {
                words.extend(metronome(number, card, every));
            }
            return words;
        }
        let file = disk_file(room, number).display().to_string().replace(',', ",,");
        let mut words = vec![
            "-drive".to_owned(),
            format!("if=none,id=disk{number},format=raw,cache=writeback,file={file}"),
        ];
        match self.model {
            Model::VirtioBlk => words.extend([
                "-device".to_owned(),
                format!("virtio-blk-pci,drive=disk{number},addr={first:#x},num-queues=1"),
            ]),
            _ => words.extend([
                "-device".to_owned(),
                format!("sdhci-pci,addr={first:#x}"),
                "-device".to_owned(),
                format!("sd-card,drive=disk{number}"),
            ]),
        }
        words
    }
}

/// A wire that repeats what its card sends. The card is at a hub of its own, two ports of which are joined: what comes by one
/// (`e`) is held at the other (`d`) until a timer of the virtual clock lets it go, into the hub again. What goes round
/// leaves by `f` to the hub of the two other cards, too. Filters stop what would go the other way.
fn metronome(number: usize, card: &str, every: Nanos) -> Vec<String> {
    let slot = third(number);
    let own = HUBS_OF_METRONOMES + number;
    let net = |port: &str| format!("net{number}{port}");
    let port = |hub: usize, port: &str, joined: Option<&str>| {
        let joined = joined.map_or_else(String::new, |to| format!(",netdev={}", net(to)));
        ["-netdev".to_owned(), format!("hubport,hubid={hub},id={}{joined}", net(port))]
    };
    let filter = |words: String| ["-object".to_owned(), words];
    let stop = |port: &str, queue: &str| {
        let away = format!("away{number}{port}");
        let chardev = ["-chardev".to_owned(), format!("null,id={away}")];
        let words = format!(
            "filter-redirector,id=stop{number}{port},netdev={},queue={queue},outdev={away}",
            net(port)
        );
        [chardev, filter(words)].concat()
    };
    let mac = format!("mac=52:54:00:00:{number:02x}:03");
    let micros = every.get() / Nanos::MICROSECOND.get();
    // One would let go what comes back to it at once, too, without end: two of the same beat hand on to each other.
    let hold = |which: &str| {
        let words =
            format!("filter-buffer,id={which}{number},netdev={},queue=rx,interval={micros}", net("d"));
        filter(words).to_vec()
    };
    [
        port(own, "c", None).to_vec(),
        vec!["-device".to_owned(), format!("{card},netdev={},addr={slot:#x},{mac}", net("c"))],
        port(own, "d", None).to_vec(),
        port(own, "e", Some("d")).to_vec(),
        port(own, "f", None).to_vec(),
        port(number, "g", Some("f")).to_vec(),
        stop("c", "tx"),
        stop("d", "tx"),
        stop("f", "rx"),
        hold("first"),
        hold("second"),
    ]
    .concat()
}

/// Numbers of hubs from which those of metronomes begin.
const HUBS_OF_METRONOMES: usize = 100;

/// The file behind a disk.
pub fn disk_file(room: &Path, number: usize) -> std::path::PathBuf {
    room.join(format!("disk{number}"))
}

/// The shortest beat: the counter of packets that a card lost goes round after 65,536 of them.
const BEAT_MIN: Nanos = Nanos::from_micros(50);

/// The distance of arrivals that the emulator can keep.
fn beat(arrivals: &Arrivals) -> Option<Nanos> {
    let (Arrivals::Periodic { period: every } | Arrivals::Sporadic { gap: every }) = arrivals else {
        return None;
    };
    let is_whole = *every >= BEAT_MIN && every.get() % Nanos::MICROSECOND.get() == 0;
    (is_whole && every.get() / Nanos::MICROSECOND.get() <= i64::from(u32::MAX)).then_some(*every)
}

/// The role of a source's device.
fn role_of(irq: &Irq) -> &str {
    irq.device.as_deref().unwrap_or(&irq.name)
}

/// The devices of a workload: those that were asked for, else an SD card for what is read in a closed loop, and two
/// e1000 for what arrives.
///
/// # Errors
/// [`LabError::Options`]: a role that the workload has not, a disk where packets arrive or the other way round, too many.
pub fn devices_of(workload: &Workload, asked: &[Device]) -> Result<Vec<Device>, LabError> {
    let wrong = |what: String, help: String| Err(LabError::Options { what, help });
    if let Some(device) = asked.iter().find(|d| !workload.irqs.iter().any(|irq| role_of(irq) == d.role)) {
        let roles: Vec<&str> = workload.irqs.iter().map(role_of).collect();
        let help = if roles.is_empty() {
            "it has no [[irq]]".to_owned()
        } else {
            format!("it has {}", roles.join(", "))
        };
        return wrong(format!("no [[irq]] of the workload has the device `{}`", device.role), help);
    }
    let mut devices = Vec::new();
    for irq in &workload.irqs {
        let is_closed = matches!(irq.arrivals, Arrivals::Closed { .. });
        let role = role_of(irq);
        let given = asked.iter().find(|d| d.role == role).cloned();
        let own = || Device::new(role, if is_closed { Model::SdCard } else { Model::E1000 });
        let mut device = given.unwrap_or_else(own);
        let model = device.model;
        device.every = if device.sent { None } else { beat(&irq.arrivals) };
        if model.is_disk() != is_closed {
            let (which, help) = if is_closed {
                ("a closed loop, which reads a disk", "sd-card, sd-card-pio or virtio-blk")
            } else {
                ("arrivals, which are packets", "e1000, pcnet or virtio-net")
            };
            return wrong(
                format!("irq.{} has {which}, and {} is none for it", irq.name, model.word()),
                format!("give it {help}"),
            );
        }
        devices.push(device);
    }
    if devices.len() > DEVICES_MAX {
        return wrong(
            format!("{} interrupt sources", devices.len()),
            format!("a guest has room for the devices of {DEVICES_MAX}"),
        );
    }
    if devices.iter().filter(|d| matches!(d.model, Model::SdCard | Model::SdCardPio)).count() > 1 {
        return wrong("more than one SD card".to_owned(), "give the others virtio-blk".to_owned());
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;

    fn workload() -> Workload {
        let us = Nanos::from_micros;
        let work = TimeDistribution::Constant(us(10));
        let disk = Irq::new("disk", Arrivals::Closed { outstanding: 2, service: us(100) }, work.clone());
        let net = Irq {
            device: Some("eth".to_owned()),
            ..Irq::new("net", Arrivals::Sporadic { gap: us(50) }, work)
        };
        Workload { irqs: vec![disk, net], ..Workload::default() }
    }

    #[test]
    fn each_source_has_a_device_of_its_kind() {
        let of = |asked: &[(&str, Model)]| {
            let asked: Vec<Device> = asked.iter().map(|(role, model)| Device::new(role, *model)).collect();
            devices_of(&workload(), &asked)
        };
        let models = |asked: &[(&str, Model)]| of(asked).unwrap().iter().map(|d| d.model).collect::<Vec<_>>();
        assert_eq!(models(&[]), [Model::SdCard, Model::E1000]);
        assert_eq!(models(&[("eth", Model::Pcnet)]), [Model::SdCard, Model::Pcnet]);
        for (asked, word) in [(("net", Model::Pcnet), "disk, eth"), (("disk", Model::E1000), "virtio-blk")] {
            let error = of(&[asked]).unwrap_err();
            assert!(error.remedy().unwrap().contains(word), "{error}");
        }
    }

    #[test]
    fn no_two_devices_stand_at_one_place_and_receivers_have_a_line_alone() {
        let mut seen = Vec::new();
        for number in 0..DEVICES_MAX {
            for model in [Model::VirtioBlk, Model::E1000] {
                let places = Device::new("", model).places(number);
                for place in [Some(places.first), places.second].into_iter().flatten() {
                    assert!(!seen.contains(&place), "{place}");
                    seen.push(place);
                }
            }
            // The two lines, by the route of a slot.
            let line = |slot: usize| ((slot - 1) & 3) / 2;
            let (near, far) = slot(number, Model::E1000);
            assert!(line(far) != line(near) && line(far) != line(slot(number, Model::SdCard).0));
        }
        assert!(seen.iter().all(|place| place.as_str() <= "0000:00:1f.0"));
    }

    #[test]
    fn what_is_said_of_a_device_is_held_to_its_kind() {
        let device = Device::of_words("d=sd-card-pio:32KiB").unwrap();
        assert_eq!((device.role.as_str(), device.model, device.block), ("d", Model::SdCardPio, 32 << 10));
        assert!(Device::of_words("eth=e1000:softirqs").unwrap().softirqs);
        for text in
            ["eth", "eth=none", "eth=e1000:4KiB", "d=sd-card:softirqs", "d=sd-card:5KiB", "d=sd-card:1MiB"]
        {
            assert!(Device::of_words(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_models() {
        for (model, word) in MODELS {
            assert_eq!((Model::of_word(word).unwrap(), model.word()), (model, word));
        }
        assert_eq!(Model::of_word("e100").unwrap_err().remedy().unwrap(), "did you mean e1000?");
    }
}
