//! Selects the tables, columns and rows to export.

use std::ops::RangeInclusive;

use wildmatch::WildMatch;

use crate::error::ExportError;
use crate::selected_table::SelectedTable;
use crate::table::SourceTable;
use crate::time_filter::{TimeFilter, has_times};

/// Which tables, columns and rows to export. By default, everything is exported.
///
/// Names are patterns in which `*` matches any number of characters and `?` matches one. Case is ignored. A pattern
/// is compared both with the stored name and with the name given by the [profile](crate::ApplicationProfile).
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Table patterns. If empty, all tables are exported.
    pub tables: Vec<String>,
    /// Column patterns. If empty, all columns are exported. A table without a matching column is skipped.
    pub columns: Vec<String>,
    /// Time condition for rows. If `None`, all rows are exported.
    pub times: Option<TimeCondition>,
}

/// A time condition for rows: at least one time in the row must be within a given range. Rows whose times cannot be
/// read are exported, as are all rows of tables without time columns.
#[derive(Clone, Debug)]
pub struct TimeCondition {
    /// Time columns to check. If empty, all time columns are checked.
    pub columns: Vec<String>,
    /// First and last time, in units of 100 nanoseconds since 1970-01-01 UTC. Times without a time zone are treated
    /// as UTC.
    pub range: RangeInclusive<i64>,
}

/// A pattern, and a flag that is set once a name has matched it.
struct Pattern<'s> {
    text: &'s str,
    matcher: WildMatch,
    used: bool,
}

/// A list of patterns. A name matches if at least one pattern matches or the list is empty.
struct Patterns<'s>(Vec<Pattern<'s>>);

impl<'s> Patterns<'s> {
    fn new(texts: &'s [String]) -> Patterns<'s> {
        let pattern =
            |text: &'s String| Pattern { matcher: WildMatch::new_case_insensitive(text), text, used: false };
        Patterns(texts.iter().map(pattern).collect())
    }

    /// Returns true if the stored name or the profile name matches.
    fn match_either(&mut self, stored: &str, shown: &str) -> bool {
        let mut found = self.0.is_empty();
        for pattern in &mut self.0 {
            let matches =
                |name: &str| pattern.text.eq_ignore_ascii_case(name) || pattern.matcher.matches(name);
            let matched = matches(stored) || matches(shown);
            pattern.used |= matched;
            found |= matched;
        }
        found
    }

    /// Returns the patterns that have not matched any name.
    fn unused(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|pattern| !pattern.used).map(|pattern| pattern.text.to_owned())
    }
}

/// A pattern that matches nothing in a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum UnmatchedPattern {
    Table(String),
    /// A pattern for time columns, or `*` if no table has times.
    Times(String),
    Column(String),
}

impl From<UnmatchedPattern> for ExportError {
    fn from(pattern: UnmatchedPattern) -> ExportError {
        match pattern {
            UnmatchedPattern::Table(name) => ExportError::NoTable { name },
            UnmatchedPattern::Times(name) => ExportError::NoTimes { name },
            UnmatchedPattern::Column(name) => ExportError::NoColumn { name },
        }
    }
}

/// The tables of a database that a selection contains.
pub(crate) struct SelectedTables {
    pub(crate) tables: Vec<SelectedTable>,
    /// Patterns that match nothing, in the order in which they are reported.
    pub(crate) unmatched: Vec<UnmatchedPattern>,
}

impl SelectedTables {
    /// Returns the tables, or an error if a pattern matches nothing.
    pub(crate) fn all_matched(self) -> Result<Vec<SelectedTable>, ExportError> {
        match self.unmatched.into_iter().next() {
            Some(pattern) => Err(pattern.into()),
            None => Ok(self.tables),
        }
    }
}

impl Selection {
    /// Returns the tables to export, and the patterns that match nothing. Each table is passed both as stored and with
    /// the profile applied, with the same columns in the same order.
    pub(crate) fn apply<'t>(
        &self,
        tables: impl Iterator<Item = (&'t SourceTable, SourceTable)>,
    ) -> SelectedTables {
        let mut names = Patterns::new(&self.tables);
        let chosen: Vec<(&SourceTable, SourceTable)> =
            tables.filter(|(stored, shown)| names.match_either(&stored.name, &shown.name)).collect();
        let mut unmatched: Vec<_> = names.unused().map(UnmatchedPattern::Table).collect();
        let filters = self.time_filters(&chosen, &mut unmatched);
        let mut columns = Patterns::new(&self.columns);
        let selected = chosen.into_iter().zip(filters).map(|((stored, mut table), times)| {
            let mut stored = stored.columns.iter().map(|column| column.column.name.as_str());
            table.columns.retain(|column| {
                columns.match_either(stored.next().unwrap_or_default(), &column.column.name)
            });
            SelectedTable { table, times }
        });
        let mut tables: Vec<SelectedTable> = selected.collect();
        unmatched.extend(columns.unused().map(UnmatchedPattern::Column));
        if !self.columns.is_empty() {
            tables.retain(|selected| !selected.table.columns.is_empty());
        }
        SelectedTables { tables, unmatched }
    }

    fn time_filters(
        &self,
        tables: &[(&SourceTable, SourceTable)],
        unmatched: &mut Vec<UnmatchedPattern>,
    ) -> Vec<Option<TimeFilter>> {
        let Some(times) = &self.times else { return tables.iter().map(|_| None).collect() };
        let mut names = Patterns::new(&times.columns);
        let filters: Vec<Option<TimeFilter>> = tables
            .iter()
            .map(|(stored, shown)| {
                let pairs = stored.columns.iter().zip(&shown.columns);
                let columns = pairs
                    .filter(|(_, shown)| has_times(shown))
                    .filter(|(stored, shown)| names.match_either(&stored.column.name, &shown.column.name))
                    .map(|(_, shown)| shown.clone());
                TimeFilter::new(columns.collect(), times.range.clone())
            })
            .collect();
        unmatched.extend(names.unused().map(UnmatchedPattern::Times));
        if times.columns.is_empty() && filters.iter().all(Option::is_none) {
            unmatched.push(UnmatchedPattern::Times("*".to_owned()));
        }
        filters
    }
}
