//! After a crash: commits that are in the journal everywhere are written in place again, others never began.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_vfs::{IoBuffer, IoReason};

use super::Array;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::RecordSlot;
use crate::member::{JournalEntry, MemberId, SlotConfig};

/// The unit that a disk writes wholly or not at all.
const SECTOR: usize = 512;

/// What the devices have of one commit: intact images by device and row, and the cells that the commit wrote of each row.
#[derive(Default)]
struct Found {
    /// Members that have the header, and all members that the commit writes to.
    headers: BTreeSet<MemberId>,
    participants: Vec<MemberId>,
    images: BTreeMap<(usize, u64), (JournalEntry, IoBuffer)>,
    rows: BTreeMap<u64, u64>,
}

impl Array {
    /// Replays the last two commits. Earlier ones are in place and durable, because each commit syncs its journal together with
    /// the blocks of the commit before.
    pub(super) fn replay_journal(&mut self) -> Result<()> {
        let mut commits: BTreeMap<u64, Found> = BTreeMap::new();
        for device in 0..self.devices.len() {
            for (header, images) in self.devices[device].read_journal(self.config.array) {
                if header.sequence < self.config.journal_floor {
                    continue;
                }
                let found = commits.entry(header.sequence).or_default();
                found.headers.insert(header.member);
                found.participants = header.participants;
                for (entry, image) in header.entries.into_iter().zip(images) {
                    let row = entry.record.row.get();
                    if row >= self.config.layout.rows {
                        continue;
                    }
                    found.rows.insert(row, entry.cells.get());
                    if let Some(image) = image {
                        found.images.insert((device, row), (entry, image));
                    }
                }
            }
        }
        let Some(&last) = commits.keys().next_back() else { return Ok(()) };
        let mut recent: Vec<Found> =
            commits.into_iter().filter(|(number, _)| number + 1 >= last).map(|(_, found)| found).collect();
        // All decisions come before the first replay, which would cover the traces of a later commit.
        let before = recent.len().checked_sub(2).map(|index| &recent[index]);
        let is_last_replayed = self.is_to_be_replayed(&recent[recent.len() - 1], before);
        let is_first_replayed = recent.len() < 2 || self.is_to_be_replayed(&recent[0], None);
        if !is_last_replayed {
            recent.pop();
        }
        if !is_first_replayed {
            recent.remove(0);
        }
        recent.iter().try_for_each(|found| self.replay(found))?;
        self.sequence = last + 1;
        self.sync_members()
    }

    /// A commit with all its images was journalled everywhere, and may be in place in part. One without may have lost images after
    /// that, to a damaged journal; then its traces in place decide.
    fn is_to_be_replayed(&mut self, found: &Found, before: Option<&Found>) -> bool {
        // Rows that only such a member has an entry of are not known here.
        let silent = |member: &&MemberId| !found.headers.contains(member);
        let is_there = |member: &MemberId| self.device_of(*member).is_some();
        let silent: Vec<MemberId> = found.participants.iter().filter(silent).copied().collect();
        let mut is_complete = !silent.iter().any(is_there);
        let has_silent = |slot: &usize| silent.contains(&self.config.slots[*slot].member);
        let mut is_recoverable =
            self.bears(&(0..self.config.slots.len()).filter(has_silent).collect::<Vec<_>>());
        for (&row, &cells) in &found.rows {
            let mut lost = vec![];
            for cell in 0..self.config.layout.slots {
                let slot = self.config.layout.slot(row, cell);
                let source = self.sources(slot, row).next();
                let is_written = cells >> cell & 1 == 1;
                match source {
                    None => lost.push(cell),
                    Some(device) if is_written && !found.images.contains_key(&(device, row)) => {
                        is_complete = false;
                        lost.push(cell);
                    }
                    Some(_) => {}
                }
            }
            is_recoverable &= self.code.recovers(&lost);
        }
        is_complete || is_recoverable && self.has_begun(found, before)
    }

    /// Whether an image is in place already, wholly or torn. The commit before may itself be in place wholly or torn.
    fn has_begun(&mut self, found: &Found, before: Option<&Found>) -> bool {
        found.images.iter().any(|(&(device, row), (entry, image))| {
            let mut block = IoBuffer::zeroed(BLOCK);
            let source = &self.devices[device];
            if source.read(source.layout.block(row), &mut block, IoReason::LogRead).is_err() {
                return false;
            }
            let member = self.devices[device].member;
            let has = |slot: &SlotConfig| slot.member == member || slot.replacement == member;
            let Some(slot) = self.config.slots.iter().position(has) else { return false };
            let in_place = self.record(device, row, self.config.layout.cell(row, slot));
            if in_place == RecordSlot::Written(entry.record) || entry.record.matches(&block) {
                return true;
            }
            let is_old = matches!(in_place, RecordSlot::Written(record) if record.matches(&block));
            let earlier = before.and_then(|before| before.images.get(&(device, row)));
            let is_earlier = earlier.is_some_and(|(earlier, _)| earlier.record.matches(&block));
            let mut sectors = block.chunks(SECTOR).zip(image.chunks(SECTOR));
            !is_old
                && !is_earlier
                && in_place != RecordSlot::Empty
                && sectors.any(|(one, other)| one == other)
        })
    }

    fn replay(&mut self, found: &Found) -> Result<()> {
        for (&(device, row), (entry, image)) in &found.images {
            if self.devices[device].failed {
                continue;
            }
            let result = self.write_cell(device, row, RecordSlot::Written(entry.record), image);
            let result = result.and_then(|()| self.write_records(device, row / ZONE_ROWS));
            self.note_write(device, result)?;
        }
        Ok(())
    }
}
