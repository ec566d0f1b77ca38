//! Tests freezes of running instances, and backups by snapshots of them, on the file systems of this machine.
//! Sessions commit during the freeze, and every commit acknowledged before it must be in the snapshot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::*;
use ese_format::record::{ColumnFlags, ColumnType};
use jetcell_backup::{
    BackupOptions, BackupResult, BackupType, RestoreOptions, SnapshotMethod, SnapshotOptions, back_up,
    restore, snapshot, snapshot_stopped, verify,
};
use jetcell_vfs::{RealOptions, RealVfs, SimVfs, Vfs};

const SIZE: PageSize = PageSize::KIB_4;
const THREADS: usize = 3;
/// Number of keys per thread. The keys of a thread start at its number times this value.
const KEYS: i32 = 1_000_000;

fn real() -> Arc<dyn Vfs> {
    Arc::new(RealVfs::new(RealOptions::default()).unwrap())
}

/// Opens an instance. The log may contain database paths in the directory `original`.
fn open(vfs: &Arc<dyn Vfs>, directory: &Path, original: &Path, threads: bool) -> Arc<Instance> {
    vfs.create_directory(directory).unwrap();
    let cache = Cache::new(CacheOptions::new(64 * SIZE.bytes(), SIZE, vfs.clock()));
    if threads {
        cache.start_threads().unwrap();
    }
    let mut options = InstanceOptions::with_cache(vfs.clone(), directory.to_path_buf(), cache);
    options.background = BackgroundThreads::own_if(threads);
    if directory != original {
        options.recovery.database_paths.rename(&original.to_string_lossy(), directory);
    }
    options.log.file_size = 64 << 10;
    options.checkpoint.depth = 256 << 10;
    Instance::open(options).unwrap()
}

fn create(instance: &Arc<Instance>, directory: &Path) -> Arc<Database> {
    let sizes = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let database = instance.create_database(&directory.join("data.edb"), &sizes).unwrap();
    let mut session = instance.session();
    session.begin().unwrap();
    let definition = TableDefinition {
        name: "Rows".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        pages: 4,
        ..TableDefinition::default()
    };
    session.create_table(&database, &definition).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    database
}

fn insert(session: &mut Session, database: &Arc<Database>, key: i32) -> Result<()> {
    session.begin()?;
    let mut table = session.open_table(database, "Rows")?;
    let (id, body) = (table.column("Id").unwrap(), table.column("Body").unwrap());
    let bytes = vec![key as u8; 100 + key as usize % 700];
    table.insert(session, &[(id, Value::Long(key)), (body, Value::Binary(bytes))])?;
    session.commit(CommitMode::Durable).map(|_| ())
}

/// An instance under load. Each thread inserts its keys in order.
struct LoadedInstance {
    instance: Arc<Instance>,
    directory: PathBuf,
    /// Number of acknowledged keys per thread.
    acknowledged: [AtomicI32; THREADS],
    stop: AtomicBool,
}

