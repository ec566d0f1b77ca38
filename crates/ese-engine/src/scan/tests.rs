use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex, OnceLock, Weak};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::{
    Clock, CountedVfs, File, FileLayer, IoOperation, IoReason, OpenMode, SimVfs, Transfer, Vfs, VfsLayer,
};

use super::options::EXTENT_BYTES;
use super::zero::{log_bytes_of_page, zero_page};
use super::{PageFlaw, ScanOptions};
use crate::btree::Tree;
use crate::cache::{Cache, CacheOptions};
use crate::database::Database;
use crate::task::MaintenanceThrottle;
use crate::transaction::ActiveTransaction;
use crate::{
    BackgroundThreads, DatabaseOptions, DefragOptions, Event, EventSink, Instance, InstanceOptions,
    TornPageProtection,
};

const DB: &str = "/db/test.edb";
const SIZE: PageSize = PageSize::KIB_4;

fn open(disk: Arc<dyn Vfs>, frames: usize, threads: bool) -> (Arc<Instance>, Arc<Database>) {
    open_with(disk, frames, threads, None)
}

fn open_with(
    disk: Arc<dyn Vfs>,
    frames: usize,
    threads: bool,
    events: Option<Arc<dyn EventSink>>,
) -> (Arc<Instance>, Arc<Database>) {
    for directory in ["/db", "/log"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(frames * SIZE.bytes(), SIZE, disk.clock()));
    let options = InstanceOptions::with_cache(disk, "/log".into(), cache)
        .background(BackgroundThreads::own_if(threads))
        .seed(7)
        .event_sink(events)
        .torn_page_protection(TornPageProtection::Off);
    let instance = Instance::open(options).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    (instance, db)
}

fn tree(instance: &Instance, db: &Arc<Database>) -> Arc<Tree> {
    let mut session = ActiveTransaction::new(instance.core().clone(), 900);
    session.begin().unwrap();
    let tree = db
        .trees
        .create_tree(session.changes().unwrap(), PageNumber::fixed(1), PageFlags::empty(), 3)
        .unwrap();
    session.commit().unwrap();
    tree
}

fn fill(instance: &Instance, tree: &Arc<Tree>, rows: std::ops::Range<u32>) {
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    for row in rows {
        session.begin().unwrap();
        tree.insert(session.changes().unwrap(), &row.to_be_bytes(), &[7; 500]).unwrap();
        session.commit().unwrap();
        if row % 50 == 0 {
            instance.step().unwrap();
        }
    }
    instance.core().cache.flush_file(tree.file.file_id).unwrap();
}

/// Runs one pass.
fn pass(db: &Database) {
    let before = db.scan_progress().passes;
    while db.scan_progress().passes == before {
        db.scan.step().unwrap().expect("the scan is running");
    }
}

