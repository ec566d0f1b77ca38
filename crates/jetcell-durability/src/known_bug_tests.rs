//! Known file system bugs. Each test reproduces the state that a bug left after a cut, and the verifier must detect
//! it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, IoReason, OpenMode, SimVfs, Vfs};

use super::operation::StorageOperation;
use super::script::OperationScript;
use super::*;

const DIRECTORY: &str = "/tested";
/// Number of seeds that the tests search for a pattern, with [`OPERATIONS`] operations per seed.
const SEEDS: u64 = 60;
const OPERATIONS: usize = 2500;

/// Returns a disk that performed every operation, and the journal of its writer. The writer stopped right after the
/// first operations that match `follow`.
fn worked_until(
    follow: impl Fn(&[StorageOperation]) -> Option<PathBuf>,
    length: usize,
) -> (SimVfs, Journal, PathBuf) {
    for seed in 0..SEEDS {
        let begin = DurabilityJournalHeader::new(seed, FailureLevel::Power, false, DIRECTORY.into());
        let operations: Vec<StorageOperation> = OperationScript::new(&begin).take(OPERATIONS).collect();
        let found = operations.windows(length).enumerate();
        let Some((at, path)) = found.filter_map(|(at, window)| Some((at, follow(window)?))).next() else {
            continue;
        };
        let disk = SimVfs::new();
        let mut witness = MemoryWitness::default();
        let storage = TestedStorage::with_single_path(Arc::new(disk.clone()));
        let until = (at + length) as u64;
        write(&storage, Path::new(DIRECTORY), &begin, &mut witness, &mut |at| at.0 < until).unwrap();
        let journal = witness.journal().unwrap();
        assert_eq!(journal.last, OperationNumber(until));
        assert!(verify(&disk, Path::new(DIRECTORY), &journal).unwrap().is_passed());
        return (disk.process_kill(), journal, Path::new(DIRECTORY).join(path));
    }
    panic!("no seed has these operations");
}

/// Returns the only finding's operation kind, damage, file name, and description.
fn finding(disk: &SimVfs, journal: &Journal) -> (StorageOperationKind, OperationDamage, String, String) {
    let found = verify(disk, Path::new(DIRECTORY), journal).unwrap();
    let [one] = &found.findings[..] else { panic!("{:?}", found.findings) };
    let name = one.path.file_name().unwrap().to_string_lossy().into_owned();
    (one.kind, one.damage, name, one.found.clone())
}

fn is(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|found| found == name)
        && path.parent().is_some_and(|parent| !parent.ends_with("other"))
}

#[test]
fn a_renamed_file_lost_on_name_reuse_is_reported() {
    let follow = |window: &[StorageOperation]| match window {
        [
            StorageOperation::Rename { from, to },
            StorageOperation::Create { path },
            StorageOperation::Write { .. },
            StorageOperation::SyncFile { path: synced },
        ] if is(from, "a") && is(to, "c") && from == path && path == synced => Some(to.clone()),
        _ => None,
    };
    let (disk, journal, new_name) = worked_until(follow, 4);
    disk.remove(&new_name).unwrap();
    let (kind, _, name, found) = finding(&disk, &journal);
    assert_eq!(
        (kind, &*name, &*found),
        (StorageOperationKind::Create, "a", "the file does not have any of its names")
    );
    // The opposite outcome is allowed: neither the rename nor the new file reached the disk.
    let (disk, journal, new_name) = worked_until(follow, 4);
    disk.rename(&new_name, &new_name.with_file_name("a")).unwrap();
    assert!(verify(&disk, Path::new(DIRECTORY), &journal).unwrap().is_passed());
}

