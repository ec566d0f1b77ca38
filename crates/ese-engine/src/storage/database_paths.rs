//! Locations of a log's databases, if they differ from the paths in the log.

use std::path::{Path, PathBuf};

use ese_format::Signature;
use ese_format::header::DatabaseHeader;
use jetcell_vfs::{FileName, OpenMode, Vfs, is_unfinished};

use super::header::read_header;

/// Directories in which recovery searches for the databases named in a log. The paths in a log do not exist on this
/// system if the log was moved or was written by Windows.
#[derive(Clone, Debug, Default)]
pub struct DatabasePaths {
    placed: Vec<(Signature, PathBuf)>,
    renamed: Vec<(String, PathBuf)>,
    directories: Vec<PathBuf>,
}

impl DatabasePaths {
    /// Sets the path for the database with this signature, regardless of its path in the log.
    pub fn set_path(&mut self, signature: Signature, path: impl Into<PathBuf>) {
        self.placed.push((signature, path.into()));
    }

    /// Sets the path for the database whose path in the log is `logged`, ignoring case as in Windows. If `logged` is
    /// a directory that contains databases, `path` is a directory, too. ESE: `eseutil /r` with `/n`.
    pub fn rename(&mut self, logged: &str, path: impl Into<PathBuf>) {
        self.renamed.push((logged.trim_end_matches(['\\', '/']).to_string(), path.into()));
    }

    /// Adds a directory to search for databases, by the file names in the log and by their signatures. New databases
    /// are created in the first such directory. If at least one directory is added, the paths in the log are not used.
    pub fn search(&mut self, directory: impl Into<PathBuf>) {
        self.directories.push(directory.into());
    }

    /// Returns true if the paths in the log are used unchanged.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.renamed.is_empty() && self.directories.is_empty()
    }

    /// Returns the path of the database whose path in the log is `logged`.
    pub(crate) fn resolve(&self, vfs: &dyn Vfs, logged: &str, signature: Signature) -> PathBuf {
        if let Some((_, path)) = self.placed.iter().find(|(placed, _)| *placed == signature) {
            return path.clone();
        }
        for (old, new) in &self.renamed {
            if old.eq_ignore_ascii_case(logged) {
                return new.clone();
            }
            let parts = inside(logged, old).map(|rest| rest.split(['\\', '/']).map(FileName::new).collect());
            if let Some(Ok(parts)) = parts {
                let parts: Vec<FileName> = parts;
                return parts.iter().fold(new.clone(), |path, part| path.join(part));
            }
        }
        if self.directories.is_empty() {
            return PathBuf::from(logged);
        }
        // The log is not trusted: a name in it must not lead to a file outside the directories.
        let name = FileName::new(file_name(logged)).or_else(|_| FileName::new("unnamed.edb"));
        let Ok(name) = name else { return PathBuf::from(logged) };
        let found = self.directories.iter().flat_map(|directory| named(vfs, directory, &name));
        let mut first = None;
        for path in found {
            if header_of(vfs, &path).is_some_and(|header| header.signature == signature) {
                return path;
            }
            first.get_or_insert(path);
        }
        // A renamed database still has its signature.
        let all = self.directories.iter().flat_map(|directory| vfs.list(directory).unwrap_or_default());
        let is_database =
            |path: &PathBuf| header_of(vfs, path).is_some_and(|header| header.signature == signature);
        all.filter(|path| !is_unfinished(path))
            .find(is_database)
            .or(first)
            .or_else(|| self.directories.first().map(|directory| directory.join(&name)))
            .unwrap_or_else(|| PathBuf::from(logged))
    }
}

/// Returns the file name of a Windows or Unix path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['\\', '/']).next().unwrap_or(path)
}

/// Returns the part of `path` after the directory `directory`.
fn inside<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    let start = path.get(..directory.len())?;
    let rest = path.get(directory.len()..)?;
    start.eq_ignore_ascii_case(directory).then(|| rest.strip_prefix(['\\', '/'])).flatten()
}

/// Returns the files with this name in a directory, ignoring case.
fn named(vfs: &dyn Vfs, directory: &Path, name: &str) -> Vec<PathBuf> {
    let is_named = |path: &PathBuf| {
        path.file_name().is_some_and(|found| found.to_string_lossy().eq_ignore_ascii_case(name))
    };
    let mut found: Vec<PathBuf> =
        vfs.list(directory).unwrap_or_default().into_iter().filter(is_named).collect();
    found.sort_unstable();
    found
}

/// Returns the header of a database file, or `None` if it has no readable header.
fn header_of(vfs: &dyn Vfs, path: &Path) -> Option<DatabaseHeader> {
    let file = vfs.open(path, OpenMode::Read).ok()?;
    read_header(&*file).ok().map(|(header, _)| header)
}

#[cfg(test)]
mod tests {
    use ese_format::{LogTime, PageSize};
    use jetcell_vfs::SimVfs;

    use super::*;

    #[test]
    fn a_database_is_found_by_renamed_path_directory_or_name() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new("/copy")).unwrap();
        let put_database = |path: &str, random: u32| {
            let signature = Signature::new(random, LogTime::NONE);
            let header = DatabaseHeader::for_new_database(PageSize::KIB_4, signature, signature).encode();
            disk.put(Path::new(path), &[&header[..], &header].concat());
        };
        put_database("/copy/sru.DAT", 1);
        put_database("/copy/SRU.dat", 2);
        let signature = |random| Signature::new(random, LogTime::NONE);
        let mut paths = DatabasePaths::default();
        let resolve = |paths: &DatabasePaths, logged: &str, random| {
            paths.resolve(&disk, logged, signature(random)).to_string_lossy().into_owned()
        };
        assert_eq!(resolve(&paths, r"C:\Windows\sru.dat", 1), r"C:\Windows\sru.dat");
        paths.search("/copy");
        assert_eq!(resolve(&paths, r"C:\Windows\sru.dat", 1), "/copy/sru.DAT");
        assert_eq!(resolve(&paths, r"C:\Windows\sru.dat", 2), "/copy/SRU.dat");
        assert_eq!(resolve(&paths, "/old/other.edb", 2), "/copy/SRU.dat");
        assert_eq!(resolve(&paths, "/old/other.edb", 4), "/copy/other.edb");
        for outside in ["/old/..", r"/old/x\..", "/old/", "..", "/old/a\0b"] {
            assert_eq!(resolve(&paths, outside, 3), "/copy/unnamed.edb", "{outside}");
        }
        paths.rename(r"c:\windows\", "/a");
        paths.rename("/old/other.edb", "/b/new.edb");
        assert_eq!(resolve(&paths, r"C:\WINDOWS\System32\x.edb", 1), "/a/System32/x.edb");
        assert_eq!(resolve(&paths, "/old/other.edb", 2), "/b/new.edb");
        assert_eq!(resolve(&paths, r"C:\Windows2\SRU.dat", 2), "/copy/SRU.dat");
        paths.set_path(signature(2), "/restored/two.edb");
        assert_eq!(resolve(&paths, "/old/other.edb", 2), "/restored/two.edb");
        assert_eq!(resolve(&paths, "/old/other.edb", 1), "/b/new.edb");
    }
}
