//! Tests of the writes of a bulk load: each page is written once, in large transfers, and little is logged. Also
//! tests the file of a sort that exceeds its memory.

use std::path::Path;

use ese_engine::{
    BulkLoadOptions, BulkLoadProgress, ColumnDefinition, ColumnType, Database, DatabaseOptions,
    IndexDefinition, Instance, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::Value;
use jetcell_sync::Arc;
use jetcell_vfs::{CountedVfs, IoOperation, IoReason, IoSnapshot, SimVfs, Vfs};

use crate::bulk_loaded::{DB, check, noise, open_on};

const PAGE: u64 = 8192;
/// Length in bytes of a code, which is the key of an index.
const CODE: usize = 200;

struct MeasuredLoad {
    disk: SimVfs,
    files: Arc<CountedVfs>,
    instance: Arc<Instance>,
    db: Arc<Database>,
    done: BulkLoadProgress,
    /// Number of bytes of the index entries before the index was built.
    entry_bytes: u64,
    io: IoSnapshot,
}

/// Loads rows with a code and 300 further bytes, and counts the I/O of the load.
fn load(rows: u32, options: BulkLoadOptions) -> MeasuredLoad {
    let disk = SimVfs::new();
    let files = Arc::new(CountedVfs::new(Arc::new(disk.clone())));
    let instance = open_on(files.clone(), PageSize::KIB_8).unwrap();
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 256 };
    let db = instance.create_database(Path::new(DB), &create).unwrap();
    let definition = TableDefinition {
        name: "T".into(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::UnsignedLong),
            ColumnDefinition::new("Code", ColumnType::Binary),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition::new("ByCode", &["Code"]),
        ],
        ..TableDefinition::default()
    };
    let before = files.snapshot();
    let mut session = instance.session();
    let mut load = session.bulk_load(&db, &definition, options).unwrap();
    let [id, code, body] = ["Id", "Code", "Body"].map(|name| load.column(name).unwrap());
    for number in 0..rows {
        load.push(&[
            (id, Value::UnsignedLong(number)),
            (code, Value::Binary(noise(number, CODE))),
            (body, Value::Binary(noise(number, 300))),
        ])
        .unwrap();
    }
    let entry_bytes = load.progress().entry_bytes;
    let done = load.finish().unwrap();
    drop(session);
    let io = files.snapshot().since(&before);
    MeasuredLoad { disk, files, instance, db, done, entry_bytes, io }
}

/// The record of an extent must be durable before the pages of the extent are written. The extents of a small tree
/// need only a few transfers each.
#[test]
fn a_single_log_sync_covers_several_extents() {
    let transfer_bytes = 64 << 10;
    let MeasuredLoad { io, .. } =
        load(2000, BulkLoadOptions { transfer_bytes, ..BulkLoadOptions::default() });
    let written = io.get(IoReason::BulkLoad, IoOperation::Write);
    assert!(written.operations >= 16, "{written:?}");
    let syncs = io.get(IoReason::LogWrite, IoOperation::Write).operations;
    // One sync per extent would be ten syncs.
    assert!(syncs <= 7, "{syncs} syncs");
}

#[test]
fn a_load_writes_pages_once_and_logs_little() {
    let transfer_bytes = 256 << 10;
    let MeasuredLoad { disk, instance, db, done, io, .. } =
        load(20_000, BulkLoadOptions { transfer_bytes, ..BulkLoadOptions::default() });
    let writes = io.get(IoReason::BulkLoad, IoOperation::Write);
    assert_eq!(writes.bytes, done.pages * PAGE, "each page once");
    assert!(writes.bytes > 12 << 20, "{writes:?}");
    // The last transfer of an extent, of a level and of a tree may be shorter.
    let whole = writes.bytes / transfer_bytes as u64;
    assert!(writes.operations <= whole * 5 / 4 + 4, "{} transfers for {whole}", writes.operations);
    assert_eq!(io.get(IoReason::BulkLoad, IoOperation::Read).bytes, 0, "the sort fits the memory");
    // The catalog, the roots, and the space from which extents are allocated are read once. No new page is read.
    let reads = |io: &IoSnapshot| io.total(&[IoReason::DatabaseRead, IoReason::Preread], IoOperation::Read);
    let of_one_row = reads(&load(1, BulkLoadOptions::default()).io).operations;
    assert!(reads(&io).operations <= of_one_row + 1, "{} reads", reads(&io).operations);
    let logged = io.get(IoReason::LogWrite, IoOperation::Write);
    assert!(logged.bytes < writes.bytes / 20, "{} bytes of log", logged.bytes);
    assert!(logged.operations < 40, "{} writes of the log", logged.operations);
    let cached = [IoReason::CheckpointWrite, IoReason::EvictionWrite];
    let cached = io.total(&cached, IoOperation::Write).bytes;
    assert!(cached < writes.bytes / 20, "{cached} bytes through the cache");
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn trees_release_pages_that_a_load_did_not_use() {
    let MeasuredLoad { instance, db, done, .. } = load(20_000, BulkLoadOptions::default());
    assert!(done.pages > 1000, "{} pages", done.pages);
    let report = instance.shrink(&db).unwrap();
    // These pages are the reserve for the growth of catalog tables.
    assert!(report.released < 20, "{report:?}");
}

#[test]
fn entries_that_exceed_the_memory_are_sorted_in_a_file() {
    const ROWS: u32 = 20_000;
    let MeasuredLoad { disk, files, instance, db, done, entry_bytes, io } =
        load(ROWS, BulkLoadOptions { sort_bytes: 2 << 20, ..BulkLoadOptions::default() });
    let read = io.get(IoReason::BulkLoad, IoOperation::Read);
    let written = io.get(IoReason::BulkLoad, IoOperation::Write).bytes - done.pages * PAGE;
    // Each entry has four bytes of lengths. A run is at most as long as the memory, part of which stores the offsets
    // of entries.
    let stored = entry_bytes + 4 * u64::from(ROWS);
    let runs = stored.div_ceil(1 << 20);
    assert!(runs >= 4, "{runs} runs");
    let blocks = 4096 * 2 * runs;
    assert!((stored..=stored + blocks).contains(&written), "{written} bytes of runs for {stored}");
    // The last read of a run can extend into the next run.
    let most = stored + runs * (256 << 10);
    assert!((stored..=most).contains(&read.bytes), "{} bytes read of {stored}", read.bytes);
    assert!(read.operations >= runs, "each run is read by itself: {} reads", read.operations);
    let names = files.list(Path::new("/db")).unwrap();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("sort")), "{names:?}");

    let mut expected: Vec<(Vec<u8>, u32)> = (0..ROWS).map(|number| (noise(number, CODE), number)).collect();
    expected.sort_unstable();
    let mut session = instance.session();
    let mut table = session.open_table(&db, "T").unwrap();
    let id = table.column("Id").unwrap();
    table.set_index(Some("ByCode")).unwrap();
    let mut found = table.first(&mut session).unwrap();
    for (_, number) in &expected {
        assert!(found);
        assert_eq!(table.get(&mut session, id).unwrap(), Value::UnsignedLong(*number));
        found = table.next(&mut session).unwrap();
    }
    assert!(!found);
    drop((table, session, db));
    instance.shutdown().unwrap();
    check(&disk);
}
