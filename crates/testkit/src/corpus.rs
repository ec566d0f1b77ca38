//! The corpus of real files written by Windows: its location, its manifest, and its unpacked files.
//!
//! The corpus is not part of the repository and may be absent, in which case [`Corpus::locate`] marks the test as
//! skipped. Files are stored compressed and are unpacked into memory. Nothing is ever written to the corpus
//! directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{TestRequirement, skip};

/// The corpus of test files: its directory and its manifest.
#[derive(Debug)]
pub struct Corpus {
    root: PathBuf,
    /// All files, in manifest order.
    pub files: Vec<CorpusFile>,
}

/// A file in the test corpus, as described in the manifest.
#[derive(Clone, Debug, Deserialize)]
pub struct CorpusFile {
    /// Path inside the corpus, without the `.zst` suffix.
    pub name: String,
    /// Unpacked size in bytes.
    pub size: u64,
    /// Kind of file: `db`, `log`, `checkpoint`, ...
    pub kind: String,
    /// Page size of a database in bytes.
    #[serde(default)]
    pub page_size: Option<u32>,
    /// Header state of a database: 2 dirty, 3 clean.
    #[serde(default)]
    pub state: Option<u32>,
    /// Number of the last page owned by the database.
    #[serde(default)]
    pub last_owned_page: Option<u32>,
    /// Number of pages with content and a valid checksum.
    #[serde(default)]
    pub new_ck_pages: Option<u32>,
    /// Number of pages that contain only zeros.
    #[serde(default)]
    pub zero_pages: Option<u32>,
    /// Tables in a database, by name.
    #[serde(default)]
    pub tables: BTreeMap<String, CorpusTable>,
}

/// A table in a corpus file, as described in the manifest.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CorpusTable {
    /// Number of leaf nodes that are not flagged deleted.
    pub rows: u64,
    /// Number of leaf nodes that are flagged deleted.
    #[serde(default)]
    pub deleted_nodes: u64,
    /// Rows as read by libesedb.
    #[serde(default)]
    pub libesedb: Option<serde_json::Value>,
    /// Rows as read by dissect.esedb.
    #[serde(default)]
    pub dissect: Option<serde_json::Value>,
    /// Rows as read by impacket.
    #[serde(default)]
    pub impacket: Option<serde_json::Value>,
    /// Number of columns listed in the catalog.
    #[serde(default)]
    pub columns: Option<u64>,
    /// Number of entries in each secondary index, by index name.
    #[serde(default)]
    pub secondary_index_entries: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Manifest {
    files: Vec<CorpusFile>,
}

impl Corpus {
    /// Returns the corpus at the path in `JETCELL_CORPUS`, or else the corpus next to the workspace. If neither
    /// exists, prints a message to the test log and returns `None`.
    pub fn locate() -> Option<Corpus> {
        let root = std::env::var_os("JETCELL_CORPUS").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus")),
            PathBuf::from,
        );
        let Ok(text) = std::fs::read_to_string(root.join("manifest.json")) else {
            skip(
                TestRequirement::Corpus,
                format!("no corpus found at {}; set JETCELL_CORPUS", root.display()),
            );
            return None;
        };
        let manifest: Manifest = serde_json::from_str(&text).expect("the corpus manifest is readable");
        Some(Corpus { root, files: manifest.files })
    }

    /// Returns the corpus directory. Callers use it to read manifest fields that [`CorpusFile`] lacks.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the corpus files that are databases.
    pub fn databases(&self) -> impl Iterator<Item = &CorpusFile> {
        self.files.iter().filter(|file| file.kind == "db")
    }

    /// Returns the file called `name`.
    pub fn file(&self, name: &str) -> &CorpusFile {
        self.files
            .iter()
            .find(|file| file.name == name)
            .unwrap_or_else(|| panic!("{name} is not in the corpus"))
    }

    /// Returns a file's unpacked content. Panics if its size differs from the manifest.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let packed = self.root.join(format!("{name}.zst"));
        let bytes = std::fs::File::open(&packed)
            .and_then(zstd::decode_all)
            .unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
        assert_eq!(bytes.len() as u64, self.file(name).size, "{name}: size");
        bytes
    }

    /// Unpacks a file into `directory`, keeping its file name, and returns the path.
    pub fn unpack(&self, name: &str, directory: &Path) -> PathBuf {
        let target = directory.join(Path::new(name).file_name().expect("corpus names have a last part"));
        std::fs::write(&target, self.read(name)).expect("the test directory is writable");
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_unpacks_to_the_size_in_the_manifest() {
        let Some(corpus) = Corpus::locate() else { return };
        assert_eq!(corpus.databases().count(), 21);
        for file in &corpus.files {
            corpus.read(&file.name);
        }
    }
}
