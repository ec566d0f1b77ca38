//! Directories in which paths are resolved without following links.
//!
//! Invariant: an operation on a path in a confined directory affects only entries in that directory and its
//! subdirectories. A symbolic link in such a path is refused, regardless of when it was created. The directory that
//! contains the entry is opened first, and the operation addresses the entry relative to it. An attacker therefore
//! cannot replace a directory between check and use.
//!
//! The kernel resolves a path in one call (`openat2`). On kernels without this call, each component is opened
//! separately.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::retry::retry;

/// Flags that open a directory only to resolve names in it.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The confined directories of a file system. Paths outside them are resolved as usual.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confinement {
    roots: Vec<ConfinedDirectory>,
    /// Forces the fallback for kernels without `openat2`. Used by tests.
    only_components: bool,
}

/// A confined directory.
#[derive(Clone, Debug)]
struct ConfinedDirectory {
    /// Prefix of the paths that callers pass.
    path: PathBuf,
    /// Link-free path to the same directory, resolved when the directory was added. If a part of this path is later
    /// replaced by a link, the link is refused.
    canonical: PathBuf,
}

/// A path resolved up to its last component.
pub(crate) struct ResolvedPath<'p> {
    /// The directory that contains the entry, or `None` if the path is not confined and is relative to the current
    /// directory.
    directory: Option<OwnedFd>,
    /// Name of the entry in the directory, or the whole path if `directory` is `None`.
    name: &'p Path,
}

impl<'p> ResolvedPath<'p> {
    /// Creates a path that is resolved as usual.
    pub fn unconfined(path: &'p Path) -> ResolvedPath<'p> {
        ResolvedPath { directory: None, name: path }
    }

    /// Returns the directory argument for the `*at` system calls.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// Returns the name argument for the `*at` system calls.
    pub fn name(&self) -> &Path {
        self.name
    }

    /// Returns true if links are refused.
    pub fn refuses_links(&self) -> bool {
        self.directory.is_some()
    }

    /// Opens the entry.
    pub fn open(&self, flags: OFlags, rights: Mode) -> rustix::io::Result<OwnedFd> {
        let flags = if self.refuses_links() { flags | OFlags::NOFOLLOW } else { flags };
        rustix::fs::openat(self.directory(), self.name, flags | OFlags::CLOEXEC, rights)
    }

    /// Returns the type of the entry.
    pub fn file_type(&self) -> rustix::io::Result<FileType> {
        let flags = if self.refuses_links() { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        rustix::fs::statat(self.directory(), self.name, flags)
            .map(|found| FileType::from_raw_mode(found.st_mode))
    }

    /// Returns true if the entry is a symbolic link.
    pub fn is_link(&self) -> bool {
        let found = rustix::fs::statat(self.directory(), self.name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
    }

    /// Converts an error from an operation on the entry.
    pub fn to_io_error(&self, error: Errno) -> io::Error {
        match error {
            Errno::LOOP if self.refuses_links() => link_error(),
            other => other.into(),
        }
    }
}

/// Returns the error for a link in a confined directory.
fn link_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the path contains a symbolic link, but links are not allowed here; replace the link with the file \
         or directory",
    )
}

fn escapes() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the path leads outside its directory; specify an entry of the directory",
    )
}

impl Confinement {
    /// Adds a directory, which need not exist yet.
    pub fn add(&mut self, directory: &Path) -> io::Result<()> {
        let absolute = std::path::absolute(directory)?;
        let canonical = canonical(&absolute)?;
        // Callers may also refer to the directory by its relative path.
        if absolute != directory {
            self.roots
                .push(ConfinedDirectory { path: directory.to_path_buf(), canonical: canonical.clone() });
        }
        self.roots.push(ConfinedDirectory { path: absolute, canonical });
        Ok(())
    }

    #[cfg(test)]
    pub fn resolve_components_only(&mut self) {
        self.only_components = true;
    }

    /// Returns the confined directory that contains `path`, with links in the directory's own path resolved.
    pub fn root_of(&self, path: &Path) -> Option<&Path> {
        self.find(path).map(|root| root.canonical.as_path())
    }

    fn find(&self, path: &Path) -> Option<&ConfinedDirectory> {
        self.roots.iter().find(|root| path.starts_with(&root.path))
    }

    /// Resolves a path up to its last component.
    ///
    /// # Errors
    /// Returns system errors. Also returns an error (`PermissionDenied`) if a component is a link or leads out of the
    /// confined directory.
    pub fn resolve<'p>(&self, path: &'p Path) -> io::Result<ResolvedPath<'p>> {
        let Some(root) = self.find(path) else { return Ok(ResolvedPath::unconfined(path)) };
        let below = path.strip_prefix(&root.path).unwrap_or(path);
        if below.components().any(|component| !matches!(component, Component::Normal(_))) {
            return Err(escapes());
        }
        let directory = self.open_directory(CWD, &root.canonical, ResolveFlags::empty())?;
        let Some(name) = below.file_name() else {
            return Ok(ResolvedPath { directory: Some(directory), name: Path::new(".") });
        };
        let directory = match below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.open_directory(directory.as_fd(), parent, ResolveFlags::BENEATH)?,
            None => directory,
        };
        Ok(ResolvedPath { directory: Some(directory), name: Path::new(name) })
    }

    fn open_directory(&self, base: BorrowedFd<'_>, path: &Path, how: ResolveFlags) -> io::Result<OwnedFd> {
        let how = how | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = if self.only_components {
            Err(Errno::NOSYS)
        } else {
            retry(|| rustix::fs::openat2(base, path, DIRECTORY, Mode::empty(), how))
        };
        let opened = match opened {
            // System call filters report `EPERM` for calls unknown to them.
            Err(Errno::NOSYS | Errno::PERM) => open_components(base, path),
            opened => opened,
        };
        opened.map_err(|error| match error {
            Errno::LOOP => link_error(),
            Errno::XDEV => escapes(),
            other => other.into(),
        })
    }
}

/// Opens a directory component by component. `path` must not contain `..`.
fn open_components(base: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    for component in path.components() {
        let from = at.as_ref().map_or(base, AsFd::as_fd);
        let next = match component {
            Component::RootDir => rustix::fs::openat(CWD, "/", DIRECTORY, Mode::empty())?,
            Component::CurDir => continue,
            Component::Normal(name) => {
                let opened = rustix::fs::openat(from, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
                opened.map_err(|error| match rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => Errno::LOOP,
                    _ => error,
                })?
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::XDEV),
        };
        at = Some(next);
    }
    at.ok_or(Errno::NOENT)
}

/// Resolves the links in a directory path. Components that do not exist yet are appended unchanged.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    for existing in path.ancestors() {
        match std::fs::canonicalize(existing) {
            Ok(found) => {
                let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() { found } else { found.join(rest) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_path_buf())
}

#[cfg(test)]
mod tests;
