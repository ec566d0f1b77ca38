//! Tests of a replayer that follows an instance: the copy equals the original, regardless of where the replayer was
//! stopped or killed.

use std::mem::discriminant;
use std::path::{Path, PathBuf};

use ese_check::{CheckOptions, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::internals::log::{LogNames, RecordBatch};
use ese_engine::{
    BackgroundThreads, CommitMode, Error, Instance, InstanceOptions, LogDamage, LogErrorKind, Replayer,
    Result, SeekRelation,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::LogHeader;
use ese_format::log::record::{LogRecord, Opaque};
use ese_format::log::scan::scan_log;
use ese_format::record::{ColumnId, Value};
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, RowsByKey, SIZE, create_one, open, rows, work};

type HeaderEdit = fn(&mut LogHeader);

const COPY: &str = "/copy/one.edb";

fn names() -> LogNames {
    LogNames::new(Path::new("/log"), FileStem::E00)
}

fn header(disk: &SimVfs, path: &str) -> DatabaseHeader {
    let bytes = disk.contents(Path::new(path)).unwrap();
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0
}

/// Returns the generation from which redo of the copy starts.
fn first_needed(disk: &SimVfs) -> Generation {
    let header = header(disk, COPY);
    match header.state {
        DatabaseState::DirtyShutdown => header.gen_min_required,
        _ => header.consistent_position.generation,
    }
}

/// Returns the file of a generation of the original's log.
fn log_of(disk: &SimVfs, generation: Generation) -> PathBuf {
    let archived = names().archived(generation);
    if disk.exists(&archived).unwrap() { archived } else { names().current() }
}

fn copy_options(disk: &SimVfs, pages: usize) -> InstanceOptions {
    disk.create_directory(Path::new("/copy")).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(pages * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/copy".into(), cache);
    options.background = BackgroundThreads::None;
    options.checkpoint.depth = 128 << 10;
    options.recovery.database_paths.search("/copy");
    options
}

fn replayer(disk: &SimVfs, pages: usize) -> Result<Replayer> {
    Replayer::open(copy_options(disk, pages), &log_of(disk, first_needed(disk)))
}

/// Creates an instance with a database. A clean copy of the database is at [`COPY`].
fn original(disk: &SimVfs) -> Arc<Instance> {
    let (instance, _) = open(disk, 1024);
    let db = create_one(&instance, DATABASES[0]);
    instance.detach(&db).unwrap();
    drop(db);
    disk.create_directory(Path::new("/copy")).unwrap();
    disk.put(Path::new(COPY), &disk.contents(Path::new(DATABASES[0])).unwrap());
    instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    instance
}

/// Returns the pages of a database that are compared.
fn pages(disk: &SimVfs, path: &str) -> Vec<Vec<u8>> {
    testkit::pages::comparable(&disk.contents(Path::new(path)).unwrap(), SIZE.bytes())
}

/// Replays the closed generations of the original that the copy does not have.
fn follow(disk: &SimVfs, replayer: &mut Replayer) -> Result<()> {
    loop {
        let next = names().archived(replayer.next());
        if !disk.exists(&next).unwrap() {
            return Ok(());
        }
        replayer.replay(&next)?;
    }
}

/// A record after which redo cannot continue stops the replay before anything is changed by the records of its
/// generation.
#[test]
fn a_generation_with_an_unsupported_record_changes_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let disk = SimVfs::new();
    let instance = original(&disk);
    let mut copy = replayer(&disk, 256).unwrap();
    follow(&disk, &mut copy).unwrap();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut session = instance.session();
    work(&mut session, &db, &mut RowsByKey::new(), &mut rng, 20);
    session.rollback().unwrap();
    let mut batch = RecordBatch::new();
    // A file growth record with a layout that redo does not know.
    batch.push(&LogRecord::Ignored(Opaque { kind: 68, body: vec![0; 9] }));
    instance.core().log().append(&batch).unwrap();
    instance.core().log().roll_over().unwrap();
    let path = names().archived(copy.next());
    let before = disk.contents(Path::new(COPY)).unwrap();
    for _ in 0..2 {
        let error = copy.replay(&path).unwrap_err();
        let Error::Log { path: named, fault: LogErrorKind::RefusedRecord(_, why), .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((named, error.jet_code()), (&path, -501));
        assert!(why.contains("unknown layout"), "{why}");
        assert!(disk.contents(Path::new(COPY)).unwrap() == before);
    }
}

/// The engine that writes the log may remove deleted nodes late. Until then, their pages must not fill the cache of
/// the copy.
#[test]
fn pages_with_pending_deletions_can_be_evicted() {
    const CACHE_PAGES: usize = 24;
    let disk = SimVfs::new();
    let instance = original(&disk);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut session = instance.session();
    let mut table = session.open_table(&db, "t").unwrap();
    session.begin().unwrap();
    for key in 0..600 {
        let body = Value::Binary(vec![1; 300]);
        let row = [(ColumnId(1), Value::Long(key)), (ColumnId(256), body)];
        table.insert(&mut session, &row).unwrap();
    }
    session.commit(CommitMode::Durable).unwrap();
    instance.core().log().roll_over().unwrap();
    let mut copy = replayer(&disk, CACHE_PAGES).unwrap();
    follow(&disk, &mut copy).unwrap();
    // No cleanup runs, because the instance has no threads.
    session.begin().unwrap();
    for key in (0..600).step_by(8) {
        assert!(table.seek(&mut session, &[Value::Long(key)], SeekRelation::Equal).unwrap());
        table.delete(&mut session).unwrap();
    }
    session.commit(CommitMode::Durable).unwrap();
    instance.core().log().roll_over().unwrap();
    follow(&disk, &mut copy).unwrap();
    assert!(copy.summary().pages_written > 2 * CACHE_PAGES as u64, "{:?}", copy.summary());
    copy.stop().unwrap();
}

#[test]
fn a_copy_that_is_stopped_and_continued_equals_the_original() {
    for seed in 0..6 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = original(&disk);
        let pages_of_cache = [24, 256][seed as usize % 2];
        let mut copy = Some(replayer(&disk, pages_of_cache).unwrap());
        let mut model = RowsByKey::new();
        let mut oldest_needed = Generation(0);
        let mut given_back = 0;
        let mut session = instance.session();
        for round in 0..14 {
            let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
            work(&mut session, &db, &mut model, &mut rng, 60);
            if round % 4 == 3 {
                given_back += instance.trim(&db).unwrap().pages;
                let shrunk = instance.shrink(&db).unwrap();
                given_back += shrunk.pages_before - shrunk.pages_after;
            }
            if round % 3 == 2 {
                instance.core().log().roll_over().unwrap();
            }
            instance.step().unwrap();
            // The last transaction is still open here.
            let mut following = copy.take().unwrap_or_else(|| replayer(&disk, pages_of_cache).unwrap());
            follow(&disk, &mut following).unwrap();
            match rng.random_range(0..4) {
                0 => drop(following.stop().unwrap()),
                // A kill: only the data that was written survives.
                1 => drop(following),
                2 => {
                    following.checkpoint().unwrap();
                    copy = Some(following);
                }
                _ => copy = Some(following),
            }
            let needed = first_needed(&disk);
            assert!(needed >= oldest_needed, "{needed:?} {oldest_needed:?}");
            oldest_needed = needed;
            session.rollback().unwrap();
            model.clone_from(&rows(&instance, &db));
        }
        drop(session);
        instance.shutdown().unwrap();
        let mut copy = copy.unwrap_or_else(|| replayer(&disk, pages_of_cache).unwrap());
        follow(&disk, &mut copy).unwrap();
        copy.replay_until(&names().current(), LogPosition::MAX).unwrap();
        copy.check_complete().unwrap();
        let replayed = copy.stop().unwrap();
        assert!(replayed.attached.is_empty() && replayed.records["DetachDb"] >= 1, "{replayed:?}");
        assert!(oldest_needed.0 > 3, "the checkpoint of the copy did not move: {oldest_needed:?}");
        assert_eq!(header(&disk, COPY).state, DatabaseState::CleanShutdown);
        assert!(pages(&disk, COPY) == pages(&disk, DATABASES[0]), "seed {seed}");
        let [len, copy_len] = [DATABASES[0], COPY].map(|path| disk.contents(Path::new(path)).unwrap().len());
        assert!(len == copy_len && given_back > 50, "seed {seed}: {len}, {copy_len}, {given_back}");
        let report = check_database(
            &disk,
            Path::new(COPY),
            &CheckOptions { structure: true, ..CheckOptions::default() },
        );
        assert!(report.unwrap().findings.is_empty());
    }
}

/// Returns the position after the last record of a log file.
fn end_of(disk: &SimVfs, path: &Path) -> LogPosition {
    let mut bytes = disk.contents(path).unwrap();
    let generation = LogHeader::decode(&bytes[..4096]).unwrap().generation;
    LogPosition::new(generation.0, scan_log(&mut bytes, generation).unwrap().last + 1, 0)
}

/// The position at which a replay stops does not matter: it can be within a generation, at its end, or before the
/// next one.
#[test]
fn replaying_a_log_in_parts_produces_the_same_database() {
    let mut partial = 0;
    for seed in 0..4 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = original(&disk);
        let mut session = instance.session();
        for _ in 0..8 {
            let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
            work(&mut session, &db, &mut RowsByKey::new(), &mut rng, 100);
            session.rollback().unwrap();
            instance.step().unwrap();
        }
        drop(session);
        instance.core().log().roll_over().unwrap();
        instance.shutdown().unwrap();
        let mut copy = replayer(&disk, 256).unwrap();
        loop {
            let generation = copy.next();
            let path = log_of(&disk, generation);
            let end = end_of(&disk, &path);
            for _ in 0..rng.random_range(0..4) {
                let until = match rng.random_range(0..4) {
                    0 => LogPosition::MAX,
                    1 => LogPosition::new(generation.0 + 1, 1, 0),
                    _ => LogPosition::new(generation.0, rng.random_range(1..=end.segment), 0),
                };
                let before = copy.position();
                copy.replay_until(&path, until).unwrap();
                assert!(copy.position() >= before.max(until.min(end)), "{:?} of {until:?}", copy.position());
                partial += usize::from(copy.position() < end);
            }
            if path == names().current() {
                copy.replay_until(&path, LogPosition::MAX).unwrap();
                break;
            }
            copy.replay(&path).unwrap();
            assert!(copy.position() >= end);
        }
        copy.check_complete().unwrap();
        copy.stop().unwrap();
        assert!(pages(&disk, COPY) == pages(&disk, DATABASES[0]), "seed {seed}");
    }
    assert!(partial > 5, "{partial} stops within a generation");
}

