//! Tests of the options, log streams and paths that an instance accepts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ese_engine::Database;
use ese_engine::internals::cache::EvictionPolicy;
use ese_engine::internals::log::{CheckpointFile, LogNames};
use ese_engine::{CommitMode, DatabaseOptions, Error, Instance, LogNameFormat, Result, Session};
use ese_format::LogPosition;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};

use super::recovered::{DATABASES, RowsByKey, create_one, open, options, options_with, rows};

fn text_of<T>(result: Result<T>) -> String {
    match result {
        Err(error @ (Error::Usage(_) | Error::File { .. })) => error.full_text(),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn log_files_of_an_impossible_size_are_refused() {
    let disk = SimVfs::new();
    let with = |size: u32| {
        let options = options(Arc::new(disk.clone()), 256).0;
        Instance::open(options.log_file_size(size))
    };
    for size in [0, 1, 4096, 60 << 10, (64 << 10) + 512, 256 << 20, (256 << 20) + 4096, u32::MAX] {
        assert!(text_of(with(size)).contains("multiple of 4096"), "{size}");
    }
    assert!(disk.list(Path::new("/log")).unwrap().is_empty(), "no file is left");
    let largest = (256 << 20) - 4096;
    for size in [64 << 10, largest] {
        drop(with(size).unwrap());
    }
}

/// The list of attached databases must fit into log headers and into the checkpoint.
#[test]
fn paths_too_long_for_the_attachment_list_are_refused() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let directory = Path::new("/").join("d".repeat(200));
    let paths: Vec<PathBuf> = (0..6).map(|number| directory.join(format!("{number}.edb"))).collect();
    let create = |path: &PathBuf| instance.create_database(path, &DatabaseOptions::default());
    let mut created: Vec<Arc<Database>> = Vec::new();
    let mut refused = None;
    for path in &paths {
        match create(path) {
            Ok(db) => created.push(db),
            Err(error) => {
                assert!(!disk.exists(path).unwrap());
                refused = Some(error);
                break;
            }
        }
    }
    instance.checkpoint().unwrap();
    drop(open(&disk.process_kill(), 256));
    assert!(text_of(refused.map_or(Ok(()), Err)).contains("together are too long"));
    // The limit also applies to a database that is attached instead of created.
    for db in created.split_off(2) {
        instance.detach(&db).unwrap();
    }
    let file = disk.contents(&paths[2]).unwrap();
    let far = Path::new("/").join("f".repeat(600)).join("far.edb");
    disk.put(&far, &file);
    let text = text_of(instance.attach(&far, 32));
    assert!(text.contains("far.edb") && disk.contents(&far).unwrap() == file, "{text}");
    instance.attach(&paths[2], 32).unwrap();
    instance.checkpoint().unwrap();
    let (recovered, _) = open(&disk.process_kill(), 256);
    assert_eq!(recovered.recovery().left_attached, 3);
}

/// The log names databases by path, and recovery may run in another working directory.
#[test]
fn the_log_stores_relative_paths_as_absolute_paths() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let [one, two] = ["one.edb", "two.edb"].map(|name| Path::new("db").join(name));
    let db = instance.create_database(&one, &DatabaseOptions::default()).unwrap();
    assert_eq!(db.path(), std::path::absolute(&one).unwrap());
    assert!(disk.exists(db.path()).unwrap() && !disk.exists(&one).unwrap());
    for known in [&*one, db.path()] {
        assert!(Arc::ptr_eq(&db, &instance.attach(known, 32).unwrap()));
    }
    let bytes = {
        let other = SimVfs::new();
        let (instance, _) = open(&other, 256);
        create_one(&instance, DATABASES[0]);
        instance.shutdown().unwrap();
        other.contents(Path::new(DATABASES[0])).unwrap()
    };
    disk.put(&std::path::absolute(&two).unwrap(), &bytes);
    let attached = instance.attach(&two, 32).unwrap();
    assert_eq!(attached.path(), std::path::absolute(&two).unwrap());
    let (recovered, _) = open(&disk.process_kill(), 256);
    let paths: Vec<PathBuf> = recovered.core().databases().iter().map(|db| db.path().to_path_buf()).collect();
    assert_eq!(paths, [db.path().to_path_buf(), attached.path().to_path_buf()]);
}

