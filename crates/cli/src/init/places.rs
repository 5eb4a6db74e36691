//! What a thread waits for, by the kernel's function it sleeps in (`/proc/PID/wchan`).

use std::collections::BTreeMap;

/// Beginnings of names of kernel functions, with what somebody who sleeps there waits for. Names change between kernels: what is in
/// no row is shown as it is.
const PLACES: &[(&str, &str)] = &[
    ("hrtimer_nanosleep", "a timer"),
    ("do_nanosleep", "a timer"),
    ("common_nsleep", "a timer"),
    ("timerfd_read", "a timer or an event (timerfd, eventfd)"),
    ("do_epoll_wait", "events or a timeout (epoll)"),
    ("ep_poll", "events or a timeout (epoll)"),
    ("poll_schedule_timeout", "events or a timeout (poll)"),
    ("do_sys_poll", "events or a timeout (poll)"),
    ("do_select", "events or a timeout (select)"),
    ("futex", "another thread (futex)"),
    ("do_futex", "another thread (futex)"),
    ("anon_pipe", "a pipe"),
    ("pipe", "a pipe"),
    // What reads of both come to (`wait_event_interruptible_locked_irq`).
    ("do_wait_intr", "a timer or an event (timerfd, eventfd)"),
    ("do_wait", "a child process"),
    ("kernel_wait", "a child process"),
    ("unix_", "a local socket"),
    ("__skb_wait", "a socket"),
    ("sk_wait", "a socket"),
    ("inet_csk", "a socket"),
    ("wait_woken", "a socket or a terminal"),
    ("n_tty", "a terminal"),
    ("do_sigtimedwait", "a signal"),
    ("sigsuspend", "a signal"),
    ("io_schedule", "a disk"),
    ("folio_wait", "a disk"),
    ("blk_", "a disk"),
    ("__blkdev", "a disk"),
    ("bio_", "a disk"),
    ("io_cqring", "a request (io_uring)"),
    ("read_events", "a request (asynchronous)"),
    ("do_exit", "its end"),
];

/// In words, the most frequent first, each with its part of the looks at which the thread slept. `None`: it was never seen asleep, or
/// this user may not see where.
pub fn in_words(places: &BTreeMap<String, u64>) -> Option<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (place, count) in places {
        let known = PLACES.iter().find(|(start, _)| place.starts_with(start));
        *sums.entry(known.map_or(place.as_str(), |(_, words)| *words)).or_default() += count;
    }
    let all: u64 = sums.values().sum();
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let part = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
    let words: Vec<String> = match sums.as_slice() {
        [(words, _)] => vec![(*words).to_owned()],
        several => several.iter().take(3).map(|(w, n)| format!("{w} {:.0} %", part(*n))).collect(),
    };
    (all > 0).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_and_unknown_ones_are_shown() {
        let of = |list: &[(&str, u64)]| {
            in_words(&list.iter().map(|(place, n)| ((*place).to_owned(), *n)).collect())
        };
        assert_eq!(of(&[("hrtimer_nanosleep", 9)]).unwrap(), "a timer");
        let mixed = of(&[("futex_do_wait", 30), ("futex_wait_queue", 30), ("some_new_name", 40)]).unwrap();
        assert_eq!(of(&[("do_wait_intr_irq", 1)]).unwrap(), "a timer or an event (timerfd, eventfd)");
        assert_eq!(mixed, "another thread (futex) 60 %, some_new_name 40 %");
        assert_eq!(of(&[]), None);
    }
}
