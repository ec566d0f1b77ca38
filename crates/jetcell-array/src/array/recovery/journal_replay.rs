//! Recovery after a crash: the commits in the journal are completed or discarded.
//!
//! A commit whose images are all in the journal is written in place again. If images are missing, either the power
//! failed before the journal was durable, or a member lost data that it had acknowledged. In both cases, the missing
//! images are recovered from the others if the level tolerates the loss. The recovered images are journalled first,
//! and then the commit is written in place. If the images cannot be recovered, the commit was never acknowledged and
//! no part of it was written in place. The commit is then discarded.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_vfs::IoBuffer;
use zerocopy::little_endian::U64;

use crate::array::rows::RowStore;
use crate::bytes::copy_to_buffer;
use crate::error::Result;
use crate::geometry::BLOCK;
use crate::integrity::{RecordSlot, RowState};
use crate::member::{JournalEntry, JournalImage, MemberId};

/// A recovered image that was missing on a device, with this device and the journal entry.
type RecoveredImage = (usize, JournalEntry, IoBuffer);

/// The parts of a commit that were found on the devices.
#[derive(Default)]
struct JournalledCommit {
    /// Members that have the header. `participants` are all members to which the commit writes.
    headers: BTreeSet<MemberId>,
    participants: Vec<MemberId>,
    /// Intact images by device and row.
    images: BTreeMap<(usize, u64), (JournalEntry, IoBuffer)>,
    /// Mask of the cells that the commit writes in each row, and the generation of that write.
    rows: BTreeMap<u64, (u64, u64)>,
}

impl JournalledCommit {
    /// Returns true if the commit writes a cell.
    fn writes(&self, row: u64, cell: usize) -> bool {
        self.rows.get(&row).is_some_and(|(cells, _)| cells >> cell & 1 == 1)
    }
}

/// Replays the journal into the rows of an array that is not in use yet.
pub(in crate::array) struct JournalReplay<'a> {
    pub rows: &'a mut RowStore,
}

