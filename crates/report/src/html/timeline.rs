//! Who had the CPUs around a job as inline SVG: a lane for the job, and one for each CPU.
//!
//! No colour stands alone: the job's own time is the tallest bar, other threads have a letter each, being ready is a thin bar and
//! waiting a line.

use std::fmt::Write;

use surety_trace::blame::{Around, Culprit, Holder, Lane, State, coarse};
use surety_units::Nanos;

use super::axis::TimeAxis;
use super::chart::{Frame, both, line, open_svg, text, time_axis};
use super::escape;
use crate::quantity::{chosen_time, number_of};
use crate::timeline::Timeline;

/// Other threads that have a colour and a letter; the rest is grey.
const NAMED: usize = 5;
const TOP: f64 = 40.0;
const LANE: f64 = 30.0;
/// Height of the job's own bars, of those of others, and of those of being ready.
const OWN: f64 = 20.0;
const OTHER: f64 = 14.0;
const READY: f64 = 6.0;
/// Others' bars are not narrower: in such a piece of the drawing stands who had most of it.
const CELL: f64 = 3.0;
/// A letter stands in bars that are wider.
const LETTER_MIN: f64 = 13.0;

/// A figure of the job.
pub(crate) fn timeline(timeline: &Timeline) -> String {
    let Timeline { label, around, deadline } = timeline;
    let named = named(around);
    let job = around.job.index.map_or_else(String::new, |index| format!(", job {index}"));
    let of = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let title = format!("{of}{}{job}: who ran around the longest response", around.comm);
    let response = around.job.response();
    let fate = match deadline {
        Some(deadline) if response > *deadline => {
            format!("{response}, tardiness {}", response - *deadline)
        }
        Some(deadline) => format!("{response}, slack {}", *deadline - response),
        None => response.to_string(),
    };
    let hidden = match around.hidden {
        0 => String::new(),
        hidden => format!(" {} more without a lane.", number_of(hidden, "CPU")),
    };
    format!(
        "<figure class=\"timeline\"><figcaption><b>{}.</b> Response {fate}.{hidden}</figcaption>{}{}</figure>\n",
        escape(&title),
        both(|frame| drawing(frame, around, *deadline, &named, &title)),
        legend(around, &named)
    )
}

/// The other threads with the most time, most first.
fn named(around: &Around) -> Vec<Culprit> {
    let mut times: Vec<(Culprit, Nanos)> = Vec::new();
    for held in around.lanes.iter().flat_map(|lane| &lane.held) {
        let Holder::Other(other) = held.what else { continue };
        let time = held.until - held.from;
        match times.iter_mut().find(|(known, _)| known.tid == other.tid) {
            Some((_, sum)) => *sum += time,
            None => times.push((other, time)),
        }
    }
    times.sort_by_key(|(other, time)| (std::cmp::Reverse(*time), other.tid));
    times.into_iter().map(|(other, _)| other).collect()
}

fn drawing(
    frame: &Frame,
    around: &Around,
    deadline: Option<Nanos>,
    named: &[Culprit],
    title: &str,
) -> String {
    let Frame { left, right, .. } = *frame;
    let job = &around.job;
    let since = |at: Nanos| (at - job.release).get() as f64;
    let bottom = TOP + LANE * (around.lanes.len() + 1) as f64 + 4.0;
    let end =
        deadline.map_or(around.until, |deadline| around.until.max(job.release.saturating_add(deadline)));
    let axis = TimeAxis::linear(since(around.from), since(end), left, right);
    let mut out = open_svg(frame, bottom + 46.0, title);
    time_axis(&mut out, frame, &axis, (TOP, bottom), "time since the release");
    let middle = |lane: usize| TOP + LANE * (lane as f64 + 0.5) + 2.0;
    text(&mut out, left - 8.0, middle(0) + 4.0, "tick end", "the job");
    for state in &around.states {
        let (class, height) = match state.what {
            State::Runs => ("lane-own", OWN),
            State::Ready => ("lane-ready", READY),
            State::Waits => ("lane-waits", 2.0),
        };
        bar(&mut out, (axis.x(since(state.from)), axis.x(since(state.until))), middle(0), height, class);
    }
    for (k, lane) in around.lanes.iter().enumerate() {
        let y = middle(k + 1);
        line(&mut out, left, y, right, y, "base");
        text(&mut out, left - 8.0, y + 4.0, "tick end", &format!("CPU {}", lane.cpu.0));
        let cells = ((axis.x(since(around.until)) - axis.x(since(around.from))) / CELL) as i64;
        let x = |from, until| (axis.x(since(from)), axis.x(since(until)));
        for held in coarse(&lane.held, (around.from, around.until), cells) {
            others(&mut out, x(held.from, held.until), y, held.what, named);
        }
        // However short, the job's own time is seen.
        for held in lane.held.iter().filter(|held| held.what == Holder::Own) {
            bar(&mut out, x(held.from, held.until), y, OWN, "lane-own");
        }
    }
    marks(&mut out, &axis, (since(job.completion), deadline), bottom);
    out + "</svg>"
}

/// Time of others, with their letter where there is room.
fn others(out: &mut String, x: (f64, f64), y: f64, holder: Holder, named: &[Culprit]) {
    let place = match holder {
        Holder::Own => return,
        Holder::Unknown => return bar(out, x, y, OTHER, "lane-unknown"),
        Holder::Other(other) => named.iter().take(NAMED).position(|known| known.tid == other.tid),
    };
    let class = place.map_or("lane-rest".to_owned(), |k| format!("bar more{k}"));
    bar(out, x, y, OTHER, &class);
    if let Some(k) = place.filter(|_| x.1 - x.0 >= LETTER_MIN) {
        text(out, (x.0 + x.1) / 2.0, y + 4.0, "label lane-letter mid", letter(k));
    }
}

