//! A member's file, and the offsets of its parts.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, File, IoBuffer, IoReason, OpenMode, Transfer, TransferKind, Vfs};

use super::counts::MemberTransferCounters;
use super::{ArrayConfig, JournalHeader, JournalImage, MemberId, Superblock, has_superblock_magic};
use crate::error::{ArrayError, ArrayRefusal, Result};
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::RECORD_BYTES;

/// Offsets of a member's parts, which depend on its journal size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberLayout {
    journal_images: u32,
}

const JOURNAL_SLOTS: u64 = 2;

impl MemberLayout {
    pub fn new(journal_images: u32) -> MemberLayout {
        MemberLayout { journal_images }
    }

    fn journal_blocks(&self) -> u64 {
        JournalHeader::blocks(self.journal_images) + u64::from(self.journal_images)
    }

    /// Returns the number of blocks before the first zone.
    fn metadata_blocks(&self) -> u64 {
        2 + JOURNAL_SLOTS * self.journal_blocks()
    }

    /// Returns the minimum size of a member with this many rows, in bytes.
    pub fn bytes_for(&self, rows: u64) -> u64 {
        (self.metadata_blocks() + rows / ZONE_ROWS * (ZONE_ROWS + 1)) * BLOCK as u64
    }

    /// Returns the number of rows on a member of this length.
    pub fn rows_in(&self, bytes: u64) -> u64 {
        (bytes / BLOCK as u64).saturating_sub(self.metadata_blocks()) / (ZONE_ROWS + 1) * ZONE_ROWS
    }

    pub fn superblocks(&self) -> [u64; 2] {
        [0, (1 + JOURNAL_SLOTS * self.journal_blocks()) * BLOCK as u64]
    }

    fn journal(&self, sequence: u64) -> u64 {
        (1 + sequence % JOURNAL_SLOTS * self.journal_blocks()) * BLOCK as u64
    }

    pub fn records(&self, zone: u64) -> u64 {
        (self.metadata_blocks() + zone * (ZONE_ROWS + 1)) * BLOCK as u64
    }

    /// Returns true if this offset is in the journal.
    pub fn is_journal(&self, offset: u64) -> bool {
        let [first, second] = self.superblocks();
        first < offset && offset < second
    }

    /// Returns how many of these blocks are superblocks or records. The blocks must be outside the journal.
    pub fn records_within(&self, offset: u64, blocks: u64) -> u64 {
        let Some(first) = (offset / BLOCK as u64).checked_sub(self.metadata_blocks()) else { return blocks };
        (first + blocks).div_ceil(ZONE_ROWS + 1) - first.div_ceil(ZONE_ROWS + 1)
    }

    /// Counts a transfer by its location. `is_maintenance` is set for transfers of a rebuild, copy or scrub.
    pub fn count(
        &self,
        counted: &mut MemberTransferCounters,
        kind: TransferKind,
        offset: u64,
        bytes: usize,
        is_maintenance: bool,
    ) {
        let blocks = (bytes / BLOCK) as u64;
        if is_maintenance {
            return counted.maintenance.add(kind, 1, blocks);
        }
        let records = self.records_within(offset, blocks);
        match records {
            _ if self.is_journal(offset) => counted.journal.add(kind, 1, blocks),
            _ if records == blocks => counted.records.add(kind, 1, blocks),
            _ => {
                counted.data_and_parity.add(kind, 1, blocks - records);
                counted.records.add(kind, 0, records);
            }
        }
    }

    /// Returns the zone whose records are at this offset.
    pub fn zone_of(&self, offset: u64) -> u64 {
        (offset / BLOCK as u64 - self.metadata_blocks()) / (ZONE_ROWS + 1)
    }

    pub fn block(&self, row: u64) -> u64 {
        self.records(row / ZONE_ROWS) + (1 + row % ZONE_ROWS) * BLOCK as u64
    }
}

