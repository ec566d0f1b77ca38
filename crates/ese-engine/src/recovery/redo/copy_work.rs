//! What redo does beyond recovery on a copy: compares pages with what the active side has logged, takes images of pages that the
//! active side asks for, and repairs pages with images of the active side.
//!
//! An image belongs to a record of a scan, which says how the page was at that position. It is used only there, and only if the
//! record confirms it: so the page is exactly what redo would have made of a good page. The changes in front of it are left out.

use std::path::PathBuf;

use super::comparison::{Captured, Compared, Comparison, Images, Logged};
use super::page_redo::{PageRedo, PageRole};
use super::{Redo, RedoRecord};
use crate::cache::{FileId, PageKey};
use crate::core::Core;
use crate::events::{EventKind, PageDivergence};
use crate::recovery::replay_window::BufferedRecord;
use crate::{Error, Result};
use ese_format::log::record::LogRecord;
use ese_format::{DbTime, LogPosition, PageNumber};

/// The work for a copy, and what came of it since it was asked for.
#[derive(Default)]
pub(in crate::recovery) struct CopyWork {
    /// Images that wait for their records.
    pub images: Images,
    pub done: CopyOutcome,
}

/// What redo found and did on a copy.
#[derive(Default)]
pub(in crate::recovery) struct CopyOutcome {
    pub compared: Vec<Compared>,
    pub captured: Vec<Captured>,
    /// Pages that were replaced by images, and where the records of these stand.
    pub repaired: Vec<(FileId, PageNumber, LogPosition)>,
}

impl CopyOutcome {
    pub fn add(&mut self, other: CopyOutcome) {
        self.compared.extend(other.compared);
        self.captured.extend(other.captured);
        self.repaired.extend(other.repaired);
    }
}

impl CopyWork {
    /// Adds what a window has brought, and reports it.
    pub fn add(&mut self, outcome: CopyOutcome, core: &Core) {
        let path = |file| core.file(file).map_or_else(PathBuf::new, |database| database.path.clone());
        for compared in &outcome.compared {
            if let Comparison::Differs(kind) = compared.comparison {
                let [active_time, copy_time] = compared.times;
                core.events.report(EventKind::PageDiffers(PageDivergence {
                    database: path(compared.file),
                    page: compared.page,
                    position: compared.position,
                    kind,
                    active_time,
                    copy_time,
                }));
            }
        }
        for (file, page, position) in &outcome.repaired {
            self.images.remove(position);
            let event = EventKind::PageRepaired { database: path(*file), page: *page, on_copy: true };
            core.events.report(event);
        }
        self.done.add(outcome);
    }
}

impl Redo {
    /// From now on the databases are those of a copy.
    pub fn work_as_copy(&mut self) {
        self.copy.get_or_insert_default();
    }

    /// Whether the databases are those of a copy.
    pub fn is_of_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// What is done for the copy.
    pub fn copy_work(&mut self) -> Option<&mut CopyWork> {
        self.copy.as_mut()
    }

    /// Pages that lack changes, because they could not be read.
    pub fn bad_pages(&self) -> impl Iterator<Item = (PageKey, &Error)> {
        self.unreadable.iter().map(|(key, (error, _))| (*key, error))
    }

    /// Collects a record for which a copy looks at a page.
    pub(super) fn note_for_copy(&mut self, buffered: BufferedRecord, record: &LogRecord) -> Result<()> {
        let (page, role) = match record {
            LogRecord::PagePatchRequest(request) => (Some(request.page), PageRole::Request),
            _ => (Logged::of(record).map(|logged| logged.page), PageRole::Check),
        };
        let (Some(page), Some(id), true) = (page, record.database(), self.copy.is_some()) else {
            return Ok(());
        };
        let key = self.database(id.0)?.page_key(page);
        let record_index = self.pending.records.len() as u32;
        // Whatever the time of the page is, it has not been looked at.
        self.pending.pages.push(PageRedo { key, after: DbTime(u64::MAX), record_index, role });
        let (needs_from, needs_until) = (buffered.start, buffered.end);
        let redo_record =
            RedoRecord { buffered, needs_from, needs_until, key: None, transaction: None, undoes: None };
        self.pending.records.push(redo_record);
        Ok(())
    }
}
