//! Tests of bulk loads of indexes: the index has the entries that inserts would create, and it exists either
//! completely or not at all.

use std::path::Path;

use ese_engine::{
    BackupKind, BulkLoadOptions, CommitMode, Database, Error, IndexDefinition, Result, SeekRelation, Session,
    TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::Value;
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs};

use crate::bulk_loaded::{DB, SIZES, check, columns, create, definition, load, open, options, values};

fn by_code(name: &str) -> IndexDefinition {
    IndexDefinition::new(name, &["Code"])
}

/// Changes some rows of a table whose rows have the even numbers below `2 * rows`.
fn change(session: &mut Session, db: &Arc<Database>, rows: i32) -> Result<()> {
    let mut table = session.open_table(db, "T")?;
    let columns = columns(|name| table.column(name));
    for id in (0..2 * rows).step_by(14) {
        session.begin()?;
        assert!(table.seek(session, &[Value::Long(id)], SeekRelation::Equal)?);
        match id % 3 {
            0 => table.delete(session)?,
            _ => table.replace(session, &[(columns[1], Value::Binary(id.to_le_bytes().to_vec()))])?,
        }
        table.insert(session, &values(columns, id + 1))?;
        session.commit(CommitMode::Lazy)?;
    }
    Ok(())
}

/// Returns the ids of the rows in the order of an index.
fn in_order(session: &mut Session, db: &Arc<Database>, index: &str) -> Vec<Value> {
    let mut table = session.open_table(db, "T").unwrap();
    let [id, ..] = columns(|name| table.column(name));
    table.set_index(Some(index)).unwrap();
    let mut ids = Vec::new();
    let mut found = table.first(session).unwrap();
    while found {
        ids.push(table.get(session, id).unwrap());
        found = table.next(session).unwrap();
    }
    ids
}

fn has_index(session: &mut Session, db: &Arc<Database>, index: &str) -> bool {
    let table = session.open_table(db, "T").unwrap();
    table.schema().indexes.iter().any(|other| other.name == index)
}

#[test]
fn a_loaded_index_matches_a_regular_index_and_accepts_changes() {
    for size in SIZES {
        for rows in [0, 3, 2500] {
            let disk = SimVfs::new();
            let (instance, db) = create(&disk, size);
            let mut session = instance.session();
            load(&mut session, &db, "T", rows).unwrap();
            change(&mut session, &db, rows).unwrap();
            session.begin().unwrap();
            session.create_index(&db, "T", &by_code("Filled")).unwrap();
            session.commit(CommitMode::Lazy).unwrap();
            let options = BulkLoadOptions { sort_bytes: 0, ..options() };
            let mut reported = 0;
            let goes_on = |_: &_| {
                reported += 1;
                true
            };
            let done =
                session.bulk_create_index_with(&db, "T", &by_code("Loaded"), options, goes_on).unwrap();
            let filled = in_order(&mut session, &db, "Filled");
            assert_eq!((done.rows, in_order(&mut session, &db, "Loaded")), (filled.len() as u64, filled));
            assert!(reported > 0 && (rows < 2500 || done.pages > 2), "{reported} reports, {done:?}");

            let mut table = session.open_table(&db, "T").unwrap();
            let columns = columns(|name| table.column(name));
            session.begin().unwrap();
            (10_001..10_200).for_each(|id| table.insert(&mut session, &values(columns, id)).unwrap());
            session.commit(CommitMode::Durable).unwrap();
            drop(table);
            assert_eq!(in_order(&mut session, &db, "Loaded"), in_order(&mut session, &db, "Filled"));
            drop((session, db));
            instance.shutdown().unwrap();
            check(&disk);
        }
    }
}

