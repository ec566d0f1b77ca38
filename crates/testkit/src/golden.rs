//! Compares text and files with stored golden files. `JETCELL_BLESS=1 cargo test --workspace --all-features` rewrites
//! all golden files.

use std::path::Path;

/// Returns true if golden files should be written rather than compared.
fn is_updating() -> bool {
    std::env::var_os("JETCELL_BLESS").is_some()
}

/// Compares `text` with the file at `path`. With `JETCELL_BLESS=1`, writes the file instead.
#[track_caller]
pub fn compare(path: &Path, text: &str) {
    if is_updating() {
        return std::fs::write(path, text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == expected, "{}: expected\n{expected}\nbut got\n{text}", path.display());
}

/// Compares `bytes` with the file at `path`. A file whose name ends in `.zst` is compressed with Zstandard. With
/// `JETCELL_BLESS=1`, writes the file instead.
#[track_caller]
pub fn compare_bytes(path: &Path, bytes: &[u8]) {
    let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
    if is_updating() {
        let stored = if is_compressed { zstd::encode_all(bytes, 19).unwrap() } else { bytes.to_vec() };
        return std::fs::write(path, stored).unwrap();
    }
    let stored = std::fs::read(path).unwrap_or_default();
    let expected = if is_compressed { zstd::decode_all(&*stored).unwrap() } else { stored };
    assert_eq!(bytes.len(), expected.len(), "{}: length", path.display());
    let different = bytes.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!(different, None, "{}: first differing byte", path.display());
}
