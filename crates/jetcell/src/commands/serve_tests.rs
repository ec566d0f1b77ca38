use super::*;

#[test]
fn clients_share_the_descriptors_that_the_system_allows() {
    assert_eq!(share_of_descriptors(None, 64), Some(MAX_FILES));
    assert_eq!(share_of_descriptors(Some(1 << 20), 64), Some(MAX_FILES));
    assert_eq!(share_of_descriptors(Some(u64::MAX), 0), Some(MAX_FILES));
    assert_eq!(share_of_descriptors(Some(4096), 64), Some(29));
    for (limit, clients) in [(1024, 64), (0, 1), (4096, 1024)] {
        assert_eq!(share_of_descriptors(Some(limit), clients), None, "{limit} {clients}");
    }
    for (limit, clients) in [(4096, 1), (65_536, 64), (20_000, 512)] {
        let files = share_of_descriptors(Some(limit), clients).unwrap() as u64;
        assert!(OWN_DESCRIPTORS + clients * (2 * files + 1) <= limit, "{limit} {clients}: {files}");
    }
}

#[test]
fn a_directory_has_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let named = |names: &[(&str, &Path)]| -> Vec<(String, PathBuf)> {
        names.iter().map(|(name, path)| (name.to_string(), path.to_path_buf())).collect()
    };
    assert!(refuse_same_directory(&named(&[("a", dir.path()), ("b", other.path())])).is_ok());
    assert!(refuse_same_directory(&named(&[("a", dir.path()), ("a", dir.path())])).is_ok());
    let same = dir.path().join(".");
    let refused = refuse_same_directory(&named(&[("a", dir.path()), ("b", &same)])).unwrap_err();
    assert_eq!(refused.to_string(), "b and a are the same directory; serve it under one name");
}
