//! The records of one table against what the catalog says of its columns.

use ese_format::page::Node;
use ese_format::record::{Column, ColumnFlags, ColumnId, ColumnValue, MultiValue, Record};
use ese_format::{PageNumber, PageSize};

use crate::catalog::Table;
use crate::finding::{FindingKind, Findings};
use crate::index::IndexCheck;
use crate::keys;
use crate::long_values::References;
use crate::tree::hex;

/// Length of the key of a record in a table without primary index.
const SEQUENTIAL_KEY_LEN: usize = 4;

/// Checks record after record, and notes the long values they refer to.
pub(crate) struct RowCheck<'t> {
    table: &'t Table,
    page_size: PageSize,
    rebuild_keys: bool,
    highest_fixed: ColumnId,
    highest_variable: ColumnId,
    references: References,
}

impl<'t> RowCheck<'t> {
    pub(crate) fn new(table: &'t Table, page_size: PageSize) -> RowCheck<'t> {
        let highest = |last: ColumnId| {
            let live = table.columns.iter().map(|column| column.id);
            live.chain(table.deleted_columns.iter().copied())
                .filter(|id| *id <= last)
                .max()
                .unwrap_or(ColumnId(0))
        };
        RowCheck {
            table,
            page_size,
            rebuild_keys: table.primary.as_ref().is_some_and(|index| keys::can_rebuild(table, index)),
            highest_fixed: highest(ColumnId::LAST_FIXED),
            highest_variable: highest(ColumnId::LAST_VARIABLE).max(ColumnId::LAST_FIXED),
            references: References::default(),
        }
    }

    /// How often each long value is referred to.
    pub(crate) fn long_value_references(&self) -> &References {
        &self.references
    }

    /// One record.
    pub(crate) fn visit(
        &mut self,
        page: PageNumber,
        node: &Node<'_>,
        indexes: &mut [IndexCheck],
        findings: &mut Findings,
    ) {
        let record = Record::new(node.data, self.page_size);
        let mut report = |what: String| {
            findings.structure(
                FindingKind::RecordLayout,
                page,
                &self.table.name,
                format!("record {}: {what}", hex(&node.key_to_vec())),
            );
        };
        if let Err(error) = record.validate() {
            return report(error.to_string());
        }
        if record.last_fixed() > self.highest_fixed || record.last_variable() > self.highest_variable {
            let (fixed, variable) = (record.last_fixed(), record.last_variable());
            report(format!("columns up to {fixed} and {variable} are stored; the table has fewer"));
        }
        for column in self.table.columns.iter().take_while(|column| column.id <= ColumnId::LAST_VARIABLE) {
            match record.get(column) {
                Ok(value) => {
                    if let Some(what) = judge(column, &value) {
                        report(what);
                    }
                }
                Err(error) => report(error.to_string()),
            }
        }
        for (id, derived, value) in record.tagged().unwrap_or_default() {
            let column = self.table.column(id).filter(|_| !derived);
            match column.and_then(|column| judge(column, &value)) {
                Some(what) => report(what),
                None if column.is_none() && !derived && !self.table.deleted_columns.contains(&id) => {
                    report(format!("the table has no column {id}"));
                }
                None => {}
            }
            match value {
                ColumnValue::Separated(id) => self.references.add(id, 1),
                ColumnValue::Multi(values) => {
                    for value in values {
                        if let MultiValue::Separated(id) = value {
                            self.references.add(id, 1);
                        }
                    }
                }
                _ => {}
            }
        }
        self.check_key(node, &record, &mut report);
        for index in indexes {
            index.expect(self.table, node);
        }
    }

    fn check_key(&self, node: &Node<'_>, record: &Record<'_>, report: &mut impl FnMut(String)) {
        let Some(primary) = &self.table.primary else {
            if node.key_len() != SEQUENTIAL_KEY_LEN {
                report(format!("a key of {} bytes in a table without primary index", node.key_len()));
            }
            return;
        };
        if !self.rebuild_keys {
            return;
        }
        // A cut key ends in bytes that depend on oddities of the cut.
        if let Some(key) = keys::keys(self.table, primary, record).as_deref().and_then(<[Vec<u8>]>::first)
            && key.len() < primary.key_most
            && node.cmp_key(key).is_ne()
        {
            report(format!("its columns give the key {}", hex(key)));
        }
    }
}

/// What is wrong with a stored value, if anything.
fn judge(column: &Column, value: &ColumnValue<'_>) -> Option<String> {
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
            Some(format!("{} holds a long value, which its type does not allow", place()))
        }
        ColumnValue::Multi(values) => {
            let wrong =
                values.iter().any(|value| matches!(value, MultiValue::Bytes(bytes) if wrong_len(bytes)));
            wrong.then(|| format!("{} has a value of the wrong length", place()))
        }
        _ => None,
    }
}
