//! The storage under test: a directory on this machine, or an array in this process.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use jetcell_durability::TestedStorage;
use jetcell_input::number::human_bytes;
use jetcell_lab::{LocalSystem, shared_disk};
use jetcell_vfs::{MountedVfs, RealOptions, RealVfs, Vfs};

use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::array_volumes::{files_of_array, mount_arrays, resolve_array_directories};
use crate::shared::empty_directory::require_empty;

/// Free space in bytes that the writer may need.
const MIN_FREE_SPACE: u64 = 128 << 20;

/// Storage to test for durability, identified by its path: a directory, an array or a LUN.
pub struct DurabilityTarget {
    /// Path as the user gave it.
    given: PathBuf,
    /// Absolute path without `array:`.
    directory: PathBuf,
    /// An existing path on each disk of the storage.
    existing_paths: Vec<PathBuf>,
    is_array: bool,
}

impl DurabilityTarget {
    /// Determines the kind of storage without opening it.
    pub fn detect(given: &Path) -> CommandResult<DurabilityTarget> {
        let shown = given.display();
        if fs::metadata(given).is_ok_and(|found| found.file_type().is_block_device()) {
            return Err(CommandError::new(format_args!(
                "{shown} is a block device, but the test writes files"
            ))
            .advise(
                "create a file system on the device and specify a directory on it, or add the device to an \
                 array (jetcell raid create) and specify array:DIR",
            ));
        }
        let mut paths = vec![given.to_path_buf()];
        let is_array = !resolve_array_directories(&mut paths)?.is_empty();
        let directory = paths.swap_remove(0);
        let directory = std::path::absolute(&directory).context(shown)?;
        let places = if is_array {
            files_of_array(&directory)?
        } else {
            vec![existing_ancestor(&directory).to_path_buf()]
        };
        Ok(DurabilityTarget { given: given.into(), directory, existing_paths: places, is_array })
    }

    /// Returns the directory under test.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn is_array(&self) -> bool {
        self.is_array
    }

    /// Returns an existing path on the storage.
    pub fn existing_path(&self) -> &Path {
        self.existing_paths.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// Returns the reason why a file in `directory` would be lost together with the storage, or `None` if it would
    /// not be lost.
    pub fn shares_a_disk_with(&self, directory: &Path) -> io::Result<Option<String>> {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
        for place in &self.existing_paths {
            if device(directory)? == device(place)? {
                return Ok(Some("on the storage under test".into()));
            }
            if let Some(disk) = shared_disk(directory, place, &LocalSystem) {
                return Ok(Some(format!("on a disk under test ({disk})")));
            }
        }
        Ok(None)
    }

    /// Opens the storage, runs `work` on it, and shuts it down again.
    pub fn with_storage<T>(&self, work: impl FnOnce(&TestedStorage) -> CommandResult<T>) -> CommandResult<T> {
        let arrays = if self.is_array { vec![self.directory.clone()] } else { Vec::new() };
        let volumes = mount_arrays(arrays)?;
        let storage = files(true).and_then(|direct| {
            let buffered = files(false)?;
            let over = |real: RealVfs| MountedVfs::new(Arc::new(real), volumes.mounts());
            Ok(TestedStorage { direct: Arc::new(over(direct)), buffered: Arc::new(over(buffered)) })
        });
        let done = storage.and_then(|storage| work(&storage));
        let closed = volumes.close();
        let done = done?;
        closed?;
        Ok(done)
    }

    /// Fails if the storage contains files or has too little free space.
    pub fn check_free_space(&self, vfs: &dyn Vfs) -> CommandResult<()> {
        let shown = self.given.display();
        match self.is_array {
            false => require_empty(&*self.given, "test")?,
            true if vfs.exists(&self.directory).context(&shown)? => {
                return Err(CommandError::new(format_args!("{shown} contains files"))
                    .advise("use an empty array or LUN for the test"));
            }
            true => {}
        }
        let free = vfs.free_space(&self.directory).context(&shown)?;
        if free < MIN_FREE_SPACE {
            Err(CommandError::new(format_args!(
                "{shown}: only {} are free, but the test may need {}",
                human_bytes(free),
                human_bytes(MIN_FREE_SPACE)
            )))
        } else {
            Ok(())
        }
    }
}

fn files(direct: bool) -> CommandResult<RealVfs> {
    RealVfs::new(RealOptions { direct, ..RealOptions::default() }).context("could not start the I/O threads")
}

fn existing_ancestor(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}