impl LoadedInstance {
    /// Runs `work` while the threads insert keys.
    fn run(directory: &Path, work: impl FnOnce(&LoadedInstance)) {
        let instance = open(&real(), directory, directory, true);
        let database = create(&instance, directory);
        let (acknowledged, stop) = (Default::default(), AtomicBool::new(false));
        let load = LoadedInstance {
            instance: instance.clone(),
            directory: directory.to_path_buf(),
            acknowledged,
            stop,
        };
        std::thread::scope(|scope| {
            for (number, acknowledged) in load.acknowledged.iter().enumerate() {
                let (load, database) = (&load, &database);
                scope.spawn(move || {
                    let mut session = load.instance.session();
                    for key in 0.. {
                        if load.stop.load(Ordering::Relaxed) {
                            return;
                        }
                        insert(&mut session, database, number as i32 * KEYS + key).unwrap();
                        acknowledged.store(key + 1, Ordering::SeqCst);
                    }
                });
            }
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&load)));
            load.stop.store(true, Ordering::Relaxed);
            worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        drop((load, database));
        instance.shutdown().unwrap();
    }

    fn acknowledged(&self) -> [i32; THREADS] {
        std::array::from_fn(|number| self.acknowledged[number].load(Ordering::SeqCst))
    }

    /// Waits until each thread has committed `more` further keys.
    fn wait(&self, more: i32) {
        let before = self.acknowledged();
        let end = Instant::now() + Duration::from_secs(30);
        while self.acknowledged().iter().zip(before).any(|(now, before)| *now < before + more) {
            assert!(Instant::now() < end, "the load does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn snapshot(
        &self,
        to: &Path,
        made_by: &SnapshotOptions,
        kind: BackupType,
    ) -> jetcell_backup::Result<BackupResult> {
        let options = BackupOptions { kind, ..BackupOptions::default() };
        snapshot(&self.instance, &real(), to, made_by, &options)
    }
}

/// Opens an instance on a directory, which recovers it. Returns the number of keys per thread, and asserts that the
/// keys have no gaps.
fn keys_in(vfs: &Arc<dyn Vfs>, directory: &Path, original: &Path) -> [i32; THREADS] {
    let instance = open(vfs, directory, original, false);
    let database = instance.attach(&directory.join("data.edb"), 32).unwrap();
    let mut session = instance.session();
    let mut table = session.open_table(&database, "Rows").unwrap();
    let (id, body) = (table.column("Id").unwrap(), table.column("Body").unwrap());
    let mut counts = [0; THREADS];
    let mut found = table.first(&mut session).unwrap();
    while found {
        let Value::Long(key) = table.get(&mut session, id).unwrap() else { panic!("no id") };
        let Value::Binary(bytes) = table.get(&mut session, body).unwrap() else { panic!("no body") };
        assert!(bytes.len() == 100 + key as usize % 700 && bytes.iter().all(|byte| *byte == key as u8));
        let count = &mut counts[(key / KEYS) as usize];
        assert_eq!(key % KEYS, *count, "a key is missing");
        *count += 1;
        found = table.next(&mut session).unwrap();
    }
    drop((table, session, database));
    instance.shutdown().unwrap();
    counts
}

fn at_least(found: [i32; THREADS], expected: [i32; THREADS]) {
    assert!(found.iter().zip(expected).all(|(found, least)| *found >= least), "{found:?} of {expected:?}");
}

/// Returns the names and contents of all files in a directory.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (path, bytes) in content(from) {
        std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

fn temporary_directory() -> tempfile::TempDir {
    // The system's temporary directory may be on tmpfs.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn by_command(text: &str) -> SnapshotOptions {
    SnapshotOptions::new(SnapshotMethod::Command(text.to_string()))
}

#[test]
fn a_frozen_instance_changes_no_file_and_keeps_acknowledged_commits() {
    let place = temporary_directory();
    LoadedInstance::run(&place.path().join("app"), |load| {
        for round in 0..4 {
            load.wait(10);
            let freeze = load.instance.freeze(Freeze::DEFAULT_LIMIT).unwrap();
            let before = content(&load.directory);
            let has = |name: String| before.contains_key(&load.directory.join(name));
            assert!(!has("E00.log".into()) && has("E00tmp.log".into()), "{:?}", before.keys());
            assert!(has(format!("E00{:08X}.log", freeze.generation().0)));
            std::thread::sleep(Duration::from_millis(100));
            // Other files of the file system are not frozen.
            let other = load.directory.join("other");
            std::fs::write(&other, "not of the instance").unwrap();
            std::fs::remove_file(&other).unwrap();
            let acknowledged = load.acknowledged();
            assert!(content(&load.directory) == before, "a file changed");
            let target = place.path().join(format!("copy{round}"));
            copy(&load.directory, &target);
            freeze.thaw().unwrap();
            at_least(keys_in(&real(), &target, &load.directory), acknowledged);
        }
        load.wait(10);
    });
}

#[test]
fn a_freeze_times_out_and_is_reported() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
    let directory = Path::new("/app");
    let instance = open(&vfs, directory, directory, false);
    let database = create(&instance, directory);
    let mut session = instance.session();
    insert(&mut session, &database, 0).unwrap();
    let freeze = instance.freeze(Duration::from_secs(20)).unwrap();
    assert!(instance.freeze(Duration::from_secs(1)).is_err_and(|error| error.jet_code() == -505));
    assert!(instance.begin_backup(BackupKind::Copy).is_err());
    assert!(instance.shutdown().is_err(), "a frozen instance was shut down");
    assert_eq!(freeze.remaining(), Some(Duration::from_secs(20)));
    // The commit waits, which advances the simulated clock, and then completes.
    insert(&mut session, &database, 1).unwrap();
    assert_eq!(freeze.remaining(), None);
    let error = freeze.thaw().unwrap_err();
    assert_eq!(error.jet_code(), -2402, "{error}");
    // Dropping a freeze also ends it.
    drop(instance.freeze(Duration::from_secs(20)).unwrap());
    let freeze = instance.freeze(Duration::from_secs(20)).unwrap();
    freeze.thaw().unwrap();
    insert(&mut session, &database, 2).unwrap();
    drop((session, database));
    instance.shutdown().unwrap();
    drop(instance);
    assert_eq!(keys_in(&vfs, directory, directory), [3, 0, 0]);
}

