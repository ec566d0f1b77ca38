//! Files that no other user prepared: for writing into directories in which other users can create files.
//!
//! A link in such a directory would lead a write to a file elsewhere. A second name of a file, or another owner, would give other users
//! access to the written data. These files are refused before anything is written.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::path_names::parent_directory;

/// Access rights of new files: results, databases and logs contain mail, so only their owner reads them.
pub(crate) const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Access rights of new directories.
pub(crate) const NEW_DIRECTORY: u32 = 0o700;

/// The error of an open with `O_NOFOLLOW`.
pub(crate) fn not_followed(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => refused("this is a symbolic link, and writes do not follow it; remove the link"),
        other => other.into(),
    }
}

/// Fails unless an open file is a regular one with one name, and only this user or the owner of its directory can have created it.
pub(crate) fn check_own(file: impl AsFd, path: &Path) -> io::Result<()> {
    let found = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(no_file("a device"));
    }
    if found.st_nlink > 1 {
        return Err(refused(
            "this file has other names, which a write would change as well; remove this name",
        ));
    }
    if found.st_uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    // Some network file systems give new files another owner. In a directory that only its owner can write, they are not planted.
    let directory = rustix::fs::stat(parent_directory(path))?;
    let others_write = Mode::from_raw_mode(directory.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    match others_write && found.st_uid != directory.st_uid {
        false => Ok(()),
        true => Err(refused("this file belongs to another user, who can read and change it; remove it")),
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The error for a path that leads to something else than a file.
pub(crate) fn no_file(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("this is {what}, not a file; give a regular file"))
}
