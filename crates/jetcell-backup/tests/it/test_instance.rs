//! A test instance with one database whose rows are numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, Database, DatabaseOptions, IndexDefinition, Instance,
    InstanceOptions, TableDefinition,
};
use ese_format::record::{ColumnId, ColumnType, Value};
use ese_format::{LogPosition, PageSize};
use jetcell_backup::{
    BackupError, BackupOptions, BackupResult, BackupSetError, BackupType, ReplayEnd, RestoreOptions,
    RestoreResult, Result, back_up, back_up_stopped, restore,
};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

pub const SIZE: PageSize = PageSize::KIB_4;

/// A running instance. Its logs and its database are in one directory.
pub struct TestInstance {
    pub files: Arc<dyn Vfs>,
    pub instance: Arc<Instance>,
    pub database: Arc<Database>,
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

impl TestInstance {
    /// Opens the instance in a directory. Creates the database with `pages` pages if it does not exist.
    pub fn open(files: &Arc<dyn Vfs>, directory: &str, pages: u32) -> TestInstance {
        let directory = Path::new(directory);
        files.create_directory(directory).unwrap();
        let cache = Cache::new(CacheOptions::new(256 * SIZE.bytes(), SIZE, files.clock()));
        let mut options = InstanceOptions::with_cache(files.clone(), directory.to_path_buf(), cache);
        (options.background, options.log.file_size) = (BackgroundThreads::None, 64 << 10);
        let instance = Instance::open(options).unwrap();
        let path = directory.join("data.edb");
        if files.exists(&path).unwrap() {
            let database = instance.attach(&path, 32).unwrap();
            return TestInstance { files: files.clone(), instance, database };
        }
        let create = DatabaseOptions { initial_pages: pages, extension_pages: 32 };
        let database = instance.create_database(&path, &create).unwrap();
        let mut session = instance.session();
        session.begin().unwrap();
        session.create_table(&database, &table("t")).unwrap();
        session.commit(CommitMode::Durable).unwrap();
        TestInstance { files: files.clone(), instance, database }
    }

    /// Inserts rows with these numbers. A hundred rows fill more than one log. Returns the position of the commit.
    pub fn insert(&self, keys: std::ops::Range<i32>) -> LogPosition {
        let mut session = self.instance.session();
        let mut table = session.open_table(&self.database, "t").unwrap();
        for key in keys {
            session.begin().unwrap();
            let body = Value::Binary(vec![key as u8; 1000]);
            table.insert(&mut session, &[(ColumnId(1), Value::Long(key)), (ColumnId(256), body)]).unwrap();
            session.commit(CommitMode::Lazy).unwrap();
        }
        self.instance.flush().unwrap()
    }

    /// Returns the numbers of all rows.
    pub fn keys(&self) -> BTreeSet<i32> {
        let mut session = self.instance.session();
        let mut table = session.open_table(&self.database, "t").unwrap();
        session.begin().unwrap();
        let mut keys = BTreeSet::new();
        let mut more = table.first(&mut session).unwrap();
        while more {
            let Value::Long(key) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!("no number") };
            keys.insert(key);
            more = table.next(&mut session).unwrap();
        }
        session.commit(CommitMode::Lazy).unwrap();
        keys
    }

    /// Backs up the instance while it runs.
    pub fn back_up(&self, to: &str, kind: BackupType, parent: Option<&str>) -> Result<BackupResult> {
        back_up(&self.instance, &self.files, Path::new(to), &options(kind, parent))
    }

    /// Shuts the instance down cleanly.
    pub fn close(self) {
        let TestInstance { instance, database, .. } = self;
        drop(database);
        instance.shutdown().unwrap();
    }
}

/// Returns backup options without threads. The disk then receives the same operations in each run.
pub fn options(kind: BackupType, parent: Option<&str>) -> BackupOptions {
    BackupOptions { kind, parent: parent.map(PathBuf::from), threads: false, ..BackupOptions::default() }
}

/// Backs up a stopped instance from its directory.
pub fn back_up_directory(
    files: &Arc<dyn Vfs>,
    from: &str,
    to: &str,
    options: &BackupOptions,
) -> Result<BackupResult> {
    back_up_stopped(files, &files.list(Path::new(from)).unwrap(), Path::new(to), options)
}

/// Restores backups into a new directory, up to a position if one is given.
pub fn restore_to(
    files: &Arc<dyn Vfs>,
    backups: &[&str],
    to: &str,
    until: Option<LogPosition>,
) -> Result<RestoreResult> {
    let until = until.map(ReplayEnd::Position);
    let backups: Vec<PathBuf> = backups.iter().map(PathBuf::from).collect();
    restore(files, &backups, Path::new(to), &RestoreOptions { until, ..RestoreOptions::default() })
}

/// Returns the problem for which a backup or restore was refused.
pub fn set_error<T>(result: Result<T>) -> BackupSetError {
    match result {
        Err(BackupError::Set(error)) => error,
        Err(other) => panic!("{other} ({other:?})"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Returns a simulated disk.
pub fn disk() -> (SimVfs, Arc<dyn Vfs>) {
    let disk = SimVfs::new();
    (disk.clone(), Arc::new(disk))
}
