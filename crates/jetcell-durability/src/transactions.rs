//! Durable ESE engine commits on the tested storage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, Database, DatabaseOptions, Error, IndexDefinition,
    Instance, InstanceOptions, Result, SeekRelation, TableDefinition,
};
use ese_format::record::{ColumnFlags, ColumnType, Value};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, SimVfs, Vfs};

use super::operation::BLOCK_BYTES;

/// The engine's directory, below the test's directory.
const DIRECTORY: &str = "engine";
const DATABASE: &str = "durability.edb";
const TABLE: &str = "Commits";
/// Size of a row's body in bytes, large enough that commits fill pages and logs.
const BODY_BYTES: usize = 700;

/// An engine instance that commits one row at a time.
pub(crate) struct CommittingEngine {
    instance: Arc<Instance>,
    database: Arc<Database>,
}

fn options(vfs: Arc<dyn Vfs>, directory: PathBuf) -> InstanceOptions {
    // Without background threads, the engine behaves identically on every run.
    InstanceOptions::with_vfs(vfs, directory)
        .log_file_size(256 << 10)
        .checkpoint_depth(1 << 20)
        .cache_bytes(4 << 20)
        .circular_log(true)
        .background(BackgroundThreads::None)
}

fn body(row: i32) -> Vec<u8> {
    (0..BODY_BYTES).map(|at| (row as usize).wrapping_mul(31).wrapping_add(at) as u8).collect()
}

impl CommittingEngine {
    /// Creates an instance with an empty table. Both are durable when this function returns.
    pub(crate) fn create(vfs: Arc<dyn Vfs>, directory: &Path) -> Result<CommittingEngine> {
        let directory = directory.join(DIRECTORY);
        vfs.create_directory(&directory).map_err(|error| Error::io(&directory, &error))?;
        let path = directory.join(DATABASE);
        let instance = Instance::open(options(vfs, directory))?;
        let database = instance.create_database(&path, &DatabaseOptions::default())?;
        let mut session = instance.session();
        session.begin()?;
        session.create_table(
            &database,
            &TableDefinition {
                name: TABLE.into(),
                columns: vec![
                    ColumnDefinition::new("Row", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
                    ColumnDefinition::new("Body", ColumnType::LongBinary),
                ],
                indexes: vec![IndexDefinition::new("ByRow", &["Row"]).primary()],
                ..TableDefinition::default()
            },
        )?;
        session.commit(CommitMode::Durable)?;
        drop(session);
        Ok(CommittingEngine { instance, database })
    }

    /// Inserts a row in a durable commit.
    pub(crate) fn commit(&self, row: i32) -> Result<()> {
        let mut session = self.instance.session();
        session.begin()?;
        let mut table = session.open_table(&self.database, TABLE)?;
        let [key, value] = ["Row", "Body"].map(|name| table.column(name));
        let columns = key.zip(value).ok_or(Error::RecordNotFound)?;
        table
            .insert(&mut session, &[(columns.0, Value::Long(row)), (columns.1, Value::Binary(body(row)))])?;
        session.commit(CommitMode::Durable)?;
        drop((table, session));
        self.instance.step()?;
        Ok(())
    }
}

/// Recovers an in-memory copy of the instance. Returns the rows from 1 to `last` that are missing.
pub(crate) fn missing_rows(
    vfs: &dyn Vfs,
    directory: &Path,
    written_at: &Path,
    last: i32,
) -> Result<Vec<i32>> {
    let (found_in, logged_as) = (directory.join(DIRECTORY), written_at.join(DIRECTORY));
    let copy = SimVfs::new();
    for path in vfs.list(&found_in).map_err(|error| Error::io(&found_in, &error))? {
        let bytes = read_whole_blocks(vfs, &path).map_err(|error| Error::io(&path, &error))?;
        if let Some(name) = path.file_name() {
            copy.put(&logged_as.join(name), &bytes);
        }
    }
    let path = logged_as.join(DATABASE);
    let instance = Instance::open(options(Arc::new(copy), logged_as))?;
    let database = instance.attach(&path, 64)?;
    let mut session = instance.session();
    let mut table = session.open_table(&database, TABLE)?;
    let value = table.column("Body").ok_or(Error::RecordNotFound)?;
    let mut missing = Vec::new();
    for row in 1..=last {
        let found = table.seek(&mut session, &[Value::Long(row)], SeekRelation::Equal)?
            && table.get(&mut session, value)? == Value::Binary(body(row));
        if !found {
            missing.push(row);
        }
    }
    Ok(missing)
}

/// Reads all complete blocks of a file.
pub(crate) fn read_whole_blocks(vfs: &dyn Vfs, path: &Path) -> std::io::Result<IoBuffer> {
    let file = vfs.open(path, OpenMode::Read)?;
    let blocks = usize::try_from(file.len()?).unwrap_or(usize::MAX) / BLOCK_BYTES;
    let mut bytes = IoBuffer::try_zeroed(blocks * BLOCK_BYTES).ok_or(std::io::ErrorKind::OutOfMemory)?;
    if blocks > 0 {
        file.read_at(0, &mut bytes, IoReason::Verify)?;
    }
    Ok(bytes)
}
