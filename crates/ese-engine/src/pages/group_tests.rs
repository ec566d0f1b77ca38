//! Tests of abandoned groups.

use std::path::Path;

use ese_format::page::NodeFlags;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::SimVfs;

use super::{GroupAbort, group};
use crate::btree::tests::{DB, open};
use crate::cache::PageDelta;
use crate::{DatabaseOptions, Error};

/// The free bytes must also be restored. Once zeroed, they must stay zero, and a copy must get the same bytes from
/// the log.
#[test]
fn an_abandoned_group_leaves_all_bytes_unchanged() {
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 500).unwrap();
    let database = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let (file, root) = (&database.file, PageNumber::fixed(1));
    let bytes = || file.pin(root).unwrap().read().to_vec();
    let before = bytes();
    let node = PageDelta::Insert { line: 0, flags: NodeFlags::empty(), key: b"key", data: &[7; 200] };
    let given_up = group::run(file, false, |group| -> super::GroupResult<()> {
        group.edit(root, &node)?.unwrap();
        assert!(group.copy_of(root)? != before);
        Err(GroupAbort::Failed(Error::RecordNotFound))
    });
    assert!(matches!(given_up, Err(Error::RecordNotFound)));
    assert!(bytes() == before);
}
