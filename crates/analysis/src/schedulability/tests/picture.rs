//! Acceptance ratios drawn as the literature draws them: percent of accepted sets against utilisation, a line for each test.

use std::fmt::Write;

/// One drawing: a title, what each line is about, and for each utilisation in hundredths of a CPU the percents.
pub struct Panel<'a> {
    pub title: &'a str,
    pub heads: Vec<&'a str>,
    pub points: Vec<(u64, Vec<usize>)>,
}

/// Wide enough for the longest name, also where letters are broad.
const WIDTH: f64 = 510.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 325.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 250.0;

/// Colours that can be told apart without colour vision, and then again with dashes (after Okabe and Ito, 2008).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#777777", "#000000"];

/// All panels, two in a row.
pub fn draw(panels: &[Panel<'_>]) -> String {
    let rows = panels.len().div_ceil(2) as f64;
    let (width, height) = (2.0 * WIDTH, rows * HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (place, panel) in panels.iter().enumerate() {
        let (x, y) = ((place % 2) as f64 * WIDTH, (place / 2) as f64 * HEIGHT);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        // A test has its colour in both drawings of a row.
        one(panel, &panels[place / 2 * 2].heads, &mut out);
        out.push_str("</g>\n");
    }
    out + "</svg>\n"
}

fn one(panel: &Panel<'_>, coloured: &[&str], out: &mut String) {
    let (first, last) = (panel.points[0].0 as f64, panel.points[panel.points.len() - 1].0 as f64);
    let x = |hundredths: u64| LEFT + (hundredths as f64 - first) / (last - first) * (RIGHT - LEFT);
    let y = |percent: usize| BOTTOM - percent as f64 / 100.0 * (BOTTOM - TOP);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{}</text>",
        panel.title
    );
    for percent in [0, 25, 50, 75, 100] {
        let at = y(percent);
        let _ = writeln!(out, "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#dddddd\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            LEFT - 5.0,
            at + 4.0
        );
    }
    for (hundredths, _) in panel.points.iter().filter(|(hundredths, _)| hundredths % 10 == 0) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">0.{}</text>",
            x(*hundredths),
            BOTTOM + 16.0,
            hundredths / 10
        );
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    let _ = writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">utilisation of each CPU; accepted sets</text>",
        BOTTOM + 34.0
    );
    for (line, head) in panel.heads.iter().enumerate() {
        let known = coloured.iter().position(|other| other == head).unwrap_or(line);
        let colour = COLOURS[known % COLOURS.len()];
        let simulated = head.contains("simulated");
        let dashes = match known / COLOURS.len() {
            _ if simulated => " stroke-dasharray=\"1 3\"",
            0 => "",
            _ => " stroke-dasharray=\"6 3\"",
        };
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
        let points: Vec<String> = panel
            .points
            .iter()
            .map(|(at, percents)| format!("{:.1},{:.1}", x(*at), y(percents[line])))
            .collect();
        let _ = writeln!(out, "<polyline points=\"{}\" {stroke}/>", points.join(" "));
        let at = TOP + 8.0 + 18.0 * line as f64;
        let _ = writeln!(out, "<path d=\"M{} {at}h18\" {stroke}/>", RIGHT + 12.0);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{head}</text>", RIGHT + 36.0, at + 4.0);
    }
}
