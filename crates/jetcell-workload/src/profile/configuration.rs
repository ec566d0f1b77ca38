//! Reads a configuration file: TOML, or the XML of Microsoft's Jetstress. The format is determined by the content,
//! not by the file name.

use std::path::Path;

use jetcell_vfs::read_input;

use super::TestKind;
use super::configuration_error::ConfigurationError;
use super::options::Options;
use super::{jetstress, toml};

/// Maximum size of a configuration file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Contents of a test's configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestConfiguration {
    /// Options in the file.
    pub options: Options,
    /// Notes on the file for the user, one line each.
    pub notes: Vec<String>,
}

impl TestConfiguration {
    /// Reads a configuration file for a test. `given` contains the command-line options, which take precedence. Each
    /// mistake names the file and the line.
    pub fn read(
        path: &Path,
        test: TestKind,
        given: &Options,
    ) -> Result<TestConfiguration, Vec<ConfigurationError>> {
        let source = format!("--config {}", path.display());
        let text = read_input(path, MAX_FILE).map_err(|error| {
            vec![ConfigurationError::for_io(format_args!("{source}: cannot be read"), error)]
        })?;
        let xml = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if !jetstress::is_xml(xml) {
            return toml::parse(&source, &text)
                .map(|options| TestConfiguration { options, notes: Vec::new() });
        }
        let import = jetstress::parse(xml, test, given).map_err(|mistakes| {
            let with_path = |mistake: ConfigurationError| mistake.at(format_args!("{source}, "));
            mistakes.into_iter().map(with_path).collect::<Vec<_>>()
        })?;
        Ok(TestConfiguration { options: import.options, notes: import.notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(content: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let found =
            TestConfiguration::read(file.path(), TestKind::Performance, &Options::default()).unwrap_err();
        assert_eq!(found.len(), 1);
        jetcell_input::with_advice(&found[0], found[0].advice())
    }

    #[test]
    fn a_configuration_error_names_the_file() {
        let text = mistake(b"\xef\xbb\xbfthreads = 4\nthraeds = 5");
        assert!(
            text.ends_with(", line 2: unknown key 'thraeds'; the nearest known key is 'threads'"),
            "{text}"
        );
    }

    #[test]
    fn a_file_that_is_not_a_configuration_is_refused() {
        assert!(mistake(&[0xff, 0xfe, b'<', 0]).contains("is not UTF-8 text"));
        assert!(mistake(&vec![b'#'; 2 << 20]).contains("is larger than 1024 KiB"));
        let endless =
            TestConfiguration::read(Path::new("/dev/zero"), TestKind::Performance, &Options::default())
                .unwrap_err();
        assert!(endless[0].to_string().starts_with("--config /dev/zero: cannot be read: this is a device"));
        let directory =
            TestConfiguration::read(Path::new("/"), TestKind::Performance, &Options::default()).unwrap_err();
        assert!(directory[0].to_string().starts_with("--config /: cannot be read"));
    }
}
