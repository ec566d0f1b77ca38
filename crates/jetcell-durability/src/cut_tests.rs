//! Runs hundreds of power cuts on simulated disks, some honest and some lying. The verdict must be correct for each
//! cut.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jetcell_vfs::{CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};

use super::*;

const DIRECTORY: &str = "/tested";

/// Operation that a disk acknowledges but does not perform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FalseAcknowledgment {
    /// File syncs.
    FileSyncs,
    /// Directory syncs.
    DirectorySyncs,
    /// Syncs for files whose path contains this text.
    SyncsOf(&'static str),
}

impl FalseAcknowledgment {
    fn fault(self) -> InjectedFault {
        let unsynced = |target| InjectedFault::new(target, FaultEffect::Lost).repeating();
        match self {
            FalseAcknowledgment::FileSyncs => unsynced(FaultTarget::Sync),
            FalseAcknowledgment::DirectorySyncs => unsynced(FaultTarget::SyncDirectory),
            FalseAcknowledgment::SyncsOf(part) => unsynced(FaultTarget::Sync).on_path(part),
        }
    }

    /// Wraps a disk in a layer that tells this lie.
    fn on(self, disk: &SimVfs) -> Arc<dyn Vfs> {
        let liar = FaultVfs::new(Arc::new(disk.clone()));
        liar.inject(self.fault());
        Arc::new(liar)
    }
}

/// Runs a writer on a disk until it has completed `operations` operations or the power is cut.
fn run_writer(
    vfs: Arc<dyn Vfs>,
    level: FailureLevel,
    seed: u64,
    transactions: bool,
    operations: u64,
) -> MemoryWitness {
    let begin = DurabilityJournalHeader::new(seed, level, transactions, DIRECTORY.into());
    let mut witness = MemoryWitness::default();
    let storage = TestedStorage::with_single_path(vfs);
    write(&storage, Path::new(DIRECTORY), &begin, &mut witness, &mut |at| at.0 < operations).unwrap();
    witness
}

fn verdict(disk: &SimVfs, witness: &MemoryWitness) -> DurabilityVerification {
    let found = verify(disk, Path::new(DIRECTORY), &witness.journal().unwrap()).unwrap();
    assert!(!found.evidence.jetcell_version.is_empty() && !found.evidence.command.is_empty());
    found
}

/// Returns the number of disk operations needed to prepare a test. Power must not be cut before then.
fn prepared(transactions: bool) -> u64 {
    let disk = SimVfs::new();
    run_writer(Arc::new(disk.clone()), FailureLevel::Power, 0, transactions, 0);
    disk.operations()
}

/// Cuts the power of an honest disk after `after` disk operations.
fn cut(seed: u64, after: u64, transactions: bool) -> (SimVfs, MemoryWitness) {
    let disk = SimVfs::new();
    disk.cut_power_after(after);
    let witness = run_writer(Arc::new(disk.clone()), FailureLevel::Power, seed, transactions, u64::MAX);
    (disk.crash(seed, CrashOptions::default()), witness)
}

#[test]
fn an_honest_disk_passes_after_each_of_300_power_cuts() {
    let first = prepared(false);
    let mut undecided = 0;
    for seed in 0..300 {
        let (after, witness) = cut(seed, first + 1 + seed * 7, false);
        let found = verdict(&after, &witness);
        assert!(
            found.is_passed() && !found.ended && found.failed.is_some(),
            "seed {seed}: {:?}",
            found.findings
        );
        undecided += found.kinds.iter().map(|tally| tally.undecided).sum::<u64>();
    }
    assert!(undecided > 300, "the cuts must hit unsynced operations: {undecided}");
}

#[test]
fn transactions_on_an_honest_disk_survive_power_cuts() {
    let first = prepared(true);
    for seed in 0..30 {
        let (after, witness) = cut(seed, first + 1 + seed * 31, true);
        let found = verdict(&after, &witness);
        assert!(found.is_passed(), "seed {seed}: {:?}", found.findings);
    }
}

