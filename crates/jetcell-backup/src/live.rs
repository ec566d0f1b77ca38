//! Backs up a running instance into a directory.

use std::path::Path;

use ese_engine::{Backup, Database, Instance};
use jetcell_input::hex::hex64;
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, Vfs};

use crate::backup_directory::{BackupDirectory, PartialBackup, PartialDatabaseCopy};
use crate::chain::check_continues;
use crate::copying::{CompletedCopy, PendingCopy, copy_pages};
use crate::database_copy::DatabaseCopy;
use crate::error::{BackupError, Result};
use crate::file_names::copy_names;
use crate::manifest::{BackupManifest, GenerationRange, StoredDatabase, StoredLog};
use crate::options::{BackupOptions, BackupResult};
use crate::transfer_control::TransferMeter;

/// Backs up all databases of a running instance into a directory on `vfs`.
///
/// The directory must not exist, be empty, or contain an interrupted backup of the same instance. Sessions continue
/// to run. Databases cannot be attached or detached during the backup.
///
/// Pages copied by an interrupted call are reused if the instance still has all logs written since that call.
///
/// # Errors
///
/// Returns an error if the directory contains other files (-504), if all databases have bad pages, or if the backup
/// does not continue [`BackupOptions::parent`]. See also [`Instance::begin_backup`]. Unless the error is
/// [`BackupError::Stopped`], the backup files are removed.
pub fn back_up(
    instance: &Instance,
    vfs: &Arc<dyn Vfs>,
    to: &Path,
    options: &BackupOptions,
) -> Result<BackupResult> {
    let parent = options.parent.as_deref().map(|parent| BackupManifest::read(&**vfs, parent)).transpose()?;
    let earlier = BackupDirectory::read_interrupted(&**vfs, to)?;
    let began = instance.core().vfs.clock().unix_ms();
    let mut backup = instance.begin_backup(options.kind.to_engine_kind())?;
    let partial = PartialBackup {
        kind: options.kind,
        log_signature: backup.log_signature().to_hex(),
        source: "running instance".to_string(),
        first_generation: backup.generations().start().0,
        began_unix_ms: began,
        databases: Vec::new(),
    };
    let partial = resume_or_discard(&mut backup, partial, earlier)?;
    let destination = BackupDirectory::begin(vfs.clone(), to, partial.clone())?;
    let copied = LiveBackup { destination: &destination, options, parent, earlier: partial }.run(&mut backup);
    let (manifest, copied_bytes, continued_bytes) = copied.inspect_err(|error| {
        if !matches!(error, BackupError::Stopped) {
            destination.discard();
        }
    })?;
    let usable = |database: &&Arc<Database>| {
        let signature = database.header().signature.to_hex();
        !options.kind.has_pages()
            || manifest.databases.iter().any(|stored| stored.usable && stored.signature == signature)
    };
    let whole: Vec<Arc<Database>> = backup.databases().iter().filter(usable).cloned().collect();
    let summary = backup.finish(&whole)?;
    Ok(BackupResult {
        manifest,
        removed_logs: summary.removed_logs,
        copied_bytes,
        continued_bytes,
        already_complete: false,
    })
}

/// Returns the state of an interrupted backup if its pages can be combined with the instance's logs. Otherwise
/// returns `fresh`.
fn resume_or_discard(
    backup: &mut Backup,
    fresh: PartialBackup,
    earlier: Option<PartialBackup>,
) -> Result<PartialBackup> {
    let fits = |earlier: &PartialBackup| {
        (earlier.kind, &earlier.log_signature, &earlier.source)
            == (fresh.kind, &fresh.log_signature, &fresh.source)
    };
    let Some(earlier) = earlier.filter(fits) else { return Ok(fresh) };
    match backup.extend_back_to(ese_format::Generation(earlier.first_generation)) {
        // The interrupted backup may have started at a newer generation than this call. The logs needed by both must
        // be included.
        Ok(()) => Ok(PartialBackup { first_generation: backup.generations().start().0, ..earlier }),
        Err(ese_engine::Error::Backup(_)) => Ok(fresh),
        Err(error) => Err(error.into()),
    }
}

/// Returns a database's identity, which is valid while the database is attached. After a detach, the copied pages
/// would not match the log.
fn identity(database: &Database) -> String {
    let header = database.header();
    format!("{}-{}", header.signature.to_hex(), hex64(header.attach_position.to_u64()))
}

