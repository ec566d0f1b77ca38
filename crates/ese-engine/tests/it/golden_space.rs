//! Compares the transfers of space trees and maintenance for fixed work with the files in `tests/golden`, as in
//! [`golden`](super::golden).

use ese_engine::{CommitMode, DefragOptions, ScanOptions, TableDefinition};
use ese_format::record::Value;
use rand::Rng;

use super::golden::{InstanceSetup, SETUP, TracedInstance};
use super::tables::{TestColumns, definition, random_row};

/// Creates tables, fills them in alternation to interleave their pages, and deletes the records of some tables.
fn fill_and_empty_tables(work: &mut TracedInstance, round: usize) {
    let name = |number: usize| format!("T{round}_{number}");
    let mut session = work.instance.session();
    for number in 0..6 {
        session.begin().unwrap();
        let definition = TableDefinition { name: name(number), ..definition() };
        session.create_table(&work.db, &definition).unwrap();
        session.commit(CommitMode::Lazy).unwrap();
    }
    for id in 0..40 {
        for number in 0..6 {
            session.begin().unwrap();
            let mut table = session.open_table(&work.db, &name(number)).unwrap();
            let columns = TestColumns::for_table(&table);
            for part in 0..work.rng.random_range(0..3 * (number as i32 + 1)) {
                let mut row = random_row(&mut work.rng, work.setup.size);
                row.code = Some(format!("c{id} {part}"));
                let mut values = columns.values(&row);
                values.push((columns.id, Value::Long(id * 100 + part)));
                table.insert(&mut session, &values).unwrap();
            }
            session.commit(CommitMode::Lazy).unwrap();
        }
        work.instance.step().unwrap();
    }
    for number in (round % 2..6).step_by(2) {
        session.begin().unwrap();
        let mut table = session.open_table(&work.db, &name(number)).unwrap();
        let mut found = table.first(&mut session).unwrap();
        while found {
            table.delete(&mut session).unwrap();
            found = table.next(&mut session).unwrap();
        }
        session.commit(CommitMode::Durable).unwrap();
        work.steps(4);
    }
    session.begin().unwrap();
    session.create_table(&work.db, &TableDefinition { name: name(9), pages: 40, ..definition() }).unwrap();
    session.rollback().unwrap();
}

#[test]
fn tables_whose_pages_alternate() {
    let mut work = TracedInstance::new(InstanceSetup { frames: 200, log_bytes: 512 << 10, ..SETUP });
    for round in 0..3 {
        fill_and_empty_tables(&mut work, round);
    }
    work.crash(false);
    fill_and_empty_tables(&mut work, 3);
    work.instance.trim(&work.db).unwrap();
    work.instance.shrink(&work.db).unwrap();
    fill_and_empty_tables(&mut work, 4);
    work.end("space.txt");
}

#[test]
fn zeros_in_freed_and_changed_pages() {
    let mut work = TracedInstance::new(InstanceSetup { frames: 90, log_bytes: 256 << 10, ..SETUP });
    work.change(700, 700, 0);
    for round in 0..3 {
        work.delete_range(200 * round, 200 * round + 150);
        work.change(150, 700, 40);
        let scan = ScanOptions { zero: true, single_pass: true, ..ScanOptions::default() };
        assert!(work.instance.start_maintenance(&work.db, scan).unwrap());
        work.steps(30);
        work.crash(false);
    }
    work.end("zeroing.txt");
}

#[test]
fn leaves_that_share_their_nodes_when_they_are_merged() {
    let mut work = TracedInstance::new(InstanceSetup { frames: 160, log_bytes: 256 << 10, ..SETUP });
    work.change(900, 900, 0);
    for deletes in [70, 90] {
        work.change(700, 900, deletes);
        work.steps(10);
        let defrag = DefragOptions { single_pass: true, ..DefragOptions::default() };
        assert!(work.instance.start_defragmentation(&work.db, defrag).unwrap());
        work.steps(80);
    }
    work.end("defragmentation.txt");
}
