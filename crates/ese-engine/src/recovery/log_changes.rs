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
    /// records that began there. `last_is_open`: the last log was not closed, so that a crash may have cut it off.
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
                if stored.end > start {
                    changes.add(&record, &databases);
                    changes.end = stored.end;
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
