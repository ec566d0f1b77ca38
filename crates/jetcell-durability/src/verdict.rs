//! Verification after the cut: checks that every operation covered by a completed sync is present.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use jetcell_host::Evidence;
use jetcell_vfs::Vfs;
use jetcell_workload::measurement::LatencySummary;
use serde::{Deserialize, Serialize};

use super::damage::OperationDamage;
use super::file_comparison::{DurabilityViolation, FileComparison, compare, writer_of};
use super::journal::{FailureLevel, Journal};
use super::latency::{SuspiciousSyncReason, doubt};
use super::model::{FileModel, NameBinding, NameModel, StateOrigin, StorageModel};
use super::operation::{OperationNumber, StorageOperation, StorageOperationKind};
use super::script::OperationScript;
use super::sector::TestFileId;
use super::transactions::{missing_rows, read_whole_blocks};

/// A broken durability promise: an operation whose effect is missing or damaged after the cut.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BrokenPromise {
    /// Number of the operation.
    pub operation: OperationNumber,
    /// Kind of the operation.
    pub kind: StorageOperationKind,
    /// Kind of damage to the operation.
    pub damage: OperationDamage,
    /// Path where the damage was found, relative to the test's directory.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Description of what was found.
    pub found: String,
}

/// Counts of intact and damaged operations of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperationKindCounts {
    /// Kind of the operations.
    pub kind: StorageOperationKind,
    /// Number of operations covered by a completed sync.
    pub acknowledged: u64,
    /// Number of operations not covered by a completed sync. They may be present or missing.
    pub undecided: u64,
    /// Number of lost operations.
    pub lost: u64,
    /// Number of torn operations.
    pub torn: u64,
    /// Number of operations that are missing although a later operation is present.
    pub reordered: u64,
    /// Number of unreadable operations.
    pub unreadable: u64,
}

/// Result of verifying the storage after a durability test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DurabilityVerification {
    /// Version of this format.
    pub schema: u32,
    /// The program, its command line, the machine and the storage.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Kind of failure that the storage had to survive.
    pub level: FailureLevel,
    /// Last completed operation.
    pub last_acknowledged: OperationNumber,
    /// Completion time of that operation, in milliseconds since 1970 UTC.
    pub last_unix_ms: i64,
    /// First operation whose promise was broken.
    pub first_missing: Option<OperationNumber>,
    /// Counts for each operation kind.
    pub kinds: Vec<OperationKindCounts>,
    /// Broken promises, in operation order. Each operation occurs at most once.
    pub findings: Vec<BrokenPromise>,
    /// Sync latency in microseconds.
    pub sync: LatencySummary,
    /// Reason why the sync latencies are suspicious, if they are.
    pub sync_doubt: Option<SuspiciousSyncReason>,
    /// Operation that failed and stopped the writer, with its error.
    pub failed: Option<(OperationNumber, String)>,
    /// True if the writer finished normally. In this case, the test did not interrupt any writes.
    pub ended: bool,
}

impl DurabilityVerification {
    /// Returns true if every promise was kept.
    pub fn is_passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Compares the storage with the journal. Nothing is written to the storage.
///
/// # Errors
/// Returns an error if the directory itself cannot be read. Unreadable files inside it are reported as findings.
pub fn verify(vfs: &dyn Vfs, directory: &Path, journal: &Journal) -> io::Result<DurabilityVerification> {
    if !vfs.exists(directory)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut verifier =
        DurabilityVerifier { vfs, directory, faults: BTreeMap::new(), newest: OperationNumber::default() };
    let (model, mut tallies) = replay(journal);
    verifier.check_files(&model);
    if journal.begin.transactions {
        verifier.check_transactions(&model, journal);
    }
    let findings = verifier.findings();
    for finding in &findings {
        if let Some(tally) = tallies.get_mut(&finding.kind) {
            tally.count(finding.damage);
        }
    }
    let sync = journal.latencies.summary();
    Ok(DurabilityVerification {
        schema: 1,
        // A directory in an array has no storage on this machine.
        evidence: Evidence::collect(journal.begin.storage.is_some().then_some(directory).into_iter()),
        level: journal.begin.level,
        last_acknowledged: journal.last,
        last_unix_ms: journal.last_unix_ms,
        first_missing: findings.first().map(|finding| finding.operation),
        kinds: tallies.into_values().collect(),
        findings,
        sync_doubt: doubt(&sync, journal.begin.level, journal.begin.storage.as_ref()),
        sync,
        failed: journal.failed.clone(),
        ended: journal.ended,
    })
}

impl OperationKindCounts {
    fn new(kind: StorageOperationKind) -> OperationKindCounts {
        OperationKindCounts {
            kind,
            acknowledged: 0,
            undecided: 0,
            lost: 0,
            torn: 0,
            reordered: 0,
            unreadable: 0,
        }
    }

