//! The transaction of one session: its levels, its changes, and the records it has logged so far.
//!
//! Invariants: Begin records are logged with the first change, so a read-only transaction logs nothing. Starting before
//! the Begin record is logged, the checkpoint is held at or before that record. The hold ends once the commit record is
//! durable and the transaction's deletions are cleaned up.

use jetcell_sync::Arc;

use ese_format::LogPosition;
use ese_format::log::record::{Commit, Commit0, LogRecord, Rollback};

use super::running_transaction::{RunningTransaction, no_transaction};
use super::{ChangeContext, EndedTransaction, ReadView, Services, Transaction, UndoEntry, VersionChange};
use crate::log::RecordBatch;
use crate::storage::CheckpointPin;
use crate::{Error, FailedOperation, Result, UsageError};

/// Maximum nesting depth of transactions. ESE: `levelMax`.
const MAX_LEVEL: u8 = 7;

/// The services that transactions need from the layers above them: undo in the trees that they changed, and cleanup.
pub(crate) trait TransactionHost: Send + Sync {
    /// Returns the services that all transactions of the instance share.
    fn services(&self) -> &Arc<Services>;
    /// Undoes one change.
    fn undo(&self, entry: &UndoEntry, by: &ActiveRollback) -> Result<()>;
    /// Waits until `transaction` may make a change despite the version store being nearly full. The caller must not
    /// hold a latch.
    fn make_room(&self, transaction: &Transaction) -> Result<()>;
}

/// The rollback on whose behalf a change is being undone.
pub(crate) struct ActiveRollback {
    /// Session number in log records.
    pub procid: u16,
    /// Transaction that made the change.
    pub transaction: Arc<Transaction>,
    /// Level that is being rolled back.
    pub level: u8,
}

/// A session's transaction state. ESE: `PIB`.
#[doc(alias = "PIB")]
pub struct ActiveTransaction {
    host: Arc<dyn TransactionHost>,
    context: ChangeContext,
    /// Buffer for one row, available while no statement is using it.
    pub(crate) row: Vec<u8>,
}

impl ActiveTransaction {
    pub(crate) fn new(host: Arc<dyn TransactionHost>, procid: u16) -> ActiveTransaction {
        let services = host.services().clone();
        let context = ChangeContext { services, procid, running: None, records: RecordBatch::new() };
        ActiveTransaction { host, context, row: Vec::new() }
    }

    /// Continues a transaction that a crash interrupted, so that recovery can roll it back.
    pub(crate) fn resumed(
        host: Arc<dyn TransactionHost>,
        procid: u16,
        transaction: Arc<Transaction>,
        level: u8,
        pin: CheckpointPin,
        undo: Vec<UndoEntry>,
    ) -> ActiveTransaction {
        let level = level.max(1);
        let mut resumed = ActiveTransaction::new(host, procid);
        resumed.context.running = Some(RunningTransaction {
            level,
            logged_level: level,
            pin: Some(pin),
            undo,
            savepoints: vec![0; usize::from(level)],
            ..RunningTransaction::new(transaction)
        });
        resumed
    }

    /// Creates a new transaction context for the same instance, with a different session number.
    pub(crate) fn another(&self, procid: u16) -> ActiveTransaction {
        ActiveTransaction::new(self.host.clone(), procid)
    }

