//! Rows in free space, on unused pages, and on pages with a bad checksum.

use std::collections::BTreeSet;
use std::path::Path;

use ese_format::page::{NodeFlags, PageFlags};
use ese_format::record::{ColumnValue, Record};
use ese_format::{PageNumber, PageSize};
use jetcell_export::{
    AdditionalRows, CarveConfidence, ExportIssues, RowReadOptions, SourceDatabase, read_rows,
};
use jetcell_vfs::SimVfs;
use testkit::damage::EditableDatabase;
use testkit::samples;

const CARVED: AdditionalRows = AdditionalRows { deleted: false, carved: true, damaged: false };

/// A row that was read.
#[derive(Clone, Debug, PartialEq)]
struct ReadRow {
    cells: String,
    page: PageNumber,
    /// Offset and confidence of a carved row.
    carved: Option<(usize, CarveConfidence)>,
    deleted: bool,
    damaged: bool,
}

fn read(
    database: &EditableDatabase,
    table: &str,
    additional: AdditionalRows,
) -> (Vec<ReadRow>, ExportIssues) {
    let disk = SimVfs::new();
    disk.put(Path::new("/x.edb"), &database.bytes);
    let (mut rows, mut issues) = (Vec::new(), ExportIssues::default());
    let source = SourceDatabase::open(&disk, Path::new("/x.edb"), &mut issues).unwrap();
    let table = source.table(table).unwrap();
    let reading = RowReadOptions { additional, ..RowReadOptions::default() };
    read_rows(&source, table, reading, &mut issues, |row| {
        rows.push(ReadRow {
            cells: format!("{:?}", row.cells),
            page: row.page,
            carved: row.carved.map(|from| (from.offset, from.confidence)),
            deleted: row.deleted,
            damaged: row.damaged,
        });
        Ok(())
    })
    .unwrap();
    (rows, issues)
}

fn cells<'r>(rows: impl IntoIterator<Item = &'r ReadRow>) -> BTreeSet<&'r str> {
    rows.into_iter().map(|row| row.cells.as_str()).collect()
}

/// Returns the pages of the rows, without repetitions.
fn pages(rows: &[ReadRow]) -> BTreeSet<PageNumber> {
    rows.iter().map(|row| row.page).collect()
}

#[test]
fn rows_deleted_from_pages_of_all_sizes_are_carved() {
    for (name, _) in samples::ENGINE_DATABASES {
        let mut database = EditableDatabase::new(samples::read(name));
        let (before, _) = read(&database, "Things", CARVED);
        let current: Vec<ReadRow> = before.into_iter().filter(|row| row.carved.is_none()).collect();
        let mut deleted = Vec::new();
        for page in pages(&current) {
            let rows: Vec<&ReadRow> = current.iter().filter(|row| row.page == page).collect();
            let view = database.page(page);
            // If a line is followed by the remains of others, the end of its row is not certain.
            let remains: BTreeSet<usize> =
                view.unused_ranges().iter().map(|unused| unused.bytes.start).collect();
            let end = |index: usize| view.line_range(index + view.first_node_tag()).unwrap().end;
            assert_eq!(view.node_count(), rows.len(), "{name}: all nodes are current rows");
            let victims: Vec<usize> =
                (0..rows.len()).step_by(3).filter(|index| !remains.contains(&end(*index))).collect();
            deleted.extend(victims.iter().map(|index| rows[*index].clone()));
            database.edit(page, |mut leaf| victims.iter().rev().for_each(|index| leaf.delete_node(*index)));
        }
        let (after, issues) = read(&database, "Things", CARVED);
        let (left, carved): (Vec<_>, Vec<_>) = after.into_iter().partition(|row| row.carved.is_none());
        assert_eq!(left.len(), current.len() - deleted.len(), "{name}");
        assert!(deleted.len() >= 4, "{name}: {}", deleted.len());
        let found = cells(&carved);
        for row in &deleted {
            assert!(found.contains(row.cells.as_str()), "{name}: {row:?} is not among {carved:?}");
        }
        // The last column of the table has a variable length.
        assert!(carved.iter().any(|row| row.carved.unwrap().1 == CarveConfidence::Medium), "{name}");
        assert!(found.is_disjoint(&cells(&left)), "{name}: current rows are not carved");
        assert!(!issues.has_missing(), "{name}: {:?}", issues.stored());
    }
}

