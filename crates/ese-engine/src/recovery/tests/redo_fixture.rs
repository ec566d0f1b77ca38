//! Fixture for redoing single records on a database that tests fill with pages.

use std::path::Path;

use ese_format::header::DatabaseState;
use ese_format::log::record::{
    DatabaseIdInLog, Insert, LogRecord, Macro, NodeChange, PageChange, PageChangeFlags,
};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{DbTime, LogPosition, PageNumber, PageSize, TreeId};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, OpenMode, SimVfs, Vfs};

use crate::btree::tests::open;
use crate::database::Database;
use crate::log::{LogNames, LogReader, PositionedRecord};
use crate::recovery::decode;
use crate::recovery::redo::{Redo, UndoInfos};
use crate::recovery::replay_window::ReplayWindow;
use crate::storage::{OpenedFile, read_header};
use crate::{DatabaseOptions, Instance, Result};

pub(super) const SIZE: PageSize = PageSize::KIB_4;
/// Session number in the records.
pub(super) const PROCID: u16 = 5;
/// Id of the tree in the records. The next constant is its root.
pub(super) const TREE: TreeId = TreeId(2);
pub(super) const ROOT: u32 = 4;
const DATABASE: u8 = 1;
const FILE: &str = "/db/replayed.edb";

/// A database that starts without pages, and on which records can be redone.
pub(super) struct RedoFixture {
    _instance: Arc<Instance>,
    database: Arc<Database>,
    log: Arc<LogReader>,
    redo: Redo,
    next: LogPosition,
}

impl RedoFixture {
    pub fn new(pages: usize) -> RedoFixture {
        RedoFixture::on(&vec![0; pages * SIZE.bytes()])
    }

    /// Creates a fixture for a database with these pages.
    pub fn on(pages: &[u8]) -> RedoFixture {
        let disk = SimVfs::new();
        let instance = open(&disk, SIZE, 2048).unwrap();
        let other = instance.create_database(Path::new("/db/one.edb"), &DatabaseOptions::default()).unwrap();
        instance.detach(&other).unwrap();
        instance.flush().unwrap();
        let mut bytes = disk.contents(Path::new("/db/one.edb")).unwrap();
        bytes.truncate(2 * SIZE.bytes());
        bytes.extend_from_slice(pages);
        disk.put(Path::new(FILE), &bytes);
        let vfs: Arc<dyn Vfs> = Arc::new(disk);
        let file = vfs.open(Path::new(FILE), OpenMode::Write).unwrap();
        let lock = vfs.lock(Path::new(FILE)).unwrap();
        let (mut header, _) = read_header(&*file).unwrap();
        header.state = DatabaseState::DirtyShutdown;
        let path = FILE.into();
        let logged_path = FILE.to_string();
        let opened =
            OpenedFile { path, logged_path, file, lock, header, extension_pages: 16, double_write: None };
        let core = instance.core().clone();
        let database = core.attach(opened, DATABASE);
        let log = LogReader::open(vfs, LogNames::new(Path::new("/log"), FileStem::E00)).unwrap();
        let log = Arc::new(log.unwrap());
        let grant = core.cache.grant_memory(0);
        let redo = Redo::new(core, log.clone(), 1, UndoInfos::new(), grant);
        RedoFixture { _instance: instance, database, log, redo, next: LogPosition::new(1, 1, 0) }
    }

    /// Writes a page to the database.
    pub fn put(&self, page: u32, bytes: &[u8]) {
        let pinned = self.database.file.pin_new(PageNumber::fixed(page)).unwrap();
        let mut latch = pinned.write();
        latch.copy_from_slice(bytes);
        latch.mark_dirty(LogPosition::MIN);
    }

    /// Returns the content of a page.
    pub fn page(&self, page: u32) -> Vec<u8> {
        self.database.file.pin(PageNumber::fixed(page)).unwrap().read().to_vec()
    }

    /// Returns whether the database contains the page.
    pub fn has_page(&self, page: u32) -> bool {
        self.database.file.pin(PageNumber::fixed(page)).is_ok()
    }

    /// Redoes records, each in a separate segment.
    pub fn replay(&mut self, records: &[LogRecord]) -> Result<()> {
        let stored = records.iter().map(|record| {
            let start = self.next;
            self.next = LogPosition::new(start.generation.0, start.segment + 1, 0);
            PositionedRecord { start, end: self.next, bytes: record.to_bytes() }
        });
        let stored: Vec<_> = stored.collect();
        self.replay_stored(stored)
    }

    /// Redoes records read from a log.
    pub fn replay_stored(&mut self, records: Vec<PositionedRecord>) -> Result<()> {
        let mut window = ReplayWindow::new(usize::MAX);
        records.into_iter().for_each(|stored| window.push(stored).unwrap());
        let ReplayWindow { records, payloads, .. } = window;
        for buffered in records {
            let record = decode(&self.log, &buffered)?;
            self.redo.record(buffered, record, &payloads)?;
        }
        self.redo.replay_pages(&payloads)
    }

    /// Ends redo. Returns the number of transactions that undo would roll back.
    pub fn finish(self) -> Result<usize> {
        self.redo.finish().map(|unfinished| unfinished.transactions.len())
    }

