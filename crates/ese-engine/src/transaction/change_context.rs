//! The interface between a transaction and a tree that changes a node: session, view, log records and undo entries.

use jetcell_sync::Arc;

use ese_format::log::record::{Begin, Begin0, BeginLevels, LogRecord};

use super::running_transaction::{RunningTransaction, no_transaction};
use super::{ReadView, Services, Transaction, UndoEntry};
use crate::Result;
use crate::log::RecordBatch;

/// A transaction's right to change trees. See [`ActiveTransaction::changes`](super::ActiveTransaction::changes).
pub struct ChangeContext {
    pub(super) services: Arc<Services>,
    pub(super) procid: u16,
    pub(super) running: Option<RunningTransaction>,
    /// Buffer for the log records of one change.
    pub(super) records: RecordBatch,
}

impl ChangeContext {
    /// Returns the session number for log records.
    pub fn procid(&self) -> u16 {
        self.procid
    }

    /// Returns the current view of the transaction.
    pub fn view(&self) -> ReadView {
        match &self.running {
            Some(running) => {
                ReadView { own: Some(running.transaction.clone()), snapshot: running.transaction.snapshot }
            }
            None => ReadView { own: None, snapshot: self.services.transactions.now() },
        }
    }

    /// Returns the record, if any, that must precede the transaction's next change, and the transaction and level of
    /// that change.
    pub(crate) fn prologue(&mut self) -> Result<(Option<LogRecord>, Arc<Transaction>, u8)> {
        let procid = self.procid;
        let services = &self.services;
        services.check_writable()?;
        let running = self.running.as_mut().ok_or_else(no_transaction)?;
        running.check_no_failed_rollback()?;
        let mut record = None;
        if running.logged_level == 0 {
            if running.pin.is_none() {
                running.pin = Some(services.pins.pin(services.log().tail()));
            }
            let begin0 = running.transaction.snapshot as u32;
            let levels = BeginLevels::new(0, running.level);
            record = Some(LogRecord::Begin0(Begin0 { procid, levels, begin0 }));
        } else if running.logged_level < running.level {
            let levels = BeginLevels::new(running.logged_level, running.level - running.logged_level);
            record = Some(LogRecord::Begin(Begin { procid, levels }));
        }
        Ok((record, running.transaction.clone(), running.level))
    }

    /// Returns a batch for the records of the next change, containing only its prologue.
    pub(crate) fn records(&mut self, prologue: Option<LogRecord>) -> &mut RecordBatch {
        self.records.clear();
        prologue.iter().for_each(|record| self.records.push(record));
        &mut self.records
    }

    /// Records a change in the undo list. Must be called once the change and its prologue are in the log.
    pub(crate) fn changed(&mut self, entry: UndoEntry) {
        if let Some(running) = &mut self.running {
            running.logged_level = running.level;
            running.undo.push(entry);
        }
    }
}
