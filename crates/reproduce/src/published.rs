//! Published tables as they were printed, embedded with their source: comma-separated, the first line the titles.

use thiserror::Error;

/// A table of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// What is wrong with an embedded table.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TableError {
    /// No line at all.
    #[error("the table is empty")]
    Empty,
    /// A line is too long or too short.
    #[error("line {line} has {found} cells, the titles {expected}")]
    Width {
        /// Which, from 1.
        line: usize,
        /// Cells in it.
        found: usize,
        /// Cells of the first line.
        expected: usize,
    },
}

impl Table {
    /// Reads a table. Cells hold no commas and no quotes.
    ///
    /// # Errors
    /// [`TableError`] with the line.
    pub fn read(text: &str) -> Result<Table, TableError> {
        let cells = |line: &str| -> Vec<String> { line.split(',').map(|c| c.trim().to_owned()).collect() };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or(TableError::Empty)?;
        let titles = cells(first);
        let rows = lines.map(|(index, line)| {
            let row = cells(line);
            let (found, expected) = (row.len(), titles.len());
            if found == expected {
                Ok(row)
            } else {
                Err(TableError::Width { line: index + 1, found, expected })
            }
        });
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(Table { titles, rows })
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A cell as it was printed; `None` when there is no such row or title, or the cell is empty.
    pub fn text(&self, row: usize, title: &str) -> Option<&str> {
        let column = self.titles.iter().position(|t| t == title)?;
        self.rows.get(row)?.get(column).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// A cell as a number.
    pub fn number(&self, row: usize, title: &str) -> Option<f64> {
        self.text(row, title)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_by_title() {
        let table = Table::read("a,b\n1, x\n\n2.5,\n").unwrap();
        assert_eq!(table.len(), 2);
        assert_eq!(
            (table.number(1, "a"), table.text(0, "b"), table.text(1, "b")),
            (Some(2.5), Some("x"), None)
        );
        assert_eq!((table.text(0, "c"), table.text(2, "a"), table.number(0, "b")), (None, None, None));
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(Table::read("\n"), Err(TableError::Empty));
        let error = Table::read("a,b\n1,2\n3\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3 has 1 cells, the titles 2");
    }
}
