//! Catalogue of a volume: its LUNs, their snapshots, and the roots of their block maps.

use jetcell_array::{ArrayRefusal, BLOCK, LunError, MAX_NUMBER, Result};
use twox_hash::XxHash3_64;

use super::CATALOGUE_AREA_BLOCKS;
use super::block_map::{BlockPointer, height};

const MAGIC: [u8; 8] = *b"JETLUNS2";
/// Magic number of catalogues from earlier versions, which do not store the size of the write log.
const MAGIC_WITHOUT_LOG_SIZE: [u8; 8] = *b"JETLUNS1";
/// Offset at which the checksummed bytes start.
const CHECKSUM_START: usize = 16;
/// Offset of the catalogue's length.
const LENGTH: usize = 16;
/// Maximum length of the name of a LUN or a snapshot, in bytes.
const MAX_NAME: usize = 255;
/// Maximum number of blocks in a LUN: 4 PiB.
const MAX_BLOCKS: u64 = 1 << 40;

pub(super) type LunId = u32;

/// A snapshot: the state of a LUN at a consistency point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SnapshotEntry {
    pub name: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Consistency point of the snapshot. Blocks written later do not belong to the snapshot.
    pub sequence: u64,
    pub root: BlockPointer,
}

/// Catalogue entry that describes a LUN and its snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LunEntry {
    pub id: LunId,
    pub name: String,
    pub blocks: u64,
    pub root: BlockPointer,
    /// Last consistency point whose blocks may also belong to other LUNs.
    pub floor: u64,
    pub snapshots: Vec<SnapshotEntry>,
}

impl LunEntry {
    /// Returns the last consistency point whose blocks may be shared. Later blocks belong only to the current state
    /// of this LUN.
    pub fn shared_up_to(&self) -> u64 {
        self.snapshots.iter().map(|snapshot| snapshot.sequence).fold(self.floor, u64::max)
    }

    pub fn height(&self) -> u32 {
        height(self.blocks)
    }
}

/// The catalogue, stored as follows:
///
/// ```text
/// offset  bytes
///      0      8  "JETLUNS2"
///      8      8  checksum (XXH3) from byte 16 to the end
///     16      8  total length in bytes
///     24      8  state number; the catalogue with the highest state number is current
///     32      8  number of the state that the write log records follow
///     40      8  number of the state after which the write log file was created
///     48      8  1 if the volume was shut down cleanly, in which case the write log is not needed
///     56      8  ID of the next LUN
///     64      8  write log size in bytes; 0 if the log was created by an earlier version. Catalogues with the
///                magic "JETLUNS1" lack this field
///     72         zones in which whole rows may be written next: count (8), zone numbers (8 each)
///                LUNs: count (8); for each: ID (8), name, blocks (8), root (16), floor (8), snapshots
///                snapshots: count (8); for each: name, created (8), consistency point (8), root (16)
///                names: length (8), bytes
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct LunCatalogue {
    pub sequence: u64,
    pub point: u64,
    pub log_created_after: u64,
    pub is_clean: bool,
    pub next_lun: LunId,
    /// Size of the write log in bytes. 0 if unknown, because an earlier version created the log.
    pub log_bytes: u64,
    pub window: Vec<u64>,
    pub luns: Vec<LunEntry>,
}

impl LunCatalogue {
    pub fn find(&self, name: &str) -> Option<usize> {
        self.luns.iter().position(|lun| lun.name == name)
    }

    /// Returns the index of the LUN with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such LUN.
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| ArrayRefusal::NoLun(name.to_owned()).into())
    }

    /// Returns the roots of the trees of all LUNs and snapshots, with the heights of the trees.
    pub fn trees(&self) -> impl Iterator<Item = (BlockPointer, u32)> + '_ {
        self.luns.iter().flat_map(|lun| {
            let roots = lun.snapshots.iter().map(|snapshot| snapshot.root);
            std::iter::once(lun.root).chain(roots).map(|root| (root, lun.height()))
        })
    }

    /// Encodes the catalogue, padded to whole blocks.
    ///
    /// # Errors
    /// Returns an error if the catalogue has no room for all snapshots.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = CatalogueEncoder(vec![0; LENGTH + 8]);
        out.numbers(&[
            self.sequence,
            self.point,
            self.log_created_after,
            self.is_clean.into(),
            self.next_lun.into(),
        ]);
        out.numbers(&[self.log_bytes, self.window.len() as u64]);
        out.numbers(&self.window);
        out.numbers(&[self.luns.len() as u64]);
        for lun in &self.luns {
            out.numbers(&[lun.id.into()]);
            out.name(&lun.name);
            out.numbers(&[lun.blocks, lun.root.block, lun.root.birth, lun.floor, lun.snapshots.len() as u64]);
            for snapshot in &lun.snapshots {
                out.name(&snapshot.name);
                let root = snapshot.root;
                out.numbers(&[snapshot.created, snapshot.sequence, root.block, root.birth]);
            }
        }
        let mut bytes = out.0;
        let end = bytes.len();
        if end > CATALOGUE_AREA_BLOCKS as usize * BLOCK {
            return Err(LunError::CatalogueFull.into());
        }
        bytes[LENGTH..LENGTH + 8].copy_from_slice(&(end as u64).to_le_bytes());
        let sum = XxHash3_64::oneshot(&bytes[CHECKSUM_START..]);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(end.next_multiple_of(BLOCK), 0);
        Ok(bytes)
    }

    /// Decodes a catalogue. Returns `None` if the bytes are not a catalogue, or refer to blocks beyond the end of an
    /// array with this many blocks.
    pub fn decode(bytes: &[u8], blocks: u64) -> Option<LunCatalogue> {
        let mut head = CatalogueDecoder(bytes.get(..LENGTH + 8)?);
        let (magic, sum, end) = (head.take(8)?, head.number()?, head.number()?);
        let bytes = bytes.get(..usize::try_from(end).ok()?)?;
        let has_log_size = magic == MAGIC;
        if !has_log_size && magic != MAGIC_WITHOUT_LOG_SIZE
            || sum != XxHash3_64::oneshot(bytes.get(CHECKSUM_START..)?)
        {
            return None;
        }
        let mut input = CatalogueDecoder(bytes.get(LENGTH + 8..)?);
        let mut catalogue = LunCatalogue {
            sequence: input.number().filter(|sequence| *sequence < MAX_NUMBER)?,
            point: input.number()?,
            log_created_after: input.number()?,
            is_clean: input.number()? == 1,
            next_lun: LunId::try_from(input.number()?).ok()?,
            log_bytes: if has_log_size { input.number()? } else { 0 },
            ..LunCatalogue::default()
        };
        for _ in 0..input.number()? {
            catalogue.window.push(input.number()?);
        }
        let sequence = catalogue.sequence;
        let is_possible = |root: &BlockPointer| root.is_possible(blocks, sequence);
        for _ in 0..input.number()? {
            let mut lun = LunEntry {
                id: LunId::try_from(input.number()?).ok().filter(|id| *id < catalogue.next_lun)?,
                name: input.name()?,
                blocks: input.number().filter(|blocks| (1..=MAX_BLOCKS).contains(blocks))?,
                root: input.pointer().filter(is_possible)?,
                floor: input.number().filter(|floor| *floor <= sequence)?,
                snapshots: vec![],
            };
            for _ in 0..input.number()? {
                lun.snapshots.push(SnapshotEntry {
                    name: input.name()?,
                    created: input.number()?,
                    sequence: input.number().filter(|taken| *taken <= sequence)?,
                    root: input.pointer().filter(is_possible)?,
                });
            }
            let is_new = |other: &LunEntry| other.id != lun.id && other.name != lun.name;
            catalogue.luns.iter().all(is_new).then_some(())?;
            catalogue.luns.push(lun);
        }
        input.0.is_empty().then_some(catalogue)
    }
}

