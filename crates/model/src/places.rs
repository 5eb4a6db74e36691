//! [`FilePlaces`]: where the files of a run lie on its disks.
//!
//! What a hard disk takes from one file to another depends on where they are, to the part of a turn. A simulation beside a kernel has
//! them where that kernel's file system put them.

use serde::{Deserialize, Serialize};

use crate::kind::ActivityKind;
use crate::workload::{StreamFile, Workload};

/// The files of one run on modelled disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlaces {
    /// Of which workload, by [`Workload::files_in_words`].
    pub of: String,
    /// In the order in which they were made.
    pub files: Vec<FilePlace>,
}

/// Where a file lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlace {
    /// The name of its disk.
    pub disk: String,
    /// The path of the activity it belongs to, `load.readers` for instance, which may have several.
    pub activity: String,
    pub bytes: u64,
    /// Its pieces in order.
    pub pieces: Vec<FilePiece>,
}

/// A part of a file that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    /// The first of its bytes in the file.
    pub at: u64,
    /// The sector of 512 bytes at which that is.
    pub sector: u64,
}

impl FilePlaces {
    /// Of all that was seen, where the files of a workload lie.
    pub fn of(seen: &[FilePlaces], workload: &Workload) -> Vec<FilePlace> {
        let of = workload.files_in_words();
        seen.iter().find(|places| places.of == of).map(|places| places.files.clone()).unwrap_or_default()
    }

    /// Adds what was seen in other runs, where it is of other workloads.
    pub fn add_others(own: &mut Vec<FilePlaces>, others: &[FilePlaces]) {
        for other in others {
            if own.iter().all(|places| places.of != other.of) {
                own.push(other.clone());
            }
        }
    }
}

impl Workload {
    /// Its disks and the files on them, in words. File systems made anew put the same files at the same places.
    pub fn files_in_words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        let on = |disk: &Option<String>| disk.clone().unwrap_or_default();
        words.extend(
            self.disks.iter().map(|disk| format!("disk.{} {:?} {:?}", disk.name, disk.model, disk.make)),
        );
        words.extend(self.startups.iter().map(|startup| {
            format!(
                "{} {:?} on {}",
                ActivityKind::Startup.path(&startup.name),
                startup.body,
                on(&startup.disk)
            )
        }));
        words.extend(self.streams.iter().map(|stream| {
            let size = if let StreamFile::Make(size) = stream.file { size.0 } else { 0 };
            let (path, disk) = (ActivityKind::Stream.path(&stream.name), on(&stream.disk));
            format!("{path} {} of {size} by {} on {disk}", stream.count, stream.access_bytes())
        }));
        words.extend(self.loads.iter().map(|load| {
            let (path, disk) = (ActivityKind::Load.path(&load.name), on(&load.disk));
            format!(
                "{path} {:?} {:?} of {} by {} on {disk}",
                load.count,
                load.kind,
                load.size().0,
                load.block().0
            )
        }));
        words.sort_unstable();
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::toml;

    fn words(loads: &str) -> String {
        let text =
            format!("format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\nscheduler = 'bfq'\n{loads}");
        toml::read("test", &text).unwrap().files_in_words()
    }

    #[test]
    fn a_workload_is_told_by_its_files_and_not_by_its_schedulers() {
        let readers = "[[load]]\nname = 'r'\nkind = 'readers'\ncount = 2\ndisk = 'd'\nsize = '8MiB'\n";
        let one = words(readers);
        let writers = readers.replace("'r'", "'w'").replace("readers", "writers");
        assert_eq!(words(&format!("{readers}{writers}")), words(&format!("{writers}{readers}")));
        for (from, to) in [("8MiB", "9MiB"), ("= 2", "= 3"), ("'r'", "'s'")] {
            assert_ne!(words(&readers.replace(from, to)), one, "{to}");
        }
        let text =
            format!("format = 1\n[disk.d]\nmodel = 'hdd-2004'\nmake = '1GiB'\nscheduler = 'none'\n{readers}");
        assert_eq!(toml::read("test", &text).unwrap().files_in_words(), one);
    }

    #[test]
    fn of_one_workload_the_last_places_count() {
        let places = |of: &str, sector| FilePlaces {
            of: of.to_owned(),
            files: vec![FilePlace {
                disk: "d".to_owned(),
                activity: "load.r".to_owned(),
                bytes: 4096,
                pieces: vec![FilePiece { at: 0, sector }],
            }],
        };
        let mut own = vec![places("a", 8)];
        FilePlaces::add_others(&mut own, &[places("a", 16), places("b", 24)]);
        assert_eq!(own, [places("a", 8), places("b", 24)]);
    }
}
