//! What an instance, a stream and a path must be like to be accepted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::database::Database;
use ese_engine::log::CheckpointFile;
use ese_engine::{CommitMode, CreateOptions, Error, Instance, InstanceOptions, Result};
use ese_format::LogPosition;
use ese_format::record::{ColumnId, Value};
use vfs::{SimVfs, Vfs};

use super::recovered::{DATABASES, Rows, create_one, open, options, rows};

fn text_of<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Usage(text)) => text,
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn log_files_of_an_impossible_size_are_refused() {
    let disk = SimVfs::new();
    let with = |size: u32| {
        let options = options(Arc::new(disk.clone()), 256, 750).0;
        Instance::open(InstanceOptions { log_file_size: size, ..options })
    };
    for size in [0, 1, 4096, 60 << 10, (64 << 10) + 512, 256 << 20, (256 << 20) + 4096, u32::MAX] {
        assert!(text_of(with(size)).contains("multiple of 4096"), "{size}");
    }
    assert!(disk.list(Path::new("/log")).unwrap().is_empty(), "nothing is left");
    let largest = (256 << 20) - 4096;
    for size in [64 << 10, largest] {
        drop(with(size).unwrap());
    }
}

/// What is attached must have room in the list that log headers and the checkpoint have.
#[test]
fn paths_that_are_too_long_together_are_refused() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256, 750);
    let directory = Path::new("/").join("d".repeat(200));
    let paths: Vec<PathBuf> = (0..6).map(|number| directory.join(format!("{number}.edb"))).collect();
    let create = |path: &PathBuf| instance.create_database(path, &CreateOptions::default());
    let mut created: Vec<Arc<Database>> = Vec::new();
    let mut refused = None;
    for path in &paths {
        match create(path) {
            Ok(db) => created.push(db),
            Err(error) => {
                assert!(!disk.exists(path));
                refused = Some(error);
                break;
            }
        }
    }
    instance.checkpoint().unwrap();
    drop(open(&disk.process_kill(), 256, 750));
    assert!(text_of(refused.map_or(Ok(()), Err)).contains("too long together"));
    // The same for one that is attached.
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
    let (recovered, _) = open(&disk.process_kill(), 256, 750);
    assert_eq!(recovered.recovery().left_attached, 3);
}

/// The log names databases by path, and recovery may run in another working directory.
#[test]
fn a_relative_path_is_made_absolute_before_the_log_gets_it() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256, 750);
    let [one, two] = ["one.edb", "two.edb"].map(|name| Path::new("db").join(name));
    let db = instance.create_database(&one, &CreateOptions::default()).unwrap();
    assert_eq!(db.path, std::path::absolute(&one).unwrap());
    assert!(disk.exists(&db.path) && !disk.exists(&one));
    for known in [&one, &db.path] {
        assert!(Arc::ptr_eq(&db, &instance.attach(known, 32).unwrap()));
    }
    let bytes = {
        let other = SimVfs::new();
        let (instance, _) = open(&other, 256, 750);
        create_one(&instance, DATABASES[0]);
        instance.shutdown().unwrap();
        other.contents(Path::new(DATABASES[0])).unwrap()
    };
    disk.put(&std::path::absolute(&two).unwrap(), &bytes);
    let attached = instance.attach(&two, 32).unwrap();
    assert_eq!(attached.path, std::path::absolute(&two).unwrap());
    let (recovered, _) = open(&disk.process_kill(), 256, 750);
    let paths: Vec<PathBuf> = recovered.core().databases().iter().map(|db| db.path.clone()).collect();
    assert_eq!(paths, [db.path.clone(), attached.path.clone()]);
}

#[test]
fn a_path_that_the_log_cannot_name_is_refused() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256, 750);
    let path = Path::new("/db").join(OsStr::from_bytes(b"\xff.edb"));
    let files = || disk.list(Path::new("/db")).unwrap();
    let text = text_of(instance.create_database(&path, &CreateOptions::default()));
    assert!(text.contains("UTF-8") && files().is_empty(), "{text} {:?}", files());
    let db = create_one(&instance, DATABASES[0]);
    instance.detach(&db).unwrap();
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    disk.put(&path, &bytes);
    let text = text_of(instance.attach(&path, 32));
    assert!(text.contains("UTF-8") && disk.contents(&path).unwrap() == bytes, "{text}");
}

#[test]
fn a_dirty_database_under_another_path_is_said_to_be_that_if_its_logs_are_there() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256, 750);
    let db = create_one(&instance, DATABASES[0]);
    let dirty = disk.contents(Path::new(DATABASES[0])).unwrap();
    instance.detach(&db).unwrap();
    let moved = Path::new("/db/moved.edb");
    disk.put(moved, &dirty);
    let text = text_of(instance.attach(moved, 32));
    assert!(text.contains("moved.edb") && text.contains("another path"), "{text}");

    // Those of another stream are missing.
    let other = SimVfs::new();
    other.put(moved, &dirty);
    let seeded = InstanceOptions { seed: Some(5), ..options(Arc::new(other.clone()), 256, 750).0 };
    let stranger = Instance::open(seeded).unwrap();
    assert!(matches!(stranger.attach(moved, 32), Err(Error::LogsMissing { .. })));
    assert!(disk.contents(moved).unwrap() == dirty && other.contents(moved).unwrap() == dirty);
}
