//! A test site: an active side with one database whose rows are numbers, and copies of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, Database, DatabaseOptions, EventKind, EventSink,
    IndexDefinition, Instance, InstanceOptions, SeekRelation, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnId, ColumnType, Value};
use jetcell_backup::BackupOptions;
use jetcell_copies::{
    CopyState, DirectorySource, ReplayOptions, Replicator, Result, SeedOptions, SeedResult, StreamDirectory,
    seed_stopped,
};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{FileStem, SimVfs, Vfs};

pub const SIZE: PageSize = PageSize::KIB_4;
pub const ACTIVE: &str = "/active";
pub const COPY: &str = "/copy";
/// Limit that prevents all removal of logs.
pub const KEEP: u32 = u32::MAX;

/// A running instance, with its logs and its database in one directory.
pub struct ActiveInstance {
    pub instance: Arc<Instance>,
    pub database: Arc<Database>,
}

/// Records the events of one side.
#[derive(Default)]
pub struct ReceivedEvents(pub Mutex<Vec<EventKind>>);

impl EventSink for ReceivedEvents {
    fn event(&self, event: &ese_engine::Event) {
        self.0.lock().push(event.kind.clone());
    }
}

impl ReceivedEvents {
    /// Returns the copy events since the last call, with their names and numbers.
    pub fn take_copy_events(&self) -> Vec<(&'static str, Option<u16>)> {
        let heard = std::mem::take(&mut *self.0.lock());
        let of_copies = heard.iter().filter(|kind| matches!(kind, EventKind::Copy { .. }));
        of_copies.map(|kind| (kind.name(), kind.describe(Default::default()).id)).collect()
    }
}

pub fn vfs(disk: &SimVfs) -> Arc<dyn Vfs> {
    Arc::new(disk.clone())
}

/// Returns the definition of a table of numbers.
pub fn table(name: &str) -> TableDefinition {
    TableDefinition {
        name: name.to_string(),
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("body", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("by key", &["key"]).primary()],
        ..TableDefinition::default()
    }
}

impl ActiveInstance {
    /// Opens the instance in a directory. Creates the database if it does not exist.
    ///
    /// The instance removes logs that neither redo nor a copy needs. A copy may lag by up to `limit` generations.
    pub fn open(disk: &SimVfs, directory: &str, limit: u32) -> ActiveInstance {
        ActiveInstance::open_with(disk, directory, limit, None)
    }

    /// Opens the instance like [`ActiveInstance::open`], with a receiver of events.
    pub fn open_heard(
        disk: &SimVfs,
        directory: &str,
        limit: u32,
        events: Arc<dyn EventSink>,
    ) -> ActiveInstance {
        ActiveInstance::open_with(disk, directory, limit, Some(events))
    }

    fn open_with(
        disk: &SimVfs,
        directory: &str,
        limit: u32,
        events: Option<Arc<dyn EventSink>>,
    ) -> ActiveInstance {
        let (files, directory) = (vfs(disk), Path::new(directory));
        files.create_directory(directory).unwrap();
        let cache = Cache::new(CacheOptions::new(256 * SIZE.bytes(), SIZE, files.clock()));
        let mut options = InstanceOptions::with_cache(files.clone(), directory.to_path_buf(), cache);
        (options.background, options.log.file_size, options.log.circular) =
            (BackgroundThreads::None, 64 << 10, limit != KEEP);
        (options.checkpoint.depth, options.copies.lag_limit) = (128 << 10, limit);
        options.events.sink = events;
        let instance = Instance::open(options).unwrap();
        let path = directory.join("data.edb");
        if files.exists(&path).unwrap() {
            let database = instance.attach(&path, 32).unwrap();
            return ActiveInstance { instance, database };
        }
        let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
        let database = instance.create_database(&path, &create).unwrap();
        let mut session = instance.session();
        session.begin().unwrap();
        session.create_table(&database, &table("t")).unwrap();
        session.commit(CommitMode::Durable).unwrap();
        ActiveInstance { instance, database }
    }