/// Release, end and deadline.
fn marks(out: &mut String, axis: &TimeAxis, (end, deadline): (f64, Option<Nanos>), bottom: f64) {
    for at in [axis.x(0.0), axis.x(end)] {
        line(out, at, TOP - 18.0, at, bottom, "mark");
    }
    if let Some(deadline) = deadline {
        let at = axis.x(deadline.get() as f64);
        line(out, at, TOP - 34.0, at, bottom, "deadline");
        let (x, class) =
            if at > 200.0 { (at - 4.0, "deadline-text end") } else { (at + 4.0, "deadline-text") };
        text(out, x, TOP - 24.0, class, &format!("deadline {}", chosen_time(deadline)));
    }
    text(out, axis.x(0.0) + 4.0, TOP - 8.0, "mark-text", "release");
    text(out, axis.x(end) - 4.0, TOP - 8.0, "mark-text end", "end");
}

fn bar(out: &mut String, (from, until): (f64, f64), middle: f64, height: f64, class: &str) {
    let (width, y) = ((until - from).max(0.6), middle - height / 2.0);
    let _ = write!(
        out,
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.0}\" class=\"{class}\"/>"
    );
}

fn letter(k: usize) -> &'static str {
    ["A", "B", "C", "D", "E"].get(k).unwrap_or(&"")
}

/// What the bars are.
fn legend(around: &Around, named: &[Culprit]) -> String {
    let mut out = "<ul class=\"legend\">".to_owned();
    let mut entry = |class: &str, height: f64, mark: &str, words: &str| {
        out += "<li><svg viewBox=\"0 0 30 20\" aria-hidden=\"true\">";
        bar(&mut out, (2.0, 28.0), 10.0, height, class);
        if !mark.is_empty() {
            text(&mut out, 15.0, 14.0, "label lane-letter mid", mark);
        }
        let _ = write!(out, "</svg>{}</li>", escape(words));
    };
    entry("lane-own", OWN, "", &format!("{} ({})", around.comm, around.tid));
    let has = |state| around.states.iter().any(|stretch| stretch.what == state);
    if has(State::Ready) {
        entry("lane-ready", READY, "", "ready, without a CPU");
    }
    if has(State::Waits) {
        entry("lane-waits", 2.0, "", "waits for something else");
    }
    for (k, other) in named.iter().take(NAMED).enumerate() {
        entry(&format!("bar more{k}"), OTHER, letter(k), &format!("{} ({})", other.comm, other.tid));
    }
    if let rest @ 1.. = named.len().saturating_sub(NAMED) {
        entry("lane-rest", OTHER, "", &number_of(rest, "more thread"));
    }
    let unknown = |lane: &Lane| lane.held.iter().any(|held| held.what == Holder::Unknown);
    if around.lanes.iter().any(unknown) {
        entry("lane-unknown", OTHER, "", "not known");
    }
    out + "</ul>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink, Woken};
    use surety_trace::{BlameBuilder, Wanted};
    use surety_units::{CpuId, Tid};

    const PREEMPTED: LeaveState = LeaveState::Runnable { preempted: true };

    /// A player that wakes at 10 ms, waits for a hog until 30 ms, and is done at 50 ms.
    fn around() -> Around {
        let name = |tid: i32| Comm::new(["idle", "hog<", "player"][tid as usize]);
        let mut builder =
            BlameBuilder::new(Wanted { tids: vec![Tid(2)], ..Wanted::default() }, 0).with_around();
        let mut event = |at, current, kind| {
            builder.event(&Event {
                time: Nanos::from_millis(at),
                cpu: CpuId(0),
                current: Tid(current),
                kind,
            });
        };
        let switch = |prev: i32, prev_state, next: i32| EventKind::Switch {
            prev: Tid(prev),
            prev_comm: name(prev),
            prev_prio: 120,
            prev_state,
            next: Tid(next),
            next_comm: name(next),
            next_prio: 120,
        };
        event(0, 0, switch(0, PREEMPTED, 2));
        event(1, 2, switch(2, LeaveState::Sleeping, 1));
        let woken = Woken { tid: Tid(2), comm: name(2), prio: 120, target: CpuId(0) };
        event(10, 1, EventKind::Waking(woken));
        event(30, 1, switch(1, PREEMPTED, 2));
        event(50, 2, switch(2, LeaveState::Sleeping, 0));
        builder.finish().around.unwrap()
    }

    #[test]
    fn the_job_and_who_had_its_cpu_are_drawn() {
        let page = timeline(&Timeline {
            label: "host".to_owned(),
            around: around(),
            deadline: Some(Nanos::from_millis(25)),
        });
        for part in [
            "host: player: who ran around the longest response",
            "Response 40.00 ms, tardiness 15.00 ms",
            ">deadline 25 ms<",
            ">release<",
            ">A</text>",
            "hog&lt; (1)",
            "ready, without a CPU",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        // Once in each lane, for a wide page and a narrow one, and in the legend.
        assert_eq!((page.matches("lane-own").count(), page.matches("lane-ready").count()), (5, 3));
        assert!(!page.contains("NaN") && !page.contains("lane-unknown") && !page.contains("lane-waits"));
    }

    #[test]
    fn a_deadline_behind_the_end_has_its_place() {
        let page =
            timeline(&Timeline { label: String::new(), around: around(), deadline: Some(Nanos::SECOND) });
        assert!(page.contains(", slack ") && page.contains(">deadline 1 s<"), "{page}");
    }
}
