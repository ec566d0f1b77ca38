//! Checks one table's records against the column definitions in the catalog.

use ese_format::page::Node;
use ese_format::record::{Column, ColumnClass, ColumnFlags, ColumnId, ColumnValue, MultiValue, Record};
use ese_format::{PageNumber, PageSize};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::structure::catalog::CheckedTable;
use crate::structure::index::IndexCheck;
use crate::structure::key_filter::KeyFilter;
use crate::structure::keys::{self, KeyScratch};
use crate::structure::leaf::{NodeVisitor, ParallelVisitor};
use crate::structure::long_values::{LongValueReferences, for_each_value_reference};

/// Length in bytes of a record key in a table without a primary index.
const SEQUENTIAL_KEY_LEN: usize = 4;

/// Checks records, and collects their keys, the long values they refer to, and the index entries they require.
pub(crate) struct RowCheck<'t, 'k> {
    table: &'t CheckedTable,
    page_size: PageSize,
    rebuild_keys: bool,
    highest_fixed: ColumnId,
    highest_variable: ColumnId,
    pub(crate) references: LongValueReferences,
    pub(crate) indexes: Vec<IndexCheck<'t>>,
    keys: &'k KeyFilter,
    /// Key of the current row.
    key: Vec<u8>,
    rebuilt: KeyScratch,
}

impl<'t, 'k> RowCheck<'t, 'k> {
    pub(crate) fn new(table: &'t CheckedTable, page_size: PageSize, keys: &'k KeyFilter) -> RowCheck<'t, 'k> {
        let highest = |last: ColumnId| {
            let live = table.columns().map(|column| column.id);
            live.chain(table.deleted_columns()).filter(|id| *id <= last).max().unwrap_or(ColumnId(0))
        };
        RowCheck {
            table,
            page_size,
            rebuild_keys: table.primary.as_ref().is_some_and(|index| keys::can_rebuild(table, index)),
            highest_fixed: highest(ColumnId::LAST_FIXED),
            highest_variable: highest(ColumnId::LAST_VARIABLE).max(ColumnId::LAST_FIXED),
            references: LongValueReferences::default(),
            indexes: table.indexes.iter().map(|index| IndexCheck::new(table, index, page_size)).collect(),
            keys,
            key: Vec::new(),
            rebuilt: KeyScratch::default(),
        }
    }

    fn visit_row(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        self.key.clear();
        node.append_key(&mut self.key);
        if !self.indexes.is_empty() {
            self.keys.add(&self.key);
        }
        let record = Record::new(node.data, self.page_size);
        let mut report = |what: String| {
            findings.add_structural(
                FindingKind::RecordLayout,
                page,
                &self.table.name,
                format!("record {}: {what}", hex(&self.key)),
            );
        };
        if let Err(error) = record.validate() {
            return report(error.to_string());
        }
        let known = self.table.columns_are_known();
        if known
            && (record.last_fixed() > self.highest_fixed || record.last_variable() > self.highest_variable)
        {
            let (fixed, variable) = (record.last_fixed(), record.last_variable());
            report(format!(
                "columns up to {fixed} and {variable} are stored, but the table has fewer columns"
            ));
        }
        for column in self.table.columns().filter(|column| column.class() != ColumnClass::Tagged) {
            match record.get(column) {
                Ok(value) => {
                    if let Some(what) = describe_problem(column, &value) {
                        report(what);
                    }
                }
                Err(error) => report(error.to_string()),
            }
        }
        for (id, value) in record.tagged_columns() {
            let column = self.table.stored_column(id);
            match column.and_then(|column| describe_problem(column, &value)) {
                Some(what) => report(what),
                None if known
                    && column.is_none()
                    && self.table.deleted_columns().all(|deleted| deleted != id) =>
                {
                    let origin = if id.is_inherited() { "template of the " } else { "" };
                    report(format!("the {origin}table does not have column {id}"));
                }
                None => {}
            }
            for_each_value_reference(&value, &mut |id| self.references.add(id, 1));
        }
        match &self.table.primary {
            None if self.key.len() != SEQUENTIAL_KEY_LEN => {
                report(format!(
                    "the key is {} bytes long, but the table does not have a primary index",
                    self.key.len()
                ));
            }
            Some(primary) if self.rebuild_keys => {
                let mut wrong = None;
                let mut first = true;
                keys::for_each_key(self.table, primary, &record, &mut self.rebuilt, &mut |key| {
                    // The last bytes of a truncated key depend on details of the truncation.
                    if std::mem::take(&mut first) && key.len() < primary.max_key_len && key != self.key {
                        wrong = Some(hex(key));
                    }
                });
                if let Some(key) = wrong {
                    report(format!("the columns of the row result in key {key}"));
                }
            }
            _ => {}
        }
        for index in &mut self.indexes {
            index.add_expected(&record, &self.key);
        }
    }
}

impl NodeVisitor for RowCheck<'_, '_> {
    fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        self.visit_row(page, node, findings);
    }
}

impl ParallelVisitor for RowCheck<'_, '_> {
    fn fork(&self) -> Self {
        RowCheck {
            references: LongValueReferences::default(),
            indexes: self.indexes.iter().map(IndexCheck::fork).collect(),
            key: Vec::new(),
            rebuilt: KeyScratch::default(),
            ..*self
        }
    }

    fn join(&mut self, right: Self, _: &mut Findings) {
        self.references.join(&right.references);
        for (index, right) in self.indexes.iter_mut().zip(right.indexes) {
            index.join(right);
        }
    }
}

/// Describes what is wrong with a stored value, if anything.
fn describe_problem(column: &Column, value: &ColumnValue<'_>) -> Option<String> {
    let place = || format!("column {} ({})", column.name, column.id);
    let wrong_len = |bytes: &[u8]| column.kind.fixed_size().is_some_and(|size| size != bytes.len());
    let too_long =
        |bytes: &[u8]| !column.kind.is_long() && column.size > 0 && bytes.len() > column.size as usize;
    match value {
        ColumnValue::Null if column.flags.contains(ColumnFlags::NOT_NULL) => {
            Some(format!("{} is null", place()))
        }
        ColumnValue::Bytes(bytes) if wrong_len(bytes) || too_long(bytes) => {
            Some(format!("{} has {} bytes", place(), bytes.len()))
        }
        ColumnValue::Separated(_) | ColumnValue::Compressed(_) if !column.kind.is_long() => {
            Some(format!("{} contains a long value, but its type does not allow long values", place()))
        }
        ColumnValue::Multi(values) => {
            let wrong =
                values.iter().any(|value| matches!(value, MultiValue::Bytes(bytes) if wrong_len(bytes)));
            wrong.then(|| format!("{} has a value of the wrong length", place()))
        }
        _ => None,
    }
}