    /// Returns the number of page changes that redo made.
    pub fn applied(&self) -> u64 {
        self.redo.applied
    }
}

/// Content of a page, excluding node offsets, checksum and flush type.
#[derive(PartialEq, Debug)]
pub(super) struct PageContent {
    time: u64,
    links: [Option<PageNumber>; 2],
    tree: u32,
    flags: PageFlags,
    free: usize,
    uncommitted_free: usize,
    external_header: Vec<u8>,
    nodes: Vec<(Vec<u8>, Vec<u8>, NodeFlags)>,
}

impl PageContent {
    pub fn from_bytes(bytes: &[u8]) -> PageContent {
        let page = Page::new(bytes, SIZE);
        PageContent {
            time: page.db_time().0,
            links: [page.prev(), page.next()],
            tree: page.tree().0,
            flags: page.flags() - PageFlags::FLUSH_TYPE - PageFlags::NEW_CHECKSUM,
            free: page.free_bytes(),
            uncommitted_free: page.uncommitted_free(),
            external_header: page.external_header().to_vec(),
            nodes: page.nodes().map(|node| (node.key_to_vec(), node.data.to_vec(), node.flags)).collect(),
        }
    }
}

/// Returns the records in a log from a position on, excluding those about whole databases.
pub(super) fn records_from(log: &LogReader, from: LogPosition) -> Vec<PositionedRecord> {
    let mut records = Vec::new();
    log.read_from(from, |stored| {
        let database_level = matches!(
            LogRecord::decode(&stored.bytes).unwrap().0,
            LogRecord::CreateDb(_)
                | LogRecord::AttachDb(_)
                | LogRecord::DetachDb(_)
                | LogRecord::SetDbVersion(_)
        );
        if !database_level {
            records.push(stored);
        }
        Ok(())
    })
    .unwrap();
    records
}

/// Creates a page with these nodes.
pub(super) fn page_of(
    page: u32,
    time: u64,
    flags: PageFlags,
    prefix: &[u8],
    nodes: &[(&str, &str)],
) -> Vec<u8> {
    let mut bytes = vec![0; SIZE.bytes()];
    let mut built = PageMut::format(&mut bytes, SIZE, PageNumber::fixed(page), TREE, flags);
    built.set_external_header(prefix).unwrap();
    for (line, (key, data)) in nodes.iter().enumerate() {
        built.insert_node(line, NodeFlags::empty(), key.as_bytes(), data.as_bytes()).unwrap();
    }
    built.set_db_time(DbTime(time));
    bytes
}

/// Creates an internal page with these entries.
pub(super) fn parent_of(page: u32, time: u64, flags: PageFlags, entries: &[(&str, u32)]) -> Vec<u8> {
    let mut bytes = page_of(page, time, flags | PageFlags::PARENT_OF_LEAF, &[], &[]);
    let mut built = PageMut::new(&mut bytes, SIZE);
    for (line, (key, child)) in entries.iter().enumerate() {
        built.insert_node(line, NodeFlags::empty(), key.as_bytes(), &child.to_le_bytes()).unwrap();
    }
    bytes
}

/// Returns the nodes of a page as text. On an internal page, the data is shown as the page numbers of the children.
pub(super) fn nodes(bytes: &[u8]) -> Vec<(String, String)> {
    let page = Page::new(bytes, SIZE);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    page.nodes()
        .map(|node| {
            if page.is_leaf() {
                (text(&node.key_to_vec()), text(node.data))
            } else {
                (text(&node.key_to_vec()), node.child().unwrap().to_string())
            }
        })
        .collect()
}

pub(super) fn keys(bytes: &[u8]) -> String {
    nodes(bytes).into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(" ")
}

pub(super) fn change(page: u32, [before, after]: [u64; 2], line: u16) -> PageChange {
    PageChange {
        procid: PROCID,
        database: DatabaseIdInLog(DATABASE),
        page: PageNumber::fixed(page),
        after: DbTime(after),
        before: DbTime(before),
        begin0: 0,
        level: 0,
        line,
        flags: PageChangeFlags::UNIQUE,
    }
}

pub(super) fn node(page: u32, times: [u64; 2], line: u16) -> NodeChange {
    NodeChange { page: change(page, times, line), rceid: 0, root: PageNumber::new(ROOT), tree: TREE }
}

pub(super) fn insert(page: u32, times: [u64; 2], line: u16, key: &str) -> LogRecord {
    let (suffix, data) = (key.as_bytes().to_vec(), b"new".to_vec());
    LogRecord::Insert(Insert { node: node(page, times, line), prefix: Vec::new(), suffix, data })
}

/// Wraps the records in a macro with this time.
pub(super) fn in_macro(time: u64, records: impl IntoIterator<Item = LogRecord>) -> Vec<LogRecord> {
    let bracket = Macro { procid: PROCID, db_time: DbTime(time) };
    let begin = [LogRecord::MacroBegin(bracket)];
    begin.into_iter().chain(records).chain([LogRecord::MacroCommit(bracket)]).collect()
}