/// An open array member.
pub(crate) struct MemberDevice {
    pub member: MemberId,
    pub layout: MemberLayout,
    file: Arc<dyn File>,
    _lock: Option<Box<dyn DirectoryLock>>,
    /// Whether writes have completed since the last sync.
    unsynced: bool,
    /// Whether a write or sync failed. After a failure, nothing more is written to the member.
    pub failed: bool,
}

impl MemberDevice {
    pub fn open(vfs: &dyn Vfs, path: &Path, mode: OpenMode) -> Result<MemberDevice> {
        let fail = |action| move |error| ArrayError::io(path, action, 0, error);
        if !vfs.exists(path).map_err(fail("checking for the member"))? {
            return Err(fail("opening the member")(io::ErrorKind::NotFound.into()));
        }
        let lock = vfs.lock(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ArrayRefusal::InUse(path.to_owned()).into(),
            _ => ArrayError::io(path, "locking the member", 0, error),
        })?;
        let file = vfs.open(path, mode).map_err(fail("opening the member"))?;
        let layout = MemberLayout::new(1);
        Ok(MemberDevice { member: 0, layout, file, _lock: Some(lock), unsynced: false, failed: false })
    }

    /// Opens a member without locking it, to read its superblocks even while the member is in use.
    pub fn open_unlocked(vfs: &dyn Vfs, path: &Path) -> io::Result<MemberDevice> {
        let file = vfs.open(path, OpenMode::Read)?;
        let layout = MemberLayout::new(1);
        Ok(MemberDevice { member: 0, layout, file, _lock: None, unsynced: false, failed: false })
    }

    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    pub fn len(&self) -> Result<u64> {
        self.file.len().map_err(|error| self.error("reading the length", 0, error))
    }

    fn error(&self, action: &'static str, offset: u64, error: io::Error) -> ArrayError {
        ArrayError::io(self.file.path(), action, offset, error)
    }

    pub fn read(&self, offset: u64, to: &mut [u8], reason: IoReason) -> Result<()> {
        self.file.read_at(offset, to, reason).map_err(|error| self.error("reading", offset, error))
    }

    pub fn write(&mut self, offset: u64, from: &[u8], reason: IoReason) -> Result<()> {
        let result = self.file.write_at(offset, from, reason);
        self.finish_write(offset, result)
    }

    /// Starts transfers; see [`File::submit`]. [`MemberDevice::finish_write`] must be called after each write.
    pub fn submit(&self, batch: Vec<Transfer>) {
        self.file.submit(batch);
    }

    /// Marks a write as completed. Must not be called earlier, because a sync does not make writes durable that are
    /// still in progress.
    pub fn finish_write(&mut self, offset: u64, result: io::Result<()>) -> Result<()> {
        self.unsynced = true;
        result.map_err(|error| self.error("writing", offset, error))
    }

    /// Makes all writes durable.
    pub fn sync(&mut self) -> Result<()> {
        if self.unsynced {
            let result = self.file.sync(IoReason::Other);
            return self.synced(result);
        }
        Ok(())
    }

    /// Returns the member's file if it must be synced.
    pub fn unsynced(&self) -> Option<&dyn File> {
        self.unsynced.then_some(&*self.file)
    }

    /// Records the result of a sync of the file.
    pub fn synced(&mut self, result: io::Result<()>) -> Result<()> {
        result.map_err(|error| self.error("syncing", 0, error))?;
        self.unsynced = false;
        Ok(())
    }

    /// Returns the valid superblocks, including the second one, whose location depends on the array.
    pub fn superblocks(&self) -> Vec<Superblock> {
        let read = |offset| {
            let mut block = IoBuffer::zeroed(BLOCK);
            self.read(offset, &mut block, IoReason::Other).ok()?;
            Superblock::decode(&block)
        };
        let first = read(0);
        // Without the first superblock, the size of the journal is unknown, and the second superblock may be at one
        // of several offsets.
        let images = match &first {
            Some(superblock) => vec![superblock.config.journal_images],
            None => (0..=12).map(|power| 1 << power).collect(),
        };
        let second = images.into_iter().find_map(|images| {
            let superblock = read(MemberLayout::new(images).superblocks()[1])?;
            (superblock.config.journal_images == images).then_some(superblock)
        });
        first.into_iter().chain(second).collect()
    }

    /// Returns the valid superblock with the newest configuration.
    pub fn newest_superblock(&self) -> Option<Superblock> {
        self.superblocks().into_iter().max_by_key(|superblock| superblock.config.generation)
    }

    /// Returns true if the member begins with a superblock, even if it is damaged or from another version.
    pub fn begins_with_superblock(&self) -> io::Result<bool> {
        let mut block = IoBuffer::zeroed(BLOCK);
        if self.file.len()? < BLOCK as u64 {
            return Ok(false);
        }
        self.file.read_at(0, &mut block, IoReason::Other)?;
        Ok(has_superblock_magic(&block))
    }

    /// Returns the encoded superblock of this member.
    pub fn superblock(&self, config: &ArrayConfig) -> IoBuffer {
        let mut block = IoBuffer::zeroed(BLOCK);
        Superblock { config: config.clone(), member: self.member }.encode(&mut block);
        block
    }

    /// Writes both superblocks, one after the other, so a torn write leaves one of them intact.
    pub fn write_superblocks(&mut self, config: &ArrayConfig) -> Result<()> {
        let block = self.superblock(config);
        for offset in self.layout.superblocks() {
            self.write(offset, &block, IoReason::Other)?;
            self.sync()?;
        }
        Ok(())
    }

    /// Overwrites both superblocks. The file is then no longer a member.
    pub fn erase_superblocks(&mut self) -> Result<()> {
        let zeros = IoBuffer::zeroed(BLOCK);
        // If only the first superblock were erased, the second one would still describe a member.
        for offset in self.layout.superblocks().into_iter().rev() {
            self.write(offset, &zeros, IoReason::Other)?;
            self.sync()?;
        }
        Ok(())
    }

    /// Returns the content of a commit's journal slot, and the offset of this slot. `take` returns a buffer of a given
    /// length with arbitrary content.
    pub fn encode_journal(
        &self,
        array: u128,
        sequence: u64,
        participants: &[MemberId],
        images: &[JournalImage<'_>],
        take: impl FnOnce(usize) -> IoBuffer,
    ) -> (u64, IoBuffer) {
        let header_bytes = JournalHeader::blocks(self.layout.journal_images) as usize * BLOCK;
        let mut buffer = take(header_bytes + images.len() * BLOCK);
        buffer[..header_bytes].fill(0);
        let entries = images.iter().map(|image| image.entry).collect();
        let participants = participants.to_vec();
        JournalHeader { array, member: self.member, sequence, participants, entries }.encode(&mut buffer);
        for (place, image) in buffer[header_bytes..].chunks_exact_mut(BLOCK).zip(images) {
            place.copy_from_slice(image.block);
        }
        (self.layout.journal(sequence), buffer)
    }

    /// Returns the complete commits in the journal, with their intact images in entry order.
    pub fn read_journal(&self, array: u128) -> Vec<(JournalHeader, Vec<Option<IoBuffer>>)> {
        let header_bytes = JournalHeader::blocks(self.layout.journal_images) as usize * BLOCK;
        (0..JOURNAL_SLOTS).filter_map(|slot| self.read_journal_slot(array, slot, header_bytes)).collect()
    }

    fn read_journal_slot(
        &self,
        array: u128,
        slot: u64,
        header_bytes: usize,
    ) -> Option<(JournalHeader, Vec<Option<IoBuffer>>)> {
        let mut buffer = IoBuffer::zeroed(header_bytes);
        let start = self.layout.journal(slot);
        self.read(start, &mut buffer, IoReason::LogRead).ok()?;
        let header = JournalHeader::decode(&buffer)?;
        let fits = header.entries.len() <= self.layout.journal_images as usize;
        if !fits
            || header.array != array
            || header.member != self.member
            || header.sequence % JOURNAL_SLOTS != slot
        {
            return None;
        }
        let image = |(index, entry): (usize, &super::JournalEntry)| {
            let mut block = IoBuffer::zeroed(BLOCK);
            let offset = start + (header_bytes + index * BLOCK) as u64;
            self.read(offset, &mut block, IoReason::LogRead).ok()?;
            entry.record.matches(&block).then_some(block)
        };
        let images = header.entries.iter().enumerate().map(image).collect();
        Some((header, images))
    }

    /// Clears the records of all zones. Every block then reads as zeros, and the content of the member is lost.
    pub fn clear_records(&mut self, zones: u64) -> Result<()> {
        let zeros = IoBuffer::zeroed(BLOCK);
        let mut found = IoBuffer::zeroed(BLOCK);
        for zone in 0..zones {
            let offset = self.layout.records(zone);
            // New files already consist of zeros.
            let is_clear = self.read(offset, &mut found, IoReason::Other).is_ok() && *found == *zeros;
            if !is_clear {
                self.write(offset, &zeros, IoReason::Other)?;
            }
        }
        Ok(())
    }

    /// Returns a description of the content of the file, or `None` if it appears to be empty. Only the beginning and
    /// the end of the file are examined.
    pub fn describe_content(&self) -> Result<Option<&'static str>> {
        const PROBE_BYTES: u64 = 1 << 20;
        if !self.superblocks().is_empty() {
            return Ok(Some("a member of an array"));
        }
        let bytes = self.len()? / BLOCK as u64 * BLOCK as u64;
        let look = bytes.min(PROBE_BYTES);
        // Each end is read with a single command, because reading individual blocks would take a long time on a slow
        // drive.
        let mut end = IoBuffer::zeroed(look as usize);
        for offset in [0, bytes - look] {
            self.read(offset, &mut end, IoReason::Other)?;
            if end.iter().any(|byte| *byte != 0) {
                return Ok(Some("data"));
            }
        }
        Ok(None)
    }

    /// Returns the byte range of a row's record within its zone's records.
    pub fn record_range(row: u64) -> std::ops::Range<usize> {
        let start = (row % ZONE_ROWS) as usize * RECORD_BYTES;
        start..start + RECORD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::TransferCounters;
    use super::*;

    #[test]
    fn blocks_are_counted_per_purpose_and_commands_once() {
        let layout = MemberLayout::new(8);
        let mut counted = MemberTransferCounters::default();
        let mut write = |offset: u64, blocks: usize| {
            layout.count(&mut counted, TransferKind::Write, offset, blocks * BLOCK, false);
            counted.by_purpose().map(|(_, transfers)| (transfers.writes, transfers.blocks_written))
        };
        assert_eq!(write(0, 1), [(0, 0), (0, 0), (1, 1), (0, 0)]);
        assert_eq!(write(BLOCK as u64, 3), [(0, 0), (1, 3), (1, 1), (0, 0)]);
        assert_eq!(write(layout.superblocks()[1], 1), [(0, 0), (1, 3), (2, 2), (0, 0)]);
        // The records of a zone and its first two blocks.
        assert_eq!(write(layout.records(1), 3), [(1, 2), (1, 3), (2, 3), (0, 0)]);
        assert_eq!(write(layout.records(1), 1), [(1, 2), (1, 3), (3, 4), (0, 0)]);
        // The last block of a zone, the records of the next zone, and a block of that zone.
        assert_eq!(write(layout.block(ZONE_ROWS - 1), 3), [(2, 4), (1, 3), (3, 5), (0, 0)]);
        layout.count(&mut counted, TransferKind::Read, layout.block(5), BLOCK, true);
        assert_eq!(
            counted.total(),
            TransferCounters { reads: 1, blocks_read: 1, writes: 6, blocks_written: 12 }
        );
    }
}
