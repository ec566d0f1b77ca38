//! Checks that a file was not prepared by another user. Used before writing into directories in which other users can
//! create files.
//!
//! A link in such a directory would redirect a write to a file elsewhere. A second name for a file, or a different
//! owner, would give other users access to the written data. Such files are refused before anything is written.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::path_names::parent_directory;
use crate::retry::retry;

/// Access rights of new files. Results, databases and logs contain mail, so only the owner can read them.
pub(crate) const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Access rights of new directories.
pub(crate) const NEW_DIRECTORY: u32 = 0o700;

/// Converts the error of an `open` call with `O_NOFOLLOW`.
pub(crate) fn nofollow_error(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => refusal("this is a symbolic link, but writes do not follow links; remove the link"),
        other => other.into(),
    }
}

/// Fails unless an open file is a regular file with exactly one name. Its owner must be the one that new files of
/// this process get in the same directory.
pub(crate) fn check_ownership(file: impl AsFd, path: &Path) -> io::Result<()> {
    let found = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(not_a_file_error("a device"));
    }
    if found.st_nlink > 1 {
        return Err(refusal(
            "this file has other hard links, which a write would also change; remove this link",
        ));
    }
    // Some network file systems assign a different owner to new files.
    let is_own = found.st_uid == rustix::process::geteuid().as_raw()
        || owner_of_new_files(parent_directory(path)).is_ok_and(|owner| owner == found.st_uid);
    if is_own {
        Ok(())
    } else {
        Err(refusal("this file belongs to another user and could be changed by that user; remove the file"))
    }
}

/// Returns the owner of files that this process creates in a directory.
fn owner_of_new_files(directory: &Path) -> io::Result<u32> {
    // The hasher's keys are random. If the name exists nevertheless, opening the file fails.
    let random = RandomState::new().build_hasher().finish();
    let probe = directory.join(format!(".jetcell-owner-{random:x}"));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = retry(|| rustix::fs::openat(CWD, &probe, flags, NEW_FILE))?;
    let owner = rustix::fs::fstat(&file).map(|found| found.st_uid);
    let _ = rustix::fs::unlinkat(CWD, &probe, AtFlags::empty());
    Ok(owner?)
}

fn refusal(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Returns the error for a path that does not lead to a regular file.
pub(crate) fn not_a_file_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("this is {what}, not a file; specify a regular file"))
}