#[test]
fn the_scan_reports_damage_except_where_cached_pages_are_newer() {
    let disk = SimVfs::new();
    let counted = Arc::new(CountedVfs::new(Arc::new(disk.clone())));
    let (instance, db) = open(counted.clone(), 48, false);
    let tree = tree(&instance, &db);
    fill(&instance, &tree, 0..600);
    instance.start_scan(&db, Duration::ZERO);
    pass(&db);
    let clean = db.scan_progress();
    let pages = u64::from(db.file.file_pages().unwrap());
    assert_eq!((clean.pages, clean.bad, clean.passes), (pages, 0, 1), "{clean:?}");
    assert!(clean.uninitialized > 0 && clean.uninitialized < pages, "{clean:?}");
    let reads = pages.div_ceil((EXTENT_BYTES / SIZE.bytes()) as u64);
    assert_eq!((clean.reads, clean.bytes), (reads, pages * SIZE.bytes() as u64));

    // Damage pages that are not in memory.
    let content = disk.contents(Path::new(DB)).unwrap();
    let page_offset = |page: PageNumber| SIZE.offset_of(page) as usize;
    let used = |page: &PageNumber| {
        content[page_offset(*page)..page_offset(*page) + SIZE.bytes()].iter().any(|byte| *byte != 0)
    };
    let away = |page: &PageNumber| db.file.cache.resident(db.file.page_key(*page)).is_none();
    let mut cold = (40..).map(PageNumber::fixed).filter(used).filter(away);
    let mut next = || cold.next().unwrap();
    let (flipped, broken, moved) = (next(), next(), next());
    let bit = page_offset(flipped) as u64 * 8 + 777 * 8 + 3;
    disk.flip_bit(Path::new(DB), bit).unwrap();
    disk.corrupt(Path::new(DB), page_offset(broken) as u64 + 600, &[0x5a; 300]).unwrap();
    let other = content[page_offset(flipped)..page_offset(flipped) + SIZE.bytes()].to_vec();
    disk.corrupt(Path::new(DB), page_offset(moved) as u64, &other).unwrap();
    // Damage pages that are in memory. One equals its version on disk; the other is newer.
    let (warm, newer) = (tree.root, PageNumber::fixed(1));
    drop(db.file.pin(warm).unwrap());
    disk.corrupt(Path::new(DB), page_offset(warm) as u64 + 600, &[0x5a; 300]).unwrap();
    let mut latch = db.file.pin(newer).unwrap().write();
    latch.mark_dirty(instance.core().log().tail());
    drop(latch);
    disk.corrupt(Path::new(DB), page_offset(newer) as u64 + 600, &[0x5a; 300]).unwrap();

    let before = counted.snapshot();
    pass(&db);
    let found = db.scan_progress();
    let flaws = [
        (flipped, PageFlaw::FlippedBits(vec![777 * 8 + 3])),
        (broken, PageFlaw::Checksum),
        (moved, PageFlaw::WrongPage(flipped.get())),
        (warm, PageFlaw::Checksum),
    ];
    assert_eq!(found.findings, flaws.into());
    assert_eq!((found.bad, found.examined_again), (4, 5), "{found:?}");
    let used = counted.snapshot().since(&before);
    let reads_of = |reason| used.get(reason, IoOperation::Read).operations;
    // The page with the flipped bit is read into the cache, which rewrites it without the error.
    assert_eq!((reads_of(IoReason::Scan), reads_of(IoReason::DatabaseRead)), (reads + 4, 1));

    // The scan counts a bad page once per pass until the page is repaired. The recorded finding is kept.
    pass(&db);
    assert_eq!((db.scan_progress().bad, db.scan_progress().findings.len()), (7, 4));
    for page in [broken, moved, warm] {
        let good = &content[page_offset(page)..page_offset(page) + SIZE.bytes()];
        disk.corrupt(Path::new(DB), page_offset(page) as u64, good).unwrap();
    }
    pass(&db);
    assert_eq!(db.scan_progress().bad, 7);
    drop(tree);
    instance.detach(&db).unwrap();
    assert!(!db.scan_progress().running && db.scan.step().unwrap().is_none());
    drop(db);
    instance.shutdown().unwrap();
}

/// A file system that writes pages in two halves and runs a scan step between them.
struct TornWrites {
    inner: Arc<dyn Vfs>,
    database: OnceLock<Weak<Database>>,
    torn: AtomicU64,
}

struct TornFile {
    inner: Arc<dyn File>,
    torn_writes: Arc<TornWrites>,
}

struct TornVfs(Arc<TornWrites>);

impl VfsLayer for TornVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.0.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.0.inner.open(path, mode)?;
        Ok(Arc::new(TornFile { inner, torn_writes: self.0.clone() }))
    }
}

impl FileLayer for TornFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            let database = self.torn_writes.database.get().and_then(Weak::upgrade);
            let page_write = transfer.kind == jetcell_vfs::TransferKind::Write;
            let Some(database) = database.filter(|_| page_write) else {
                self.inner.submit(vec![transfer]);
                continue;
            };
            // The end of the last page still has its old content.
            let before_end = transfer.buffer.len() - SIZE.bytes() / 2;
            let mut half = vec![0; SIZE.bytes()];
            let last = transfer.offset + (transfer.buffer.len() - SIZE.bytes()) as u64;
            self.inner.read_at(last, &mut half, IoReason::Other).unwrap();
            let mut torn = transfer.buffer[..before_end].to_vec();
            torn.extend_from_slice(&half[SIZE.bytes() / 2..]);
            self.inner.write_at(transfer.offset, &torn, transfer.reason).unwrap();
            pass(&database);
            self.torn_writes.torn.fetch_add(1, Ordering::Relaxed);
            self.inner.submit(vec![transfer]);
        }
    }
}

