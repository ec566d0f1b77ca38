//! Directories that usually contain the logs of a database, and the file name extensions of logs.

use std::path::{Path, PathBuf};

/// Returns the directories that may contain the logs of a database, in search order: the database's own directory,
/// its subdirectory `Logs`, and the log directory of a Jetstress test. Jetstress keeps the logs of the database
/// `…001002.edb` in `log001`.
pub fn log_directories(database: &Path) -> Vec<PathBuf> {
    let own = database.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = database.file_stem().unwrap_or_default().to_string_lossy();
    let digits = stem.len().checked_sub(6).and_then(|at| stem.get(at..));
    let instance = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let test = instance.and_then(|digits| digits.get(..3)).map(|number| own.join(format!("log{number}")));
    [own.to_path_buf(), own.join("Logs"), own.join("logs")].into_iter().chain(test).collect()
}

/// Returns true if a file has the extension of a log: `log` or `jtx`, ignoring case.
pub fn has_log_extension(path: &Path) -> bool {
    let is = |known: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(known));
    is("log") || is("jtx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_in_the_directory_of_the_database_or_below_it() {
        let names = |database: &str| -> Vec<String> {
            let directories = log_directories(Path::new(database));
            directories.iter().map(|directory| directory.display().to_string()).collect()
        };
        assert_eq!(names("/a/mail.edb"), ["/a", "/a/Logs", "/a/logs"]);
        assert_eq!(names("mail.edb"), [".", "./Logs", "./logs"]);
        assert_eq!(names("t/Jetstress002001.edb"), ["t", "t/Logs", "t/logs", "t/log002"]);
        assert_eq!(names("t/12345.edb"), ["t", "t/Logs", "t/logs"]);
        assert_eq!(names("t/äö1234.edb"), ["t", "t/Logs", "t/logs"]);
    }
}
