//! Lists of backups in a directory with damaged, hostile and unreadable files, on a real file system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jetcell_backup::{
    BackupError, BackupFault, BackupList, BackupSetError, BackupType, TransferControl, prove,
};
use jetcell_sync::Arc;
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use tempfile::TempDir;

use super::test_instance::{TestInstance, back_up_directory, options};

/// Contents of a file that should be JSON.
fn garbage() -> Vec<Vec<u8>> {
    let deep = "[".repeat(100_000).into_bytes();
    let many = format!("{{\"backups\":[{}]}}", vec!["\"a\""; 2000].join(",")).into_bytes();
    vec![
        Vec::new(),
        b"{".to_vec(),
        b"{\"backups\":[\"../one\"]}".to_vec(),
        b"{\"backups\":[\"/etc\"]}".to_vec(),
        b"{\"backups\":1e999}".to_vec(),
        vec![0xFF; 4096],
        vec![b' '; (1 << 20) + 1],
        deep,
        many,
    ]
}

/// Creates a set in `set` with the backups `one` and `two`, and returns its parent directory.
fn set() -> (TempDir, Arc<dyn Vfs>) {
    let dir = tempfile::tempdir().unwrap();
    let files: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    fs::create_dir_all(at("backups/set")).unwrap();
    fs::write(at("backups/set/streams.json"), "{\"backups\":[\"one\",\"two\"]}").unwrap();
    for name in ["one", "two"] {
        let site = TestInstance::open(&files, &at(name), 300);
        site.insert(0..20);
        site.close();
        let to = at(&format!("backups/set/{name}"));
        back_up_directory(&files, &at(name), &to, &options(BackupType::Full, None)).unwrap();
    }
    (dir, files)
}

fn names(list: &BackupList) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
    list.complete.iter().map(|found| name(&found.directory)).collect()
}

#[test]
fn an_unreadable_list_of_streams_does_not_hide_the_backups() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    let list = BackupList::find(&*files, &backups).unwrap();
    assert_eq!((names(&list), list.is_incomplete()), (vec!["one".to_string(), "two".to_string()], false));
    assert_eq!(list.last_good().len(), 2);
    for bytes in garbage() {
        fs::write(backups.join("set/streams.json"), &bytes).unwrap();
        for directory in [backups.clone(), backups.join("set")] {
            let list = BackupList::find(&*files, &directory).unwrap();
            assert_eq!(
                (names(&list), list.is_incomplete()),
                (vec!["one".to_string(), "two".to_string()], true)
            );
            let [(path, fault @ BackupFault::Unreadable(_))] = &list.unusable[..] else {
                panic!("{:?}", list.unusable)
            };
            assert_eq!(*path, backups.join("set"));
            let text = fault.to_string();
            assert!(text.contains("streams.json") && text.len() < 500 && !text.contains('\n'), "{text}");
        }
    }
}

#[test]
fn an_unreadable_proof_hides_neither_the_backup_nor_other_proofs() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    let [one, two] = ["one", "two"].map(|name| backups.join("set").join(name));
    for directory in [&one, &two] {
        prove(&files, std::slice::from_ref(directory), dir.path(), &TransferControl::default()).unwrap();
    }
    let sound = fs::read(one.join("proved.json")).unwrap();
    for bytes in garbage() {
        fs::write(one.join("proved.json"), &bytes).unwrap();
        let list = BackupList::find(&*files, &backups).unwrap();
        assert_eq!((list.complete.len(), list.is_incomplete()), (2, true));
        assert_eq!(list.last_proved().unwrap().0, two);
        let [(path, fault)] = &list.unusable[..] else { panic!("{:?}", list.unusable) };
        let text = fault.to_string();
        assert!(*path == one && text.contains("proved.json") && !text.contains('\n'), "{text}");
    }
    // Damage of the backup does not hide its proof.
    fs::write(one.join("proved.json"), sound).unwrap();
    fs::remove_file(two.join("proved.json")).unwrap();
    fs::remove_file(one.join("verified.json")).unwrap();
    fs::create_dir(one.join("verified.json")).unwrap();
    let list = BackupList::find(&*files, &backups).unwrap();
    assert!(list.is_incomplete());
    assert_eq!(list.last_proved().unwrap().0, one);
}

#[test]
fn a_directory_that_cannot_be_examined_makes_the_list_incomplete() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    symlink("nowhere", backups.join("dangling")).unwrap();
    assert!(!BackupList::find(&*files, &backups).unwrap().is_incomplete());
    symlink("loop", backups.join("loop")).unwrap();
    let list = BackupList::find(&*files, &backups).unwrap();
    assert_eq!((list.complete.len(), list.is_incomplete()), (2, true));
    assert_eq!(list.unusable[0].0, backups.join("loop"));
    BackupList::find(&*files, &backups.join("loop")).unwrap_err();
}

#[test]
fn a_directory_with_several_unreadable_files_is_listed_once() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    let set = backups.join("set");
    fs::write(set.join("streams.json"), "{").unwrap();
    fs::write(set.join("manifest.json"), "{").unwrap();
    let one = set.join("one");
    for name in ["proved.json", "verified.json"] {
        fs::remove_file(one.join(name)).unwrap_or_default();
        fs::create_dir(one.join(name)).unwrap();
    }
    let list = BackupList::find(&*files, &backups).unwrap();
    let paths: Vec<&Path> = list.unusable.iter().map(|(path, _)| path.as_path()).collect();
    assert_eq!(paths, [&*set, &*one], "{:?}", list.unusable);
}

/// `lost+found` is skipped only if it is closed to the user, because any user may name a backup like this.
#[test]
fn a_readable_directory_named_lost_and_found_is_examined() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    fs::rename(backups.join("set/one"), backups.join("lost+found")).unwrap();
    fs::remove_dir_all(backups.join("set")).unwrap();
    assert_eq!(names(&BackupList::find(&*files, &backups).unwrap()), ["lost+found"]);
}

#[test]
fn a_single_backup_is_not_chosen_if_another_cannot_be_read() {
    let (dir, files) = set();
    let backups = dir.path().join("backups");
    let set = backups.join("set");
    fs::remove_file(set.join("streams.json")).unwrap();
    let manifest = set.join("two/manifest.json");
    fs::write(&manifest, "{}").unwrap();
    let error = BackupList::find_single(&*files, &set).unwrap_err();
    let BackupError::UnreadableInDirectory(cause) = &error else { panic!("{error}") };
    assert!(matches!(**cause, BackupError::Changed { .. }), "{error}");
    assert!(error.advice().unwrap().ends_with("specify the backup itself"), "{:?}", error.advice());
    assert_eq!(error.jet_error(), cause.jet_error());
    fs::remove_dir_all(set.join("two")).unwrap();
    // An unreadable proof does not prevent a restore.
    fs::write(set.join("one/proved.json"), "{").unwrap();
    assert_eq!(BackupList::find_single(&*files, &set).unwrap(), set.join("one"));
    fs::remove_dir_all(set.join("one")).unwrap();
    let none = BackupList::find_single(&*files, &set).unwrap();
    let error = jetcell_backup::BackupManifest::read(&*files, &none).unwrap_err();
    assert!(matches!(error, BackupError::Set(BackupSetError::NotABackup(_))), "{error}");
}