#[test]
fn a_page_that_is_being_written_is_not_damage() {
    let torn_writes = Arc::new(TornWrites {
        inner: Arc::new(SimVfs::new()),
        database: OnceLock::new(),
        torn: AtomicU64::new(0),
    });
    let (instance, db) = open(Arc::new(TornVfs(torn_writes.clone())), 48, false);
    let tree = tree(&instance, &db);
    instance.start_scan(&db, Duration::ZERO);
    torn_writes.database.set(Arc::downgrade(&db)).unwrap();
    fill(&instance, &tree, 0..1000);
    let progress = db.scan_progress();
    let torn = torn_writes.torn.load(Ordering::Relaxed);
    assert!(torn > 40 && progress.examined_again > torn / 2, "{torn} torn, {progress:?}");
    assert_eq!((progress.bad, progress.findings.len()), (0, 0), "{progress:?}");
    drop((tree, db));
    instance.shutdown().unwrap();
}

#[test]
fn the_scan_pauses_after_each_read() {
    let disk = SimVfs::new();
    let clock = disk.sim_clock();
    let (instance, db) = open(Arc::new(disk), 48, false);
    let pause = Duration::from_millis(100);
    instance.start_scan(&db, pause);
    let began = clock.monotonic();
    while clock.monotonic() - began < Duration::from_secs(60) {
        // Other work calls `step` much more often than reads are due.
        let wait = db.scan.step().unwrap().unwrap();
        assert!(wait <= pause);
        instance.step().unwrap();
        clock.advance(wait.min(Duration::from_millis(7)));
    }
    let reads = db.scan_progress().reads;
    // Operations on the simulated disk take no time.
    assert!((598..=602).contains(&reads), "{reads} reads in 60 s");
    instance.stop_scan(&db);
    clock.advance(pause * 2);
    assert_eq!((db.scan.step().unwrap(), db.scan_progress().reads), (None, reads));
    drop(db);
    instance.shutdown().unwrap();
}

/// Checks the number of log bytes per page: the target number, or more if the records need more. With 8 KiB pages, a
/// mebibyte of log contains records for 10,000 pages while the cache is clean, and for 2,500 pages while it is dirty.
#[test]
fn a_pass_logs_the_target_number_of_bytes_per_page() {
    let [clean, dirty] = [0, 100].map(|dirty| log_bytes_of_page(PageSize::KIB_8, dirty, 100));
    for (wanted, expected) in [(0, 71..=90), (clean, 104..=110), (dirty, 419..=425)] {
        let (instance, db) = open(Arc::new(SimVfs::new()), 1024, false);
        let tree = tree(&instance, &db);
        fill(&instance, &tree, 0..1000);
        let log = instance.core().log();
        let written = || {
            let tail = log.tail();
            u64::from(tail.generation.0) * u64::from(log.file_size())
                + u64::from(tail.segment) * 4096
                + u64::from(tail.offset)
        };
        let (before, mut pages) = (written(), 0);
        for page in 1..=db.file.file_pages().unwrap() {
            // Pages that were never written are skipped.
            let zeroed = zero_page(instance.core().services(), &db.file, PageNumber::fixed(page), wanted);
            pages += u64::from(zeroed.is_ok_and(|zeroed| zeroed.changed));
        }
        let each = (written() - before) / pages;
        assert!(pages > 100 && expected.contains(&each), "{each} bytes for each of {pages} pages");
        println!(
            "{wanted} bytes wanted: {each} for each of {pages} pages, {} in a mebibyte",
            (1 << 20) / each
        );
        drop((tree, db));
        instance.shutdown().unwrap();
    }
}

/// Checks that the scan repairs single-bit errors on disk, both in pages that are in memory and in other pages, and
/// that it reports each page once. The same must hold if the scan also overwrites deleted data.
#[test]
fn the_scan_rewrites_pages_with_flipped_bits() {
    for zero in [false, true] {
        the_scan_repairs(zero);
    }
}

