//! Pages of the active side and the copy. The scan of the active side compares them, and each side repairs pages from
//! the other while both run.

use std::path::{Path, PathBuf};

use ese_engine::{EventKind, MaintenanceThrottle, ScanOptions};
use ese_format::header::DatabaseState;
use jetcell_copies::{
    CopyError, CopyPhase, CopyState, PageChecks, ReplayOptions, ReplicationStepReport, Replicator, Reseed,
    UnfitReason,
};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, ReceivedEvents, SIZE, catch_up, replay_options, seeded, source, vfs,
};

impl ReceivedEvents {
    /// Returns the numbers of the page events, and the pages.
    fn pages(&self) -> Vec<(u16, u32)> {
        let page = |kind: &EventKind| match kind {
            EventKind::PageDiffers(divergence) => Some(divergence.page.get()),
            EventKind::PageRepaired { page, .. } => Some(page.get()),
            _ => None,
        };
        let heard = std::mem::take(&mut *self.0.lock());
        heard.iter().filter_map(|kind| Some((kind.describe(Default::default()).id?, page(kind)?))).collect()
    }
}

fn database(directory: &str) -> PathBuf {
    Path::new(directory).join("data.edb")
}

/// Scans the database of the active side once and closes the log.
fn scan(site: &ActiveInstance) {
    let options =
        ScanOptions { single_pass: true, throttle: MaintenanceThrottle::default(), ..ScanOptions::default() };
    assert!(site.instance.start_maintenance(&site.database, options).unwrap());
    while site.database.scan_progress().running {
        site.instance.step().unwrap();
    }
    site.roll();
}

fn follow(disk: &SimVfs, heard: &Arc<ReceivedEvents>) -> Replicator {
    let options = ReplayOptions { events: Some(heard.clone()), ..replay_options() };
    Replicator::open(&vfs(disk), Path::new(COPY), Box::new(source(disk)), options).unwrap()
}

/// Runs both sides until no work is left, and advances the clock for repeated requests.
fn work(disk: &SimVfs, site: &ActiveInstance, copy: &mut Replicator) {
    for _ in 0..12 {
        loop {
            let step: ReplicationStepReport = copy.step().unwrap();
            assert!(step.waiting.is_none(), "{:?}", step.waiting);
            if step.is_idle() {
                break;
            }
        }
        site.instance.exchange_pages().unwrap();
        site.instance.step().unwrap();
        disk.sim_clock().advance(std::time::Duration::from_secs(3));
    }
}

/// Returns the bytes of a page in a database file.
fn page_bytes(content: &[u8], page: u32) -> &[u8] {
    &content[(page as usize + 1) * SIZE.bytes()..][..SIZE.bytes()]
}

fn put_page(disk: &SimVfs, directory: &str, page: u32, bytes: &[u8]) {
    disk.corrupt(&database(directory), (u64::from(page) + 1) * SIZE.bytes() as u64, bytes).unwrap();
}

/// Returns the first leaf of the table that differs between two states of a file and exists in both.
fn changed_leaf(before: &[u8], after: &[u8]) -> u32 {
    let pages = (before.len().min(after.len()) / SIZE.bytes()) as u32 - 2;
    (40..pages)
        .find(|page| {
            let [before, after] = [before, after].map(|content| page_bytes(content, *page));
            // The checksum is not compared.
            before[8..] != after[8..] && is_full_leaf(before) && is_full_leaf(after)
        })
        .expect("a leaf has changed")
}

/// Returns a leaf of the copy that has changed and that redo no longer needs.
fn behind_checkpoint(disk: &SimVfs, site: &ActiveInstance, before: &[u8]) -> u32 {
    site.roll();
    catch_up(disk).unwrap();
    let page = changed_leaf(before, &disk.contents(&database(COPY)).unwrap());
    site.insert(250..650);
    site.roll();
    catch_up(disk).unwrap();
    page
}

/// Returns a leaf of the table.
fn a_leaf(content: &[u8]) -> u32 {
    let pages = (content.len() / SIZE.bytes()) as u32 - 2;
    (60..pages).find(|page| is_full_leaf(page_bytes(content, *page))).expect("the table has leaves")
}

