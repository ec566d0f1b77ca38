//! Verifies that a backup still has the bytes that were backed up. The check covers the complete backup, a part of
//! it, or only the ranges that have never been verified.

use std::path::{Path, PathBuf};

use jetcell_input::with_advice;
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, OpenMode, Vfs, is_unfinished};

use crate::backup_fault::BackupFault;
use crate::error::{BackupError, Result};
use crate::file_damage::FileDamage;
use crate::file_names::{MANIFEST_FILE, PARTIAL_FILE, PROVED_FILE, VERIFIED_FILE};
use crate::manifest::{BackupManifest, StoredFile};
use crate::ranges::{RANGE_BYTES, range_bounds, read_range};
use crate::transfer_control::{TransferControl, TransferMeter};
use crate::verification_times::{BAD_RANGE, VerificationTimes};

/// The part of a backup to verify.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VerificationSubset {
    /// Part number and total number of parts. All parts together cover the complete backup.
    Part(u64, u64),
    /// Percentage of the backup. Ranges that were verified least recently are checked first.
    Percent(f64),
    /// Number of bytes. Ranges that were verified least recently are checked first.
    Bytes(u64),
}

/// Options for verifying a backup.
#[derive(Clone, Default)]
pub struct VerifyOptions {
    /// Verifies only a part of the backup. `None` means the complete backup.
    pub subset: Option<VerificationSubset>,
    /// Verifies only ranges that have never been verified.
    pub only_unverified: bool,
    /// Rate limit, progress callback and cancellation.
    pub pace: TransferControl,
}

/// Result of verifying a backup.
#[derive(Clone, Debug)]
pub struct BackupVerification {
    /// Manifest of the backup.
    pub manifest: BackupManifest,
    /// Number of bytes read.
    pub bytes: u64,
    /// Size of the backup in bytes.
    pub total_bytes: u64,
    /// Number of ranges read.
    pub ranges: u64,
    /// Number of ranges in the backup.
    pub total_ranges: u64,
    /// Time of the oldest verification among all ranges, in seconds since 1970 UTC; `None` if any range has never
    /// been verified.
    pub oldest: Option<i64>,
    /// Files that are missing or differ in length or content. Each entry contains the file, the offset of the bad
    /// range, and a description.
    pub problems: Vec<(PathBuf, u64, String)>,
    /// Files in the directory that the manifest does not name. A restore ignores them.
    pub unknown_files: Vec<PathBuf>,
    /// Reason why the verification times could not be stored; `None` if they were stored.
    pub times_not_stored: Option<String>,
}

struct StoredRange<'a> {
    file: usize,
    stored: StoredFile<'a>,
    index: usize,
    time: i64,
}

/// Verifies a backup and stores the verification times in the backup's `verified.json` file.
///
/// # Errors
///
/// Returns an error if the directory does not contain a complete backup (-615), if its manifest has been modified, or
/// if the caller cancelled the operation. Modified files are not an error; [`BackupVerification::problems`] lists
/// them.
pub fn verify(vfs: &Arc<dyn Vfs>, directory: &Path, options: &VerifyOptions) -> Result<BackupVerification> {
    let manifest = BackupManifest::read(&**vfs, directory)?;
    let mut verified = VerificationTimes::read(&**vfs, directory, &manifest)?;
    let files: Vec<StoredFile<'_>> = manifest.files().collect();
    let sums: Vec<Vec<u64>> = files.iter().map(|file| file.range_checksums().0).collect();
    let mut times: Vec<Vec<i64>> =
        files.iter().zip(&sums).map(|(file, sums)| verified.times(file.name, sums.len())).collect();
    let all = ranges(&files, &times);
    let total_ranges = all.len() as u64;
    let chosen = select_ranges(all, options);
    let gauge = TransferMeter::new(options.pace.clone(), vfs.clock());
    gauge.add_total(chosen.iter().map(|range| range_bounds(range.index, range.stored.bytes).1 as u64).sum());
    let mut found = BackupVerification {
        bytes: 0,
        total_bytes: manifest.bytes(),
        ranges: 0,
        total_ranges,
        oldest: None,
        problems: find_missing_files(&**vfs, directory, &files),
        unknown_files: find_unknown_files(&**vfs, directory, &files)?,
        times_not_stored: None,
        manifest: manifest.clone(),
    };
    let now = (vfs.clock().unix_ms() / 1000).max(1);
    let mut buffer = IoBuffer::zeroed(RANGE_BYTES);
    let mut stopped = None;
    for of_file in chosen.chunk_by(|a, b| a.file == b.file) {
        let Some(first) = of_file.first() else { continue };
        let path = directory.join(first.stored.name);
        let Ok(file) = vfs.open(&path, OpenMode::Read) else { continue };
        for range in of_file {
            let (at, len) = range_bounds(range.index, range.stored.bytes);
            if let Err(error) = gauge.wait_for(len as u64) {
                stopped.get_or_insert(error);
                break;
            }
            let sum = sums[range.file][range.index];
            let fault = match read_range(&*file, &path, (at, len), sum, &mut buffer) {
                Ok(true) => None,
                Ok(false) => Some(FileDamage::Content.to_string()),
                Err(error) => Some(error.to_string()),
            };
            times[range.file][range.index] = if fault.is_none() { now } else { BAD_RANGE };
            found.problems.extend(fault.map(|what| (path.clone(), at, what)));
            (found.ranges, found.bytes) = (found.ranges + 1, found.bytes + len as u64);
        }
    }
    // A file of the wrong length is bad, even if all its ranges are correct.
    for (file, times) in files.iter().zip(&mut times) {
        if found
            .problems
            .iter()
            .any(|(path, ..)| path.file_name().is_some_and(|name| name == file.name.as_str()))
            && !times.contains(&BAD_RANGE)
        {
            times.fill(BAD_RANGE);
        }
    }
    for (file, times) in files.iter().zip(&times) {
        verified.set(file.name, times);
    }
    found.oldest = times.iter().flatten().copied().min().filter(|oldest| *oldest > 0);
    found.times_not_stored =
        verified.write(&**vfs, directory).err().map(|error| with_advice(&error, error.advice()));
    stopped.map_or(Ok(found), Err)
}

