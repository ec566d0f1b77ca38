//! Tests with real databases that are damaged in one place. The check must report the place, and must never panic or
//! hang.

use std::collections::BTreeSet;
use std::sync::Arc;

use ese_check::{CheckOptions, CheckReport, Finding, check_database};
use ese_format::checksum::seal_page;
use ese_format::header::DatabaseHeader;
use ese_format::long_value::LongValueKey;
use ese_format::page::{NodeFlags, PageFlags};
use ese_format::space::{Extent, SpaceHeader};
use ese_format::{LogTime, PageNumber, Signature, TreeId};
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

use crate::memory::MemoryDirectory;

/// Returns a clean database from the corpus.
fn whole_database(name: &str) -> Option<EditableDatabase> {
    let mut bytes = Corpus::locate()?.read(name);
    // The directory template was written without a log. If it has a log signature, the check treats it as a logged
    // database and reports errors.
    let mut header = DatabaseHeader::decode(&bytes).unwrap();
    header.log_signature = Signature::new(1, LogTime::from_unix_ms(0));
    let header = header.encode();
    bytes[..header.len()].copy_from_slice(&header);
    bytes[header.len()..2 * header.len()].copy_from_slice(&header);
    Some(EditableDatabase::new(bytes))
}

trait CheckDatabase {
    fn check(&self) -> CheckReport;
    fn must_find(&self, page: PageNumber, text: &str) -> Finding;
}

impl CheckDatabase for EditableDatabase {
    fn check(&self) -> CheckReport {
        let memory = MemoryDirectory::new(self.bytes.clone());
        check_database(&memory, &memory.path, &CheckOptions::default()).unwrap()
    }

    /// Checks that there is an error on `page` whose text contains `text`, and returns it.
    #[track_caller]
    fn must_find(&self, page: PageNumber, text: &str) -> Finding {
        let report = self.check();
        let found =
            report.errors().find(|finding| finding.page == Some(page) && finding.message.contains(text));
        let Some(found) = found else {
            let all: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            panic!("no error on page {page} with {text:?} among\n{}", all.join("\n"));
        };
        found.clone()
    }
}

const SMALL: &str = "db/4k/index.edb";
const BIG: &str = "db/8k/ntds-initial.dit";

#[test]
fn a_flipped_bit_is_reported_as_repairable() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    let (_, leaf, _) = whole_database(BIG).unwrap().inner_leaf();
    let leaf = if leaf.get() < 40 { leaf } else { PageNumber::fixed(13) };
    patient.raw(leaf)[1000] ^= 0x10;
    let found = patient.must_find(leaf, "flipped bit at byte 1000 bit 4");
    assert_eq!(found.offset, Some(patient.size.offset_of(leaf)));
    patient.raw(leaf)[2000] ^= 0x01;
    patient.must_find(leaf, "bad checksum");
    let report = patient.check();
    assert_eq!(report.pages.unwrap().bad, 1);
    assert!(!report.is_sound());
}

#[test]
fn a_misplaced_page_write_is_detected() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    let stray = patient.raw(PageNumber::fixed(13)).to_vec();
    patient.raw(PageNumber::fixed(14)).copy_from_slice(&stray);
    patient.must_find(PageNumber::fixed(14), "the page contains page 13");
}

#[test]
fn a_zero_page_of_a_tree_is_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    patient.raw(leaf).fill(0);
    patient.must_find(leaf, "was never written");
}

#[test]
fn damage_of_either_header_copy_is_distinguished() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    patient.bytes[100] ^= 1;
    let report = patient.check();
    let found = report.errors().next().unwrap();
    assert!(found.message.contains("shadow header is good") && found.offset == Some(0), "{found}");
    patient.bytes[4096 + 100] ^= 1;
    let memory = MemoryDirectory::new(patient.bytes);
    assert!(check_database(&memory, &memory.path, &CheckOptions::default()).is_err());
}

#[test]
fn wrong_sibling_links_are_reported_on_the_page_containing_them() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (left, leaf, right) = patient.inner_leaf();
    patient.edit(leaf, |mut page| page.set_next(Some(left)));
    patient.must_find(leaf, &format!("right link is {left}, but the next leaf is page {right}"));
    let mut patient = whole_database(BIG).unwrap();
    patient.edit(leaf, |mut page| page.set_prev(None));
    patient.must_find(leaf, &format!("left link is 0, but the previous leaf is page {left}"));
}

