//! Output files that are written from start to end (results, samples, events), and their directories.
//!
//! Invariant: no call hangs. The standard library retries interrupted calls without limit, so it would hang on a file
//! system that interrupts every call.

use std::fs::{DirBuilder, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_ownership::{NEW_DIRECTORY, NEW_FILE, check_ownership, nofollow_error, not_a_file_error};
use crate::path_names::parent_directory;
use crate::retry::{bounded, retry};

/// Maximum number of attempts to open a file that another process creates and removes concurrently.
const CREATIONS: usize = 100;
/// Size in bytes of the buffer for copying a file.
const COPY_BUFFER_BYTES: usize = 8 << 20;

/// A file opened for output.
#[derive(Debug)]
pub struct OutputFile(File);

impl OutputFile {
    /// Creates a file, or truncates an existing file to zero length.
    ///
    /// # Errors
    /// Returns an error if the path is a link, or if the file has other names or another owner. Another user may have
    /// prepared such a file.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        let file = OutputFile::open(path, OFlags::empty())?;
        // The file must not be truncated before its ownership has been checked.
        file.set_len(0)?;
        Ok(file)
    }

    /// Opens a file for appending. Creates it if it does not exist.
    ///
    /// # Errors
    /// Returns the errors of [`OutputFile::create`].
    pub fn append(path: &Path) -> io::Result<OutputFile> {
        OutputFile::open(path, OFlags::APPEND)
    }

    fn open(path: &Path, how: OFlags) -> io::Result<OutputFile> {
        open_owned_file(path, OFlags::WRONLY | how).map(OutputFile)
    }

    /// Makes the content and the length durable.
    pub fn sync(&self) -> io::Result<()> {
        sync_file(&self.0)
    }

    /// Truncates or extends the file. The length of a device does not change.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        if self.0.metadata()?.file_type().is_char_device() {
            return Ok(());
        }
        bounded(|| rustix::fs::ftruncate(&self.0, len))
    }

    /// Returns the open file.
    pub fn as_file(&self) -> &File {
        &self.0
    }
}

impl From<File> for OutputFile {
    fn from(file: File) -> OutputFile {
        OutputFile(file)
    }
}

/// Makes the entries of a directory durable. An empty path stands for the current directory.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    let opened = open_directory(directory)?;
    bounded(|| rustix::fs::fsync(&opened))
}

/// Makes all data written to a file system durable. `directory` is any directory on it. For many files, this is faster
/// than syncing each of them.
pub fn sync_file_system(directory: &Path) -> io::Result<()> {
    let opened = open_directory(directory)?;
    bounded(|| rustix::fs::syncfs(&opened))
}

fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    bounded(|| rustix::fs::openat(CWD, directory, flags, Mode::empty()))
}

/// Makes the content and the length of a file durable.
pub fn sync_file(file: impl AsFd) -> io::Result<()> {
    bounded(|| rustix::fs::fdatasync(&file))
}

/// Renames a file durably. Replaces an existing file.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_directory(parent_directory(to))
}

/// Creates a file. The path must not exist, not even as a link. Only the user can read and write the file.
pub fn create_new(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    bounded(|| rustix::fs::openat(CWD, path, flags, NEW_FILE)).map(File::from)
}

