//! Bytes written over a buffer or into a file, as a step of a job; [`measure`]: the CPU time that a use takes here.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};

use surety_kernel::clock;
use surety_model::workload::Fill;
use surety_units::{Bytes, Nanos};

/// Bytes between two looks at whether the run is over, in memory.
const PIECE: usize = 256 << 10;
/// Uses that are measured, and what they take at least before more of them are counted at once.
const USES: usize = 9;
const LEAST: Nanos = Nanos::from_micros(200);
const BATCH_MAX: i64 = 4096;
/// Bytes of a use that are measured; the time of a longer one is scaled.
const MEASURED_MAX: Bytes = Bytes(64 << 20);
/// Devices that keep nothing and do nothing, as `st_rdev`: /dev/null and /dev/zero, 1:3 and 1:5 (`Documentation/admin-guide/devices.txt`).
const HARMLESS: [u64; 2] = [0x103, 0x105];

/// A buffer for all of these, every page of it there.
pub(crate) fn buffer_for<'f>(fills: impl Iterator<Item = &'f Fill>) -> Vec<u8> {
    let largest = fills.map(|fill| fill.buffer.0.min(fill.bytes.0)).max().unwrap_or(0);
    vec![1; usize::try_from(largest).expect("a buffer is a gigabyte at most")]
}

/// What each step of a thread writes, and the buffer that all of them write from.
#[derive(Debug)]
pub(crate) struct Fillers {
    each: Vec<Option<Filler>>,
    buffer: Vec<u8>,
}

impl Fillers {
    /// Of steps in their order, `None` for those that write nothing.
    ///
    /// # Errors
    /// As [`Filler::new`].
    pub fn of<'f>(steps: impl Iterator<Item = Option<&'f Fill>> + Clone) -> Result<Fillers, String> {
        let each = steps.clone().map(|fill| fill.map(Filler::new).transpose()).collect::<Result<_, _>>()?;
        Ok(Fillers { each, buffer: buffer_for(steps.flatten()) })
    }

    /// Writes what the step of this place writes, as [`Filler::fill`].
    ///
    /// # Errors
    /// A write that failed, in words.
    pub fn fill(&mut self, step: usize, goes_on: impl FnMut() -> bool) -> Result<bool, String> {
        match self.each.get_mut(step) {
            Some(Some(filler)) => filler.fill(&mut self.buffer, goes_on),
            _ => Ok(true),
        }
    }
}

/// What one step writes, and where.
#[derive(Debug)]
pub(crate) struct Filler {
    bytes: u64,
    /// So much of the buffer.
    length: usize,
    file: Option<(String, File)>,
}

impl Filler {
    /// Makes its file where there is none.
    ///
    /// # Errors
    /// A file that cannot be opened for writing, in words; a pipe or a socket, for which nobody would wait.
    pub fn new(fill: &Fill) -> Result<Filler, String> {
        let length = usize::try_from(fill.buffer.0).expect("a buffer is a gigabyte at most");
        let open = |name: &String| {
            if std::fs::metadata(name)
                .is_ok_and(|file| file.file_type().is_fifo() || file.file_type().is_socket())
            {
                return Err(format!("{name} is a pipe or a socket; name a file or a device"));
            }
            // Truncated by nobody: rt-app writes over what is there from its beginning.
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(name);
            file.map(|file| (name.clone(), file))
                .map_err(|error| format!("{name} cannot be written: {error}"))
        };
        let file = fill.file.as_ref().map(open).transpose()?;
        Ok(Filler { bytes: fill.bytes.0, length, file })
    }

    /// Writes all of it, over or from a buffer of [`buffer_for`], as long as `goes_on`; whether it did.
    ///
    /// # Errors
    /// A write that failed, in words.
    pub fn fill(&mut self, buffer: &mut [u8], mut goes_on: impl FnMut() -> bool) -> Result<bool, String> {
        let mut left = self.bytes;
        while left > 0 {
            if !goes_on() {
                return Ok(false);
            }
            let length = self.length.min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= match &mut self.file {
                Some((name, file)) => match file.write(&buffer[..length]) {
                    Ok(0) => return Err(format!("{name} takes no more")),
                    Ok(written) => written as u64,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                    Err(error) => return Err(format!("{name} cannot be written: {error}")),
                },
                None => {
                    for piece in buffer[..length].chunks_mut(PIECE) {
                        if !goes_on() {
                            return Ok(false);
                        }
                        piece.fill(0);
                        black_box(piece);
                    }
                    length as u64
                }
            };
        }
        Ok(true)
    }
}

