//! User-supplied input files that are read from start to end: configurations, lists, journals, secrets.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_ownership::{check_ownership, nofollow_error, not_a_file_error};
use crate::retry::{bounded, retry};

/// Linux: `PIPEFS_MAGIC`, the file system of unnamed pipes, such as those of `<(command)`.
const PIPEFS: u32 = 0x5049_5045;

/// Access rights that only the owner of a secret may have.
const OWNER_ONLY: Mode = Mode::RWXU;

/// A file opened for input. The number of retries is limited, in case the file system interrupts every read.
#[derive(Debug)]
pub struct InputFile(File);

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        bounded(|| rustix::io::read(&self.0, &mut *buffer))
    }
}

/// Opens a file for reading without ever waiting for another process to open it. An unnamed pipe is accepted.
///
/// # Errors
/// Returns system errors. Also returns an error if the path is a directory, a named pipe, a socket or a device.
pub fn open_input(path: &Path) -> io::Result<InputFile> {
    open(path, OFlags::empty())
}

/// Like [`open_input`], for a file that controls which files are written or removed.
///
/// # Errors
/// Returns the errors of [`open_input`]. Also returns an error if the path is a link, or if the file has other names
/// or may have been prepared by another user.
pub fn open_trusted_input(path: &Path) -> io::Result<InputFile> {
    let file = open(path, OFlags::NOFOLLOW)?;
    check_ownership(&file.0, path)?;
    Ok(file)
}

fn open(path: &Path, how: OFlags) -> io::Result<InputFile> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | how;
    let file = match retry(|| rustix::fs::openat(CWD, path, flags, Mode::empty())) {
        Err(Errno::NXIO) => return Err(not_a_file_error("a socket, or a device without a driver")),
        Err(error) if how.contains(OFlags::NOFOLLOW) => return Err(nofollow_error(error)),
        other => other?,
    };
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        FileType::Fifo if rustix::fs::fstatfs(&file)?.f_type as u32 == PIPEFS => {
            // The process at the other end of the pipe may still be working, so reads must block.
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        }
        FileType::Fifo => return Err(not_a_file_error("a pipe")),
        _ => return Err(not_a_file_error("a device")),
    }
    Ok(InputFile(file.into()))
}

/// Checks that [`open_input`] can open a file and that the file has at most `largest` bytes. Used before other code
/// opens the file by name.
///
/// # Errors
/// Returns the errors of [`open_input`], and an error if the file is larger than `largest`.
pub fn check_input(path: &Path, largest: u64) -> io::Result<()> {
    if open_input(path)?.0.metadata()?.len() > largest { Err(too_large(largest)) } else { Ok(()) }
}

/// Reads a file of at most `largest` bytes with [`open_input`].
///
/// # Errors
/// Returns the errors of [`open_input`] and of reading, and an error if the file is larger than `largest`.
pub fn read_input_bytes(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_input(path)?, largest)
}

fn read_at_most(file: InputFile, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max { Err(too_large(max)) } else { Ok(bytes) }
}

/// Reads a secret, such as a token or a private key, of at most `max` bytes with [`open_input`].
///
/// # Errors
/// Returns the errors of [`read_input`]. Also returns an error (`PermissionDenied`) if users other than the file's
/// owner can read or change it.
pub fn read_secret(path: &Path, max: u64) -> io::Result<String> {
    let file = open_input(path)?;
    require_private(&file, path)?;
    text(read_at_most(file, max)?)
}

/// Checks that [`read_secret`] can read a secret. Used before other code opens the file by name.
///
/// # Errors
/// Returns the errors of [`read_secret`].
pub fn check_secret(path: &Path, max: u64) -> io::Result<()> {
    require_private(&open_input(path)?, path)?;
    check_input(path, max)
}

