//! Full volumes and failing devices: operations fail with an error that names the cause, no committed data is lost,
//! and work continues when there is space again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ese_check::{CheckOptions, check_database};
use ese_engine::Database;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, CommitMode, DatabaseOptions, DefragKind, DefragOptions, Error, Instance,
    InstanceOptions, Result, ScanOptions, Session,
};
use ese_format::PageSize;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};
use system_tests::predictable_table::{PredictableRows, change, contents, definition};

const DB: &str = "/db/full.edb";
const SIZE: PageSize = PageSize::KIB_4;

fn open(vfs: Arc<dyn Vfs>) -> Result<(Arc<Instance>, Arc<Database>)> {
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(48 * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs.clone(), "/log".into(), cache);
    options.background = BackgroundThreads::None;
    options.log.file_size = 64 << 10;
    options.checkpoint.depth = 256 << 10;
    options.seed = Some(1);
    let instance = Instance::open(options)?;
    let db = if vfs.exists(Path::new(DB)).expect("the simulated disk tells") {
        instance.attach(Path::new(DB), 32)?
    } else {
        let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
        let db = instance.create_database(Path::new(DB), &create)?;
        let mut s = instance.session();
        s.begin()?;
        s.create_table(&db, &definition())?;
        s.commit(CommitMode::Durable)?;
        db
    };
    Ok((instance, db))
}

fn check(disk: &SimVfs) {
    let report = check_database(disk, Path::new(DB), &CheckOptions::default()).unwrap();
    assert!(report.clean && report.is_sound(), "{:#?}", report.errors().collect::<Vec<_>>());
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::DiskFull { .. })
}

/// Runs transactions until one fails. The failed transaction is still open on return.
fn work_until_full(
    instance: &Arc<Instance>,
    s: &mut Session,
    db: &Arc<Database>,
    model: &mut PredictableRows,
    rounds: std::ops::Range<i32>,
) -> Option<Error> {
    for round in rounds {
        let mut after = model.clone();
        s.begin().unwrap();
        let done = change(s, db, &mut after, round).and_then(|()| {
            s.commit(if round % 3 == 0 { CommitMode::Durable } else { CommitMode::Lazy })?;
            *model = after;
            if round % 4 == 0 { instance.step() } else { Ok(()) }
        });
        if let Err(error) = done {
            return Some(error);
        }
    }
    None
}

