//! Database headers after power failures.

use std::path::Path;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::internals::log::{LogNames, LogReader};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, IndexDefinition, Instance,
    InstanceOptions, Result, TableDefinition, TornPageProtection,
};
use ese_format::header::DatabaseHeader;
use ese_format::log::header::LogHeader;
use ese_format::log::record::LogRecord;
use ese_format::page::Page;
use ese_format::record::{ColumnId, ColumnType, Value};
use ese_format::{DbTime, LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FileStem, SimVfs, Vfs};

const SIZE: PageSize = PageSize::KIB_4;
const DATABASE: &str = "/db/data.edb";

fn open(disk: &SimVfs) -> Result<Arc<Instance>> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(64 * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    Instance::open(options)
}

/// The first copy of the header is written before the shadow copy. If a crash has damaged the shadow, the engine must
/// repair it first. Otherwise a second crash during the write of the first copy would leave no valid copy.
#[test]
fn a_damaged_shadow_is_repaired_before_the_first_copy_is_written() {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/db")).unwrap();
    disk.create_directory(Path::new("/log")).unwrap();
    let instance = open(&disk).unwrap();
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    instance.create_database(Path::new(DATABASE), &create).unwrap();
    instance.shutdown().unwrap();
    drop(instance);
    let mut bytes = disk.contents(Path::new(DATABASE)).unwrap();
    bytes[SIZE.bytes() + 100..SIZE.bytes() + 600].fill(0);
    disk.put(Path::new(DATABASE), &bytes);

    for cut in 1..40 {
        for seed in 0..8 {
            let torn = disk.process_kill();
            torn.cut_power_after(torn.operations() + cut);
            if let Ok(instance) = open(&torn) {
                let _ = instance.attach(Path::new(DATABASE), 32);
            }
            let after = torn
                .crash(seed, CrashOptions { tear_write: 0.6, lose_write: 0.2, ..CrashOptions::default() });
            let instance = open(&after).unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            let attached = instance.attach(Path::new(DATABASE), 32);
            assert!(attached.is_ok(), "cut {cut}, seed {seed}: {:?}", attached.err());
        }
    }
}

/// A power cut during the creation leaves no file, a file that is marked as interrupted, or a complete database.
#[test]
fn an_interrupted_creation_is_reported_as_an_interrupted_creation() {
    let (mut interrupted, mut complete, mut absent) = (0, 0, 0);
    for cut in 1..60 {
        for seed in 0..8 {
            let disk = SimVfs::new();
            disk.create_directory(Path::new("/db")).unwrap();
            disk.create_directory(Path::new("/log")).unwrap();
            let instance = open(&disk).unwrap();
            disk.cut_power_after(disk.operations() + cut);
            let _ = instance.create_database(Path::new(DATABASE), &DatabaseOptions::default());
            drop(instance);
            let lose = CrashOptions { tear_write: 0.5, lose_write: 0.5, ..CrashOptions::default() };
            let after = disk.crash(seed, lose);
            let instance = open(&after).unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            match instance.attach(Path::new(DATABASE), 32) {
                Ok(_) => complete += 1,
                Err(_) if !after.exists(Path::new(DATABASE)).unwrap() => absent += 1,
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("its creation was interrupted"), "cut {cut}, seed {seed}: {text}");
                    interrupted += 1;
                }
            }
        }
    }
    assert!(
        interrupted > 20 && complete > 20,
        "{interrupted} interrupted, {complete} complete, {absent} absent"
    );
}

#[test]
fn a_database_without_a_header_is_distinguished_from_other_files() {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/db")).unwrap();
    disk.create_directory(Path::new("/log")).unwrap();
    let instance = open(&disk).unwrap();
    let refused = |bytes: &[u8]| {
        disk.put(Path::new(DATABASE), bytes);
        instance.attach(Path::new(DATABASE), 32).err().unwrap().full_text()
    };
    assert!(refused(&[]).ends_with("its creation was interrupted; delete the file and create it again"));
    let zeros = refused(&[0; 1 << 20]);
    assert!(zeros.contains("or restore it from a backup"), "a header may have been overwritten: {zeros}");
    assert!(refused(&[b'x'; 1 << 20]).ends_with("not an ESE database"));
    assert!(refused(b"short").ends_with("not an ESE database"));
}

/// The log enters a generation without an update of the database headers. However, a page with changes of that
/// generation is written only after a header names the generation, and a header names it only after the log file has
/// its name.
#[test]
fn header_updates_follow_log_rollover_and_precede_page_writes() {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/db")).unwrap();
    disk.create_directory(Path::new("/log")).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(48 * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    (options.background, options.log.file_size) = (BackgroundThreads::None, 64 << 10);
    options.torn_page_protection = TornPageProtection::Off;
    let instance = Instance::open(options).unwrap();
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(DATABASE), &create).unwrap();
    let mut session = instance.session();
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("value", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("by key", &["key"]).primary()],
        ..TableDefinition::default()
    };
    session.begin().unwrap();
    session.create_table(&db, &definition).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    let mut table = session.open_table(&db, "t").unwrap();
    let (mut behind, mut pages_behind) = (0, 0);
    for number in 0..900u32 {
        session.begin().unwrap();
        let value = Value::Binary(vec![number as u8; 700]);
        let key = Value::Long(number.wrapping_mul(0x9E37_79B1) as i32);
        table.insert(&mut session, &[(ColumnId(1), key), (ColumnId(256), value)]).unwrap();
        session.commit(if number % 3 == 0 { CommitMode::Durable } else { CommitMode::Lazy }).unwrap();
        if number % 40 == 39 {
            instance.step().unwrap();
        }
        let nothing_more = CrashOptions { lose_write: 1.0, lose_name: 1.0, ..CrashOptions::default() };
        let durable = disk.crash(0, CrashOptions { all_or_nothing: 0.0, ..nothing_more });
        let bytes = durable.contents(Path::new(DATABASE)).unwrap();
        let named = DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0.gen_max_required;
        let names = LogNames::new(Path::new("/log"), FileStem::E00);
        let current = LogHeader::decode(&durable.contents(&names.current()).unwrap()).unwrap().generation;
        assert!(
            named == current || durable.exists(&names.archived(named)).unwrap(),
            "{named:?}, current {current:?}"
        );
        let reader = LogReader::open(Arc::new(durable), names).unwrap().unwrap();
        let newest = reader.range().1;
        assert!(named <= newest && newest.0 <= named.0 + 40);
        behind += u32::from(named < newest);
        let mut oldest_change = DbTime(u64::MAX);
        if named < newest {
            let read = reader.read_from(LogPosition::new(named.0 + 1, 1, 0), |stored| {
                if let Some(change) = LogRecord::decode(&stored.bytes).unwrap().0.page_change() {
                    oldest_change = DbTime(oldest_change.0.min(change.after.0));
                }
                Ok(())
            });
            read.unwrap();
        }
        // These are the files in the kernel's page cache. Once a page is written, it may become durable at any time.
        for page in disk.contents(Path::new(DATABASE)).unwrap().chunks(SIZE.bytes()).skip(2) {
            let time = Page::new(page, SIZE).db_time();
            assert!(time < oldest_change, "{time:?} is of a generation behind {named:?}");
            pages_behind += u32::from(named < newest && time > DbTime(0));
        }
    }
    assert!(behind > 20 && pages_behind > 1000, "{behind} {pages_behind}");
}
