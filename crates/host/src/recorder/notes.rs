//! [`note_threads`]: where every thread is when a recording ends, for the reader of threads of which no event tells.

use std::path::Path;

use surety_kernel::tracefs::Marker;
use surety_kernel::{Kernel, KernelError};
use surety_model::event::ThreadNote;
use surety_units::Tid;

/// No more threads are noted: reading them takes some 10 us each.
const NOTED_MAX: usize = 16_384;

/// Writes a note on each thread there is into a recording; where `pids` names processes or threads, on those only. Threads that
/// are gone meanwhile are left out.
///
/// # Errors
/// Threads that cannot be listed, and marks that cannot be written.
pub fn note_threads(kernel: &dyn Kernel, pids: &[Tid], marker: &Marker) -> Result<(), KernelError> {
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
            marker.mark(text.as_bytes())?;
            noted += 1;
            if noted >= NOTED_MAX {
                return Ok(());
            }
        }
    }
    Ok(())
}