fn ranges<'a>(files: &[StoredFile<'a>], times: &[Vec<i64>]) -> Vec<StoredRange<'a>> {
    let of_file = |(file, (stored, times)): (usize, (&StoredFile<'a>, &Vec<i64>))| {
        let stored = *stored;
        let range = move |(index, time): (usize, i64)| StoredRange { file, stored, index, time };
        times.clone().into_iter().enumerate().map(range)
    };
    files.iter().zip(times).enumerate().flat_map(of_file).collect()
}

/// Selects the ranges to verify, in file order.
fn select_ranges<'a>(mut ranges: Vec<StoredRange<'a>>, options: &VerifyOptions) -> Vec<StoredRange<'a>> {
    if options.only_unverified {
        ranges.retain(|range| range.time <= 0);
    }
    let len = |range: &StoredRange<'_>| range_bounds(range.index, range.stored.bytes).1 as u64;
    let all: u64 = ranges.iter().map(len).sum();
    let wanted = match options.subset {
        None => return ranges,
        Some(VerificationSubset::Part(part, of)) => {
            let mut number = 0;
            ranges.retain(|_| {
                number += 1;
                (number - 1) % of.max(1) == part.saturating_sub(1)
            });
            return ranges;
        }
        Some(VerificationSubset::Percent(percent)) => {
            (all as f64 * percent.clamp(0.0, 100.0) / 100.0).ceil() as u64
        }
        Some(VerificationSubset::Bytes(bytes)) => bytes,
    };
    ranges.sort_by_key(|range| range.time);
    let mut taken = 0;
    ranges.retain(|range| {
        let more = taken < wanted;
        taken += if more { len(range) } else { 0 };
        more
    });
    ranges.sort_by_key(|range| (range.file, range.index));
    ranges
}

/// Returns known damage of a backup: a missing file, a file of the wrong length, or a file in which a check found bad
/// ranges. Reads no content of the files.
pub(crate) fn find_known_damage(
    vfs: &dyn Vfs,
    directory: &Path,
    manifest: &BackupManifest,
) -> Result<Option<BackupFault>> {
    let files: Vec<StoredFile<'_>> = manifest.files().collect();
    if let Some((path, _, what)) = find_missing_files(vfs, directory, &files).into_iter().next() {
        return Ok(Some(BackupFault::WrongFile { path, what }));
    }
    let verified = VerificationTimes::read(vfs, directory, manifest)?;
    Ok(verified.bad_file().map(|file| BackupFault::FoundDamaged(file.to_string())))
}

/// Returns the files that are missing or differ in length.
fn find_missing_files(
    vfs: &dyn Vfs,
    directory: &Path,
    files: &[StoredFile<'_>],
) -> Vec<(PathBuf, u64, String)> {
    let fault = |file: &StoredFile<'_>| {
        let path = directory.join(file.name);
        let what = match vfs.open(&path, OpenMode::Read).and_then(|opened| opened.len()) {
            Ok(len) if len == file.bytes => return None,
            Ok(len) => format!("the file is {len} bytes long, expected {}", file.bytes),
            Err(error) => format!("failed to open the file: {error}"),
        };
        Some((path, 0, what))
    };
    files.iter().filter_map(fault).collect()
}

/// Returns the files that are neither named in the manifest nor created by this crate.
fn find_unknown_files(vfs: &dyn Vfs, directory: &Path, files: &[StoredFile<'_>]) -> Result<Vec<PathBuf>> {
    let mut found = vfs.list(directory).map_err(|error| BackupError::io(directory, &error))?;
    let own = [MANIFEST_FILE, PARTIAL_FILE, VERIFIED_FILE, PROVED_FILE];
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_known =
            own.iter().any(|own| name == *own) || files.iter().any(|file| name == file.name.as_str());
        !is_known && !is_unfinished(path)
    });
    found.sort();
    Ok(found)
}

/// Opens a backup file. Fails if its length differs from the length in the manifest. The length is checked first so
/// that a restore never writes a file or reserves space for bytes that do not exist.
pub(crate) fn open_stored(vfs: &dyn Vfs, path: &Path, stored: StoredFile<'_>) -> Result<Arc<dyn File>> {
    let io_error = |error: std::io::Error| BackupError::io(path, &error);
    let file = vfs.open(path, OpenMode::Read).map_err(io_error)?;
    if file.len().map_err(io_error)? == stored.bytes {
        Ok(file)
    } else {
        Err(BackupError::changed(path, FileDamage::Content))
    }
}

/// Verifies one file of a backup.
pub(crate) fn verify_file(
    vfs: &dyn Vfs,
    directory: &Path,
    stored: StoredFile<'_>,
    gauge: &TransferMeter,
) -> Result<()> {
    let path = directory.join(stored.name);
    let file = open_stored(vfs, &path, stored)?;
    let mut buffer = IoBuffer::zeroed(RANGE_BYTES);
    for (index, sum) in stored.range_checksums().0.iter().enumerate() {
        gauge.check()?;
        if !read_range(&*file, &path, range_bounds(index, stored.bytes), *sum, &mut buffer)? {
            return Err(BackupError::changed(&path, FileDamage::Content));
        }
    }
    Ok(())
}
