//! The writer: executes the script on the storage and reports to the witness what the storage promised.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jetcell_vfs::{Clock, File, IoBuffer, IoReason, OpenMode, Vfs};

use super::journal::{DurabilityJournalHeader, FailureLevel, JournalLine};
use super::operation::{BLOCK_BYTES, OperationNumber, StorageOperation};
use super::script::OperationScript;
use super::sector::{TestFileId, fill};
use super::transactions::CommittingEngine;
use super::witness::Witness;

/// The storage under test, with two access paths to the same files.
pub struct TestedStorage {
    /// Access that bypasses the page cache, if the file system supports it.
    pub direct: Arc<dyn Vfs>,
    /// Access through the page cache.
    pub buffered: Arc<dyn Vfs>,
}

impl TestedStorage {
    /// Creates storage with a single access path, such as an in-process array or a simulated disk.
    pub fn with_single_path(vfs: Arc<dyn Vfs>) -> TestedStorage {
        TestedStorage { direct: vfs.clone(), buffered: vfs }
    }
}

/// Which operations the writer in a durability test completed, and whether one failed.
#[derive(Debug)]
pub struct WriterOutcome {
    /// Last operation that was reported to the witness.
    pub last: OperationNumber,
    /// Operation that failed, with its error.
    pub failed: Option<(OperationNumber, OperationError)>,
}

