//! Test targets: directories, files, and block devices.

use std::borrow::Cow;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_host::UnsuitableStorage;
use jetcell_host::machine::Mount;
use jetcell_input::number::human_bytes;
use jetcell_vfs::{Clock, File, IoBuffer, OpenMode, Vfs, direct_io_available};
use jetcell_workload::fragmentation::{FileMap, Fragmentation};
use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::erasable::ErasableDevice;

/// Name prefix for the files that a test creates in a directory. They are unlinked before the test runs, so any file
/// that still has such a name is a leftover.
const FILE_NAME_PREFIX: &str = ".jetcell-disk-test-";
/// File sizes are rounded to multiples of this many bytes.
const FILE_SIZE_GRANULARITY: u64 = 1 << 20;
/// Minimum size of a target in bytes. A smaller target would fit into the drive's cache.
pub const MIN_TARGET: u64 = 16 << 20;

/// The kind of target used in a drive test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// An unnamed file that the test creates in a directory.
    Directory,
    /// An existing file that is only read.
    File,
    /// An existing file whose content is overwritten.
    OverwrittenFile,
    /// A new file that the test creates at the given path and unlinks.
    NewFile,
    /// A block device that is opened read-only.
    Device,
    /// A block device whose content is overwritten.
    ErasedDevice,
}

/// An open drive test target.
pub struct TestTarget {
    /// Name in the results, unique within the test.
    pub name: String,
    /// Path as the user gave it.
    pub path: PathBuf,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Remarks for readers of the results.
    pub notes: Vec<String>,
    pub(super) file: Arc<dyn File>,
    pub(super) clock: Arc<dyn Clock>,
    /// Keeps other programs from using an erased device while the test runs.
    pub(super) _claim: Option<ErasableDevice>,
}

/// Reason why a path cannot be used as a drive test target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No file or device exists at the path.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// Writing was requested, but the target already exists and was not created by the test.
    #[error("{} exists", .0.display())]
    NotCreatedByTest(PathBuf),
    /// Writing to a device was requested.
    #[error("{} is a device, but --write applies only to files", .0.display())]
    DeviceWriteRequested(PathBuf),
    /// The storage cannot be measured.
    #[error(transparent)]
    Storage(#[from] UnsuitableStorage),
    /// The path is a pipe, a socket, or a character device.
    #[error("{} is a pipe, a socket or a character device", .0.display())]
    UnsupportedFileType(PathBuf),
    /// The target is too small for a measurement.
    #[error("{}: {} is too small for a test", .path.display(), human_bytes(*bytes))]
    TooSmall {
        /// The target that is too small.
        path: PathBuf,
        /// Size of the target in bytes.
        bytes: u64,
    },
    /// Only root may read the device.
    #[error("{}: reading a block device requires root: {error}", .path.display())]
    NotRoot {
        /// The device.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// Any other error.
    #[error("failed to access {}: {error}", .path.display())]
    Unusable {
        /// The target.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
}

impl TargetError {
    /// Returns what the user can do about the error, for example `use a smaller --size`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            TargetError::Missing(_) => {
                "specify a directory, a file or a block device, or --write to create a file"
            }
            TargetError::NotCreatedByTest(_) => {
                "add --force to overwrite the whole file, or specify a path that does not exist"
            }
            TargetError::DeviceWriteRequested(_) => "use --erase to overwrite it",
            TargetError::Storage(UnsuitableStorage::InMemory(..)) => "specify a target on a disk",
            TargetError::Storage(UnsuitableStorage::NoDirectIo(_)) => {
                "specify a target on another file system"
            }
            TargetError::Storage(UnsuitableStorage::NoSpace { .. }) => "use a smaller --size",
            TargetError::UnsupportedFileType(_) => "specify a directory, a file or a block device",
            TargetError::TooSmall { .. } => {
                return Some(format!("use at least {}", human_bytes(MIN_TARGET)).into());
            }
            TargetError::NotRoot { .. } => "run the command as root",
            TargetError::Unusable { .. } => return None,
        }))
    }
}

