//! Links in the directories of backups and restores, on a real file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use jetcell_backup::{BackupType, RestoreOptions, restore};
use jetcell_sync::Arc;
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use tempfile::TempDir;

use super::test_instance::{TestInstance, back_up_directory, options};

const VICTIM: [u8; 8192] = [7; 8192];

/// Creates a directory with a backup, and a file elsewhere that must not be changed.
fn backed_up() -> (TempDir, Arc<dyn Vfs>) {
    let dir = tempfile::tempdir().unwrap();
    let files: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let site = TestInstance::open(&files, &at("one"), 300);
    site.insert(0..20);
    site.close();
    back_up_directory(&files, &at("one"), &at("backup"), &options(BackupType::Full, None)).unwrap();
    fs::write(at("victim"), VICTIM).unwrap();
    fs::create_dir(at("restored")).unwrap();
    (dir, files)
}

fn restored(dir: &Path, files: &Arc<dyn Vfs>, force: bool) -> jetcell_backup::Result<()> {
    let options = RestoreOptions { force, ..RestoreOptions::default() };
    restore(files, &[dir.join("backup")], &dir.join("restored"), &options).map(drop)
}

#[test]
fn a_restore_does_not_follow_symbolic_links() {
    let marker = |to: &Path| fs::write(to.join("restore.partial"), "into an empty directory\n").unwrap();
    // The name of the link, whether its target exists, and whether the restore can continue without it.
    for (name, target, is_replaced) in [
        ("data.edb", "victim", false),
        ("data.edb", "nothing", false),
        ("restore.partial", "victim", false),
        ("restored.json", "victim", false),
        ("E00.log", "victim", true),
        ("E00.chk", "victim", true),
        ("E00.log.restoring", "victim", true),
        ("E00.log.restoring", "nothing", true),
        ("E00.lock", "nothing", false),
    ] {
        for force in [true, false] {
            let (dir, files) = backed_up();
            let to = dir.path().join("restored");
            symlink(dir.path().join(target), to.join(name)).unwrap();
            if !force && name != "restore.partial" {
                marker(&to);
            }
            let result = restored(dir.path(), &files, force);
            // When existing files are overwritten, the record of an earlier restore is not read.
            let is_replaced = is_replaced || name == "restored.json" && force;
            assert_eq!(result.is_ok(), is_replaced, "{name} to {target}, {force}: {result:?}");
            assert_eq!(fs::read(dir.path().join("victim")).unwrap(), VICTIM, "{name} to {target}, {force}");
            assert!(!dir.path().join("nothing").exists(), "{name} to {target}, {force}");
        }
    }
}

#[test]
fn a_backup_does_not_follow_symbolic_links() {
    for (name, target) in
        [("manifest.partial.json", "victim"), ("manifest.partial.json", "nothing"), ("data.edb", "nothing")]
    {
        let (dir, files) = backed_up();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("other")).unwrap();
        symlink(at(target), at("other").join(name)).unwrap();
        let (from, to) = (at("one").to_str().unwrap().to_string(), at("other").to_str().unwrap().to_string());
        let made = back_up_directory(&files, &from, &to, &options(BackupType::Full, None));
        // A dangling link is not listed, and a file replaces it.
        assert_eq!(made.is_ok(), target == "nothing", "{name} to {target}: {made:?}");
        assert_eq!(fs::read(at("victim")).unwrap(), VICTIM, "{name} to {target}");
        assert!(!at("nothing").exists(), "{name} to {target}");
    }
}

#[test]
fn backups_and_restored_files_are_private() {
    let (dir, files) = backed_up();
    fs::remove_dir(dir.path().join("restored")).unwrap();
    restored(dir.path(), &files, false).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    for directory in ["one", "backup", "restored"].map(|name| dir.path().join(name)) {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
        let names: Vec<PathBuf> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(names.len() > 2);
        names.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
    }
}
