//! Compares the rows of two databases, such as a database before and after a repair, or two snapshots.
//!
//! Tables are matched by name. Rows are matched by their primary key, or by their number if the table does not have
//! one. Both tables are read in key order at the same time, so memory use does not depend on their size. Long values
//! are compared by content, chunk by chunk. Rows that are flagged as deleted are not compared.

mod columns;
mod difference;
mod keyed_rows;
mod values;

use std::cmp::Ordering;

use ese_format::record::Record;

use self::columns::{ColumnPairs, ComparedRow};
use self::keyed_rows::KeyedRows;
use self::values::ValueComparer;
pub use difference::{RowDifference, RowDifferenceKind};

use crate::issue::ExportIssues;
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;

/// Number of rows between two calls to the progress callback.
const PROGRESS_STEP: u64 = 1024;

/// Row counts from the comparison of one table in two databases.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RowPairCounts {
    /// Name of the table.
    pub table: String,
    /// Number of rows that are equal.
    pub equal: u64,
    /// Number of rows with the same key and different content.
    pub changed: u64,
    /// Number of rows with the same key that have an unreadable or undecodable value, but do not otherwise differ.
    pub unread: u64,
    /// Number of rows, for each database, whose key does not exist in the other database.
    pub only: [u64; 2],
    /// Number of columns that only one of the databases has, or whose definitions differ.
    pub columns: u64,
}

impl RowPairCounts {
    /// Returns true if the two tables have the same columns and rows.
    pub fn are_equal(&self) -> bool {
        self.changed == 0 && self.unread == 0 && self.only == [0, 0] && self.columns == 0
    }
}

/// Result of a comparison of rows.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RowComparison {
    /// Tables that both databases have, in catalog order.
    pub tables: Vec<RowPairCounts>,
    /// Tables of each database that the other database does not have.
    pub only: [Vec<String>; 2],
}

impl RowComparison {
    /// Returns true if the two databases have the same tables, columns and rows.
    pub fn are_equal(&self) -> bool {
        self.only.iter().all(Vec::is_empty) && self.tables.iter().all(RowPairCounts::are_equal)
    }
}

/// Callbacks of a comparison of rows.
pub struct RowComparisonObserver<'o> {
    /// Receives every difference.
    pub visit: &'o mut dyn FnMut(RowDifference<'_>),
    /// Receives the name of the current table and the number of its rows compared so far. It is called often.
    pub progress: &'o mut dyn FnMut(&str, u64),
}

/// Compares all tables of two databases. Data that cannot be read is reported in `issues`. An unreadable row counts
/// as a difference if the other database has it. A row with an unreadable value is counted separately.
pub fn compare_rows(
    sources: [&SourceDatabase; 2],
    issues: &mut [ExportIssues; 2],
    mut observer: RowComparisonObserver<'_>,
) -> RowComparison {
    let mut comparison = RowComparison::default();
    let [one, two] = sources;
    for table in one.tables() {
        issues.iter_mut().for_each(|issues| issues.set_table(Some(&table.name)));
        match two.table(&table.name) {
            Some(other) => {
                let counts = compare_tables(sources, [table, other], issues, &mut observer);
                comparison.tables.push(counts);
            }
            None => {
                (observer.visit)(RowDifference { table: &table.name, kind: RowDifferenceKind::TableOnly(0) });
                comparison.only[0].push(table.name.clone());
            }
        }
    }
    issues.iter_mut().for_each(|issues| issues.set_table(None));
    for table in two.tables().iter().filter(|table| one.table(&table.name).is_none()) {
        (observer.visit)(RowDifference { table: &table.name, kind: RowDifferenceKind::TableOnly(1) });
        comparison.only[1].push(table.name.clone());
    }
    comparison
}

/// Compares the rows of one table by merging both sequences of keys.
fn compare_tables(
    sources: [&SourceDatabase; 2],
    tables: [&SourceTable; 2],
    issues: &mut [ExportIssues; 2],
    observer: &mut RowComparisonObserver<'_>,
) -> RowPairCounts {
    let table = tables[0].name.as_str();
    let mut report = |kind: RowDifferenceKind<'_>| (observer.visit)(RowDifference { table, kind });
    let columns = ColumnPairs::new(tables);
    columns.differences().iter().cloned().for_each(&mut report);
    let mut counts = RowPairCounts {
        table: table.to_owned(),
        columns: columns.differences().len() as u64,
        ..RowPairCounts::default()
    };
    let databases = sources.map(|source| &source.database);
    let mut values = ValueComparer::new(databases, tables);
    let mut one = KeyedRows::new(tables[0], databases[0]);
    let mut two = KeyedRows::new(tables[1], databases[1]);
    let [issues_one, issues_two] = issues;
    one.advance(issues_one);
    two.advance(issues_two);
    let mut compared = 0u64;
    loop {
        if compared.is_multiple_of(PROGRESS_STEP) {
            (observer.progress)(table, compared);
        }
        compared += 1;
        let order = match (one.row(), two.row()) {
            (None, None) => return counts,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(two)) => {
                let order = one.key.cmp(two.key);
                if order == Ordering::Equal {
                    let records = [(one.data, databases[0]), (two.data, databases[1])]
                        .map(|(data, database)| Record::new(data, database.page_size));
                    let pages = [one.page, two.page];
                    let issues = [&mut *issues_one, &mut *issues_two];
                    let ComparedRow { changed, is_unread } =
                        columns.compare(records, pages, &mut values, issues);
                    if !changed.is_empty() {
                        counts.changed += 1;
                        report(RowDifferenceKind::Row { key: one.key, pages, columns: changed });
                    } else if is_unread {
                        counts.unread += 1;
                    } else {
                        counts.equal += 1;
                    }
                }
                order
            }
        };
        let only = match order {
            Ordering::Less => one.row().map(|row| (row, 0)),
            Ordering::Greater => two.row().map(|row| (row, 1)),
            Ordering::Equal => None,
        };
        if let Some((row, database)) = only {
            if let Some(count) = counts.only.get_mut(database) {
                *count += 1;
            }
            report(RowDifferenceKind::RowOnly { key: row.key, database, page: row.page });
        }
        if order != Ordering::Greater {
            one.advance(issues_one);
        }
        if order != Ordering::Less {
            two.advance(issues_two);
        }
    }
}
