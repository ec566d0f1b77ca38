//! Freed pages are reused: deleting most of a database and inserting again does not grow the file.

use std::path::Path;
use std::sync::Arc;

use ese_check::{CheckOptions, check_database};
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, IndexDefinition, Instance,
    InstanceOptions, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnType, Value};
use jetcell_vfs::{SimVfs, Vfs};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DB: &str = "/db/space.edb";

fn cycles(size: PageSize, random: bool, long: bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(size.bytes() as u64);
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new((4 << 20).max(64 * size.bytes()), size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    options.log.circular = true;
    options.checkpoint.depth = 4 << 20;
    let instance = Instance::open(options).unwrap();
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 64 };
    let db = instance.create_database(Path::new(DB), &create).unwrap();
    let mut s = instance.session();
    s.begin().unwrap();
    let definition = TableDefinition {
        name: "Things".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
            ColumnDefinition::new("Group", ColumnType::Long),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition::new("ByGroup", &["Group"]),
        ],
        pages: 4,
        ..TableDefinition::default()
    };
    s.create_table(&db, &definition).unwrap();
    s.commit(CommitMode::Durable).unwrap();
    let mut table = s.open_table(&db, "Things").unwrap();
    let [id, group, body] = ["Id", "Group", "Body"].map(|name| table.column(name).unwrap());

    let rows = if long { 150 } else { 6000 };
    let mut present: Vec<i32> = Vec::new();
    let mut sizes = Vec::new();
    for cycle in 0..6 {
        let base = cycle * 100_000;
        let mut keys: Vec<i32> = (base..base + rows - present.len() as i32).collect();
        if random {
            keys.iter_mut().for_each(|key| *key = key.wrapping_mul(40_503) & 0x7fff_ffff);
            keys.shuffle(&mut rng);
        }
        for batch in keys.chunks(50) {
            s.begin().unwrap();
            for key in batch {
                let len = if long { 3 * size.bytes() } else { rng.random_range(100..400) };
                let value = Value::Binary(vec![*key as u8; len]);
                let row = [(id, Value::Long(*key)), (group, Value::Long(key % 97)), (body, value)];
                table.insert(&mut s, &row).unwrap();
            }
            s.commit(CommitMode::Lazy).unwrap();
            instance.step().unwrap();
        }
        present.extend(keys);
        sizes.push(disk.contents(Path::new(DB)).unwrap().len());
        let delete = present.len() / 10 * 9;
        if random {
            present.shuffle(&mut rng);
        }
        for batch in present.drain(..delete).collect::<Vec<_>>().chunks(50) {
            s.begin().unwrap();
            for key in batch {
                assert!(table.seek(&mut s, &[Value::Long(*key)], SeekRelation::Equal).unwrap());
                table.delete(&mut s).unwrap();
            }
            s.commit(CommitMode::Lazy).unwrap();
            instance.step().unwrap();
        }
    }
    drop((table, s, db));
    instance.shutdown().unwrap();
    // The space after the second fill must be sufficient for all later fills. Remaining rows are scattered, which
    // costs some space.
    let growth = sizes[5].saturating_sub(sizes[1]);
    let allowed = if random { sizes[1] / 20 } else { 0 }.max(64 * size.bytes());
    assert!(growth <= allowed, "{size:?}, random {random}, long {long}: {sizes:?}");
    let report = check_database(&disk, Path::new(DB), &CheckOptions::default()).unwrap();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
    println!("{size:?}, random {random}, long {long}: {sizes:?}");
}

#[test]
fn small_pages_are_reused() {
    cycles(PageSize::KIB_4, false, false);
    cycles(PageSize::KIB_4, true, false);
}

#[test]
fn large_pages_are_reused() {
    cycles(PageSize::KIB_32, false, false);
    cycles(PageSize::KIB_32, true, false);
}

#[test]
fn pages_of_long_values_are_reused() {
    for size in [PageSize::KIB_4, PageSize::KIB_32] {
        cycles(size, false, true);
        cycles(size, true, true);
    }
}
