//! Tests of rows out of order in a bulk load.

use std::collections::BTreeMap;
use std::path::Path;

use ese_engine::{BulkLoadOptions, Error};
use ese_format::PageSize;
use jetcell_vfs::{CrashOptions, SimVfs};

use crate::bulk_loaded::{
    DB, SIZES, check, columns, create, definition, is_there, load_and_compare, open, options, push_all, rows,
    values,
};

/// Inserts rows with values of all lengths between full pages of the load, until their memory is full.
#[test]
fn out_of_order_rows_are_inserted_last_or_rejected() {
    for size in SIZES {
        let disk = SimVfs::new();
        let (instance, db) = create(&disk, size);
        let mut session = instance.session();
        let room = BulkLoadOptions { out_of_order_bytes: 300 << 10, density: Some(100), ..options() };
        let mut load = session.bulk_load(&db, &definition("T"), room).unwrap();
        let columns = columns(|name| load.column(name));
        push_all(&mut load, (0..800).map(|number| number * 2)).unwrap();
        let mut model: BTreeMap<i32, _> =
            (0..800).map(|number| (number * 2, values(columns, number * 2))).collect();
        let mut refused = 0;
        for id in (1..1598).step_by(2) {
            match load.push(&values(columns, id)) {
                Ok(()) => assert!(model.insert(id, values(columns, id)).is_none()),
                Err(Error::OutOfOrder) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let out_of_order = model.len() as u64 - 800;
        assert!(refused > 100 && out_of_order > 200, "{refused} refused, {out_of_order} kept");
        // The load continues after the last row that was in order.
        push_all(&mut load, (800..900).map(|number| number * 2)).unwrap();
        model.extend((800..900).map(|number| (number * 2, values(columns, number * 2))));
        let expected = (model.len() as u64, out_of_order);
        assert_eq!((load.progress().rows, load.progress().out_of_order), expected);
        let done = load.finish().unwrap();
        assert_eq!((done.rows, done.out_of_order), expected);
        assert!(rows(&mut session, &db, "T") == model, "{size:?}");
        drop((session, db));
        // All rows are durable.
        let disk = disk.crash(1, CrashOptions::default());
        let instance = open(&disk, size).unwrap();
        let db = instance.attach(Path::new(DB), 64).unwrap();
        let mut session = instance.session();
        assert!(rows(&mut session, &db, "T") == model, "{size:?}, after a power cut");
        drop((session, db));
        instance.shutdown().unwrap();
        check(&disk);
    }
}

#[test]
fn an_out_of_order_duplicate_aborts_the_load_without_trace() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
    let columns = columns(|name| load.column(name));
    push_all(&mut load, (0..500).map(|number| number * 2)).unwrap();
    for id in [7, 301, 400] {
        load.push(&values(columns, id)).unwrap();
    }
    assert!(matches!(load.finish(), Err(Error::KeyDuplicate)));
    assert!(!is_there(&session, &db, "T"));
    load_and_compare(&mut session, &db, 300);
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}
