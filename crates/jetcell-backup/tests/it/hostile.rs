//! Backups that were changed to redirect a program to files in other directories. An attacker can compute the
//! checksum of a manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::DatabaseOptions;
use ese_format::LogPosition;
use jetcell_backup::{
    BackupError, BackupManifest, BackupOptions, BackupSetError, BackupState, BackupType, RestoreOptions,
    back_up_stopped, restore, verify,
};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use twox_hash::XxHash3_64;

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

const MANIFEST: &str = "/backup/manifest.json";

/// Returns all files of a disk with their contents.
fn contents(disk: &SimVfs, directories: &[&str]) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = directories.iter().flat_map(|directory| disk.list(Path::new(directory)).unwrap());
    files.map(|path| (path.clone(), disk.contents(&path).unwrap())).collect()
}

/// Replaces parts of the manifest and recomputes its checksum.
pub fn reseal(disk: &SimVfs, sound: &BackupManifest, replacements: &[(&str, &str)]) {
    let unsigned = BackupManifest { checksum: String::new(), ..sound.clone() };
    let mut text = serde_json::to_string(&unsigned).unwrap();
    for (part, replacement) in replacements {
        let hostile = text.replacen(part, replacement, 1);
        assert_ne!(hostile, text, "{part}");
        text = hostile;
    }
    let sum = format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()));
    let hostile = text.replace("\"checksum\":\"\"", &format!("\"checksum\":\"{sum}\""));
    disk.put(Path::new(MANIFEST), hostile.as_bytes());
}

#[test]
fn a_manifest_name_cannot_escape_the_directory() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..50);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let sound = BackupManifest::read(&*files, Path::new("/backup")).unwrap();
    // Verifies that `reseal` computes the checksum as the program does.
    reseal(&disk, &sound, &[("\"engine\":\"jetcell", "\"engine\":\"other")]);
    verify(&files, Path::new("/backup"), &Default::default()).unwrap();
    let victim = TestInstance::open(&files, "/victim", 300);
    victim.close();
    let before = contents(&disk, &["/victim", "/"]);
    let lies = [
        ("\"base_name\":\"E00\"", "\"base_name\":\"../victim/E00\""),
        ("\"base_name\":\"E00\"", "\"base_name\":\"/victim/E00\""),
        ("\"base_name\":\"E00\"", "\"base_name\":\"\""),
        ("\"base_name\":\"E00\"", "\"base_name\":\"E0/\""),
        ("\"base_name\":\"E00\"", "\"base_name\":\"E000\""),
        ("\"file\":\"data.edb\"", "\"file\":\"../victim/data.edb\""),
        ("\"file\":\"data.edb\"", "\"file\":\"/victim/data.edb\""),
        ("\"file\":\"data.edb\"", "\"file\":\"..\""),
        ("\"file\":\"data.edb\"", "\"file\":\"manifest.json\""),
        ("\"file\":\"data.edb\"", "\"file\":\"restore.partial\""),
        ("\"file\":\"data.edb\"", "\"file\":\"E00.chk\""),
        ("\"file\":\"data.edb\"", "\"file\":\"E00.lock\""),
        ("\"file\":\"data.edb\"", "\"file\":\"E00.log\""),
        ("\"file\":\"E00.log\"", "\"file\":\"../one/E00.log\""),
        ("\"file\":\"E00.log\"", "\"file\":\"\""),
    ];
    for (part, replacement) in lies {
        reseal(&disk, &sound, &[(part, replacement)]);
        let read = BackupManifest::read(&*files, Path::new("/backup")).map(drop);
        let verified = verify(&files, Path::new("/backup"), &Default::default()).map(drop);
        let restored = restore_to(&files, &["/backup"], "/restored", None).map(drop);
        for refused in [read, verified, restored] {
            let error = refused.expect_err(replacement);
            assert!(matches!(error, BackupError::Changed { .. }), "{replacement}: {error}");
        }
        assert!(contents(&disk, &["/victim", "/"]) == before, "{replacement}");
        assert!(disk.list(Path::new("/restored")).unwrap().is_empty(), "{replacement}");
    }
}

#[test]
fn a_manifest_with_too_many_items_is_rejected() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let sound = BackupManifest::read(&*files, Path::new("/backup")).unwrap();
    let many = |count| vec!["\"\""; count].join(",");
    let refused = || BackupManifest::read(&*files, Path::new("/backup")).unwrap_err().to_string();
    reseal(&disk, &sound, &[("\"covers\":[", &format!("\"covers\":[{},", many(2000)))]);
    assert!(refused().contains("a list has more than 1024 items"), "{}", refused());
    let bad = vec!["{\"page\":1,\"flaw\":\"\"}"; 1001].join(",");
    reseal(&disk, &sound, &[("\"bad_pages\":[]", &format!("\"bad_pages\":[{bad}]"))]);
    assert!(refused().contains("a list has more than 1000 items"), "{}", refused());
    disk.put(Path::new(MANIFEST), &vec![b' '; (128 << 20) + 1]);
    assert!(refused().contains("the maximum is 134217728 bytes"), "{}", refused());
}

