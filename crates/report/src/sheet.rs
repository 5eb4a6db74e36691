//! [`Sheet`]: a table before anybody knows whether it becomes text or HTML, and its layout as text.
//!
//! Too wide a sheet is made to fit in this order: columns that may be omitted go, the least important first, and a
//! closing line names them; then texts wrap inside their cells; then the sheet is cut into panels that each repeat
//! the first column, or the first few that name a line together; at last texts break inside words. No line is ever wider than asked.

use crate::text::{Style, Tone, clean, columns, pad, paragraph, wrap};

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    pub columns: Vec<Column>,
    pub lines: Vec<Line>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub title: String,
    /// Numbers stand on the right.
    pub is_number: bool,
    /// 0: never omitted; else the largest goes first.
    pub omit: u8,
}

/// A line.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// What the lines below are about, and a remark.
    Section(String, String),
    /// One cell for each column.
    Cells(Vec<Cell>),
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub text: String,
    pub tone: Tone,
}

impl Cell {
    /// A text as it is.
    pub(crate) fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }

    /// A text with a tone.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl Column {
    /// A column of texts.
    pub(crate) fn words(title: &str) -> Column {
        Column { title: title.to_owned(), is_number: false, omit: 0 }
    }

    /// A column of numbers, omitted in this order of need.
    pub(crate) fn numbers(title: &str, omit: u8) -> Column {
        Column { title: title.to_owned(), is_number: true, omit }
    }
}

/// Space between columns.
const GAP: usize = 2;
/// Most one-line sections shown side by side.
const SIDE_BY_SIDE_MAX: usize = 8;
/// A column of texts is not made narrower than this, nor than its longest word, before panels are tried.
const NARROW: usize = 12;

