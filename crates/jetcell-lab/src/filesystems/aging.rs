//! Ages a file system: writes files that fill it and fragment its free space.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jetcell_host::Cancellation;
use jetcell_vfs::sync_file_system;
use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Percentage of used space at which a round stops writing files.
const FULL_PERCENT: f64 = 90.0;
/// Maximum file size in bytes. Sizes are distributed logarithmically between [`MIN_FILE_BYTES`] and this value.
const MAX_FILE_BYTES: usize = 4 << 20;
const MIN_FILE_BYTES: usize = 4 << 10;
/// Number of files in each directory.
const FILES_PER_DIRECTORY: usize = 1000;
/// Number of files removed between two checks of the free space.
const SPACE_CHECK_INTERVAL: usize = 32;

/// Creates `directory` and ages the file system in rounds. Each round writes files of 4 KiB to 4 MiB until 90 % is in
/// use, then removes files in random order until `fill_percent` is in use. Finally, writes files until `fill_percent`
/// is in use again. Returns early on cancellation.
///
/// # Errors
/// Returns an error if a file cannot be written or removed. A full file system is not an error.
pub(super) fn age(
    directory: &Path,
    fill_percent: u8,
    rounds: u16,
    cancellation: &Cancellation,
) -> io::Result<()> {
    if fill_percent == 0 && rounds == 0 {
        return Ok(());
    }
    fs::create_dir(directory)?;
    // The seed is fixed, so every test writes the same files.
    let mut filler = SpaceFiller {
        directory: directory.into(),
        rng: ChaCha8Rng::seed_from_u64(1),
        files: Vec::new(),
        made: 0,
        bytes: vec![0; MAX_FILE_BYTES],
    };
    let fill = f64::from(fill_percent);
    for _ in 0..rounds {
        filler.write_until(FULL_PERCENT, cancellation)?;
        filler.remove_until(fill, cancellation)?;
    }
    filler.write_until(fill, cancellation)?;
    sync_file_system(directory)
}

struct SpaceFiller {
    directory: PathBuf,
    rng: ChaCha8Rng,
    files: Vec<PathBuf>,
    /// Number of files created so far.
    made: usize,
    bytes: Vec<u8>,
}

impl SpaceFiller {
    fn write_until(&mut self, percent: f64, cancellation: &Cancellation) -> io::Result<()> {
        // With delayed allocation, the used space does not include unsynced data.
        let mut unsynced = 0;
        while !cancellation.is_cancelled() && used_percent(&self.directory)? < percent {
            match self.write_one() {
                Ok(bytes) => unsynced += bytes,
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
            if unsynced >= 16 * MAX_FILE_BYTES {
                sync_file_system(&self.directory)?;
                unsynced = 0;
            }
        }
        sync_file_system(&self.directory)
    }

    fn write_one(&mut self) -> io::Result<usize> {
        let place = self.directory.join((self.made / FILES_PER_DIRECTORY).to_string());
        if self.made.is_multiple_of(FILES_PER_DIRECTORY) {
            fs::create_dir(&place)?;
        }
        let path = place.join(self.made.to_string());
        self.made += 1;
        let power = self.rng.random_range((MIN_FILE_BYTES as f64).ln()..=(MAX_FILE_BYTES as f64).ln());
        let size = (power.exp() as usize).clamp(MIN_FILE_BYTES, MAX_FILE_BYTES);
        let content = self.bytes.get_mut(..size).unwrap_or_default();
        self.rng.fill_bytes(content);
        let mut file = File::create_new(&path)?;
        self.files.push(path);
        file.write_all(content)?;
        Ok(size)
    }

    fn remove_until(&mut self, percent: f64, cancellation: &Cancellation) -> io::Result<()> {
        self.files.shuffle(&mut self.rng);
        while !cancellation.is_cancelled()
            && used_percent(&self.directory)? > percent
            && !self.files.is_empty()
        {
            for path in self.files.split_off(self.files.len().saturating_sub(SPACE_CHECK_INTERVAL)) {
                fs::remove_file(path)?;
            }
            sync_file_system(&self.directory)?;
        }
        Ok(())
    }
}

/// Returns a file system's used space in percent.
fn used_percent(path: &Path) -> io::Result<f64> {
    let found = rustix::fs::statvfs(path)?;
    let used = found.f_blocks.saturating_sub(found.f_bfree) as f64;
    // Space reserved for root counts as used, as in `df`.
    let all = used + found.f_bavail as f64;
    Ok(if all > 0.0 { used / all * 100.0 } else { 100.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aging_is_skipped_without_settings_and_stops_on_request() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let filler = directory.path().join("filler");
        age(&filler, 0, 0, &Cancellation::default()).unwrap();
        assert!(!filler.exists());
        let cancelled = Cancellation::default();
        cancelled.cancel();
        age(&filler, 80, 3, &cancelled).unwrap();
        assert_eq!(fs::read_dir(&filler).unwrap().count(), 0);
    }

    #[test]
    fn aging_writes_varied_sizes_and_removes_files_randomly() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let rng = ChaCha8Rng::seed_from_u64(1);
        let path = directory.path().to_path_buf();
        let mut filler = SpaceFiller {
            directory: path.clone(),
            rng,
            files: Vec::new(),
            made: 0,
            bytes: vec![0; MAX_FILE_BYTES],
        };
        let sizes: Vec<usize> = (0..12).map(|_| filler.write_one().unwrap()).collect();
        assert!(sizes.iter().all(|size| (MIN_FILE_BYTES..=MAX_FILE_BYTES).contains(size)));
        assert!(sizes.iter().min() < sizes.iter().max(), "{sizes:?}");
        // This removes all files, although the used space never reaches zero.
        filler.remove_until(0.0, &Cancellation::default()).unwrap();
        assert_eq!((filler.files.len(), fs::read_dir(path.join("0")).unwrap().count()), (0, 0));
    }
}
