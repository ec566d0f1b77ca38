//! The end of an instance, and what outlives it or stands in its way.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ese_engine::btree::Seek;
use ese_engine::cache::{Cache, CacheOptions};
use ese_engine::database::Database;
use ese_engine::{CommitMode, Error, Instance, InstanceOptions, Result, Session};
use ese_format::record::{ColumnId, Value};
use vfs::{SimVfs, Vfs};

use super::recovered::{DATABASES, SIZE, create_one, options, rows};

/// A row with this key, new or replaced.
fn put(session: &mut Session, db: &Arc<Database>, key: i32, number: i32) -> Result<()> {
    let mut table = session.open_table(db, "t")?;
    let number = (ColumnId(2), Value::Long(number));
    match table.seek(session, &[Value::Long(key)], Seek::Equal)? {
        true => table.replace(session, &[number]),
        false => table.insert(session, &[(ColumnId(1), Value::Long(key)), number]),
    }
}

fn commit(instance: &Arc<Instance>, db: &Arc<Database>, key: i32, number: i32, mode: CommitMode) {
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, db, key, number).unwrap();
    session.commit(mode).unwrap();
}

#[test]
fn a_session_that_outlives_its_instance_changes_nothing_in_the_next_one() {
    let cache = Cache::new(CacheOptions::new(256 * SIZE.bytes(), SIZE, SimVfs::new().clock()));
    let on = |disk: &SimVfs| {
        let options = options(Arc::new(disk.clone()), 256, 750).0;
        let instance = Instance::open(InstanceOptions { cache: cache.clone(), ..options }).unwrap();
        let db = create_one(&instance, DATABASES[0]);
        (instance, db)
    };
    let (instance, db) = on(&SimVfs::new());
    commit(&instance, &db, 1, 10, CommitMode::Durable);
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, &db, 1, 11).unwrap();
    drop((instance, db));

    let disk = SimVfs::new();
    let (instance, db) = on(&disk);
    commit(&instance, &db, 1, 20, CommitMode::Durable);
    drop(session);
    assert_eq!(rows(&instance, &db), [(1, 20)].into());
    commit(&instance, &db, 2, 21, CommitMode::Durable);
    let recovered = Instance::open(options(Arc::new(disk.process_kill()), 256, 750).0).unwrap();
    let db = recovered.attach(Path::new(DATABASES[0]), 32).unwrap();
    assert_eq!(rows(&recovered, &db), [(1, 20), (2, 21)].into());
}

#[test]
fn a_session_that_outlives_its_instance_cannot_commit() {
    for mode in [CommitMode::Durable, CommitMode::Lazy] {
        let disk = SimVfs::new();
        let instance = Instance::open(options(Arc::new(disk.clone()), 256, 750).0).unwrap();
        let db = create_one(&instance, DATABASES[0]);
        let mut session = instance.session();
        session.begin().unwrap();
        put(&mut session, &db, 1, 10).unwrap();
        drop(instance);
        let committed = session.commit(mode);
        assert!(matches!(committed, Err(Error::ReadOnly(_))), "{committed:?}");
        drop(session);
        let lock = disk.lock(Path::new(DATABASES[0]));
        assert!(lock.is_err(), "the database is ours");
        drop(db);
        assert!(disk.lock(Path::new(DATABASES[0])).is_ok(), "nobody has it any more");
    }
}

#[test]
fn a_shutdown_that_is_refused_leaves_the_background_at_work() {
    let disk = SimVfs::new();
    let options = InstanceOptions { threads: true, ..options(Arc::new(disk.clone()), 256, 750).0 };
    let instance = Instance::open(options).unwrap();
    let db = create_one(&instance, DATABASES[0]);
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, &db, 1, 10).unwrap();
    let refused = instance.shutdown();
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    session.rollback().unwrap();
    session.begin().unwrap();
    put(&mut session, &db, 1, 11).unwrap();
    let id = session.commit(CommitMode::Lazy).unwrap();
    let late = Instant::now() + Duration::from_secs(5);
    while instance.durable() < id.0 {
        assert!(Instant::now() < late, "nobody writes the log");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((session, db));
    instance.shutdown().unwrap();
}
