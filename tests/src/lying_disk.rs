//! Runs the durability test on mounted disks whose power is cut. Honest disks must pass, and lying disks must be
//! detected.
//!
//! The writer and the verifier use a mounted file system through the kernel, as `jetcell test durability` does. Below
//! the kernel is a layer that injects faults, and below it a simulated disk. After the cut, the remaining content of
//! the disk is mounted again and verified.

use std::collections::BTreeMap;
use std::io;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use testkit::{TestRequirement, skip};

use jetcell_durability::{
    BrokenPromise, DurabilityJournalHeader, DurabilityVerification, FailureLevel, Journal, MemoryWitness,
    OperationDamage, OperationNumber, StorageOperationKind, TestedStorage, verify, write,
};
use jetcell_vfs::{
    CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, RealOptions, RealVfs, SimVfs,
};

use crate::mounted::MountedFileSystem;

/// Directory of the test on the disk.
const DIRECTORY: &str = "run";
/// Preallocated log of the writer. It is replaced after [`LOG_BLOCKS`] blocks.
const LOG: &str = "log/current";
const LOG_BLOCKS: u64 = 32;
/// Number of operations between a fault and the cut.
const AFTER_A_FAULT: u64 = 10;

/// Disk below the mounted file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LyingDisk {
    /// Keeps synced data. Other data is kept, lost, torn, or reordered.
    Honest,
    /// Behaves like `Honest`, while the writer also runs durable commits of the engine.
    HonestWithCommits,
    /// Acknowledges syncs of files but does not perform them.
    FileSyncs,
    /// Acknowledges syncs of directories but does not perform them.
    DirectorySyncs,
    /// Acknowledges syncs of the log but does not perform them.
    LogSyncs,
    /// Acknowledges syncs of the small files but does not perform them.
    TrialSyncs,
    /// Acknowledges syncs of the engine's log but does not perform them.
    EngineLogSyncs,
    /// Loses one write to the log, although it is synced.
    LostWrite,
    /// Stores one block of the log only partially, although it is synced.
    TornWrite,
}

const LIARS: [LyingDisk; 7] = [
    LyingDisk::FileSyncs,
    LyingDisk::DirectorySyncs,
    LyingDisk::LogSyncs,
    LyingDisk::TrialSyncs,
    LyingDisk::EngineLogSyncs,
    LyingDisk::LostWrite,
    LyingDisk::TornWrite,
];

/// Verdicts about disks.
#[derive(Default, Debug)]
pub struct DiskVerdicts {
    /// Number of cuts per disk, all of which had the correct verdict.
    pub cuts: BTreeMap<LyingDisk, u64>,
    /// Number of operations on honest disks that no completed sync had covered before the cut.
    pub undecided: u64,
    /// Number of broken promises that were found on lying disks.
    pub findings: u64,
}

impl AddAssign for DiskVerdicts {
    fn add_assign(&mut self, other: DiskVerdicts) {
        for (disk, cuts) in other.cuts {
            *self.cuts.entry(disk).or_default() += cuts;
        }
        self.undecided += other.undecided;
        self.findings += other.findings;
    }
}

impl LyingDisk {
    /// Returns the disk of a seed. Even seeds have an honest disk.
    pub fn for_seed(seed: u64) -> LyingDisk {
        match (seed.is_multiple_of(2), seed.is_multiple_of(8)) {
            (true, true) => LyingDisk::HonestWithCommits,
            (true, false) => LyingDisk::Honest,
            (false, _) => LIARS[(seed / 2) as usize % LIARS.len()],
        }
    }

    fn is_honest(self) -> bool {
        matches!(self, LyingDisk::Honest | LyingDisk::HonestWithCommits)
    }

    fn has_commits(self) -> bool {
        matches!(self, LyingDisk::HonestWithCommits | LyingDisk::EngineLogSyncs)
    }

    fn fault(self, seed: u64) -> Option<InjectedFault> {
        let unsynced = |target| InjectedFault::new(target, FaultEffect::Lost).repeating();
        // This position ensures that the operations after the fault are in the same log.
        let written = LOG_BLOCKS * (seed / 16 % 3) + 1 + seed / 2 % 20;
        let write =
            |effect| InjectedFault::new(FaultTarget::Write, effect).on_path(LOG).after_operations(written);
        Some(match self {
            LyingDisk::Honest | LyingDisk::HonestWithCommits => return None,
            LyingDisk::FileSyncs => unsynced(FaultTarget::Sync),
            LyingDisk::DirectorySyncs => unsynced(FaultTarget::SyncDirectory),
            LyingDisk::LogSyncs => unsynced(FaultTarget::Sync).on_path("/log/"),
            LyingDisk::TrialSyncs => unsynced(FaultTarget::Sync).on_path("/trials/"),
            LyingDisk::EngineLogSyncs => unsynced(FaultTarget::Sync).on_path("/engine/E00"),
            LyingDisk::LostWrite => write(FaultEffect::Lost),
            // The write may be torn in the middle of a sector.
            LyingDisk::TornWrite => write(FaultEffect::TornUnnoticed(100 + (seed * 377 % 3900) as usize)),
        })
    }

    /// Returns the effect of the cut on unsynced data. The options prevent a lying disk from keeping everything by
    /// chance.
    fn crash(self) -> CrashOptions {
        let unlucky = CrashOptions { all_or_nothing: 0.0, ..CrashOptions::default() };
        match self {
            LyingDisk::LogSyncs => CrashOptions { lose_length: 1.0, ..unlucky },
            LyingDisk::EngineLogSyncs => CrashOptions { lose_write: 1.0, tear_write: 0.0, ..unlucky },
            LyingDisk::FileSyncs | LyingDisk::DirectorySyncs | LyingDisk::TrialSyncs => unlucky,
            LyingDisk::Honest
            | LyingDisk::HonestWithCommits
            | LyingDisk::LostWrite
            | LyingDisk::TornWrite => CrashOptions::default(),
        }
    }

