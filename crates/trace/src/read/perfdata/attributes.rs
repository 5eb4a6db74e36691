//! [`Attributes`]: how the records of a perf.data file are laid out, as the file's `perf_event_attr`s say
//! (`include/uapi/linux/perf_event.h`).
//!
//! A sample holds the parts its attribute's `sample_type` has bits for, in a fixed order that is not that of the bits. A
//! record that is no sample ends with some of them when `sample_id_all` is set. Which attribute a record is of tells an
//! id in it; with `PERF_SAMPLE_IDENTIFIER` that is at a place all attributes share.

use std::collections::BTreeMap;

use surety_units::CpuId;

use crate::endian::Endian;
use crate::read::tracedat::CPUS_MAX;

/// Parts of a sample.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// Parts of a count that was read.
const TOTAL_TIMES: u64 = 1 << 0 | 1 << 1;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// Flags by their bit.
const SAMPLE_ID_ALL: u32 = 18;
const USE_CLOCKID: u32 = 25;
/// The shortest attribute any kernel had.
pub(super) const ATTRIBUTE_MIN: usize = 64;

/// Ids that lie no farther apart than so are looked up in an array.
const DENSE_MAX: u64 = 1 << 16;

/// One event that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    tracepoint: bool,
    parts: u64,
    read: u64,
    sample_id_all: bool,
    /// The clock of its times; `None` for perf's own.
    pub(super) clock: Option<u32>,
    /// Where the parts of its samples are.
    places: Places,
}

/// Where parts of a sample begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    time: usize,
    cpu: usize,
    /// What comes behind the parts of fixed length: counts, call chain, raw record.
    rest: usize,
}

impl Places {
    fn of(parts: u64) -> Places {
        let words = |parts_before: &[u64]| 8 * parts_before.iter().filter(|part| parts & **part != 0).count();
        let time = words(&[IDENTIFIER, IP, TID]);
        let cpu = time + words(&[TIME, ADDR, ID, STREAM_ID]);
        Places { time, cpu, rest: cpu + words(&[CPU, PERIOD]) }
    }
}

impl Attribute {
    /// Of the bytes of a `perf_event_attr`.
    pub(super) fn parse(bytes: &[u8], endian: Endian) -> Option<Attribute> {
        let flags = endian.u64(bytes, 40)?;
        // Bit fields begin at the other end on the other machines.
        let flag = |bit: u32| match endian {
            Endian::Little => flags >> bit & 1 == 1,
            Endian::Big => flags >> (63 - bit) & 1 == 1,
        };
        let parts = endian.u64(bytes, 24)?;
        Some(Attribute {
            tracepoint: endian.u32(bytes, 0)? == TRACEPOINT,
            parts,
            places: Places::of(parts),
            read: endian.u64(bytes, 32)?,
            sample_id_all: flag(SAMPLE_ID_ALL),
            clock: if flag(USE_CLOCKID) { endian.u32(bytes, 92) } else { None },
        })
    }

    /// What of a tracepoint's samples cannot be done without and is missing.
    pub(super) fn missing(self) -> Option<&'static str> {
        [(TIME, "time"), (CPU, "CPU"), (RAW, "raw record")]
            .into_iter()
            .find(|(part, _)| self.tracepoint && self.parts & part == 0)
            .map(|(_, name)| name)
    }

    pub(super) fn is_tracepoint(self) -> bool {
        self.tracepoint
    }
}

/// A tracepoint's sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'b> {
    pub(super) time: u64,
    pub(super) cpu: CpuId,
    pub(super) record: &'b [u8],
}

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled<'b> {
    /// A tracepoint's.
    Record(Sample<'b>),
    /// Of another kind of event, or of none the file knows.
    Foreign,
    /// Shorter than its attribute says, or on a CPU that no machine has.
    Malformed,
}

/// Which attribute an id is of.
#[derive(Clone, Debug)]
enum Ids {
    /// Of the ids from the first on: the attribute plus 1, 0 for none.
    Dense { first: u64, attributes: Vec<u32> },
    /// Any ids.
    Sparse(BTreeMap<u64, usize>),
}

impl Ids {
    fn new(ids: BTreeMap<u64, usize>) -> Ids {
        let (Some((&first, _)), Some((&last, _))) = (ids.first_key_value(), ids.last_key_value()) else {
            return Ids::Sparse(ids);
        };
        let is_known = |attribute: &usize| u32::try_from(*attribute).is_ok_and(|a| a < u32::MAX);
        if last - first >= DENSE_MAX || !ids.values().all(is_known) {
            return Ids::Sparse(ids);
        }
        let place = |id: u64| ids.get(&id).and_then(|a| u32::try_from(a + 1).ok()).unwrap_or(0);
        Ids::Dense { first, attributes: (first..=last).map(place).collect() }
    }

