use std::os::unix::fs::symlink;

use super::*;

/// Creates a directory with files, links and a subdirectory, and another directory outside it. Returns their temporary
/// parent and the directory with the files.
fn listed() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("inside");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir(place.path().join("outside")).unwrap();
    for name in ["a.edb", "sub/b.edb", "c.partial"] {
        fs::write(inside.join(name), name).unwrap();
    }
    for (target, link) in
        [("a.edb", "d.edb"), ("gone.edb", "e.edb"), ("sub", "f"), ("../outside", "g"), (".", "sub/h")]
    {
        symlink(target, inside.join(link)).unwrap();
    }
    (place, inside)
}

#[test]
fn what_a_listing_leaves_out_is_reported() {
    let (_place, inside) = listed();
    assert!(is_unfinished(Path::new("c.partial")));
    let mut skipped = Vec::new();
    let files = files_below(&inside, &mut |path| skipped.push(format!("{path:?}")));
    let name = |path: &PathBuf| path.strip_prefix(&inside).unwrap().display().to_string();
    assert_eq!(files.iter().map(name).collect::<Vec<_>>(), ["a.edb", "d.edb", "sub/b.edb"]);
    let expected = [("Unfinished", "c.partial"), ("DanglingLink", "e.edb"), ("LinkToDirectory", "g")];
    let expected: Vec<String> =
        expected.iter().map(|(kind, name)| format!("{kind}({:?})", inside.join(name))).collect();
    assert_eq!(skipped, expected);
    let mut skipped = 0;
    assert!(files_below(&inside.join("nowhere"), &mut |_| skipped += 1).is_empty());
    assert_eq!(skipped, 1);
}

#[test]
fn only_a_needed_link_without_a_target_is_an_error() {
    let (_place, inside) = listed();
    let is_needed = |path: &Path| path.extension().is_some_and(|extension| extension == "edb");
    for link in [".#notes.txt", ".#a.edb", "old"] {
        symlink("user@host.1:2", inside.join(link)).unwrap();
    }
    let error = files_at(std::slice::from_ref(&inside), is_needed).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("e.edb: the target of the link does not exist"), "{error}");
    fs::remove_file(inside.join("e.edb")).unwrap();
    assert_eq!(
        files_at(std::slice::from_ref(&inside), is_needed).unwrap(),
        ["a.edb", "d.edb"].map(|name| inside.join(name))
    );
}