/// Like ssh, fails if users other than the owner can access a file. A group may read a file owned by the superuser,
/// because systems provide keys to their services this way.
fn require_private(file: &InputFile, path: &Path) -> io::Result<()> {
    let found = rustix::fs::fstat(&file.0)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        // The other end of an unnamed pipe is a process of the same user.
        return Ok(());
    }
    let is_of_system = found.st_uid == 0 && !rustix::process::geteuid().is_root();
    let allowed = if is_of_system { OWNER_ONLY | Mode::RGRP } else { OWNER_ONLY };
    if Mode::from_raw_mode(found.st_mode).difference(allowed).intersects(Mode::RWXG | Mode::RWXO) {
        let what = format!(
            "other users can read or change this secret; run 'chmod 600 {}' and create a new secret",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

fn too_large(largest: u64) -> io::Error {
    let what = format!("the file is larger than {} KiB; specify the correct file", largest >> 10);
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads a string of at most `largest` bytes with [`open_input`].
///
/// # Errors
/// Returns the errors of [`read_input_bytes`], and an error if the text is not UTF-8.
pub fn read_input(path: &Path, largest: u64) -> io::Result<String> {
    text(read_input_bytes(path, largest)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is not UTF-8 text; save it as UTF-8, or specify a different file",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_secret_accessible_to_other_users_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "secret").unwrap();
        for (mode, is_private) in [
            (0o600, true),
            (0o400, true),
            (0o700, true),
            (0o640, false),
            (0o604, false),
            (0o620, false),
            (0o602, false),
            (0o610, false),
            (0o644, false),
        ] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            if is_private {
                assert_eq!(read_secret(&file, 6).unwrap(), "secret", "{mode:o}");
                check_secret(&file, 6).unwrap();
                continue;
            }
            for error in [read_secret(&file, 6).unwrap_err(), check_secret(&file, 6).unwrap_err()] {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
                let advice = format!("run 'chmod 600 {}'", file.display());
                assert!(error.to_string().contains(&advice) && !error.to_string().contains('\n'), "{error}");
            }
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        for error in [read_secret(&file, 5).unwrap_err(), check_secret(&file, 5).unwrap_err()] {
            assert!(error.to_string().contains("larger than"), "{error}");
        }
        // A link to a private file is accepted.
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        assert_eq!(read_secret(&dir.path().join("link"), 6).unwrap(), "secret");
    }

    #[test]
    fn a_trusted_input_file_must_not_be_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut text = String::new();
        open_trusted_input(&file).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        open_input(&link).unwrap();
        assert_eq!(open_trusted_input(&link).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(open_trusted_input(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::hard_link(&file, dir.path().join("second")).unwrap();
        assert_eq!(open_trusted_input(&file).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn only_regular_files_and_anonymous_pipes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_input(&file, 4).unwrap(), "text");
        assert_eq!(
            (read_input_bytes(&file, 4).unwrap(), check_input(&file, 4).unwrap()),
            (b"text".to_vec(), ())
        );
        for error in [read_input(&file, 3).unwrap_err(), check_input(&file, 3).unwrap_err()] {
            assert!(error.to_string().contains("larger than"), "{error}");
        }
        std::fs::write(&file, [0xff]).unwrap();
        assert!(read_input(&file, 4).unwrap_err().to_string().contains("UTF-8"));

        let (reader, mut writer) = io::pipe().unwrap();
        let of_shell = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let read = std::thread::spawn(move || read_input(Path::new(&of_shell), 100));
        writer.write_all(b"from a command").unwrap();
        drop(writer);
        assert_eq!(read.join().unwrap().unwrap(), "from a command");

        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (pipe.as_path(), "this is a pipe, not a file; specify a regular file"),
            (socket.as_path(), "this is a socket"),
            (Path::new("/dev/zero"), "this is a device"),
            (dir.path(), "Is a directory"),
            (dir.path().join("none").as_path(), "No such file"),
        ] {
            for error in [open_input(path).unwrap_err(), check_input(path, 100).unwrap_err()] {
                assert!(error.to_string().starts_with(what), "{error}");
            }
        }
    }
}
