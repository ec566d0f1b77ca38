//! Stores, reads and removes a table's long values, which are stored in chunks.

use std::borrow::Cow;

use jetcell_sync::Arc;

use ese_format::catalog::{RowKind, TableSchema};
use ese_format::long_value::{LongValueId, LongValueRoot, decode_chunk, encode_chunk};
use ese_format::page::PageFlags;

use super::{SMALL_TREE, TableState};
use crate::btree::Tree;
use crate::transaction::{ActiveTransaction, FIRST_OWN_PROCID, ReadView};
use crate::{Corruption, Error, Result, UsageError};

/// Stores a value under a new number.
pub(super) fn store(
    session: &mut ActiveTransaction,
    state: &TableState,
    value: Cow<'_, [u8]>,
) -> Result<LongValueId> {
    let tree = long_value_tree(session, state)?;
    let size = u32::try_from(value.len()).ok().filter(|size| *size <= i32::MAX as u32);
    let size = size.ok_or(UsageError::LongValueTooLong)?;
    let id = state.next_long_value(&tree)?;
    tree.insert(session.changes()?, &id.root_key(), &LongValueRoot::new(size).encode())?;
    let chunk_size = state.schema.chunk_size(tree.file.page_size);
    for (at, chunk) in value.chunks(chunk_size).enumerate() {
        let offset = (at * chunk_size) as u32;
        tree.insert(session.changes()?, &id.chunk_key(offset), &encode_chunk(chunk, at))?;
    }
    Ok(id)
}

/// Reads at least the first `limit` bytes of a value, rounded up to whole chunks.
pub(super) fn read(state: &TableState, view: &ReadView, id: LongValueId, limit: usize) -> Result<Vec<u8>> {
    let tree = tree(state)?;
    let root = root(tree, view, id)?;
    if root.is_encrypted() {
        return Err(UsageError::Encrypted.into());
    }
    let mut value = Vec::new();
    while value.len() < limit.min(root.size as usize) {
        let offset = value.len() as u32;
        let due = root.chunk_len(offset, state.schema.chunk_size(tree.file.page_size));
        let appended = tree.get(view, &id.chunk_key(offset), |stored| {
            decode_chunk(stored, due).map(|plain| value.extend_from_slice(&plain))
        })?;
        match appended {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                return Err(tree.file.corrupt(tree.root, Corruption::Chunk { id, offset, error }));
            }
            None => {
                return Err(tree.file.corrupt(tree.root, Corruption::NoChunk { id, offset }));
            }
        }
    }
    Ok(value)
}

/// Removes one reference to a value. If it was the last reference, removes the value.
pub(super) fn remove(session: &mut ActiveTransaction, state: &TableState, id: LongValueId) -> Result<()> {
    let tree = tree(state)?;
    let root = root(tree, &session.view(), id)?;
    let bookmark = tree.bookmark(&id.root_key(), &[]);
    if root.references > 1 {
        let root = LongValueRoot { references: root.references - 1, ..root };
        return tree.replace(session.changes()?, &bookmark, &root.encode());
    }
    tree.flag_delete(session.changes()?, &bookmark)?;
    let chunk_size = state.schema.chunk_size(tree.file.page_size) as u32;
    for offset in (0..root.size).step_by(chunk_size as usize) {
        tree.flag_delete(session.changes()?, &tree.bookmark(&id.chunk_key(offset), &[])).map_err(
            |e| match e {
                Error::RecordNotFound => tree.file.corrupt(tree.root, Corruption::NoChunk { id, offset }),
                other => other,
            },
        )?;
    }
    Ok(())
}

/// Returns the long-value tree of a table. If the table has none, creates it in a separate transaction, because other
/// sessions will use it, too.
fn long_value_tree(session: &ActiveTransaction, state: &TableState) -> Result<Arc<Tree>> {
    if let Some(tree) = state.long_values.get() {
        return Ok(tree.clone());
    }
    let (system, trees) = (&state.system, &state.system.trees);
    let _changing = system.changing.lock();
    if let Some(tree) = state.long_values.get() {
        return Ok(tree.clone());
    }
    let table = state.schema.tree;
    let tree = match system.long_values(&ReadView::latest(), table)? {
        Some(root) => trees.tree_at(root)?,
        None => {
            let procid = FIRST_OWN_PROCID + u16::from(trees.file.log_id);
            let mut session = session.another(procid);
            session.begin()?;
            let tree =
                trees.create_tree(session.changes()?, state.tree.root, PageFlags::LONG_VALUE, SMALL_TREE)?;
            let mut schema = TableSchema::new(&state.schema.name, table, state.tree.root);
            schema.long_values = Some((tree.id, tree.root));
            if let Some(row) = schema.long_value_row() {
                system.insert_row(&mut session, &row)?;
            }
            system.insert_owner(&mut session, tree.id, table, RowKind::LongValues)?;
            session.commit()?;
            tree
        }
    };
    Ok(state.long_values.get_or_init(|| tree).clone())
}

fn tree(state: &TableState) -> Result<&Arc<Tree>> {
    state
        .long_values
        .get()
        .ok_or_else(|| state.tree.file.corrupt(state.tree.root, Corruption::NoLongValueTree))
}

fn root(tree: &Tree, view: &ReadView, id: LongValueId) -> Result<LongValueRoot> {
    let root = tree.get(view, &id.root_key(), LongValueRoot::decode)?.flatten();
    root.ok_or_else(|| tree.file.corrupt(tree.root, Corruption::NoLongValueRoot(id)))
}
