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