/// Reason why the writer in a durability test failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The directory could not be prepared. Nothing was promised.
    #[error("{}: {error}", path.display())]
    Prepare {
        /// Path that could not be created.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// The engine could not be started.
    #[error("failed to start the engine: {0}")]
    Engine(#[source] ese_engine::Error),
    /// The witness is unreachable.
    #[error("failed to connect to the witness: {0}")]
    Witness(#[source] io::Error),
}

impl WriteError {
    /// Returns the engine's error, if the engine failed.
    pub fn engine_error(&self) -> Option<&ese_engine::Error> {
        match self {
            WriteError::Engine(error) => Some(error),
            WriteError::Prepare { .. } | WriteError::Witness(_) => None,
        }
    }
}

/// Reason why an operation of a durability test failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// An access to a file failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A commit failed.
    #[error("{0}")]
    Engine(#[from] ese_engine::Error),
}

impl OperationError {
    /// Returns the text of the error together with the advice.
    fn full_text(&self) -> String {
        match self {
            OperationError::Io(error) => error.to_string(),
            OperationError::Engine(error) => error.full_text(),
        }
    }
}

/// Executes operations in `directory` until `go_on` returns false or an operation fails.
///
/// # Errors
/// Returns an error if the work cannot begin or the witness becomes unreachable. Storage failures are not errors,
/// because the cut may cause them.
pub fn write(
    storage: &TestedStorage,
    directory: &Path,
    begin: &DurabilityJournalHeader,
    witness: &mut dyn Witness,
    go_on: &mut dyn FnMut(OperationNumber) -> bool,
) -> Result<WriterOutcome, WriteError> {
    let vfs = &storage.direct;
    for path in OperationScript::directories().iter().map(|path| directory.join(path)) {
        vfs.create_directory(&path).map_err(|error| WriteError::Prepare { path, error })?;
    }
    let links = has_links(&**vfs, directory)
        .map_err(|error| WriteError::Prepare { path: directory.into(), error })?;
    let begin = DurabilityJournalHeader { links, ..begin.clone() };
    let transactions = begin.transactions.then(|| CommittingEngine::create(vfs.clone(), directory));
    let transactions = transactions.transpose().map_err(WriteError::Engine)?;
    let clock = vfs.clock();
    witness.store(&JournalLine::Begin(Box::new(begin.clone()))).map_err(WriteError::Witness)?;
    let mut writer = OperationWriter { storage, directory, transactions, files: WrittenFiles::default() };
    let mut number = OperationNumber::default();
    let mut last = number;
    for operation in OperationScript::new(&begin) {
        if !go_on(number) {
            break;
        }
        number = number.next();
        let began = clock.monotonic();
        if let Err(error) = writer.execute(number, &operation) {
            // If the machine is losing power, the witness may be unreachable as well.
            let _ = witness.store(&JournalLine::Failed { operation: number, error: error.full_text() });
            return Ok(WriterOutcome { last, failed: Some((number, error)) });
        }
        if operation.promises_durability() || begin.level == FailureLevel::Process {
            let line = completion_line(&*clock, number, began);
            witness.store(&line).map_err(WriteError::Witness)?;
            last = number;
        }
    }
    witness.store(&JournalLine::Ended).map_err(WriteError::Witness)?;
    Ok(WriterOutcome { last, failed: None })
}

fn completion_line(clock: &dyn Clock, operation: OperationNumber, began: Duration) -> JournalLine {
    let took = clock.monotonic().saturating_sub(began).as_micros();
    let us = u64::try_from(took).unwrap_or(u64::MAX);
    JournalLine::Complete { operation, us, unix_ms: clock.unix_ms() }
}

/// Returns true if the file system supports hard links. The files created for this check are removed.
fn has_links(vfs: &dyn Vfs, directory: &Path) -> io::Result<bool> {
    let [one, other] = ["probe", "probe-link"].map(|name| directory.join(name));
    drop(vfs.open(&one, OpenMode::CreateNew)?);
    let linked = vfs.link(&one, &other);
    vfs.remove(&one)?;
    match linked {
        Ok(()) => vfs.remove(&other).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file that each name refers to, as tracked by the writer.
#[derive(Default)]
struct WrittenFiles(std::collections::BTreeMap<PathBuf, TestFileId>);

struct OperationWriter<'w> {
    storage: &'w TestedStorage,
    directory: &'w Path,
    transactions: Option<CommittingEngine>,
    files: WrittenFiles,
}

impl OperationWriter<'_> {
    fn execute(
        &mut self,
        number: OperationNumber,
        operation: &StorageOperation,
    ) -> Result<(), OperationError> {
        match operation {
            StorageOperation::Commit { row } => match &self.transactions {
                Some(transactions) => Ok(transactions.commit(*row)?),
                None => Ok(()),
            },
            other => Ok(self.execute_on_files(number, other)?),
        }
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.storage.direct.open(&self.directory.join(path), mode)
    }

    fn execute_on_files(&mut self, number: OperationNumber, operation: &StorageOperation) -> io::Result<()> {
        let full_path = |path: &PathBuf| self.directory.join(path);
        let vfs = &self.storage.direct;
        match operation {
            StorageOperation::Create { path } => {
                self.open(path, OpenMode::CreateNew)?;
                self.files.0.insert(path.clone(), TestFileId(number));
            }
            StorageOperation::Write { path, block, blocks, buffered, .. } => {
                let file = self.files.0.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
                let mut bytes = IoBuffer::zeroed(*blocks as usize * BLOCK_BYTES);
                fill(&mut bytes, number, file, *block);
                let way = if *buffered { &self.storage.buffered } else { vfs };
                let open = way.open(&full_path(path), OpenMode::Write)?;
                open.write_at(block * BLOCK_BYTES as u64, &bytes, IoReason::Other)?;
            }
            StorageOperation::Preallocate { path, blocks } => {
                self.open(path, OpenMode::Write)?.grow(blocks * BLOCK_BYTES as u64)?;
            }
            StorageOperation::Rename { from, to } => {
                vfs.rename(&full_path(from), &full_path(to))?;
                if let Some(file) = self.files.0.remove(from) {
                    self.files.0.insert(to.clone(), file);
                }
            }
            StorageOperation::Link { from, to } => {
                vfs.link(&full_path(from), &full_path(to))?;
                if let Some(file) = self.files.0.get(from).copied() {
                    self.files.0.insert(to.clone(), file);
                }
            }
            StorageOperation::Unlink { path } => {
                vfs.remove(&full_path(path))?;
                self.files.0.remove(path);
            }
            StorageOperation::SyncFile { path } => self.open(path, OpenMode::Write)?.sync(IoReason::Other)?,
            StorageOperation::SyncDirectory { path } => vfs.sync_directory(&full_path(path))?,
            StorageOperation::Commit { .. } => {}
        }
        Ok(())
    }
}