    fn count(&mut self, damage: OperationDamage) {
        *match damage {
            OperationDamage::Lost => &mut self.lost,
            OperationDamage::Torn => &mut self.torn,
            OperationDamage::Reordered => &mut self.reordered,
            OperationDamage::Unreadable => &mut self.unreadable,
        } += 1;
    }
}

type KindTallies = BTreeMap<StorageOperationKind, OperationKindCounts>;

/// Computes the states allowed after the cut, and the operation counts.
fn replay(journal: &Journal) -> (StorageModel, KindTallies) {
    let mut model = StorageModel::default();
    let mut tallies: KindTallies =
        StorageOperationKind::ALL.map(|kind| (kind, OperationKindCounts::new(kind))).into();
    let all = journal.begin.level == FailureLevel::Process;
    let mut number = OperationNumber::default();
    for operation in OperationScript::new(&journal.begin) {
        number = number.next();
        if number <= journal.last {
            model.complete(number, &operation);
            if all {
                model.make_durable(&operation);
            }
        } else {
            model.apply_uncertain(number, &operation);
        }
        if let Some(tally) = operation.kind().and_then(|kind| tallies.get_mut(&kind)) {
            tally.acknowledged += 1;
        }
        // The writer waits for its witness here, so it cannot have started any later operation.
        let waits = all || operation.promises_durability();
        if number > journal.last && (waits || has_failed(journal, number)) {
            break;
        }
    }
    for origin in model.undecided() {
        if let Some(tally) = tallies.get_mut(&origin.kind) {
            tally.acknowledged -= 1;
            tally.undecided += 1;
        }
    }
    (model, tallies)
}

fn has_failed(journal: &Journal, number: OperationNumber) -> bool {
    journal.failed.as_ref().is_some_and(|(failed, _)| *failed <= number)
}

/// Predicate that returns true if a name may refer to this file, given the result of comparing the file's content.
type BindingPredicate<'f> = &'f dyn Fn(&FileModel, TestFileId, &FileComparison) -> bool;

/// Result of verifying a name.
enum NameCheck {
    /// The name refers to this file. Any damage has already been recorded.
    File(TestFileId),
    /// The name refers to a file without a readable sector, although this binding was promised.
    Blank(NameBinding, FileComparison),
    Nothing,
}

impl NameCheck {
    fn from_file(file: Option<TestFileId>) -> NameCheck {
        file.map_or(NameCheck::Nothing, NameCheck::File)
    }
}

struct DurabilityVerifier<'v> {
    vfs: &'v dyn Vfs,
    directory: &'v Path,
    faults: BTreeMap<StateOrigin, (PathBuf, DurabilityViolation)>,
    /// Newest operation that is at least partially present.
    newest: OperationNumber,
}

