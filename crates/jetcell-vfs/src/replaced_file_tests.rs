//! Tests of atomic replacements.

use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::{RealOptions, RealVfs, SimVfs, is_unfinished};

#[test]
fn replacing_a_file_leaves_no_temporary_file() {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/d")).unwrap();
    let path = Path::new("/d/state.json");
    // A temporary file left over from a crash.
    disk.put(Path::new("/d/state.json.unfinished"), b"old");
    for content in ["longer content", "short", ""] {
        replace_file(&disk, path, content.as_bytes(), IoReason::Other).unwrap();
        assert_eq!(disk.contents(path).unwrap(), content.as_bytes());
        assert_eq!(disk.list(Path::new("/d")).unwrap(), [path]);
    }
    disk.fail_at(disk.operations() + 2, io::ErrorKind::StorageFull);
    replace_file(&disk, path, b"new", IoReason::Other).unwrap_err();
    assert_eq!(disk.contents(path).unwrap(), b"");
    assert_eq!(disk.list(Path::new("/d")).unwrap(), [path]);
}

#[test]
fn leftovers_from_a_killed_process_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    let path_to = |name: &str| dir.path().join(name);
    let path = path_to("copy.json");
    let left = vfs.unfinished_path(&path);
    for name in ["copy.json", "copy.json.unfinished", "copy.json.1f-0.unfinished"] {
        std::fs::write(path_to(name), name).unwrap();
    }
    std::fs::write(&left, "left").unwrap();
    let mut others = vec![
        "copy.json",
        "copy.json.bak",
        "copy.json.bak.unfinished",
        "copy.json.1f-zz.unfinished",
        "copy.json-1f-0.unfinished",
        "scan.json.1f-0.unfinished",
        "copy.json.2-3.unfinished.old",
        "victim",
    ];
    others.iter().for_each(|name| std::fs::write(path_to(name), name).unwrap());
    symlink(path_to("victim"), path_to("copy.json.2-2.unfinished")).unwrap();
    std::fs::hard_link(path_to("victim"), path_to("copy.json.3-3.unfinished")).unwrap();
    others.extend(["copy.json.2-2.unfinished", "copy.json.3-3.unfinished"]);
    remove_unfinished(&vfs, &path);
    let mut names: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    others.sort();
    assert_eq!(names, others);
    assert_eq!(std::fs::read_to_string(path_to("victim")).unwrap(), "victim");
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, victim) = (dir.path().join("state"), dir.path().join("victim"));
    std::fs::write(&victim, "victim").unwrap();
    symlink(&victim, &path).unwrap();
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    replace_file(&vfs, &path, b"new", IoReason::Other).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
    assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
    // A dangling link is not followed either, not even at the path of the temporary file.
    let unfinished = dir.path().join("state.copy-new");
    symlink(dir.path().join("created"), &unfinished).unwrap();
    replace_file_through(&vfs, &path, &unfinished, b"newer", IoReason::Other).unwrap();
    assert!(!dir.path().join("created").exists() && !unfinished.exists());
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
}

#[test]
fn concurrent_replacements_do_not_interfere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u8 {
            let (vfs, path) = (&vfs, &path);
            scope.spawn(move || {
                for _ in 0..25 {
                    replace_file(vfs, path, &[number; 3000], IoReason::Other).unwrap();
                    let found = std::fs::read(path).unwrap();
                    assert!(found.len() == 3000 && found.iter().all(|byte| *byte == found[0]));
                }
            });
        }
    });
    assert_eq!(vfs.list(dir.path()).unwrap(), [path]);
}

#[test]
fn unfinished_files_are_recognised_by_name() {
    for unfinished in ["copy.json.unfinished", "x.edb.partial", "E00.log.restoring", "E00-a1.copy-new"] {
        assert!(is_unfinished(Path::new(unfinished)), "{unfinished}");
    }
    for other in ["data.edb", "E00.log", "unfinished", "partial", "a.partial.json", "x"] {
        assert!(!is_unfinished(Path::new(other)), "{other}");
    }
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    let (one, other) = (vfs.unfinished_path(Path::new("/d/x")), vfs.unfinished_path(Path::new("/d/x")));
    assert!(one != other && is_unfinished(&one) && one.parent() == Some(Path::new("/d")));
}