#[test]
fn a_lying_disk_fails_after_each_of_200_power_cuts() {
    for seed in 0..200 {
        let lie = [
            FalseAcknowledgment::FileSyncs,
            FalseAcknowledgment::DirectorySyncs,
            FalseAcknowledgment::SyncsOf("log/"),
            FalseAcknowledgment::SyncsOf("trials/"),
        ][seed as usize % 4];
        let disk = SimVfs::new();
        let witness = run_writer(lie.on(&disk), FailureLevel::Power, seed, false, 400 + seed * 5);
        // Use high loss probabilities, because otherwise a lying disk might retain everything by chance.
        let lose_length = if lie == FalseAcknowledgment::SyncsOf("log/") { 1.0 } else { 0.3 };
        let unlucky = CrashOptions { all_or_nothing: 0.0, lose_length, ..CrashOptions::default() };
        let found = verdict(&disk.crash(seed, unlucky), &witness);
        assert!(!found.is_passed(), "seed {seed}, {lie:?}");
        let only_in = |part: &str| found.findings.iter().all(|finding| finding.path.starts_with(part));
        match lie {
            FalseAcknowledgment::SyncsOf(part) => assert!(only_in(part), "{lie:?}: {:?}", found.findings),
            FalseAcknowledgment::DirectorySyncs => {
                // Every file that has a name also has its complete content, so all findings are about names.
                let of_names = |kind| {
                    matches!(
                        kind,
                        StorageOperationKind::Create
                            | StorageOperationKind::Rename
                            | StorageOperationKind::Link
                            | StorageOperationKind::Unlink
                    )
                };
                assert!(found.findings.iter().all(|finding| of_names(finding.kind)), "{:?}", found.findings);
            }
            FalseAcknowledgment::FileSyncs => {}
        }
        let first = found.findings.iter().map(|finding| finding.operation).min();
        assert_eq!(found.first_missing, first);
        assert!(first <= Some(found.last_acknowledged));
    }
}

#[test]
fn every_operation_kind_and_damage_kind_occurs() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let lie = [FalseAcknowledgment::FileSyncs, FalseAcknowledgment::DirectorySyncs][seed as usize % 2];
        let disk = SimVfs::new();
        let witness = run_writer(lie.on(&disk), FailureLevel::Power, seed, false, 3000);
        let found = verdict(&disk.crash(seed, CrashOptions::default()), &witness);
        seen.extend(found.findings.iter().map(|finding| (finding.kind, finding.damage)));
    }
    for kind in StorageOperationKind::ALL {
        let lost = seen.contains(&(kind, OperationDamage::Lost))
            || seen.contains(&(kind, OperationDamage::Reordered));
        assert!(lost || kind == StorageOperationKind::Transaction, "{kind:?}: {seen:?}");
    }
    for kind in [StorageOperationKind::Append, StorageOperationKind::Overwrite] {
        assert!(seen.contains(&(kind, OperationDamage::Torn)), "{kind:?}: {seen:?}");
    }
}

#[test]
fn transactions_are_lost_if_the_disk_ignores_log_syncs() {
    for seed in 0..20 {
        let disk = SimVfs::new();
        let liar = FalseAcknowledgment::SyncsOf("engine/E00").on(&disk);
        let witness = run_writer(liar, FailureLevel::Power, seed, true, 2000);
        let everything =
            CrashOptions { lose_write: 1.0, tear_write: 0.0, all_or_nothing: 0.0, ..CrashOptions::default() };
        let found = verdict(&disk.crash(seed, everything), &witness);
        assert!(
            found.findings.iter().any(|finding| finding.kind == StorageOperationKind::Transaction),
            "seed {seed}"
        );
        assert!(
            found.findings.iter().all(|finding| finding.kind == StorageOperationKind::Transaction),
            "seed {seed}"
        );
    }
}

#[test]
fn one_lost_acknowledged_write_is_named() {
    for seed in 0..20 {
        let disk = SimVfs::new();
        let begin = DurabilityJournalHeader::new(seed, FailureLevel::Power, false, DIRECTORY.into());
        let storage = TestedStorage::with_single_path(Arc::new(disk.clone()));
        let mut witness = MemoryWitness::default();
        // Each log block is written only once, so the loss stays visible until the log file is replaced.
        let lose = &mut |at: OperationNumber| {
            if at.0 == 200 {
                disk.lose_writes("log/", 1);
            }
            at.0 < 250
        };
        write(&storage, Path::new(DIRECTORY), &begin, &mut witness, lose).unwrap();
        let found = verdict(&disk.crash(seed, CrashOptions::default()), &witness);
        let [finding] = &found.findings[..] else { panic!("seed {seed}: {:?}", found.findings) };
        assert_eq!(
            (finding.kind, finding.damage),
            (StorageOperationKind::LogWrite, OperationDamage::Reordered)
        );
        assert!((201..220).contains(&finding.operation.0), "{finding:?}");
        let tally = found.kinds.iter().find(|tally| tally.kind == StorageOperationKind::LogWrite).unwrap();
        assert_eq!((tally.reordered, tally.lost, tally.torn), (1, 0, 0));
    }
}

#[test]
fn a_process_kill_keeps_completed_writes_unlike_a_reset() {
    for seed in 0..40 {
        let disk = SimVfs::new();
        let witness = run_writer(Arc::new(disk.clone()), FailureLevel::Process, seed, false, 300 + seed * 7);
        assert!(verdict(&disk.process_kill(), &witness).is_passed(), "seed {seed}");
    }
    // At this level, unsynced data must not be lost either.
    let convicted = (0..40).filter(|seed| {
        let disk = SimVfs::new();
        let witness = run_writer(Arc::new(disk.clone()), FailureLevel::Process, *seed, false, 700);
        !verdict(&disk.crash(*seed, CrashOptions::default()), &witness).is_passed()
    });
    assert!(convicted.count() > 30);
}