impl DurabilityVerifier<'_> {
    fn check_files(&mut self, model: &StorageModel) {
        let mut found = BTreeSet::new();
        let mut blank = Vec::new();
        for (path, name) in &model.names {
            match self.check_name(path, name, model) {
                NameCheck::File(file) => drop(found.insert(file)),
                NameCheck::Blank(binding, compared) => blank.push((path, binding, compared)),
                NameCheck::Nothing => {}
            }
        }
        for (path, binding, compared) in blank {
            // If the promised file was found under another name, the blank file is a different one.
            if binding.file.is_some_and(|file| found.contains(&file)) {
                self.record_violation(
                    binding.origin,
                    path,
                    DurabilityViolation::missing("another file has the name"),
                );
            } else {
                self.record_violations(path, &compared);
            }
            found.extend(binding.file);
        }
        // A rename may be undecided, but the file must exist under either its old or its new name.
        for (path, name) in &model.names {
            let Some(NameBinding { origin, file: Some(file) }) = name.durable else { continue };
            let vanished =
                !found.contains(&file) && model.files.get(&file).is_some_and(|file| !file.may_be_missing);
            if vanished {
                self.record_violation(
                    origin,
                    path,
                    DurabilityViolation::missing("the file does not have any of its names"),
                );
            }
        }
    }

    fn record_violation(&mut self, origin: StateOrigin, path: &Path, fault: DurabilityViolation) {
        self.faults.entry(origin).or_insert_with(|| (path.to_path_buf(), fault));
    }

    fn record_violations(&mut self, path: &Path, compared: &FileComparison) {
        for (origin, fault) in &compared.faults {
            self.record_violation(*origin, path, fault.clone());
        }
    }

    /// Verifies the file under a name.
    fn check_name(&mut self, path: &Path, name: &NameModel, model: &StorageModel) -> NameCheck {
        let durable = name.durable;
        let bytes = match read_whole_blocks(self.vfs, &self.directory.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let absent = error.kind() == io::ErrorKind::NotFound;
                if let Some(durable) = durable.filter(|_| !absent || !name.may_be_absent()) {
                    let fault = if absent {
                        DurabilityViolation::missing("the name does not exist")
                    } else {
                        DurabilityViolation::unreadable(error.to_string())
                    };
                    self.record_violation(durable.origin, path, fault);
                    return NameCheck::from_file(durable.file);
                }
                return NameCheck::Nothing;
            }
        };
        let candidates: Vec<_> = name
            .files()
            .filter_map(|(binding, file)| Some((binding, file, model.files.get(&file)?)))
            .map(|(binding, file, what)| (binding, what, file, compare(file, what, &bytes)))
            .collect();
        let writer = writer_of(&bytes);
        let ways: [BindingPredicate<'_>; 4] = [
            &|_, file, compared| writer == Some(file) && compared.faults.is_empty(),
            // The file cannot have lost its blocks to another file, so `writer` identifies it reliably.
            &|what, file, _| writer == Some(file) && !what.may_be_missing,
            &|_, _, compared| compared.faults.is_empty(),
            &|_, file, _| writer == Some(file),
        ];
        let chosen = ways
            .iter()
            .find_map(|fits| candidates.iter().find(|(_, what, file, compared)| fits(what, *file, compared)));
        if let Some((binding, _, file, compared)) = chosen {
            self.newest = self.newest.max(binding.origin.operation).max(compared.newest);
            self.record_violations(path, compared);
            return NameCheck::File(*file);
        }
        let Some(durable) = durable else { return NameCheck::Nothing };
        let promised = candidates.into_iter().find(|(binding, ..)| *binding == durable);
        match promised.filter(|_| writer.is_none()) {
            Some((binding, .., compared)) => NameCheck::Blank(binding, compared),
            None => {
                let what =
                    if durable.file.is_some() { "another file has the name" } else { "the name exists" };
                self.record_violation(durable.origin, path, DurabilityViolation::missing(what));
                NameCheck::from_file(durable.file)
            }
        }
    }

    fn check_transactions(&mut self, model: &StorageModel, journal: &Journal) {
        let Some((number, row)) = model.durable_row else { return };
        let path = Path::new("engine");
        let numbers = commits(journal);
        let origin = |operation| StateOrigin { operation, kind: StorageOperationKind::Transaction };
        match missing_rows(self.vfs, self.directory, &journal.begin.directory, row) {
            Ok(missing) => {
                let missing: BTreeSet<i32> = missing.into_iter().collect();
                for (row, operation) in &numbers {
                    if missing.contains(row) {
                        let fault = DurabilityViolation::missing(&format!("row {row} is not in the table"));
                        self.record_violation(origin(*operation), path, fault);
                    } else {
                        self.newest = self.newest.max(*operation);
                    }
                }
            }
            Err(error) => self.record_violation(
                origin(number),
                path,
                DurabilityViolation::unreadable(error.to_string()),
            ),
        }
    }

    fn findings(self) -> Vec<BrokenPromise> {
        let newest = self.newest;
        let finding =
            |(origin, (path, fault)): (StateOrigin, (PathBuf, DurabilityViolation))| BrokenPromise {
                operation: origin.operation,
                kind: origin.kind,
                damage: match fault.damage {
                    OperationDamage::Lost if newest > origin.operation => OperationDamage::Reordered,
                    damage => damage,
                },
                path,
                found: fault.found,
            };
        self.faults.into_iter().map(finding).collect()
    }
}

/// Returns the operations that committed rows, keyed by row.
fn commits(journal: &Journal) -> BTreeMap<i32, OperationNumber> {
    let script = (1..=journal.last.0).map(OperationNumber).zip(OperationScript::new(&journal.begin));
    let row = |(number, operation)| match operation {
        StorageOperation::Commit { row } => Some((row, number)),
        _ => None,
    };
    script.filter_map(row).collect()
}
