//! Tests of output files that replace other files.

use std::fs;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_output_file_is_named_on_completion_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("result.json");
    for (content, synced) in [("a longer text", true), ("short", false)] {
        let mut file = UnfinishedFile::create(&path).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        if synced { file.finish() } else { file.finish_unsynced() }.unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path()).len()), (content, 1));
    }
    let dropped = UnfinishedFile::create(&path).unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    drop(dropped);
    assert_eq!(names(dir.path()).len(), 1);
    assert!(UnfinishedFile::create(Path::new("/")).is_err());
}

#[test]
fn a_finished_file_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("samples.csv");
    let mut file = UnfinishedFile::create(&path).unwrap();
    file.write_all(b"one, ").unwrap();
    let mut file = file.finish_open().unwrap();
    file.write_all(b"two").unwrap();
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path()).len()), ("one, two", 1));
}

#[test]
fn a_failed_replacement_keeps_the_old_file_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    for text in ["a longer text", "short"] {
        replace_output(&path, text).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::create_dir_all(dir.path().join("taken/inside")).unwrap();
    assert!(replace_output(&dir.path().join("taken"), "text").is_err());
    assert!(replace_output(&dir.path().join("nowhere/a.txt"), "text").is_err());
    assert!(replace_output(Path::new("/"), "text").is_err());
    assert_eq!(names(dir.path()), ["a.txt", "taken"]);
    assert_eq!(names(&dir.path().join("taken")), ["inside"]);
}

#[test]
fn two_exclusive_writers_of_one_file_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let (path, partial) = (dir.path().join("rows.csv"), dir.path().join("rows.csv.partial"));
    let mut first = UnfinishedFile::create_exclusive(&path).unwrap();
    first.write_all(b"first").unwrap();
    let busy = UnfinishedFile::create_exclusive(&path).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    assert!(busy.to_string().contains("rows.csv.partial: another process"), "{busy}");
    // Simulates a second writer that started before the first one had acquired its lock.
    fs::remove_file(&partial).unwrap();
    let mut second = UnfinishedFile::create_exclusive(&path).unwrap();
    second.write_all(b"sec").unwrap();
    assert!(first.finish().is_err() && !path.exists());
    second.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"sec");
    // Simulates a file left over from a killed process.
    fs::write(&partial, "remains").unwrap();
    let mut third = UnfinishedFile::create_exclusive(&path).unwrap();
    third.write_all(b"third").unwrap();
    third.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"third");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(names(dir.path()), ["rows.csv"]);
}

#[test]
fn devices_and_pipes_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let [pipe, link, closed] = ["pipe", "link", "closed"].map(|name| dir.path().join(name));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for path in [&pipe, &link] {
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        assert!(replace_output(path, "text").is_err(), "{path:?}");
        assert!(UnfinishedFile::create_exclusive(path).is_err(), "{path:?}");
        assert_eq!(fs::symlink_metadata(path).unwrap().file_type(), kind, "{path:?}");
    }
    assert_eq!(names(dir.path()).len(), 2);
    assert!(UnfinishedFile::create(Path::new("/dev/null")).is_err());
    // A link to a file is replaced, even if the file does not exist.
    std::os::unix::fs::symlink("missing", &closed).unwrap();
    replace_output(&closed, "text").unwrap();
    assert!(fs::symlink_metadata(&closed).unwrap().is_file());
}
