//! [`Sheet`]: what an experiment gave, row by row beside what was published.

use surety_model::record::Distribution;

/// Where the numbers of a column come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Printed in the source.
    Published,
    /// By a formula.
    Theory,
    /// Measured, simulated or analysed by a world.
    World,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title: a world, or what it is.
    pub title: String,
    /// The unit of its values: `%` of a fraction, `ns`, `bit/s`, empty for a plain number.
    pub unit: &'static str,
    /// Where they come from.
    pub origin: Origin,
}

/// One value, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The source or the world says nothing here.
    Empty,
    Value {
        /// In the unit of its column.
        value: f64,
        /// How far it is from what it is held against, in the same unit.
        error: Option<f64>,
    },
    /// The value is less than this; how much less was not published.
    Below(f64),
    /// The value is more than this; how much more was not waited for.
    Above(f64),
    /// The world could not do it.
    Refused(String),
    /// The world does not show it, for this reason.
    NotObservable(String),
}

impl Cell {
    /// A value held against another, where there is one.
    pub fn against(value: f64, other: Option<f64>) -> Cell {
        Cell::Value { value, error: other.map(|other| value - other) }
    }

    /// A value held against nothing.
    pub fn plain(value: f64) -> Cell {
        Cell::Value { value, error: None }
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Cell::Value { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The error as a part of what the value is held against; `None` where that is nothing.
    pub fn relative_error(&self) -> Option<f64> {
        let (value, error) = (self.value()?, self.error()?);
        let relative = error / (value - error);
        relative.is_finite().then_some(relative)
    }

    /// How far the value is from what it is held against.
    pub fn error(&self) -> Option<f64> {
        match self {
            Cell::Value { error, .. } => *error,
            _ => None,
        }
    }
}

/// What sets a row apart from the predictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A parameter that was not published is chosen so that this row comes out right: it predicts nothing.
    Calibrated,
    /// The model cannot give what was published here, for this reason.
    NotExplained(String),
    /// No kernel was held against what was simulated here; a note says what.
    Unvalidated,
}

impl Mark {
    /// As it stands beside the row.
    pub fn word(&self) -> &'static str {
        match self {
            Mark::Calibrated => "calibrated",
            Mark::NotExplained(_) => "not explained",
            Mark::Unvalidated => "unvalidated",
        }
    }
}

/// One configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetRow {
    /// The configuration, a word for each of [`Sheet::keys`].
    pub keys: Vec<String>,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// What sets it apart; `None`: it is a prediction.
    pub mark: Option<Mark>,
}

impl SheetRow {
    /// A configuration nothing was calibrated on.
    pub fn new(keys: Vec<String>, cells: Vec<Cell>) -> SheetRow {
        SheetRow { keys, cells, mark: None }
    }
}

/// What an experiment gave.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What the configurations are named by.
    pub keys: Vec<&'static str>,
    /// The columns of values.
    pub columns: Vec<Column>,
    /// Configuration by configuration.
    pub rows: Vec<SheetRow>,
    /// What a reader must know: assumptions where the source is silent, which rows were used to calibrate, what
    /// could not be run, and what follows.
    pub notes: Vec<String>,
    /// Distributions to be drawn beside each other, with their names.
    pub drawn: Vec<(String, Distribution)>,
}

impl Sheet {
    /// The largest error of a column's predictions in absolute value; `None` when nothing in it is held against
    /// anything. Rows with a [`Mark`] are no predictions.
    pub fn worst_error(&self, column: usize) -> Option<f64> {
        self.worst(column, |cell| cell.error())
    }

    /// The same of errors relative to what they are held against.
    pub fn worst_relative_error(&self, column: usize) -> Option<f64> {
        self.worst(column, |cell| cell.relative_error())
    }

    fn worst(&self, column: usize, error: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.mark.is_none());
        rows.filter_map(|row| error(row.cells.get(column)?)).map(f64::abs).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_predictions_count_for_the_largest_error() {
        let row =
            |value, mark| SheetRow { mark, ..SheetRow::new(vec![], vec![Cell::against(value, Some(10.0))]) };
        let rows = vec![
            row(11.0, None),
            row(9.5, None),
            row(30.0, Some(Mark::Calibrated)),
            row(0.0, Some(Mark::NotExplained(String::new()))),
        ];
        let sheet = Sheet { keys: vec![], columns: vec![], rows, notes: vec![], drawn: vec![] };
        assert_eq!((sheet.worst_error(0), sheet.worst_relative_error(0)), (Some(1.0), Some(0.1)));
        assert_eq!(sheet.worst_error(1), None);
    }
}
