//! Self-describing sectors: every 512 bytes contain the file, the sector number, and the operation that wrote them.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::operation::{BLOCK, OperationNumber};

/// Size in bytes that a device writes atomically.
pub(super) const SECTOR: usize = 512;
const MAGIC: [u8; 8] = *b"JCLDUR01";

/// A file, identified by the operation that created it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FileId(pub(super) OperationNumber);

/// Identity of a sector: its file, its number, and the operation that wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) operation: OperationNumber,
    pub(super) file: FileId,
    /// Sector number in the file.
    pub(super) sector: u64,
}

/// What a sector on the device contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Zeros,
    Written(Stamp),
    /// Data that no operation wrote.
    Unknown,
}

impl Stamp {
    fn bytes(self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        // Use random content, which a device cannot compress.
        let seed = self.operation.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.sector;
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        let fields =
            [MAGIC, self.operation.0.to_le_bytes(), self.file.0.0.to_le_bytes(), self.sector.to_le_bytes()];
        bytes.iter_mut().zip(fields.as_flattened()).for_each(|(byte, field)| *byte = *field);
        bytes
    }
}

impl Content {
    pub(super) fn of(sector: &[u8]) -> Content {
        if sector.iter().all(|byte| *byte == 0) {
            return Content::Zeros;
        }
        let field = |number: usize| {
            let bytes = sector.get(number * 8..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let stamp = field(1).zip(field(2)).zip(field(3)).map(|((operation, file), sector)| Stamp {
            operation: OperationNumber(operation),
            file: FileId(OperationNumber(file)),
            sector,
        });
        match stamp {
            Some(stamp) if stamp.bytes()[..] == *sector => Content::Written(stamp),
            _ => Content::Unknown,
        }
    }
}

/// Fills whole blocks of a file, starting with block number `block`.
pub(super) fn fill(bytes: &mut [u8], operation: OperationNumber, file: FileId, block: u64) {
    let first = block * (BLOCK / SECTOR) as u64;
    for (number, sector) in bytes.chunks_exact_mut(SECTOR).enumerate() {
        sector.copy_from_slice(&Stamp { operation, file, sector: first + number as u64 }.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_names_its_writer_and_a_changed_bit_is_seen() {
        let (operation, file) = (OperationNumber(77), FileId(OperationNumber(5)));
        let mut block = vec![0; BLOCK];
        assert_eq!(Content::of(&block[..SECTOR]), Content::Zeros);
        fill(&mut block, operation, file, 3);
        let found: Vec<Content> = block.chunks(SECTOR).map(Content::of).collect();
        let expected = (24..32).map(|sector| Content::Written(Stamp { operation, file, sector }));
        assert_eq!(found, expected.collect::<Vec<_>>());
        for bit in [0, 100, 511 * 8] {
            let mut sector = block[..SECTOR].to_vec();
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Content::of(&sector), Content::Unknown);
        }
    }
}
