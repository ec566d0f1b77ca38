//! Runs many concurrent sessions with background threads: conflicts, snapshots, splits and merges of pages that are
//! being read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ese_check::{CheckOptions, check_database};
use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    ColumnDefinition, CommitMode, DatabaseOptions, Error, IndexDefinition, Instance, InstanceOptions,
    Session, Table, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::merge_counts::MergeCounts;

const SESSIONS: u64 = 8;
const TIME: Duration = Duration::from_secs(10);

struct ConcurrencyFixture {
    vfs: Arc<dyn Vfs>,
    path: std::path::PathBuf,
    instance: Arc<Instance>,
    db: Arc<Database>,
    _directory: tempfile::TempDir,
}

impl ConcurrencyFixture {
    fn new(size: PageSize, pages: usize) -> ConcurrencyFixture {
        ConcurrencyFixture::with_versions(size, pages, 64 << 20)
    }

    fn with_versions(size: PageSize, pages: usize, version_store_bytes: usize) -> ConcurrencyFixture {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
        let cache = Cache::new(CacheOptions::new(pages * size.bytes(), size, vfs.clock()));
        let mut options = InstanceOptions::with_cache(vfs.clone(), directory.path().to_path_buf(), cache);
        // All logs are kept, because the test counts partial merges in them.
        options.log.circular = false;
        options.checkpoint.depth = 2 << 20;
        options.version_store_bytes = version_store_bytes;
        let instance = Instance::open(options).unwrap();
        let path = directory.path().join("many.edb");
        let db = instance.create_database(&path, &DatabaseOptions::default()).unwrap();
        let mut s = instance.session();
        s.begin().unwrap();
        let definition = TableDefinition {
            name: "Accounts".to_string(),
            columns: vec![
                ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
                ColumnDefinition::new("Amount", ColumnType::LongLong),
                ColumnDefinition::new("Body", ColumnType::LongBinary),
            ],
            indexes: vec![
                IndexDefinition::new("ById", &["Id"]).primary(),
                IndexDefinition::new("ByAmount", &["Amount"]),
            ],
            pages: 4,
            ..TableDefinition::default()
        };
        s.create_table(&db, &definition).unwrap();
        s.commit(CommitMode::Durable).unwrap();
        // The scan runs at full speed during the whole test. The file is not damaged, so any finding is wrong.
        instance.start_scan(&db, Duration::ZERO);
        ConcurrencyFixture { vfs, path, instance, db, _directory: directory }
    }

    /// Returns the number of times that a full leaf moved nodes to its neighbours.
    fn end(self) -> u64 {
        let scan = self.db.scan_progress();
        println!("{} passes, {} pages of {} examined again", scan.passes, scan.examined_again, scan.pages);
        assert!(scan.passes > 10 && scan.bad == 0, "{scan:?}");
        drop(self.db);
        self.instance.shutdown().unwrap();
        let report = check_database(&*self.vfs, Path::new(&self.path), &CheckOptions::default()).unwrap();
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.clean && findings.is_empty(), "{findings:#?}");
        MergeCounts::in_logs(self.vfs, self.path.parent().unwrap()).partial
    }
}

struct OpenAttempt {
    table: Table,
    id: ColumnId,
    amount: ColumnId,
    body: ColumnId,
}

fn open(s: &mut Session, db: &Arc<Database>) -> OpenAttempt {
    let table = s.open_table(db, "Accounts").unwrap();
    let [id, amount, body] = ["Id", "Amount", "Body"].map(|name| table.column(name).unwrap());
    OpenAttempt { table, id, amount, body }
}

fn amount(open: &mut OpenAttempt, s: &mut Session) -> i64 {
    match open.table.get(s, open.amount).unwrap() {
        Value::LongLong(amount) => amount,
        other => panic!("{other:?}"),
    }
}

