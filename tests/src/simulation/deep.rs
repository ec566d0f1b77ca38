//! Tables whose trees have four levels: long keys on small pages, filled and emptied by key ranges.
//!
//! Removal of a whole range also empties internal pages. The page on the left then takes over the separator of the
//! removed page, on each level below their common parent.

use std::path::Path;

use ese_check::database::ReadableDatabase;
use ese_check::reader::VerifiedPageReader;
use ese_engine::{ColumnDefinition, TableDefinition};
use ese_format::PageNumber;
use ese_format::page::PageFlags;
use ese_format::record::{ColumnFlags, ColumnType};
use jetcell_vfs::Vfs;

/// Maximum number of records in a deep table: one or two per leaf, and 10 to 17 leaves below an internal page.
pub(super) const IDS: i32 = 400;
/// Maximum number of records in a range that is filled or emptied at once.
pub(super) const MAX_RANGE: i32 = 120;
/// Number of records whose keys share all bytes except the last one. The separators between them are therefore as
/// long as the keys.
const GROUP: i32 = 8;

/// Returns true if the table with this name has long keys.
pub(super) fn is_deep(table: &str) -> bool {
    table.ends_with('D')
}

/// Returns the key of a record. Keys sort in id order. An index key needs 9 bytes for every 8 bytes of the key.
pub(super) fn long_key(id: i32) -> Vec<u8> {
    let group = id / GROUP;
    let mut key = group.to_be_bytes().to_vec();
    key.extend((0..211).map(|at: i32| (group.wrapping_mul(31) ^ at.wrapping_mul(7)) as u8));
    key.push((id % GROUP) as u8);
    key
}

/// Changes the definition of a simulated table to use the long key instead of the id as its primary key.
pub(super) fn with_long_keys(mut definition: TableDefinition) -> TableDefinition {
    let key = ColumnDefinition::new("Key", ColumnType::Binary).with_flags(ColumnFlags::NOT_NULL);
    definition.columns.push(key);
    for index in definition.indexes.iter_mut().filter(|index| index.primary) {
        index.columns = vec![("Key".to_string(), false)];
    }
    definition
}

/// Returns the number of levels of the deepest tree in a database that was shut down cleanly.
pub(super) fn levels(vfs: &dyn Vfs, path: &Path) -> u64 {
    let Ok((database, _)) = ReadableDatabase::open_with_findings(vfs, path) else { return 0 };
    let mut reader = VerifiedPageReader::new(&database);
    let mut most = 0;
    for root in (1..=database.file_pages).filter_map(PageNumber::new) {
        let (mut next, mut levels) = (Some(root), 0);
        while let Some(number) = next {
            let Ok(image) = reader.get(number) else { break };
            let page = image.page();
            if page.flags().contains(PageFlags::EMPTY) || levels == 0 && !page.is_root() {
                break;
            }
            levels += 1;
            next = page.node(0).filter(|_| !page.is_leaf()).and_then(|node| node.child());
        }
        most = most.max(levels);
    }
    most
}