#[test]
fn removed_nodes_of_variable_columns_are_carved_with_high_confidence() {
    let mut database = EditableDatabase::new(samples::read("all-deleted.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let (rows, _) = read(&database, "Container_16", flagged);
    assert_eq!(rows.len(), 357);
    let (carved, _) = read(&database, "Container_16", CARVED);
    assert!(carved.is_empty(), "the rows are still in the tree: {carved:?}");
    let lines: Vec<(PageNumber, usize)> = pages(&rows)
        .into_iter()
        .flat_map(|page| {
            let view = database.page(page);
            (0..view.node_count()).map(move |index| (page, index))
        })
        .map(|(page, index)| {
            let view = database.page(page);
            (page, view.line_range(index + view.first_node_tag()).unwrap().start)
        })
        .collect();
    for page in pages(&rows) {
        database.edit(page, |mut leaf| leaf.delete_nodes(0..usize::MAX));
    }
    let (carved, issues) = read(&database, "Container_16", CARVED);
    assert_eq!(cells(&carved), cells(&rows));
    let places: Vec<(PageNumber, usize)> =
        carved.iter().map(|row| (row.page, row.carved.unwrap().0)).collect();
    assert_eq!(places, lines);
    assert!(carved.iter().all(|row| row.carved.unwrap().1 == CarveConfidence::High && !row.deleted));
    assert!(!issues.has_missing());
}

#[test]
fn a_row_with_an_overwritten_key_has_low_confidence() {
    let mut database = EditableDatabase::new(samples::read("all-deleted.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let (rows, _) = read(&database, "Container_16", flagged);
    let page = rows[0].page;
    let start = database.page(page).line_range(1).unwrap().start;
    database.edit(page, |mut leaf| leaf.delete_node(0));
    // The lengths and a part of the key.
    database.raw(page)[start..start + 5].fill(0xEE);
    database.edit(page, |_| {});
    let (carved, _) = read(&database, "Container_16", CARVED);
    assert_eq!(cells(&carved), cells(&rows[..1]));
    assert_eq!(carved[0].carved, Some((start + 6, CarveConfidence::Low)));
}

#[test]
fn rows_on_pages_that_the_tree_does_not_reach_are_carved() {
    let mut database = EditableDatabase::new(samples::read("all-deleted.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let (rows, _) = read(&database, "Container_16", flagged);
    let leaf = rows[0].page;
    let tree = database.page(leaf).tree();
    let kinds = PageFlags::SPACE | PageFlags::INDEX;
    let root =
        database.find(|page| page.tree() == tree && !page.is_leaf() && !page.flags().intersects(kinds));
    database.edit(root[0], |mut parent| parent.delete_node(0));
    let (carved, _) = read(&database, "Container_16", CARVED);
    let expected: Vec<&ReadRow> = rows.iter().filter(|row| row.page == leaf).collect();
    assert!(!expected.is_empty() && expected.len() < rows.len());
    assert_eq!(cells(&carved), cells(expected));
    assert!(carved.iter().all(|row| row.deleted && row.carved.unwrap().1 == CarveConfidence::High));
}

/// Moving lines on a page leaves copies of current rows in the free area.
#[test]
fn copies_of_current_rows_are_not_carved() {
    for (name, _) in samples::ENGINE_DATABASES {
        let original = EditableDatabase::new(samples::read(name));
        let (before, _) = read(&original, "Things", CARVED);
        let current: Vec<ReadRow> = before.iter().filter(|row| row.carved.is_none()).cloned().collect();
        let mut copies = 0;
        for (fill, gap) in [(0, 0), (0x11, 3), (0xFF, 1)] {
            let mut database = original.clone();
            for page in pages(&current) {
                let view = database.page(page);
                let free = view.free_range();
                let mut content = vec![fill; free.len()];
                let mut at = gap;
                for tag in view.first_node_tag()..view.tag_count() {
                    let line = view.line_range(tag).unwrap();
                    let bytes = &database.bytes[database.range(page)][line];
                    let Some(target) = content.get_mut(at..at + bytes.len()) else { break };
                    target.copy_from_slice(bytes);
                    (at, copies) = (at + bytes.len() + gap, copies + 1);
                }
                database.raw(page)[free].copy_from_slice(&content);
                database.edit(page, |_| {});
            }
            let (after, _) = read(&database, "Things", CARVED);
            let (left, carved): (Vec<_>, Vec<_>) = after.into_iter().partition(|row| row.carved.is_none());
            assert_eq!(left, current, "{name}");
            let known = cells(&before);
            let new: Vec<&ReadRow> =
                carved.iter().filter(|row| !known.contains(row.cells.as_str())).collect();
            assert!(new.is_empty(), "{name}, fill {fill:#x}: {new:?}");
            assert!(cells(&carved).is_disjoint(&cells(&left)), "{name}, fill {fill:#x}");
        }
        assert!(copies > 10, "{name}: {copies}");
    }
}

/// The zeros that are trimmed from a copied row belong to its last value.
#[test]
fn a_copy_of_a_row_whose_last_value_is_zero_is_not_carved() {
    let mut database = EditableDatabase::new(samples::read("engine-4k.edb"));
    let (before, _) = read(&database, "Things", CARVED);
    let place = pages(&before).into_iter().find_map(|page| {
        let view = database.page(page);
        (0..view.node_count()).find_map(|index| {
            let columns = Record::new(view.node(index)?.data, PageSize::KIB_4).tagged().ok()?;
            let (_, ColumnValue::Bytes(value)) = columns.last()? else { return None };
            let (line, free) = (view.line_range(index + view.first_node_tag())?, view.free_range());
            let is_suitable = !value.is_empty() && line.len() + 8 <= free.len();
            is_suitable.then_some((page, line, free, value.len()))
        })
    });
    let (page, line, free, len) = place.expect("a row with a value at its end");
    let raw = database.raw(page);
    raw[line.end - len..line.end].fill(0);
    let copy = raw[line].to_vec();
    raw[free.clone()].fill(0);
    raw[free.start..free.start + copy.len()].copy_from_slice(&copy);
    database.edit(page, |_| {});
    let (after, _) = read(&database, "Things", CARVED);
    let in_free = |row: &&ReadRow| row.page == page && row.carved.is_some_and(|(at, _)| free.contains(&at));
    assert_eq!(after.iter().find(in_free), None);
}

#[test]
fn an_older_version_of_a_row_is_carved_once() {
    let mut database = EditableDatabase::new(samples::read("all-deleted.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let (rows, _) = read(&database, "Container_16", flagged);
    for page in pages(&rows) {
        database.edit(page, |mut leaf| {
            for index in 0..leaf.as_page().node_count() {
                leaf.set_node_flags(index, NodeFlags::empty());
            }
        });
    }
    let page = rows[0].page;
    let view = database.page(page);
    let (line, free) = (view.line_range(1).unwrap(), view.free_range());
    // Node 1 is the only one whose text is changed, after its line was copied.
    let old = database.bytes[database.range(page)][line.clone()].to_vec();
    let raw = database.raw(page);
    raw[line.end - 9..line.end - 2].copy_from_slice(b"renamed");
    let start = free.start;
    if free.len() < 2 * old.len() {
        // The page is full: make room by removing the last row.
        database.edit(page, |mut leaf| leaf.delete_node(leaf.as_page().node_count() - 1));
    }
    let start = database.page(page).free_range().start.min(start);
    database.raw(page)[start..start + old.len()].copy_from_slice(&old);
    database.edit(page, |_| {});
    let (after, _) = read(&database, "Container_16", CARVED);
    let carved: Vec<&ReadRow> = after.iter().filter(|row| row.carved.is_some()).collect();
    assert_eq!(carved.iter().filter(|row| row.cells == rows[0].cells).count(), 1, "{carved:?}");
    assert_eq!(carved[0].page, page);
}

#[test]
fn rows_of_a_page_with_a_bad_checksum_are_marked() {
    let sound = EditableDatabase::new(samples::read("all-deleted.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let included = AdditionalRows { damaged: true, ..flagged };
    let (whole, _) = read(&sound, "Container_16", included);
    assert!(whole.len() == 357 && whole.iter().all(|row| !row.damaged));
    let page = whole[200].page;
    let on_page = whole.iter().filter(|row| row.page == page).count();
    let first = whole.iter().position(|row| row.page == page).unwrap();
    let line = sound.page(page).line_range(1).unwrap();

    // The text of the first row changes: all rows can be decoded.
    let mut text = sound.clone();
    let end = line.end;
    text.raw(page)[end - 8..end - 3].copy_from_slice(b"XXXXX");
    let (rows, issues) = read(&text, "Container_16", flagged);
    assert_eq!(rows.len(), 357 - on_page, "the page is skipped");
    assert!(issues.has_missing());
    let (rows, issues) = read(&text, "Container_16", included);
    assert_eq!(issues.last_missing().unwrap().page, Some(page));
    assert_eq!(rows.len(), 357);
    for (index, (row, sound)) in rows.iter().zip(&whole).enumerate() {
        assert_eq!(row.damaged, row.page == page);
        assert_eq!(row.cells == sound.cells, index != first, "{row:?}");
    }

    // The record of the first row cannot be decoded: the other rows are exported.
    let mut record = sound.clone();
    record.raw(page)[line.start + 6..line.start + 12].fill(0x5A);
    let (rows, issues) = read(&record, "Container_16", included);
    assert_eq!(rows.len(), 356);
    assert!(issues.stored().iter().any(|issue| issue.message.contains("row 0 of the page")), "{issues:?}");

    // The header names another tree: no row of the page is used.
    let mut header = sound.clone();
    header.raw(page)[24..28].fill(0x5A);
    assert_eq!(read(&header, "Container_16", included).0.len(), 357 - on_page);
}

#[test]
fn long_values_of_deleted_rows_are_read_until_they_are_removed() {
    let mut database = EditableDatabase::new(samples::read("engine-4k.edb"));
    let flagged = AdditionalRows { deleted: true, ..AdditionalRows::default() };
    let (current, _) = read(&database, "Things", flagged);
    let values = database.find(|page| {
        page.is_leaf()
            && page.flags().contains(PageFlags::LONG_VALUE)
            && !page.flags().contains(PageFlags::SPACE)
    });
    for page in pages(&current).into_iter().chain(values.iter().copied()) {
        database.edit(page, |mut leaf| {
            for index in 0..leaf.as_page().node_count() {
                let flags = leaf.as_page().node(index).unwrap().flags;
                leaf.set_node_flags(index, flags | NodeFlags::DELETED);
            }
        });
    }
    let (deleted, issues) = read(&database, "Things", flagged);
    assert!(!values.is_empty() && deleted.iter().all(|row| row.deleted));
    assert_eq!(cells(&deleted), cells(&current));
    assert!(!cells(&deleted).iter().any(|cells| cells.contains("Unreadable")), "{issues:?}");
    for page in values {
        database.edit(page, |mut leaf| leaf.delete_nodes(0..usize::MAX));
    }
    let (deleted, issues) = read(&database, "Things", flagged);
    assert!(cells(&deleted).iter().any(|cells| cells.contains("Unreadable")));
    assert!(!issues.has_missing(), "long values of deleted rows may be gone: {issues:?}");
}
