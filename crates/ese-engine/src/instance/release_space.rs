//! Returns the free space of a database to the file system.

use ese_format::TreeId;
use jetcell_sync::Arc;

use super::Instance;
use crate::database::Database;
use crate::events::{EventKind, ShrinkReport, SpaceEvent, TrimReport};
use crate::space::SpaceLock;
use crate::transaction::ReadView;
use crate::{Result, UsageError};

impl Instance {
    /// Removes the available pages at the end of the file. Trees first return their large available extents to the
    /// database root. No pages are moved, so a page in use prevents the removal of all pages before it.
    ///
    /// Sessions continue to work. While the file is shortened, sessions wait if they need new pages.
    ///
    /// Returns [`crate::Error::Usage`] while copies follow the log, [`crate::Error::Backup`] while a backup is running,
    /// and an error if the instance refuses changes.
    #[doc(alias = "JetResizeDatabase")]
    #[doc(alias = "JET_bitResizeDatabaseOnlyShrink")]
    pub fn shrink(&self, database: &Arc<Database>) -> Result<ShrinkReport> {
        let began = self.options.vfs.clock().monotonic();
        let done = self.returning_space(database, |released, space| {
            let (before, after) = space.shrink()?;
            Ok(ShrinkReport {
                released,
                pages_before: before.into(),
                pages_after: after.into(),
                page_bytes: database.page_size().bytes() as u64,
                milliseconds: self.options.vfs.clock().monotonic().saturating_sub(began).as_millis() as u64,
            })
        });
        self.report_space(
            database,
            match &done {
                Ok(report) => SpaceEvent::Shrunk(*report),
                Err(error) => SpaceEvent::ShrinkFailed { error: error.jet_code(), what: error.full_text() },
            },
        );
        done
    }

    /// Punches holes in the file where the database root has large available extents. These extents stay available,
    /// and read as zeros. Trees first return their large available extents to the root.
    ///
    /// Sessions continue to work. While holes are punched, sessions that need new pages wait.
    ///
    /// Returns [`crate::Error::Usage`] if the file system cannot punch holes or if copies follow the log. Returns
    /// [`crate::Error::Backup`] while a backup is running, and an error if the instance refuses changes.
    #[doc(alias = "JET_paramEnableShrinkDatabase")]
    pub fn trim(&self, database: &Arc<Database>) -> Result<TrimReport> {
        self.report_space(database, SpaceEvent::TrimStarted);
        let done = database.file.check_holes().and_then(|()| {
            self.returning_space(database, |released, space| {
                let (holes, pages) = space.trim()?;
                let page_bytes = database.page_size().bytes() as u64;
                Ok(TrimReport { released, holes, pages, page_bytes })
            })
        });
        self.report_space(
            database,
            match &done {
                Ok(TrimReport { holes: 0, .. }) => SpaceEvent::NothingToTrim,
                Ok(report) => SpaceEvent::Trimmed(*report),
                Err(error) => SpaceEvent::TrimFailed { error: error.jet_code(), what: error.full_text() },
            },
        );
        done
    }

    fn report_space(&self, database: &Database, event: SpaceEvent) {
        self.core.events.report(EventKind::Space { database: database.path().to_path_buf(), event });
    }

    /// Runs `work` with backups and scans of the file blocked.
    fn returning_space<T>(
        &self,
        database: &Arc<Database>,
        work: impl FnOnce(u64, &SpaceLock<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.options.log.waypoint_latency > 0 {
            // The log that records the release could be lost. In that case, the pages would be in use again.
            return Err(UsageError::SpaceWithWaypointLatency.into());
        }
        if self.core.log().has_copies() {
            // A failover continues without the newest generations of this side. These generations may contain the
            // record of the release.
            return Err(UsageError::SpaceWithCopies.into());
        }
        self.core.check_writable()?;
        let _one = self.attaching.lock();
        self.core.check_no_backup()?;
        if self.core.database(database.file_id()).is_none_or(|attached| !Arc::ptr_eq(&attached, database)) {
            return Err(UsageError::NotAttached(database.path().to_path_buf()).into());
        }
        let released = self.release(database)?;
        let _scan = database.scan.paused();
        work(released, &SpaceLock::new(&database.file))
    }

    /// Makes all trees return their large available extents to the database root. Returns the number of pages
    /// returned.
    fn release(&self, database: &Arc<Database>) -> Result<u64> {
        let mut released = 0;
        let mut after = TreeId(0);
        loop {
            // Cleanup removes trees. While it is paused, every tree in the list continues to exist.
            let _paused = self.core.ended.pause();
            let trees = database.system.all_trees(&ReadView::latest())?;
            let Some(tree) = trees.iter().filter(|tree| tree.id > after).min_by_key(|tree| tree.id) else {
                return Ok(released);
            };
            after = tree.id;
            released += SpaceLock::new(&database.file).release(tree.root)?;
        }
    }
}