#[test]
fn a_path_that_is_not_utf_8_is_refused() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let path = Path::new("/db").join(OsStr::from_bytes(b"\xff.edb"));
    let files = || disk.list(Path::new("/db")).unwrap();
    let text = text_of(instance.create_database(&path, &DatabaseOptions::default()));
    assert!(text.contains("UTF-8") && files().is_empty(), "{text} {:?}", files());
    let db = create_one(&instance, DATABASES[0]);
    instance.detach(&db).unwrap();
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    disk.put(&path, &bytes);
    let text = text_of(instance.attach(&path, 32));
    assert!(text.contains("UTF-8") && disk.contents(&path).unwrap() == bytes, "{text}");
}

#[test]
fn a_moved_dirty_database_is_reported_as_moved_if_its_logs_exist() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let db = create_one(&instance, DATABASES[0]);
    let dirty = disk.contents(Path::new(DATABASES[0])).unwrap();
    instance.detach(&db).unwrap();
    let moved = Path::new("/db/moved.edb");
    disk.put(moved, &dirty);
    let text = text_of(instance.attach(moved, 32));
    assert!(text.contains("moved.edb") && text.contains("a different path"), "{text}");

    // The logs of another stream are treated as missing.
    let other = SimVfs::new();
    other.put(moved, &dirty);
    let seeded = options(Arc::new(other.clone()), 256).0.seed(5);
    let stranger = Instance::open(seeded).unwrap();
    assert!(matches!(stranger.attach(moved, 32), Err(Error::LogsMissing { .. })));
    assert!(disk.contents(moved).unwrap() == dirty && other.contents(moved).unwrap() == dirty);
}

/// A stream keeps its log file size, even if the option is changed later. The checkpoint depth is measured in bytes
/// of files of the stream's size.
#[test]
fn the_checkpoint_depth_applies_to_streams_with_other_file_sizes() {
    const DEPTH: u64 = 512 << 10;
    for [made, later] in [[256 << 10, 64 << 10], [64 << 10, 256 << 10]] {
        let disk = SimVfs::new();
        let with = |log_file_size: u32| {
            let options = options_with(Arc::new(disk.clone()), 512, EvictionPolicy::WriteBack).0;
            let options = options.log_file_size(log_file_size).checkpoint_depth(DEPTH).circular_log(true);
            Instance::open(options).unwrap()
        };
        let instance = with(made);
        create_one(&instance, DATABASES[0]);
        instance.shutdown().unwrap();
        drop(instance);
        let instance = with(later);
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        let bytes = |position: LogPosition| {
            u64::from(position.generation.0) * u64::from(made) + u64::from(position.segment) * 4096
        };
        let file = CheckpointFile::new(
            Arc::new(disk.clone()),
            Path::new("/log"),
            FileStem::E00,
            LogNameFormat::default(),
        );
        let mut session = instance.session();
        let insert = |session: &mut Session, key: i32| {
            let mut table = session.open_table(&db, "t").unwrap();
            let row = [(1, Value::Long(key)), (2, Value::Long(1)), (256, Value::Binary(vec![7; 1000]))];
            table.insert(session, &row.map(|(column, value)| (ColumnId(column), value))).unwrap();
        };
        let mut keys = 0;
        let mut work = || {
            for _ in 0..8 {
                session.begin().unwrap();
                insert(&mut session, keys);
                session.commit(CommitMode::Lazy).unwrap();
                keys += 1;
            }
            instance.step().unwrap();
        };
        let (begin, mut deepest) = (bytes(instance.durable()), 0);
        while bytes(instance.durable()) - begin < 4 * DEPTH {
            work();
            let checkpoint = file.read().unwrap().expect("the instance was shut down before").position;
            deepest = deepest.max(bytes(instance.durable()) - bytes(checkpoint));
        }
        let most = DEPTH + DEPTH / 8 + u64::from(made);
        assert!((DEPTH / 2..=most).contains(&deepest), "{deepest} of {most} with files of {made}");

        // The checkpointer retains only as many old files as the depth needs, even if it needed more earlier.
        let mut long = instance.session();
        long.begin().unwrap();
        insert(&mut long, -1);
        let held = instance.durable().generation.0;
        while instance.durable().generation.0 < held + 14 {
            work();
        }
        long.commit(CommitMode::Durable).unwrap();
        instance.step().unwrap();
        instance.checkpoint().unwrap();
        let names = LogNames::new(Path::new("/log"), FileStem::E00);
        let archived = disk.list(Path::new("/log")).unwrap();
        let archived = archived.iter().filter(|path| names.generation_of(path).is_some()).count() as u64;
        assert!(archived <= most / u64::from(made) + 5, "{archived} old files of {made}");
        drop((session, long));
        let model: RowsByKey = (-1..keys).map(|key| (key, 1)).collect();
        assert_eq!(rows(&instance, &db), model);
        instance.shutdown().unwrap();
    }
}
