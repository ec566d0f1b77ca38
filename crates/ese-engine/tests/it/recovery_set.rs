//! Tests of the choice between several log files of one generation.

use std::io;
use std::path::{Path, PathBuf};

use ese_engine::internals::log::LogNames;
use ese_engine::{Error, RecoverySet};
use ese_format::header::DatabaseHeader;
use ese_format::log::header::LogHeader;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, FileStem, InjectedFault, SimVfs, Vfs, VfsLayer};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, RowsByKey, SIZE, create_one, open, work};

fn names() -> LogNames {
    LogNames::new(Path::new("/log"), FileStem::E00)
}

fn prepared() -> PathBuf {
    PathBuf::from("/log/E00tmp.log")
}

/// Creates a stream with generations 1 to 5. All except the last one are closed.
fn stream() -> SimVfs {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 1024);
    let db = create_one(&instance, DATABASES[0]);
    let mut session = instance.session();
    let (mut model, mut rng) = (RowsByKey::new(), ChaCha8Rng::seed_from_u64(1));
    while instance.core().log().tail().generation < Generation(5) {
        work(&mut session, &db, &mut model, &mut rng, 20);
        session.rollback().unwrap();
        instance.core().log().roll_over().unwrap();
    }
    drop((session, db));
    drop(instance);
    let disk = disk.process_kill();
    if disk.exists(&prepared()).unwrap() {
        disk.remove(&prepared()).unwrap();
    }
    disk
}

fn find(disk: &SimVfs) -> RecoverySet {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    RecoverySet::find(&vfs, &vfs.list(Path::new("/log")).unwrap()).unwrap()
}

/// Returns the file that the set contains for each generation, from 1 on.
fn files(disk: &SimVfs) -> Vec<PathBuf> {
    let set = find(disk);
    assert!(set.logs.keys().zip(1..).all(|(generation, number)| generation.0 == number), "{:?}", set.logs);
    set.logs.into_values().collect()
}

fn archived(generation: u32) -> PathBuf {
    names().archived(Generation(generation))
}

/// Sets the creation time of a log file to a time that no other log names.
fn change_creation_time(disk: &SimVfs, path: &Path) {
    let mut bytes = disk.contents(path).unwrap();
    let mut header = LogHeader::decode(&bytes[..4096]).unwrap();
    (header.created.0[0], header.previous_created.0[0]) = (header.created.0[0] ^ 1, 77);
    bytes[..4096].copy_from_slice(&header.encode());
    disk.put(path, &bytes);
}

#[test]
fn a_prepared_log_belongs_to_the_stream_another_log_names() {
    let all: Vec<PathBuf> = (1..5).map(archived).chain([names().current()]).collect();
    assert_eq!(files(&stream()), all);
    // A generation that does not have its name yet, and one whose file was going to be reused.
    for at in [4, 1] {
        let disk = stream();
        disk.rename(&all[at], &prepared()).unwrap();
        let mut expected = all.clone();
        expected[at] = prepared();
        assert_eq!(files(&disk), expected);
        assert!(find(&disk).plan(LogPosition::MAX).missing.is_none_or(|_| at != 4));
        change_creation_time(&disk, &prepared());
        let set = find(&disk);
        assert_eq!((set.logs.len(), set.ignored.len()), (4, 1), "{set:?}");
        assert_eq!(set.ignored[0].0, prepared());
    }
}

#[test]
fn a_database_from_another_stream_is_ignored() {
    let disk = stream();
    let (own, other) = (PathBuf::from("/log/own.edb"), PathBuf::from("/log/other.edb"));
    let mut bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    disk.put(&own, &bytes);
    let mut header = DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0;
    header.log_signature.random ^= 1;
    bytes[..SIZE.bytes()].copy_from_slice(&header.encode());
    disk.put(&other, &bytes);
    let set = find(&disk);
    assert_eq!(set.databases.iter().map(|database| &database.path).collect::<Vec<_>>(), [&own]);
    assert_eq!(set.ignored.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&other]);
}

#[test]
fn the_next_log_identifies_the_right_duplicate_log_generation() {
    let disk = stream();
    let whole = disk.contents(&archived(2)).unwrap();
    let mut part = whole.clone();
    part[3 * 4096..].fill(0);
    for (is_archived_whole, right) in [(true, archived(2)), (false, prepared())] {
        let (one, other) = if is_archived_whole { (&whole, &part) } else { (&part, &whole) };
        disk.put(&archived(2), one);
        disk.put(&prepared(), other);
        assert_eq!(files(&disk)[1], right);
        assert_eq!(find(&disk).ignored.len(), 1);
    }
}

/// Simulates another process that renames or removes a file between the listing of a directory and the opening of its
/// files.
struct VanishingVfs {
    disk: SimVfs,
    vanishes: PathBuf,
    renamed: Option<PathBuf>,
}

impl VfsLayer for VanishingVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let listed = self.disk.list(directory)?;
        match &self.renamed {
            Some(to) => self.disk.rename(&self.vanishes, to)?,
            None => self.disk.remove(&self.vanishes)?,
        }
        Ok(listed)
    }
}

fn vanishing(disk: &SimVfs, vanishes: &Path, renamed: Option<&Path>) -> ese_engine::Result<RecoverySet> {
    let (vanishes, renamed) = (vanishes.to_path_buf(), renamed.map(PathBuf::from));
    let vfs: Arc<dyn Vfs> = Arc::new(VanishingVfs { disk: disk.clone_disk(), vanishes, renamed });
    RecoverySet::find(&vfs, &vfs.list(Path::new("/log")).unwrap())
}

#[test]
fn a_file_removed_after_listing_is_treated_as_absent() {
    let disk = stream();
    let all = find(&disk).logs;
    for (name, renamed) in [
        ("/log/copy.json.unfinished", Some("/log/copy.json")),
        ("/log/copy.json.1a2b-0.unfinished", Some("/log/copy.json")),
        ("/log/E00-a1.copy-new", Some("/log/E00-a1.copy")),
        ("/log/E00-a1.wants", None),
        ("/log/old.edb", None),
    ] {
        let name = Path::new(name);
        disk.put(name, &[b' '; 4096]);
        assert_eq!(vanishing(&disk, name, renamed.map(Path::new)).unwrap().logs, all, "{}", name.display());
        disk.remove(name).unwrap();
    }
    // In this case a required log is missing.
    let set = vanishing(&disk, &archived(3), None).unwrap();
    assert_eq!(set.logs.len() + 1, all.len());
    assert_eq!(set.plan(LogPosition::MAX).missing, Some(Generation(3)));
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let faulty = FaultVfs::new(Arc::new(stream()));
    faulty.inject(InjectedFault::new(FaultTarget::Open, FaultEffect::IoError));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty);
    let error = RecoverySet::find(&vfs, &vfs.list(Path::new("/log")).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn unfinished_files_are_not_part_of_a_set() {
    let disk = stream();
    let all = find(&disk).logs;
    let log = disk.contents(&archived(2)).unwrap();
    for ending in ["restoring", "partial", "unfinished"] {
        disk.put(&archived(2).with_extension(format!("log.{ending}")), &log);
    }
    let set = find(&disk);
    assert_eq!((set.logs, set.ignored), (all, vec![]));
}
