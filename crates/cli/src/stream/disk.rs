//! The disk below a mount: set for streams where that is asked for, else what is in their way there in words.

use surety_host::disks::{DiskInUse, PreparedDisk};

use crate::args::StreamMountArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// ENOTBLK.
const NO_DISK: i32 = 15;

/// Sets the disk with `--prepare`, and says without what it lacks.
pub(super) fn prepared<'s>(
    args: &StreamMountArgs,
    session: &'s Session,
) -> Result<Option<PreparedDisk<'s>>, Failure> {
    let disk = match DiskInUse::below(&args.directory) {
        Ok(disk) => disk,
        Err(error) if args.prepare => {
            let why = match error.errno {
                NO_DISK => "its file system is on no disk of its own".to_owned(),
                _ => error.to_string(),
            };
            let what = format!("below {} is no disk to prepare: {why}", args.directory.display());
            return Err(Failure::new(Code::Machine, what).help("leave --prepare out"));
        }
        // What is on no disk waits for none; and a directory that is none is told of by the mount.
        Err(_) => return Ok(None),
    };
    if !args.prepare {
        let lacks = disk.lacks();
        if !lacks.is_empty() {
            session.note(&in_words(&disk, &lacks));
        }
        return Ok(None);
    }
    let journal = session.need_journal()?;
    let prepared = disk.prepare(&session.kernel, journal, &session.cancel).map_err(Failure::from)?;
    session.note(&format!("disk {} has {disk} until the mount is gone", disk.name()));
    Ok(Some(prepared))
}

/// What is in the way of streams there, and what to do.
fn in_words(disk: &DiskInUse, lacks: &[String]) -> String {
    let remedy = match disk.is_of_system() {
        true => "--prepare leaves the root file system's disk alone: have the files on another".to_owned(),
        false => format!("--prepare gives it {disk} meanwhile"),
    };
    format!("disk {} may let others go before streams: {}; {remedy}", disk.name(), lacks.join("; "))
}
