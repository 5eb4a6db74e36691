//! Quantities as text: a decimal number and a unit, read exactly.

use thiserror::Error;

/// A unit and how many of the base unit it holds.
pub(crate) struct Scale {
    pub unit: &'static str,
    pub factor: u64,
}

/// Why a text is not the quantity it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// No number at the start.
    #[error("`{text}` is not {what}: it does not start with a number")]
    NotANumber {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
    },
    /// A number without its unit.
    #[error("`{text}` has no unit: {what} needs one of {units}")]
    MissingUnit {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
        /// The units there are.
        units: String,
    },
    /// A unit nobody knows.
    #[error("`{unit}` in `{text}` is not a unit of {what}: use one of {units}")]
    UnknownUnit {
        /// The text as given.
        text: String,
        /// The unit as given.
        unit: String,
        /// What was expected, with its article.
        what: &'static str,
        /// The units there are.
        units: String,
    },
    /// Below zero where that has no meaning.
    #[error("`{text}` is negative: {what} cannot be below zero")]
    Negative {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
    },
    /// A fraction of the base unit.
    #[error("`{text}` is finer than {what} is counted in")]
    TooFine {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
    },
    /// More than the type holds.
    #[error("`{text}` is too large for {what}")]
    TooLarge {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
    },
    /// Right in form, outside its range.
    #[error("`{text}` is not {what}: {why}")]
    OutOfRange {
        /// The text as given.
        text: String,
        /// What was expected, with its article.
        what: &'static str,
        /// The range.
        why: &'static str,
    },
}

/// Reads `NUMBER [space] UNIT` and returns the exact count of the base unit.
///
/// The number is decimal digits with at most one point; no exponent. The product with the unit's factor must
/// be a whole number.
pub(crate) fn parse_quantity(text: &str, what: &'static str, units: &[Scale]) -> Result<u64, QuantityError> {
    let owned = || text.to_owned();
    let trimmed = text.trim();
    let body = match trimmed.strip_prefix('-') {
        Some(rest) if rest.trim_start().starts_with(|c: char| c.is_ascii_digit()) => {
            return Err(QuantityError::Negative { text: owned(), what });
        }
        _ => trimmed,
    };
    let end = body.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(body.len());
    let (number, unit) = body.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed =
        whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty());
    if malformed {
        return Err(QuantityError::NotANumber { text: owned(), what });
    }
    let names = || {
        let names: Vec<&str> = units.iter().map(|s| s.unit).filter(|u| u.is_ascii()).collect();
        names.join(", ")
    };
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(QuantityError::MissingUnit { text: owned(), what, units: names() });
    }
    let Some(scale) = units.iter().find(|s| s.unit == unit) else {
        return Err(QuantityError::UnknownUnit {
            text: owned(),
            unit: unit.to_owned(),
            what,
            units: names(),
        });
    };
    let too_large = || QuantityError::TooLarge { text: owned(), what };
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err(QuantityError::TooFine { text: owned(), what });
    }
    let denominator = 10u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let scaled = digits.checked_mul(u128::from(scale.factor)).ok_or_else(too_large)?;
    if scaled % denominator != 0 {
        return Err(QuantityError::TooFine { text: owned(), what });
    }
    u64::try_from(scaled / denominator).map_err(|_| too_large())
}
