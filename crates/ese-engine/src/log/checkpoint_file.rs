//! The checkpoint file on disk. It contains two copies of the checkpoint, which are written one after the other.

use std::path::{Path, PathBuf};

use ese_format::checkpoint::{CHECKPOINT_LEN, Checkpoint};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{File, FileStem, IoBuffer, IoReason, OpenMode, Vfs, parent_directory};

use super::LogNameFormat;
use crate::{Error, Result};

/// The checkpoint file of a log stream, such as `E00.chk`.
pub struct CheckpointFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Mutex<Option<Arc<dyn File>>>,
}

impl CheckpointFile {
    /// Creates a handle for the checkpoint file with this base name in the system directory. The file need not exist.
    pub fn new(vfs: Arc<dyn Vfs>, directory: &Path, base: FileStem, form: LogNameFormat) -> CheckpointFile {
        let name = format!("{base}.{}", form.checkpoint_extension());
        CheckpointFile { vfs, path: directory.join(name), file: Mutex::new(None) }
    }

    /// Reads the checkpoint. Returns `None` if no readable checkpoint exists; recovery then starts at the oldest log.
    pub fn read(&self) -> Result<Option<Checkpoint>> {
        let io_error = |e: std::io::Error| Error::io(&self.path, &e);
        let file = match self.vfs.open(&self.path, OpenMode::Write) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error)?,
        };
        // Data written by a killed process may exist only in the kernel's page cache, while logs before the
        // checkpoint may already have been removed. The checkpoint must be durable before it is used.
        file.sync(IoReason::CheckpointFile).map_err(io_error)?;
        if file.len().map_err(io_error)? < 2 * CHECKPOINT_LEN as u64 {
            return Ok(None);
        }
        let mut copies = IoBuffer::zeroed(2 * CHECKPOINT_LEN);
        file.read_at(0, &mut copies, IoReason::CheckpointFile).map_err(io_error)?;
        Ok(Checkpoint::decode_file(&copies).ok())
    }

    /// Allocates the space that the file needs. An instance can then shut down even if the disk is full.
    pub fn reserve(&self) -> Result<()> {
        self.open().map(|_| ())
    }

    fn open(&self) -> Result<Arc<dyn File>> {
        let io_error = |e: std::io::Error| Error::io(&self.path, &e);
        let mut open = self.file.lock();
        if open.is_none() {
            let there = self.vfs.exists(&self.path).map_err(io_error)?;
            let mode = if there { OpenMode::Write } else { OpenMode::CreateNew };
            let file = self.vfs.open(&self.path, mode).map_err(io_error)?;
            // This is also needed if the file exists, because a process that was killed after creating it may not
            // have synced the directory.
            let directory = parent_directory(&self.path);
            self.vfs.sync_directory(directory).map_err(io_error)?;
            if file.len().map_err(io_error)? < 2 * CHECKPOINT_LEN as u64 {
                file.grow(2 * CHECKPOINT_LEN as u64).map_err(io_error)?;
            }
            *open = Some(file);
        }
        open.clone().ok_or_else(|| Error::io(&self.path, &std::io::ErrorKind::NotFound.into()))
    }

    /// Writes both copies, with a sync after each. One copy is therefore always complete.
    pub fn write(&self, checkpoint: &Checkpoint) -> Result<()> {
        let io_error = |e: std::io::Error| Error::io(&self.path, &e);
        let file = self.open()?;
        let mut page = IoBuffer::zeroed(CHECKPOINT_LEN);
        page.copy_from_slice(&checkpoint.encode());
        for copy in 0..2 {
            file.write_at(copy * CHECKPOINT_LEN as u64, &page, IoReason::CheckpointFile).map_err(io_error)?;
            file.sync(IoReason::CheckpointFile).map_err(io_error)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ese_format::{LogPosition, LogTime, Signature};
    use jetcell_vfs::{CrashOptions, SimVfs};

    use super::*;

    #[test]
    fn a_checkpoint_survives_killing_the_creator_and_a_power_cut() {
        let checkpoint = Checkpoint::new(LogPosition::new(3, 1, 40), Signature::new(7, LogTime::NONE));
        let file = |disk: &SimVfs| {
            CheckpointFile::new(
                Arc::new(disk.clone()),
                Path::new("/log"),
                FileStem::E00,
                LogNameFormat::default(),
            )
        };
        for operations in 1..5 {
            let disk = SimVfs::new();
            disk.create_directory(Path::new("/log")).unwrap();
            disk.cut_power_after(disk.operations() + operations);
            let _ = file(&disk).reserve();
            let disk = disk.process_kill();
            file(&disk).write(&checkpoint).unwrap();
            let lost = CrashOptions { lose_name: 1.0, ..CrashOptions::default() };
            let found = file(&disk.crash(1, lost)).read().unwrap();
            assert_eq!(found.map(|found| found.position), Some(checkpoint.position), "{operations}");
        }
    }
}