    #[inline]
    fn attribute(&self, id: u64) -> Option<usize> {
        match self {
            Ids::Dense { first, attributes } => {
                let place = attributes.get(usize::try_from(id.checked_sub(*first)?).ok()?)?;
                usize::try_from(place.checked_sub(1)?).ok()
            }
            Ids::Sparse(ids) => ids.get(&id).copied(),
        }
    }
}

/// All attributes of a file.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    endian: Endian,
    all: Vec<Attribute>,
    ids: Ids,
    /// Every record has its attribute's id at the place of `PERF_SAMPLE_IDENTIFIER`.
    identified: bool,
}

impl Attributes {
    /// `None` when records cannot be told apart: attributes that differ and no common place of an id.
    pub(super) fn new(
        endian: Endian,
        all: Vec<Attribute>,
        ids: impl IntoIterator<Item = (u64, usize)>,
    ) -> Option<Attributes> {
        let identified = all.iter().all(|attribute| attribute.parts & IDENTIFIER != 0);
        let alike = all.windows(2).all(|pair| pair[0] == pair[1]);
        let attributes = Attributes { endian, ids: Ids::new(ids.into_iter().collect()), identified, all };
        (identified || alike).then_some(attributes)
    }

    pub(super) fn all(&self) -> &[Attribute] {
        &self.all
    }

    /// The attribute of an id. The only one, and one of many alike, needs none.
    #[inline]
    fn of(&self, id: Option<u64>) -> Option<&Attribute> {
        if self.all.len() > 1 && self.identified {
            return self.all.get(self.ids.attribute(id?)?);
        }
        self.all.first()
    }

    /// Takes a sample apart.
    #[inline]
    pub(super) fn sample<'b>(&self, body: &'b [u8]) -> Sampled<'b> {
        match self.of(self.endian.u64(body, 0)) {
            Some(attribute) if attribute.tracepoint => {
                self.parts(attribute, body).map_or(Sampled::Malformed, Sampled::Record)
            }
            _ => Sampled::Foreign,
        }
    }

    #[inline]
    fn parts<'b>(&self, attribute: &Attribute, body: &'b [u8]) -> Option<Sample<'b>> {
        let endian = self.endian;
        let has = |part: u64| attribute.parts & part != 0;
        let Places { time, cpu, rest: mut at } = attribute.places;
        let time = endian.u64(body, time).filter(|_| has(TIME))?;
        let cpu = endian.u32(body, cpu).filter(|cpu| has(CPU) && *cpu < CPUS_MAX)?;
        if has(READ) {
            at = at.checked_add(self.read_length(attribute.read, body, at)?)?;
        }
        if has(CALLCHAIN) {
            let words = usize::try_from(endian.u64(body, at)?).ok()?.checked_add(1)?;
            at = at.checked_add(words.checked_mul(8)?)?;
        }
        let length = endian.u32(body, at).filter(|_| has(RAW))?;
        let start = at.checked_add(4)?;
        let record = body.get(start..start.checked_add(usize::try_from(length).ok()?)?)?;
        Some(Sample { time, cpu: CpuId(cpu), record })
    }

    /// Bytes of the counts in a sample.
    fn read_length(&self, read: u64, body: &[u8], at: usize) -> Option<usize> {
        let each = 1 + usize::from(read & READ_ID != 0) + usize::from(read & READ_LOST != 0);
        let times = usize::try_from((read & TOTAL_TIMES).count_ones()).ok()?;
        let words = if read & GROUP == 0 {
            times + each
        } else {
            let count = usize::try_from(self.endian.u64(body, at)?).ok()?;
            count.checked_mul(each)?.checked_add(1 + times)?
        };
        words.checked_mul(8)
    }

    /// Time and CPU at the end of a record that is no sample, as far as it has them.
    pub(super) fn trailer(&self, body: &[u8]) -> (Option<u64>, Option<CpuId>) {
        let id = body.len().checked_sub(8).and_then(|at| self.endian.u64(body, at));
        let Some(attribute) = self.of(id).filter(|attribute| attribute.sample_id_all) else {
            return (None, None);
        };
        let has = |part: u64| usize::from(attribute.parts & part != 0);
        let words: usize = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER].map(has).iter().sum();
        let Some(start) = body.len().checked_sub(8 * words) else { return (None, None) };
        let time_at = start + 8 * has(TID);
        let cpu_at = time_at + 8 * (has(TIME) + has(ID) + has(STREAM_ID));
        let time = self.endian.u64(body, time_at).filter(|_| has(TIME) == 1);
        let cpu = self.endian.u32(body, cpu_at).filter(|cpu| has(CPU) == 1 && *cpu < CPUS_MAX);
        (time, cpu.map(CpuId))
    }
}
