//! Sessions that change the same table on several threads.

use std::path::Path;

use ese_engine::{DatabaseOptions, SeekRelation};
use ese_format::PageSize;
use ese_format::record::Value;
use jetcell_vfs::SimVfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tables::{
    AttachedDatabase, DB, TestColumns, check_indexes, contents, definition, in_transaction, open_with,
    random_row,
};

#[test]
fn concurrent_sessions_lose_no_rows() {
    const EACH: i32 = 400;
    let disk = SimVfs::new();
    let instance = open_with(&disk, PageSize::KIB_4, true);
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let mut s = instance.session();
    in_transaction(&mut s, |s| s.create_table(&db, &definition()).unwrap());
    jetcell_sync::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut s, db) = (instance.session(), db.clone());
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(thread as u64);
                let mut table = s.open_table(&db, "Things").unwrap();
                let columns = TestColumns::for_table(&table);
                for n in 0..EACH {
                    let mut values = columns.values(&random_row(&mut rng, PageSize::KIB_4));
                    values.push((columns.id, Value::Long(n * 4 + thread)));
                    in_transaction(&mut s, |s| table.insert(s, &values).unwrap());
                    if n % 3 == 0 {
                        let id = Value::Long(rng.random_range(0..=n) * 4 + thread);
                        let row = random_row(&mut rng, PageSize::KIB_4);
                        assert!(table.seek(&mut s, &[id], SeekRelation::Equal).unwrap());
                        in_transaction(&mut s, |s| table.replace(s, &columns.values(&row)).unwrap());
                    }
                }
            });
        }
    });
    let mut table = s.open_table(&db, "Things").unwrap();
    let columns = TestColumns::for_table(&table);
    let model = contents(&mut table, &mut s, &columns);
    assert!(model.keys().copied().eq(0..4 * EACH));
    check_indexes(&mut table, &mut s, &columns, &model);
    drop((table, s));
    AttachedDatabase { disk, instance, db }.end();
}
