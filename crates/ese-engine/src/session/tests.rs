//! Tests of failed statements whose rollback fails too.

use std::path::Path;

use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};

use crate::btree::tests::{contents, create_tree};
use crate::btree::{DescentTarget, Tree};
use crate::cache::{Cache, CacheOptions, EvictionPolicy};
use crate::database::Database;
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;
use crate::{BackgroundThreads, DatabaseOptions, Error, Instance, InstanceOptions, Result};

const SIZE: PageSize = PageSize::KIB_4;
const PATH: &str = "/db/one.edb";
/// Number of records. Together, they are many times larger than the cache.
pub(crate) const RECORDS: u32 = 2000;

/// A tree whose keys are record numbers, on a simulated disk whose pages can be damaged.
pub(crate) struct TreeFixture {
    disk: SimVfs,
    faults: Arc<FaultVfs>,
    cache: Arc<Cache>,
    pub instance: Arc<Instance>,
    db: Arc<Database>,
    pub tree: Arc<Tree>,
}

impl TreeFixture {
    pub fn new() -> TreeFixture {
        let disk = SimVfs::new();
        let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        for directory in ["/db", "/log"] {
            faults.create_directory(Path::new(directory)).unwrap();
        }
        // Changed pages are written only when they are evicted.
        let options = CacheOptions {
            eviction: EvictionPolicy::WriteBack,
            ..CacheOptions::new(64 * SIZE.bytes(), SIZE, disk.clock())
        };
        let cache = Cache::new(options);
        let mut options = InstanceOptions::with_cache(faults.clone(), "/log".into(), cache.clone());
        options.background = BackgroundThreads::None;
        let instance = Instance::open(options).unwrap();
        let db = instance.create_database(Path::new(PATH), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        let fixture = TreeFixture { disk, faults, cache, instance, db, tree };
        let mut session = fixture.session(1);
        for record in 0..RECORDS {
            session.begin().unwrap();
            fixture.tree.insert(session.changes().unwrap(), &record.to_be_bytes(), &[1; 300]).unwrap();
            session.commit().unwrap();
            fixture.instance.step().unwrap();
        }
        fixture
    }

    pub fn session(&self, number: u16) -> ActiveTransaction {
        ActiveTransaction::new(self.instance.core().clone(), number)
    }

    pub fn leaf(&self, key: &[u8]) -> PageNumber {
        self.tree.leaf_for_read(DescentTarget::Key(key)).unwrap().key().page
    }

    /// Writes all pages, then reads other pages until `page` is evicted. `page` must be near the end of the tree.
    pub fn evict(&self, page: PageNumber) {
        self.instance.flush().unwrap();
        self.cache.flush_file(self.db.file_id()).unwrap();
        drop(contents(&self.tree, &ReadView::latest()));
        assert!(self.db.file.resident(page).is_none());
    }

    /// Damages a page on disk. A second call restores the page.
    pub fn invert(&self, page: PageNumber) {
        let path = Path::new(PATH);
        let at = SIZE.offset_of(page) as usize + SIZE.bytes() / 2;
        let inverted = [!self.disk.contents(path).unwrap()[at]];
        self.disk.corrupt(path, at as u64, &inverted).unwrap();
    }

    fn break_reads(&self) {
        let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
        self.faults.inject(fault.on_path(PATH).repeating());
    }

    /// Runs a statement that inserts a record and then fails. The rollback cannot undo the insert.
    fn statement(&self, session: &mut ActiveTransaction, key: &[u8]) -> Result<()> {
        session.statement(true, |session| {
            self.tree.insert(session.changes().unwrap(), key, b"data")?;
            self.evict(self.leaf(key));
            self.break_reads();
            Err(Error::KeyDuplicate)
        })
    }

    pub fn has(&self, key: &[u8]) -> bool {
        self.tree.get(&ReadView::latest(), key, |_| ()).unwrap().is_some()
    }
}

/// Checks that a session with one open level needs only one rollback to end all levels.
#[test]
fn a_statement_that_cannot_be_undone_keeps_the_session_level() {
    let fixture = TreeFixture::new();
    let mut session = fixture.session(1);
    session.begin().unwrap();
    fixture.tree.insert(session.changes().unwrap(), b"za", b"of the user").unwrap();
    let failed = fixture.statement(&mut session, b"zb").unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    assert_eq!(session.level(), 1);
    let half = [session.begin().err(), session.commit().err()];
    assert!(half.iter().all(|error| matches!(error, Some(Error::Usage(_)))), "{half:?}");
    assert!(session.rollback().is_err(), "pages cannot be read yet");
    assert_eq!(session.level(), 1);

    fixture.faults.clear();
    session.rollback().unwrap();
    assert_eq!(session.level(), 0);
    assert!(!fixture.has(b"za") && !fixture.has(b"zb"));
    // The next `begin` starts a new transaction, which the matching `commit` ends.
    session.begin().unwrap();
    fixture.tree.insert(session.changes().unwrap(), b"zc", b"data").unwrap();
    assert!(session.commit().unwrap().is_some());
    drop(session);
    assert!(fixture.has(b"zc"));
}

/// Checks that one rollback undoes two nested failed statements. The level outside both is the second one that the
/// user began.
#[test]
fn a_single_rollback_undoes_nested_failed_statements() {
    let fixture = TreeFixture::new();
    let mut session = fixture.session(1);
    session.begin().unwrap();
    fixture.tree.insert(session.changes().unwrap(), b"za", b"of the user").unwrap();
    session.begin().unwrap();
    let failed = session.statement(true, |session| {
        fixture.tree.insert(session.changes().unwrap(), b"zb", b"data")?;
        fixture.statement(session, b"zc")
    });
    assert!(matches!(failed, Err(Error::Io { .. })));
    assert_eq!(session.level(), 2);

    fixture.faults.clear();
    session.rollback().unwrap();
    assert_eq!(session.level(), 1);
    assert!(session.commit().unwrap().is_some());
    let expected = ["a", "b", "c"].map(|letter| fixture.has(format!("z{letter}").as_bytes()));
    assert_eq!(expected, [true, false, false]);
}

#[test]
fn transactions_nest_seven_deep() {
    let fixture = TreeFixture::new();
    let mut session = fixture.session(1);
    for level in 1..=7 {
        session.begin().unwrap();
        assert_eq!(session.level(), level);
    }
    assert!(matches!(session.begin(), Err(Error::Usage(_))));
    for level in (0..7).rev() {
        session.commit().unwrap();
        assert_eq!(session.level(), level);
    }
}