fn is_full_leaf(bytes: &[u8]) -> bool {
    let page = ese_format::page::Page::new(bytes, SIZE);
    page.is_leaf() && bytes.iter().filter(|byte| **byte != 0).count() > 1000
}

fn checks(disk: &SimVfs) -> jetcell_copies::DatabasePageChecks {
    PageChecks::read(disk, Path::new(COPY)).unwrap().databases.remove(0)
}

/// Stops both sides and compares all pages.
fn compare(disk: &SimVfs, site: ActiveInstance, copy: Replicator) {
    copy.stop().unwrap();
    site.roll();
    site.close();
    ActiveInstance::open(disk, ACTIVE, 1000).close();
    let site = ActiveInstance::open(disk, ACTIVE, 1000);
    site.roll();
    site.close();
    catch_up(disk).unwrap();
    let [ours, theirs] =
        [COPY, ACTIVE].map(|side| super::active_instance::pages(disk, &format!("{side}/data.edb")));
    let differ = ours.iter().zip(&theirs).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at + 1);
    assert_eq!(differ.collect::<Vec<_>>(), Vec::<usize>::new());
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn a_scan_of_the_active_side_proves_that_all_pages_are_equal() {
    let disk = seeded(150);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let heard = Arc::new(ReceivedEvents::default());
    let mut copy = follow(&disk, &heard);
    site.insert(150..300);
    site.roll();
    work(&disk, &site, &mut copy);
    assert!(PageChecks::read(&disk, Path::new(COPY)).unwrap().databases.is_empty());
    let began = vfs(&disk).clock().unix_ms();
    scan(&site);
    site.insert(300..400);
    site.roll();
    work(&disk, &site, &mut copy);
    let pages = site.database.scan_progress().pages as u32;
    let (compared, oldest) = checks(&disk).equal.compared_among(pages);
    assert_eq!(compared, pages, "{:?}", checks(&disk));
    // The log with the records may have been started before the scan.
    let age = began - oldest.unwrap();
    assert!((0..600_000).contains(&age), "{age} ms");
    assert!(checks(&disk).divergences.is_empty());
    // An instance without copies writes no log records for them.
    copy.stop().unwrap();
    disk.remove(&PathBuf::from(format!("{ACTIVE}/E00-{}.copy", registered(&disk)))).unwrap();
    site.roll();
    scan(&site);
    let tail = site.instance.core().log().tail();
    assert_eq!((tail.segment, site.database.scan_progress().passes), (1, 2));
    assert_eq!(heard.pages(), []);
    site.close();
}

fn registered(disk: &SimVfs) -> String {
    jetcell_copies::CopyState::read(disk, Path::new(COPY)).unwrap().unwrap().id
}

#[test]
fn a_lost_copy_write_is_reported_and_repaired_under_load() {
    let disk = seeded(150);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let before = disk.contents(&database(COPY)).unwrap();
    site.insert(150..250);
    let page = behind_checkpoint(&disk, &site, &before);
    put_page(&disk, COPY, page, page_bytes(&before, page));
    let heard = Arc::new(ReceivedEvents::default());
    let mut copy = follow(&disk, &heard);
    scan(&site);
    while !copy.step().unwrap().is_idle() {}
    assert_eq!(heard.pages(), [(539, page)]);
    let found = checks(&disk).divergences;
    assert_eq!((found.len(), found[0].page, found[0].kind.name()), (1, page, "copy_behind"));
    site.insert(650..800);
    work(&disk, &site, &mut copy);
    assert_eq!(heard.pages(), [(911, page)]);
    assert_eq!(checks(&disk).divergences, []);
    assert_eq!(checks(&disk).repaired.len(), 1);
    compare(&disk, site, copy);
}

