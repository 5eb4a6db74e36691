//! What a plan leaves to others.

use surety_model::plan::{Left, Plan};
use surety_model::platform::OtherReservation;

use crate::quantity::{chosen_time, number_of, percent};
use crate::text::{Style, Tone, paragraph};

/// A line for best effort and one for the fair server.
pub fn left(plan: &Plan, left: &Left, style: &Style) -> String {
    if plan.reservations.is_empty() {
        return String::new();
    }
    let mut out = others(plan, style);
    let words = format!(
        "left for everything else: {} of {} on average, and what is reserved and not used",
        percent(left.best_effort),
        number_of(plan.platform.cpus, "CPU"),
    );
    out += &paragraph(style, "", Tone::Plain, &words);
    // On whichever CPU they are, fair threads are kept what the smallest of unlike servers keeps.
    let words = match (plan.platform.least_fair_server(), left.fair_server) {
        (None, _) if plan.platform.fair_server.is_some() => {
            "fair server: off on some CPUs, where nothing is kept for fair threads".to_owned()
        }
        (None, _) => "the kernel has no fair server".to_owned(),
        (Some(_), None) => "no fair server is affordable beside this".to_owned(),
        (Some(now), Some(most)) => format!(
            "fair server: {} in {} now; up to {} in {} ({}) the plan still stands",
            chosen_time(now.runtime),
            chosen_time(now.period),
            chosen_time(most.runtime),
            chosen_time(most.period),
            percent(most.runtime.get() as f64 / most.period.get() as f64),
        ),
    };
    out += &paragraph(style, "", Tone::Plain, &words);
    out
}

/// A line for what others have reserved.
fn others(plan: &Plan, style: &Style) -> String {
    let each = |other: &OtherReservation| {
        let OtherReservation { reservation, threads, .. } = other;
        let (runtime, period) = (chosen_time(reservation.runtime), chosen_time(reservation.period));
        let times = if *threads == 1 { String::new() } else { format!("{threads} x ") };
        format!("{} {times}{runtime} in {period} ({})", other.name, percent(other.bandwidth()))
    };
    let all: Vec<String> = plan.platform.others.iter().map(each).collect();
    if all.is_empty() {
        return String::new();
    }
    let words = format!("reserved by others and counted: {}", all.join("; "));
    paragraph(style, "", Tone::Plain, &words)
}