fn database_path(database: &Arc<Database>) -> &Path {
    database.path()
}

struct LiveBackup<'a> {
    destination: &'a BackupDirectory,
    options: &'a BackupOptions,
    parent: Option<BackupManifest>,
    earlier: PartialBackup,
}

impl LiveBackup<'_> {
    /// Copies all files. Returns the durable manifest, the number of bytes that this call copied, and the number of
    /// bytes that an earlier call had copied.
    fn run(&self, backup: &mut Backup) -> Result<(BackupManifest, u64, u64)> {
        let gauge = TransferMeter::new(self.options.pace.clone(), self.destination.vfs.clock());
        let copies =
            if self.options.kind.has_pages() { self.copy_databases(backup, &gauge)? } else { Vec::new() };
        backup.close_logs()?;
        let logs = self.copy_logs(backup, &gauge)?;
        let continued_bytes = copies.iter().map(|copied| copied.copy.continued_bytes).sum();
        let (first, last) = (backup.generations().start().0, backup.generations().end().0);
        let databases = copies
            .into_iter()
            .map(|CompletedCopy { source, copy }| {
                copy.finish(&backup.header(&source)?, source.path(), Some((first, last)))
            })
            .collect::<Result<Vec<StoredDatabase>>>()?;
        let manifest = self.manifest(backup, databases, logs);
        self.destination.finish(&manifest)?;
        Ok((manifest, gauge.transferred(), continued_bytes))
    }

    fn copy_databases(
        &self,
        backup: &Backup,
        gauge: &TransferMeter,
    ) -> Result<Vec<CompletedCopy<Arc<Database>>>> {
        let names = copy_names(backup.databases().iter().map(|database| database.path()))?;
        let mut copies = Vec::new();
        let mut needed = 0;
        for (database, name) in backup.databases().iter().zip(names) {
            let identity = identity(database);
            let earlier =
                self.earlier.databases.iter().find(|earlier: &&PartialDatabaseCopy| {
                    earlier.file == name && earlier.identity == identity
                });
            let source = (database.page_size(), database.file_bytes()?);
            let copy = DatabaseCopy::begin(self.destination, source, (name, identity), earlier, gauge)?;
            let reader = backup.read_pages(database, copy.read_options(self.options))?;
            let bytes = u64::from(reader.last_page()) * database.page_size().bytes() as u64;
            gauge.add_total(bytes);
            gauge.add_skipped(copy.continued_bytes.min(bytes));
            needed += bytes.saturating_sub(copy.continued_bytes);
            copies.push(PendingCopy { source: database.clone(), copy, reader });
        }
        self.destination.require_space(needed)?;
        copy_pages(copies, database_path, self.destination, self.options, gauge)
    }

    fn copy_logs(&self, backup: &mut Backup, gauge: &TransferMeter) -> Result<Vec<StoredLog>> {
        let mut logs = Vec::new();
        while let Some(log) = backup.next_log()? {
            gauge.add_total(log.bytes.len() as u64);
            gauge.wait_for(log.bytes.len() as u64)?;
            let stored = self.destination.store_log(&log, FileName::from_path(&log.path)?)?;
            if let Some(parent) = &self.parent {
                check_continues(parent, &stored, logs.is_empty())?;
            }
            logs.push(stored);
        }
        Ok(logs)
    }

    fn manifest(
        &self,
        backup: &Backup,
        databases: Vec<StoredDatabase>,
        logs: Vec<StoredLog>,
    ) -> BackupManifest {
        let covers = backup.databases().iter().map(|database| database.header().signature.to_hex());
        let page_size = backup.databases().first().map_or(0, |database| database.page_size().get());
        BackupManifest {
            kind: self.options.kind,
            parent: self.parent.as_ref().map(|parent| parent.id.clone()),
            began_unix_ms: self.earlier.began_unix_ms,
            ended_unix_ms: self.destination.vfs.clock().unix_ms(),
            log_signature: backup.log_signature().to_hex(),
            base_name: backup.base_name(),
            page_size,
            generations: GenerationRange {
                first: backup.generations().start().0,
                last: backup.generations().end().0,
                last_is_open: false,
            },
            covers: covers.collect(),
            databases,
            logs,
            ..BackupManifest::default()
        }
        .seal()
    }
}
