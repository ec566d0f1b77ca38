//! Compares a file after the cut with its allowed states.

use std::collections::BTreeMap;

use super::damage::Damage;
use super::model::{FileModel, Origin};
use super::operation::{BLOCK, OperationNumber};
use super::sector::{Content, FileId, SECTOR};

/// A violated durability promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) damage: Damage,
    pub(super) found: String,
}

impl Fault {
    pub(super) fn missing(found: &str) -> Fault {
        Fault { damage: Damage::Lost, found: found.into() }
    }

    pub(super) fn unreadable(found: String) -> Fault {
        Fault { damage: Damage::Unreadable, found }
    }
}

/// Result of comparing a file with its model.
#[derive(Default, Debug)]
pub(super) struct Compared {
    /// Violations, keyed by the durable operation.
    pub(super) faults: BTreeMap<Origin, Fault>,
    /// Newest operation with data in the file.
    pub(super) newest: OperationNumber,
}

/// Sector counts for one durable operation.
#[derive(Default)]
struct Sectors {
    there: u64,
    /// Sectors that are in an older state.
    old: u64,
    /// Sectors with data that does not belong there.
    foreign: u64,
}

/// Returns the file to which the first readable sector belongs.
pub(super) fn writer_of(bytes: &[u8]) -> Option<FileId> {
    bytes.chunks(SECTOR).find_map(|sector| match Content::of(sector) {
        Content::Written(stamp) => Some(stamp.file),
        _ => None,
    })
}

/// Compares a file's bytes with the content that its model allows.
pub(super) fn compare(id: FileId, file: &FileModel, bytes: &[u8]) -> Compared {
    let mut compared = Compared::default();
    let mut sectors: BTreeMap<Origin, Sectors> = BTreeMap::new();
    let mut contents = bytes.chunks(BLOCK);
    for (number, block) in file.blocks.iter().enumerate() {
        let Some(content) = contents.next() else {
            if number < file.durable_blocks {
                let origin = block.durable.unwrap_or(file.length);
                sectors.entry(origin).or_default().old += (BLOCK / SECTOR) as u64;
            }
            continue;
        };
        let first = (number * (BLOCK / SECTOR)) as u64;
        for (at, sector) in content.chunks(SECTOR).enumerate() {
            let content = Content::of(sector);
            let own = match content {
                Content::Written(stamp) => stamp.file == id && stamp.sector == first + at as u64,
                Content::Zeros | Content::Unknown => false,
            };
            let allowed = match content {
                Content::Written(stamp) if own => {
                    compared.newest = compared.newest.max(stamp.operation);
                    block.may_be_of(stamp.operation)
                }
                Content::Zeros => block.durable.is_none(),
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
                (false, Content::Zeros) => found.old += 1,
                (false, _) if own => found.old += 1,
                (false, _) => found.foreign += 1,
            }
        }
    }
    compared.faults =
        sectors.into_iter().filter_map(|(origin, found)| Some((origin, found.fault()?))).collect();
    compared
}

impl Sectors {
    fn fault(&self) -> Option<Fault> {
        let all = self.there + self.old + self.foreign;
        if self.foreign > 0 {
            let found = format!("{} of {all} sectors contain data that was never written there", self.foreign);
            return Some(Fault { damage: Damage::Unreadable, found });
        }
        let found = format!("{} of {all} sectors contain an older state", self.old);
        let damage = if self.there > 0 { Damage::Torn } else { Damage::Lost };
        (self.old > 0).then_some(Fault { damage, found })
    }
}
