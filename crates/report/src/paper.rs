//! [`Paper`]: what a command says, piece by piece, once for a terminal and for a page.

use surety_model::record::Distribution;

use crate::html::{self, escape};
use crate::table::{self, Check};
use crate::text::{Style, Tone};
use crate::timeline::Timeline;

/// Pieces in their order.
#[derive(Clone, Debug, Default)]
pub struct Paper {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Led(String, String),
    /// The first columns that name a line together, the titles with how soon each is left out for want of room, and the lines.
    Cells(usize, Vec<(String, u8)>, Vec<Vec<String>>),
    Checks(Vec<Check>),
    Distributions(String, Vec<(String, Distribution)>),
    Timeline(Box<Timeline>),
    /// What was found, in a banner on a page: its tone, the word that leads it (not on a terminal), and the sentence.
    Found(Tone, String, String),
    /// Sentences below one another.
    Notes(Vec<String>),
    Gap,
}

impl Paper {
    /// A paragraph behind a lead in strong letters.
    pub fn led(&mut self, lead: impl Into<String>, text: impl Into<String>) -> &mut Paper {
        self.add(Piece::Led(lead.into(), text.into()))
    }

    /// A table; columns in which every cell looks like a number stand on the right.
    pub fn cells(&mut self, header: &[&str], rows: Vec<Vec<String>>) -> &mut Paper {
        self.keyed_cells(1, header, rows)
    }

    /// The same where the first `keys` columns name a line together.
    pub fn keyed_cells(&mut self, keys: usize, header: &[&str], rows: Vec<Vec<String>>) -> &mut Paper {
        let header = header.iter().map(|title| ((*title).to_owned(), 0)).collect();
        self.add(Piece::Cells(keys, header, rows))
    }

    /// The same with columns that may be left out for want of room: those of the highest number first, 0 never.
    pub fn ranked_cells(&mut self, header: &[(&str, u8)], rows: Vec<Vec<String>>) -> &mut Paper {
        let header = header.iter().map(|(title, omit)| ((*title).to_owned(), *omit)).collect();
        self.add(Piece::Cells(1, header, rows))
    }

    /// Checks, each with what to do.
    pub fn checks(&mut self, checks: Vec<Check>) -> &mut Paper {
        self.add(Piece::Checks(checks))
    }

    /// Distributions as bars.
    pub fn distributions(&mut self, title: &str, drawn: Vec<(String, Distribution)>) -> &mut Paper {
        self.add(Piece::Distributions(title.to_owned(), drawn))
    }

    /// Who had the CPUs around a job: a drawing, on a page only.
    pub fn timeline(&mut self, timeline: Timeline) -> &mut Paper {
        self.add(Piece::Timeline(Box::new(timeline)))
    }

    /// What was found, in a sentence; on a page a banner with its tone and a word.
    pub fn found(&mut self, tone: Tone, word: &str, sentence: impl Into<String>) -> &mut Paper {
        self.add(Piece::Found(tone, word.to_owned(), sentence.into()))
    }

    /// Notes as a list.
    pub fn notes(&mut self, notes: Vec<String>) -> &mut Paper {
        self.add(Piece::Notes(notes))
    }

    /// An empty line.
    pub fn gap(&mut self) -> &mut Paper {
        self.add(Piece::Gap)
    }

    fn add(&mut self, piece: Piece) -> &mut Paper {
        self.pieces.push(piece);
        self
    }

    /// For a terminal.
    pub fn text(&self, style: &Style) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Led(lead, text) => table::led(lead, text, style),
            Piece::Cells(keys, header, rows) => table::sheet_of(header, rows).text_led(*keys, style),
            Piece::Checks(checks) => table::checks(checks, style),
            Piece::Distributions(title, drawn) => bars(title, drawn, style),
            Piece::Timeline(_) => String::new(),
            Piece::Found(_, _, sentence) => table::led("", sentence, style),
            Piece::Notes(notes) => notes.iter().map(|note| table::led("- ", note, style)).collect(),
            Piece::Gap => "\n".to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// For a browser: one file that needs nothing else.
    pub fn page(&self, title: &str) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Led(lead, text) if lead.is_empty() => format!("<p>{}</p>\n", escape(text)),
            Piece::Led(lead, text) => format!("<p><b>{}</b> {}</p>\n", escape(lead.trim()), escape(text)),
            Piece::Cells(keys, header, rows) => html::keyed(&table::sheet_of(header, rows), *keys > 1),
            Piece::Found(tone, word, sentence) => html::banner(word, tone.word(), sentence),
            Piece::Notes(notes) => {
                let notes: String = notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
                format!("<ul>\n{notes}</ul>\n")
            }
            Piece::Checks(checks) => checks.iter().map(check).collect(),
            Piece::Distributions(title, drawn) => {
                format!("<pre>{}</pre>\n", escape(&bars(title, drawn, &Style::plain(100))))
            }
            Piece::Timeline(timeline) => html::timeline(timeline),
            Piece::Gap => String::new(),
        };
        let body: String = self.pieces.iter().map(piece).collect();
        html::document(title, &format!("<header>\n<h1>{}</h1>\n</header>\n{body}", escape(title)))
    }
}

fn bars(title: &str, drawn: &[(String, Distribution)], style: &Style) -> String {
    let drawn: Vec<(&str, &Distribution)> = drawn.iter().map(|(name, d)| (name.as_str(), d)).collect();
    table::distributions(title, &drawn, None, style)
}

fn check(check: &Check) -> String {
    let remedy = check.remedy.as_ref().map_or_else(String::new, |remedy| format!(" {}", escape(remedy)));
    format!("<p class=\"degraded\"><b>{}</b>: {}.{remedy}</p>\n", escape(&check.name), escape(&check.found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let mut paper = Paper::default();
        paper.led("A  ", "a < b").gap().cells(&["name", "n"], vec![vec!["x".to_owned(), "1".to_owned()]]);
        assert_eq!(paper.text(&Style::plain(40)), "A  a < b\n\nname  n\nx     1\n");
        let page = paper.page("t & u");
        for part in
            ["<h1>t &amp; u</h1>", "<b>A</b> a &lt; b", "<td class=\"plain number\" data-title=\"n\">1</td>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