/// Which target files a test may write to. In a target directory, a test writes only to files that it creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePermission {
    /// No files. Existing files are only read.
    #[default]
    ReadOnly,
    /// New files, created by the test at paths that do not exist.
    NewFiles,
    /// New files and existing files. The content of existing files is lost.
    AllFiles,
}

impl TestTarget {
    /// Opens a target. In a directory, creates a file of `size` bytes and unlinks it immediately, so it disappears
    /// even if the test is killed. If the path does not exist and `writing` permits it, a file is created there in
    /// the same way.
    ///
    /// # Errors
    /// Returns an error if the target cannot be tested. A failed attempt leaves no files behind.
    pub fn open(
        vfs: &dyn Vfs,
        path: &Path,
        size: u64,
        writing: WritePermission,
    ) -> Result<TestTarget, TargetError> {
        let unusable = |error| TargetError::Unusable { path: path.into(), error };
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && writing != WritePermission::ReadOnly => {
                return TestTarget::create_file(vfs, path, path, size, TargetKind::NewFile);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TargetError::Missing(path.into()));
            }
            other => other.map_err(unusable)?,
        };
        if metadata.is_dir() {
            remove_leftovers(vfs, path).map_err(unusable)?;
            let own = path.join(format!("{FILE_NAME_PREFIX}{}", std::process::id()));
            return TestTarget::create_file(vfs, path, &own, size, TargetKind::Directory);
        }
        let (kind, mode) = match (metadata.file_type(), writing) {
            (kind, WritePermission::ReadOnly) if kind.is_file() => (TargetKind::File, OpenMode::Read),
            (kind, WritePermission::NewFiles) if kind.is_file() => {
                return Err(TargetError::NotCreatedByTest(path.into()));
            }
            (kind, WritePermission::AllFiles) if kind.is_file() => {
                (TargetKind::OverwrittenFile, OpenMode::Write)
            }
            (kind, WritePermission::ReadOnly) if kind.is_block_device() => {
                (TargetKind::Device, OpenMode::Read)
            }
            (kind, _) if kind.is_block_device() => {
                return Err(TargetError::DeviceWriteRequested(path.into()));
            }
            _ => return Err(TargetError::UnsupportedFileType(path.into())),
        };
        TestTarget::existing(vfs, path, kind, mode)
    }

    /// Opens a device whose content will be overwritten.
    ///
    /// # Errors
    /// Returns an error if the device cannot be tested. In this case, nothing is written.
    pub fn erase(vfs: &dyn Vfs, device: ErasableDevice) -> Result<TestTarget, TargetError> {
        let target = TestTarget::existing(vfs, &device.path, TargetKind::ErasedDevice, OpenMode::Write)?;
        Ok(TestTarget { _claim: Some(device), ..target })
    }

    fn existing(
        vfs: &dyn Vfs,
        path: &Path,
        kind: TargetKind,
        mode: OpenMode,
    ) -> Result<TestTarget, TargetError> {
        // Without direct I/O support in the file system, either the open or a later operation fails with this error.
        let unusable = |error: io::Error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => {
                UnsuitableStorage::NoDirectIo(path.into()).into()
            }
            _ => TargetError::Unusable { path: path.into(), error },
        };
        let file = vfs.open(path, mode).map_err(|error| {
            let device = matches!(kind, TargetKind::Device | TargetKind::ErasedDevice);
            if device && error.kind() == io::ErrorKind::PermissionDenied {
                return TargetError::NotRoot { path: path.into(), error };
            }
            unusable(error)
        })?;
        let bytes = file.len().map_err(unusable)?;
        if bytes < MIN_TARGET {
            return Err(TargetError::TooSmall { path: path.into(), bytes });
        }
        if !matches!(kind, TargetKind::Device | TargetKind::ErasedDevice) {
            reject_memory_file_system(path, path)?;
        }
        if !supports_direct_reads(path) {
            return Err(UnsuitableStorage::NoDirectIo(path.into()).into());
        }
        let notes = if kind == TargetKind::File { file_warnings(path) } else { Vec::new() };
        // The file is filled in whole MiB.
        let grain = if kind == TargetKind::OverwrittenFile {
            FILE_SIZE_GRANULARITY
        } else {
            IoBuffer::ALIGNMENT as u64
        };
        let bytes = bytes / grain * grain;
        Ok(TestTarget {
            name: path.display().to_string(),
            path: path.into(),
            kind,
            bytes,
            notes,
            file,
            clock: vfs.clock(),
            _claim: None,
        })
    }

    fn create_file(
        vfs: &dyn Vfs,
        path: &Path,
        own: &Path,
        size: u64,
        kind: TargetKind,
    ) -> Result<TestTarget, TargetError> {
        let unusable = |error| TargetError::Unusable { path: path.into(), error };
        let directory = jetcell_vfs::parent_directory(own);
        let bytes = size / FILE_SIZE_GRANULARITY * FILE_SIZE_GRANULARITY;
        if bytes < MIN_TARGET {
            return Err(TargetError::TooSmall { path: path.into(), bytes });
        }
        reject_memory_file_system(path, directory)?;
        let free = vfs.free_space(directory).map_err(unusable)?;
        let no_space =
            || TargetError::from(UnsuitableStorage::NoSpace { path: path.into(), needed: bytes, free });
        if free < bytes {
            return Err(no_space());
        }
        if !direct_io_available(directory) {
            return Err(UnsuitableStorage::NoDirectIo(path.into()).into());
        }
        let file = vfs.open(own, OpenMode::CreateNew).map_err(unusable)?;
        match vfs.remove(own) {
            // Another test that starts at the same moment may have removed the file already, because it looks like a
            // leftover.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
        file.grow(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => no_space(),
            _ => unusable(error),
        })?;
        Ok(TestTarget {
            name: path.display().to_string(),
            path: path.into(),
            kind,
            bytes,
            notes: Vec::new(),
            file,
            clock: vfs.clock(),
            _claim: None,
        })
    }

    /// Returns true if the test may write to the target, either because the test created its content or because the
    /// user allowed the content to be lost.
    pub fn is_written(&self) -> bool {
        !matches!(self.kind, TargetKind::File | TargetKind::Device)
    }
}