#[test]
fn a_snapshot_backup_can_be_continued_incrementally() {
    let place = temporary_directory();
    let path = |name: &str| place.path().join(name);
    LoadedInstance::run(&path("app"), |load| {
        load.wait(30);
        let before = load.acknowledged();
        let copies = by_command(r#"cp -a "$JETCELL_SOURCE" "$JETCELL_SNAPSHOT""#);
        let made = load.snapshot(&path("full"), &copies, BackupType::Full).unwrap();
        assert!(made.manifest.databases[0].usable && made.manifest.databases[0].pages.read > 200);
        let verified = verify(&real(), &path("full"), &Default::default()).unwrap();
        assert!(
            verified.problems.is_empty() && verified.bytes == verified.total_bytes,
            "{:?}",
            verified.problems
        );
        // The copy can be recovered in place and can be restored.
        copy(&path("full"), &path("recovered"));
        let recovered = keys_in(&real(), &path("recovered"), &path("app"));
        at_least(recovered, before);
        let options = RestoreOptions::default();
        restore(&real(), &[path("full")], &path("restored"), &options).unwrap();
        assert_eq!(keys_in(&real(), &path("restored"), &path("app")), recovered);
        load.wait(30);
        let later = load.acknowledged();
        let incremental = BackupOptions {
            kind: BackupType::Incremental,
            parent: Some(path("full")),
            ..BackupOptions::default()
        };
        back_up(&load.instance, &real(), &path("next"), &incremental).unwrap();
        restore(&real(), &[path("full"), path("next")], &path("both"), &options).unwrap();
        at_least(keys_in(&real(), &path("both"), &path("app")), later);
    });
}

#[test]
fn a_failed_snapshot_leaves_no_backup_and_the_instance_continues() {
    let place = temporary_directory();
    let to = place.path().join("to");
    LoadedInstance::run(&place.path().join("app"), |load| {
        let refused = |made_by: &SnapshotOptions, expected: &str| {
            let error = load.snapshot(&to, made_by, BackupType::Full).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains('\n'), "{text}");
            assert!(!to.join("manifest.json").exists());
            load.wait(2);
            error.jet_error().map(|(code, _)| code)
        };
        refused(&by_command("echo first >&2; echo no space >&2; exit 3"), "exit status: 3: no space");
        refused(&by_command("true"), "does not contain this file");
        refused(&by_command(r#"mkdir "$JETCELL_SNAPSHOT""#), "does not contain this file");
        std::fs::remove_dir(&to).unwrap();
        let began = Instant::now();
        let slow = SnapshotOptions { limit: Duration::from_millis(300), ..by_command("sleep 60; true") };
        assert_eq!(refused(&slow, "frozen for more than 0.3 s"), Some(-2402));
        assert!(began.elapsed() < Duration::from_secs(20), "the command was not ended");
        refused(
            &by_command(r#"cp -a "$JETCELL_SOURCE" "$JETCELL_SNAPSHOT"; rm "$JETCELL_SNAPSHOT"/data.edb"#),
            "data.edb",
        );
        assert!(!to.join("data.edb").exists());
        refused(&SnapshotOptions::new(SnapshotMethod::Reflink), "not empty");
        refused(&SnapshotOptions::new(SnapshotMethod::Btrfs), "the path already exists");
        std::fs::remove_dir_all(&to).unwrap();
        let inside = load.directory.join("inside");
        let error = load
            .snapshot(&inside, &SnapshotOptions::new(SnapshotMethod::Reflink), BackupType::Copy)
            .unwrap_err();
        assert!(error.to_string().contains("inside") && !inside.exists(), "{error}");
        let incremental =
            load.snapshot(&to, &SnapshotOptions::new(SnapshotMethod::Reflink), BackupType::Incremental);
        assert!(incremental.is_err() && !to.exists());
        // This path is for file systems without reflinks. File systems with reflinks are tested below.
        if let Err(error) =
            load.snapshot(&to, &SnapshotOptions::new(SnapshotMethod::Reflink), BackupType::Copy)
        {
            assert!(error.to_string().contains("cannot share blocks"), "{error}");
            assert_eq!(std::fs::read_dir(&to).map_or(0, Iterator::count), 0);
        }
        load.wait(10);
    });
}

/// A file system in an image file.
struct ImageVolume {
    place: tempfile::TempDir,
}

impl ImageVolume {
    /// Creates and mounts the file system. Returns `None` if this process may not mount, or if there is no program to
    /// make this file system.
    fn new(kind: &str) -> Option<ImageVolume> {
        let volume = ImageVolume { place: temporary_directory() };
        let image = volume.place.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        std::fs::create_dir(volume.root()).unwrap();
        let run = |command: &mut Command| {
            command.output().ok().filter(|output| output.status.success()).map(|_| ())
        };
        let done = run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))
            .and_then(|()| run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(volume.root())));
        if done.is_none() {
            skip(TestRequirement::Tools, format!("{kind} needs root, loop devices and mkfs.{kind}"));
        }
        done.map(|()| volume)
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("mounted")
    }
}