#[test]
fn a_manifest_with_an_impossible_generation_is_refused() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..50);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let sound = BackupManifest::read(&*files, Path::new("/backup")).unwrap();
    let last = sound.generations.last;
    for (part, replacement) in [
        (format!("\"last\":{last}"), "\"last\":4294967295"),
        ("\"needs\":null".to_string(), "\"needs\":[4294967295,4294967295]"),
        (format!("\"generation\":{last}"), "\"generation\":2147483648"),
    ] {
        reseal(&disk, &sound, &[(&part, replacement)]);
        let error = restore_to(&files, &["/backup"], "/restored", None).map(drop).unwrap_err().to_string();
        assert!(error.contains("is out of range"), "{replacement}: {error}");
    }
}

/// The earliest position of a restore depends on the manifest.
#[test]
fn a_manifest_with_forged_positions_is_refused_with_its_reason() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    let early = site.insert(0..50);
    site.back_up("/backup", BackupType::Full, None).unwrap();
    site.close();
    let sound = BackupManifest::read(&*files, Path::new("/backup")).unwrap();
    let (first, last) = sound.databases[0].needs.unwrap();
    let needs = format!("\"needs\":[{first},{last}]");
    let end = format!("\"end\":\"{}\"", sound.logs.last().unwrap().end);
    for (part, replacement) in [
        (&needs, "\"needs\":[1,2147483646]"),
        (&needs, "\"needs\":null"),
        (&end, "\"end\":\"ffffffffffffffff\""),
        (&end, "\"end\":\"\""),
    ] {
        reseal(&disk, &sound, &[(part, replacement)]);
        for until in [None, Some(early), Some(LogPosition::MIN), Some(LogPosition::MAX)] {
            let restored = restore_to(&files, &["/backup"], "/restored", until).map(drop);
            let is_forged_need = part == &needs;
            match restored {
                Err(BackupError::Set(error)) => assert!(!error.to_string().contains("FFFFFFFF"), "{error}"),
                Err(error) => assert!(matches!(error, BackupError::Engine(_)), "{replacement}: {error:?}"),
                Ok(()) => assert!(!is_forged_need, "{replacement}"),
            }
            let left = files.list(Path::new("/restored")).unwrap_or_default();
            assert!(!is_forged_need || left.is_empty(), "{replacement}: {left:?}");
            for path in left {
                files.remove(&path).unwrap();
            }
        }
    }
    reseal(&disk, &sound, &[(&needs, "\"needs\":[1,2147483646]")]);
    let error = set_error(restore_to(&files, &["/backup"], "/restored", None));
    assert!(matches!(error, BackupSetError::NeededLogMissing { generation: 2_147_483_646, .. }), "{error:?}");
}

#[test]
fn an_interrupted_backup_state_cannot_escape_the_directory() {
    let (first, files) = disk();
    let site = TestInstance::open(&files, "/one", 3500);
    site.close();
    first.put(Path::new("/victim/mail.edb"), &[7; 4096]);
    first.cut_power_after(first.operations() + 15);
    let options = BackupOptions { save_bytes: 4 << 20, ..options(BackupType::Full, None) };
    back_up_directory(&files, "/one", "/backup", &options).unwrap_err();
    let disk = first.crash(1, Default::default());
    let files: Arc<dyn Vfs> = Arc::new(disk.clone());
    assert_eq!(BackupManifest::state(&*files, Path::new("/backup")).unwrap(), BackupState::Partial);
    let partial = Path::new("/backup/manifest.partial.json");
    let text = String::from_utf8(disk.contents(partial).unwrap()).unwrap();
    let hostile = text.replace("\"file\":\"data.edb\"", "\"file\":\"../victim/mail.edb\"");
    assert_ne!(hostile, text);
    disk.put(partial, hostile.as_bytes());
    disk.put(Path::new("/backup/../victim/mail.edb"), &[7; 4096]);
    // A failed backup removes its files.
    disk.set_capacity(disk.used());
    let failed = back_up_directory(&files, "/one", "/backup", &options);
    disk.set_capacity(u64::MAX);
    failed.unwrap_err();
    assert!(disk.contents(Path::new("/victim/mail.edb")).unwrap() == [7; 4096]);
    assert!(disk.contents(Path::new("/backup/../victim/mail.edb")).is_some());
    back_up_directory(&files, "/one", "/backup", &options).unwrap();
    assert!(disk.contents(Path::new("/backup/../victim/mail.edb")).unwrap() == [7; 4096]);
}

