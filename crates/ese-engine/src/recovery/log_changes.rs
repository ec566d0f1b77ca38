//! Collects the changes in the part of a log whose history is being abandoned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition, PageNumber, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use super::redo::{pages_changed, redoable};
use crate::Result;
use crate::log::{LogChain, LogNames, LogReader};

/// Summary of the changes recorded in the logs from a given generation on.
#[derive(Clone, Debug, Default)]
pub struct LogChanges {
    /// Number of records.
    pub records: u64,
    /// Number of committed transactions. ESE: `Commit0`.
    pub commits: u64,
    /// Changed pages, grouped by database.
    pub pages: Vec<(Signature, BTreeSet<PageNumber>)>,
    /// Number of changed pages in databases that the log does not name.
    pub unnamed_pages: u64,
    /// Position after the last record.
    pub end: LogPosition,
}

impl LogChanges {
    /// Reads logs in order, and collects the changes from generation `from` on. Earlier logs in the list complete the
    /// records and macros that began in them. `last_is_open` means that the last log was not closed, so a crash may
    /// have truncated it.
    ///
    /// Returns an error if a log is damaged or missing, if it does not continue the previous log, or if a record has
    /// a type that redo does not know. In that case the changes are not known.
    pub fn from_logs(
        vfs: &Arc<dyn Vfs>,
        logs: &[(Generation, PathBuf)],
        from: Generation,
        last_is_open: bool,
    ) -> Result<LogChanges> {
        let directory = logs.first().and_then(|(_, path)| path.parent()).unwrap_or(Path::new("."));
        let reader = LogReader::received(vfs.clone(), LogNames::new(directory, FileStem::E00));
        let start = LogPosition::new(from.0, 0, 0);
        let (mut chain, mut changes) = (LogChain::default(), LogChanges::default());
        let mut databases: BTreeMap<u8, Signature> = BTreeMap::new();
        let mut open = OpenGroups::default();
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
                let ended = open.process(&record);
                if stored.end > start {
                    // The whole macro or group counts as changed here, because without this record it would be undone.
                    ended.iter().for_each(|record| changes.add(record, &databases));
                    changes.add(&record, &databases);
                    changes.end = stored.end;
                } else {
                    open.store(record);
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

/// Macros and groups that have begun but not ended, with their records. A page never has only some of their changes. If
/// a macro or group ends after the start, all its changes therefore count as changes after the start.
#[derive(Default)]
struct OpenGroups {
    /// Open macros by session. Macros inside a group are not included, because they take effect only with the group.
    macros: BTreeMap<u16, Vec<LogRecord>>,
    /// The open group: how many of its records have not been read yet, and the records stored so far.
    group: Option<(u32, Vec<LogRecord>)>,
}

impl OpenGroups {
    /// Processes a record. If it ends a macro or group, returns that group's stored records.
    fn process(&mut self, record: &LogRecord) -> Vec<LogRecord> {
        if let Some(missing) = record.marked_group() {
            self.group = (missing > 0).then_some((missing, Vec::new()));
            return Vec::new();
        }
        // This matches how redo treats interrupted groups and records that do not count as part of a group.
        match record {
            LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_) => self.group = None,
            record if !record.counts_in_group() => return Vec::new(),
            _ => {}
        }
        if let Some((missing, _)) = &mut self.group {
            *missing -= 1;
            let has_ended = *missing == 0;
            return self.group.take_if(|_| has_ended).map(|(_, kept)| kept).unwrap_or_default();
        }
        match record {
            LogRecord::MacroBegin(begin) => {
                self.macros.insert(begin.procid, Vec::new());
                Vec::new()
            }
            LogRecord::MacroCommit(end) => self.macros.remove(&end.procid).unwrap_or_default(),
            LogRecord::MacroAbort(end) => {
                self.macros.remove(&end.procid);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Stores a record until its macro or group ends.
    fn store(&mut self, record: LogRecord) {
        let of_macro = record.session().and_then(|session| self.macros.get_mut(&session));
        if let Some(kept) = self.group.as_mut().map(|(_, kept)| kept).or(of_macro) {
            kept.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use ese_format::log::record::{
        CreateSingleExtentFdp, DatabaseIdInLog, Macro, PageChange, PageChangeFlags, RecoveryUndo, Trace,
    };
    use ese_format::{DbTime, LogTime, TreeId};

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

    fn pages(records: Vec<LogRecord>) -> Vec<u32> {
        records.iter().flat_map(pages_changed).map(PageNumber::get).collect()
    }

    #[test]
    fn a_macro_yields_records_only_when_committed() {
        let mark = |procid| Macro { procid, db_time: DbTime(1) };
        let mut macros = OpenGroups::default();
        macros.store(page(1, 10));
        for begin in [LogRecord::MacroBegin(mark(1)), LogRecord::MacroBegin(mark(2))] {
            assert!(macros.process(&begin).is_empty());
        }
        macros.store(page(1, 11));
        macros.store(page(2, 12));
        macros.store(page(3, 13));
        macros.store(page(1, 14));
        assert_eq!(pages(macros.process(&LogRecord::MacroCommit(mark(1)))), [11, 14]);
        assert!(macros.process(&LogRecord::MacroCommit(mark(1))).is_empty());
        assert!(macros.process(&LogRecord::MacroAbort(mark(2))).is_empty());
        assert!(macros.process(&LogRecord::MacroCommit(mark(2))).is_empty());
    }

    #[test]
    fn a_group_yields_records_only_after_the_last_record_arrives() {
        let mark = Macro { procid: 1, db_time: DbTime(1) };
        let seen = |open: &mut OpenGroups, record: LogRecord| {
            let ended = pages(open.process(&record));
            open.store(record);
            ended
        };
        let whole = |records: u32| {
            let mut open = OpenGroups::default();
            for record in [
                LogRecord::group_mark(records),
                LogRecord::MacroBegin(mark),
                page(1, 10),
                LogRecord::Nop,
                LogRecord::ForceLogRollover(Trace { procid: 0, text: Vec::new() }),
                page(1, 11),
                LogRecord::MacroCommit(mark),
            ] {
                seen(&mut open, record);
            }
            open
        };
        let mut open = whole(6);
        assert!(seen(&mut open, page(1, 12)).is_empty());
        assert_eq!(seen(&mut open, page(1, 13)), [10, 11, 12]);
        assert!(seen(&mut open, page(1, 14)).is_empty());
        // The group has already ended.
        assert!(seen(&mut whole(4), page(1, 12)).is_empty());
        // The last record of the group is missing.
        let mut open = whole(6);
        open.process(&LogRecord::RecoveryUndo2(RecoveryUndo { time: LogTime::NONE }));
        assert!((12..20).all(|number| seen(&mut open, page(1, number)).is_empty()));
    }
}
