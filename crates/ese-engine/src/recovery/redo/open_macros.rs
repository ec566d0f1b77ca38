//! Macros that have begun. Determines the macro to which a record belongs.

use std::collections::{BTreeMap, BTreeSet};

use ese_format::log::record::{LogRecord, Macro};
use ese_format::{DbTime, LogPosition};

use crate::MacroError;
use crate::recovery::replay_window::BufferedRecord;

/// A macro whose `MacroCommit` has not been read.
pub(super) struct OpenMacro {
    /// Start of the first record that was read.
    pub begun: LogPosition,
    /// Whether the first record was its `MacroBegin`.
    pub has_begin: bool,
    pub records: Vec<BufferedRecord>,
}

/// All macros whose `MacroCommit` has not been read.
#[derive(Default)]
pub(super) struct OpenMacros {
    /// Open macros by session and change time.
    open: BTreeMap<(u16, DbTime), OpenMacro>,
    /// Sessions for which a `MacroBegin` record was read.
    began: BTreeSet<u16>,
}

impl OpenMacros {
    pub fn begin(&mut self, begin: &Macro, start: LogPosition) {
        self.began.insert(begin.procid);
        let opened = OpenMacro { begun: start, has_begin: true, records: Vec::new() };
        self.open.insert((begin.procid, begin.db_time), opened);
    }

    pub fn abort(&mut self, abort: &Macro) {
        self.open.remove(&(abort.procid, abort.db_time));
    }

    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Ends a macro. Returns `None` if redo started inside the macro.
    pub fn end(&mut self, commit: &Macro) -> Result<Option<OpenMacro>, MacroError> {
        match self.open.remove(&(commit.procid, commit.db_time)) {
            None if !self.began.insert(commit.procid) => Err(MacroError::NotStarted),
            ended => Ok(ended),
        }
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the start of the oldest macro.
    pub fn oldest(&self) -> Option<LogPosition> {
        self.open.values().map(|open| open.begun).min()
    }

    /// Returns the open macro to which a record belongs. An error describes what is wrong with the record.
    pub fn macro_of(
        &mut self,
        record: &LogRecord,
        start: LogPosition,
    ) -> Result<Option<&mut OpenMacro>, MacroError> {
        let Some((procid, time)) = macro_key(record) else { return Ok(None) };
        let needs_macro = match record {
            LogRecord::Split2(_) | LogRecord::Merge2(_) => true,
            LogRecord::PageMove(moved) => !moved.flags.is_empty(),
            _ => false,
        };
        if needs_macro && !self.began.contains(&procid) {
            // Redo starts inside the macro.
            let opened = OpenMacro { begun: start, has_begin: false, records: Vec::new() };
            return Ok(Some(self.open.entry((procid, time)).or_insert(opened)));
        }
        let is_open = self.open.contains_key(&(procid, time));
        // A page can be formatted between the records of a macro.
        if !is_open && !matches!(record, LogRecord::NewPage(_)) {
            if self.open.keys().any(|(open, _)| *open == procid) {
                return Err(MacroError::OtherTime);
            }
            if needs_macro {
                return Err(MacroError::Outside);
            }
        }
        Ok(self.open.get_mut(&(procid, time)))
    }
}

/// Returns a record's session and the change time of its pages, if the record can be part of a macro.
pub(super) fn macro_key(record: &LogRecord) -> Option<(u16, DbTime)> {
    match record {
        // This record changes no page and has no change time.
        LogRecord::UndoInfo(_) => None,
        LogRecord::NewPage(new) => Some((new.procid, new.after)),
        LogRecord::RootPageMove(moved) => Some((moved.procid, moved.after)),
        _ => record.page_change().map(|change| (change.procid, change.after)),
    }
}
