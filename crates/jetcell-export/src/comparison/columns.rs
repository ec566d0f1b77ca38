//! The columns of a table in two databases, matched by name.

use std::collections::HashMap;

use ese_format::PageNumber;
use ese_format::record::{Column, ColumnValue, MultiValue, Record};

use super::difference::RowDifferenceKind;
use super::values::ValueComparer;
use crate::issue::ExportIssues;
use crate::table::SourceTable;

/// Columns that both tables have, and differences between the definitions.
pub(super) struct ColumnPairs<'t> {
    /// Columns with the same type in both tables.
    pairs: Vec<[&'t Column; 2]>,
    differences: Vec<RowDifferenceKind<'t>>,
    /// True if records with equal bytes have equal values, except for long values.
    same_layout: bool,
}

/// Result of a comparison of two records.
#[derive(Default)]
pub(super) struct ComparedRow<'t> {
    /// Names of the columns whose values differ.
    pub(super) changed: Vec<&'t str>,
    /// True if values of a column cannot be compared because they cannot be read or decoded.
    pub(super) is_unread: bool,
}

impl<'t> ColumnPairs<'t> {
    pub(super) fn new(tables: [&'t SourceTable; 2]) -> ColumnPairs<'t> {
        let [one, two] = tables.map(|table| table.columns.iter().map(|column| &column.column));
        let mut others: HashMap<String, &Column> =
            two.clone().map(|column| (column.name.to_ascii_lowercase(), column)).collect();
        let (mut pairs, mut differences, mut same_layout) = (Vec::new(), Vec::new(), true);
        for column in one {
            let Some(other) = others.remove(&column.name.to_ascii_lowercase()) else {
                differences.push(RowDifferenceKind::ColumnOnly(&column.name, 0));
                continue;
            };
            let same_type = (column.kind, column.code_page) == (other.kind, other.code_page);
            if !same_type || column.default != other.default {
                differences.push(RowDifferenceKind::ColumnDefinition(&column.name));
            }
            same_layout &= (column.id, column.record_offset, column.flags)
                == (other.id, other.record_offset, other.flags);
            if same_type {
                pairs.push([column, other]);
            }
        }
        let only_two = two.filter(|column| others.contains_key(&column.name.to_ascii_lowercase()));
        differences.extend(only_two.map(|column| RowDifferenceKind::ColumnOnly(&column.name, 1)));
        same_layout &= differences.is_empty();
        ColumnPairs { pairs, differences, same_layout }
    }

    pub(super) fn differences(&self) -> &[RowDifferenceKind<'t>] {
        &self.differences
    }

    /// Compares two records.
    pub(super) fn compare(
        &self,
        records: [Record<'_>; 2],
        pages: [PageNumber; 2],
        values: &mut ValueComparer<'_>,
        mut issues: [&mut ExportIssues; 2],
    ) -> ComparedRow<'t> {
        let [one, two] = records;
        if self.same_layout && one.bytes() == two.bytes() && !has_long_values(one) {
            return ComparedRow::default();
        }
        let mut row = ComparedRow::default();
        for [column, other] in &self.pairs {
            let stored = [one.get(column), two.get(other)];
            match values.are_equal(stored, [column, other], pages, &mut issues) {
                Some(true) => {}
                Some(false) => row.changed.push(&column.name),
                None => row.is_unread = true,
            }
        }
        row
    }
}

/// Returns true if a record refers to long values.
fn has_long_values(record: Record<'_>) -> bool {
    record.tagged().is_ok_and(|columns| {
        columns.iter().any(|(_, value)| match value {
            ColumnValue::Separated(_) => true,
            ColumnValue::Multi(values) => {
                values.iter().any(|value| matches!(value, MultiValue::Separated(_)))
            }
            _ => false,
        })
    })
}