/// The CPU time of the calling thread that a use takes: the median of some, of many at once where one is short, and of a long one's first
/// 64 MiB times their number. `None` for files and devices: nobody writes to those outside of a run, except to /dev/null and /dev/zero.
///
/// # Errors
/// A device that cannot be written, in words.
pub fn measure(fill: &Fill) -> Result<Option<Nanos>, String> {
    if !fill.file.as_ref().is_none_or(is_harmless) {
        return Ok(None);
    }
    let most = MEASURED_MAX.max(fill.buffer);
    let (whole, fill) = (fill.bytes, &Fill { bytes: fill.bytes.min(most), ..fill.clone() });
    let mut filler = Filler::new(fill)?;
    let mut buffer = buffer_for(std::iter::once(fill));
    let mut batch = 1;
    let mut taken = Vec::with_capacity(USES);
    while taken.len() < USES {
        let begin = clock::thread_cpu_time();
        for _ in 0..batch {
            filler.fill(&mut buffer, || true)?;
        }
        let all = clock::thread_cpu_time() - begin;
        if all < LEAST && batch < BATCH_MAX {
            batch *= 2;
            continue;
        }
        taken.push(all / batch);
    }
    taken.sort_unstable();
    let each = i128::from(taken[USES / 2].get());
    let all = each * i128::from(whole.0) / i128::from(fill.bytes.0.max(1));
    Ok(Some(Nanos::new(i64::try_from(all).unwrap_or(i64::MAX))))
}

fn is_harmless(name: &String) -> bool {
    std::fs::metadata(name)
        .is_ok_and(|file| file.file_type().is_char_device() && HARMLESS.contains(&file.rdev()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Bytes;

    fn fill(bytes: u64, file: Option<String>) -> Fill {
        Fill { bytes: Bytes(bytes), buffer: Bytes(64 << 10), file, takes: None }
    }

    #[test]
    fn memory_is_written_from_the_beginning_of_the_buffer_again_and_again() {
        let mut filler = Filler::new(&fill(100, None)).unwrap();
        let mut buffer = buffer_for([fill(1 << 30, None)].iter());
        assert_eq!(buffer.len(), 64 << 10);
        assert_eq!(filler.fill(&mut buffer, || true), Ok(true));
        assert_eq!(buffer.iter().filter(|byte| **byte == 0).count(), 100);
        let mut looks = 0;
        let mut long = Filler::new(&fill(1 << 30, None)).unwrap();
        let ended = long.fill(&mut buffer, || {
            looks += 1;
            looks < 10
        });
        assert_eq!((ended, looks), (Ok(false), 10), "a run that is over waits for no gigabyte");
    }

    #[test]
    fn a_file_gets_all_bytes() {
        let path = std::env::temp_dir().join(format!("surety-fills-{}", std::process::id()));
        let mut filler = Filler::new(&fill(150_000, Some(path.display().to_string()))).unwrap();
        assert_eq!(filler.fill(&mut vec![1; 64 << 10], || true), Ok(true));
        let length = std::fs::metadata(&path).unwrap().len();
        let kept = measure(&fill(1, Some(path.display().to_string())));
        std::fs::remove_file(&path).unwrap();
        assert_eq!((length, kept), (150_000, Ok(None)));
        let refused = Filler::new(&fill(1, Some("/proc/self/nothing".to_owned()))).unwrap_err();
        assert!(refused.contains("/proc/self/nothing cannot be written"), "{refused}");
    }

    /// What is asked for may be a watchdog, and a terabyte.
    #[test]
    fn nothing_is_written_to_other_devices_and_no_long_use_is_waited_for() {
        let to = |name: &str| measure(&fill(64, Some(name.to_owned()))).unwrap();
        assert!(to("/dev/null").is_some() && to("/dev/zero").is_some());
        assert_eq!([to("/dev/tty"), to("/dev/full")], [None, None]);
        let long = measure(&fill(1 << 40, None)).unwrap().unwrap();
        assert!(long > Nanos::from_secs(1), "{long}");
    }

    #[test]
    fn a_pipe_is_refused_before_anybody_waits_for_its_reader() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let refused = Filler::new(&fill(1, Some(pipe.display().to_string()))).unwrap_err();
        assert!(refused.contains("is a pipe or a socket"), "{refused}");
    }
}