/// A database must not be closed while a page waits for repair. Otherwise its header would claim that it is complete.
#[test]
fn a_copy_with_pages_awaiting_repair_is_unfit_at_close() {
    let disk = seeded(150);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let before = disk.contents(&database(COPY)).unwrap();
    site.insert(150..250);
    let page = behind_checkpoint(&disk, &site, &before);
    put_page(&disk, COPY, page, &[0x5A; 900]);
    let mut copy = follow(&disk, &Arc::new(ReceivedEvents::default()));
    site.replace(0..300, 1);
    site.roll();
    while !copy.step().unwrap().is_idle() {}
    // Shuts the active side down. The next start closes the log.
    site.close();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.roll();
    let refused = loop {
        match copy.step() {
            Ok(step) => assert!(!step.is_idle(), "the copy follows"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains(&format!("page {page}")), "{refused}");
    drop(copy);
    let phase = CopyState::read(&disk, Path::new(COPY)).unwrap().unwrap().phase;
    assert!(matches!(phase, CopyPhase::Unfit { reason: UnfitReason::BadDatabase, .. }), "{phase:?}");
    let header = disk.contents(&database(COPY)).unwrap();
    let header = ese_format::header::DatabaseHeader::decode(&header[..SIZE.bytes()]).unwrap();
    assert_eq!(header.state, DatabaseState::DirtyShutdown);
    site.close();
    // The logs do not show which page is damaged.
    let files = disk.list(Path::new(ACTIVE)).unwrap();
    let reseed = Reseed::plan(&vfs(&disk), &files, Path::new(COPY)).map(drop);
    assert!(matches!(reseed, Err(CopyError::OnlyFullReseed(_))), "{reseed:?}");
}

#[test]
fn a_copy_page_unreadable_by_redo_is_repaired_under_load() {
    let disk = seeded(150);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let before = disk.contents(&database(COPY)).unwrap();
    site.insert(150..250);
    let page = behind_checkpoint(&disk, &site, &before);
    let heard = Arc::new(ReceivedEvents::default());
    put_page(&disk, COPY, page, &[0x5A; 900]);
    let mut copy = follow(&disk, &heard);
    // Redo needs the page and continues without it. A stop in between changes nothing.
    site.replace(0..300, 1);
    site.roll();
    while !copy.step().unwrap().is_idle() {}
    copy.stop().unwrap();
    let mut copy = follow(&disk, &heard);
    site.replace(0..300, 2);
    work(&disk, &site, &mut copy);
    assert_eq!(heard.pages(), [(911, page)]);
    compare(&disk, site, copy);
}

#[test]
fn a_damaged_active_page_is_repaired_from_a_copy() {
    let disk = seeded(400);
    let (heard, at_copy) = (Arc::new(ReceivedEvents::default()), Arc::new(ReceivedEvents::default()));
    let content = disk.contents(&database(ACTIVE)).unwrap();
    let page = a_leaf(&content);
    put_page(&disk, ACTIVE, page, &[0x5A; 700]);
    let site = ActiveInstance::open_heard(&disk, ACTIVE, 1000, heard.clone());
    let mut copy = follow(&disk, &at_copy);
    // The copy is asked for the page only after the damage was detected.
    work(&disk, &site, &mut copy);
    assert_eq!(heard.pages(), []);
    scan(&site);
    assert_eq!(site.database.scan_progress().bad, 1);
    site.insert(400..500);
    work(&disk, &site, &mut copy);
    assert_eq!(heard.pages(), [(905, page)]);
    assert_eq!(at_copy.pages(), []);
    scan(&site);
    assert_eq!(site.database.scan_progress().bad, 1, "it is good now");
    assert_eq!(site.keys(), (0..500).collect());
    work(&disk, &site, &mut copy);
    assert_eq!(checks(&disk).divergences, []);
    compare(&disk, site, copy);
}

#[test]
fn a_lost_active_side_write_is_reported_and_repaired() {
    let disk = seeded(150);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let before = disk.contents(&database(ACTIVE)).unwrap();
    site.insert(150..250);
    site.close();
    catch_up(&disk).unwrap();
    let page = changed_leaf(&before, &disk.contents(&database(ACTIVE)).unwrap());
    put_page(&disk, ACTIVE, page, page_bytes(&before, page));
    let (heard, at_copy) = (Arc::new(ReceivedEvents::default()), Arc::new(ReceivedEvents::default()));
    let site = ActiveInstance::open_heard(&disk, ACTIVE, 1000, heard.clone());
    let mut copy = follow(&disk, &at_copy);
    scan(&site);
    work(&disk, &site, &mut copy);
    assert_eq!(at_copy.pages(), [(538, page)]);
    assert_eq!(heard.pages(), [(905, page)]);
    scan(&site);
    work(&disk, &site, &mut copy);
    assert_eq!(checks(&disk).divergences, []);
    assert_eq!(site.keys(), (0..250).collect());
    compare(&disk, site, copy);
}