/// The logs of a backup name the original databases. A restore must not change databases that the backup does not
/// contain.
#[test]
fn log_paths_cannot_redirect_a_restore_to_the_original_databases() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..10);
    site.back_up("/backup", BackupType::Full, None).unwrap();
    files.create_directory(Path::new("/elsewhere")).unwrap();
    let later = Path::new("/elsewhere/later.edb");
    let database = site.instance.create_database(later, &DatabaseOptions::default()).unwrap();
    site.insert(10..20);
    site.instance.flush().unwrap();
    drop((database, site, files));
    for original_exists in [true, false] {
        let disk = disk.process_kill();
        let files: Arc<dyn Vfs> = Arc::new(disk.clone());
        if !original_exists {
            disk.remove(later).unwrap();
        }
        let before = contents(&disk, &["/elsewhere", "/one"]);
        let options = RestoreOptions { logs: Some("/one".into()), ..RestoreOptions::default() };
        let restored = restore(&files, &["/backup".into()], Path::new("/restored"), &options).unwrap();
        assert_eq!(restored.databases, [Path::new("/restored/data.edb")]);
        assert!(contents(&disk, &["/elsewhere", "/one"]) == before, "{original_exists}");
        let site = TestInstance::open(&files, "/restored", 0);
        assert_eq!(site.keys(), (0..20).collect());
        site.close();
    }
}

#[test]
fn a_database_with_a_non_portable_name_is_restored() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.close();
    disk.rename(Path::new("/one/data.edb"), Path::new(r"/one/a\b.edb")).unwrap();
    let from = disk.list(Path::new("/one")).unwrap();
    back_up_stopped(&files, &from, Path::new("/backup"), &options(BackupType::Full, None)).unwrap();
    let restored = restore_to(&files, &["/backup"], "/restored", None).unwrap();
    assert_eq!(restored.databases, [Path::new("/restored/database.edb")]);
}

/// A file with a second hard link may also be a file in another directory, as with a symbolic link. `links.rs` tests
/// links on a real file system.
#[test]
fn a_restore_does_not_write_into_a_file_with_another_name() {
    for with_marker in [true, false] {
        let (disk, files) = disk();
        let site = TestInstance::open(&files, "/one", 300);
        site.close();
        back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
        files.create_directory(Path::new("/restored")).unwrap();
        disk.put(Path::new("/victim/mail.edb"), &[7; 8192]);
        disk.link(Path::new("/victim/mail.edb"), Path::new("/restored/data.edb")).unwrap();
        if with_marker {
            disk.put(Path::new("/restored/restore.partial"), b"into an empty directory\n");
        }
        let options = RestoreOptions { force: !with_marker, ..RestoreOptions::default() };
        let before = disk.operations();
        let refused = restore(&files, &["/backup".into()], Path::new("/restored"), &options).unwrap_err();
        assert!(matches!(refused, BackupError::Engine(_)), "{refused}");
        assert_eq!(disk.operations(), before, "something was changed");
        assert_eq!(disk.contents(Path::new("/victim/mail.edb")).unwrap(), [7; 8192]);
    }
}

/// The marker of an interrupted restore does not turn files of other programs into files of the restore.
#[test]
fn a_failed_restore_removes_only_files_created_by_the_restore() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    files.create_directory(Path::new("/restored")).unwrap();
    disk.put(Path::new("/restored/restore.partial"), b"into an empty directory\n");
    let others = ["notes.txt", "E01.log", "E01res00001.jrs", "other.edb.jdw", "other.jfm"];
    for name in others {
        disk.put(&Path::new("/restored").join(name), &[7; 4096]);
    }
    disk.corrupt(Path::new("/backup/data.edb"), 5 << 12, &[1, 2, 3]).unwrap();
    restore_to(&files, &["/backup"], "/restored", None).unwrap_err();
    let left = disk.list(Path::new("/restored")).unwrap();
    let mut expected: Vec<PathBuf> = others.iter().map(|name| Path::new("/restored").join(name)).collect();
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn a_restore_over_an_instance_leaves_the_files_of_other_instances() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let others = ["notes.txt", "E01.log", "E01res00001.jrs", "other.edb.jdw", "other.jfm"];
    for name in others.iter().chain(&["data.edb.jdw", "data.jfm", "E00res00001.jrs"]) {
        disk.put(&Path::new("/one").join(name), &[7; 4096]);
    }
    let options = RestoreOptions { force: true, ..RestoreOptions::default() };
    restore(&files, &["/backup".into()], Path::new("/one"), &options).unwrap();
    for name in others {
        assert!(disk.contents(&Path::new("/one").join(name)).is_some(), "{name}");
    }
    for name in ["data.edb.jdw", "data.jfm", "E00res00001.jrs"] {
        assert!(disk.contents(&Path::new("/one").join(name)).is_none(), "{name}");
    }
}