#[test]
fn a_database_is_complete_throughout_the_generation_attaching_that_database() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let disk = SimVfs::new();
    let instance = original(&disk);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut session = instance.session();
    work(&mut session, &db, &mut RowsByKey::new(), &mut rng, 5);
    session.rollback().unwrap();
    let until = instance.core().log().tail();
    work(&mut session, &db, &mut RowsByKey::new(), &mut rng, 5);
    session.rollback().unwrap();
    instance.flush().unwrap();
    let mut copy = replayer(&disk, 256).unwrap();
    follow(&disk, &mut copy).unwrap();
    assert_eq!(copy.next(), until.generation);
    copy.replay_until(&names().current(), until).unwrap();
    copy.check_complete().unwrap();
    assert_eq!(copy.summary().attached, [Path::new(COPY)]);
}

/// Undo needs a separate stream. The copy gets the logs, and the replayed database becomes clean.
#[test]
fn finishing_replay_rolls_back_open_transactions() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let disk = SimVfs::new();
    let instance = original(&disk);
    let mut model = RowsByKey::new();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut session = instance.session();
    work(&mut session, &db, &mut model, &mut rng, 400);
    instance.flush().unwrap();
    // The open transaction is in the log, but not in the model.
    let disk = disk.process_kill();
    for path in disk.list(Path::new("/log")).unwrap() {
        let copied = Path::new("/copy").join(path.file_name().unwrap());
        if path.extension().is_some_and(|extension| extension == "log") {
            disk.put(&copied, &disk.contents(&path).unwrap());
        }
    }
    disk.remove(Path::new(DATABASES[0])).unwrap();
    let mut copy = replayer(&disk, 256).unwrap();
    follow(&disk, &mut copy).unwrap();
    copy.replay_until(&names().current(), LogPosition::MAX).unwrap();
    let (replayed, recovery) = copy.finish().unwrap();
    assert_eq!(replayed.attached, [Path::new(COPY)]);
    assert_eq!(recovery.rolled_back, 1);
    assert_eq!(header(&disk, COPY).state, DatabaseState::CleanShutdown);
    // The log names the path of the original, including in the records that recovery appended.
    let logs = disk.list(Path::new("/copy")).unwrap();
    assert!(logs.iter().any(|path| path.ends_with("E00.log")), "{logs:?}");
    let instance = Instance::open(copy_options(&disk, 256)).unwrap();
    let db = instance.attach(Path::new(COPY), 32).unwrap();
    assert_eq!(rows(&instance, &db), model);
}

