//! Sample files of the repository, which are there without the corpus.

use std::path::Path;

use ese_check::{CheckOptions, CheckReport, FindingKind, check_database};
use ese_format::PageNumber;
use ese_format::page::PageFlags;
use jetcell_vfs::{SimVfs, Vfs};
use testkit::damage::EditableDatabase;
use testkit::samples;

fn check(bytes: &[u8]) -> CheckReport {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/d")).unwrap();
    disk.put(Path::new("/d/x.edb"), bytes);
    let options = CheckOptions { structure: true, ..CheckOptions::default() };
    check_database(&disk, Path::new("/d/x.edb"), &options).unwrap()
}

#[test]
fn databases_from_an_independent_writer_are_sound() {
    for name in samples::SOUND_DATABASES {
        let report = check(&samples::read(name));
        assert!(report.is_sound(), "{name}: {:#?}", report.errors().collect::<Vec<_>>());
    }
}

/// Returns the leaves of secondary indexes that have entries.
fn index_leaves(database: &EditableDatabase) -> Vec<PageNumber> {
    database.find(|page| {
        let kind = page.flags() & (PageFlags::INDEX | PageFlags::SPACE);
        kind == PageFlags::INDEX && page.is_leaf() && page.node_count() > 0
    })
}

/// The keys of all entries are rebuilt, so an entry for another row is found in every index.
#[test]
fn wrong_entries_of_inherited_and_multi_valued_indexes_are_found() {
    for (name, indexes) in
        [("derived-table.edb", 1), ("index-combinations.edb", 2), ("index-two-multivalues.edb", 1)]
    {
        let database = EditableDatabase::new(samples::read(name));
        let leaves = index_leaves(&database);
        let user: Vec<PageNumber> =
            leaves.into_iter().filter(|leaf| database.page(*leaf).tree().0 > 7).collect();
        assert_eq!(user.len(), indexes, "{name}");
        for leaf in user {
            let mut database = database.clone();
            let last = database.page(leaf).node_count() - 1;
            let row = database.page(leaf).node(0).unwrap().data.to_vec();
            assert_ne!(row, database.page(leaf).node(last).unwrap().data, "{name}");
            database.edit(leaf, |mut page| page.replace_data(last, &row).unwrap());
            let report = check(&database.bytes);
            let missing = report.errors().any(|finding| finding.kind == FindingKind::IndexEntryMissing);
            assert!(missing, "{name}: {:#?}", report.findings);
        }
    }
}

/// The catalog's own columns are fixed. Older databases do not list those that were added later.
#[test]
fn values_of_catalog_columns_that_the_catalog_does_not_list_are_sound() {
    let mut database = EditableDatabase::new(samples::read("engine-4k.edb"));
    let rows = |page: &ese_format::page::Page<'_>| page.is_leaf() && [2, 3].contains(&page.tree().0);
    let (mut removed, key) = (0, |id: u32| {
        [&[0x7f, 0x80, 0, 0, 2, 0x7f, 0x80, 2, 0x7f, 0x80][..], &id.to_be_bytes()[1..]].concat()
    });
    for leaf in database.find(rows) {
        for id in 256..=261 {
            let page = database.page(leaf);
            let Some(at) = page.nodes().position(|node| node.key_to_vec() == key(id)) else { continue };
            database.edit(leaf, |mut page| page.delete_node(at));
            removed += 1;
        }
    }
    assert_eq!(removed, 12, "both catalogs list the six tagged columns");
    let report = check(&database.bytes);
    let layout: Vec<_> =
        report.errors().filter(|finding| finding.kind == FindingKind::RecordLayout).collect();
    assert!(layout.is_empty(), "{layout:#?}");
}
