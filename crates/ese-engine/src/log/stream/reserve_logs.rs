//! Reserve logs: files created in advance so that transactions can end when the disk is full. ESE: `E00res00001.jrs`.

use std::path::Path;
use std::time::Duration;

use jetcell_vfs::OpenMode;

use super::LogStream;
use super::generations::{PreparedFile, ReserveLogState};
use crate::log::LogStreamOptions;
use crate::log::log_file::create;
use crate::{Error, Result};

/// Minimum time between two checks that the reserve logs exist. Idle streams run many steps per second, but the files
/// are rarely removed.
const RESERVE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the numbers of the reserve logs. There are at least two of them; if log files are small, there are up to
/// 16, with a total of one megabyte.
fn reserves(options: &LogStreamOptions) -> std::ops::RangeInclusive<u32> {
    1..=((1 << 20) / options.file_size).clamp(2, 16)
}

impl LogStream {
    /// Returns whether the file exists and has the size of a log file. A log of any other size could not be read.
    fn has_log_size(&self, path: &Path) -> bool {
        let file = self.options.vfs.open(path, OpenMode::Read);
        file.and_then(|file| file.len()).is_ok_and(|len| len == u64::from(self.options.file_size))
    }

    pub(super) fn take_reserve(&self) -> Result<PreparedFile> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let mut reserves = reserves(&self.options).rev().map(|number| names.reserve(number));
        let Some(reserve) = reserves.find(|path| self.has_log_size(path)) else {
            return Err(Error::DiskFull { path: names.next(), advice: None });
        };
        let io_error = |e: std::io::Error| Error::io(&reserve, &e);
        vfs.rename(&reserve, &names.next()).map_err(io_error)?;
        vfs.sync_directory(names.directory()).map_err(io_error)?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(io_error)?;
        Ok(PreparedFile { file, from_reserve: true, written: 0 })
    }

    /// Creates missing reserve logs. A full disk is not an error; a later call will create them.
    pub(in crate::log) fn restore_reserves(&self) {
        let Ok(mut files) = self.files() else { return };
        let vfs = &self.options.vfs;
        let reserves = || reserves(&self.options).map(|number| self.options.names.reserve(number));
        let now = vfs.clock().monotonic();
        if let ReserveLogState::Complete(then) = files.reserves
            && now.saturating_sub(then) < RESERVE_CHECK_INTERVAL
        {
            return;
        }
        if std::mem::replace(&mut files.reserves, ReserveLogState::Missing) == ReserveLogState::Unknown {
            // A file of the wrong size comes from a stream with another file size, or from a killed process.
            for odd in reserves().filter(|path| vfs.exists(path).unwrap_or(false) && !self.has_log_size(path))
            {
                let _ = vfs.remove(&odd);
            }
        }
        for reserve in reserves() {
            let Ok(there) = vfs.exists(&reserve) else { return };
            if !there && create(&self.options, &reserve).is_err() {
                return;
            }
        }
        files.reserves = ReserveLogState::Complete(now);
        self.state.lock().on_reserves = false;
    }

    /// Returns an error unless all reserve logs exist again, because ordinary work must not use their space.
    pub(in crate::log) fn leave_reserves(&self) -> Result<()> {
        self.restore_reserves();
        if self.state.lock().on_reserves {
            Err(Error::DiskFull { path: self.options.names.next(), advice: None })
        } else {
            Ok(())
        }
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