impl Sheet {
    /// The columns in which any line says something; the first always.
    pub(crate) fn used_columns(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|&c| c == 0 || self.cells().any(|l| !l[c].text.is_empty())).collect()
    }

    /// The sheet without columns in which every line has a dash or nothing.
    pub(crate) fn without_dashes(&self) -> Sheet {
        let says = |column: usize| {
            column == 0 || self.cells().any(|cells| !matches!(cells[column].text.as_str(), "" | "-"))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|column| says(*column)).collect();
        let of = |cells: &Vec<Cell>| kept.iter().map(|column| cells[*column].clone()).collect();
        let lines = self.lines.iter().map(|line| match line {
            Line::Cells(cells) => Line::Cells(of(cells)),
            section => section.clone(),
        });
        Sheet {
            columns: kept.iter().map(|column| self.columns[*column].clone()).collect(),
            lines: lines.collect(),
        }
    }

    /// Its lines as columns: for a sheet of many columns and few lines. Where each of a few sections has one line they stand
    /// side by side, else below one another.
    pub(crate) fn turned(&self) -> Sheet {
        if let Some(turned) = self.side_by_side() {
            return turned;
        }
        let mut names: Vec<String> = Vec::new();
        self.cells().for_each(|cells| {
            if !names.contains(&cells[0].text) {
                names.push(cells[0].text.clone());
            }
        });
        let mut turned = Sheet { columns: vec![Column::words("")], lines: Vec::new() };
        turned.columns.extend(names.iter().map(|name| Column::numbers(name, 0)));
        let mut rest = self.lines.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            let of_section = behind.iter().take_while(|line| matches!(line, Line::Cells(_))).count();
            let (own, next) = match first {
                Line::Section(..) => {
                    turned.lines.push(first.clone());
                    behind.split_at(of_section)
                }
                Line::Cells(_) => rest.split_at(of_section + 1),
            };
            rest = next;
            for column in 1..self.columns.len() {
                let mut cells = vec![Cell::plain(self.columns[column].title.as_str())];
                cells.resize_with(names.len() + 1, Cell::default);
                for line in own {
                    let Line::Cells(from) = line else { continue };
                    if let Some(at) = names.iter().position(|name| *name == from[0].text) {
                        cells[at + 1] = from[column].clone();
                    }
                }
                if cells[1..].iter().any(|cell| !cell.text.is_empty()) {
                    turned.lines.push(Line::Cells(cells));
                }
            }
        }
        turned
    }

    /// A column for each section; `None` where there are many, or one has several lines.
    fn side_by_side(&self) -> Option<Sheet> {
        let (pairs, []) = self.lines.as_chunks::<2>() else { return None };
        let of_pair = |pair: &[Line; 2]| match pair {
            [Line::Section(name, _), Line::Cells(cells)] => Some((name.clone(), cells.clone())),
            _ => None,
        };
        let sections: Vec<(String, Vec<Cell>)> = pairs.iter().map(of_pair).collect::<Option<_>>()?;
        if sections.len() > SIDE_BY_SIDE_MAX {
            return None;
        }
        let titles = sections.iter().map(|(name, _)| Column::numbers(name, 0));
        let line = |column: usize| {
            let title = Cell::plain(self.columns[column].title.as_str());
            std::iter::once(title).chain(sections.iter().map(|(_, cells)| cells[column].clone())).collect()
        };
        let says = |cells: &Vec<Cell>| cells[1..].iter().any(|cell| !cell.text.is_empty());
        Some(Sheet {
            columns: std::iter::once(Column::words("")).chain(titles).collect(),
            lines: (1..self.columns.len()).map(line).filter(says).map(Line::Cells).collect(),
        })
    }

    fn cells(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.lines.iter().filter_map(|line| match line {
            Line::Cells(cells) => Some(cells),
            Line::Section(..) => None,
        })
    }

    fn has_sections(&self) -> bool {
        self.lines.iter().any(|l| matches!(l, Line::Section(..)))
    }

    /// The widest entry of a column.
    fn natural_width(&self, column: usize) -> usize {
        let cells = self.cells().map(|l| columns(&clean(&l[column].text)));
        cells.max().unwrap_or(0).max(columns(&clean(&self.columns[column].title)))
    }

    /// What a column of texts may be wrapped to: no word of it is broken then.
    fn narrowest(&self, column: usize) -> usize {
        let of_words = |text: &str| clean(text).split(' ').map(columns).max().unwrap_or(0);
        let cells = self.cells().map(|cells| of_words(&cells[column].text));
        let words = cells.max().unwrap_or(0).max(of_words(&self.columns[column].title));
        words.max(NARROW.min(self.natural_width(column)))
    }

    /// The sheet as text, each line ended.
    pub(crate) fn text(&self, style: &Style) -> String {
        self.text_led(1, style)
    }

    /// The same where the first `leading` columns name a line together: every panel repeats them.
    pub(crate) fn text_led(&self, leading: usize, style: &Style) -> String {
        let indent = if self.has_sections() { 2 } else { 0 };
        let room = style.table_columns() - indent;
        let natural: Vec<usize> = (0..self.columns.len()).map(|c| self.natural_width(c)).collect();
        let mut used = self.used_columns();
        let total = |used: &[usize], width: &dyn Fn(usize) -> usize| {
            used.iter().map(|&c| width(c)).sum::<usize>() + GAP * used.len().saturating_sub(1)
        };
        // What a column cannot be narrower than while nothing breaks inside a number.
        let least = |c: usize| if self.columns[c].is_number { natural[c] } else { self.narrowest(c) };
        let mut omitted = Vec::new();
        while total(&used, &|c| natural[c]) > room
            && let Some((at, _)) = used
                .iter()
                .enumerate()
                .filter(|(_, c)| self.columns[**c].omit > 0)
                .max_by_key(|(_, c)| self.columns[**c].omit)
        {
            omitted.push(used.remove(at));
        }
        let named = used.iter().take_while(|c| **c < leading).count().max(1).min(used.len());
        let (names, mut rest) = used.split_at(named);
        let mut panels: Vec<Vec<usize>> = Vec::new();
        while !names.is_empty() && (panels.is_empty() || !rest.is_empty()) {
            let mut panel = names.to_vec();
            while let [next, others @ ..] = rest {
                panel.push(*next);
                if total(&panel, &least) > room && panel.len() > names.len() + 1 {
                    panel.pop();
                    break;
                }
                rest = others;
            }
            panels.push(panel);
        }
        let panels: Vec<String> =
            panels.iter().map(|panel| self.panel(panel, &natural, indent, style)).collect();
        let mut out = panels.join("\n");
        if !omitted.is_empty() {
            omitted.sort_unstable();
            let names: Vec<&str> = omitted.iter().map(|&c| self.columns[c].title.as_str()).collect();
            let needed = indent + total(&self.used_columns(), &|c| natural[c]);
            let note =
                format!("not shown for want of room: {} (with {needed} columns they are)", names.join(", "));
            for line in wrap(&note, style.columns()) {
                out += &style.paint(Tone::Faint, &line);
                out.push('\n');
            }
        }
        out
    }

    /// Some of the columns, wrapped to fit.
    fn panel(&self, used: &[usize], natural: &[usize], indent: usize, style: &Style) -> String {
        let room = style.table_columns() - indent;
        let mut widths: Vec<usize> = used.iter().map(|&c| natural[c]).collect();
        let narrowest: Vec<usize> = used.iter().map(|&c| self.narrowest(c)).collect();
        let gaps = GAP * used.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > room {
            // The widest column of texts gives way first; numbers only when nothing else is left.
            let widest = |words: bool| {
                let candidates = (0..used.len()).filter(|&i| self.columns[used[i]].is_number != words);
                let floor = |i: usize| if words { narrowest[i] } else { 2 };
                candidates
                    .filter(|&i| widths[i] > floor(i))
                    .max_by_key(|&i| (widths[i], std::cmp::Reverse(i)))
            };
            let last_resort = || (0..used.len()).filter(|&i| widths[i] > 2).max_by_key(|&i| widths[i]);
            match widest(true).or_else(|| widest(false)).or_else(last_resort) {
                Some(i) => widths[i] -= 1,
                None => break,
            }
        }
        let mut out = String::new();
        let titles: Vec<Cell> =
            self.columns.iter().map(|c| Cell::toned(c.title.as_str(), Tone::Faint)).collect();
        if used.iter().any(|&c| !titles[c].text.is_empty()) {
            self.line(&mut out, &titles, used, &widths, indent, style);
        }
        for line in &self.lines {
            match line {
                Line::Section(name, remark) => {
                    let lead = if remark.is_empty() { name.clone() } else { format!("{name}  ") };
                    out += &paragraph(style, &lead, Tone::Strong, remark);
                }
                Line::Cells(cells) => self.line(&mut out, cells, used, &widths, indent, style),
            }
        }
        out
    }

    /// One line of cells, on as many lines of text as its longest cell needs.
    fn line(
        &self,
        out: &mut String,
        cells: &[Cell],
        used: &[usize],
        widths: &[usize],
        indent: usize,
        style: &Style,
    ) {
        let wrapped: Vec<Vec<String>> =
            used.iter().zip(widths).map(|(&c, &width)| wrap(&clean(&cells[c].text), width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        for row in 0..height {
            let mut line = " ".repeat(indent);
            let mut pending = 0;
            for ((&c, texts), &width) in used.iter().zip(&wrapped).zip(widths) {
                let text = texts.get(row).map_or("", String::as_str);
                let padded = pad(text, width, self.columns[c].is_number);
                let left = padded.len() - padded.trim_start_matches(' ').len();
                // Spaces are written only before something: lines have no blanks at their end.
                if !text.is_empty() {
                    line += &" ".repeat(pending + left);
                    line += &style.paint(cells[c].tone, text);
                    pending = columns(&padded) - left - columns(text) + GAP;
                } else {
                    pending += width + GAP;
                }
            }
            *out += line.trim_end();
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(cells: &[&[&str]], omit: &[u8]) -> Sheet {
        let columns = omit.iter().enumerate().map(|(i, o)| match i {
            0 => Column::words("name"),
            _ => Column::numbers(&format!("c{i}"), *o),
        });
        let line = |texts: &&[&str]| Line::Cells(texts.iter().map(|t| Cell::plain(*t)).collect());
        Sheet { columns: columns.collect(), lines: cells.iter().map(line).collect() }
    }

    #[test]
    fn columns_of_dashes_go_and_many_columns_become_lines() {
        let given = sheet(&[&["a", "1", "-", ""], &["b", "-", "", "2"]], &[0, 0, 0, 0]);
        let kept = given.without_dashes();
        assert_eq!(kept.columns.iter().map(|c| c.title.as_str()).collect::<Vec<_>>(), ["name", "c1", "c3"]);
        let texts = |sheet: &Sheet| -> Vec<Vec<String>> {
            sheet.cells().map(|cells| cells.iter().map(|cell| cell.text.clone()).collect()).collect()
        };
        assert_eq!(texts(&kept), [["a", "1", ""], ["b", "-", "2"]]);
        let mut sections = given.clone();
        sections.lines.push(sections.lines[1].clone());
        sections.lines.insert(0, Line::Section("one".to_owned(), String::new()));
        sections.lines.insert(2, Line::Section("two".to_owned(), String::new()));
        let turned = sections.turned();
        assert_eq!(turned.columns.iter().map(|c| c.title.as_str()).collect::<Vec<_>>(), ["", "a", "b"]);
        assert_eq!(texts(&turned), [["c1", "1", ""], ["c2", "-", ""], ["c1", "", "-"], ["c3", "", "2"]]);
        assert!(matches!(turned.lines[3], Line::Section(..)));
        sections.lines.pop();
        let beside = sections.turned();
        assert_eq!(beside.columns.iter().map(|c| c.title.as_str()).collect::<Vec<_>>(), ["", "one", "two"]);
        assert_eq!(texts(&beside), [["c1", "1", "-"], ["c2", "-", ""], ["c3", "", "2"]]);
    }

    #[test]
    fn numbers_stand_on_the_right_and_empty_columns_are_left_out() {
        let text = sheet(&[&["a", "1", ""], &["bcdef", "200", ""]], &[0, 0, 0]).text(&Style::plain(80));
        assert_eq!(text, "name    c1\na        1\nbcdef  200\n");
    }

    #[test]
    fn the_least_important_columns_go_first_and_are_named() {
        let wide = "x".repeat(14);
        let text = sheet(&[&["a", &wide, &wide, &wide]], &[0, 1, 2, 0]).text(&Style::plain(40));
        assert!(text.contains("not shown for want of room: c2"), "{text}");
        assert!(text.contains("c1") && text.contains("c3"), "{text}");
    }

    #[test]
    fn what_cannot_be_omitted_is_cut_into_panels_within_the_width() {
        let wide = "x".repeat(15);
        let text = sheet(&[&["a", &wide, &wide, &wide, &wide]], &[0; 5]).text(&Style::plain(40));
        assert!(text.lines().all(|l| columns(l) <= 40), "{text}");
        assert_eq!(text.matches("name").count(), 2, "{text}");
        assert_eq!(text.matches(&wide).count(), 4, "{text}");
    }

    #[test]
    fn columns_that_name_a_line_together_stand_in_every_panel() {
        let wide = "x".repeat(12);
        let lines: [&[&str]; 2] = [&["a", "1", &wide, &wide, &wide], &["", "2", &wide, &wide, &wide]];
        let text = sheet(&lines, &[0; 5]).text_led(2, &Style::plain(40));
        assert!(text.lines().all(|l| columns(l) <= 40), "{text}");
        let second = text.split("\n\n").nth(1).unwrap_or_default();
        let words: Vec<Vec<&str>> = second.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words, [vec!["name", "c1", "c4"], vec!["a", "1", &wide], vec!["2", &wide]], "{text}");
    }
}