/// Fills the volume until `fault` prevents growth, and runs every operation that must still work.
fn check_full_volume(path: &str, freed: bool, skip: u64) {
    let context = format!("{path}, freed {freed}, after {skip}");
    let disk = SimVfs::new();
    let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
    let (instance, db) = open(faults.clone()).unwrap();
    let mut s = instance.session();
    let mut model = PredictableRows::new();
    assert!(work_until_full(&instance, &mut s, &db, &mut model, 0..10).is_none());
    let fault = InjectedFault::new(FaultTarget::Grow, FaultEffect::NoSpace)
        .on_path(path)
        .after_operations(skip)
        .repeating();
    faults.inject(fault);
    let fault = InjectedFault::new(FaultTarget::Create, FaultEffect::NoSpace)
        .on_path(path)
        .after_operations(skip)
        .repeating();
    faults.inject(fault);
    let error = work_until_full(&instance, &mut s, &db, &mut model, 10..4000);
    let error = error.unwrap_or_else(|| panic!("{context}: nothing failed"));
    assert!(is_full(&error), "{context}: {error:?}");
    while s.level() > 0 {
        s.rollback().unwrap_or_else(|error| panic!("{context}: rollback: {error}"));
    }
    assert_eq!(contents(&mut s, &db), model, "{context}: after rollback");
    // A second failure must not do any harm.
    let _ = work_until_full(&instance, &mut s, &db, &mut model, 4000..4010);
    while s.level() > 0 {
        s.rollback().unwrap_or_else(|error| panic!("{context}: rollback: {error}"));
    }
    if freed {
        faults.clear();
        let error = work_until_full(&instance, &mut s, &db, &mut model, 5000..5100);
        assert!(error.is_none(), "{context}: after space was freed: {error:?}");
    }
    assert_eq!(contents(&mut s, &db), model, "{context}");
    drop((s, db));
    instance.shutdown().unwrap_or_else(|error| panic!("{context}: shutdown: {error}"));
    drop(instance);
    check(&disk);
    faults.clear();
    let (instance, db) = open(faults.clone()).unwrap();
    let mut s = instance.session();
    assert_eq!(contents(&mut s, &db), model, "{context}: after a restart");
    assert!(work_until_full(&instance, &mut s, &db, &mut model, 6000..6020).is_none());
    drop((s, db));
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn a_full_database_volume_loses_no_committed_data() {
    for freed in [true, false] {
        for skip in [0, 1, 2] {
            check_full_volume("/db/", freed, skip);
        }
    }
}

#[test]
fn a_full_log_volume_loses_no_committed_data() {
    for freed in [true, false] {
        for skip in [0, 1, 2, 3] {
            check_full_volume("/log/", freed, skip);
        }
    }
}

#[test]
fn a_full_disk_for_database_and_logs_loses_no_committed_data() {
    for extra in [100 << 10, 300 << 10, 1 << 20] {
        let disk = SimVfs::new();
        let (instance, db) = open(Arc::new(disk.clone())).unwrap();
        let mut s = instance.session();
        let mut model = PredictableRows::new();
        assert!(work_until_full(&instance, &mut s, &db, &mut model, 0..10).is_none());
        disk.set_capacity(disk.used() + extra);
        let error = work_until_full(&instance, &mut s, &db, &mut model, 10..4000).expect("the disk is full");
        assert!(is_full(&error), "{error:?}");
        while s.level() > 0 {
            s.rollback().unwrap();
        }
        assert_eq!(contents(&mut s, &db), model);
        // The process crashes while the disk is full and restarts when there is space again.
        let killed = disk.process_kill();
        disk.set_capacity(u64::MAX);
        let error = work_until_full(&instance, &mut s, &db, &mut model.clone(), 5000..5050);
        assert!(error.is_none(), "{error:?}");
        drop((s, db));
        instance.shutdown().unwrap();
        check(&disk);
        killed.set_capacity(u64::MAX);
        let (instance, db) = open(Arc::new(killed.clone())).unwrap();
        drop(db);
        instance.shutdown().unwrap();
        check(&killed);
    }
}

/// Tasks that change pages stop on a full volume, report this, and resume when there is space again. Sessions can
/// read during this time.
#[test]
fn maintenance_waits_for_space_and_loses_nothing() {
    for path in ["/db/", "/log/"] {
        let disk = SimVfs::new();
        let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        let (instance, db) = open(faults.clone()).unwrap();
        let mut s = instance.session();
        let mut model = PredictableRows::new();
        assert!(work_until_full(&instance, &mut s, &db, &mut model, 0..400).is_none());
        for target in [FaultTarget::Grow, FaultTarget::Create] {
            faults.inject(InjectedFault::new(target, FaultEffect::NoSpace).on_path(path).repeating());
        }
        let scan = ScanOptions { zero: true, single_pass: true, ..ScanOptions::default() };
        assert!(instance.start_maintenance(&db, scan).unwrap());
        for kind in [DefragKind::Compaction, DefragKind::SequentialLayout] {
            let defrag = DefragOptions { kind, single_pass: true, ..DefragOptions::default() };
            assert!(instance.start_defragmentation(&db, defrag).unwrap());
        }
        let failures =
            || [db.scan_progress().failure, db.defrag_progress().failure, db.layout_progress().failure];
        let mut full = 0;
        let clock = disk.sim_clock();
        for _ in 0..2000 {
            let _ = instance.step();
            clock.advance(Duration::from_secs(1));
            full += failures().iter().flatten().filter(|what| what.contains("disk is full")).count();
        }
        assert!(full > 0, "{path}: {:?}", failures());
        assert_eq!(contents(&mut s, &db), model, "{path}: on the full volume");
        faults.clear();
        let running =
            || db.scan_progress().running || db.defrag_progress().running || db.layout_progress().running;
        for step in 0.. {
            assert!(step < 20_000, "{path}: {:?}", failures());
            if !running() {
                break;
            }
            instance.step().unwrap();
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(contents(&mut s, &db), model, "{path}");
        drop((s, db));
        instance.shutdown().unwrap();
        check(&disk);
    }
}

/// A device error on a write or sync makes the instance read-only with a clear error, and a restart recovers it.
#[test]
fn io_errors_make_the_instance_read_only_and_a_restart_recovers() {
    for target in [FaultTarget::Write, FaultTarget::Sync] {
        for path in ["/log/", DB, "/"] {
            for skip in [0, 1, 2, 3, 5, 8, 13, 40] {
                let context = format!("{target:?} {path} after {skip}");
                let disk = SimVfs::new();
                let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
                let (instance, db) = open(faults.clone()).unwrap();
                let mut s = instance.session();
                let mut model = PredictableRows::new();
                assert!(work_until_full(&instance, &mut s, &db, &mut model, 0..10).is_none());
                instance.flush().unwrap();
                let safe = model.clone();
                let fault = InjectedFault::new(target, FaultEffect::IoError)
                    .on_path(path)
                    .after_operations(skip)
                    .repeating();
                faults.inject(fault);
                let error = work_until_full(&instance, &mut s, &db, &mut model, 10..4000);
                let error = error.unwrap_or_else(|| panic!("{context}: nothing failed"));
                // No committed data depends on a log file in preparation or on a newer checkpoint, so the engine may
                // retry both.
                let harmless = |error: &Error| matches!(error, Error::Io { path, .. } if path.ends_with("E00tmp.log") || path.ends_with("E00.chk"));
                assert!(matches!(error, Error::ReadOnly(_)) || harmless(&error), "{context}: {error:?}");
                let read_only = !harmless(&error);
                // The instance stays read-only even when the device works again.
                faults.clear();
                let mut other = instance.session();
                other.begin().unwrap();
                let error = change(&mut other, &db, &mut PredictableRows::new(), 9999)
                    .and_then(|()| other.commit(CommitMode::Durable).map(|_| ()));
                assert_eq!(
                    matches!(error, Err(Error::ReadOnly(_))),
                    read_only,
                    "{context}: later: {error:?}"
                );
                drop((s, other, db, instance));
                let (instance, db) = open(faults.clone()).unwrap_or_else(|e| panic!("{context}: {e}"));
                let found = contents(&mut instance.session(), &db);
                let missing: Vec<_> = safe.keys().filter(|key| !found.contains_key(key)).collect();
                assert!(missing.is_empty(), "{context}: lost {missing:?}");
                drop(db);
                instance.shutdown().unwrap();
                check(&disk);
            }
        }
    }
}
