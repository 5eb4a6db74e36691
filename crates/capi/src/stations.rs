//! One [`Station`] for each disk that streams of this process are on: it comes with the first and goes with the last of them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use surety_kernel::block::disk_of;
use surety_stream::{Station, StationSettings, StreamError};

use crate::failure::Failure;

/// By process and disk: the thread of a parent is not there in a child, which has a copy of this.
static STATIONS: Mutex<BTreeMap<(u32, u64), Weak<Station>>> = Mutex::new(BTreeMap::new());

/// The station of the disk that a file is on, or will be where it `is_to_be_made`. It goes when the last that holds it is dropped.
///
/// # Errors
/// The file's: ENOENT, EACCES; no thread or descriptor is left.
pub(crate) fn of(path: &Path, is_to_be_made: bool) -> Result<Arc<Station>, Failure> {
    let mut found = std::fs::metadata(path);
    if is_to_be_made && found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        found = std::fs::metadata(parent.unwrap_or(Path::new(".")));
    }
    let disk = disk_of(found.map_err(|error| StreamError::File { path: path.to_owned(), error })?.dev());
    let mut stations = STATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = (std::process::id(), disk);
    if let Some(station) = stations.get(&place).and_then(Weak::upgrade) {
        return Ok(station);
    }
    let station = Arc::new(Station::start(StationSettings::default())?);
    stations.retain(|_, station| station.strong_count() > 0);
    stations.insert(place, Arc::downgrade(&station));
    Ok(station)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_one_station_as_long_as_somebody_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let (first, second) = (of(&file, false).unwrap(), of(&directory.path().join("new"), true).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        let gone = Arc::downgrade(&first);
        drop((first, second));
        assert!(gone.upgrade().is_none());
        drop(of(&file, false).unwrap());
        let failure = of(&directory.path().join("none"), false).unwrap_err();
        assert_eq!(failure.errno, libc::ENOENT);
        assert!(failure.words.contains("cannot be opened"), "{}", failure.words);
    }
}