/// Copies a file durably to a new path. The copy shares blocks with the original if the file system supports that.
/// `progress` receives the number of bytes copied, and returns `false` to stop the copy there. Returns true if the
/// copy is complete.
pub fn clone_or_copy(from: &Path, to: &Path, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<bool> {
    let (source, mut copy) = (File::open(from)?, OutputFile(create_new(to)?));
    if rustix::fs::ioctl_ficlone(&copy.0, &source).is_err() {
        let (mut buffer, mut copied) = (vec![0; COPY_BUFFER_BYTES], 0);
        loop {
            let read = bounded(|| rustix::io::read(&source, &mut buffer[..]))?;
            if read == 0 {
                break;
            }
            copy.write_all(&buffer[..read])?;
            copied += read as u64;
            if !progress(copied) {
                return Ok(false);
            }
        }
    }
    copy.sync()?;
    Ok(true)
}

/// Opens a file for reading and writing, and keeps its content. Creates it if it does not exist.
///
/// # Errors
/// Returns the errors of [`OutputFile::create`].
pub fn open_or_create(path: &Path) -> io::Result<File> {
    open_owned_file(path, OFlags::RDWR)
}

/// Opens a file, or creates it. A character device is accepted, because it does not store data.
fn open_owned_file(path: &Path, how: OFlags) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe would wait until its other end is opened.
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |more| retry(|| rustix::fs::openat(CWD, path, flags | more, NEW_FILE));
    // Another process may create or remove the file between the two calls.
    for _ in 0..CREATIONS {
        match open(OFlags::CREATE | OFlags::EXCL) {
            Err(Errno::EXIST) => {}
            created => return Ok(created?.into()),
        }
        let file = match open(OFlags::empty()) {
            Err(Errno::NOENT) => continue,
            Err(Errno::NXIO) => return Err(not_a_file_error("a pipe or a socket")),
            opened => opened.map_err(nofollow_error)?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::Fifo => return Err(not_a_file_error("a pipe")),
            FileType::CharacterDevice => {}
            _ => check_ownership(&file, path)?,
        }
        return Ok(file.into());
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a directory and its missing parents, durably. Only the user can access the new directories.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let created: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(NEW_DIRECTORY).create(path)?;
    // A user may be allowed to create a directory, but not to open its parent. Some file systems cannot sync
    // directories.
    let is_impossible = |error: &io::Error| {
        let code = error.raw_os_error().map(Errno::from_raw_os_error);
        matches!(code, Some(Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP))
    };
    created.iter().rev().try_for_each(|path| match sync_directory(parent_directory(path)) {
        Err(error) if is_impossible(&error) => Ok(()),
        synced => synced,
    })
}

impl Write for OutputFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        bounded(|| rustix::io::write(&self.0, data))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn planted_output_paths_are_refused_and_left_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path_to = |name: &str| dir.path().join(name);
        std::fs::write(path_to("victim"), "victim").unwrap();
        symlink(path_to("victim"), path_to("link")).unwrap();
        symlink(path_to("created"), path_to("to nothing")).unwrap();
        std::fs::hard_link(path_to("victim"), path_to("second name")).unwrap();
        rustix::fs::mknodat(CWD, path_to("pipe"), FileType::Fifo, NEW_FILE, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(path_to("socket")).unwrap();
        for name in ["link", "to nothing", "second name", "pipe", "socket"] {
            for opened in [OutputFile::create(&path_to(name)), OutputFile::append(&path_to(name))] {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
            }
            assert!(create_new(&path_to(name)).is_err());
        }
        assert_eq!(std::fs::read(path_to("victim")).unwrap(), b"victim");
        assert!(!path_to("created").exists());
        OutputFile::create(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    }

    #[test]
    fn new_files_and_directories_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        create_private_directory(&path).unwrap();
        create_private_directory(&path).unwrap();
        create_new(&path.join("file")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o700, 0o700));
        assert_eq!(mode(&path.join("file")), 0o600);
    }

    #[test]
    fn an_output_file_is_created_emptied_appended_and_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let text = || std::fs::read_to_string(&path).unwrap();
        OutputFile::create(&path).unwrap().write_all(b"a longer text").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"text").unwrap();
        file.sync().unwrap();
        OutputFile::append(&path).unwrap().write_all(b" and more").unwrap();
        assert_eq!(text(), "text and more");
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(text(), "new");
        sync_directory(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(
            OutputFile::create(dir.path()).is_err() && OutputFile::append(Path::new("/none/file")).is_err()
        );
    }
}
