//! Changes to the members of an array: removal, replacement, spares and growth.

use std::path::PathBuf;

use jetcell_array::MemberPurpose;
use jetcell_input::quantity::ByteRate;
use serde_json::json;

use super::context::OperationContext;
use super::rebuild::rebuild;
use super::request::NewMembers;
use super::result::OperationResult;
use crate::description::ArrayHealth;
use crate::directory::ArrayEventSeverity;
use crate::error::{InArray, Result};
use crate::members::{CreatedMemberFiles, SharedDevice};
use crate::running::ArrayGuard;

/// Removes a member as if it had failed.
pub(super) fn fail(on: &OperationContext<'_>, member: &str) -> Result<OperationResult> {
    let slot = on.find_slot(member)?;
    let mut status = on.with_array(|array| array.fail(slot).map(|()| array.status()))?;
    // If the array is in use, the maintainer records all failures.
    if on.concurrent_activity.is_none() {
        let text = format!("The member {member} of slot {slot} was removed.");
        let figures = json!({ "slot": slot, "member": jetcell_input::json_path(member) });
        on.event("member_failed", ArrayEventSeverity::Warning, &text, figures);
    }
    let health = ArrayHealth::new(status.state, status.lost_rows);
    let replacement = status.slots.swap_remove(slot).replacement;
    Ok(OperationResult::MemberRemoved { slot, health, replacement })
}

impl NewMembers {
    /// Replaces the member of a slot with a file, and rebuilds the slot.
    pub(super) fn replace(
        &self,
        on: &OperationContext<'_>,
        member: &str,
        rate: Option<ByteRate>,
    ) -> Result<OperationResult> {
        let slot = on.find_slot(member)?;
        self.add(on, MemberPurpose::Replacement(slot))?;
        for file in &self.files {
            let text = format!("In slot {slot}, {} replaces {member}.", file.display());
            let figures = json!({ "slot": slot, "member": jetcell_input::json_path(file) });
            on.event("member_replaced", ArrayEventSeverity::Information, &text, figures);
        }
        rebuild(on, rate)
    }

    /// Adds the files as spares.
    pub(super) fn add_spares(&self, on: &OperationContext<'_>) -> Result<OperationResult> {
        self.add(on, MemberPurpose::Spare)?;
        for file in &self.files {
            let text = format!("{} was added as a spare.", file.display());
            on.event(
                "spare_added",
                ArrayEventSeverity::Information,
                &text,
                json!({ "member": jetcell_input::json_path(file) }),
            );
        }
        Ok(OperationResult::SparesAdded(self.files.clone()))
    }

    /// Adds the files as members, and their space to the array.
    pub(super) fn grow(&self, on: &OperationContext<'_>) -> Result<OperationResult> {
        let is_lun_volume = on.with_access(|held| Ok(matches!(held, ArrayGuard::Luns(_))))?;
        let members = self.add(on, MemberPurpose::DataColumns)?;
        let text = format!("The array has grown by {} members.", members.len());
        on.event(
            "array_grown",
            ArrayEventSeverity::Information,
            &text,
            json!({ "members": jetcell_input::json_paths(&members) }),
        );
        let (bytes, slots) = on.with_array(|array| Ok((array.layout().bytes(), array.layout().slots)))?;
        Ok(OperationResult::Grown { slots, bytes, is_lun_volume })
    }

    /// Adds files as members, and returns their paths. If that fails, the array and the files are unchanged.
    fn add(&self, on: &OperationContext<'_>, part: MemberPurpose) -> Result<Vec<PathBuf>> {
        let paths = self.files.iter().map(|path| on.resolve_path(path)).collect::<Result<Vec<_>>>()?;
        // Simulated drives are sparse files on one device and need no reserved space.
        let is_simulated = on.files().directory.simulated_drive.is_some();
        let size = self.size.map(|size| size.0);
        let files = CreatedMemberFiles::create_missing(&*on.vfs, &paths, size, is_simulated)?;
        let admission = on.with_array(|array| array.member_requirements(part, &paths))?;
        // The array is not locked here. Otherwise, the load would have to wait while slow drives are prepared.
        let members = paths.iter().map(|path| admission.prepare(path, self.force));
        let members = members.collect::<jetcell_array::Result<Vec<_>>>().in_array(on.name)?;
        {
            // The file lock is held, so no other thread writes the member list between the two steps.
            let mut of_array = on.files();
            of_array.record_candidates(&paths)?;
            on.with_access(|held| match held {
                ArrayGuard::Luns(volume) if part == MemberPurpose::DataColumns => volume.add_members(members),
                held => held.array().admit(members),
            })?;
        }
        files.keep();
        on.save_members()?;
        if !is_simulated {
            let all = on.files().directory.members.clone();
            SharedDevice::find_all(&all).into_iter().for_each(on.report_shared_device);
        }
        Ok(paths)
    }
}
