//! Small ESE files that are part of the repository, for tests where the [corpus](crate::corpus) is absent.

use std::path::{Path, PathBuf};

/// The databases that the engine wrote, one for each page size: the table `Things` with the columns of the engine's own tests.
pub const ENGINE_DATABASES: [&str; 4] =
    ["engine-4k.edb", "engine-8k.edb", "engine-16k.edb", "engine-32k.edb"];

/// The log that belongs to `engine-4k.edb`.
pub const ENGINE_LOG: &str = "engine-E00.log";

/// Where the sample `name` is stored, compressed.
pub fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples").join(format!("{name}.zst"))
}

/// The content of the sample `name`.
///
/// # Panics
/// There is no such sample.
pub fn read(name: &str) -> Vec<u8> {
    let path = path_of(name);
    std::fs::File::open(&path)
        .and_then(zstd::decode_all)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