impl JournalReplay<'_> {
    /// Completes the last two commits. Earlier commits are in place and durable, because each commit syncs its journal
    /// together with the previous commit's blocks. Returns the number of the next commit, or `None` if the journal is
    /// empty.
    pub fn run(&mut self) -> Result<Option<u64>> {
        let mut commits = self.journalled_commits();
        let Some((number, mut last)) = commits.pop_last() else { return Ok(None) };
        let mut before = commits.remove(&(number - 1));
        // Blocks of the last commit may already be in place, so the first step is to decide whether that commit is
        // completed. Rows of the previous commit are then brought to their state after both commits.
        let images = self.missing_images(&last, before.as_ref(), Some(&last));
        if let Some(images) = images {
            self.complete(number, &mut last, images)?;
        } else {
            last = JournalledCommit::default();
        }
        if let Some(before) = &mut before
            && let Some(images) = self.missing_images(before, Some(before), Some(&last))
        {
            self.complete(number - 1, before, images)?;
            self.replay(before)?;
        }
        self.replay(&last)?;
        self.rows.members.sync_devices()?;
        Ok(Some(number + 1))
    }

    fn journalled_commits(&self) -> BTreeMap<u64, JournalledCommit> {
        let mut commits: BTreeMap<u64, JournalledCommit> = BTreeMap::new();
        let config = &self.rows.members.config;
        for (device, source) in self.rows.members.devices.iter().enumerate() {
            for (header, images) in source.read_journal(config.array) {
                if header.sequence < config.journal_floor {
                    continue;
                }
                let found = commits.entry(header.sequence).or_default();
                found.headers.insert(header.member);
                found.participants = header.participants;
                for (entry, image) in header.entries.into_iter().zip(images) {
                    let row = entry.record.row.get();
                    if row >= config.layout.rows {
                        continue;
                    }
                    found.rows.insert(row, (entry.cells.get(), entry.record.generation.get()));
                    if let Some(image) = image {
                        found.images.insert((device, row), (entry, image));
                    }
                }
            }
        }
        commits
    }

    /// Journals the recovered images of a commit. The commit is then complete even if startup is interrupted.
    fn complete(
        &mut self,
        sequence: u64,
        found: &mut JournalledCommit,
        recovered: Vec<RecoveredImage>,
    ) -> Result<()> {
        let incomplete: BTreeSet<usize> = recovered.iter().map(|(device, ..)| *device).collect();
        for (device, entry, block) in recovered {
            found.images.insert((device, entry.record.row.get()), (entry, block));
        }
        for device in incomplete {
            let images: Vec<JournalImage<'_>> = found
                .images
                .iter()
                .filter(|((other, _), _)| *other == device)
                .map(|(_, (entry, block))| JournalImage { entry: *entry, block })
                .collect();
            self.rows.members.write_journal(device, sequence, &found.participants, &images)?;
        }
        self.rows.members.sync_devices()
    }

    /// Returns the images of a commit that are missing on members, or `None` if they cannot be recovered.
    fn missing_images(
        &mut self,
        found: &JournalledCommit,
        earlier: Option<&JournalledCommit>,
        later: Option<&JournalledCommit>,
    ) -> Option<Vec<RecoveredImage>> {
        // The level must tolerate the loss of all slots without a header. Otherwise, some of the commit's rows may be
        // unknown: the only other entries for a row may have been on a member that failed during the commit.
        let members = &self.rows.members;
        let silent = |slot: &usize| {
            let config = &members.config.slots[*slot];
            let is_lost = members.device_of(config.member).is_none();
            let is_concerned = is_lost || found.participants.contains(&config.member);
            let has_header = |member| members.device_of(member).is_some() && found.headers.contains(&member);
            // A commit omits the parity of rows that are not rebuilt yet. Only other members have entries for these
            // rows.
            let is_rebuilt = config.rebuilt.len() >= members.layout().zones();
            let lacks_rows = members.code.parities() > 0 && is_lost && !is_rebuilt;
            is_concerned && !has_header(config.member) && (lacks_rows || !has_header(config.replacement))
        };
        let silent: Vec<usize> = (0..members.config.slots.len()).filter(silent).collect();
        if !members.tolerates_loss(&silent) {
            return None;
        }
        let mut all = vec![];
        for &row in found.rows.keys() {
            all.extend(self.missing_images_of_row(row, found, earlier, later)?);
        }
        Some(all)
    }

    fn missing_images_of_row(
        &mut self,
        row: u64,
        found: &JournalledCommit,
        earlier: Option<&JournalledCommit>,
        later: Option<&JournalledCommit>,
    ) -> Option<Vec<RecoveredImage>> {
        let (code, layout) = (self.rows.members.code, *self.rows.members.layout());
        let count = layout.slots;
        let later = later.filter(|later| later.rows.contains_key(&row));
        let is_covered =
            |cell: usize| later.is_some_and(|later| !std::ptr::eq(later, found) && later.writes(row, cell));
        let mut lacking = vec![];
        for cell in (0..count).filter(|cell| found.writes(row, *cell) && !is_covered(*cell)) {
            let devices = self.rows.members.sources(row, cell);
            // Members that were added later were rebuilt with the content of the commit.
            let is_lacking = |device: &usize| {
                found.participants.contains(&self.rows.members.devices[*device].member)
                    && !found.images.contains_key(&(*device, row))
            };
            lacking.extend(devices.filter(is_lacking).map(|device| (device, cell)));
        }
        if lacking.is_empty() {
            return Some(vec![]);
        }
        // The state of the row after both commits. Cells that neither commit writes are in place.
        let state = self.rows.row_state(row);
        let writer =
            |cell: usize| [later, earlier].into_iter().flatten().find(|commit| commit.writes(row, cell));
        let columns = code.data_columns(count);
        // The parity blocks in place may be a mix from several commits. Therefore, their tags do not show which content
        // the missing members have.
        let tags_of = |parity: usize| {
            let mut devices = self.rows.members.targets(layout.slot(row, parity));
            let (entry, _) = devices.find_map(|device| writer(parity)?.images.get(&(device, row)))?;
            Some(entry.record.tags)
        };
        let mut tags = (columns..count).find_map(tags_of).unwrap_or(state.tags);
        if code.parities() > 0 {
            for (column, tag) in tags.iter_mut().enumerate().take(columns) {
                *tag = writer(column).map_or(*tag, |commit| commit.rows[&row].1 as u8);
            }
        }
        let mut lost = vec![];
        let mut cells = Vec::with_capacity(count);
        for cell in 0..count {
            let content = match writer(cell) {
                None => self.rows.read_cell(row, cell, &state),
                Some(writer) => self.written_cell(row, cell, writer, &state),
            };
            cells.push(content.unwrap_or_else(|| {
                lost.push(cell);
                IoBuffer::zeroed(BLOCK)
            }));
        }
        if !code.recovers(&lost) {
            return None;
        }
        let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        code.recover(&self.rows.kernel, &mut targets, &lost);
        let (written, generation) = found.rows[&row];
        let image = |(device, cell): (usize, usize)| {
            let is_parity = code.parities() > 0 && cell >= columns;
            let tags = if is_parity { tags } else { Default::default() };
            let record = self.rows.new_record(row, cell, generation, tags, &cells[cell]);
            (device, JournalEntry { record, cells: U64::new(written) }, copy_to_buffer(&cells[cell]))
        };
        Some(lacking.into_iter().map(image).collect())
    }

    /// Returns the content of a cell that a commit wrote: the image or, if a member was added later, the block on
    /// that member.
    fn written_cell(
        &mut self,
        row: u64,
        cell: usize,
        writer: &JournalledCommit,
        state: &RowState,
    ) -> Option<IoBuffer> {
        let devices: Vec<usize> = self.rows.members.sources(row, cell).collect();
        let image = devices.iter().find_map(|device| writer.images.get(&(*device, row)));
        if let Some((_, image)) = image {
            return Some(copy_to_buffer(image));
        }
        let came_later =
            |device: &usize| !writer.participants.contains(&self.rows.members.devices[*device].member);
        if devices.iter().any(came_later) { self.rows.read_cell(row, cell, state) } else { None }
    }

    fn replay(&mut self, found: &JournalledCommit) -> Result<()> {
        for (&(device, row), (entry, image)) in &found.images {
            if self.rows.members.devices[device].failed {
                continue;
            }
            self.rows.rewrite_cell(device, row, RecordSlot::Written(entry.record), image)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::RaidLevel;
    use crate::test_array::TestArray;

    /// If the parity of a row is on a member that is being rebuilt, only one other member has a journal entry for
    /// that row.
    #[test]
    fn an_interrupted_commit_is_atomic_during_a_member_rebuild() {
        for (level, members) in
            [(RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5), (RaidLevel::RaidDp { prime: 17 }, 6)]
        {
            for seed in 0..60 {
                let mut tested = TestArray::new(level, members, seed);
                let lost = level.tolerance(members);
                for slot in 0..lost {
                    tested.array().fail(slot).unwrap();
                    let file = tested.new_file();
                    tested.array().replace(slot, &file, false).unwrap();
                    tested.members.push(file);
                }
                tested.members.drain(..lost);
                for round in 0..4 {
                    // One block in each of several rows.
                    let layout = *tested.array().layout();
                    let block =
                        |row: u64| layout.block_at(row, (row + seed) as usize % layout.data_columns());
                    let batch: BTreeMap<u64, u64> =
                        (0..8).map(|row| (block(row * 5 + seed % 5), 1000 * (round + 1) + row)).collect();
                    tested.write_with_cut(&batch, (seed + 7 * round) % 24);
                }
                tested.check();
            }
        }
    }
}
