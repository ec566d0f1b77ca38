//! Fragmentation of a file on its device.
//!
//! Extents that are contiguous both in the file and on the device form one piece, because a transfer that crosses
//! from one to the next needs no seek. File systems limit the length of an extent (ext4: 128 MiB), so the number of
//! extents alone is not meaningful.

mod file_map;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::file_map::{FileExtent, FileMap, FileMapError};
use crate::layout::RunPlan;

/// Fragmentation of a file on its device. All sizes and distances are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fragmentation {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
    /// Number of extents, as reported by the file system.
    pub extents: usize,
    /// Number of pieces: runs of extents that are contiguous in the file and on the device.
    pub pieces: usize,
    /// Length of the smallest extent, or 0 if there are no extents.
    pub smallest_extent_bytes: u64,
    /// Mean length of the extents.
    pub mean_extent_bytes: f64,
    /// Length of the largest extent.
    pub largest_extent_bytes: u64,
    /// Mean distance on the device between the end of an extent and the start of the next. Contiguous extents have a
    /// distance of 0. `None` if there are no successive extents with known locations.
    pub mean_distance_bytes: Option<f64>,
    /// Largest distance on the device between the end of an extent and the start of the next.
    pub largest_distance_bytes: Option<u64>,
    /// Number of extents that lie before their predecessor on the device.
    pub backward: usize,
    /// Reads that span more than one piece, by read size.
    pub reads: Vec<SplitReads>,
    /// Bytes in holes, which have no allocated space. Reading a hole does not access the device.
    pub hole_bytes: u64,
    /// Bytes that were allocated but never written. Reading them does not access the device either.
    pub unwritten_bytes: u64,
    /// Bytes shared with other files or snapshots. The next write to them relocates them.
    pub shared_bytes: u64,
    /// Bytes whose location the file system does not report, because they are compressed, encrypted, stored in an
    /// inode or not yet allocated.
    pub unplaced_bytes: u64,
}

/// Statistics for aligned reads of one size, including how many span several pieces. Offsets are multiples of the
/// read size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitReads {
    /// Size of a read in bytes.
    pub read_bytes: u64,
    /// Number of reads of this size needed to read the whole file.
    pub reads: u64,
    /// Number of reads that span more than one piece.
    pub crossing: u64,
    /// Ratio of `crossing` to `reads`, from 0 to 1.
    pub share: f64,
}

/// Fragmentation of a database before and after a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FragmentationChange {
    /// Fragmentation before the load.
    pub before: Fragmentation,
    /// Fragmentation after the load.
    pub after: Fragmentation,
}

/// Size, in bytes, of a read by the background scan.
const SCAN_READ_BYTES: u64 = 256 << 10;

/// Returns the fragmentation of each database in a run, for page-sized reads and for background scan reads. The value
/// is `None` for a file on an array, or if the file system does not report locations.
pub(crate) fn database_fragmentation(plan: &RunPlan) -> Vec<Option<Fragmentation>> {
    let reads = [u64::from(plan.page_bytes), SCAN_READ_BYTES];
    let file_fragmentation =
        |path: &PathBuf| FileMap::read(path).ok().map(|map| Fragmentation::from_map(&map, &reads));
    plan.instances.iter().map(|instance| file_fragmentation(&instance.database)).collect()
}

impl Fragmentation {
    /// Computes the fragmentation of a file for the given read sizes. A size of 0 is ignored.
    pub fn from_map(map: &FileMap, read_sizes: &[u64]) -> Fragmentation {
        let extents = &map.extents;
        let lengths = || extents.iter().map(|extent| extent.bytes);
        let neighbours = || extents.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
        let distances: Vec<u64> = neighbours().filter_map(|(one, next)| one.distance_to(next)).collect();
        let within = |of: fn(&FileExtent) -> bool| {
            extents
                .iter()
                .filter(|extent| of(extent))
                .map(|extent| extent.bytes_before(map.bytes))
                .sum::<u64>()
        };
        let breaks: Vec<(&FileExtent, &FileExtent)> = map.discontinuities().collect();
        let sizes = read_sizes.iter().filter(|size| **size > 0);
        Fragmentation {
            path: map.path.clone(),
            bytes: map.bytes,
            extents: extents.len(),
            pieces: if extents.is_empty() { 0 } else { breaks.len() + 1 },
            smallest_extent_bytes: lengths().min().unwrap_or(0),
            mean_extent_bytes: mean(lengths()).unwrap_or(0.0),
            largest_extent_bytes: lengths().max().unwrap_or(0),
            mean_distance_bytes: mean(distances.iter().copied()),
            largest_distance_bytes: distances.iter().copied().max(),
            backward: neighbours()
                .filter(|(one, next)| next.physical < one.physical && next.physical.is_some())
                .count(),
            reads: sizes.map(|size| SplitReads::new(map.bytes, &breaks, *size)).collect(),
            hole_bytes: map.bytes.saturating_sub(within(|_| true)),
            unwritten_bytes: within(|extent| extent.unwritten),
            shared_bytes: within(|extent| extent.shared),
            unplaced_bytes: within(|extent| extent.physical.is_none()),
        }
    }
}

