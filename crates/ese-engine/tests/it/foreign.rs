//! Tests with databases written by Windows: the engine reads and changes all their records, and the checker finds no
//! errors afterwards.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{BackgroundThreads, CommitMode, Error, Instance, InstanceOptions, UsageError};
use ese_format::PageSize;
use ese_format::key::KeyError;
use ese_format::record::{ColumnFlags, ColumnType, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use testkit::corpus::Corpus;

#[test]
fn real_databases_are_read_and_changed() {
    let Some(corpus) = Corpus::locate() else { return };
    let (mut attached, mut changed) = (0, 0);
    for file in corpus.databases().filter(|file| file.size < 20 << 20) {
        let bytes = corpus.read(&file.name);
        let size = bytes.get(236..240).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
        let Some(size) = size.and_then(PageSize::new).filter(|size| *size >= PageSize::KIB_4) else {
            continue;
        };
        let disk = SimVfs::new();
        let path = Path::new("/db/real.edb");
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        vfs.create_directory(Path::new("/db")).unwrap();
        vfs.create_directory(Path::new("/log")).unwrap();
        disk.put(path, &bytes);
        let before = check_database(&disk, path, &CheckOptions::default());
        // For files that were copied while in use, the checker tolerates some findings, but only until a clean
        // shutdown.
        if !before.as_ref().is_ok_and(|report| report.findings.is_empty()) {
            continue;
        }
        let cache = Cache::new(CacheOptions::new(256 * size.bytes(), size, vfs.clock()));
        let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
        options.background = BackgroundThreads::None;
        let instance = Instance::open(options).unwrap();
        // The engine refuses dirty databases and databases with other format versions.
        let Ok(db) = instance.attach(path, 64) else { continue };
        attached += 1;
        let mut s = instance.session();
        for name in s.tables(&db).unwrap() {
            let mut table = s.open_table(&db, &name).unwrap();
            let columns: Vec<_> = table.schema().columns.clone();
            let mut found = table.first(&mut s).unwrap();
            while found {
                match table.row(&mut s) {
                    Ok(row) => assert_eq!(row.len(), columns.len()),
                    Err(Error::Usage(UsageError::Encrypted)) => {}
                    Err(error) => panic!("{}: {name}: {error}", file.name),
                }
                found = table.next(&mut s).unwrap();
            }
            let plain =
                |flags: ColumnFlags| !flags.intersects(ColumnFlags::MULTI_VALUED | ColumnFlags::ENCRYPTED);
            let long = columns.iter().find(|one| one.kind == ColumnType::LongBinary && plain(one.flags));
            // Some files of the corpus have an empty shadow catalog. New trees would make the shadow differ from the
            // catalog.
            let long = long.filter(|_| table.schema().long_values.is_some());
            let Some(long) = long.filter(|_| table.first(&mut s).unwrap()) else { continue };
            s.begin().unwrap();
            let most = if long.size == 0 { 120_000 } else { long.size as usize };
            let value = Value::Binary((0..30_000u32).flat_map(u32::to_be_bytes).take(most).collect());
            table.replace(&mut s, &[(long.id, value.clone())]).unwrap();
            assert_eq!(table.get(&mut s, long.id).unwrap(), value);
            s.commit(CommitMode::Lazy).unwrap();
            assert!(table.last(&mut s).unwrap());
            s.begin().unwrap();
            match table.delete(&mut s) {
                Ok(()) => {
                    s.commit(CommitMode::Lazy).unwrap();
                }
                // Without Windows' sort tables, an entry in an index on Unicode text cannot be found.
                Err(Error::Usage(UsageError::Key(KeyError::UnicodeText(_)))) => s.rollback().unwrap(),
                Err(error) => panic!("{}: {name}: {error}", file.name),
            }
            changed += 1;
        }
        drop((s, db));
        instance.shutdown().unwrap();
        let report = check_database(&disk, path, &CheckOptions::default()).unwrap();
        assert!(report.is_sound(), "{}: {:#?}", file.name, report.errors().collect::<Vec<_>>());
    }
    assert!(attached > 3 && changed > 0, "{attached} attached, {changed} changed");
}

/// Reads and changes a table that inherits columns and an index from a template.
#[test]
fn a_derived_table_is_read_and_changed() {
    let disk = SimVfs::new();
    let (vfs, path): (Arc<dyn Vfs>, _) = (Arc::new(disk.clone()), Path::new("/db/real.edb"));
    vfs.create_directory(Path::new("/db")).unwrap();
    vfs.create_directory(Path::new("/log")).unwrap();
    disk.put(path, &testkit::samples::read("derived-table.edb"));
    let cache = Cache::new(CacheOptions::new(1 << 20, PageSize::KIB_4, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    let instance = Instance::open(options).unwrap();
    let db = instance.attach(path, 64).unwrap();
    let mut s = instance.session();
    let mut table = s.open_table(&db, "Folder_101").unwrap();
    let [id, name, prop, own] = ["Id", "Name", "Prop", "Own"].map(|name| table.column(name).unwrap());
    assert_ne!(prop, own, "both have the number 256");
    table.set_index(Some("IxProp")).unwrap();
    assert!(table.first(&mut s).unwrap());
    let values = [id, name, prop, own].map(|column| table.get(&mut s, column).unwrap());
    let text = Value::Text("n5".into());
    assert_eq!(values, [Value::Long(5), text.clone(), Value::Long(95), Value::Long(5000)]);

    s.begin().unwrap();
    table.replace(&mut s, &[(prop, Value::Long(500)), (own, Value::Long(7))]).unwrap();
    let row = [(id, Value::Long(6)), (name, text), (prop, Value::Long(-1)), (own, Value::Long(8))];
    table.insert(&mut s, &row).unwrap();
    s.commit(CommitMode::Lazy).unwrap();
    assert!(table.first(&mut s).unwrap());
    assert_eq!(table.get(&mut s, id).unwrap(), Value::Long(6));
    assert!(table.last(&mut s).unwrap());
    let changed = [id, prop, own].map(|column| table.get(&mut s, column).unwrap());
    assert_eq!(changed, [Value::Long(5), Value::Long(500), Value::Long(7)]);
    drop((table, s, db));
    instance.shutdown().unwrap();
    let report = check_database(&disk, path, &CheckOptions::default()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.errors().collect::<Vec<_>>());
}