#[test]
fn a_failed_sync_stops_the_writer_with_covered_writes_undecided() {
    for seed in 0..40 {
        let disk = SimVfs::new();
        let failing =
            InjectedFault::new(FaultTarget::Sync, FaultEffect::IoError).after_operations(100 + seed);
        let faulty = FaultVfs::new(Arc::new(disk.clone()));
        faulty.inject(failing);
        let witness = run_writer(Arc::new(faulty), FailureLevel::Power, seed, false, u64::MAX);
        let found = verdict(&disk.crash(seed, CrashOptions::default()), &witness);
        let (failed, _) = found.failed.clone().unwrap();
        assert!(found.is_passed() && failed > found.last_acknowledged, "seed {seed}: {:?}", found.findings);
        assert!(found.kinds.iter().any(|tally| tally.undecided > 0));
    }
}

#[test]
fn an_empty_directory_and_garbage_fail_without_a_panic() {
    let disk = SimVfs::new();
    let witness = run_writer(Arc::new(disk.clone()), FailureLevel::Power, 5, true, 600);
    let empty = SimVfs::new();
    empty.put(Path::new("/tested/other"), b"x");
    let found = verdict(&empty, &witness);
    assert!(
        found.findings.iter().all(|finding| finding.damage != OperationDamage::Torn)
            && found.findings.len() > 50
    );
    // Flip one bit of a synced block.
    let log = Path::new("/tested/log/current");
    disk.flip_bit(log, 4096 * 8 + 5).unwrap();
    let found = verdict(&disk.clone_disk(), &witness);
    let [finding] = &found.findings[..] else { panic!("{:?}", found.findings) };
    assert_eq!((finding.kind, finding.damage), (StorageOperationKind::LogWrite, OperationDamage::Unreadable));
}

#[test]
fn a_journal_may_end_incomplete_but_inner_damage_is_refused() {
    let witness = run_writer(Arc::new(SimVfs::new()), FailureLevel::Power, 1, false, 50);
    let whole = witness.journal().unwrap();
    assert!(whole.ended && whole.last.0 > 40);
    let cut = &witness.0[..witness.0.len() - "\"ended\"\n".len() - 3];
    let shorter = Journal::read(cut.as_bytes()).unwrap();
    assert!(!shorter.ended && shorter.last < whole.last);
    assert_eq!(Journal::read("".as_bytes()).unwrap_err(), JournalError::NoBegin);
    assert_eq!(Journal::read("{\"begin\":7}\n".as_bytes()).unwrap_err(), JournalError::NoBegin);
    let other = witness.0.replacen("\"schema\":2", "\"schema\":9", 1);
    assert_eq!(Journal::read(other.as_bytes()).unwrap_err(), JournalError::Version(9));
    let older = "{\"begin\":{\"schema\":1,\"seed\":7}}\n";
    assert_eq!(Journal::read(older.as_bytes()).unwrap_err(), JournalError::Version(1));
    let lines: Vec<&str> = witness.0.split_inclusive('\n').collect();
    let damaged = [&lines[..3], &["{\n"], &lines[3..]].concat().concat();
    assert_eq!(Journal::read(damaged.as_bytes()).unwrap_err(), JournalError::Damaged(4));
    let swapped = [&lines[..1], &lines[2..3], &lines[1..2], &lines[3..]].concat().concat();
    assert_eq!(Journal::read(swapped.as_bytes()).unwrap_err(), JournalError::Damaged(3));
}

#[test]
fn a_tcp_witness_stores_records_and_refuses_unauthenticated_clients() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let listener = WitnessListener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap().to_string();
    let mut journal = FileWitness::create(&path).unwrap();
    let serving = std::thread::spawn(move || listener.serve(&mut journal, &Default::default(), |_| ()));
    let disk = TestedStorage::with_single_path(Arc::new(SimVfs::new()));
    let begin = DurabilityJournalHeader::new(1, FailureLevel::Power, false, DIRECTORY.into());
    let mut witness = TcpWitness::connect(&address).unwrap();
    let written = write(&disk, Path::new(DIRECTORY), &begin, &mut witness, &mut |at| at.0 < 60).unwrap();
    drop(witness);
    let lines = serving.join().unwrap().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        (text.lines().count() as u64, Journal::read(text.as_bytes()).unwrap().last),
        (lines, written.last)
    );

    assert!(FileWitness::create(&path).is_err(), "a journal is never overwritten");
    let mut other = FileWitness::create(&directory.path().join("other")).unwrap();
    let listener = WitnessListener::bind("127.0.0.1:0").unwrap();
    let mut stranger = std::net::TcpStream::connect(listener.address().unwrap()).unwrap();
    io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n").unwrap();
    let refused = listener.serve(&mut other, &Default::default(), |_| ()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}
