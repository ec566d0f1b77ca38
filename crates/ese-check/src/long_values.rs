//! The long values of one table: sizes, chunks, and how often records refer to them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ese_format::long_value::{LongValueId, LongValueKey, LongValueRoot, chunk_size, decode_chunk};
use ese_format::page::Node;
use ese_format::{PageNumber, PageSize};

use crate::catalog::Table;
use crate::finding::{FindingKind, Findings};
use crate::tree::hex;

/// The long value whose nodes are being visited.
struct Current {
    id: LongValueId,
    root: LongValueRoot,
    page: PageNumber,
    /// Bytes seen.
    next: u32,
}

/// Checks node after node of a long-value tree.
pub(crate) struct LongValueCheck {
    label: String,
    chunk_len: usize,
    current: Option<Current>,
    /// As the long values count them.
    counted: References,
    /// Page of every long value, as long as [`References`] are exact.
    pages: HashMap<LongValueId, PageNumber>,
    roots: u64,
}

impl LongValueCheck {
    pub(crate) fn new(table: &Table, page_size: PageSize) -> LongValueCheck {
        LongValueCheck {
            label: format!("{} / long values", table.name),
            chunk_len: table.chunk_len.map_or_else(|| chunk_size(page_size), |len| len as usize),
            current: None,
            counted: References::default(),
            pages: HashMap::new(),
            roots: 0,
        }
    }

    /// One node, in key order.
    pub(crate) fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        let key = node.key_to_vec();
        match LongValueKey::decode(&key) {
            None => findings.structure(
                FindingKind::LongValueNode,
                page,
                &self.label,
                format!("node {} is not a long value's", hex(&key)),
            ),
            Some(LongValueKey::Root(id)) => {
                self.end_current(findings);
                match LongValueRoot::decode(node.data) {
                    Some(root) => {
                        self.roots += 1;
                        self.counted.add(id, root.references);
                        if self.counted.exact.is_some() {
                            self.pages.insert(id, page);
                        } else {
                            self.pages = HashMap::new();
                        }
                        self.current = Some(Current { id, root, page, next: 0 });
                    }
                    None => findings.structure(
                        FindingKind::LongValueNode,
                        page,
                        &self.label,
                        format!("root of {id:?} cannot be decoded"),
                    ),
                }
            }
            Some(LongValueKey::Chunk(id, offset)) => self.chunk(page, id, offset, node.data, findings),
        }
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
            return findings.structure(
                FindingKind::LongValueNode,
                page,
                &self.label,
                format!("chunk {offset} of {id:?} has no root"),
            );
        };
        if offset != current.next {
            let what = format!("chunk of {id:?} at {offset}, expected at {}", current.next);
            findings.structure(FindingKind::LongValueSize, page, &self.label, what);
        }
        let expected = current.root.chunk_len(offset, self.chunk_len);
        current.next = offset.saturating_add(expected as u32);
        if expected == 0 {
            findings.structure(
                FindingKind::LongValueSize,
                page,
                &self.label,
                format!("chunk {offset} of {id:?} lies beyond its size"),
            );
        } else if !current.root.is_encrypted()
            && let Err(error) = decode_chunk(data, expected)
        {
            findings.structure(
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
            let what = format!("{:?} ends after {} of {} bytes", current.id, current.next, current.root.size);
            findings.structure(FindingKind::LongValueSize, current.page, &self.label, what);
        }
    }

    /// Compares with the references of the records; `complete` says that none of them is missing. Returns the
    /// number of long values.
    pub(crate) fn finish(mut self, references: &References, complete: bool, findings: &mut Findings) -> u64 {
        self.end_current(findings);
        if !complete || self.counted.sum == references.sum {
            return self.roots;
        }
        let (Some(counted), Some(referred)) = (&self.counted.exact, &references.exact) else {
            let what = "the reference counts do not add up to the references of the records".to_owned();
            findings.structure(FindingKind::LongValueReferences, None, &self.label, what);
            return self.roots;
        };
        for (id, counted) in counted {
            let referred = referred.get(id).copied().unwrap_or(0);
            if referred != *counted {
                let what = format!("{id:?} counts {counted} references, records have {referred}");
                let page = self.pages.get(id).copied();
                findings.structure(FindingKind::LongValueReferences, page, &self.label, what);
            }
        }
        let mut missing: Vec<&LongValueId> = referred.keys().filter(|id| !counted.contains_key(id)).collect();
        missing.sort();
        for id in missing {
            let what = format!("a record refers to {id:?}, which is not there");
            findings.structure(FindingKind::LongValueMissing, None, &self.label, what);
        }
        self.roots
    }
}

/// References by long value; exact for as many as fit, otherwise only enough to tell whether two are the same.
pub(crate) struct References {
    exact: Option<HashMap<LongValueId, u32>>,
    /// Sum over all references of the hash of what they refer to.
    sum: u64,
}

/// Long values of a table that are counted one by one.
const EXACT: usize = 1 << 20;

impl Default for References {
    fn default() -> References {
        References { exact: Some(HashMap::new()), sum: 0 }
    }
}

impl References {
    pub(crate) fn add(&mut self, id: LongValueId, count: u32) {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        self.sum = self.sum.wrapping_add(hasher.finish().wrapping_mul(u64::from(count)));
        let Some(exact) = &mut self.exact else { return };
        let entry = exact.entry(id).or_default();
        *entry = entry.saturating_add(count);
        if exact.len() > EXACT {
            self.exact = None;
        }
    }
}
