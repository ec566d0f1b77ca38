//! Self-describing sectors: every 512 bytes contain the file, the sector number, and the operation that wrote them.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::operation::{BLOCK_BYTES, OperationNumber};

/// Number of bytes that a device writes atomically.
pub(crate) const SECTOR_BYTES: usize = 512;
const MAGIC: [u8; 8] = *b"JCLDUR01";

/// Identifies a file by the operation that created it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TestFileId(pub(crate) OperationNumber);

/// Identifies a sector's file, its number, and the operation that wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SectorStamp {
    pub(crate) operation: OperationNumber,
    pub(crate) file: TestFileId,
    /// Sector number in the file.
    pub(crate) sector: u64,
}

/// The content of a sector on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectorContent {
    Zeros,
    Written(SectorStamp),
    /// Data that no operation wrote.
    Unknown,
}

impl SectorStamp {
    fn bytes(self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        // Use random content, which a device cannot compress.
        let seed = self.operation.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.sector;
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        let fields =
            [MAGIC, self.operation.0.to_le_bytes(), self.file.0.0.to_le_bytes(), self.sector.to_le_bytes()];
        bytes.iter_mut().zip(fields.as_flattened()).for_each(|(byte, field)| *byte = *field);
        bytes
    }
}

impl SectorContent {
    pub(crate) fn parse(sector: &[u8]) -> SectorContent {
        if sector.iter().all(|byte| *byte == 0) {
            return SectorContent::Zeros;
        }
        let field = |number: usize| {
            let bytes = sector.get(number * 8..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let stamp = field(1).zip(field(2)).zip(field(3)).map(|((operation, file), sector)| SectorStamp {
            operation: OperationNumber(operation),
            file: TestFileId(OperationNumber(file)),
            sector,
        });
        match stamp {
            Some(stamp) if stamp.bytes()[..] == *sector => SectorContent::Written(stamp),
            _ => SectorContent::Unknown,
        }
    }
}

/// Fills whole blocks of a file, starting with block number `block`.
pub(crate) fn fill(bytes: &mut [u8], operation: OperationNumber, file: TestFileId, block: u64) {
    let first = block * (BLOCK_BYTES / SECTOR_BYTES) as u64;
    for (number, sector) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        sector.copy_from_slice(&SectorStamp { operation, file, sector: first + number as u64 }.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_identifies_the_writer_and_detects_bit_flips() {
        let (operation, file) = (OperationNumber(77), TestFileId(OperationNumber(5)));
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(SectorContent::parse(&block[..SECTOR_BYTES]), SectorContent::Zeros);
        fill(&mut block, operation, file, 3);
        let found: Vec<SectorContent> = block.chunks(SECTOR_BYTES).map(SectorContent::parse).collect();
        let expected = (24..32).map(|sector| SectorContent::Written(SectorStamp { operation, file, sector }));
        assert_eq!(found, expected.collect::<Vec<_>>());
        for bit in [0, 100, 511 * 8] {
            let mut sector = block[..SECTOR_BYTES].to_vec();
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SectorContent::parse(&sector), SectorContent::Unknown);
        }
    }
}
