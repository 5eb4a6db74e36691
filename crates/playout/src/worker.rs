//! The life of a thread that serves the reads of one open file.

use surety_kernel::pages::Pages;
use surety_kernel::{Kernel as _, RealKernel, SchedPolicy, clock, thread};
use surety_units::Nanos;

use crate::account::Served;
use crate::feed::Feed;
use crate::shared::{OpenFile, Shared};

/// The priority of threads that hand out what was fetched: that of the thread that fetches.
const PRIORITY: u32 = 1;

/// Serves reads until the file is closed.
pub(crate) fn work(open: &OpenFile, shared: &Shared) {
    let _ = thread::set_name("surety/play-out");
    let _ = thread::set_timer_slack(Nanos::new(1));
    // Not locked is no matter of its own: the stream's buffer says so then.
    let memory = Pages::parts(1, shared.bytes_max as usize, true).ok().and_then(|(mut pages, _)| pages.pop());
    let Some(mut pages) = memory else {
        // As long as the file is open, each read of it fails.
        while let Some(request) = open.next((1, 0)) {
            open.answered();
            shared.note(shared.connection.refuse(request.unique, NO_MEMORY));
        }
        return shared.end_worker(None);
    };
    let begun = clock::monotonic();
    let mut feed = Feed::new((&open.file, &open.path), &shared.station, &shared.contract);
    while let Some(request) = open.next(feed.span()) {
        let opened = feed.open(request.offset).map(|caller| {
            if let Some(caller) = caller {
                open.call_by(caller);
                become_realtime();
            }
        });
        let bytes = pages.len().min(request.bytes as usize);
        let read =
            opened.and_then(|()| feed.read(request.offset, &mut pages[..bytes], &|| open.is_given_up()));
        open.answered();
        shared.note(match read {
            Ok(count) => shared.connection.answer(request.unique, &pages[..count]),
            Err(errno) => shared.connection.refuse(request.unique, errno),
        });
    }
    let how = feed.how();
    let (bytes, jumps, time) = (feed.bytes, feed.jumps, clock::monotonic() - begun);
    // Its memory is free before it is counted as gone.
    drop((feed, pages));
    let (path, program) = (open.path.clone(), open.program.clone());
    shared.end_worker(Some(Served { path, program, how, bytes, jumps, time }));
}

/// The calling thread hands out what is there before programs that only compute; where that may not be, the stream says so of the thread that
/// fetches.
pub(crate) fn become_realtime() {
    let kernel = RealKernel::new();
    let fifo = SchedPolicy::Fifo { priority: PRIORITY };
    let attributes = surety_kernel::SchedAttr { reset_on_fork: true, ..fifo.into() };
    let _ = kernel.set_scheduler_directly(kernel.own_tid(), &attributes);
}

/// Error number of answers: ENOMEM.
const NO_MEMORY: i32 = 12;
