//! The manifest, which lists the contents of a backup with a checksum for every range of every file.
//!
//! `manifest.json` is written after everything else is durable. Until then, `manifest.partial.json` records the
//! progress of the backup.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ese_engine::{PageFlaw, PageReadCounters, VerifiedLog};
use ese_format::{LogPosition, LogTime, PageNumber, PageSize, Signature};
use jetcell_input::hex::{hex64, parse_hex64};
use jetcell_input::{bounded_list, shortened};
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, FileStem, Vfs};
use serde::{Deserialize, Serialize};

use crate::backup_type::BackupType;
use crate::bad_page::StoredBadPage;
use crate::error::{BackupError, Result};
use crate::file_damage::FileDamage;
use crate::file_names::{
    MANIFEST_FILE, PARTIAL_FILE, is_reserved_name, is_side_file, is_stream_file, lock_file,
};
use crate::ranges::{ChecksumWriter, RANGE_BYTES, RangeChecksums};
use crate::refusal::BackupRefusal;
use crate::set_error::BackupSetError;
use crate::text_file;

/// The manifest version that this crate writes.
const FORMAT: u32 = 1;
/// Maximum log generation. The limit prevents overflow in arithmetic with generations read from a manifest.
const MAX_GENERATION: u32 = 0x7fff_ffff;
/// Maximum number of databases in a manifest. An ESE instance has at most six.
pub(crate) const MAX_DATABASES: usize = 1024;
/// Maximum number of bad pages that a manifest lists per database.
pub(crate) const MAX_BAD_PAGES: usize = 1000;
/// Maximum number of characters in a bad page's description.
pub(crate) const MAX_FLAW_CHARS: usize = 200;

/// A backup manifest, which describes the backup and its files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    /// Version of the manifest format: 1.
    pub format: u32,
    /// Name and version of the program that made the backup.
    pub engine: String,
    /// Unique identifier of the backup.
    pub id: String,
    /// Kind of backup.
    pub kind: BackupType,
    /// Identifier of the backup that this backup continues.
    pub parent: Option<String>,
    /// Time at which the backup began, in milliseconds since 1970 UTC. The restored state is at least this recent.
    pub began_unix_ms: i64,
    /// Time at which the backup completed, in milliseconds since 1970 UTC.
    pub ended_unix_ms: i64,
    /// Signature of the log stream, in hexadecimal digits.
    pub log_signature: String,
    /// Base name of the logs.
    pub base_name: FileStem,
    /// Page size of the databases, in bytes.
    pub page_size: u32,
    /// Range of log generations in the backup.
    pub generations: GenerationRange,
    /// Databases in the backup, at most 1024.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub databases: Vec<StoredDatabase>,
    /// Signatures of the databases contained in this backup and in the backups that it continues.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub covers: Vec<String>,
    /// Logs in generation order.
    pub logs: Vec<StoredLog>,
    /// Size of a range in bytes.
    pub range_bytes: u64,
    /// XXH3 checksum of the manifest, computed with this field empty.
    pub checksum: String,
}

/// A range of log generations in a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationRange {
    /// First generation.
    pub first: u32,
    /// Last generation.
    pub last: u32,
    /// True if the last log was not closed. The instance may append to it after being reopened.
    pub last_is_open: bool,
}

/// A database in a backup, as described by the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDatabase {
    /// Name of the file in the backup.
    pub file: FileName,
    /// Path of the original database.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub source: PathBuf,
    /// Signature of the database, in hexadecimal digits.
    pub signature: String,
    /// First and last log generations required to make the database consistent; `None` if it was shut down cleanly.
    pub needs: Option<(u32, u32)>,
    /// Size in bytes.
    pub bytes: u64,
    /// True if no pages are bad.
    pub usable: bool,
    /// Counts of the pages that were read.
    pub pages: StoredPageCounts,
    /// Bad pages, at most 1000.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_BAD_PAGES>")]
    pub bad_pages: Vec<StoredBadPage>,
    /// Checksums of the ranges of the file.
    pub ranges: String,
}

/// Counts of the database pages that a backup has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPageCounts {
    /// Total number of pages.
    pub read: u64,
    /// Number of pages that contain only zeros.
    pub zero: u64,
    /// Number of pages that were read more than once.
    pub read_again: u64,
    /// Number of pages with flipped bits, all of which the backup corrected.
    pub corrected: u64,
    /// Number of torn pages, all of which were replaced by their saved images.
    pub torn: u64,
    /// Number of bad pages.
    pub bad: u64,
}