impl Drop for ImageVolume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).output();
    }
}

/// Takes a snapshot under load, and a snapshot of the stopped instance.
fn snapshots_on(volume: &ImageVolume, method: &SnapshotMethod) {
    let path = |name: &str| volume.root().join(name);
    if *method == SnapshotMethod::Btrfs {
        let created = Command::new("btrfs").args(["subvolume", "create"]).arg(path("app")).output().unwrap();
        assert!(created.status.success());
    }
    let made_by = SnapshotOptions::new(method.clone());
    LoadedInstance::run(&path("app"), |load| {
        load.wait(20);
        let before = load.acknowledged();
        let made = load.snapshot(&path("live"), &made_by, BackupType::Full).unwrap();
        assert!(made.manifest.databases[0].usable);
        assert!(verify(&real(), &path("live"), &Default::default()).unwrap().problems.is_empty());
        restore(&real(), &[path("live")], &path("restored"), &RestoreOptions::default()).unwrap();
        at_least(keys_in(&real(), &path("restored"), &path("app")), before);
        load.wait(5);
    });
    let content_before = content(&path("app"));
    let files: Vec<PathBuf> = content_before.keys().cloned().collect();
    let options = BackupOptions { kind: BackupType::Copy, ..BackupOptions::default() };
    snapshot_stopped(&real(), &files, &path("stopped"), &made_by, &options).unwrap();
    if *method == SnapshotMethod::Reflink {
        let elsewhere = temporary_directory();
        let error =
            snapshot_stopped(&real(), &files, &elsewhere.path().join("x"), &made_by, &options).unwrap_err();
        assert!(error.to_string().contains("share blocks"), "{error}");
    }
    assert!(content(&path("app")) == content_before, "the source changed");
    copy(&path("stopped"), &path("copied"));
    let stopped = keys_in(&real(), &path("copied"), &path("app"));
    // This opens the source, which may then have more logs than `files` contains.
    assert_eq!(stopped, keys_in(&real(), &path("app"), &path("app")));
}

#[test]
fn files_share_their_blocks_on_xfs() {
    let Some(volume) = ImageVolume::new("xfs") else { return };
    snapshots_on(&volume, &SnapshotMethod::Reflink);
}

#[test]
fn files_share_their_blocks_on_btrfs_and_subvolumes_are_snapshots() {
    let Some(volume) = ImageVolume::new("btrfs") else { return };
    LoadedInstance::run(&volume.root().join("plain"), |load| {
        let to = volume.root().join("x");
        let error =
            load.snapshot(&to, &SnapshotOptions::new(SnapshotMethod::Btrfs), BackupType::Copy).unwrap_err();
        assert!(error.to_string().contains("btrfs subvolume snapshot") && !to.exists(), "{error}");
    });
    snapshots_on(&volume, &SnapshotMethod::Btrfs);
    drop(volume);
    let Some(volume) = ImageVolume::new("btrfs") else { return };
    snapshots_on(&volume, &SnapshotMethod::Reflink);
}