    /// Returns the services that all transactions of the instance share.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.context.services
    }

    /// Returns the nesting depth; 0 outside transactions. A failed statement's level is not counted.
    pub fn level(&self) -> u8 {
        self.context.running.as_ref().map_or(0, |running| running.level - running.failed_statements)
    }

    /// Returns the current view of the session.
    pub fn view(&self) -> ReadView {
        self.context.view()
    }

    /// Grants the right to make the next change, if the instance accepts changes and the version store has room. May
    /// wait. The caller must not hold a latch.
    ///
    /// Call this before any operation that can conflict. Otherwise, a session that conflicts with a change whose
    /// rollback failed would retry endlessly.
    pub(crate) fn changes(&mut self) -> Result<&mut ChangeContext> {
        let services = &self.context.services;
        services.check_writable()?;
        if let Some(running) = &self.context.running
            && services.versions.is_nearly_full()
        {
            self.host.make_room(&running.transaction)?;
        }
        Ok(&mut self.context)
    }

    /// Begins a transaction, or a nested transaction that can be rolled back separately.
    pub fn begin(&mut self) -> Result<()> {
        match &mut self.context.running {
            None => {
                let transaction = self.context.services.transactions.begin(self.context.procid);
                self.context.running = Some(RunningTransaction::new(transaction));
            }
            Some(running) if running.level < MAX_LEVEL => {
                running.check_no_failed_rollback()?;
                running.level += 1;
                running.savepoints.push(running.undo.len());
            }
            Some(_) => return Err(UsageError::NestedTooDeep(MAX_LEVEL).into()),
        }
        Ok(())
    }

    /// Commits the innermost level. Committing the outermost level makes all changes visible.
    ///
    /// Returns the end of the commit record, which serves as the commit id: the commit is durable once the log is
    /// durable up to this position. Returns `None` if there was nothing to log.
    pub fn commit(&mut self) -> Result<Option<LogPosition>> {
        let ChangeContext { services, procid, running: slot, records: batch } = &mut self.context;
        let procid = *procid;
        let running = slot.as_mut().ok_or_else(no_transaction)?;
        running.check_no_failed_rollback()?;
        if running.level > 1 {
            if running.logged_level == running.level {
                let record = LogRecord::Commit(Commit { procid, level: running.level - 1 });
                services.append(&[record])?;
                running.logged_level -= 1;
            }
            running.level -= 1;
            running.savepoints.pop();
            return Ok(None);
        }
        let mut end = None;
        if running.logged_level > 0 {
            let record = |number| LogRecord::Commit0(Commit0 { procid, level: 0, commit0: number });
            batch.clear();
            batch.push(&record(0));
            let (number, position) = services.log().append_with(batch.len(), true, |turn| {
                services.transactions.commit(&running.transaction, |number| {
                    batch.clear();
                    batch.push(&record(number as u32));
                    Ok::<_, Error>(turn.append(batch).end)
                })
            })??;
            end = Some(position);
            let changes = std::mem::take(&mut running.undo);
            services.versions.end_replaces(changes.iter().filter_map(UndoEntry::version));
            services.ended.push(EndedTransaction::new(number, position, running.pin.take(), changes));
        }
        end_transaction(services, running);
        *slot = None;
        Ok(end)
    }

    /// Undoes all changes since the innermost `begin`.
    ///
    /// After an error (the log failed, or a page cannot be read), the level still exists and is partly undone. Only
    /// another rollback is possible then. If the transaction is dropped in this state, the instance refuses further
    /// changes, and recovery completes the rollback.
    pub fn rollback(&mut self) -> Result<()> {
        while self.context.running.as_ref().is_some_and(|running| running.failed_statements > 0) {
            self.rollback_level()?;
            self.context.running.iter_mut().for_each(|running| running.failed_statements -= 1);
        }
        self.rollback_level()
    }

    /// Runs a change atomically. `nested` must be set if the change has more than one step.
    pub(crate) fn statement<T>(
        &mut self,
        nested: bool,
        work: impl FnOnce(&mut ActiveTransaction) -> Result<T>,
    ) -> Result<T> {
        self.check_begun()?;
        if !nested {
            return work(self);
        }
        self.begin()?;
        let done = work(self).and_then(|value| self.commit().map(|_| value));
        if done.is_err() {
            self.rollback_statement()?;
        }
        done
    }

    /// Returns an error if no transaction has begun.
    pub(crate) fn check_begun(&self) -> Result<()> {
        match self.level() {
            0 => Err(no_transaction()),
            _ => Ok(()),
        }
    }

    /// Rolls back a failed statement's level. If this fails too, the next rollback repeats it. The caller did not
    /// begin this level, and does not need to roll it back separately.
    pub(crate) fn rollback_statement(&mut self) -> Result<()> {
        let result = self.rollback();
        if result.is_err() {
            self.context.running.iter_mut().for_each(|running| running.failed_statements += 1);
        }
        result
    }

    fn rollback_level(&mut self) -> Result<()> {
        let ChangeContext { services, procid, running: slot, .. } = &mut self.context;
        let running = slot.as_mut().ok_or_else(no_transaction)?;
        let savepoint = running.savepoints.last().copied().unwrap_or(0);
        let inserts = running.partial_rollback.get_or_insert_default();
        let by = ActiveRollback {
            procid: *procid,
            transaction: running.transaction.clone(),
            level: running.level,
        };
        while running.undo.len() > savepoint {
            let Some(entry) = running.undo.pop() else { break };
            if let Err(error) = self.host.undo(&entry, &by) {
                running.undo.push(entry);
                return Err(error);
            }
            if entry.version().is_some_and(|version| version.change == VersionChange::Insert) {
                inserts.push(entry);
            }
        }
        let mut end = LogPosition::MIN;
        if running.logged_level == running.level {
            let record = LogRecord::Rollback(Rollback { procid: *procid, levels: 1 });
            end = services.append(&[record])?.1;
            running.logged_level -= 1;
        }
        let undone_inserts = running.partial_rollback.take().unwrap_or_default();
        let outermost = running.level == 1;
        // Undone inserts leave nodes flagged deleted. Cleanup removes these nodes once no snapshot needs their
        // earlier state.
        let pin = if outermost { running.pin.take() } else { None };
        let own_pin = match (pin, running.pin) {
            (None, Some(pin)) if !undone_inserts.is_empty() => Some(services.pins.pin_again(pin)),
            (pin, _) => pin,
        };
        let newest_snapshot = services.transactions.now() - 1;
        services.ended.push(EndedTransaction::new(newest_snapshot, end, own_pin, undone_inserts));
        if outermost {
            running.transaction.set_rolled_back();
            end_transaction(services, running);
            *slot = None;
        } else {
            running.level -= 1;
            running.savepoints.pop();
        }
        Ok(())
    }
}

fn end_transaction(services: &Services, running: &mut RunningTransaction) {
    if let Some(pin) = running.pin.take() {
        services.pins.release(pin);
    }
    services.transactions.end(&running.transaction);
}

impl Drop for ActiveTransaction {
    fn drop(&mut self) {
        while self.context.running.is_some() {
            if let Err(error) = self.rollback() {
                // Recovery will roll back the remaining changes, so the transaction's pin stays. The failure must be
                // recorded before the transaction ends; otherwise a shutdown would wait for the pin.
                let services = &self.context.services;
                services.fail(error.cause().during(FailedOperation::Rollback));
                if let Some(running) = self.context.running.take() {
                    services.transactions.end(&running.transaction);
                }
            }
        }
    }
}
