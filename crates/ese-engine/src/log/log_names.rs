//! Names of the files of a log stream.

use std::path::{Path, PathBuf};

use ese_format::Generation;

/// File names of the streams in one directory with one base name.
#[derive(Clone, Debug)]
pub struct LogNames {
    directory: PathBuf,
    base: String,
    /// Hexadecimal digits of a generation.
    digits: usize,
}

impl LogNames {
    /// Names like `E00.log` in `directory`.
    pub fn new(directory: &Path, base: &str) -> LogNames {
        LogNames { directory: directory.to_path_buf(), base: base.to_string(), digits: 8 }
    }

    /// The same names with 5 digits instead of 8 in archived logs, if `short` is true or archived logs among `files` have
    /// such names: streams of some components of Windows.
    pub fn as_in(self, files: &[PathBuf], short: bool) -> LogNames {
        let is_short = |path: &&PathBuf| {
            self.generation_of(path).is_some()
                && path.file_stem().is_some_and(|stem| stem.len() == self.base.len() + 5)
        };
        let short = short || files.iter().any(|path| is_short(&path));
        LogNames { digits: if short { 5 } else { 8 }, ..self }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// First letters of the names.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The log being written.
    pub fn current(&self) -> PathBuf {
        self.directory.join(format!("{}.log", self.base))
    }

    /// An archived log.
    pub fn archived(&self, generation: Generation) -> PathBuf {
        self.directory.join(format!("{}{:0digits$X}.log", self.base, generation.0, digits = self.digits))
    }

    /// The prepared log of the next generation.
    pub fn next(&self) -> PathBuf {
        self.directory.join(format!("{}tmp.log", self.base))
    }

    /// A reserve log, for a full disk.
    pub fn reserve(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{}res{number:05X}.jrs", self.base))
    }

    /// The generation of an archived log, from its name (8 digits; 5 in some streams, and more if the number needs them).
    pub fn generation_of(&self, path: &Path) -> Option<Generation> {
        let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
        let digits = name.strip_prefix(self.base.as_str())?;
        let valid = matches!(digits.len(), 5..=8) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| valid).map(Generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_archived_log_tells_its_generation() {
        let names = LogNames::new(Path::new("/logs"), "E00");
        let path = names.archived(Generation(0x1ab));
        assert_eq!(path, Path::new("/logs/E00000001AB.log"));
        assert_eq!(names.generation_of(&path), Some(Generation(0x1ab)));
        let short = LogNames::new(Path::new("/logs"), "SRU").as_in(&["/logs/SRU0005B.log".into()], false);
        assert_eq!(short.archived(Generation(0x5c)), Path::new("/logs/SRU0005C.log"));
        assert_eq!(short.generation_of(&short.archived(Generation(0x12_3456))), Some(Generation(0x12_3456)));
        for other in ["E00.log", "E00tmp.log", "E01000001AB.log", "E00000001AG.log", "E00000001AB.jrs"] {
            assert_eq!(names.generation_of(Path::new(other)), None, "{other}");
        }
    }
}
