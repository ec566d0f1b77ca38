//! Names of a log stream's files.

use std::path::{Path, PathBuf};

use ese_format::Generation;
use jetcell_vfs::FileStem;

/// Format of a stream's file names, excluding the base name. The default is the format used by Exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogNameFormat {
    /// Whether the names of archived logs have 5 digits instead of 8. Some Windows components use such names.
    pub short: bool,
    /// Whether logs have the extension `.jtx` and the checkpoint file has `.jcp`, rather than `.log` and `.chk`. ESE:
    /// `JET_paramLegacyFileNames` without `JET_bitESE98FileNames`.
    #[doc(alias = "JET_paramLegacyFileNames")]
    pub newer_extensions: bool,
}

impl LogNameFormat {
    /// Returns the extension of log files.
    pub fn log_extension(self) -> &'static str {
        if self.newer_extensions { "jtx" } else { "log" }
    }

    /// Returns the extension of the checkpoint file.
    pub fn checkpoint_extension(self) -> &'static str {
        if self.newer_extensions { "jcp" } else { "chk" }
    }

    /// Returns the file name of an archived log.
    pub fn archived(self, base: FileStem, generation: Generation) -> String {
        let digits = if self.short { 5 } else { 8 };
        format!("{base}{:0digits$X}.{}", generation.0, self.log_extension())
    }

    /// Returns the file name of the current log.
    pub fn current(self, base: FileStem) -> String {
        format!("{base}.{}", self.log_extension())
    }
}

/// File names for a log stream with a particular directory and base name.
#[derive(Clone, Debug)]
pub struct LogNames {
    directory: PathBuf,
    base: FileStem,
    form: LogNameFormat,
}

impl LogNames {
    /// Creates names such as `E00.log` in `directory`.
    pub fn new(directory: &Path, base: FileStem) -> LogNames {
        LogNames { directory: directory.to_path_buf(), base, form: LogNameFormat::default() }
    }

    /// Returns these names in the format used by the logs among `files`. Uses `form` if `files` contains no logs or
    /// does not determine the format.
    #[must_use]
    pub fn with_format_of(self, files: &[PathBuf], form: LogNameFormat) -> LogNames {
        let newer = LogNames { form: LogNameFormat { newer_extensions: true, ..form }, ..self.clone() };
        let older = LogNames { form: LogNameFormat { newer_extensions: false, ..form }, ..self };
        let has_logs = |names: &LogNames| {
            files.iter().any(|path| *path == names.current() || names.generation_of(path).is_some())
        };
        let names = match (has_logs(&older), has_logs(&newer)) {
            (true, false) => older,
            (false, true) => newer,
            _ if form.newer_extensions => newer,
            _ => older,
        };
        let is_short = |path: &PathBuf| {
            names.generation_of(path).is_some()
                && path.file_stem().is_some_and(|stem| stem.len() == names.base.len() + 5)
        };
        let short = form.short || files.iter().any(is_short);
        LogNames { form: LogNameFormat { short, ..names.form }, ..names }
    }

    /// Returns the format of the names.
    pub fn format(&self) -> LogNameFormat {
        self.form
    }

    /// Returns the log directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the base name of the stream.
    pub fn base(&self) -> FileStem {
        self.base
    }

    /// Returns the path of the current log.
    pub fn current(&self) -> PathBuf {
        self.directory.join(self.form.current(self.base))
    }

    /// Returns the path of an archived log.
    pub fn archived(&self, generation: Generation) -> PathBuf {
        self.directory.join(self.form.archived(self.base, generation))
    }

    /// Returns the path of the prepared log for the next generation.
    pub fn next(&self) -> PathBuf {
        self.directory.join(format!("{}tmp.{}", self.base, self.form.log_extension()))
    }

    /// Returns the path of a reserve log, which is used when the disk is full.
    pub fn reserve(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{}res{number:05X}.jrs", self.base))
    }

    /// Parses the generation from the name of an archived log. The number has 8 digits, or 5 in some streams, and
    /// more if needed.
    pub fn generation_of(&self, path: &Path) -> Option<Generation> {
        let name = path.file_name()?.to_str()?.strip_suffix(self.form.log_extension())?.strip_suffix('.')?;
        let digits = name.strip_prefix(self.base.as_str())?;
        let valid = matches!(digits.len(), 5..=8) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| valid).map(Generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_log_name_contains_the_generation() {
        let names = LogNames::new(Path::new("/logs"), FileStem::E00);
        let path = names.archived(Generation(0x1ab));
        assert_eq!(path, Path::new("/logs/E00000001AB.log"));
        assert_eq!(names.generation_of(&path), Some(Generation(0x1ab)));
        let as_in = |base, file: &str| {
            LogNames::new(Path::new("/logs"), FileStem::new(base).unwrap())
                .with_format_of(&[file.into()], LogNameFormat::default())
        };
        let short = as_in("SRU", "/logs/SRU0005B.log");
        assert_eq!(short.archived(Generation(0x5c)), Path::new("/logs/SRU0005C.log"));
        assert_eq!(short.generation_of(&short.archived(Generation(0x12_3456))), Some(Generation(0x12_3456)));
        let newer = as_in("edb", "/logs/edb0002A.jtx");
        assert_eq!(newer.archived(Generation(0x2b)), Path::new("/logs/edb0002B.jtx"));
        assert_eq!(newer.generation_of(Path::new("/logs/edb0002A.log")), None);
        assert_eq!(as_in("edb", "/logs/edb.jtx").next(), Path::new("/logs/edbtmp.jtx"));
        assert_eq!(as_in("edb", "/logs/edb.jcp").current(), Path::new("/logs/edb.log"));
        for other in ["E00.log", "E00tmp.log", "E01000001AB.log", "E00000001AG.log", "E00000001AB.jrs"] {
            assert_eq!(names.generation_of(Path::new(other)), None, "{other}");
        }
    }
}