/// A log in a backup, as described by the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredLog {
    /// Name of the file in the backup.
    pub file: FileName,
    /// Generation of the log.
    pub generation: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Creation time of the log, as stored in its header.
    pub created: String,
    /// Creation time of the previous log.
    pub previous_created: String,
    /// Checksum of the previous log, as stored in the header of this log.
    pub previous_checksum: String,
    /// XOR of this log's segment checksums, as stored in the header of the next log.
    pub checksum: String,
    /// Position after the last record.
    pub end: String,
    /// Checksums of the ranges of the file.
    pub ranges: String,
}

/// State of a backup directory.
#[derive(Clone, Debug, PartialEq)]
pub enum BackupState {
    /// A complete backup.
    Complete(Box<BackupManifest>),
    /// An interrupted backup.
    Partial,
    /// Not a backup.
    NotABackup,
}

impl BackupManifest {
    /// Returns the state of a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest cannot be read or has been modified.
    pub fn state(vfs: &dyn Vfs, directory: &Path) -> Result<BackupState> {
        let path = directory.join(MANIFEST_FILE);
        match text_file::read(vfs, &path)? {
            Some(text) => BackupManifest::from_text(&path, &text)
                .map(|manifest| BackupState::Complete(Box::new(manifest))),
            None => {
                let partial = directory.join(PARTIAL_FILE);
                let is_partial = vfs.exists(&partial).map_err(|e| BackupError::io(&partial, &e))?;
                Ok(if is_partial { BackupState::Partial } else { BackupState::NotABackup })
            }
        }
    }

    /// Reads the manifest of a complete backup.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<BackupManifest> {
        match BackupManifest::state(vfs, directory)? {
            BackupState::Complete(manifest) => Ok(*manifest),
            BackupState::Partial => Err(BackupSetError::Incomplete(directory.to_path_buf()).into()),
            BackupState::NotABackup => Err(BackupSetError::NotABackup(directory.to_path_buf()).into()),
        }
    }

    fn from_text(path: &Path, text: &str) -> Result<BackupManifest> {
        let changed = |damage| BackupError::changed(path, damage);
        let mut manifest: BackupManifest =
            serde_json::from_str(text).map_err(|error| changed(FileDamage::Manifest(Arc::new(error))))?;
        if manifest.format != FORMAT || manifest.range_bytes != RANGE_BYTES as u64 {
            return Err(changed(FileDamage::Version(manifest.format)));
        }
        let sum = manifest.compute_checksum();
        if manifest.checksum != sum {
            return Err(changed(FileDamage::Checksum));
        }
        if let Some(generation) = manifest.all_generations().find(|generation| *generation > MAX_GENERATION) {
            return Err(changed(FileDamage::Generation(generation)));
        }
        // A backup that contains only logs has no page size.
        let size = manifest.page_size;
        if size != 0 && PageSize::new(size).is_none() {
            return Err(changed(FileDamage::PageSize(size)));
        }
        if let Some(name) = manifest.conflicting_name() {
            return Err(changed(FileDamage::ReservedName(name.clone())));
        }
        let unfit = |file: &StoredFile<'_>| {
            !RangeChecksums::from_text(file.ranges).is_some_and(|sums| sums.fits(file.bytes))
        };
        if let Some(file) = manifest.files().find(unfit) {
            return Err(changed(FileDamage::Ranges(file.name.clone())));
        }
        Ok(manifest)
    }

    /// Returns every log generation that the manifest names.
    fn all_generations(&self) -> impl Iterator<Item = u32> {
        let needed = self
            .databases
            .iter()
            .filter_map(|database| database.needs)
            .flat_map(|(first, last)| [first, last]);
        let logs = self.logs.iter().map(|log| log.generation);
        [self.generations.first, self.generations.last].into_iter().chain(needed).chain(logs)
    }

    /// Returns the first name that is used by two files, or that is reserved for a file of the backup or of the
    /// restored instance.
    fn conflicting_name(&self) -> Option<&FileName> {
        let mut seen = BTreeSet::new();
        let twice = self.files().map(|file| file.name).find(|name| !seen.insert(*name));
        let base = self.base_name;
        let side_file = |name: &FileName| self.databases.iter().any(|other| is_side_file(name, &other.file));
        let taken = |name: &&FileName| {
            is_reserved_name(name)
                || is_stream_file(name, base)
                || side_file(name)
                || ***name == *lock_file(base)
        };
        twice.or_else(|| self.databases.iter().map(|database| &database.file).find(taken))
    }

    /// Computes the manifest checksum. The text is hashed as it is generated, because building all of it first would
    /// double the memory needed for a large manifest.
    fn compute_checksum(&mut self) -> String {
        let stored = std::mem::take(&mut self.checksum);
        let mut summer = ChecksumWriter::default();
        // Writing to the hasher cannot fail, and all fields can be serialized as JSON.
        let _ = serde_json::to_writer(&mut summer, self);
        self.checksum = stored;
        hex64(summer.finish())
    }

    /// Completes the manifest of a new backup by setting its version, identifier and checksum.
    pub(crate) fn seal(mut self) -> BackupManifest {
        (self.format, self.range_bytes) = (FORMAT, RANGE_BYTES as u64);
        self.engine = concat!("jetcell ", env!("CARGO_PKG_VERSION")).to_string();
        self.checksum = String::new();
        let sum = self.compute_checksum();
        self.id = format!("{:x}-{sum}", self.ended_unix_ms);
        self.checksum = self.compute_checksum();
        self
    }

    /// Writes the manifest. After this call the directory contains a complete backup.
    pub(crate) fn write(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        if let Some(name) = self.conflicting_name() {
            return Err(BackupRefusal::ReservedName(name.clone()).into());
        }
        text_file::write_json(vfs, &directory.join(MANIFEST_FILE), self)
    }

    /// Returns all files of the backup.
    pub(crate) fn files(&self) -> impl Iterator<Item = StoredFile<'_>> {
        let databases = self.databases.iter().map(|database| StoredFile {
            name: &database.file,
            bytes: database.bytes,
            ranges: &database.ranges,
        });
        let logs =
            self.logs.iter().map(|log| StoredFile { name: &log.file, bytes: log.bytes, ranges: &log.ranges });
        databases.chain(logs)
    }

    /// Returns the total size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files().map(|file| file.bytes).sum()
    }

    /// Returns the signature of the log stream.
    pub(crate) fn signature(&self) -> Option<Signature> {
        Signature::from_hex(&self.log_signature)
    }
}

