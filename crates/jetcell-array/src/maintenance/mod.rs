//! Array maintenance: rebuilding, copying and scrubbing in small steps.
//!
//! A step processes a limited number of rows. The caller decides how many steps run between reads and writes;
//! [`ArrayMaintenanceThrottle`] helps with this.

#[cfg(test)]
mod concurrent_load_tests;
#[cfg(test)]
mod interruption_tests;
#[cfg(test)]
mod lost_row_tests;
mod rebuild;
mod scrub;
#[cfg(test)]
mod tests;
mod throttle;
mod zone_readahead;

use self::rebuild::MemberRebuild;
use self::scrub::RowScrub;
use crate::array::Array;
use crate::error::Result;
use crate::geometry::{ArrayLayout, BLOCK, ZONE_ROWS};

pub use rebuild::RebuildProgress;
pub use scrub::{ParityMismatch, ScrubReport};
pub use throttle::ArrayMaintenanceThrottle;

/// Maximum number of bytes that a step of a rebuild or scrub reads from all members together. `MAX_STEP_ZONES` is the
/// maximum number of zones in a step.
const MAX_STEP_BYTES: u64 = 64 << 20;
const MAX_STEP_ZONES: u64 = 16;

/// Returns the maximum number of rows whose blocks may be in memory at the same time.
fn max_rows_in_memory(layout: &ArrayLayout) -> u64 {
    let zones = MAX_STEP_BYTES / (layout.slots * BLOCK) as u64 / ZONE_ROWS;
    zones.clamp(1, MAX_STEP_ZONES) * ZONE_ROWS
}

#[cfg(any(test, feature = "testing"))]
impl Array {
    /// Sets the number of zones after which the progress is saved in the superblocks. The default is 64.
    pub fn set_zones_per_save(&mut self, zones: u64) {
        self.zones_per_save = zones.max(1);
    }
}

impl Array {
    /// Rebuilds or copies up to `most` consecutive rows, in one zone or in several whole zones. All members work
    /// concurrently, and each zone is one transfer per member. If an operation of the load is waiting, the call
    /// returns after the current zone.
    pub fn rebuild_rows(&mut self, most: u64) -> Result<RebuildProgress> {
        self.members().check_writable()?;
        let mut rows_lost = 0;
        let most = most.clamp(1, max_rows_in_memory(self.layout()));
        if let Some((rows, targets)) = MemberRebuild(self.row_writer()).next_rows(most) {
            self.members_mut().records.trim();
            let (end, lost) =
                self.maintain(|writer, load| MemberRebuild(writer).run(load, rows.clone(), &targets))?;
            rows_lost = lost;
            let mut rebuild = MemberRebuild(self.row_writer());
            let zones = rebuild.mark_rebuilt(rows.start..end, targets)?;
            rebuild.promote()?;
            self.zones_since_save += zones;
            if self.zones_since_save >= self.zones_per_save {
                self.members_mut().save_config()?;
                self.zones_since_save = 0;
            }
        }
        self.members_mut().save_changes()?;
        Ok(RebuildProgress { rows_lost, ..self.rebuild_progress() })
    }

    /// Returns the progress of the rebuild.
    pub fn rebuild_progress(&self) -> RebuildProgress {
        RebuildProgress::new(&self.members().config)
    }

    /// Checks up to `most` zones, and adds the results to the report. Members read concurrently and ahead of the
    /// check. If an operation of the load is waiting, the call returns after the current zone. Returns true if the
    /// pass is complete.
    pub fn scrub_zones(&mut self, most: u64, report: &mut ScrubReport) -> Result<bool> {
        self.members().check_writable()?;
        let zones = self.layout().zones();
        let first = self.scrub_cursor().min(zones - 1);
        let most = zones.min(first + most.clamp(1, max_rows_in_memory(self.layout()) / ZONE_ROWS));
        report.damaged.resize(self.layout().slots, 0);
        // The scrub must check the records on the members, not those in the cache.
        let records = &mut self.members_mut().records;
        records.trim();
        (first..most).for_each(|zone| records.forget_zone(zone));
        let rows = first * ZONE_ROWS..most * ZONE_ROWS;
        let end = self.maintain(|writer, load| RowScrub { writer, report }.run(load, rows))? / ZONE_ROWS;
        report.zones += end - first;
        let is_last = end == zones;
        self.members_mut().config.scrub_cursor = if is_last { 0 } else { end };
        // Saving the cursor shows the progress to others, and allows an interrupted pass to resume.
        if is_last || first / self.zones_per_save != end / self.zones_per_save {
            self.members_mut().save_config()?;
        }
        self.members_mut().save_changes()?;
        Ok(is_last)
    }

    /// Returns the zone at which the scrub resumes.
    pub fn scrub_cursor(&self) -> u64 {
        self.members().config.scrub_cursor
    }

    /// Runs a complete pass.
    pub fn scrub(&mut self) -> Result<ScrubReport> {
        let mut report = ScrubReport::default();
        self.members_mut().config.scrub_cursor = 0;
        while !self.scrub_zones(u64::MAX, &mut report)? {}
        Ok(report)
    }
}
