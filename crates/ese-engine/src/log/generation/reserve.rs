//! Reserve logs: files that are there when the disk is full, so that what has begun can be ended. ESE: `E00res00001.jrs`.

use std::path::Path;

use jetcell_vfs::OpenMode;

use super::{PreparedFile, create_zeroed};
use crate::log::stream::{LogOptions, LogStream};
use crate::{Error, Result};

/// Reserve logs kept for a full disk: two, or as many small ones as make a megabyte.
fn reserves(options: &LogOptions) -> std::ops::RangeInclusive<u32> {
    1..=((1 << 20) / options.file_size).clamp(2, 16)
}

impl LogStream {
    /// Whether the file is there and has the length of a log file: of any other it could not be read as one.
    fn has_log_size(&self, path: &Path) -> bool {
        let file = self.options.vfs.open(path, OpenMode::Read);
        file.and_then(|file| file.len()).is_ok_and(|len| len == u64::from(self.options.file_size))
    }

    pub(super) fn take_reserve(&self) -> Result<PreparedFile> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let mut reserves = reserves(&self.options).rev().map(|number| names.reserve(number));
        let Some(reserve) = reserves.find(|path| self.has_log_size(path)) else {
            return Err(Error::DiskFull { path: names.next() });
        };
        let failed = |e: std::io::Error| Error::io(&reserve, &e);
        vfs.rename(&reserve, &names.next()).map_err(failed)?;
        vfs.sync_directory(names.directory()).map_err(failed)?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(failed)?;
        Ok(PreparedFile { file, from_reserve: true, written: u64::from(self.options.file_size) })
    }

    /// Creates missing reserve logs. A full disk is no error: they are for later.
    pub(in crate::log) fn restore_reserves(&self) {
        let Ok(mut files) = self.files() else { return };
        let vfs = &self.options.vfs;
        let reserves = || reserves(&self.options).map(|number| self.options.names.reserve(number));
        if !std::mem::replace(&mut files.reserves_examined, true) {
            // Of a stream with files of another size, or made when its process was killed.
            for odd in reserves().filter(|path| vfs.exists(path).unwrap_or(false) && !self.has_log_size(path))
            {
                let _ = vfs.remove(&odd);
            }
        }
        for reserve in reserves() {
            let there = vfs.exists(&reserve).map_err(|e| Error::io(&reserve, &e));
            if there
                .and_then(
                    |there| if there { Ok(()) } else { create_zeroed(&self.options, &reserve).map(drop) },
                )
                .is_err()
            {
                return;
            }
        }
        self.state.lock().on_reserves = false;
    }

    /// Ordinary work may not use what the reserves gave: it goes on when all of them are there again.
    pub(in crate::log) fn leave_reserves(&self) -> Result<()> {
        self.restore_reserves();
        match self.state.lock().on_reserves {
            true => Err(Error::DiskFull { path: self.options.names.next() }),
            false => Ok(()),
        }
    }
}
