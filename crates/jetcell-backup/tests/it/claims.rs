//! Restore records and manifests with false claims. Any user who can write the files can make such claims.

use std::path::Path;

use jetcell_backup::{BackupError, BackupManifest, BackupSetError, BackupType};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use serde_json::{Value, json};

use super::hostile::reseal;
use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

const RECORD: &str = "/restored/restored.json";

fn backed_up() -> (SimVfs, Arc<dyn Vfs>, BackupManifest) {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..20);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let manifest = BackupManifest::read(&*files, Path::new("/backup")).unwrap();
    (disk, files, manifest)
}

#[test]
fn a_restore_ignores_records_that_name_other_databases() {
    let (disk, files, _) = backed_up();
    restore_to(&files, &["/backup"], "/restored", None).unwrap();
    let sound: Value = serde_json::from_slice(&disk.contents(Path::new(RECORD)).unwrap()).unwrap();
    let database = sound["databases"][0].clone();
    // Another database of the stream that is not in the backup does not replace the database that is.
    let other = json!({"file": "other.edb", "shutdown": database["shutdown"]});
    disk.put(Path::new("/restored/other.edb"), &disk.contents(Path::new("/restored/data.edb")).unwrap());
    for lie in [json!([]), json!([other]), json!([database, database]), json!([database, other])] {
        let mut record = sound.clone();
        record["databases"] = lie.clone();
        disk.put(Path::new(RECORD), record.to_string().as_bytes());
        let refused = set_error(restore_to(&files, &["/backup"], "/restored", None));
        assert!(matches!(refused, BackupSetError::NotEmpty { .. }), "{lie}: {refused:?}");
    }
    disk.put(Path::new(RECORD), sound.to_string().as_bytes());
    assert!(restore_to(&files, &["/backup"], "/restored", None).unwrap().earlier_restore_unix_ms.is_some());
}

#[test]
fn a_record_with_too_many_items_is_ignored() {
    let (disk, files, _) = backed_up();
    restore_to(&files, &["/backup"], "/restored", None).unwrap();
    let sound: Value = serde_json::from_slice(&disk.contents(Path::new(RECORD)).unwrap()).unwrap();
    for list in ["backups", "databases"] {
        let mut record = sound.clone();
        record[list] = vec![sound[list][0].clone(); 100_000].into();
        disk.put(Path::new(RECORD), record.to_string().as_bytes());
        let before = disk.operations();
        let refused = restore_to(&files, &["/backup"], "/restored", None).map(drop).unwrap_err().to_string();
        // The record is ignored, so the directory is refused like any other directory with files.
        assert!(refused.contains("the directory is not empty"), "{list}: {refused}");
        assert_eq!(disk.operations(), before, "{list}");
    }
}

#[test]
fn no_space_is_reserved_for_bytes_missing_from_the_backup() {
    let (disk, files, sound) = backed_up();
    let database = &sound.databases[0];
    let claimed = 1_u64 << 40;
    let ranges = database.ranges[..16].repeat((claimed >> 22) as usize);
    let old = format!("\"bytes\":{}", database.bytes);
    reseal(&disk, &sound, &[(&old, &format!("\"bytes\":{claimed}")), (&database.ranges, &ranges)]);
    disk.set_capacity(disk.used() + (16 << 20));
    let error = restore_to(&files, &["/backup"], "/restored", None).map(drop).unwrap_err();
    assert!(matches!(error, BackupError::Changed { .. }), "{error}");
    assert!(disk.list(Path::new("/restored")).unwrap().is_empty());
}

#[test]
fn a_backup_file_that_grew_is_rejected() {
    for name in ["data.edb", "E00.log"] {
        let (disk, files, _) = backed_up();
        let path = Path::new("/backup").join(name);
        let mut bytes = disk.contents(&path).unwrap();
        bytes.extend([0; 8192]);
        disk.put(&path, &bytes);
        restore_to(&files, &["/backup"], "/restored", None).map(drop).unwrap_err();
        assert!(disk.list(Path::new("/restored")).unwrap_or_default().is_empty(), "{name}");
    }
}

#[test]
fn a_manifest_with_an_impossible_page_size_is_refused() {
    let (disk, files, sound) = backed_up();
    for size in ["4294967295", "4097", "1"] {
        reseal(&disk, &sound, &[("\"page_size\":4096", &format!("\"page_size\":{size}"))]);
        let error = BackupManifest::read(&*files, Path::new("/backup")).map(drop).unwrap_err().to_string();
        assert!(error.contains("page size"), "{error}");
    }
}
