//! LUNs of an array: creation, list, cleaning and deletion.

use std::time::Duration;

use jetcell_array::BLOCK;
use jetcell_input::number::human_bytes;
use jetcell_luns::{CleaningProgress, LunStatus, LunVolume, WriteLogOptions, check_lun_name};
use serde_json::json;

use super::context::OperationContext;
use super::request::NewLun;
use super::result::{LunSummary, OperationResult};
use crate::directory::{ArrayEventSeverity, absolute};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::members::is_link_to_file;
use crate::running::{
    ArrayContent, ArrayStartOptions, MIN_PAUSE, RunningArray, RunningContent, log_options,
    maintenance_throttle,
};

impl NewLun {
    /// Fails if the name or the size of the LUN is invalid.
    pub(super) fn check(&self) -> Result<()> {
        if self.size.0 == 0 || !self.size.0.is_multiple_of(BLOCK as u64) {
            return Err(Error::LunSize(self.size));
        }
        Ok(check_lun_name(&self.name)?)
    }

    /// Starts an array as a volume of LUNs. No other process may be using the array.
    pub(super) fn start(
        &self,
        start: &ArrayStartOptions,
        environment: &ServiceEnvironment,
    ) -> Result<RunningContent> {
        let mut running = start.start(environment)?;
        let array = start.array.display().to_string();
        let is_volume = match LunVolume::exists_on(&mut running.array).in_array(&array) {
            Ok(true) if self.log.is_some() => return running.refuse(Error::WriteLogExists { array }),
            Ok(is_volume) => is_volume,
            Err(error) => return running.refuse(error),
        };
        if let Some(log) = &self.log {
            running.files.directory.write_log = Some(absolute(log)?);
            running.files.directory.save()?;
        }
        let log = WriteLogOptions { bytes: self.log_size.0, ..log_options(&running, false) };
        if !is_volume && is_link_to_file(&log.path) {
            running.files.directory.write_log = None;
            running.files.directory.save()?;
            return running.refuse(Error::WriteLogIsLink(log.path));
        }
        let RunningArray { array: blocks, mut files, .. } = running;
        let volume = if is_volume { LunVolume::start(blocks, &log) } else { LunVolume::create(blocks, &log) };
        match volume.in_array(array) {
            Ok(volume) => Ok(RunningContent { content: ArrayContent::Luns(Box::new(volume)), files }),
            Err(error) => {
                if self.log.is_some() {
                    files.directory.write_log = None;
                    files.directory.save()?;
                }
                Err(error)
            }
        }
    }

    pub(super) fn perform(&self, on: &OperationContext<'_>) -> Result<OperationResult> {
        if on.concurrent_activity.is_some() && self.log.is_some() {
            return Err(Error::WriteLogExists { array: on.name.into() });
        }
        on.with_lun_volume(|volume| volume.create_lun(&self.name, self.size.0 / BLOCK as u64))?;
        let text = format!("LUN {} of {} was created.", self.name, human_bytes(self.size.0));
        let figures = json!({ "lun": self.name, "bytes": self.size.0 });
        on.event("lun_created", ArrayEventSeverity::Information, &text, figures);
        Ok(OperationResult::LunCreated { lun: self.name.clone(), bytes: self.size.0 })
    }
}

/// Returns the LUNs with the space that they use.
pub(super) fn list(on: &OperationContext<'_>) -> Result<OperationResult> {
    let (luns, free_bytes) = on.with_lun_volume(|volume| Ok((volume.luns()?, volume.free_bytes())))?;
    let summary = |LunStatus { name, bytes, used_bytes, snapshots }| LunSummary {
        name,
        bytes,
        used_bytes,
        snapshots: snapshots.len(),
    };
    Ok(OperationResult::Luns { free_bytes, luns: luns.into_iter().map(summary).collect() })
}

/// Cleans until a step no longer frees rows. If a load is running, cleaning pauses like a rebuild.
pub(super) fn clean(on: &OperationContext<'_>) -> Result<OperationResult> {
    let cancel = &on.control.cancel;
    let mut throttle = maintenance_throttle();
    let meter = on.with_array(|array| Ok(array.load_meter()))?;
    let mut step = || -> Result<(CleaningProgress, Duration)> {
        on.with_lun_volume(|volume| {
            let (cleaned, pause) = throttle.step(&meter, |_| volume.clean_step());
            Ok((cleaned?, pause))
        })
    };
    let (first, mut pause) = step()?;
    let (mut blocks_moved, mut last) = (first.moved, first);
    while last.moved > 0 && last.whole_rows_after > last.whole_rows_before && !cancel.is_cancelled() {
        if on.concurrent_activity.is_some() {
            cancel.sleep(pause.max(MIN_PAUSE));
        }
        (last, pause) = step()?;
        blocks_moved += last.moved;
    }
    let (free_rows, free_rows_before) = (last.whole_rows_after, first.whole_rows_before);
    Ok(OperationResult::LunsCleaned { blocks_moved, free_rows, free_rows_before })
}

/// Deletes a LUN that is not in use.
pub(super) fn delete(on: &OperationContext<'_>, name: &str) -> Result<OperationResult> {
    on.refuse_used_lun(name)?;
    on.with_lun_volume(|volume| volume.delete_lun(name))?;
    let text = format!("LUN {name} was deleted.");
    on.event("lun_deleted", ArrayEventSeverity::Information, &text, json!({ "lun": name }));
    Ok(OperationResult::LunDeleted { lun: name.into() })
}
