//! [`note_threads`]: where every thread is when a recording ends, for the reader of threads of which no event tells.

use std::path::Path;

use surety_kernel::tracefs::Marker;
use surety_kernel::{Kernel, KernelError};
use surety_model::event::ThreadNote;
use surety_units::{Bytes, Tid};

/// No more threads are noted: reading them takes some 10 us each.
const NOTED_MAX: usize = 16_384;

/// What a note takes in a buffer, and the part of it that notes may take: they are all written on one CPU.
const NOTE: u64 = 80;
const PART: u64 = 8;

/// Writes a note on each thread there is into a recording whose CPUs have buffers of this size; where `pids` names processes or threads,
/// on those only. Threads that are gone meanwhile are left out. Returns whether all were noted.
///
/// # Errors
/// Threads that cannot be listed, and marks that cannot be written.
pub fn note_threads(
    kernel: &dyn Kernel,
    (pids, buffer): (&[Tid], Bytes),
    marker: &Marker,
) -> Result<bool, KernelError> {
    let most = usize::try_from(buffer.0 / PART / NOTE).map_or(NOTED_MAX, |most| most.min(NOTED_MAX));
    let processes = if pids.is_empty() { kernel.processes()? } else { pids.to_vec() };
    let mut text = String::new();
    let mut noted = 0;
    for process in processes {
        // The number of a thread that is none of a process names all threads of its process here.
        let is_process = pids.is_empty() || kernel.owner(process).is_ok_and(|owner| owner.process == process);
        let threads = if is_process { kernel.threads(process).unwrap_or_default() } else { vec![process] };
        for thread in threads {
            let path = format!("/proc/{process}/task/{thread}/stat");
            let stat = kernel.read_text(Path::new(&path)).ok();
            let Some(note) = stat.as_deref().and_then(ThreadNote::of_stat) else { continue };
            text.clear();
            note.write(&mut text);
            if noted == most {
                return Ok(false);
            }
            marker.mark(text.as_bytes())?;
            noted += 1;
        }
    }
    Ok(true)
}
