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
    // As if they had been made by others.
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