/// Checks that conflicting transfers between a few accounts keep the sum. A transaction that commits has seen the
/// newest committed amounts, and each snapshot has the same sum.
#[test]
fn conflicting_transfers_preserve_the_sum() {
    const ACCOUNTS: i32 = 40;
    let fixture = ConcurrencyFixture::new(PageSize::KIB_4, 64);
    let mut s = fixture.instance.session();
    s.begin().unwrap();
    let mut accounts = open(&mut s, &fixture.db);
    for account in 0..ACCOUNTS {
        let row = [(accounts.id, Value::Long(account)), (accounts.amount, Value::LongLong(1000))];
        accounts.table.insert(&mut s, &row).unwrap();
    }
    s.commit(CommitMode::Durable).unwrap();
    // Committed amount of each account. It is updated together with the commit.
    let last: Mutex<BTreeMap<i32, i64>> = Mutex::new((0..ACCOUNTS).map(|account| (account, 1000)).collect());
    let (commits, conflicts, sums) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let until = Instant::now() + TIME;
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (fixture, last) = (&fixture, &last);
            let (commits, conflicts, sums) = (&commits, &conflicts, &sums);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(number);
                let mut s = fixture.instance.session();
                let mut accounts = open(&mut s, &fixture.db);
                while Instant::now() < until {
                    if rng.random_bool(0.1) {
                        s.begin().unwrap();
                        let mut sum = 0;
                        let mut found = accounts.table.first(&mut s).unwrap();
                        while found {
                            sum += amount(&mut accounts, &mut s);
                            found = accounts.table.next(&mut s).unwrap();
                        }
                        s.commit(CommitMode::Lazy).unwrap();
                        assert_eq!(sum, i64::from(ACCOUNTS) * 1000, "a snapshot saw half a transfer");
                        sums.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let from = rng.random_range(0..ACCOUNTS);
                    let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
                    let moved = rng.random_range(1..50);
                    s.begin().unwrap();
                    let mut transfer = |account: i32, change: i64| {
                        assert!(
                            accounts
                                .table
                                .seek(&mut s, &[Value::Long(account)], SeekRelation::Equal)
                                .unwrap()
                        );
                        let before = amount(&mut accounts, &mut s);
                        let body =
                            Value::Binary(vec![account as u8; (before.unsigned_abs() as usize * 7) % 1500]);
                        let row =
                            [(accounts.amount, Value::LongLong(before + change)), (accounts.body, body)];
                        accounts.table.replace(&mut s, &row).map(|()| (account, before, before + change))
                    };
                    let done = transfer(from, -moved).and_then(|first| Ok([first, transfer(to, moved)?]));
                    match done {
                        Ok(changes) if rng.random_bool(0.9) => {
                            let mut last = last.lock().unwrap();
                            for (account, before, after) in changes {
                                let known = last.insert(account, after);
                                assert_eq!(known, Some(before), "account {account}: an update was lost");
                            }
                            let id = s.commit(CommitMode::Lazy).unwrap();
                            drop(last);
                            if rng.random_bool(0.05) {
                                fixture.instance.flush().unwrap();
                                assert!(fixture.instance.durable() >= id.0);
                            }
                            commits.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(_) => s.rollback().unwrap(),
                        Err(Error::WriteConflict) => {
                            conflicts.fetch_add(1, Ordering::Relaxed);
                            s.rollback().unwrap();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    for (account, expected) in last.into_inner().unwrap() {
        assert!(accounts.table.seek(&mut s, &[Value::Long(account)], SeekRelation::Equal).unwrap());
        assert_eq!(amount(&mut accounts, &mut s), expected);
    }
    println!("{commits:?} transfers, {conflicts:?} conflicts, {sums:?} sums");
    assert!(commits.into_inner() > 100 && conflicts.into_inner() > 0 && sums.into_inner() > 10);
    drop((accounts, s));
    fixture.end();
}

/// Writers fill and empty ranges of keys, each range in one transaction. Readers scan in both directions and must see
/// each range either completely or not at all.
#[test]
fn readers_see_complete_ranges_while_pages_split_and_merge() {
    const RANGE: i32 = 60;
    let fixture = ConcurrencyFixture::new(PageSize::KIB_4, 96);
    let until = Instant::now() + TIME;
    let (changes, walks) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..SESSIONS as i32 {
            let (fixture, changes, walks, failed) = (&fixture, &changes, &walks, &failed);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
                let mut s = fixture.instance.session();
                let mut rows = open(&mut s, &fixture.db);
                let mut full = [false; 8];
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    while Instant::now() < until && !failed.load(Ordering::Relaxed) {
                        s.begin().unwrap();
                        if number < 4 {
                            // The ranges of the writers are interleaved.
                            let which = rng.random_range(0..full.len());
                            for i in 0..RANGE {
                                let key = (which as i32 * 4 + number) * RANGE + i;
                                if full[which] {
                                    let there = rows
                                        .table
                                        .seek(&mut s, &[Value::Long(key)], SeekRelation::Equal)
                                        .unwrap();
                                    assert!(there, "the row {key} of this writer is missing");
                                    rows.table.delete(&mut s).unwrap();
                                } else {
                                    let body = Value::Binary(vec![key as u8; rng.random_range(50..600)]);
                                    let amount = Value::LongLong(i64::from(key % 13));
                                    let row = [
                                        (rows.id, Value::Long(key)),
                                        (rows.amount, amount),
                                        (rows.body, body),
                                    ];
                                    rows.table.insert(&mut s, &row).unwrap();
                                }
                            }
                            if rng.random_bool(0.8) {
                                full[which] = !full[which];
                                s.commit(CommitMode::Lazy).unwrap();
                            } else {
                                s.rollback().unwrap();
                            }
                            changes.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        let forward = number % 2 == 0;
                        let by_amount = rng.random_bool(0.3);
                        rows.table.set_index(by_amount.then_some("ByAmount")).unwrap();
                        let mut seen: BTreeMap<i32, i32> = BTreeMap::new();
                        let mut last: Option<(i64, i32)> = None;
                        let table = &mut rows;
                        let mut found = if forward {
                            table.table.first(&mut s).unwrap()
                        } else {
                            table.table.last(&mut s).unwrap()
                        };
                        while found {
                            let Value::Long(key) = table.table.get(&mut s, table.id).unwrap() else {
                                panic!("no id")
                            };
                            let order = if by_amount { (i64::from(key % 13), key) } else { (0, key) };
                            let rising =
                                last.is_none_or(|last| if forward { last < order } else { last > order });
                            assert!(rising, "{order:?} after {last:?}");
                            last = Some(order);
                            *seen.entry(key / RANGE).or_default() += 1;
                            found = if forward {
                                table.table.next(&mut s).unwrap()
                            } else {
                                table.table.previous(&mut s).unwrap()
                            };
                        }
                        let partial: Vec<_> = seen.iter().filter(|(_, count)| **count != RANGE).collect();
                        assert!(partial.is_empty(), "incomplete ranges: {partial:?}");
                        s.commit(CommitMode::Lazy).unwrap();
                        walks.fetch_add(1, Ordering::Relaxed);
                    }
                }));
                if let Err(panic) = done {
                    failed.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(panic);
                }
            });
        }
    });
    println!("{changes:?} ranges, {walks:?} walks");
    assert!(changes.into_inner() > 50 && walks.into_inner() > 50);
    let shared = fixture.end();
    println!("leaves shared nodes {shared} times");
    assert!(shared > 10, "leaves hardly shared nodes: {shared}");
}