#[test]
fn a_lost_append_after_a_rename_is_reported() {
    let follow = |window: &[StorageOperation]| match window {
        [
            StorageOperation::Rename { to, .. },
            StorageOperation::Write { path, kind: StorageOperationKind::Append, .. },
            StorageOperation::SyncFile { path: synced },
        ] if to == path && path == synced => Some(to.clone()),
        _ => None,
    };
    let (disk, journal, path) = worked_until(follow, 3);
    let file = disk.open(&path, OpenMode::Write).unwrap();
    file.truncate(file.len().unwrap() - 2 * 4096).unwrap();
    let (kind, damage, ..) = finding(&disk, &journal);
    assert_eq!((kind, damage), (StorageOperationKind::Append, OperationDamage::Lost));
}

#[test]
fn a_link_lost_with_the_removed_source_is_reported() {
    let follow = |window: &[StorageOperation]| match window {
        [
            StorageOperation::Link { to, from },
            StorageOperation::SyncDirectory { path },
            StorageOperation::Unlink { path: gone },
            StorageOperation::SyncDirectory { path: again },
        ] if from == gone && path == again && is(to, "c") => Some(to.clone()),
        _ => None,
    };
    let (disk, journal, link) = worked_until(follow, 4);
    disk.remove(&link).unwrap();
    let (kind, _, name, found) = finding(&disk, &journal);
    assert_eq!((kind, &*name, &*found), (StorageOperationKind::Link, "c", "the name does not exist"));
}

#[test]
fn wrong_content_in_a_recreated_file_is_reported() {
    let follow = |window: &[StorageOperation]| match window {
        [
            StorageOperation::Unlink { path },
            StorageOperation::Create { path: created },
            StorageOperation::Write { .. },
            StorageOperation::SyncFile { .. },
            StorageOperation::SyncDirectory { .. },
        ] if path == created && is(path, "a") => Some(path.clone()),
        _ => None,
    };
    let (disk, journal, path) = worked_until(follow, 5);
    let other = disk.contents(&path.with_file_name("b")).unwrap();
    disk.put(&path, &other);
    let (kind, _, name, found) = finding(&disk, &journal);
    assert_eq!((kind, &*name, &*found), (StorageOperationKind::Create, "a", "another file has the name"));
}

#[test]
fn a_file_replaced_twice_has_the_last_content() {
    let follow = |window: &[StorageOperation]| match window {
        [
            StorageOperation::Rename { to, .. },
            StorageOperation::Rename { from, to: again },
            StorageOperation::SyncDirectory { .. },
        ] if to == again && is(to, "b") && is(from, "d") => Some(to.clone()),
        _ => None,
    };
    let (disk, journal, path) = worked_until(follow, 3);
    let size = disk.contents(&path).unwrap().len();
    let file = disk.open(&path, OpenMode::Write).unwrap();
    file.write_at(0, &vec![0; size], IoReason::Other).unwrap();
    let (kind, _, name, _) = finding(&disk, &journal);
    assert_eq!((kind, &*name), (StorageOperationKind::Append, "b"));
}

#[test]
fn a_disk_that_loses_buffered_writes_fails_for_those_only() {
    for seed in 0..5 {
        let disk = SimVfs::new();
        let buffered = FaultVfs::new(Arc::new(disk.clone()));
        buffered.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::Lost).repeating());
        let storage = TestedStorage { direct: Arc::new(disk.clone()), buffered: Arc::new(buffered) };
        let begin = DurabilityJournalHeader::new(seed, FailureLevel::Power, false, DIRECTORY.into());
        let mut witness = MemoryWitness::default();
        write(&storage, Path::new(DIRECTORY), &begin, &mut witness, &mut |at| at.0 < 1500).unwrap();
        let found = verify(&disk, Path::new(DIRECTORY), &witness.journal().unwrap()).unwrap();
        let buffered: Vec<u64> = (1..)
            .zip(OperationScript::new(&begin).take(1500))
            .filter(|(_, operation)| matches!(operation, StorageOperation::Write { buffered: true, .. }))
            .map(|(number, _)| number)
            .collect();
        assert!(!found.is_passed());
        assert!(
            found.findings.iter().all(|finding| buffered.contains(&finding.operation.0)),
            "seed {seed}: {:?}",
            found.findings
        );
    }
}
