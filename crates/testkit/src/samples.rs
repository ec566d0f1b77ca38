//! Small ESE files in the repository, for tests without the [corpus](crate::corpus).

use std::path::{Path, PathBuf};

use ese_format::PageSize;

/// Databases written by the engine, one for each page size. Each contains the table `Things` with the columns used in
/// the engine's own tests.
pub const ENGINE_DATABASES: [(&str, PageSize); 4] = [
    ("engine-4k.edb", PageSize::KIB_4),
    ("engine-8k.edb", PageSize::KIB_8),
    ("engine-16k.edb", PageSize::KIB_16),
    ("engine-32k.edb", PageSize::KIB_32),
];

/// Valid databases written by an independent program. Each has unusual content: flagged deleted rows, compression
/// schemes, control characters in names, a derived table, indexes on multi-valued columns, vectors, and the tables of a
/// web cache.
pub const SOUND_DATABASES: [&str; 8] = [
    "all-deleted.edb",
    "compression-schemes.edb",
    "control-characters.edb",
    "derived-table.edb",
    "index-combinations.edb",
    "index-two-multivalues.edb",
    "search-vectors.edb",
    "webcache-cookies.edb",
];

/// Log that belongs to `engine-4k.edb`.
pub const ENGINE_LOG: &str = "engine-E00.log";

/// Returns the path of the compressed sample `name`.
pub fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples").join(format!("{name}.zst"))
}

/// Returns the content of the sample `name`.
///
/// # Panics
/// Panics if the sample does not exist.
pub fn read(name: &str) -> Vec<u8> {
    let path = path_of(name);
    std::fs::File::open(&path)
        .and_then(zstd::decode_all)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