/// Sessions fill the version store many times while other transactions stay open for a short time. The fast sessions
/// wait for the slow sessions, and no session fails. Changes fail only if a transaction never ends.
#[test]
fn changes_wait_for_short_transactions() {
    let fixture = ConcurrencyFixture::with_versions(PageSize::KIB_4, 64, 512 << 10);
    let at_work = AtomicU64::new(SESSIONS);
    std::thread::scope(|scope| {
        for number in 0..SESSIONS as i32 {
            let (fixture, at_work) = (&fixture, &at_work);
            scope.spawn(move || {
                let mut s = fixture.instance.session();
                let mut rows = open(&mut s, &fixture.db);
                let mut change = |round: u32, pause: Duration| -> Result<(), Error> {
                    let row =
                        [(rows.id, Value::Long(number)), (rows.body, Value::Binary(vec![round as u8; 1000]))];
                    s.begin()?;
                    std::thread::sleep(pause);
                    if rows.table.seek(&mut s, &[Value::Long(number)], SeekRelation::Equal)? {
                        rows.table.replace(&mut s, &row[1..])?;
                    } else {
                        rows.table.insert(&mut s, &row)?;
                    }
                    s.commit(CommitMode::Lazy).map(|_| ())
                };
                let outcome = match number {
                    0 | 1 => (0..10).try_for_each(|round| change(round, Duration::from_millis(40))),
                    _ => (0..1500).try_for_each(|round| change(round, Duration::ZERO)),
                };
                at_work.fetch_sub(1, Ordering::Relaxed);
                outcome.unwrap();
            });
        }
    });
    assert_eq!(at_work.into_inner(), 0);
    let [mut long, mut s] = [fixture.instance.session(), fixture.instance.session()];
    let mut rows = open(&mut s, &fixture.db);
    long.begin().unwrap();
    let mut fill = || -> Error {
        loop {
            s.begin().unwrap();
            assert!(rows.table.seek(&mut s, &[Value::Long(3)], SeekRelation::Equal).unwrap());
            let replaced = rows.table.replace(&mut s, &[(rows.body, Value::Binary(vec![1; 1000]))]);
            match replaced {
                Ok(()) => s.commit(CommitMode::Lazy).unwrap(),
                Err(error) => {
                    s.rollback().unwrap();
                    return error;
                }
            };
        }
    };
    assert!(matches!(fill(), Error::VersionStoreFull { .. }));
    let again = Instant::now();
    (0..20).for_each(|_| assert!(matches!(fill(), Error::VersionStoreFull { .. })));
    assert!(
        again.elapsed() < Duration::from_secs(5),
        "each change waits for the transaction that never ends"
    );
    long.commit(CommitMode::Lazy).unwrap();
    drop((rows, s, long));
    fixture.end();
}
