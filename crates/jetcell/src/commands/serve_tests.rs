use super::*;

#[test]
fn a_directory_is_served_under_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let owned_names = |names: &[(&str, &Path)]| -> Vec<(String, PathBuf)> {
        names.iter().map(|(name, path)| (name.to_string(), path.to_path_buf())).collect()
    };
    assert!(refuse_same_directory(&owned_names(&[("a", dir.path()), ("b", other.path())])).is_ok());
    assert!(refuse_same_directory(&owned_names(&[("a", dir.path()), ("a", dir.path())])).is_ok());
    let same = dir.path().join(".");
    let refused = refuse_same_directory(&owned_names(&[("a", dir.path()), ("b", &same)])).unwrap_err();
    assert_eq!(refused.full_text(), "b and a are the same directory; serve it under one name");
}
