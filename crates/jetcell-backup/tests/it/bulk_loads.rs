//! Bulk loads between backups. Logs do not contain bulk-loaded pages, so a chain ends at a bulk load, and a restore
//! must stop before it.

use ese_engine::BulkLoadOptions;
use ese_format::LogPosition;
use ese_format::record::{ColumnId, Value};
use jetcell_backup::{BackupError, BackupSetError, BackupType, ReplayEnd, RestoreOptions, restore};

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, table};

/// Bulk-loads a table of many pages.
fn load(site: &TestInstance, name: &str) {
    let mut session = site.instance.session();
    let mut load = session.bulk_load(&site.database, &table(name), BulkLoadOptions::default()).unwrap();
    for key in 0..300 {
        let body = Value::Binary(vec![key as u8; 1000]);
        load.push(&[(ColumnId(1), Value::Long(key)), (ColumnId(256), body)]).unwrap();
    }
    assert!(load.finish().unwrap().pages > 50);
}

fn number<T>(result: jetcell_backup::Result<T>) -> i32 {
    result.err().and_then(|error| error.jet_error()).map_or(0, |(number, _)| number)
}

#[test]
fn a_restore_reaches_only_positions_before_a_bulk_load() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/full", BackupType::Full, None).unwrap();
    let before = site.insert(100..200);
    load(&site, "loaded");
    let behind = site.insert(200..300);
    // The bulk load is detected while the instance runs, and from its files after it was stopped.
    assert_eq!(number(site.back_up("/next", BackupType::Incremental, Some("/full"))), -560);
    assert_eq!(number(site.back_up("/next", BackupType::Differential, Some("/full"))), -560);
    site.close();
    let refused =
        back_up_directory(&files, "/one", "/next", &options(BackupType::Incremental, Some("/full")));
    let error = refused.unwrap_err();
    assert!(matches!(&error, BackupError::Set(BackupSetError::BulkLoaded(_))), "{error:?}");
    assert_eq!(error.advice().as_deref(), Some("make a full backup"));
    assert_eq!(error.jet_error(), Some((-560, "JET_errMissingFullBackup")));

    let with_logs = |to: &str, until: LogPosition| {
        let until = Some(ReplayEnd::Position(until));
        let options = RestoreOptions { until, logs: Some("/one".into()), ..RestoreOptions::default() };
        restore(&files, &["/full".into()], to.as_ref(), &options)
    };
    with_logs("/two", before).unwrap();
    let site = TestInstance::open(&files, "/two", 0);
    assert_eq!(site.keys(), (0..200).collect());
    site.close();
    for until in [behind, LogPosition::MAX] {
        let refused = with_logs("/three", until).unwrap_err();
        assert!(refused.to_string().contains("loaded in bulk"), "{refused}");
        assert!(refused.advice().is_some_and(|advice| advice.contains("stop before the load")), "{refused}");
        assert_eq!(files.list("/three".as_ref()).unwrap_or_default(), Vec::<std::path::PathBuf>::new());
    }

    // The next full backup contains the table.
    back_up_directory(&files, "/one", "/new", &options(BackupType::Full, None)).unwrap();
    restore_to(&files, &["/new"], "/four", None).unwrap();
    let site = TestInstance::open(&files, "/four", 0);
    let session = site.instance.session();
    assert!(session.tables(&site.database).unwrap().contains(&"loaded".to_string()));
    drop(session);
    site.close();
}

/// A backup of a stopped instance is not recorded in the database header, so the bulk load stores its position there.
#[test]
fn a_load_breaks_the_chain_until_the_next_full_backup() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    load(&site, "before");
    site.close();
    let back_up = |to: &str, kind, parent| back_up_directory(&files, "/one", to, &options(kind, parent));
    back_up("/full", BackupType::Full, None).unwrap();
    let change = |keys: std::ops::Range<i32>, table: Option<&str>| {
        let site = TestInstance::open(&files, "/one", 256);
        site.insert(keys);
        table.into_iter().for_each(|name| load(&site, name));
        site.close();
    };
    change(100..110, None);
    back_up("/first", BackupType::Incremental, Some("/full")).unwrap();
    change(110..120, Some("loaded"));
    assert_eq!(number(back_up("/none", BackupType::Incremental, Some("/first"))), -560);
    assert_eq!(number(back_up("/none", BackupType::Differential, Some("/full"))), -560);
    back_up("/second full", BackupType::Full, None).unwrap();
    change(120..130, None);
    back_up("/second", BackupType::Incremental, Some("/second full")).unwrap();
    restore_to(&files, &["/second full", "/second"], "/two", None).unwrap();
    let site = TestInstance::open(&files, "/two", 0);
    assert_eq!(site.keys(), (0..130).collect());
    site.close();
}
