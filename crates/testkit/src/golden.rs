//! Text that a test compares with a stored file.

use std::path::Path;

/// Compares `text` with the file at `path`. With `JETCELL_BLESS=1` it writes the file instead.
#[track_caller]
pub fn compare(path: &Path, text: &str) {
    if std::env::var_os("JETCELL_BLESS").is_some() {
        return std::fs::write(path, text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == expected, "{}: expected\n{expected}\nbut got\n{text}", path.display());
}
