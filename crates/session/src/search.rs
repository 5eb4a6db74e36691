//! [`within`]: a computation in a thread of its own, in a limit of CPU time, given up at the first interruption.

use std::time::Duration;

use surety_kernel::Kernel;
use surety_kernel::clock::{monotonic, process_cpu_time};
use surety_model::world::WorldError;
use surety_plan::SearchLimit;
use surety_units::Nanos;

use crate::context::Context;
use crate::failure::Failure;

/// Between two looks at the signals.
const LOOK: Duration = Duration::from_millis(2);
/// As much as the main thread has.
const STACK: usize = 8 << 20;

/// Computes in a thread of its own, cuts its searches short after half of a limit of CPU time, ends them after all of it, and
/// gives up at the first signal: nothing computed here has to be undone.
///
/// # Errors
/// It was interrupted, or there is no thread to compute in.
pub fn within<T: Send + 'static>(
    context: &dyn Context,
    limit: Option<(Nanos, &SearchLimit)>,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let worker = std::thread::Builder::new().name("plan".to_owned()).stack_size(STACK).spawn(compute);
    let worker =
        worker.map_err(|error| Failure::Machine { what: format!("no thread to plan in: {error}") })?;
    let own = context.kernel().own_pid();
    let used = || process_cpu_time(own).unwrap_or_else(monotonic);
    let begin = used();
    while !worker.is_finished() {
        let spent = used() - begin;
        if let Some((time, search)) = limit
            && spent >= time
            && !search.is_over()
        {
            search.end();
        }
        // The last half is for what has no budget yet.
        if let Some((time, search)) = limit
            && spent >= time / 2
            && !search.is_reached()
        {
            search.hurry();
            context.note(&format!(
                "the search was cut short after {} of CPU time: smaller budgets or nearer feasible requests may exist",
                time / 2
            ));
        }
        if context.cancel().is_cancelled() {
            // The thread ends with the program.
            return Err(WorldError::Interrupted.into());
        }
        std::thread::sleep(LOOK);
    }
    worker.join().map_err(|panic| std::panic::resume_unwind(panic))
}
