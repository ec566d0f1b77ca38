//! The long values of one table: sizes, chunks, and how often records refer to them.

use std::collections::HashMap;

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
    /// Page and reference count of every long value.
    roots: HashMap<LongValueId, (PageNumber, u32)>,
}

impl LongValueCheck {
    pub(crate) fn new(table: &Table, page_size: PageSize) -> LongValueCheck {
        LongValueCheck {
            label: format!("{} / long values", table.name),
            chunk_len: table.chunk_len.map_or_else(|| chunk_size(page_size), |len| len as usize),
            current: None,
            roots: HashMap::new(),
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
                        self.roots.insert(id, (page, root.references));
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
    pub(crate) fn finish(
        mut self,
        references: &HashMap<LongValueId, u32>,
        complete: bool,
        findings: &mut Findings,
    ) -> u64 {
        self.end_current(findings);
        if complete {
            for (id, (page, counted)) in &self.roots {
                let referred = references.get(id).copied().unwrap_or(0);
                if referred != *counted {
                    let what = format!("{id:?} counts {counted} references, records have {referred}");
                    findings.structure(FindingKind::LongValueReferences, *page, &self.label, what);
                }
            }
            let mut missing: Vec<&LongValueId> =
                references.keys().filter(|id| !self.roots.contains_key(id)).collect();
            missing.sort();
            for id in missing {
                findings.structure(
                    FindingKind::LongValueMissing,
                    None,
                    &self.label,
                    format!("a record refers to {id:?}, which is not there"),
                );
            }
        }
        self.roots.len() as u64
    }
}