#[test]
fn a_generation_that_does_not_continue_the_log_changes_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let disk = SimVfs::new();
    let instance = original(&disk);
    let mut model = RowsByKey::new();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut session = instance.session();
    while instance.core().log().tail().generation.0 < 9 {
        work(&mut session, &db, &mut model, &mut rng, 100);
        session.rollback().unwrap();
        instance.flush().unwrap();
    }
    let first = first_needed(&disk);
    let path = |ahead: u32| names().archived(Generation(first.0 + ahead));
    let mut copy = replayer(&disk, 256).unwrap();
    copy.replay(&path(0)).unwrap();
    copy.checkpoint().unwrap();
    let before = disk.contents(Path::new(COPY)).unwrap();
    let error = copy.replay(&path(2)).unwrap_err();
    let next = Generation(first.0 + 1);
    assert!(matches!(error, Error::LogMissing { generation, .. } if generation == next), "{error}");
    assert_eq!((error.jet_code(), error.jet_name()), (-528, "JET_errMissingLogFile"));
    // A damaged segment, another stream, another creation time, and other content.
    let good = disk.contents(&path(1)).unwrap();
    let edits: [(HeaderEdit, LogErrorKind, i32); 3] = [
        (|header| header.signature.random ^= 1, LogErrorKind::OtherStream, -530),
        (|header| header.previous_created.0[0] ^= 1, LogErrorKind::OtherHistory, -515),
        (|header| header.previous_checksum ^= 1, LogErrorKind::OtherContent, -590),
    ];
    let mut bad = vec![(
        {
            let mut damaged = good.clone();
            damaged[5 * 4096 + 100] ^= 0xFF;
            damaged[5 * 4096 + 900] ^= 0xFF;
            damaged
        },
        LogErrorKind::Damaged(LogDamage::RecordTooLong),
        -501,
    )];
    for (edit, fault, code) in edits {
        let mut header = LogHeader::decode(&good[..4096]).unwrap();
        edit(&mut header);
        bad.push(([&header.encode()[..], &good[4096..]].concat(), fault, code));
    }
    for (bytes, expected, code) in bad {
        disk.put(&path(1), &bytes);
        let error = copy.replay(&path(1)).unwrap_err();
        let Error::Log { path: named, position, fault, .. } = &error else { panic!("{error}") };
        assert_eq!((named, discriminant(fault), error.jet_code()), (&path(1), discriminant(&expected), code));
        assert_eq!(position.generation, next);
        assert!(disk.contents(Path::new(COPY)).unwrap() == before);
    }
    // The replayer can continue with the correct file.
    disk.put(&path(1), &good);
    copy.replay(&path(1)).unwrap();
    assert_eq!(copy.next().0, first.0 + 2);
}
