//! Extents of a file, as reported by the file system (`FIEMAP`).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fiemap::{Fiemap, FiemapExtent, FiemapExtentFlags, FiemapFlags};

/// Kernel error codes for a file system that does not support extents: ENOTTY, EOPNOTSUPP.
const UNKNOWN_TO_FILE_SYSTEM: [i32; 2] = [25, 95];

/// A contiguous part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file in bytes.
    pub logical: u64,
    /// Offset on the device in bytes, or `None` if the file system does not report it.
    pub physical: Option<u64>,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the extent was allocated but never written.
    pub unwritten: bool,
    /// Whether the extent is shared with other files or snapshots.
    pub shared: bool,
}

impl FileExtent {
    /// Returns the file offset just past the end of the extent.
    pub fn end(&self) -> u64 {
        self.logical.saturating_add(self.bytes)
    }

    /// Returns how many bytes of the extent lie before a file offset.
    pub(super) fn bytes_before(&self, offset: u64) -> u64 {
        self.end().min(offset).saturating_sub(self.logical)
    }

    /// Returns the distance on the device between the end of this extent and the start of the next.
    pub fn distance_to(&self, next: &FileExtent) -> Option<u64> {
        Some(self.physical?.saturating_add(self.bytes).abs_diff(next.physical?))
    }

    /// Returns true if `next` directly follows this extent both in the file and on the device.
    pub(super) fn is_continued_by(&self, next: &FileExtent) -> bool {
        self.end() == next.logical && self.distance_to(next) == Some(0)
    }
}

impl From<FiemapExtent> for FileExtent {
    fn from(found: FiemapExtent) -> FileExtent {
        let has_flags = |flags| found.fe_flags.intersects(flags);
        let elsewhere = FiemapExtentFlags::UNKNOWN
            | FiemapExtentFlags::DELALLOC
            | FiemapExtentFlags::ENCODED
            | FiemapExtentFlags::NOT_ALIGNED
            | FiemapExtentFlags::DATA_INLINE
            | FiemapExtentFlags::DATA_TAIL;
        FileExtent {
            logical: found.fe_logical,
            physical: (!has_flags(elsewhere)).then_some(found.fe_physical),
            bytes: found.fe_length,
            unwritten: has_flags(FiemapExtentFlags::UNWRITTEN),
            shared: has_flags(FiemapExtentFlags::SHARED),
        }
    }
}

/// A map of a file's extents, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMap {
    /// Path of the file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Extents of the file. The last extent may reach past the end of the file.
    pub extents: Vec<FileExtent>,
}

/// Error returned when a file's extent map is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum FileMapError {
    /// The path is not a regular file.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The file cannot be opened or examined.
    #[error("failed to read {}: {error}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
    /// The file system does not store extents on a device.
    #[error("{}: the file system does not report the location of files (FIEMAP)", .0.display())]
    NoExtents(PathBuf),
}

impl FileMapError {
    /// Returns what the user can do about the error, or a likely cause.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            FileMapError::NotAFile(_) => Some("specify files, or directories that contain databases"),
            FileMapError::NoExtents(_) => Some("tmpfs, for example, does not have a device"),
            FileMapError::Unreadable { .. } => None,
        }
    }
}

impl FileMap {
    /// Returns each pair of successive extents between which there is a gap or a jump, either in the file or on the
    /// device.
    pub fn discontinuities(&self) -> impl Iterator<Item = (&FileExtent, &FileExtent)> {
        let pairs = self.extents.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
        pairs.filter(|(one, next)| !one.is_continued_by(next))
    }

    /// Reads a file's map. Data that is only in memory is flushed first, because until then it has no location on the
    /// device.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file, or its file system does not report extents.
    pub fn read(path: &Path) -> Result<FileMap, FileMapError> {
        let unreadable = |error| FileMapError::Unreadable { path: path.into(), error };
        // Opening a pipe would block, so the type is checked before the file is opened.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(FileMapError::NotAFile(path.into()));
        }
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let found: io::Result<Vec<FiemapExtent>> = Fiemap::with_flags(&file, FiemapFlags::SYNC).collect();
        let found = found.map_err(|error| match error.raw_os_error() {
            Some(code) if UNKNOWN_TO_FILE_SYSTEM.contains(&code) => FileMapError::NoExtents(path.into()),
            _ => unreadable(error),
        })?;
        let mut extents: Vec<FileExtent> = found.into_iter().map(FileExtent::from).collect();
        extents.sort_by_key(|extent| extent.logical);
        Ok(FileMap { path: path.into(), bytes, extents })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Creates a file with data from 0 to 64 KiB and from 128 to 192 KiB. Returns `None` if the file system does not
    /// report extents.
    fn sparse() -> Option<(tempfile::TempDir, FileMap)> {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("a.edb");
        let file = File::create(&path).unwrap();
        for offset in [0, 128 << 10] {
            file.write_all_at(&[7; 64 << 10], offset).unwrap();
        }
        match FileMap::read(&path) {
            Ok(map) => Some((dir, map)),
            Err(FileMapError::NoExtents(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn written_parts_have_extents_and_holes_have_none() {
        let Some((_dir, map)) = sparse() else { return };
        assert_eq!(map.bytes, 192 << 10);
        let covered =
            |offset: u64| map.extents.iter().any(|each| each.logical <= offset && offset < each.end());
        assert!(covered(0) && covered((64 << 10) - 1) && covered(128 << 10), "{map:?}");
        assert!(!covered(96 << 10), "{map:?}");
        assert!(map.extents.iter().all(|each| !each.unwritten && each.bytes > 0), "{map:?}");
    }

    #[test]
    fn anything_except_a_regular_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(FileMap::read(dir.path()), Err(FileMapError::NotAFile(_))));
        assert!(matches!(FileMap::read(Path::new("/dev/null")), Err(FileMapError::NotAFile(_))));
        assert!(matches!(FileMap::read(&dir.path().join("none")), Err(FileMapError::Unreadable { .. })));
    }

    #[test]
    fn a_file_system_without_extents_is_named_as_the_cause() {
        let memory = Path::new("/dev/shm");
        let Ok(dir) = tempfile::tempdir_in(memory) else { return };
        let path = dir.path().join("a.edb");
        std::fs::write(&path, "text").unwrap();
        match FileMap::read(&path) {
            Err(error @ FileMapError::NoExtents(_)) => {
                assert!(error.to_string().contains("FIEMAP"), "{error}");
            }
            // In a container, `/dev/shm` may be on another file system.
            other => assert!(other.is_ok(), "{other:?}"),
        }
    }
}
