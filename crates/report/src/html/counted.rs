//! One page of counted times: of each quantity the mass on its grid, the distribution function, and the autocorrelations.

use std::fmt::Write;

use super::axis::TimeAxis;
use super::chart::{Frame, both, line, open_svg, text, time_axis};
use super::{document, escape};
use crate::counted::{Counted, Shown};
use crate::quantity::{chosen_time, percent};

/// Height of a drawing's inside.
const HEIGHT: f64 = 210.0;
const TOP: f64 = 14.0;

/// The page: a title, facts about the whole, and a section for each quantity.
pub fn counted_page(title: &str, facts: &[String], quantities: &[Counted]) -> String {
    let facts: Vec<String> = facts.iter().map(|fact| escape(fact)).collect();
    let mut body = format!(
        "<header>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>\n</header>\n",
        escape(title),
        facts.join(" <span class=\"dot\">·</span> ")
    );
    for counted in quantities {
        let Some(shown) = counted.shown() else { continue };
        super::section(&mut body, &counted.name, &quantity(counted, &shown));
    }
    document(title, &body)
}

fn quantity(counted: &Counted, shown: &Shown) -> String {
    let name = escape(&counted.name);
    let beyond = counted.beyond(shown).map_or_else(String::new, |words| format!(" Not drawn: {words}."));
    let mut out = String::new();
    let _ = write!(
        out,
        "<figure><figcaption><b>Probability mass.</b> {} values, each {} to a multiple of {}.{}</figcaption>{}</figure>",
        counted.count(),
        counted.rounding(),
        escape(&chosen_time(counted.step)),
        escape(&beyond),
        both(|frame| mass(frame, counted, shown, &name))
    );
    let _ = write!(
        out,
        "<figure><figcaption><b>Distribution function.</b> The part of the values that are at most a time.\
         </figcaption>{}</figure>",
        both(|frame| distribution(frame, counted, shown, &name))
    );
    if !counted.correlations.is_empty() {
        let _ = write!(
            out,
            "<figure><figcaption><b>Autocorrelation</b> by lag. Independent values stay between the lines.\
             </figcaption>{}</figure>",
            both(|frame| correlations(frame, counted))
        );
    }
    out.push_str("<table><tbody>");
    for (name, sentence) in &counted.facts {
        let _ = write!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(sentence));
    }
    out + "</tbody></table>"
}

/// An axis on which every grid point shown has its whole cell.
fn axis(frame: &Frame, counted: &Counted, shown: &Shown) -> TimeAxis {
    let half = counted.step.get() as f64 / 2.0;
    TimeAxis::linear(shown.low.get() as f64 - half, shown.high.get() as f64 + half, frame.left, frame.right)
}

/// Rules at quarters of the height with their texts.
fn height_axis(out: &mut String, frame: &Frame, highest: f64) {
    let Frame { left, right, .. } = *frame;
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let y = TOP + HEIGHT * (1.0 - part);
        line(out, left, y, right, y, "grid");
        text(out, left - 8.0, y + 4.0, "tick end", &percent(highest * part));
    }
}

fn mass(frame: &Frame, counted: &Counted, shown: &Shown, name: &str) -> String {
    let axis = axis(frame, counted, shown);
    let bottom = TOP + HEIGHT;
    let highest = shown.masses.iter().copied().fold(0.0, f64::max);
    let mut out = open_svg(frame, bottom + 46.0, &format!("probability mass of the {name}"));
    height_axis(&mut out, frame, highest);
    time_axis(&mut out, frame, &axis, (TOP, bottom), &counted.name);
    let step = counted.step.get() as f64;
    let mut path = String::new();
    for (k, mass) in shown.masses.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
        let middle = shown.low.get() as f64 + step * k as f64;
        let (left, right) = (axis.x(middle - step / 2.0), axis.x(middle + step / 2.0));
        // No bar is lower than a pixel: a single late job must be seen.
        let height = (mass / highest * HEIGHT).max(1.0);
        let width = (right - left - 0.8).max(0.8);
        let _ = write!(path, "M{left:.1} {bottom:.1}v{:.1}h{width:.2}v{height:.1}z", -height);
    }
    let _ = write!(out, "<path class=\"bar after\" d=\"{path}\"/>");
    out + "</svg>"
}

fn distribution(frame: &Frame, counted: &Counted, shown: &Shown, name: &str) -> String {
    let axis = axis(frame, counted, shown);
    let bottom = TOP + HEIGHT;
    let mut out = open_svg(frame, bottom + 46.0, &format!("distribution function of the {name}"));
    height_axis(&mut out, frame, 1.0);
    time_axis(&mut out, frame, &axis, (TOP, bottom), &counted.name);
    let y = |part: f64| TOP + HEIGHT * (1.0 - part.clamp(0.0, 1.0));
    let mut reached = shown.below as f64 / counted.count() as f64;
    let mut path = format!("M{} {:.1}", frame.left, y(reached));
    for (k, mass) in shown.masses.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
        let at = shown.low.get() as f64 + counted.step.get() as f64 * k as f64;
        reached += mass;
        let _ = write!(path, "H{:.1}V{:.1}", axis.x(at), y(reached));
    }
    let _ = write!(out, "<path class=\"curve after\" d=\"{path}H{}\"/>", frame.right);
    out + "</svg>"
}

fn correlations(frame: &Frame, counted: &Counted) -> String {
    let Frame { left, right, .. } = *frame;
    let (half, middle) = (60.0, TOP + 60.0);
    let largest = counted.correlations.iter().fold(counted.correlation_bound, |a, r| a.max(r.abs()));
    let scale = if largest > 0.5 { 1.0 } else { largest * 1.2 };
    let y = |r: f64| middle - r / scale * half;
    let mut out = open_svg(frame, TOP + 2.0 * half + 34.0, "autocorrelation by lag");
    for r in [-scale, 0.0, scale] {
        line(&mut out, left, y(r), right, y(r), if r == 0.0 { "axis" } else { "grid" });
        text(&mut out, left - 8.0, y(r) + 4.0, "tick end", &format!("{r:.2}"));
    }
    for r in [-counted.correlation_bound, counted.correlation_bound] {
        line(&mut out, left, y(r), right, y(r), "deadline");
    }
    let pitch = (right - left) / counted.correlations.len() as f64;
    for (k, r) in counted.correlations.iter().enumerate() {
        let x = left + pitch * (k as f64 + 0.5);
        line(&mut out, x, y(0.0), x, y(*r), "bound");
        text(&mut out, x, TOP + 2.0 * half + 17.0, "tick mid", &(k + 1).to_string());
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Nanos;

    #[test]
    fn a_page_escapes_and_draws_every_quantity() {
        let counted = Counted {
            name: "a<b".to_owned(),
            step: Nanos::from_micros(5),
            rounded_up: false,
            points: vec![(Nanos::from_micros(5), 3), (Nanos::from_micros(20), 1)],
            correlations: vec![0.4, -0.1],
            correlation_bound: 0.2,
            facts: vec![("median".to_owned(), "5 us & no more".to_owned())],
        };
        let empty = Counted { name: "nothing".to_owned(), ..Counted::default() };
        let page = counted_page("x < y", &["one".to_owned()], &[counted, empty]);
        assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (6, 6));
        assert!(page.contains("a&lt;b") && page.contains("5 us &amp; no more") && !page.contains("a<b"));
        assert!(page.contains("75.0 %") && !page.contains("nothing") && !page.contains("NaN"));
        assert_eq!(page.matches("<section>").count(), 1);
    }
}