fn the_scan_repairs(zero: bool) {
    let disk = SimVfs::new();
    let heard = Arc::new(RecordedEvents::default());
    let (instance, db) = open_with(Arc::new(disk.clone()), 48, false, Some(heard.clone()));
    let tree = tree(&instance, &db);
    fill(&instance, &tree, 0..600);
    let content = disk.contents(Path::new(DB)).unwrap();
    let warm = tree.root;
    drop(db.file.pin(warm).unwrap());
    let is_cold = |page: &PageNumber| db.file.cache.resident(db.file.page_key(*page)).is_none();
    let is_used = |page: &PageNumber| content[SIZE.offset_of(*page) as usize + 8..][..32] != [0; 32];
    let cold = (40..).map(PageNumber::fixed).find(|page| is_used(page) && is_cold(page)).unwrap();
    for page in [warm, cold] {
        disk.flip_bit(Path::new(DB), SIZE.offset_of(page) * 8 + 900 * 8 + 3).unwrap();
    }
    let throttle = MaintenanceThrottle::default();
    assert!(
        instance.start_maintenance(&db, ScanOptions { zero, throttle, ..ScanOptions::default() }).unwrap()
    );
    pass(&db);
    assert_eq!((db.scan_progress().bad, db.scan_progress().corrected), (2, 2));
    let corrected = heard.0.lock().iter().filter(|id| **id == 399).count();
    assert_eq!(corrected, 2);
    instance.core().cache.flush_file(tree.file.file_id).unwrap();
    let repaired = disk.contents(Path::new(DB)).unwrap();
    for page in [warm, cold] {
        let at = SIZE.offset_of(page) as usize;
        let mut now = repaired[at..at + SIZE.bytes()].to_vec();
        assert_eq!(verify_page(&mut now, SIZE, page), PageIntegrity::Good);
        // The page header contains flags that change with each write.
        assert!(zero || now[40..] == content[at + 40..at + SIZE.bytes()], "{page:?}");
    }
    pass(&db);
    assert_eq!((db.scan_progress().bad, db.scan_progress().corrected), (2, 2));
    drop((tree, db));
    instance.shutdown().unwrap();
}

/// Checks that pages to be overwritten are read only once, as part of the scan's batches.
#[test]
fn zeroing_reads_each_page_once() {
    let counted = Arc::new(CountedVfs::new(Arc::new(SimVfs::new())));
    let (instance, db) = open(counted.clone(), 1024, false);
    let tree = tree(&instance, &db);
    fill(&instance, &tree, 0..1000);
    drop((tree, db));
    instance.shutdown().unwrap();
    drop(instance);
    let cache = Cache::new(CacheOptions::new(1024 * SIZE.bytes(), SIZE, Vfs::clock(&*counted)));
    let options = InstanceOptions::with_cache(counted.clone(), "/log".into(), cache)
        .background(BackgroundThreads::None)
        .torn_page_protection(TornPageProtection::Off);
    let instance = Instance::open(options).unwrap();
    let db = instance.attach(Path::new(DB), 256).unwrap();
    let throttle = MaintenanceThrottle::default();
    assert!(
        instance
            .start_maintenance(&db, ScanOptions { zero: true, throttle, ..ScanOptions::default() })
            .unwrap()
    );
    let before = counted.snapshot();
    pass(&db);
    let read = counted.snapshot().since(&before);
    let read = |reason| read.get(reason, IoOperation::Read).operations;
    assert!(db.scan_progress().zeroed > 100, "{:?}", db.scan_progress());
    // The remaining reads are of catalog pages, where the progress is stored.
    assert!(read(IoReason::DatabaseRead) < 10, "{}", read(IoReason::DatabaseRead));
    assert!(read(IoReason::Scan) <= db.scan_progress().reads + 1);
    drop(db);
    instance.shutdown().unwrap();
}

#[derive(Default)]
struct RecordedEvents(Mutex<Vec<u16>>);

impl EventSink for RecordedEvents {
    fn event(&self, event: &Event) {
        self.0.lock().extend(event.describe().id);
    }
}

