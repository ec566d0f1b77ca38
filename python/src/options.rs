//! Parses keyword arguments: profiles, forms of values, selection of columns and rows.

use std::ops::RangeInclusive;

use jetcell_export::{
    AdditionalRows, ApplicationProfile, CurrencyFormat, ROW_LIMIT, Selection, TimeCondition,
};
use pyo3::prelude::*;

use crate::errors::LocatedError;

/// Maximum row limit in bytes. Offsets in Arrow arrays have 31 bits, and UTF-8 may need 1.5 times as many bytes as
/// UTF-16.
const MAX_ROW_LIMIT: usize = 512 << 20;

/// Handling of unreadable data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagePolicy {
    /// Raise an exception.
    Raise,
    /// Return markers and record issues.
    Report,
}

/// Returns the choice with this name.
fn choice<T: Copy>(what: &str, name: &str, choices: &[(&str, T)]) -> Result<T, LocatedError> {
    choices.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        LocatedError::argument(format!("{what}={name:?} is not one of {}", names.join(", ")))
    })
}

/// Parses the argument `damage`.
pub fn damage(name: &str) -> Result<DamagePolicy, LocatedError> {
    choice("damage", name, &[("raise", DamagePolicy::Raise), ("report", DamagePolicy::Report)])
}

/// Parses the argument `profile`.
pub fn profile(name: &str) -> Result<ApplicationProfile, LocatedError> {
    let choices = [
        ("auto", ApplicationProfile::BySchema),
        ("ntds", ApplicationProfile::Directory),
        ("srum", ApplicationProfile::UsageMonitor),
        ("ual", ApplicationProfile::AccessLogging),
        ("search", ApplicationProfile::Search),
        ("webcache", ApplicationProfile::WebCache),
        ("none", ApplicationProfile::None),
    ];
    choice("profile", name, &choices)
}

/// Parses the argument `currency`.
pub fn currency(name: &str) -> Result<CurrencyFormat, LocatedError> {
    let choices = [
        ("auto", CurrencyFormat::BySchema),
        ("decimal", CurrencyFormat::Decimal),
        ("integer", CurrencyFormat::Integer),
    ];
    choice("currency", name, &choices)
}

/// Options for reading the rows of a table.
#[derive(Clone, Debug)]
pub struct RowOptions {
    pub selection: Selection,
    pub additional: AdditionalRows,
    pub damage: DamagePolicy,
    pub row_limit: usize,
}

/// Arguments that select rows and columns of a table, as passed by Python.
pub struct RowSelection<'a, 'py> {
    pub columns: Option<Vec<String>>,
    pub since: Option<&'a Bound<'py, PyAny>>,
    pub before: Option<&'a Bound<'py, PyAny>>,
    pub time_columns: Option<Vec<String>>,
    pub additional: AdditionalRows,
    pub damage: Option<&'a str>,
    pub row_limit: Option<usize>,
}

impl RowSelection<'_, '_> {
    /// Parses the options. `default` is the choice for the database.
    pub fn options(self, default: DamagePolicy) -> PyResult<RowOptions> {
        let row_limit = self.row_limit.unwrap_or(ROW_LIMIT);
        if row_limit > MAX_ROW_LIMIT {
            let what = format!("row_limit={row_limit} exceeds the maximum of {MAX_ROW_LIMIT}");
            return Err(LocatedError::argument(what).into());
        }
        let times = match (self.since, self.before) {
            (None, None) if self.time_columns.is_some() => {
                return Err(LocatedError::argument("time_columns requires since or before".to_owned()).into());
            }
            (None, None) => None,
            (since, before) => Some(TimeCondition {
                columns: self.time_columns.unwrap_or_default(),
                range: range(since, before)?,
            }),
        };
        let policy = match self.damage.map(damage).transpose()? {
            Some(DamagePolicy::Raise) if self.additional.damaged => {
                let what = "include_damaged cannot be combined with damage=\"raise\"".to_owned();
                return Err(LocatedError::argument(what).into());
            }
            Some(policy) => policy,
            None if self.additional.damaged => DamagePolicy::Report,
            None => default,
        };
        Ok(RowOptions {
            selection: Selection { tables: Vec::new(), columns: self.columns.unwrap_or_default(), times },
            additional: self.additional,
            damage: policy,
            row_limit,
        })
    }
}

/// Returns the first and the last time, in units of 100 nanoseconds since 1970.
fn range(
    since: Option<&Bound<'_, PyAny>>,
    before: Option<&Bound<'_, PyAny>>,
) -> PyResult<RangeInclusive<i64>> {
    let ticks = |time: &Bound<'_, PyAny>| -> PyResult<i64> {
        time.py().import("jetcell._times")?.getattr("ticks")?.call1((time,))?.extract()
    };
    let first = since.map(ticks).transpose()?.unwrap_or(i64::MIN);
    let last = before.map(ticks).transpose()?.map_or(i64::MAX, |end| end.saturating_sub(1));
    if first > last {
        return Err(LocatedError::argument("before must be later than since".to_owned()).into());
    }
    Ok(first..=last)
}