/// Rejects targets on tmpfs and ramfs. `there` is the target itself, or the parent directory of a file that does not
/// exist yet.
fn reject_memory_file_system(path: &Path, there: &Path) -> Result<(), TargetError> {
    match Mount::containing(there).filter(Mount::is_in_memory) {
        Some(mount) => Err(UnsuitableStorage::InMemory(path.into(), mount.file_system).into()),
        None => Ok(()),
    }
}

/// Removes files left behind by tests that were killed before they could unlink them.
fn remove_leftovers(vfs: &dyn Vfs, directory: &Path) -> io::Result<()> {
    for path in vfs.list(directory)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.starts_with(FILE_NAME_PREFIX)) {
            match vfs.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns true if a file or device supports direct reads.
fn supports_direct_reads(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else { return false };
    let mut buffer = IoBuffer::zeroed(IoBuffer::ALIGNMENT);
    rustix::io::pread(&file, &mut *buffer, 0) == Ok(buffer.len())
}

fn file_warnings(path: &Path) -> Vec<String> {
    let Ok(map) = FileMap::read(path) else { return Vec::new() };
    let found = Fragmentation::from_map(&map, &[]);
    let unread = found.hole_bytes.saturating_add(found.unwritten_bytes);
    if unread == 0 {
        return Vec::new();
    }
    let percent = 100.0 * unread as f64 / found.bytes.max(1) as f64;
    vec![format!("{percent:.1} % of the file was never written; reads of it do not reach the device")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetcell_vfs::{RealOptions, RealVfs};
    use testkit::{TestRequirement, skip};

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn test_files_are_unnamed_and_leftovers_are_removed() {
        let (dir, vfs) = (directory(), RealVfs::new(RealOptions::default()).unwrap());
        if !direct_io_available(dir.path()) {
            return;
        }
        std::fs::write(dir.path().join(format!("{FILE_NAME_PREFIX}1")), "leftover").unwrap();
        let target = TestTarget::open(&vfs, dir.path(), MIN_TARGET + 5, WritePermission::ReadOnly).unwrap();
        assert_eq!(
            (target.bytes, target.kind, target.is_written()),
            (MIN_TARGET, TargetKind::Directory, true)
        );
        assert_eq!(target.file.len().unwrap(), MIN_TARGET);
        let new = dir.path().join("new");
        let target = TestTarget::open(&vfs, &new, MIN_TARGET, WritePermission::NewFiles).unwrap();
        assert_eq!((target.kind, target.is_written()), (TargetKind::NewFile, true));
        assert_eq!(names(dir.path()), 0);
    }

    #[test]
    fn existing_files_are_opened_read_only_and_holes_are_reported() {
        let (dir, vfs) = (directory(), RealVfs::new(RealOptions::default()).unwrap());
        let path = dir.path().join("a");
        std::fs::File::create(&path).unwrap().set_len(MIN_TARGET + 100).unwrap();
        assert!(matches!(
            TestTarget::open(&vfs, &path, 0, WritePermission::NewFiles),
            Err(TargetError::NotCreatedByTest(_))
        ));
        if !direct_io_available(dir.path()) {
            return;
        }
        let target = TestTarget::open(&vfs, &path, 0, WritePermission::ReadOnly).unwrap();
        assert_eq!((target.bytes, target.is_written()), (MIN_TARGET, false));
        assert!(
            FileMap::read(&path).is_err() || target.notes[0].starts_with("100.0 % of the file was never")
        );
        let target = TestTarget::open(&vfs, &path, 0, WritePermission::AllFiles).unwrap();
        assert_eq!(
            (target.kind, target.bytes, target.is_written()),
            (TargetKind::OverwrittenFile, MIN_TARGET, true)
        );
        assert_eq!(target.notes, [""; 0], "it is filled before the test");
    }

    #[test]
    fn memory_file_systems_are_refused_despite_direct_io() {
        let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
            return skip(TestRequirement::Kernel, "no /dev/shm");
        };
        if !Mount::containing(memory.path()).is_some_and(|mount| mount.is_in_memory()) {
            return skip(TestRequirement::Kernel, "/dev/shm is not in memory");
        }
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        let file = memory.path().join("a");
        std::fs::write(&file, vec![7; MIN_TARGET as usize]).unwrap();
        let new = memory.path().join("new");
        for (path, writing) in [
            (memory.path(), WritePermission::ReadOnly),
            (&file, WritePermission::ReadOnly),
            (&new, WritePermission::NewFiles),
        ] {
            let refused = TestTarget::open(&vfs, path, MIN_TARGET, writing).err().unwrap();
            assert!(matches!(refused, TargetError::Storage(UnsuitableStorage::InMemory(..))), "{refused}");
        }
        assert_eq!(names(memory.path()), 1);
    }

    #[test]
    fn untestable_targets_are_refused_without_leaving_files() {
        let (dir, vfs) = (directory(), RealVfs::new(RealOptions::default()).unwrap());
        let open =
            |path: &Path, size| TestTarget::open(&vfs, path, size, WritePermission::ReadOnly).err().unwrap();
        assert!(matches!(open(&dir.path().join("none"), MIN_TARGET), TargetError::Missing(_)));
        assert!(matches!(open(Path::new("/dev/null"), MIN_TARGET), TargetError::UnsupportedFileType(_)));
        assert!(matches!(open(dir.path(), MIN_TARGET - 1), TargetError::TooSmall { .. }));
        assert!(matches!(open(dir.path(), 1 << 62), TargetError::Storage(UnsuitableStorage::NoSpace { .. })));
        assert_eq!(names(dir.path()), 0);
        let small = dir.path().join("small");
        std::fs::write(&small, "text").unwrap();
        assert!(matches!(open(&small, 0), TargetError::TooSmall { bytes: 4, .. }));
    }
}
