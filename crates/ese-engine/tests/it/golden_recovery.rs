//! Compares the transfers of recovery and replay for fixed logs with the files in `tests/golden`, as in
//! [`golden`](super::golden).

use std::path::Path;

use ese_engine::internals::log::LogNames;
use ese_engine::{CommitMode, Freeze, Replayer, SeekRelation, TornPageProtection};
use ese_format::record::Value;
use ese_format::{Generation, LogPosition, PageSize};
use jetcell_vfs::{FileStem, Vfs};
use rand::Rng;

use super::golden::{DELTAS, InstanceSetup, SETUP, TracedInstance, options};

/// Leaves a transaction unfinished. Some of its records are already on disk.
fn leave_unfinished(work: &mut TracedInstance) {
    let mut session = work.instance.session();
    session.begin().unwrap();
    let (mut table, columns) = work.table(&mut session);
    for id in (0..400).step_by(9) {
        if table.seek(&mut session, &[Value::Long(id)], SeekRelation::Equal).unwrap() {
            match id % 4 {
                0 => table.delete(&mut session).unwrap(),
                _ => table.replace(&mut session, &[(columns.group, Value::Long(id % 5))]).unwrap(),
            }
        }
    }
    drop(table);
    work.steps(3);
    // The process ends before the session does.
    std::mem::forget(session);
}

#[test]
fn recovery_of_a_log_larger_than_memory() {
    let double_write = TornPageProtection::DoubleWrite;
    for (eviction, torn_page_protection, name) in [
        (SETUP.eviction, TornPageProtection::Off, "recovery.txt"),
        (DELTAS, double_write, "recovery-deltas.txt"),
    ] {
        let mut work = TracedInstance::new(InstanceSetup {
            frames: 48,
            depth: 40,
            eviction,
            torn_page_protection,
            ..SETUP
        });
        for round in 0..3 {
            work.change(600, 900, 15);
            work.delete_range(200 * round, 200 * round + 120);
            work.change(100, 900, 0);
            work.crash(round % 2 == 0 && torn_page_protection == double_write);
        }
        work.end(name);
    }
}

#[test]
fn recovery_of_unfinished_transactions() {
    let torn_page_protection = TornPageProtection::DoubleWrite;
    let mut work =
        TracedInstance::new(InstanceSetup { depth: 12, frames: 56, torn_page_protection, ..SETUP });
    for round in 0..3 {
        work.change(300, 400, 10);
        leave_unfinished(&mut work);
        work.crash(round == 1);
    }
    work.read_all(None);
    work.end("unfinished.txt");
}

#[test]
fn lost_newest_log_generations_with_waypoint_latency() {
    let torn_page_protection = TornPageProtection::DoubleWrite;
    let mut work = TracedInstance::new(InstanceSetup {
        waypoint_latency: 2,
        depth: 6,
        frames: 80,
        eviction: DELTAS,
        torn_page_protection,
        ..SETUP
    });
    for round in 0..3 {
        work.change(500, 300, 10);
        work.crash(round % 2 == 1);
    }
    work.end("waypoint.txt");
}

#[test]
fn a_full_version_store() {
    let mut work =
        TracedInstance::new(InstanceSetup { version_store_bytes: 64 << 10, size: PageSize::KIB_8, ..SETUP });
    work.change(300, 300, 0);
    let mut reader = work.instance.session();
    reader.begin().unwrap();
    let (mut seen, _) = work.table(&mut reader);
    let mut session = work.instance.session();
    let mut refused = 0;
    for id in 0..300 {
        session.begin().unwrap();
        let (mut table, columns) = work.table(&mut session);
        if table.seek(&mut session, &[Value::Long(id)], SeekRelation::Equal).unwrap() {
            let body = vec![id as u8; work.rng.random_range(1..1200)];
            let replaced = table.replace(&mut session, &[(columns.body, Value::Binary(body))]);
            work.traced.mark(&format!("{id}: {replaced:?}"), &[]);
            refused += usize::from(replaced.is_err());
        }
        session.commit(CommitMode::Lazy).unwrap();
        seen.seek(&mut reader, &[Value::Long(id)], SeekRelation::Equal).unwrap();
        work.instance.step().unwrap();
        if id == 250 {
            reader.commit(CommitMode::Lazy).unwrap();
            reader.begin().unwrap();
        }
    }
    assert!(refused > 20, "{refused}");
    drop((seen, reader, session));
    work.end("versions.txt");
}

#[test]
fn a_copy_that_follows_a_log_in_parts() {
    const COPY: &str = "/copy/golden.edb";
    let mut work = TracedInstance::new(InstanceSetup { log_bytes: 64 << 10, ..SETUP });
    work.traced.create_directory(Path::new("/copy")).unwrap();
    work = work.copy_database(COPY);
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    let open = |work: &TracedInstance, first: Generation| {
        let mut options =
            options(InstanceSetup { depth: 5, frames: 40, ..work.setup }, &work.traced, "/copy");
        options.recovery.database_paths.search("/copy");
        Replayer::open(options, &names.archived(first)).unwrap()
    };
    // The generation in which the database was detached is not complete yet.
    work.change(200, 600, 10);
    let mut first = Generation(1);
    for round in 0..4 {
        work.change(250, 600, 10 * round);
        work.delete_range(100 * round as i32, 100 * round as i32 + 30);
        let mut copy = open(&work, first);
        while work.traced.exists(&names.archived(copy.next())).unwrap() {
            let (log, next) = (names.archived(copy.next()), copy.next());
            if work.rng.random_range(0..3) == 0 {
                let until = LogPosition::new(next.0, work.rng.random_range(2..14), 0);
                copy.replay_until(&log, until).unwrap();
                work.traced.mark(&format!("{:?}", copy.position()), &[]);
            }
            copy.replay(&log).unwrap();
            if work.rng.random_range(0..6) == 0 {
                copy.checkpoint().unwrap();
            }
            work.traced.mark(&format!("{:?} {:?}", copy.position(), copy.summary()), &[]);
        }
        first = copy.checkpoint().unwrap().generation;
        work.traced.mark(&format!("{:?}", copy.stop().unwrap()), &[]);
    }
    work.end("copy.txt");
}

#[test]
fn freezes_in_the_middle_of_a_generation() {
    let mut work = TracedInstance::new(InstanceSetup { log_bytes: 64 << 10, ..SETUP });
    for count in [100, 10, 50] {
        work.change(count, 300, 10);
        let freeze = work.instance.freeze(Freeze::DEFAULT_LIMIT).unwrap();
        work.traced.mark(&format!("{:?}", freeze.generation()), &[]);
        work.read_all(None);
        work.traced.mark(&format!("{:?}", freeze.thaw().unwrap()), &[]);
        work.change(20, 300, 10);
    }
    work.crash(false);
    work.end("freezes.txt");
}