/// A file in a backup.
#[derive(Clone, Copy)]
pub(crate) struct StoredFile<'a> {
    pub name: &'a FileName,
    pub bytes: u64,
    pub ranges: &'a str,
}

impl StoredFile<'_> {
    /// Returns the checksums of the ranges of the file.
    pub fn range_checksums(&self) -> RangeChecksums {
        RangeChecksums::from_text(self.ranges).unwrap_or_default()
    }
}

impl StoredBadPage {
    /// Describes a bad page that a reader found.
    pub(crate) fn new(page: PageNumber, flaw: &PageFlaw) -> StoredBadPage {
        StoredBadPage { page: page.get(), flaw: shortened(&flaw.to_string(), MAX_FLAW_CHARS).into_owned() }
    }
}

impl StoredPageCounts {
    /// Adds a reader's counts to those of an interrupted backup.
    pub(crate) fn plus(self, reads: &PageReadCounters) -> StoredPageCounts {
        StoredPageCounts {
            read: self.read.saturating_add(reads.pages),
            zero: self.zero.saturating_add(reads.zero),
            read_again: self.read_again.saturating_add(reads.read_again),
            corrected: self.corrected.saturating_add(reads.corrected),
            torn: self.torn.saturating_add(reads.torn),
            bad: self.bad.saturating_add(reads.bad),
        }
    }
}

impl StoredLog {
    /// Describes a log for the manifest. `bytes` is its length, `range_checksums` are its range checksums, and `name`
    /// is its file name in the backup.
    pub(crate) fn from_log(
        log: &VerifiedLog,
        name: FileName,
        (bytes, range_checksums): (u64, &RangeChecksums),
    ) -> StoredLog {
        StoredLog {
            file: name,
            generation: log.generation.0,
            bytes,
            created: hex_time(log.created),
            previous_created: hex_time(log.previous_created),
            previous_checksum: hex64(log.previous_checksum),
            checksum: hex64(log.checksum),
            end: hex64(log.end.to_u64()),
            ranges: range_checksums.to_text(),
        }
    }

    /// Returns the position after the last record.
    pub(crate) fn end_position(&self) -> LogPosition {
        LogPosition::from_u64(parse_hex64(&self.end).unwrap_or_default())
    }

    /// Returns true if this log continues `other` without a gap.
    pub(crate) fn continues(&self, other: &StoredLog) -> bool {
        // Logs in earlier formats have no checksum.
        let same_content = self.previous_checksum == other.checksum || self.previous_checksum == hex64(0);
        self.generation == other.generation + 1 && self.previous_created == other.created && same_content
    }
}

/// Formats a log time as hexadecimal digits.
pub(crate) fn hex_time(time: LogTime) -> String {
    hex64(u64::from_be_bytes(time.0))
}