#[test]
fn swapped_leaves_break_order_and_separators() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (left, leaf, _) = patient.inner_leaf();
    let parents = patient.find(|page| !page.is_leaf() && page.nodes().any(|node| node.child() == Some(leaf)));
    let parent = parents[0];
    let entry = |patient: &EditableDatabase, child| {
        patient.page(parent).nodes().position(|node| node.child() == Some(child)).unwrap()
    };
    let (first, second) = (entry(&patient, left), entry(&patient, leaf));
    patient.edit(parent, |mut page| {
        page.replace_data(first, &leaf.get().to_le_bytes()).unwrap();
        page.replace_data(second, &left.get().to_le_bytes()).unwrap();
    });
    patient.must_find(leaf, "outside the separators");
    patient.must_find(left, "outside the separators");
}

#[test]
fn a_wrong_separator_is_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    let parent =
        patient.find(|page| !page.is_leaf() && page.nodes().any(|node| node.child() == Some(leaf)))[0];
    let index = patient.page(parent).nodes().position(|node| node.child() == Some(leaf)).unwrap();
    patient.edit(parent, |mut page| {
        let (data, flags) = {
            let view = page.as_page();
            let node = view.node(index).unwrap();
            (node.data.to_vec(), node.flags)
        };
        page.delete_node(index);
        page.insert_node(index, flags, &[0xff; 12], &data).unwrap();
    });
    patient.must_find(parent, "is not greater than the previous separator");
}

#[test]
fn keys_out_of_order_are_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    patient.edit(leaf, |mut page| {
        let (key, data, flags) = {
            let view = page.as_page();
            let node = view.node(0).unwrap();
            (node.key_to_vec(), node.data.to_vec(), node.flags)
        };
        page.delete_node(0);
        page.insert_node(1, flags, &key, &data).unwrap();
    });
    patient.must_find(leaf, "node 1 (");
}

#[test]
fn overlapping_lines_are_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    let (size, end) = (patient.size, patient.size.bytes());
    let raw = patient.raw(leaf);
    // Tag 2 is set to the offset of tag 1.
    let offset = [raw[end - 6], raw[end - 5] & 0x1f];
    raw[end - 10] = offset[0];
    raw[end - 9] = raw[end - 9] & 0xe0 | offset[1];
    seal_page(raw, size, leaf);
    patient.must_find(leaf, "overlap");
}

#[test]
fn pages_from_other_trees_and_wrong_flags_are_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    let tree = patient.page(leaf).tree();
    patient.edit(leaf, |mut page| page.set_tree(TreeId(tree.0 + 1)));
    patient.must_find(leaf, "has object id");
    let mut patient = whole_database(BIG).unwrap();
    patient.edit(leaf, |mut page| {
        let flags = page.as_page().flags();
        page.set_flags(flags | PageFlags::LONG_VALUE);
    });
    patient.must_find(leaf, "tree type");
    let mut patient = whole_database(BIG).unwrap();
    patient.edit(leaf, |mut page| page.set_db_time(ese_format::DbTime(u64::MAX / 2)));
    patient.must_find(leaf, "later than the time");
}

#[test]
fn a_check_terminates_on_cycles_and_invalid_page_numbers() {
    let Some(whole) = whole_database(BIG) else { return };
    let (_, leaf, _) = whole.inner_leaf();
    let parent = whole.find(|page| !page.is_leaf() && page.nodes().any(|node| node.child() == Some(leaf)))[0];
    for (target, named, text) in [
        (parent, parent, "occurs twice"),
        (PageNumber::fixed(1), PageNumber::fixed(1), "has object id"),
        (PageNumber::fixed(u32::MAX), PageNumber::fixed(u32::MAX), "past the end of the file"),
        (PageNumber::fixed(1_000_000), PageNumber::fixed(1_000_000), "past the end of the file"),
    ] {
        let mut patient = whole.clone();
        patient.edit(parent, |mut page| page.replace_data(0, &target.get().to_le_bytes()).unwrap());
        patient.must_find(named, text);
    }
}

/// Returns the available extents of the database root as (page of the space tree, index of the node, extent).
fn available(patient: &EditableDatabase) -> (PageNumber, usize, Extent) {
    let header = SpaceHeader::decode(patient.page(PageNumber::fixed(1)).external_header()).unwrap();
    let root = header.available_root().unwrap();
    let page = patient.page(root);
    let node = page.node(0).unwrap();
    (root, 0, Extent::decode(&node.key_to_vec(), node.data).unwrap().0)
}

#[test]
fn a_leaked_page_is_found() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    let (root, index, extent) = available(&patient);
    let shorter = Extent { count: extent.count - 1, ..extent };
    patient.edit(root, |mut page| page.replace_data(index, &shorter.data()).unwrap());
    patient.must_find(extent.first(), &format!("page {} leaked", extent.first()));
    let memory = MemoryDirectory::new(patient.bytes);
    let options = CheckOptions { leaks_are_errors: false, ..CheckOptions::default() };
    let report = check_database(&memory, &memory.path, &options).unwrap();
    let leak =
        report.findings.iter().find(|finding| finding.kind == ese_check::FindingKind::SpaceLeak).unwrap();
    assert_eq!((leak.severity, report.is_sound()), (ese_check::Severity::Info, true));
}

