//! Names of files in backups and in restored directories.

use std::path::Path;

use jetcell_vfs::{FileName, FileStem, NameError, is_unfinished};

/// The file whose presence makes a directory a backup.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The file that marks an incomplete backup.
pub const PARTIAL_FILE: &str = "manifest.partial.json";
/// The file that records which ranges of a backup were verified, and when.
pub const VERIFIED_FILE: &str = "verified.json";
/// The file that records the last proof of a backup.
pub const PROVED_FILE: &str = "proved.json";
/// The file that names the backups of a set, one for each log stream.
pub const STREAMS_FILE: &str = "streams.json";
/// The file that marks a directory in which a restore has not completed.
pub const RESTORE_MARKER: &str = "restore.partial";
/// The file that records the backups from which a directory was restored, and the time of the restore.
pub const RESTORED_FILE: &str = "restored.json";
/// File name extension of logs that a restore has not yet renamed to their final names.
pub const PLACED_LOG_EXTENSION: &str = "restoring";

/// Returns a name for the copy of each file. A copy has the same name as its original, with a number appended if
/// another original has the same name.
///
/// # Errors
///
/// Returns an error if a name is too long after the number is appended.
pub fn copy_names<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<Vec<FileName>, NameError> {
    let mut names: Vec<FileName> = Vec::new();
    for path in paths {
        // Linux allows names that other systems cannot store, such as those with a backslash.
        let own = FileName::from_path(path).ok().filter(|name| !is_reserved_name(name));
        let first = own.map_or_else(|| FileName::new("database.edb"), Ok)?;
        let (stem, extension) = first.rsplit_once('.').unwrap_or((&first, "edb"));
        let (mut name, mut number) = (first.clone(), 2);
        while names.contains(&name) {
            name = FileName::new(format!("{stem}-{number}.{extension}"))?;
            number += 1;
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns true if this name is reserved for files that backups and restores create. A database cannot have a
/// reserved name.
pub fn is_reserved_name(name: &str) -> bool {
    let placing = name.rsplit_once('.').is_some_and(|(_, ending)| ending == PLACED_LOG_EXTENSION);
    let own = [
        MANIFEST_FILE,
        PARTIAL_FILE,
        VERIFIED_FILE,
        PROVED_FILE,
        STREAMS_FILE,
        RESTORE_MARKER,
        RESTORED_FILE,
    ];
    own.contains(&name) || placing || is_unfinished(Path::new(name))
}

/// Returns the name of an instance's lock file.
pub fn lock_file(base: FileStem) -> String {
    format!("{base}.lock")
}

/// Returns true if the file is a side file of the database, which holds its saved page images or its flush map.
pub fn is_side_file(name: &str, database: &FileName) -> bool {
    let stem = database.rsplit_once('.').map_or(database.as_str(), |(stem, _)| stem);
    name.rsplit_once('.').is_some_and(|(named, ending)| match ending {
        "jdw" => named == database.as_str() || named == stem,
        "jfm" => named == stem,
        _ => false,
    })
}

/// Returns true if the file belongs to the log stream: a log, the checkpoint, or a reserve log.
pub fn is_stream_file(name: &str, base: FileStem) -> bool {
    let Some(rest) = name.strip_prefix(base.as_str()) else { return false };
    let Some((middle, ending)) = rest.rsplit_once('.') else { return false };
    let is_number = |text: &str| matches!(text.len(), 5..=8) && text.bytes().all(|b| b.is_ascii_hexdigit());
    match ending {
        "log" | "jtx" => middle.is_empty() || middle == "tmp" || is_number(middle),
        "chk" | "jcp" => middle.is_empty(),
        "jrs" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stream_files_are_recognized_as_stream_files() {
        for of_stream in
            ["E00.log", "E00tmp.log", "E0000000012.log", "E0000012.log", "E00.chk", "E00res00001.jrs"]
        {
            assert!(is_stream_file(of_stream, FileStem::E00), "{of_stream}");
        }
        for other in ["E01.log", "E00.txt", "E00notes.log", "data.edb", "E00", "mail.log", "data.edb.jdw"] {
            assert!(!is_stream_file(other, FileStem::E00), "{other}");
        }
        let database = FileName::new("data.edb").unwrap();
        for side_file in ["data.edb.jdw", "data.jdw", "data.jfm"] {
            assert!(is_side_file(side_file, &database), "{side_file}");
        }
        for other in ["other.edb.jdw", "other.jfm", "data.edb.jfm", "data.edb", "data"] {
            assert!(!is_side_file(other, &database), "{other}");
        }
    }

    #[test]
    fn file_copies_get_unique_names_that_backups_never_use() {
        let paths = ["/a/x.edb", "/b/x.edb", "/c/manifest.json", r"/d/a\b.edb", "/e/y.restoring", "/f/x.edb"];
        let names = copy_names(paths.iter().map(Path::new)).unwrap();
        let names: Vec<&str> = names.iter().map(FileName::as_str).collect();
        let wanted = ["x.edb", "x-2.edb", "database.edb", "database-2.edb", "database-3.edb", "x-3.edb"];
        assert_eq!(names, wanted);
        let long = format!("{}.edb", "x".repeat(FileName::MAX_BYTES - 4));
        let paths = [Path::new("/a").join(&long), Path::new("/b").join(&long)];
        copy_names(paths.iter().map(|path| &**path)).unwrap_err();
    }
}
