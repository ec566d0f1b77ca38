//! Work that redo does on a copy in addition to recovery: compares pages with the state that the active side has
//! logged, captures images of pages that the active side requests, and repairs pages using images from the active
//! side.
//!
//! An image belongs to a scan record, which describes the page at that position. The image is used only there, and
//! only if it matches the record. Therefore the page equals the result that redo would have produced from a good
//! page. Earlier changes to the page are skipped.

use std::path::PathBuf;

use super::comparison::{CapturedPage, ComparedPage, ComparisonResult, LoggedPageState, ReceivedImages};
use super::page_redo::{PageRedo, PageRole};
use super::{Redo, RedoRecord};
use crate::cache::{AttachedFileId, PageKey};
use crate::core::Core;
use crate::events::{EventKind, PageDivergence};
use crate::recovery::replay_window::BufferedRecord;
use crate::{Error, Result};
use ese_format::log::record::LogRecord;
use ese_format::{DbTime, LogPosition, PageNumber};

/// Work for a copy, and its results since they were last taken.
#[derive(Default)]
pub(in crate::recovery) struct CopyTasks {
    /// Images that wait for their records.
    pub images: ReceivedImages,
    pub done: CopyOutcome,
}

/// Results of redo on a copy.
#[derive(Default)]
pub(in crate::recovery) struct CopyOutcome {
    pub compared: Vec<ComparedPage>,
    pub captured: Vec<CapturedPage>,
    /// Pages that were replaced by images, each with the position of the image's record.
    pub repaired: Vec<(AttachedFileId, PageNumber, LogPosition)>,
}

impl CopyOutcome {
    pub fn add(&mut self, other: CopyOutcome) {
        self.compared.extend(other.compared);
        self.captured.extend(other.captured);
        self.repaired.extend(other.repaired);
    }
}

impl CopyTasks {
    /// Adds and reports the results of a window.
    pub fn add(&mut self, outcome: CopyOutcome, core: &Core) {
        let path = |file| core.file(file).map_or_else(PathBuf::new, |database| database.path.clone());
        for compared in &outcome.compared {
            if let ComparisonResult::Differs(kind) = compared.comparison {
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
    /// Marks the databases as belonging to a copy.
    pub fn mark_as_copy(&mut self) {
        self.copy.get_or_insert_default();
    }

    /// Returns whether the databases belong to a copy.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Returns the work for the copy, if the databases belong to one.
    pub fn copy_tasks(&mut self) -> Option<&mut CopyTasks> {
        self.copy.as_mut()
    }

    /// Returns the pages that lack changes because they could not be read.
    pub fn bad_pages(&self) -> impl Iterator<Item = (PageKey, &Error)> {
        self.unreadable.iter().map(|(key, (error, _))| (*key, error))
    }

    /// Collects a record that requires a copy to check a page or capture an image of it.
    pub(super) fn collect_for_copy(&mut self, buffered: BufferedRecord, record: &LogRecord) -> Result<()> {
        let (page, role) = match record {
            LogRecord::PagePatchRequest(request) => (Some(request.page), PageRole::Request),
            _ => (LoggedPageState::from_record(record).map(|logged| logged.page), PageRole::Check),
        };
        let (Some(page), Some(id), true) = (page, record.database(), self.copy.is_some()) else {
            return Ok(());
        };
        let key = self.database(id.0)?.page_key(page);
        let record_index = self.pending.records.len() as u32;
        // The maximum time makes redo process this entry regardless of the page's time.
        self.pending.pages.push(PageRedo { key, after: DbTime(u64::MAX), record_index, role });
        let (needs_from, needs_until) = (buffered.start, buffered.end);
        let redo_record =
            RedoRecord { buffered, needs_from, needs_until, key: None, transaction: None, undoes: None };
        self.pending.records.push(redo_record);
        Ok(())
    }
}
