//! Reads a configuration file: TOML, or the XML of Microsoft's Jetstress. The format is determined by the content,
//! not by the file name.

use std::io::Read;
use std::path::Path;

use jetcell_vfs::open_input;

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
        let shown = path.display();
        let single_error = |what: String| vec![ConfigurationError::new(format!("--config {shown}: {what}"))];
        let bytes = read_bounded(path).map_err(|error| single_error(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(single_error(
                "the file is larger than 1 MiB, the maximum for a configuration; use a different file".into(),
            ));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            single_error("the file is not UTF-8 text; save it as UTF-8 or use a different file".into())
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let parsed = if jetstress::is_xml(text) {
            jetstress::parse(text, test, given)
                .map(|import| TestConfiguration { options: import.options, notes: import.notes })
        } else {
            toml::parse(text).map(|options| TestConfiguration { options, notes: Vec::new() })
        };
        parsed.map_err(|mistakes| {
            mistakes.iter().map(|what| ConfigurationError::new(format!("--config {shown}, {what}"))).collect()
        })
    }
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_input(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
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
        found[0].to_string()
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
        assert!(mistake(&vec![b'#'; 2 << 20]).contains("is larger than 1 MiB"));
        let endless =
            TestConfiguration::read(Path::new("/dev/zero"), TestKind::Performance, &Options::default())
                .unwrap_err();
        assert!(endless[0].to_string().starts_with("--config /dev/zero: cannot be read: this is a device"));
        let directory =
            TestConfiguration::read(Path::new("/"), TestKind::Performance, &Options::default()).unwrap_err();
        assert!(directory[0].to_string().starts_with("--config /: cannot be read"));
    }
}
