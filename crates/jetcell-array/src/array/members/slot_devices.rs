//! Maps slots to devices, and handles failed members.

use jetcell_vfs::{File, IoReason, is_power_off};

use super::transfers::TransferSegment;
use super::{ArrayMode, MemberSet};
use crate::error::{ArrayError, Result};
use crate::geometry::ZONE_ROWS;
use crate::member::{Extents, MemberDevice, MemberId, SlotConfig};

impl MemberSet {
    /// Returns the device of a member, unless the member failed or is missing.
    pub fn device_of(&self, member: MemberId) -> Option<usize> {
        let serves = |device: &MemberDevice| member != 0 && device.member == member && !device.failed;
        self.devices.iter().position(serves)
    }

    /// Returns the devices that have the block of a cell.
    pub fn sources(&self, row: u64, cell: usize) -> impl Iterator<Item = usize> + use<> {
        let slot = self.config.layout.slot(row, cell);
        let config = &self.config.slots[slot];
        let has_zone = config.rebuilt.contains(row / ZONE_ROWS);
        let has_row = |device: &usize| {
            has_zone
                || self
                    .partial_rebuild
                    .as_ref()
                    .is_some_and(|begun| begun.has_rebuilt_row(slot, *device, row))
        };
        let replacement = self.device_of(config.replacement).filter(has_row);
        self.device_of(config.member).into_iter().chain(replacement)
    }

    /// Returns the devices that receive the writes to a slot.
    pub fn targets(&self, slot: usize) -> impl Iterator<Item = usize> + use<> {
        let slot = &self.config.slots[slot];
        self.device_of(slot.member).into_iter().chain(self.device_of(slot.replacement))
    }

    /// Returns the slots for which no member has all blocks.
    pub fn lost_slots(&self) -> Vec<usize> {
        let is_lost = |slot: &usize| self.device_of(self.config.slots[*slot].member).is_none();
        (0..self.config.slots.len()).filter(is_lost).collect()
    }

    /// Returns true if the level tolerates the loss of these slots.
    pub fn tolerates_loss(&self, lost: &[usize]) -> bool {
        self.config.layout.tolerates_loss(lost)
    }

    /// Processes the result of a write to a device. After an error, the device is removed from the array. If the
    /// level does not tolerate this loss, the array stops.
    pub fn handle_write_result(&mut self, device: usize, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) => Ok(()),
            // The whole machine lost power; the member itself did not fail.
            Err(ArrayError::Io { path, source, .. }) if is_power_off(&source) => {
                self.failed.push(path);
                self.mode = ArrayMode::Stopped;
                self.check_running()
            }
            Err(ArrayError::Io { .. }) => self.fail_device(device),
            Err(other) => Err(other),
        }
    }

    /// Removes a device from the array. The next [`MemberSet::save_config`] records the removal on the members.
    pub fn fail_device(&mut self, device: usize) -> Result<()> {
        if self.devices[device].failed {
            return self.check_running();
        }
        self.devices[device].failed = true;
        self.failed.push(self.devices[device].path());
        self.records.forget(device);
        let member = self.devices[device].member;
        self.is_config_changed = true;
        self.config.spares.retain(|spare| *spare != member);
        for slot in &mut self.config.slots {
            if slot.member == member {
                slot.member = 0;
            }
            if slot.replacement == member {
                slot.replacement = 0;
                slot.rebuilt = Extents::default();
            }
        }
        if !self.tolerates_loss(&self.lost_slots()) {
            // The members keep the last working configuration.
            self.mode = ArrayMode::Stopped;
            return self.check_running();
        }
        self.assign_spares();
        Ok(())
    }

    /// Removes from the configuration all members that were not found.
    pub fn remove_missing_members(&mut self) {
        let is_there: Vec<MemberId> = self.devices.iter().map(|device| device.member).collect();
        for slot in &mut self.config.slots {
            if !is_there.contains(&slot.member) {
                slot.member = 0;
            }
            if !is_there.contains(&slot.replacement) {
                slot.replacement = 0;
                slot.rebuilt = Extents::default();
            }
        }
        self.config.spares.retain(|spare| is_there.contains(spare));
    }

    /// Promotes a complete replacement to member of its slot, and returns the device of the old member. The caller
    /// saves the configuration.
    pub fn promote_replacement(&mut self, slot: usize) -> Option<usize> {
        let old = self.device_of(self.config.slots[slot].member);
        let slot = &mut self.config.slots[slot];
        *slot = SlotConfig { member: slot.replacement, ..SlotConfig::default() };
        old
    }

    /// Stops using the device of a replaced member. The device is stale from then on.
    pub fn retire_device(&mut self, device: usize) {
        self.devices[device].failed = true;
        self.records.forget(device);
    }

    /// Makes the writes to a device durable.
    pub fn sync_device(&mut self, device: usize) -> Result<()> {
        let result = self.devices[device].sync();
        self.handle_write_result(device, result)
    }

    /// Assigns a spare to each slot that lost its member. The slot is rebuilt on the spare.
    pub fn assign_spares(&mut self) {
        for slot in self.lost_slots() {
            if self.config.slots[slot].replacement != 0 {
                continue;
            }
            let Some(place) = self.config.spares.iter().position(|spare| self.device_of(*spare).is_some())
            else {
                return;
            };
            self.config.slots[slot].replacement = self.config.spares.remove(place);
            self.config.slots[slot].rebuilt = Extents::default();
            self.is_config_changed = true;
        }
    }

    /// Makes all completed writes to the members durable. Members that fail to sync are removed from the array.
    pub fn sync_devices(&mut self) -> Result<()> {
        let (mut devices, mut files): (Vec<usize>, Vec<&dyn File>) = (vec![], vec![]);
        for (index, device) in self.devices.iter().enumerate().filter(|(_, device)| !device.failed) {
            if let Some(file) = device.unsynced() {
                devices.push(index);
                files.push(file);
            }
        }
        let results = self.vfs.sync_files(&files, IoReason::Other);
        for (device, result) in devices.into_iter().zip(results) {
            let result = self.devices[device].synced(result);
            self.handle_write_result(device, result)?;
        }
        Ok(())
    }

    /// Saves the configuration if it has changed since it was last saved.
    pub fn save_changes(&mut self) -> Result<()> {
        if self.is_config_changed { self.save_config() } else { Ok(()) }
    }

    /// Makes the configuration durable on all members, with a new generation. The members write and sync
    /// concurrently: first one superblock on each member, then the other. This way, a torn write leaves each member
    /// with one intact superblock.
    pub fn save_config(&mut self) -> Result<()> {
        self.is_config_changed = true;
        while self.is_config_changed {
            self.is_config_changed = false;
            self.config.generation += 1;
            self.config.lifetime = self.lifetime();
            let config = self.config.clone();
            for place in 0..2 {
                let is_written =
                    |(_, device): &(usize, &MemberDevice)| !device.failed && config.has_member(device.member);
                let devices = self.devices.iter().enumerate().filter(is_written);
                let pieces = devices.map(|(index, device)| {
                    let offset = device.layout.superblocks()[place];
                    TransferSegment { device: index, offset, buffer: device.superblock(&config) }
                });
                let pieces = pieces.collect();
                self.write_segments(pieces, IoReason::Other)?;
                self.sync_devices()?;
            }
        }
        Ok(())
    }
}