#[test]
fn a_page_that_is_used_and_available_is_found() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    let (root, index, extent) = available(&patient);
    let longer = Extent { count: extent.count + 1, ..extent };
    patient.edit(root, |mut page| page.replace_data(index, &longer.data()).unwrap());
    let report = patient.check();
    let page = longer.first();
    assert!(report.errors().any(|finding| finding.page == Some(page)), "{:?}", report.findings);
}

#[test]
fn a_check_terminates_on_invalid_extents() {
    let Some(mut patient) = whole_database(SMALL) else { return };
    let (root, index, _) = available(&patient);
    patient.edit(root, |mut page| page.replace_data(index, &250u32.to_le_bytes()).unwrap());
    assert!(!patient.check().is_sound());
    let owned = PageNumber::fixed(2);
    patient.edit(owned, |mut page| {
        let flags = page.as_page().node(0).unwrap().flags;
        page.delete_node(0);
        page.insert_node(0, flags, &[0xff; 4], &u32::MAX.to_le_bytes()).unwrap();
    });
    patient.must_find(PageNumber::fixed(1), "the database has pages up to");
}

#[test]
fn random_damage_with_valid_checksums_never_panics() {
    let Some(whole) = whole_database(SMALL) else { return };
    let used = whole.find(|_| true);
    // A simple generator with a fixed seed makes the test repeatable.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..150 {
        let mut patient = whole.clone();
        for _ in 0..3 {
            let (page, size) = (used[next(used.len())], patient.size);
            let raw = patient.raw(page);
            for _ in 0..4 {
                let at = 8 + next(raw.len() - 8);
                raw[at] = next(256) as u8;
            }
            seal_page(raw, size, page);
        }
        patient.check();
    }
}

#[test]
fn progress_reaches_the_total_page_count() {
    let Some(patient) = whole_database(SMALL) else { return };
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let progress = Some(Arc::new(move |step: ese_check::CheckProgress| sink.lock().unwrap().push(step))
        as Arc<ese_check::CheckProgressFn>);
    let memory = MemoryDirectory::new(patient.bytes);
    check_database(&memory, &memory.path, &CheckOptions { progress, ..CheckOptions::default() }).unwrap();
    let seen = seen.lock().unwrap();
    for phase in [ese_check::CheckPhase::Pages, ese_check::CheckPhase::Structure] {
        let last = seen.iter().rfind(|step| step.phase == phase).unwrap();
        assert_eq!(last.done, last.total);
    }
}

/// Returns a leaf of a secondary index in [`BIG`] that has more than one node. The index belongs to a user table, and
/// its keys can be rebuilt.
fn index_leaf(patient: &EditableDatabase) -> PageNumber {
    // Tree 4 is the catalog's index on names.
    patient
        .find(|page| page.is_leaf() && page.tree() == TreeId(4) && page.node_count() > 1 && !page.is_root())
        [0]
}

#[test]
fn a_missing_index_entry_is_reported_on_the_expected_page() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let leaf = index_leaf(&patient);
    patient.edit(leaf, |mut page| page.delete_node(1));
    let found = patient.must_find(leaf, "no entry 7f");
    assert_eq!(found.tree.as_deref(), Some("MSysObjects / index Name"));
}

#[test]
fn an_extra_index_entry_is_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let leaf = index_leaf(&patient);
    patient.edit(leaf, |mut page| {
        let (key, data) = {
            let view = page.as_page();
            let node = view.node(0).unwrap();
            (node.key_to_vec(), node.data.to_vec())
        };
        page.delete_node(1);
        page.insert_node(1, ese_format::page::NodeFlags::empty(), &[key.as_slice(), &[1]].concat(), &data)
            .unwrap();
    });
    patient.must_find(leaf, "does not match the keys of its row");
    let mut patient = whole_database(BIG).unwrap();
    patient.edit(leaf, |mut page| {
        let mut data = page.as_page().node(0).unwrap().data.to_vec();
        data[4] ^= 0x55;
        page.replace_data(0, &data).unwrap();
    });
    patient.must_find(leaf, "but no row has this key");
}

#[test]
fn a_changed_shadow_row_is_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let leaf = patient.find(|page| page.is_leaf() && page.tree() == TreeId(3) && page.next().is_some())[0];
    patient.edit(leaf, |mut page| {
        let mut data = page.as_page().node(3).unwrap().data.to_vec();
        let last = data.len() - 1;
        data[last] ^= 1;
        page.replace_data(3, &data).unwrap();
    });
    patient.must_find(leaf, "differs from the row on page");
}