impl SplitReads {
    fn new(bytes: u64, breaks: &[(&FileExtent, &FileExtent)], size: u64) -> SplitReads {
        let mut crossed: Vec<u64> = breaks
            .iter()
            .filter(|(_, next)| next.logical < bytes)
            // If there is a hole between the extents, a read that reaches into the hole may need only one of the two.
            .filter(|(one, next)| one.end().saturating_sub(1) / size == next.logical / size)
            .map(|(_, next)| next.logical / size)
            .collect();
        // The extents are in file order, so equal read numbers are adjacent.
        crossed.dedup();
        let (reads, crossing) = (bytes.div_ceil(size), crossed.len() as u64);
        SplitReads { read_bytes: size, reads, crossing, share: crossing as f64 / (reads as f64).max(1.0) }
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value as f64));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn extent(logical: u64, physical: u64, bytes: u64) -> FileExtent {
        FileExtent {
            logical: logical * KIB,
            physical: Some(physical * KIB),
            bytes: bytes * KIB,
            ..FileExtent::default()
        }
    }

    fn fragmentation(kib: u64, extents: Vec<FileExtent>) -> Fragmentation {
        let map = FileMap { path: "a.edb".into(), bytes: kib * KIB, extents };
        Fragmentation::from_map(&map, &[32 * KIB, 256 * KIB, 0])
    }

    #[test]
    fn contiguous_extents_form_one_fragment() {
        let found =
            fragmentation(384, vec![extent(0, 1000, 128), extent(128, 1128, 128), extent(256, 1256, 128)]);
        assert_eq!((found.extents, found.pieces, found.backward), (3, 1, 0));
        assert_eq!((found.mean_distance_bytes, found.largest_distance_bytes), (Some(0.0), Some(0)));
        assert!(found.reads.iter().all(|reads| reads.crossing == 0));
        assert_eq!((found.hole_bytes, found.unwritten_bytes, found.shared_bytes), (0, 0, 0));
    }

    #[test]
    fn each_read_that_crosses_fragments_is_counted_once() {
        // The breaks are at 48, 56 and 128 KiB. The first two fall within one page, and the third falls on a page
        // boundary.
        let extents =
            vec![extent(0, 1000, 48), extent(48, 4000, 8), extent(56, 100, 72), extent(128, 9000, 1024)];
        let found = fragmentation(1152, extents);
        assert_eq!((found.pieces, found.backward), (4, 1));
        let counts: Vec<(u64, u64)> = found.reads.iter().map(|reads| (reads.reads, reads.crossing)).collect();
        assert_eq!(counts, [(36, 1), (5, 1)]);
        assert!((found.reads[0].share - 1.0 / 36.0).abs() < 1e-12);
        // The distances are 4000 - 1048, 4008 - 100 and 9000 - 172.
        assert_eq!(found.largest_distance_bytes, Some(8828 * KIB));
        assert_eq!(found.mean_distance_bytes, Some((2952 + 3908 + 8828) as f64 * KIB as f64 / 3.0));
        assert_eq!((found.smallest_extent_bytes, found.largest_extent_bytes), (8 * KIB, 1024 * KIB));
        assert_eq!(found.mean_extent_bytes, 288.0 * KIB as f64);
    }

    #[test]
    fn hole_unwritten_and_shared_bytes_are_counted_to_file_end() {
        let mut extents = vec![extent(0, 1000, 64), extent(128, 2000, 64), extent(192, 3000, 640)];
        (extents[1].unwritten, extents[2].shared) = (true, true);
        let found = fragmentation(256, extents);
        assert_eq!(
            (found.hole_bytes, found.unwritten_bytes, found.shared_bytes),
            (64 * KIB, 64 * KIB, 64 * KIB)
        );
        // Only the 256 KiB read spans more than one piece. The other reads fall within one piece or the hole.
        assert_eq!(found.reads.iter().map(|reads| reads.crossing).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn extents_without_a_physical_address_start_new_fragments() {
        let nowhere = FileExtent { physical: None, ..extent(32, 0, 32) };
        let found = fragmentation(64, vec![extent(0, 10, 32), nowhere]);
        assert_eq!((found.pieces, found.backward, found.unplaced_bytes), (2, 0, 32 * KIB));
        assert_eq!((found.mean_distance_bytes, found.largest_distance_bytes), (None, None));
    }

    #[test]
    fn a_file_without_extents_has_no_fragments() {
        let found = fragmentation(0, Vec::new());
        assert_eq!((found.extents, found.pieces, found.mean_extent_bytes), (0, 0, 0.0));
        assert!(found.reads.iter().all(|reads| reads.reads == 0 && reads.share == 0.0));
        assert_eq!(fragmentation(64, Vec::new()).hole_bytes, 64 * KIB);
    }

    #[test]
    fn extents_at_maximum_addresses_do_not_panic() {
        let end = FileExtent {
            logical: u64::MAX - 1,
            physical: Some(u64::MAX),
            bytes: u64::MAX,
            ..FileExtent::default()
        };
        let found = fragmentation(64, vec![end.clone(), end]);
        assert_eq!(found.pieces, 2);
    }
}
