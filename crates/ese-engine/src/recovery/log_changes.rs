//! What a part of a log changed: for a history that is given up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition, PageNumber, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use super::redo::{pages_changed, redoable};
use crate::Result;
use crate::log::{LogChain, LogNames, LogReader};

/// What the logs from one generation on changed.
#[derive(Clone, Debug, Default)]
pub struct LogChanges {
    /// Records.
    pub records: u64,
    /// Transactions that were committed. ESE: `Commit0`.
    pub commits: u64,
    /// The pages that were changed, by database.
    pub pages: Vec<(Signature, BTreeSet<PageNumber>)>,
    /// Pages of databases that the log does not name.
    pub unnamed_pages: u64,
    /// Behind the last record.
    pub end: LogPosition,
}

impl LogChanges {
    /// Reads logs in their order, and collects what the records from the generation `from` on changed. Logs before it complete
    /// records and macros that began there. `last_is_open`: the last log was not closed, so that a crash may have cut it off.
    ///
    /// Errors: a log is damaged or missing, or does not continue the one before it; a record is of a type that redo does not
    /// know. Then what was changed is not known.
    pub fn of(
        vfs: &Arc<dyn Vfs>,
        logs: &[(Generation, PathBuf)],
        from: Generation,
        last_is_open: bool,
    ) -> Result<LogChanges> {
        let directory = logs.first().and_then(|(_, path)| path.parent()).unwrap_or(Path::new("."));
        let reader = LogReader::received(vfs.clone(), LogNames::new(directory, ""));
        let start = LogPosition::new(from.0, 0, 0);
        let (mut chain, mut changes) = (LogChain::default(), LogChanges::default());
        let mut databases: BTreeMap<u8, Signature> = BTreeMap::new();
        let mut macros = OpenMacros::default();
        for (index, (generation, path)) in logs.iter().enumerate() {
            reader.add(*generation, path);
            let log = reader.receive(*generation, &chain, last_is_open && index + 1 == logs.len())?;
            if index == 0 {
                let list = Attachment::decode_list(&log.header().attachment_list).unwrap_or_default();
                databases = list.into_iter().map(|entry| (entry.database.0, entry.signature)).collect();
            }
            chain = reader.visit_received(&log, &chain, |stored| {
                let record = redoable(&reader, &stored)?;
                match &record {
                    LogRecord::AttachDb(attach) => {
                        databases.insert(attach.database.0, attach.signature);
                    }
                    LogRecord::CreateDb(create) => {
                        databases.insert(create.database.0, create.signature);
                    }
                    _ => {}
                }
                let ended = macros.see(&record);
                if stored.end > start {
                    // The macro would be undone as a whole without the record.
                    ended.iter().for_each(|record| changes.add(record, &databases));
                    changes.add(&record, &databases);
                    changes.end = stored.end;
                } else {
                    macros.keep(record);
                }
                Ok(())
            })?;
        }
        Ok(changes)
    }

    fn add(&mut self, record: &LogRecord, databases: &BTreeMap<u8, Signature>) {
        self.records += 1;
        self.commits += u64::from(matches!(record, LogRecord::Commit0(_)));
        let mut pages = pages_changed(record).peekable();
        if pages.peek().is_none() {
            return;
        }
        match record.database().and_then(|database| databases.get(&database.0)) {
            Some(database) => match self.pages.iter_mut().find(|(known, _)| known == database) {
                Some((_, known)) => known.extend(pages),
                None => self.pages.push((*database, pages.collect())),
            },
            None => self.unnamed_pages += pages.count() as u64,
        }
    }
}

/// The records of macros that have begun and not ended. A page has the changes of a whole macro or none, so a macro that ends
/// behind the start changes its pages there.
#[derive(Default)]
struct OpenMacros(BTreeMap<u16, Vec<LogRecord>>);

impl OpenMacros {
    /// Sees a record. Returns the kept records of the macro that ends with it.
    fn see(&mut self, record: &LogRecord) -> Vec<LogRecord> {
        match record {
            LogRecord::MacroBegin(begin) => {
                self.0.insert(begin.procid, Vec::new());
                Vec::new()
            }
            LogRecord::MacroCommit(end) => self.0.remove(&end.procid).unwrap_or_default(),
            LogRecord::MacroAbort(end) => {
                self.0.remove(&end.procid);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Keeps a record until its macro ends.
    fn keep(&mut self, record: LogRecord) {
        if let Some(kept) = record.session().and_then(|session| self.0.get_mut(&session)) {
            kept.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use ese_format::log::record::{
        CreateSingleExtentFdp, DatabaseIdInLog, Macro, PageChange, PageChangeFlags,
    };
    use ese_format::{DbTime, TreeId};

    use super::*;

    fn page(procid: u16, page: u32) -> LogRecord {
        let change = PageChange {
            procid,
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(page),
            after: DbTime(2),
            before: DbTime(1),
            begin0: 0,
            level: 0,
            line: 0,
            flags: PageChangeFlags::empty(),
        };
        let (tree, parent_root) = (TreeId(7), None);
        LogRecord::CreateSingleExtentFdp(CreateSingleExtentFdp {
            change,
            tree,
            parent_root,
            primary_pages: 1,
            page_flags: 0,
        })
    }

    #[test]
    fn a_macro_gives_its_records_when_it_is_committed_and_only_then() {
        let mark = |procid| Macro { procid, db_time: DbTime(1) };
        let mut macros = OpenMacros::default();
        macros.keep(page(1, 10));
        for begin in [LogRecord::MacroBegin(mark(1)), LogRecord::MacroBegin(mark(2))] {
            assert!(macros.see(&begin).is_empty());
        }
        macros.keep(page(1, 11));
        macros.keep(page(2, 12));
        macros.keep(page(3, 13));
        macros.keep(page(1, 14));
        let pages = |records: Vec<LogRecord>| -> Vec<u32> {
            records.iter().flat_map(pages_changed).map(PageNumber::get).collect()
        };
        assert_eq!(pages(macros.see(&LogRecord::MacroCommit(mark(1)))), [11, 14]);
        assert!(macros.see(&LogRecord::MacroCommit(mark(1))).is_empty());
        assert!(macros.see(&LogRecord::MacroAbort(mark(2))).is_empty());
        assert!(macros.see(&LogRecord::MacroCommit(mark(2))).is_empty());
    }
}
