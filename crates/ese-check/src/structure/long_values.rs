//! Checks one table's long values: sizes, chunks, and reference counts.

use std::collections::HashMap;

use ese_format::long_value::{LongValueId, LongValueKey, LongValueRoot, chunk_size, decode_chunk};
use ese_format::page::Node;
use ese_format::record::{ColumnValue, MultiValue, Record};
use ese_format::{PageNumber, PageSize};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::structure::catalog::CheckedTable;
use crate::structure::hash::hash;
use crate::structure::leaf::{NodeVisitor, ParallelVisitor};

/// Long value whose nodes are being visited.
struct CurrentLongValue {
    id: LongValueId,
    root: LongValueRoot,
    page: PageNumber,
    /// Number of bytes visited so far.
    next: u32,
}

/// Checks a long-value tree by visiting its nodes in order.
pub(crate) struct LongValueCheck {
    label: String,
    chunk_len: usize,
    current: Option<CurrentLongValue>,
    /// References according to the counts stored in the long values.
    counted: LongValueReferences,
    roots: u64,
    /// Whether a root has been visited.
    is_started: bool,
    /// Chunks before the first root, which belong to an earlier value. Present only if the check started in the
    /// middle of the tree.
    head: Option<Vec<HeadChunk>>,
    key: Vec<u8>,
}

/// A chunk whose long value is not yet known.
struct HeadChunk {
    page: PageNumber,
    id: LongValueId,
    offset: u32,
    data: Vec<u8>,
}

impl LongValueCheck {
    pub(crate) fn new(table: &CheckedTable, page_size: PageSize) -> LongValueCheck {
        LongValueCheck {
            label: format!("{} / long values", table.name),
            chunk_len: table.chunk_len.map_or_else(|| chunk_size(page_size), |len| len as usize),
            current: None,
            counted: LongValueReferences::default(),
            roots: 0,
            is_started: false,
            head: None,
            key: Vec::new(),
        }
    }

    fn root(&mut self, page: PageNumber, id: LongValueId, data: &[u8], findings: &mut Findings) {
        self.end_current(findings);
        self.is_started = true;
        let Some(root) = LongValueRoot::decode(data) else {
            let what = format!("the root of {id:?} cannot be decoded");
            return findings.add_structural(FindingKind::LongValueNode, page, &self.label, what);
        };
        self.roots += 1;
        self.counted.add(id, root.references);
        self.current = Some(CurrentLongValue { id, root, page, next: 0 });
    }

    fn chunk(
        &mut self,
        page: PageNumber,
        id: LongValueId,
        offset: u32,
        data: &[u8],
        findings: &mut Findings,
    ) {
        let Some(current) = self.current.as_mut().filter(|current| current.id == id) else {
            return findings.add_structural(
                FindingKind::LongValueNode,
                page,
                &self.label,
                format!("chunk {offset} of {id:?} does not have a root"),
            );
        };
        if offset != current.next {
            let what = format!("a chunk of {id:?} is at offset {offset}, expected at {}", current.next);
            findings.add_structural(FindingKind::LongValueSize, page, &self.label, what);
        }
        let expected = current.root.chunk_len(offset, self.chunk_len);
        current.next = offset.saturating_add(expected as u32);
        if expected == 0 {
            findings.add_structural(
                FindingKind::LongValueSize,
                page,
                &self.label,
                format!("chunk {offset} of {id:?} is past the end of the value"),
            );
        } else if !current.root.is_encrypted()
            && let Err(error) = decode_chunk(data, expected)
        {
            findings.add_structural(
                FindingKind::LongValueSize,
                page,
                &self.label,
                format!("chunk {offset} of {id:?}: {error}"),
            );
        }
    }

    fn end_current(&mut self, findings: &mut Findings) {
        let Some(current) = self.current.take() else { return };
        if current.next < current.root.size {
            let what =
                format!("{:?} ends after {} of its {} bytes", current.id, current.next, current.root.size);
            findings.add_structural(FindingKind::LongValueSize, current.page, &self.label, what);
        }
    }

    /// Ends the check after the last node.
    pub(crate) fn finish(&mut self, findings: &mut Findings) {
        self.end_current(findings);
    }

    /// Returns the length in bytes of every chunk of a value except the last.
    pub(crate) fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    /// Returns the number of long values.
    pub(crate) fn roots(&self) -> u64 {
        self.roots
    }

    /// Returns true if the reference counts in the values match the actual references.
    pub(crate) fn references_match(&self, references: &LongValueReferences) -> bool {
        self.counted == *references
    }
}

impl NodeVisitor for LongValueCheck {
    fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        node.append_key(&mut key);
        match (LongValueKey::decode(&key), &mut self.head) {
            (None, _) => {
                let what = format!("the key of node {} is not a long-value key", hex(&key));
                findings.add_structural(FindingKind::LongValueNode, page, &self.label, what);
            }
            (Some(LongValueKey::Root(id)), _) => self.root(page, id, node.data, findings),
            (Some(LongValueKey::Chunk(id, offset)), Some(head)) if !self.is_started => {
                head.push(HeadChunk { page, id, offset, data: node.data.to_vec() });
            }
            (Some(LongValueKey::Chunk(id, offset)), _) => self.chunk(page, id, offset, node.data, findings),
        }
        self.key = key;
    }
}

impl ParallelVisitor for LongValueCheck {
    fn fork(&self) -> Self {
        LongValueCheck {
            label: self.label.clone(),
            chunk_len: self.chunk_len,
            current: None,
            counted: LongValueReferences::default(),
            roots: 0,
            is_started: false,
            head: Some(Vec::new()),
            key: Vec::new(),
        }
    }

