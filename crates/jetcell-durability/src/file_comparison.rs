//! Compares a file after the cut with its allowed states.

use std::collections::BTreeMap;

use super::damage::OperationDamage;
use super::model::{FileModel, StateOrigin};
use super::operation::{BLOCK_BYTES, OperationNumber};
use super::sector::{SECTOR_BYTES, SectorContent, TestFileId};

/// A violated durability promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurabilityViolation {
    pub(crate) damage: OperationDamage,
    pub(crate) found: String,
}

impl DurabilityViolation {
    pub(crate) fn missing(found: &str) -> DurabilityViolation {
        DurabilityViolation { damage: OperationDamage::Lost, found: found.into() }
    }

    pub(crate) fn unreadable(found: String) -> DurabilityViolation {
        DurabilityViolation { damage: OperationDamage::Unreadable, found }
    }
}

/// Result of comparing a file with its model.
#[derive(Default, Debug)]
pub(crate) struct FileComparison {
    /// Violations, keyed by the durable operation.
    pub(crate) faults: BTreeMap<StateOrigin, DurabilityViolation>,
    /// Newest operation whose data is present in the file.
    pub(crate) newest: OperationNumber,
}

/// Sector counts for one durable operation.
#[derive(Default)]
struct SectorCounts {
    there: u64,
    /// Sectors that are in an older state.
    old: u64,
    /// Sectors with data that does not belong there.
    foreign: u64,
}

/// Returns the file identified by the first readable sector.
pub(crate) fn writer_of(bytes: &[u8]) -> Option<TestFileId> {
    bytes.chunks(SECTOR_BYTES).find_map(|sector| match SectorContent::parse(sector) {
        SectorContent::Written(stamp) => Some(stamp.file),
        _ => None,
    })
}

/// Compares a file's bytes with the content that its model allows.
pub(crate) fn compare(id: TestFileId, file: &FileModel, bytes: &[u8]) -> FileComparison {
    let mut compared = FileComparison::default();
    let mut sectors: BTreeMap<StateOrigin, SectorCounts> = BTreeMap::new();
    let mut contents = bytes.chunks(BLOCK_BYTES);
    for (number, block) in file.blocks.iter().enumerate() {
        let Some(content) = contents.next() else {
            if number < file.durable_blocks {
                let origin = block.durable.unwrap_or(file.length);
                sectors.entry(origin).or_default().old += (BLOCK_BYTES / SECTOR_BYTES) as u64;
            }
            continue;
        };
        let first = (number * (BLOCK_BYTES / SECTOR_BYTES)) as u64;
        for (at, sector) in content.chunks(SECTOR_BYTES).enumerate() {
            let content = SectorContent::parse(sector);
            let own = match content {
                SectorContent::Written(stamp) => stamp.file == id && stamp.sector == first + at as u64,
                SectorContent::Zeros | SectorContent::Unknown => false,
            };
            let allowed = match content {
                SectorContent::Written(stamp) if own => {
                    compared.newest = compared.newest.max(stamp.operation);
                    block.may_be_written_by(stamp.operation)
                }
                SectorContent::Zeros => block.durable.is_none(),
                _ => false,
            };
            if block.durable.is_none() && number >= file.durable_blocks {
                // This block was never durable, so it may contain anything.
                continue;
            }
            let origin = block.durable.unwrap_or(file.length);
            let found = sectors.entry(origin).or_default();
            match (allowed, content) {
                (true, _) => found.there += 1,
                (false, SectorContent::Zeros) => found.old += 1,
                (false, _) if own => found.old += 1,
                (false, _) => found.foreign += 1,
            }
        }
    }
    compared.faults =
        sectors.into_iter().filter_map(|(origin, found)| Some((origin, found.violation()?))).collect();
    compared
}

impl SectorCounts {
    fn violation(&self) -> Option<DurabilityViolation> {
        let all = self.there + self.old + self.foreign;
        if self.foreign > 0 {
            let found =
                format!("{} of {all} sectors contain data that was never written there", self.foreign);
            return Some(DurabilityViolation { damage: OperationDamage::Unreadable, found });
        }
        let found = format!("{} of {all} sectors contain an older state", self.old);
        let damage = if self.there > 0 { OperationDamage::Torn } else { OperationDamage::Lost };
        (self.old > 0).then_some(DurabilityViolation { damage, found })
    }
}