    /// Inserts rows with these numbers. A hundred rows fill more than one log.
    pub fn insert(&self, keys: std::ops::Range<i32>) {
        let mut session = self.instance.session();
        let mut table = session.open_table(&self.database, "t").unwrap();
        for key in keys {
            session.begin().unwrap();
            let body = Value::Binary(vec![key as u8; 1000]);
            table.insert(&mut session, &[(ColumnId(1), Value::Long(key)), (ColumnId(256), body)]).unwrap();
            session.commit(CommitMode::Lazy).unwrap();
            self.instance.step().unwrap();
        }
        self.instance.flush().unwrap();
    }

    /// Replaces the bodies of existing rows.
    pub fn replace(&self, keys: std::ops::Range<i32>, byte: u8) {
        let mut session = self.instance.session();
        let mut table = session.open_table(&self.database, "t").unwrap();
        for key in keys {
            session.begin().unwrap();
            assert!(table.seek(&mut session, &[Value::Long(key)], SeekRelation::Equal).unwrap());
            table.replace(&mut session, &[(ColumnId(256), Value::Binary(vec![byte; 1000]))]).unwrap();
            session.commit(CommitMode::Lazy).unwrap();
            self.instance.step().unwrap();
        }
        self.instance.flush().unwrap();
    }

    /// Returns the numbers of all rows.
    pub fn keys(&self) -> BTreeSet<i32> {
        let mut session = self.instance.session();
        let mut table = session.open_table(&self.database, "t").unwrap();
        let mut keys = BTreeSet::new();
        let mut more = table.first(&mut session).unwrap();
        while more {
            let Value::Long(key) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!("no number") };
            keys.insert(key);
            more = table.next(&mut session).unwrap();
        }
        keys
    }

    /// Closes the current generation and starts the next one.
    pub fn roll(&self) {
        self.instance.core().log().roll_over().unwrap();
        self.instance.step().unwrap();
    }

    /// Shuts the instance down cleanly.
    pub fn close(self) {
        let ActiveInstance { instance, database } = self;
        drop(database);
        instance.shutdown().unwrap();
    }
}

/// Returns the logs of a directory.
pub fn logs(disk: &SimVfs, directory: &str) -> StreamDirectory {
    StreamDirectory::new(&vfs(disk), Path::new(directory), FileStem::E00, Default::default())
}

pub fn source(disk: &SimVfs) -> DirectorySource {
    DirectorySource::new(logs(disk, ACTIVE))
}

pub fn seed_options(again: bool) -> SeedOptions {
    SeedOptions {
        backup: BackupOptions { threads: false, save_bytes: 1, ..BackupOptions::default() },
        replace_existing: again,
    }
}

/// Seeds the copy from the stopped active side.
pub fn seed(disk: &SimVfs, again: bool) -> Result<SeedResult> {
    seed_to(disk, Path::new(COPY), again)
}

/// Seeds a copy in the given directory from the stopped active side.
pub fn seed_to(disk: &SimVfs, copy: &Path, again: bool) -> Result<SeedResult> {
    let files: Vec<PathBuf> =
        disk.list(Path::new(ACTIVE)).map_err(|error| ese_engine::Error::io(ACTIVE, &error))?;
    seed_stopped(&vfs(disk), &files, copy, &source(disk), &seed_options(again))
}

pub fn replay_options() -> ReplayOptions {
    ReplayOptions {
        threads: false,
        cache_bytes: 1 << 20,
        checkpoint_depth: 128 << 10,
        ..ReplayOptions::default()
    }
}

pub fn follow(disk: &SimVfs) -> Result<Replicator> {
    Replicator::open(&vfs(disk), Path::new(COPY), Box::new(source(disk)), replay_options())
}

/// Steps the copy until no work is left, and stops it.
pub fn catch_up(disk: &SimVfs) -> Result<CopyState> {
    let mut copy = follow(disk)?;
    loop {
        let step = copy.step()?;
        if let Some(error) = step.waiting {
            return Err(error);
        }
        if step.is_idle() {
            return copy.stop();
        }
    }
}

/// Creates a stopped active side with `rows` rows, and a copy of it.
pub fn seeded(rows: i32) -> SimVfs {
    let disk = SimVfs::new();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(0..rows);
    site.close();
    seed(&disk, false).unwrap();
    disk
}

/// Returns the comparable pages of a database.
pub fn pages(disk: &SimVfs, path: &str) -> Vec<Vec<u8>> {
    testkit::pages::comparable(&disk.contents(Path::new(path)).unwrap(), SIZE.bytes())
}