#[test]
fn long_values_with_wrong_counts_sizes_or_chunks_are_found() {
    let name = "db/4k/text.edb";
    let Some(whole) = whole_database(name) else { return };
    let kinds = PageFlags::LONG_VALUE;
    let leaf = whole.find(|page| {
        page.is_leaf() && page.flags() & (kinds | PageFlags::SPACE) == kinds && page.node_count() > 1
    })[0];
    let root = whole.page(leaf).nodes().position(|node| node.key_len() == 4).unwrap();
    for (field, text) in [(0, "but records contain"), (4, "")] {
        let mut patient = whole.clone();
        patient.edit(leaf, |mut page| {
            let mut data = page.as_page().node(root).unwrap().data.to_vec();
            data[field] += 3;
            page.replace_data(root, &data).unwrap();
        });
        let found = patient.must_find(leaf, text);
        assert!(found.tree.unwrap().ends_with("/ long values"));
    }
    let mut patient = whole.clone();
    patient.edit(leaf, |mut page| page.delete_node(root));
    assert!(patient.check().errors().any(|finding| finding.message.contains("does not exist")));
}

#[test]
fn long_values_on_a_lost_leaf_are_counted() {
    let Some(mut patient) = whole_database("db/4k/text.edb") else { return };
    let kinds = PageFlags::LONG_VALUE;
    let leaf = patient.find(|page| {
        let is_leaf = page.is_leaf() && page.flags() & (kinds | PageFlags::SPACE) == kinds;
        is_leaf && !page.is_root() && page.node_count() > 1
    })[0];
    let keys = patient
        .page(leaf)
        .nodes()
        .filter_map(|node| LongValueKey::decode(&node.key_to_vec()))
        .collect::<Vec<_>>();
    let values: BTreeSet<_> =
        keys.iter().map(|(LongValueKey::Root(id) | LongValueKey::Chunk(id, _))| *id).collect();
    patient.raw(leaf).fill(0);
    let report = patient.check();
    let texts: Vec<&str> = report.errors().map(|finding| finding.message.as_str()).collect();
    let expected = format!("{} long values are missing or incomplete", values.len());
    assert!(texts.iter().any(|text| text.starts_with(&expected)), "{expected}: {texts:#?}");
}

#[test]
fn a_record_that_does_not_match_the_table_is_found() {
    let Some(mut patient) = whole_database(BIG) else { return };
    let (_, leaf, _) = patient.inner_leaf();
    patient.edit(leaf, |mut page| {
        let mut data = page.as_page().node(0).unwrap().data.to_vec();
        data[1] = 255;
        page.replace_data(0, &data).unwrap();
    });
    patient.must_find(leaf, "record 7f");
}

#[test]
fn rows_on_a_lost_leaf_are_counted_by_an_index() {
    let Some(mut patient) = whole_database(BIG) else { return };
    // Use leaves of the catalog, because its index on names has an entry for every row.
    let leaf = patient.find(|page| {
        page.is_leaf() && page.tree() == TreeId(2) && page.prev().is_some() && page.next().is_some()
    })[0];
    let rows = patient.page(leaf).nodes().filter(|node| !node.flags.contains(NodeFlags::DELETED)).count();
    patient.raw(leaf).fill(0);
    let root = PageNumber::fixed(4);
    let found = patient.must_find(root, &format!("{rows} rows are unreadable; index Name still has entries"));
    assert_eq!(found.table.as_deref(), Some("MSysObjects"));
}

#[test]
fn a_cancelled_check_stops_early_and_reports_the_resume_position() {
    let Some(patient) = whole_database(BIG) else { return };
    let memory = MemoryDirectory::new(patient.bytes);
    let cancel = ese_check::Cancellation::default();
    let asked = cancel.clone();
    let progress: Option<Arc<ese_check::CheckProgressFn>> = Some(Arc::new(move |_| asked.cancel()));
    let options = CheckOptions { progress, cancel, ..CheckOptions::default() };
    let report = check_database(&memory, &memory.path, &options).unwrap();
    let done = report.pages.unwrap().examined();
    assert!(report.cancelled && report.structure.is_none());
    assert!(done < 1280, "{done}");
    let from = report.resume_from.unwrap();
    assert_eq!(u64::from(from.get()), done + 1);
    let rest =
        check_database(&memory, &memory.path, &CheckOptions { start_page: from, ..CheckOptions::default() })
            .unwrap();
    assert_eq!(rest.pages.unwrap().examined() + done, 1280);
}
