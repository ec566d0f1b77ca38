//! Estimates how much a file's fragmentation costs on a drive whose seek times were measured.

use jetcell_workload::fragmentation::{FileExtent, FileMap};
use serde::Serialize;

use super::seek_curve::SeekCurve;

/// The expected cost of a file's fragmentation on a given drive. Caching and background work in the drive may reduce
/// the actual cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedCost {
    /// Name of the drive in its test.
    pub drive: String,
    /// Seconds to read the whole file sequentially if it were contiguous.
    pub contiguous_scan_seconds: f64,
    /// Seconds to read the whole file sequentially as it is stored, including a seek between fragments.
    pub scan_seconds: f64,
    /// Size of a single read in bytes.
    pub read_bytes: u64,
    /// Milliseconds that fragmentation adds to a single read, averaged over all reads. Only reads that cross a
    /// fragment boundary are slowed down.
    pub read_ms: f64,
}

impl ExpectedCost {
    /// Estimates the cost for a file on a drive if it is read in aligned units of `read_bytes`. A distance between
    /// fragments counts as zero if the file system does not report it.
    pub fn estimate(map: &FileMap, curve: &SeekCurve, read_bytes: u64) -> ExpectedCost {
        let read_bytes = read_bytes.max(1);
        let cost = |(one, next): (&FileExtent, &FileExtent)| {
            one.distance_to(next).map_or(0.0, |distance| curve.cost(distance))
        };
        let inside = |(one, next): &(&FileExtent, &FileExtent)| {
            next.logical < map.bytes && one.end().saturating_sub(1) / read_bytes == next.logical / read_bytes
        };
        let stored: f64 =
            map.extents.iter().filter(|extent| !extent.unwritten).map(|extent| extent.bytes as f64).sum();
        let contiguous_scan_seconds = stored / curve.bytes_per_second;
        let reads = map.bytes.div_ceil(read_bytes).max(1) as f64;
        ExpectedCost {
            drive: curve.drive.clone(),
            contiguous_scan_seconds,
            scan_seconds: contiguous_scan_seconds + map.discontinuities().map(cost).sum::<f64>(),
            read_bytes,
            read_ms: map.discontinuities().filter(inside).map(cost).sum::<f64>() / reads * 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::seek_curve::tests::curve;

    #[test]
    fn each_discontinuity_costs_a_seek_for_the_distance() {
        let extent = |logical: u64, physical: u64, bytes: u64| FileExtent {
            logical: logical << 10,
            physical: Some(physical << 10),
            bytes: bytes << 10,
            ..FileExtent::default()
        };
        // The file has breaks at 48 KiB, inside a read, and at 128 KiB, between two reads. The last extent directly
        // follows the previous one.
        let extents =
            vec![extent(0, 0, 48), extent(48, 100_048, 80), extent(128, 0, 64), extent(192, 64, 64)];
        let map = FileMap { path: "a".into(), bytes: 256 << 10, extents };
        let curve = curve(&[(1.0, 0.011), (1e12, 0.011)], 262_144.0);
        let found = ExpectedCost::estimate(&map, &curve, 32 << 10);
        assert_eq!(found.contiguous_scan_seconds, 1.0);
        assert!((found.scan_seconds - 1.02).abs() < 1e-9, "{found:?}");
        // One of eight reads takes 10 ms longer.
        assert!((found.read_ms - 1.25).abs() < 1e-9, "{found:?}");
        let nothing =
            ExpectedCost::estimate(&FileMap { path: "a".into(), bytes: 0, extents: Vec::new() }, &curve, 0);
        assert_eq!((nothing.scan_seconds, nothing.read_ms), (0.0, 0.0));
    }
}