    /// Returns true if this disk can cause the broken promise.
    fn explains(self, finding: &BrokenPromise) -> bool {
        match self {
            LyingDisk::Honest | LyingDisk::HonestWithCommits => false,
            LyingDisk::FileSyncs => true,
            LyingDisk::DirectorySyncs => matches!(
                finding.kind,
                StorageOperationKind::Create
                    | StorageOperationKind::Rename
                    | StorageOperationKind::Link
                    | StorageOperationKind::Unlink
            ),
            LyingDisk::LogSyncs => finding.path.starts_with("log"),
            LyingDisk::TrialSyncs => finding.path.starts_with("trials"),
            LyingDisk::EngineLogSyncs => finding.kind == StorageOperationKind::Transaction,
            LyingDisk::LostWrite => {
                finding.kind == StorageOperationKind::LogWrite
                    && matches!(finding.damage, OperationDamage::Lost | OperationDamage::Reordered)
            }
            LyingDisk::TornWrite => {
                finding.kind == StorageOperationKind::LogWrite
                    && matches!(
                        finding.damage,
                        OperationDamage::Torn | OperationDamage::Unreadable | OperationDamage::Reordered
                    )
            }
        }
    }
}

/// Runs a writer on the disk of a seed, cuts its power, and verifies the remaining data.
///
/// # Errors
/// Returns an error if a file system cannot be mounted.
///
/// # Panics
/// Panics if the verdict is wrong.
pub fn judge(seed: u64) -> io::Result<DiskVerdicts> {
    let disk = LyingDisk::for_seed(seed);
    let simulated = SimVfs::new();
    let journal = work(disk, seed, &simulated)?;
    let after = MountedFileSystem::new(Arc::new(simulated.crash(seed, disk.crash())))?;
    let found = verify(&real()?, &after.path().join(DIRECTORY), &journal)?;
    check(disk, seed, &found);
    let undecided = found.kinds.iter().map(|tally| tally.undecided).sum();
    Ok(DiskVerdicts {
        cuts: BTreeMap::from([(disk, 1)]),
        undecided: if disk.is_honest() { undecided } else { 0 },
        findings: found.findings.len() as u64,
    })
}

fn real() -> io::Result<RealVfs> {
    RealVfs::new(RealOptions::default())
}

fn work(disk: LyingDisk, seed: u64, simulated: &SimVfs) -> io::Result<Journal> {
    let below = Arc::new(FaultVfs::new(Arc::new(simulated.clone())));
    disk.fault(seed).into_iter().for_each(|fault| below.inject(fault));
    let mounted = MountedFileSystem::new(below.clone())?;
    let directory = mounted.path().join(DIRECTORY);
    let begin =
        DurabilityJournalHeader::new(seed, FailureLevel::Power, disk.has_commits(), directory.clone());
    let mut witness = MemoryWitness::default();
    let mut last = match disk {
        LyingDisk::LostWrite | LyingDisk::TornWrite | LyingDisk::Honest | LyingDisk::HonestWithCommits => {
            u64::MAX
        }
        LyingDisk::EngineLogSyncs => 1500 + seed * 5 % 500,
        _ => 400 + seed * 5 % 1000,
    };
    let go_on = &mut |at: OperationNumber| {
        if at.0 == 0 && disk.is_honest() {
            simulated.cut_power_after(simulated.operations() + 1 + seed * 7 % 3000);
        }
        if matches!(disk, LyingDisk::LostWrite | LyingDisk::TornWrite) && below.fired_count() > 0 {
            last = last.min(at.0 + AFTER_A_FAULT);
        }
        at.0 < last
    };
    let through_the_cache = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() })?;
    let storage = TestedStorage { direct: Arc::new(real()?), buffered: Arc::new(through_the_cache) };
    let written = write(&storage, &directory, &begin, &mut witness, go_on).map_err(io::Error::other)?;
    // The power of an honest disk is cut during the work. A lying disk completes all operations first.
    assert_eq!(written.failed.is_some(), disk.is_honest(), "seed {seed}, {disk:?}: {:?}", written.failed);
    witness.journal().map_err(io::Error::other)
}

fn check(disk: LyingDisk, seed: u64, found: &DurabilityVerification) {
    let findings = &found.findings;
    assert_eq!(found.is_passed(), disk.is_honest(), "seed {seed}, {disk:?}: {findings:?}");
    assert!(findings.iter().all(|one| disk.explains(one)), "seed {seed}, {disk:?}: {findings:?}");
    if matches!(disk, LyingDisk::LostWrite | LyingDisk::TornWrite) {
        assert_eq!(findings.len(), 1, "seed {seed}, {disk:?}: {findings:?}");
    }
    assert_eq!(found.first_missing, findings.iter().map(|one| one.operation).min());
}

/// Returns true if this machine can mount file systems. Otherwise, records the reason as a skipped test.
pub fn can_mount() -> bool {
    let mounted = MountedFileSystem::new(Arc::new(SimVfs::new()));
    let tried = mounted.and_then(|mounted| std::fs::metadata(mounted.path().join(Path::new("none"))));
    match tried {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        other => {
            skip(TestRequirement::Kernel, format!("file systems cannot be mounted by FUSE here: {other:?}"));
            false
        }
    }
}