/// Rejects names of LUNs and snapshots that cannot be used in a command or in the address of a network block device.
///
/// # Errors
/// Returns an error if the name is empty or too long, or has characters other than letters, digits, and `-`, `_`, `.`.
pub fn check_name(name: &str) -> Result<()> {
    let is_good = |char: char| char.is_alphanumeric() || "-_.".contains(char);
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_good) {
        return Ok(());
    }
    Err(ArrayRefusal::Name { name: name.to_owned(), max: MAX_NAME }.into())
}

/// Rejects sizes that a LUN cannot have.
pub(super) fn check_blocks(blocks: u64) -> Result<()> {
    if (1..=MAX_BLOCKS).contains(&blocks) {
        return Ok(());
    }
    Err(ArrayRefusal::LunSize(MAX_BLOCKS).into())
}

struct CatalogueEncoder(Vec<u8>);

impl CatalogueEncoder {
    fn numbers(&mut self, numbers: &[u64]) {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn name(&mut self, name: &str) {
        self.numbers(&[name.len() as u64]);
        self.0.extend(name.as_bytes());
    }
}

struct CatalogueDecoder<'bytes>(&'bytes [u8]);

impl<'bytes> CatalogueDecoder<'bytes> {
    fn take(&mut self, count: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn pointer(&mut self) -> Option<BlockPointer> {
        Some(BlockPointer { block: self.number()?, birth: self.number()? })
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let name = str::from_utf8(self.take(length)?).ok()?;
        check_name(name).ok()?;
        Some(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> LunCatalogue {
        let root = BlockPointer { block: 700, birth: 3 };
        let snapshot = SnapshotEntry { name: "s".into(), created: 5, sequence: 3, root };
        let lun = |id, name: &str| LunEntry {
            id,
            name: name.into(),
            blocks: 1000,
            root,
            floor: 2,
            snapshots: vec![snapshot.clone()],
        };
        LunCatalogue {
            sequence: 9,
            point: 8,
            log_created_after: 1,
            is_clean: true,
            next_lun: 7,
            log_bytes: 64 << 20,
            window: vec![4, 5],
            luns: vec![lun(1, "a"), lun(6, "b-2")],
        }
    }

    #[test]
    fn a_catalogue_round_trips_and_every_bit_flip_is_rejected() {
        let bytes = catalogue().encode().unwrap();
        assert_eq!(LunCatalogue::decode(&bytes, 701), Some(catalogue()));
        assert_eq!(LunCatalogue::decode(&bytes, 700), None, "a root is past the end");
        let end = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
        for bit in 0..end * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LunCatalogue::decode(&damaged, 701), None, "bit {bit}");
        }
        assert!((0..end).all(|length| LunCatalogue::decode(&bytes[..length], 701).is_none()));
    }

    #[test]
    fn inconsistent_catalogues_with_valid_checksums_are_rejected() {
        let lies: [fn(&mut LunCatalogue); 7] = [
            |catalogue| catalogue.luns[0].root.block = 511,
            |catalogue| catalogue.luns[0].root.birth = 10,
            |catalogue| catalogue.luns[0].snapshots[0].sequence = 10,
            |catalogue| catalogue.luns[0].blocks = 0,
            |catalogue| catalogue.luns[1].id = 7,
            |catalogue| catalogue.luns[1].name = "a".into(),
            |catalogue| catalogue.sequence = u64::MAX,
        ];
        for lie in lies {
            let mut catalogue = catalogue();
            lie(&mut catalogue);
            assert_eq!(LunCatalogue::decode(&catalogue.encode().unwrap(), 701), None);
        }
        for name in ["", "a b", "a/b", "a\n"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