    fn join(&mut self, right: Self, findings: &mut Findings) {
        let began = right.is_started;
        for HeadChunk { page, id, offset, data } in right.head.unwrap_or_default() {
            match &mut self.head {
                Some(head) if !self.is_started => head.push(HeadChunk { page, id, offset, data }),
                _ => self.chunk(page, id, offset, &data, findings),
            }
        }
        if began {
            self.end_current(findings);
            self.current = right.current;
            self.is_started = true;
        }
        self.roots += right.roots;
        self.counted.join(&right.counted);
    }
}

/// Number of references to long values, and a checksum over the referenced values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LongValueReferences {
    count: u64,
    /// Sum of the referenced values' hashes, over all references.
    sum: u64,
}

impl LongValueReferences {
    pub(crate) fn add(&mut self, id: LongValueId, count: u32) {
        self.count = self.count.wrapping_add(u64::from(count));
        self.sum = self.sum.wrapping_add(hash(&id.0.to_le_bytes()).wrapping_mul(u64::from(count)));
    }

    pub(crate) fn join(&mut self, other: &LongValueReferences) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// Content of the tree for one long value.
struct StoredLongValue {
    /// Reference count that is stored in the value.
    counted: u32,
    page: PageNumber,
    root: LongValueRoot,
    /// Number of bytes in the chunks after decompression.
    present: u32,
}

/// Exact reference counts for the long values whose hashes fall into one part.
pub(crate) struct ReferenceCounts {
    part: u64,
    parts: u64,
    chunk_len: usize,
    stored: HashMap<LongValueId, StoredLongValue>,
    referred: HashMap<LongValueId, u32>,
}

/// Maximum number of long values in one part.
const MAX_LONG_VALUES_PER_PART: u64 = 1 << 20;

impl ReferenceCounts {
    /// Returns the number of parts into which a table's long values are divided.
    pub(crate) fn parts(long_values: u64, references: &LongValueReferences) -> u64 {
        long_values.max(references.count()).div_ceil(MAX_LONG_VALUES_PER_PART).max(1)
    }

    pub(crate) fn new(part: u64, parts: u64, chunk_len: usize) -> ReferenceCounts {
        ReferenceCounts { part, parts, chunk_len, stored: HashMap::new(), referred: HashMap::new() }
    }

    fn includes(&self, id: LongValueId) -> bool {
        hash(&id.0.to_le_bytes()) % self.parts == self.part
    }

    /// Adds a node of the long-value tree.
    pub(crate) fn count(&mut self, page: PageNumber, node: &Node<'_>) {
        match LongValueKey::decode(&node.key_to_vec()) {
            Some(LongValueKey::Root(id)) if self.includes(id) => {
                let Some(root) = LongValueRoot::decode(node.data) else { return };
                let new = StoredLongValue { counted: 0, page, root, present: 0 };
                let stored = self.stored.entry(id).or_insert(new);
                stored.counted = stored.counted.saturating_add(root.references);
            }
            Some(LongValueKey::Chunk(id, offset)) => {
                // A value's root precedes its chunks.
                let Some(stored) = self.stored.get_mut(&id) else { return };
                let len = stored.root.chunk_len(offset, self.chunk_len);
                if stored.root.is_encrypted() || decode_chunk(node.data, len).is_ok() {
                    stored.present = stored.present.saturating_add(len as u32);
                }
            }
            _ => {}
        }
    }

    /// Adds the references from a table row.
    pub(crate) fn add_references(&mut self, record: &Record<'_>) {
        for_each_reference(record, &mut |id| {
            if self.includes(id) {
                let entry = self.referred.entry(id).or_default();
                *entry = entry.saturating_add(1);
            }
        });
    }

    /// Returns the number of references from rows to values that are at least partly missing.
    pub(crate) fn missing_value_references(&self) -> u64 {
        let whole = |id| self.stored.get(id).is_some_and(|stored| stored.present >= stored.root.size);
        self.referred.iter().filter(|(id, _)| !whole(id)).map(|(_, count)| u64::from(*count)).sum()
    }

    /// Reports the differences between stored and actual reference counts.
    pub(crate) fn compare(&self, table: &CheckedTable, findings: &mut Findings) {
        let label = format!("{} / long values", table.name);
        let mut wrong: Vec<_> = self.stored.iter().collect();
        wrong.sort_by_key(|(id, _)| **id);
        for (id, stored) in wrong {
            let (counted, referred) = (stored.counted, self.referred.get(id).copied().unwrap_or(0));
            if referred != counted {
                let what = format!(
                    "the reference count of {id:?} is {counted}, but records contain {referred} references"
                );
                findings.add_structural(FindingKind::LongValueReferences, stored.page, &label, what);
            }
        }
        let mut missing: Vec<_> =
            self.referred.iter().filter(|(id, _)| !self.stored.contains_key(id)).collect();
        missing.sort();
        for (id, referred) in missing {
            let values = if *referred == 1 { "1 value refers" } else { &format!("{referred} values refer") };
            let what = format!("{values} to {id:?}, which does not exist");
            findings.add_structural(FindingKind::LongValueMissing, None, &label, what);
        }
    }
}

/// Calls `each` for each reference from a record to a long value.
fn for_each_reference(record: &Record<'_>, each: &mut dyn FnMut(LongValueId)) {
    for (_, value) in record.tagged_columns() {
        for_each_value_reference(&value, each);
    }
}

/// Calls `each` for every long value to which a column value refers.
pub(crate) fn for_each_value_reference(value: &ColumnValue<'_>, each: &mut dyn FnMut(LongValueId)) {
    match value {
        ColumnValue::Separated(id) => each(*id),
        ColumnValue::Multi(values) => {
            for value in values {
                if let MultiValue::Separated(id) = value {
                    each(*id);
                }
            }
        }
        _ => {}
    }
}
