//! The configuration file in TOML: reading one, and writing the one that repeats a run.

use std::path::Path;

use super::{Mistake, Options, Profile, Source};

impl Options {
    /// Reads a TOML file. A mistake names the line.
    pub fn read(path: &Path) -> Result<Options, Mistake> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Mistake(format!("--config {shown}: cannot be read: {error}")))?;
        ::toml::from_str(&text).map_err(|error: ::toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let message = error.message().replace('\n', " ");
            Mistake(format!("--config {shown}, line {line}: {message}"))
        })
    }
}

impl Profile {
    /// The configuration file that describes this run again, seed included.
    pub fn to_toml(&self) -> String {
        let options = Options {
            dirs: self.dirs.clone(),
            log_dirs: self.log_dirs.clone(),
            databases: self.databases,
            size: Some(self.size),
            threads: Some(self.threads),
            duration: Some(self.duration),
            cache: self.cache,
            page_size: self.page_size,
            mix: Some(self.mix),
            lazy_percent: Some(self.lazy_percent),
            batch_updates: Some(self.batch_updates),
            records: Some(self.records),
            thresholds: Some(self.thresholds),
            target_iops: self.target_iops,
            margin: Some(self.margin),
            seed: Some(self.seed),
            sample_interval: Some(self.sample_interval),
            circular_log: Some(self.circular_log),
            open: (self.source == Source::Open).then_some(true),
            force: (self.source == Source::Replace).then_some(true),
            output: self.output.clone(),
        };
        ::toml::to_string(&options).expect("options have only string keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        ::toml::from_str(toml).unwrap()
    }

    #[test]
    fn a_typo_in_a_file_names_the_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "threads = 4\nthraeds = 5\n").unwrap();
        let mistake = Options::read(file.path()).unwrap_err().to_string();
        assert!(mistake.contains("line 2: unknown field `thraeds`"), "{mistake}");
        assert!(!mistake.contains('\n'));
    }

    #[test]
    fn a_profile_survives_its_written_forms() {
        let profile =
            options("dirs=['d']\nduration='90s'\ntarget_iops=270.0\npage_size='8KiB'").resolve(3).unwrap();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        assert_eq!(options(&profile.to_toml()).resolve(99).unwrap(), profile);
    }
}
