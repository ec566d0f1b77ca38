//! The tables and rows that `kill-child` writes and its parents expect, and its reports to the parents.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    ColumnDefinition, CommitMode, DatabaseOptions, Error, FileError, IndexDefinition, Instance,
    InstanceOptions, Result, Session, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnType, Value};
use jetcell_vfs::{RealOptions, RealVfs, Vfs};

/// Number of threads in the child.
pub const THREADS: i32 = 4;
/// Number of rows that one transaction writes.
pub const ROWS: i32 = 5;

/// Returns the real file system.
pub fn disk() -> Result<Arc<dyn Vfs>> {
    let vfs = RealVfs::new(RealOptions::default()).map_err(|e| Error::io("/", &e))?;
    Ok(Arc::new(vfs))
}

/// Opens the instance in a directory, with recovery.
pub fn open(directory: &Path) -> Result<(Arc<Instance>, Arc<Database>)> {
    let vfs = disk()?;
    let size = PageSize::KIB_8;
    let cache = Cache::new(CacheOptions::new(128 * size.bytes(), size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs.clone(), directory.to_path_buf(), cache);
    options.log.file_size = 256 << 10;
    options.checkpoint.depth = 1 << 20;
    options.log.circular = true;
    let instance = Instance::open(options)?;
    let path = directory.join("killed.edb");
    let db = if vfs.exists(&path).map_err(|e| Error::io(&path, &e))? {
        match instance.attach(&path, 64) {
            // The kill interrupted the creation of the database.
            Err(Error::File { error: FileError::CreationInterrupted | FileError::NoHeader, .. }) => {
                vfs.remove(&path).map_err(|e| Error::io(&path, &e))?;
                instance.create_database(&path, &DatabaseOptions::default())?
            }
            attached => attached?,
        }
    } else {
        instance.create_database(&path, &DatabaseOptions::default())?
    };
    Ok((instance, db))
}

/// Creates the table if it does not exist.
pub fn create_if_new(instance: &Arc<Instance>, db: &Arc<Database>) -> Result<()> {
    let mut session = instance.session();
    if session.tables(db)?.iter().any(|name| name == "Rows") {
        return Ok(());
    }
    session.begin()?;
    session.create_table(
        db,
        &TableDefinition {
            name: "Rows".to_string(),
            columns: vec![
                ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
                ColumnDefinition::new("Number", ColumnType::Long),
                ColumnDefinition::new("Body", ColumnType::LongBinary),
            ],
            indexes: vec![
                IndexDefinition::new("ById", &["Id"]).primary(),
                IndexDefinition::new("ByNumber", &["Number"]),
            ],
            pages: 4,
            ..TableDefinition::default()
        },
    )?;
    session.commit(CommitMode::Durable)?;
    Ok(())
}

/// Writes a number into all rows of a thread.
pub fn write_rows(s: &mut Session, db: &Arc<Database>, thread: i32, number: i32) -> Result<()> {
    let mut table = s.open_table(db, "Rows")?;
    let [id, column, body] =
        ["Id", "Number", "Body"].map(|name| table.column(name).expect("the table has it"));
    for row in 0..ROWS {
        let key = Value::Long(row * 1000 + thread);
        let len = (number.unsigned_abs() as usize * 37 + row as usize * 911) % 9000;
        let values = [(column, Value::Long(number)), (body, Value::Binary(vec![number as u8; len]))];
        if table.seek(s, std::slice::from_ref(&key), SeekRelation::Equal)? {
            table.replace(s, &values)?;
        } else {
            table.insert(s, &[&[(id, key)][..], &values].concat())?;
        }
    }
    Ok(())
}

/// Returns the number that all rows of a thread contain, or 0 if there are no rows. Panics if the numbers differ.
pub fn read_number(s: &mut Session, db: &Arc<Database>, thread: i32) -> Result<i32> {
    let mut table = s.open_table(db, "Rows")?;
    let [column, body] = ["Number", "Body"].map(|name| table.column(name).expect("the table has it"));
    let mut numbers = Vec::new();
    for row in 0..ROWS {
        if !table.seek(s, &[Value::Long(row * 1000 + thread)], SeekRelation::Equal)? {
            numbers.push(0);
            continue;
        }
        let Value::Long(number) = table.get(s, column)? else { return Err(Error::RecordNotFound) };
        let len = (number.unsigned_abs() as usize * 37 + row as usize * 911) % 9000;
        if table.get(s, body)? != Value::Binary(vec![number as u8; len]) {
            panic!("thread {thread}, row {row}: the long value is another one");
        }
        numbers.push(number);
    }
    assert!(
        numbers.iter().all(|number| *number == numbers[0]),
        "only a part of thread {thread} exists: {numbers:?}"
    );
    Ok(numbers[0])
}

/// A running `kill-child` process.
pub struct KillChild {
    child: Child,
    reader: JoinHandle<DurableReports>,
}

impl KillChild {
    /// Starts the program on the instance in a directory.
    pub fn start(program: &str, directory: &Path) -> KillChild {
        let mut child =
            Command::new(program).arg(directory).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("it has a pipe"));
        // The kill may leave the last line incomplete.
        let reader = std::thread::spawn(move || {
            DurableReports(output.lines().map_while(|line| report(&line.ok()?)).collect())
        });
        KillChild { child, reader }
    }

    /// Kills the process, and returns the transactions that it reported.
    pub fn kill(mut self) -> DurableReports {
        let ended = self.child.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "the load ended by itself: {ended:?}");
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it was started here");
        self.reader.join().expect("the reader does not panic")
    }
}

/// Transactions that were acknowledged as durable: thread, number, and the log generation of the commit.
pub struct DurableReports(Vec<(i32, i32, u32)>);

impl DurableReports {
    /// Returns for each thread the last transaction that was committed in a generation up to `newest`, or 0 if there
    /// are none.
    pub fn last_acknowledged(&self, newest: u32) -> Vec<i32> {
        let of = |thread| move |report: &&(i32, i32, u32)| report.0 == thread && report.2 <= newest;
        let last = |thread| self.0.iter().filter(of(thread)).map(|report| report.1).max();
        (0..THREADS).map(|thread| last(thread).unwrap_or(0)).collect()
    }
}

/// Parses a report. A line ends with a full stop, which distinguishes it from a truncated line.
fn report(line: &str) -> Option<(i32, i32, u32)> {
    let mut words = line.strip_suffix('.')?.split(' ');
    let report = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(report)
}