/// Checks that zeroing and defragmentation wait while most of the cache is dirty, and report the wait if it lasts
/// long. Each step starts writes of dirty pages, so the wait ends.
#[test]
fn page_changing_tasks_pause_when_clean_pages_run_out() {
    const FRAMES: usize = 2500;
    for zeroing in [true, false] {
        let disk = SimVfs::new();
        let (clock, heard) = (disk.sim_clock(), Arc::new(RecordedEvents::default()));
        let (instance, db) = open_with(Arc::new(disk), FRAMES, false, Some(heard.clone()));
        let tree = tree(&instance, &db);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        for row in 0..2200_u32 {
            session.begin().unwrap();
            tree.insert(session.changes().unwrap(), &row.to_be_bytes(), &[7; 3000]).unwrap();
            session.commit().unwrap();
        }
        drop(session);
        let cache = &instance.core().cache;
        let frames = cache.counters().frames as usize;
        let dirty = || cache.counters().dirty as usize;
        assert!(dirty() > frames * 4 / 5, "{} dirty pages", dirty());
        if zeroing {
            let options = ScanOptions { zero: true, ..ScanOptions::default() };
            assert!(instance.start_maintenance(&db, options).unwrap());
        } else {
            assert!(instance.start_defragmentation(&db, DefragOptions::default()).unwrap());
        }
        let worked = || db.scan_progress().pages + db.defrag_progress().pages_visited;
        let mut before = dirty();
        for steps in 0.. {
            assert!(steps < 100, "{} dirty pages", dirty());
            db.scan.step().unwrap();
            db.defragmentation(Default::default()).step().unwrap();
            if worked() > 0 {
                break;
            }
            assert!(before * 2 > frames, "it waits with {before} dirty pages");
            before = dirty();
            clock.advance(Duration::from_millis(600));
        }
        assert!(before * 2 <= frames, "it works with {before} dirty pages");
        let expected = if zeroing { [729, 730, 718] } else { [715, 716, 700] };
        let heard = std::mem::take(&mut *heard.0.lock());
        let heard: Vec<u16> = heard.into_iter().filter(|id| (700..=738).contains(id)).collect();
        assert_eq!(heard, expected);
        drop(tree);
        drop(db);
        instance.shutdown().unwrap();
    }
}

/// Checks that a load that keeps most of the cache dirty slows defragmentation but does not stop it.
#[test]
fn defragmentation_progresses_under_a_write_heavy_load() {
    let disk = SimVfs::new();
    let clock = disk.sim_clock();
    let (instance, db) = open(Arc::new(disk), 2500, false);
    let tree = tree(&instance, &db);
    let cache = &instance.core().cache;
    let mostly_dirty = || cache.counters().dirty * 2 > cache.counters().frames;
    let mut rows = 0_u32..;
    let mut load = || {
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        for row in rows.by_ref().take(300) {
            session.begin().unwrap();
            tree.insert(session.changes().unwrap(), &row.to_be_bytes(), &[7; 3000]).unwrap();
            session.commit().unwrap();
        }
    };
    while !mostly_dirty() {
        load();
    }
    assert!(instance.start_defragmentation(&db, DefragOptions::default()).unwrap());
    let mut steps = 0;
    while db.defrag_progress().pages_visited == 0 {
        assert!(mostly_dirty() && steps < 30, "step {steps}, {:?}", cache.counters());
        db.defragmentation(Default::default()).step().unwrap();
        clock.advance(Duration::from_millis(600));
        load();
        steps += 1;
    }
    assert!(steps > 10, "it did not wait");
    instance.stop_defragmentation(&db);
    drop((tree, db));
    instance.shutdown().unwrap();
}

#[test]
fn the_scan_thread_stops_on_request() {
    let disk = SimVfs::new();
    let (instance, db) = open(Arc::new(disk), 48, true);
    instance.start_scan(&db, Duration::ZERO);
    instance.start_scan(&db, Duration::ZERO);
    let began = Instant::now();
    while db.scan_progress().passes < 20 {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", db.scan_progress());
        jetcell_sync::thread::yield_now();
    }
    let asked = Instant::now();
    instance.stop_scan(&db);
    let stopped = db.scan_progress();
    assert!(!stopped.running && stopped.bad == 0);
    // Even the longest pause does not delay the end of a scan.
    instance.start_scan(&db, Duration::MAX);
    drop(db);
    instance.shutdown().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn a_scan_that_is_stopped_before_its_first_step_gives_up_its_turn() {
    let (instance, first) = open(Arc::new(SimVfs::new()), 256, false);
    let second = instance.create_database(Path::new("/db/second.edb"), &DatabaseOptions::default()).unwrap();
    let throttle = MaintenanceThrottle::pausing(Duration::ZERO);
    let options = ScanOptions { turn: Some(Arc::default()), throttle, ..ScanOptions::default() };
    instance.start_maintenance(&first, options.clone()).unwrap();
    instance.core().begin_backup().unwrap();
    assert!(
        first.scan.step().unwrap().is_some(),
        "the scan has the turn, and waits for the end of the backup"
    );
    instance.stop_scan(&first);
    instance.core().backup_running.store(false, Ordering::SeqCst);
    instance.start_maintenance(&second, options).unwrap();
    second.scan.step().unwrap();
    assert_eq!(second.scan_progress().reads, 1);
}
