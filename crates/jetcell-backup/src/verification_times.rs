//! The file `verified.json` in a backup, which records which ranges were verified, and when.

use std::collections::BTreeMap;
use std::path::Path;

use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};

use crate::error::{BackupError, Result};
use crate::file_names::VERIFIED_FILE;
use crate::manifest::{BackupManifest, StoredFile};
use crate::ranges::RANGE_BYTES;
use crate::text_file;

/// Stored in place of a time for a range that the last verification found to be bad.
pub const BAD_RANGE: i64 = -1;

/// Times at which the ranges of a backup's files were last verified.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerificationTimes {
    /// Checksum of the manifest that the times belong to.
    manifest: String,
    /// Runs of consecutive ranges in each file: the number of ranges, and the time when they were verified in seconds
    /// since 1970 UTC, 0 for never, or [`BAD_RANGE`].
    files: BTreeMap<String, Vec<(usize, i64)>>,
}

impl VerificationTimes {
    /// Reads the times that belong to this manifest. Returns an empty record if the file does not exist or belongs to
    /// a different manifest.
    pub fn read(vfs: &dyn Vfs, directory: &Path, manifest: &BackupManifest) -> Result<VerificationTimes> {
        let path = directory.join(VERIFIED_FILE);
        let text = match text_file::read_at_most(vfs, &path, max_bytes(manifest)) {
            // The file is too long to belong to this manifest, so it is ignored.
            Err(BackupError::Changed { .. }) => None,
            text => text?,
        };
        let known: Option<VerificationTimes> = serde_json::from_str(&text.unwrap_or_default()).ok();
        let known = known.filter(|known| known.manifest == manifest.checksum);
        Ok(known.unwrap_or(VerificationTimes { manifest: manifest.checksum.clone(), files: BTreeMap::new() }))
    }

    /// Stores the times.
    pub fn write(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        text_file::write_json_line(vfs, &directory.join(VERIFIED_FILE), self)
    }

    /// Returns the verification time of each of the `count` ranges of a file.
    pub fn times(&self, file: &str, count: usize) -> Vec<i64> {
        let runs = self.files.get(file).map(Vec::as_slice).unwrap_or_default();
        let times = runs.iter().flat_map(|(run, time)| std::iter::repeat_n(*time, (*run).min(count)));
        times.chain(std::iter::repeat(0)).take(count).collect()
    }

    /// Returns the first file with bad ranges.
    pub fn bad_file(&self) -> Option<&str> {
        let is_bad = |runs: &Vec<(usize, i64)>| runs.iter().any(|(_, time)| *time == BAD_RANGE);
        self.files.iter().find(|(_, runs)| is_bad(runs)).map(|(file, _)| file.as_str())
    }

    /// Sets the verification times of a file.
    pub fn set(&mut self, file: &str, times: &[i64]) {
        let runs = times.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0]));
        self.files.insert(file.to_string(), runs.collect());
    }
}

/// Returns the maximum length of the `verified.json` file for a manifest. The file contains at most one run per
/// range.
fn max_bytes(manifest: &BackupManifest) -> u64 {
    const BYTES_PER_FILE: u64 = 16;
    const BYTES_PER_RUN: u64 = 48;
    // Each character of a file name takes at most six bytes in JSON.
    let of_file = |file: StoredFile<'_>| {
        6 * file.name.len() as u64 + BYTES_PER_FILE + file.bytes.div_ceil(RANGE_BYTES as u64) * BYTES_PER_RUN
    };
    let files = manifest.files().map(of_file).fold(0, u64::saturating_add);
    files.saturating_add(256).min(text_file::MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::SimVfs;

    use super::*;

    #[test]
    fn a_file_that_is_longer_than_its_manifest_allows_is_ignored() {
        let disk = SimVfs::new();
        let directory = Path::new("/backup");
        disk.create_directory(directory).unwrap();
        let manifest = BackupManifest { checksum: "c".to_string(), ..BackupManifest::default() };
        let mut verified = VerificationTimes { manifest: "c".to_string(), files: BTreeMap::new() };
        for (count, is_used) in [(1, true), (1_000_000, false)] {
            (0..count).for_each(|file| verified.set(&format!("f{file}"), &[9]));
            verified.write(&disk, directory).unwrap();
            let read = VerificationTimes::read(&disk, directory, &manifest).unwrap();
            assert_eq!(
                (read.files.len(), read.times("f0", 1)),
                (usize::from(is_used), vec![9 * i64::from(is_used)])
            );
        }
    }

    #[test]
    fn verification_times_are_stored_as_runs() {
        let mut verified = VerificationTimes::default();
        let times = [5, 5, 0, 7, 7, 7];
        verified.set("a", &times);
        assert_eq!(verified.files["a"], [(2, 5), (1, 0), (3, 7)]);
        assert_eq!(verified.times("a", 6), times);
        assert_eq!(verified.times("a", 8), [5, 5, 0, 7, 7, 7, 0, 0]);
        assert_eq!(verified.times("b", 2), [0, 0]);
    }
}
