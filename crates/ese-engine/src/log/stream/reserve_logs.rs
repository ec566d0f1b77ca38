//! Reserve logs: files created in advance to let transactions end when the disk is full. ESE: `E00res00001.jrs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_vfs::{File, OpenMode};

use crate::log::LogStreamOptions;
use crate::log::log_file::create;
use crate::{Error, Result};

/// Minimum time between two checks that the reserve logs exist. Idle streams run many steps per second, but the files
/// are rarely removed.
const RESERVE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State of the reserve logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReserveLogState {
    /// Unknown: files of the wrong size may exist from before the stream was opened.
    Unknown,
    Missing,
    /// All reserve logs existed at this time.
    Complete(Duration),
}

/// The reserve logs of a stream.
pub(super) struct ReserveLogs<'a>(pub(super) &'a LogStreamOptions);

impl ReserveLogs<'_> {
    /// Returns the paths of the reserve logs. There are at least two of them; if log files are small, there are up to
    /// 16, with a total of one megabyte.
    fn paths(&self) -> impl DoubleEndedIterator<Item = PathBuf> {
        (1..=((1 << 20) / self.0.file_size).clamp(2, 16)).map(|number| self.0.names.reserve(number))
    }

    /// Returns whether the file exists and has the size of a log file. A log of any other size could not be read.
    fn has_log_size(&self, path: &Path) -> bool {
        let file = self.0.vfs.open(path, OpenMode::Read);
        file.and_then(|file| file.len()).is_ok_and(|len| len == u64::from(self.0.file_size))
    }

    /// Renames a reserve log to the next log file.
    pub fn take(&self) -> Result<Arc<dyn File>> {
        let (names, vfs) = (&self.0.names, &self.0.vfs);
        let Some(reserve) = self.paths().rev().find(|path| self.has_log_size(path)) else {
            return Err(Error::DiskFull { path: names.next(), advice: None });
        };
        let io_error = |e: std::io::Error| Error::io(&reserve, &e);
        vfs.rename(&reserve, &names.next()).map_err(io_error)?;
        vfs.sync_directory(names.directory()).map_err(io_error)?;
        vfs.open(&names.next(), OpenMode::Write).map_err(io_error)
    }

    /// Creates missing reserve logs. Returns true if all of them were found or created just now. A full disk is not
    /// an error; a later call will create them.
    pub fn restore(&self, state: &mut ReserveLogState) -> bool {
        let vfs = &self.0.vfs;
        let now = vfs.clock().monotonic();
        if let ReserveLogState::Complete(then) = *state
            && now.saturating_sub(then) < RESERVE_CHECK_INTERVAL
        {
            return false;
        }
        if std::mem::replace(state, ReserveLogState::Missing) == ReserveLogState::Unknown {
            // A file of the wrong size comes from a stream with a different file size, or from a killed process.
            let is_odd = |path: &PathBuf| vfs.exists(path).unwrap_or(false) && !self.has_log_size(path);
            for odd in self.paths().filter(is_odd) {
                let _ = vfs.remove(&odd);
            }
        }
        for reserve in self.paths() {
            let Ok(there) = vfs.exists(&reserve) else { return false };
            if !there && create(self.0, &reserve).is_err() {
                return false;
            }
        }
        *state = ReserveLogState::Complete(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{SimVfs, Vfs};

    use super::RESERVE_CHECK_INTERVAL;
    use crate::Error;
    use crate::log::tests::{FILE_SIZE, batch, create, names, read, record};

    #[test]
    fn a_full_disk_rejects_appends_but_transactions_can_finish() {
        let disk = SimVfs::new();
        let log = create(disk.clone());
        log.step().unwrap();
        let reserves = || (1..=16).filter(|&number| disk.exists(&names().reserve(number)).unwrap()).count();
        let all = reserves();
        assert!(all >= 2);
        disk.set_capacity(disk.used());
        let big = batch(&[record(1, 3000)]);
        let mut accepted = 0;
        let refused = loop {
            match log.append(&big) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
            assert!(accepted < 100, "two files hold fewer");
        };
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
        for _ in 0..20 {
            log.append_privileged(&big).unwrap();
            accepted += 1;
        }
        log.flush(log.tail()).unwrap();
        log.step().unwrap();
        assert!(reserves() < all, "a reserve log was used");
        let refused = loop {
            match log.append(&big) {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
        disk.set_capacity(disk.used() + 10 * u64::from(FILE_SIZE));
        log.step().unwrap();
        assert_eq!(reserves(), all, "reserves are restored");
        log.append(&big).unwrap();
        log.close().unwrap();
        assert_eq!(read(&disk).unwrap().0.len(), accepted + 1);
    }

    #[test]
    fn removed_reserve_logs_are_recreated_within_a_second() {
        let disk = SimVfs::new();
        let log = create(disk.clone());
        log.step().unwrap();
        let reserve_exists = || disk.exists(&names().reserve(1)).unwrap();
        assert!(reserve_exists());
        disk.remove(&names().reserve(1)).unwrap();
        disk.clock().sleep(RESERVE_CHECK_INTERVAL);
        log.step().unwrap();
        assert!(reserve_exists());
    }

    /// Checks that reserve logs of the wrong size are not used. Such files are left over from a process that was
    /// killed while creating them, or from a stream with larger files.
    #[test]
    fn reserve_logs_of_the_wrong_size_are_not_used() {
        let half = FILE_SIZE as usize / 2;
        for odd in [0, half, 2 * half + 4096, 4 * half] {
            for later in [false, true] {
                let disk = SimVfs::new();
                let put_reserves = |numbers: std::ops::RangeInclusive<u32>| {
                    numbers.for_each(|number| disk.put(&names().reserve(number), &vec![7; odd]));
                };
                if !later {
                    put_reserves(1..=16);
                }
                let log = create(disk.clone());
                let whole = (1..=16).filter(|&number| {
                    disk.contents(&names().reserve(number))
                        .is_some_and(|bytes| bytes.len() == FILE_SIZE as usize)
                });
                assert_eq!(whole.count(), 16, "{odd}: reserves are restored");
                if later {
                    put_reserves(10..=16);
                }
                disk.set_capacity(disk.used());
                for number in 0..60 {
                    log.append_privileged(&batch(&[record(number, 3000)])).unwrap();
                }
                log.flush(log.tail()).unwrap();
                let (found, _) = read(&disk.process_kill()).unwrap_or_else(|e| panic!("{odd}: {e}"));
                assert_eq!(found.len(), 60, "{odd}");
            }
        }
    }
}