#[test]
fn a_failed_index_load_leaves_no_trace() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    load(&mut session, &db, "T", 4000).unwrap();
    let before = disk.contents(Path::new(DB)).unwrap().len();
    for round in 0..6 {
        // Cancels while records are read, while pages are filled, and at the end.
        let mut left = [1, 2, 4, 5, 30, 40][round];
        let goes_on = |_: &_| {
            left -= 1;
            left > 0
        };
        let loaded = session.bulk_create_index_with(&db, "T", &by_code("Loaded"), options(), goes_on);
        assert!(matches!(loaded, Err(Error::Cancelled)), "{loaded:?}");
        assert!(!has_index(&mut session, &db, "Loaded"));
    }
    let groups = IndexDefinition::new("Loaded", &["Group"]).unique();
    assert!(matches!(session.bulk_create_index(&db, "T", &groups, options()), Err(Error::KeyDuplicate)));
    let missing = IndexDefinition::new("Loaded", &["Nothing"]);
    assert!(matches!(session.bulk_create_index(&db, "T", &missing, options()), Err(Error::Usage(_))));
    let table = session.open_table(&db, "T").unwrap();
    assert!(session.bulk_create_index(&db, "T", &by_code("Loaded"), options()).is_err(), "it is open");
    drop(table);
    session.begin().unwrap();
    assert!(session.bulk_create_index(&db, "T", &by_code("Loaded"), options()).is_err(), "no nesting");
    session.commit(CommitMode::Lazy).unwrap();

    // The space of the failed attempts is reused after a shutdown.
    drop((session, db));
    instance.shutdown().unwrap();
    drop(instance);
    check(&disk);
    let instance = open(&disk, PageSize::KIB_4).unwrap();
    let db = instance.attach(Path::new(DB), 64).unwrap();
    let mut session = instance.session();
    session.bulk_create_index(&db, "T", &by_code("Loaded"), options()).unwrap();
    assert_eq!(in_order(&mut session, &db, "Loaded"), in_order(&mut session, &db, "ByCode"));
    let after = disk.contents(Path::new(DB)).unwrap().len();
    assert!(after <= before * 3 / 2, "{before} bytes before the attempts, {after} behind them");
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn index_loads_and_backups_exclude_each_other() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    load(&mut session, &db, "T", 400).unwrap();
    let running = instance.begin_backup(BackupKind::Full).unwrap();
    let refused = session.bulk_create_index(&db, "T", &by_code("Loaded"), options()).unwrap_err();
    assert_eq!(refused.jet_code(), -505);
    drop(running);
    let begun = |_: &_| instance.begin_backup(BackupKind::Full).is_err_and(|error| error.jet_code() == -505);
    session.bulk_create_index_with(&db, "T", &by_code("Loaded"), options(), begun).unwrap();
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}

/// Number of rows of the table that gets an index.
const ROWS: i32 = 900;

/// Creates a disk with a table that has only its primary index.
fn without_index() -> SimVfs {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    let bare =
        TableDefinition { indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()], ..definition("T") };
    let mut load = session.bulk_load(&db, &bare, options()).unwrap();
    let columns = columns(|name| load.column(name));
    (0..ROWS).for_each(|number| load.push(&values(columns, number * 2)).unwrap());
    load.finish().unwrap();
    drop((session, db));
    instance.shutdown().unwrap();
    disk
}

/// Loads an index, sets `is_done` when the load is acknowledged, and then changes the table.
fn history(disk: &SimVfs, is_done: &mut bool) -> Result<()> {
    let instance = open(disk, PageSize::KIB_4)?;
    let db = instance.attach(Path::new(DB), 64)?;
    let mut session = instance.session();
    session.bulk_create_index(&db, "T", &by_code("Loaded"), options())?;
    *is_done = true;
    change(&mut session, &db, ROWS / 2)?;
    instance.checkpoint()?;
    drop((session, db));
    instance.shutdown()
}

/// Checks power cuts and process kills at any write. Afterwards, either the index has an entry for every row, or the
/// index is missing because it was not acknowledged.
#[test]
fn an_index_load_is_atomic_across_power_cuts() {
    let base = without_index();
    let whole = base.clone_disk();
    let before = whole.operations();
    history(&whole, &mut false).unwrap();
    check(&whole);
    let (mut without, mut with) = (0, 0);
    for cut in 1..whole.operations() - before {
        let disk = base.clone_disk();
        disk.cut_power_after(cut);
        let mut is_done = false;
        let _ = history(&disk, &mut is_done);
        let disk = if cut % 3 == 0 { disk.process_kill() } else { disk.crash(cut, CrashOptions::default()) };
        let instance = open(&disk, PageSize::KIB_4).unwrap();
        let db = instance.attach(Path::new(DB), 64).unwrap();
        let mut session = instance.session();
        if has_index(&mut session, &db, "Loaded") {
            with += 1;
        } else {
            assert!(!is_done, "cut {cut}: an acknowledged index is lost");
            without += 1;
            session.bulk_create_index(&db, "T", &by_code("Loaded"), options()).unwrap();
        }
        assert!(in_order(&mut session, &db, "Loaded").len() >= ROWS as usize, "cut {cut}");
        drop((session, db));
        instance.shutdown().unwrap();
        check(&disk);
    }
    assert!(with > 10 && without > 10, "{with} with the index, {without} without it");
}
