use std::os::unix::fs::symlink;

use jetcell_vfs::{RealOptions, RealVfs};

use super::*;

#[test]
fn a_link_without_a_target_is_refused_before_anything_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    let link = dir.path().join("out");
    symlink("nowhere", &link).unwrap();
    let error = WorkingCopies::begin(&vfs, &link).map(drop).unwrap_err();
    assert!(matches!(&error, RecoveryError::DanglingLink(path) if *path == link), "{error}");
    assert!(!dir.path().join("nowhere").exists());
    // A link to a directory, a directory, and a new path are accepted.
    fs::create_dir(dir.path().join("nowhere")).unwrap();
    for path in [&link, &dir.path().join("new")] {
        refuse_dangling_link(path).unwrap();
    }
}

#[test]
fn reserve_logs_are_listed_or_the_error_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    assert!(find_reserve_logs(&dir.path().join("missing")).unwrap().is_empty());
    let file = dir.path().join("E00res00001.jrs");
    fs::write(&file, "").unwrap();
    assert_eq!(find_reserve_logs(dir.path()).unwrap(), std::slice::from_ref(&file));
    // A file is not a directory.
    find_reserve_logs(&file).unwrap_err();
}
