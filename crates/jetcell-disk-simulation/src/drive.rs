//! Drive parameters from data sheets, and access durations.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cache::CacheParameters;

/// Size of a sector in bytes.
const SECTOR: f64 = 512.0;
/// Maximum duration of each component of an access, in milliseconds.
const MAX_PART_MS: f64 = 60_000.0;

/// A drive model: either a disk or a solid-state drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum DriveModel {
    /// A disk with seeking heads and rotating platters.
    Disk(DiskModel),
    /// A solid-state drive with flash memory.
    Ssd(SsdModel),
}

/// Parameters for a simulated disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Name of the drive in reports.
    pub name: String,
    /// Rotations per minute.
    pub rpm: f64,
    /// Capacity in gigabytes (10^9).
    pub capacity_gb: f64,
    /// Number of cylinders, that is, of head positions.
    pub cylinders: u32,
    /// Number of sectors in the innermost track and in the outermost track.
    pub sectors_per_track: [f64; 2],
    /// Seek time of reads.
    pub read_seek: SeekTimeModel,
    /// Seek time of writes, for which the heads need more time to settle.
    pub write_seek: SeekTimeModel,
    /// Time to switch from one track to the next within a transfer, in milliseconds.
    #[serde(default)]
    pub switch_ms: f64,
    /// Time for a command in milliseconds, excluding seek, rotation and transfer.
    pub command_ms: f64,
    /// Cache of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheParameters>,
}

/// Parameters for a simulated solid-state drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdModel {
    /// Name of the drive in reports.
    pub name: String,
    /// Capacity in gigabytes (10^9).
    pub capacity_gb: f64,
    /// Duration of a small read in milliseconds.
    pub read_ms: f64,
    /// Duration of a small write in milliseconds.
    pub write_ms: f64,
    /// Transfer rate of the interface in megabytes (10^6) per second. All transfers share it.
    pub mb_per_second: f64,
    /// Number of accesses that the drive processes concurrently.
    pub channels: u32,
}

/// A model of seek time as a function of seek distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SeekTimeModel {
    /// Minimum, average and maximum time in milliseconds, as in data sheets.
    Points([f64; 3]),
    /// Measured times, as pairs of distance in cylinders and time in milliseconds, in ascending order.
    Table(Vec<[f64; 2]>),
}

impl SeekTimeModel {
    /// Returns true if times and distances are within their ranges, and distances are in ascending order.
    fn is_possible(&self) -> bool {
        let is_time = |time: f64| (0.0..=MAX_PART_MS).contains(&time);
        match self {
            SeekTimeModel::Points(times) => times.iter().all(|time| is_time(*time)) && times.is_sorted(),
            SeekTimeModel::Table(pairs) => {
                !pairs.is_empty()
                    && pairs.iter().all(|[distance, time]| distance.is_finite() && is_time(*time))
                    && pairs.windows(2).all(|pair| pair[0][0] < pair[1][0])
            }
        }
    }

    /// Returns the time in milliseconds for a distance of `cylinders` on a disk with `all` cylinders.
    ///
    /// The curve for three points is a·√(d−1) + b·(d−1) + c (Lee). The curve matches the given average and maximum
    /// exactly.
    pub fn milliseconds(&self, cylinders: f64, all: f64) -> f64 {
        if cylinders < 1.0 {
            return 0.0;
        }
        match self {
            SeekTimeModel::Points([min, average, max]) => {
                let a = (-10.0 * min + 15.0 * average - 5.0 * max) / (3.0 * all.sqrt());
                let b = (7.0 * min - 15.0 * average + 8.0 * max) / (3.0 * all);
                (a * (cylinders - 1.0).sqrt() + b * (cylinders - 1.0) + min).max(0.0)
            }
            SeekTimeModel::Table(pairs) => {
                let behind = pairs.partition_point(|[distance, _]| *distance < cylinders);
                match (behind.checked_sub(1).map(|before| pairs[before]), pairs.get(behind).copied()) {
                    (Some([d0, t0]), Some([d1, t1])) => t0 + (t1 - t0) * (cylinders - d0) / (d1 - d0),
                    (Some([_, time]), None) | (None, Some([_, time])) => time,
                    (None, None) => 0.0,
                }
            }
        }
    }
}

/// A single read from or write to a simulated drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveAccess {
    /// Offset of the first byte.
    pub position: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the access is a write.
    pub is_write: bool,
}

/// Position of a simulated drive's heads.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveHead {
    cylinder: f64,
    /// End of the last access. The drive's cache or buffer contains the data that follows this position.
    next: Option<u64>,
    /// Time at which a solid-state drive's interface has completed all previous transfers.
    interface_free: Duration,
}

impl DriveHead {
    /// Returns the end of the last access if it lies within a range.
    pub(crate) fn next_in(&self, range: &std::ops::Range<u64>) -> Option<u64> {
        self.next.filter(|next| range.start < *next && *next < range.end)
    }

    /// Moves the head after the drive has read ahead up to this byte.
    pub(crate) fn move_after_read_ahead(&mut self, drive: &DriveModel, end: u64) {
        self.cylinder = drive.cylinder(end);
        self.next = Some(end);
    }
}

impl DriveModel {
    /// Returns the name of the drive in reports.
    pub fn name(&self) -> &str {
        match self {
            DriveModel::Disk(disk) => &disk.name,
            DriveModel::Ssd(ssd) => &ssd.name,
        }
    }

    /// Returns the name of the first field with an invalid value.
    pub fn impossible_field(&self) -> Option<&'static str> {
        let in_range = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let rules = match self {
            DriveModel::Disk(disk) => {
                let [inner, outer] = disk.sectors_per_track;
                vec![
                    ("rpm", in_range(disk.rpm, 1.0, 1e6)),
                    ("capacity_gb", in_range(disk.capacity_gb, 0.001, 1e6)),
                    ("cylinders", disk.cylinders > 0),
                    ("sectors_per_track", in_range(inner, 1.0, 1e6) && in_range(outer, inner, 1e6)),
                    ("read_seek", disk.read_seek.is_possible()),
                    ("write_seek", disk.write_seek.is_possible()),
                    ("switch_ms", in_range(disk.switch_ms, 0.0, MAX_PART_MS)),
                    ("command_ms", in_range(disk.command_ms, 0.0, MAX_PART_MS)),
                    ("cache", disk.cache.is_none_or(|cache| cache.is_possible())),
                ]
            }
            DriveModel::Ssd(ssd) => vec![
                ("capacity_gb", in_range(ssd.capacity_gb, 0.001, 1e6)),
                ("read_ms", in_range(ssd.read_ms, 0.0, MAX_PART_MS)),
                ("write_ms", in_range(ssd.write_ms, 0.0, MAX_PART_MS)),
                ("mb_per_second", in_range(ssd.mb_per_second, 0.001, 1e9)),
                ("channels", (1..=1024).contains(&ssd.channels)),
            ],
        };
        rules.into_iter().find(|(_, holds)| !holds).map(|(name, _)| name)
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        let gb = match self {
            DriveModel::Disk(disk) => disk.capacity_gb,
            DriveModel::Ssd(ssd) => ssd.capacity_gb,
        };
        (gb * 1e9) as u64
    }

    /// Returns the number of accesses that the drive processes concurrently.
    pub fn channels(&self) -> u32 {
        match self {
            DriveModel::Disk(_) => 1,
            DriveModel::Ssd(ssd) => ssd.channels.max(1),
        }
    }

    /// Returns the parameters of the drive's cache.
    pub fn cache(&self) -> Option<&CacheParameters> {
        match self {
            DriveModel::Disk(disk) => disk.cache.as_ref(),
            DriveModel::Ssd(_) => None,
        }
    }

    /// Returns a copy of the drive whose cylinders are spread over this many bytes. Seek times and transfer rates are
    /// the same as on the whole drive.
    #[must_use]
    pub fn with_capacity(&self, bytes: u64) -> DriveModel {
        let mut drive = self.clone();
        let gb = bytes as f64 / 1e9;
        match &mut drive {
            DriveModel::Disk(disk) => disk.capacity_gb = gb,
            DriveModel::Ssd(ssd) => ssd.capacity_gb = gb,
        }
        drive
    }

    /// Returns the time for a command in milliseconds, excluding seek, rotation and transfer.
    pub(crate) fn command_ms(&self) -> f64 {
        match self {
            DriveModel::Disk(disk) => disk.command_ms,
            DriveModel::Ssd(_) => 0.0,
        }
    }

    /// Returns the duration in milliseconds of a transfer at a position, excluding seek and rotation.
    pub(crate) fn transfer_ms(&self, position: u64, bytes: f64) -> f64 {
        match self {
            DriveModel::Disk(disk) => {
                let tracks = bytes / SECTOR / disk.sectors(position as f64 / self.capacity() as f64);
                tracks * (60_000.0 / disk.rpm + disk.switch_ms)
            }
            DriveModel::Ssd(ssd) => bytes / (ssd.mb_per_second * 1e3),
        }
    }

    /// Returns the cylinder that contains a byte. Cylinder 0 is the outermost one, and contains the first bytes.
    pub fn cylinder(&self, position: u64) -> f64 {
        match self {
            DriveModel::Disk(disk) => {
                disk.cylinder_share(position as f64 / self.capacity() as f64) * f64::from(disk.cylinders)
            }
            DriveModel::Ssd(_) => 0.0,
        }
    }

    /// Returns the duration of an access that begins now, and moves the heads.
    pub fn service(&self, head: &mut DriveHead, now: Duration, access: DriveAccess) -> Duration {
        let transfer = self.transfer_ms(access.position, access.bytes as f64);
        let milliseconds = match self {
            DriveModel::Disk(disk) => {
                let cylinder = self.cylinder(access.position);
                let mut time = disk.command_ms + transfer;
                if head.next != Some(access.position) {
                    let share = access.position as f64 / self.capacity() as f64;
                    time += disk.positioning_ms(head.cylinder, cylinder, share, now, access);
                }
                head.cylinder = cylinder;
                time
            }
            DriveModel::Ssd(ssd) => {
                let base = if access.is_write { ssd.write_ms } else { ssd.read_ms };
                let ready = now + duration_from_ms(base);
                head.interface_free = ready.max(head.interface_free) + duration_from_ms(transfer);
                return head.interface_free - now;
            }
        };
        head.next = Some(access.position + access.bytes);
        duration_from_ms(milliseconds)
    }
}

/// Converts a time in milliseconds to a duration. Negative times become zero.
pub(crate) fn duration_from_ms(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds.max(0.0) / 1e3)
}

impl DiskModel {
    /// Returns the fraction of cylinders that contain this fraction of the bytes. Outer tracks contain more bytes.
    fn cylinder_share(&self, share: f64) -> f64 {
        let [inner, outer] = self.sectors_per_track;
        let share = share.clamp(0.0, 1.0);
        if (outer - inner).abs() < 1e-9 {
            return share;
        }
        (outer - (outer * outer - (outer - inner) * (outer + inner) * share).max(0.0).sqrt())
            / (outer - inner)
    }

    /// Returns the number of sectors per track at the position given as a fraction of the bytes.
    fn sectors(&self, share: f64) -> f64 {
        let [inner, outer] = self.sectors_per_track;
        outer - (outer - inner) * self.cylinder_share(share)
    }

    /// Returns how long the heads take to reach the first sector, in milliseconds, including seek and rotation.
    fn positioning_ms(&self, from: f64, to: f64, share: f64, now: Duration, access: DriveAccess) -> f64 {
        let turn = 60_000.0 / self.rpm;
        let curve = if access.is_write { &self.write_seek } else { &self.read_seek };
        let seek = curve.milliseconds((to - from).abs(), f64::from(self.cylinders));
        let arrived = now.as_secs_f64() * 1e3 + self.command_ms + seek;
        let angle = (arrived / turn).fract();
        let target = (access.position as f64 / SECTOR / self.sectors(share)).fract();
        seek + (target - angle).rem_euclid(1.0) * turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::drives;

    #[test]
    fn a_three_point_curve_matches_minimum_average_and_maximum_times() {
        let (seek, all) = (SeekTimeModel::Points([0.2, 3.4, 6.6]), 107_500.0);
        assert!((seek.milliseconds(1.0, all) - 0.2).abs() < 1e-9);
        assert!((seek.milliseconds(all, all) - 6.6).abs() < 0.01);
        // The distance d between two random cylinders has the probability 2 (1 - d/all) / all.
        let steps = 20_000;
        let mean: f64 = (0..steps)
            .map(|step| (f64::from(step) + 0.5) / f64::from(steps))
            .map(|x| 2.0 * (1.0 - x) * seek.milliseconds(x * all, all) / f64::from(steps))
            .sum();
        assert!((mean - 3.4).abs() < 0.01, "{mean}");
        assert_eq!(seek.milliseconds(0.0, all), 0.0);
    }

    #[test]
    fn a_seek_table_is_interpolated_and_constant_outside_the_range() {
        let seek = SeekTimeModel::Table(vec![[1.0, 0.5], [10.0, 1.4], [100.0, 2.3]]);
        let seek_time = |distance| seek.milliseconds(distance, 200.0);
        assert_eq!(
            [seek_time(0.0), seek_time(1.0), seek_time(100.0), seek_time(150.0)],
            [0.0, 0.5, 2.3, 2.3]
        );
        assert!((seek_time(5.5) - 0.95).abs() < 1e-9);
    }

    #[test]
    fn sequential_transfers_match_the_published_track_rates() {
        // The published rate does not include track switches and command times.
        let DriveModel::Disk(mut disk) = drives().remove("15k-146").unwrap() else { panic!("a disk") };
        disk.switch_ms = 0.0;
        let drive = DriveModel::Disk(disk);
        for (position, published) in [(0, 154.0), (drive.capacity() - 1, 92.0)] {
            let rate = 1e3 / drive.transfer_ms(position, 1e6);
            assert!((rate / published - 1.0).abs() < 0.01, "{rate} MB/s, published {published}");
        }
    }

    #[test]
    fn flash_transfers_share_the_interface_bandwidth() {
        let drive = drives().remove("ssd").unwrap();
        let mut head = DriveHead::default();
        let read = |position| DriveAccess { position, bytes: 500_000, is_write: false };
        let times = [0, 1, 2].map(|place| drive.service(&mut head, Duration::ZERO, read(place << 20)));
        let milliseconds = times.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3);
        assert_eq!(milliseconds, [1.102, 2.102, 3.102]);
    }

    #[test]
    fn a_smaller_drive_keeps_full_drive_seek_times() {
        let drive = drives().remove("15k-146").unwrap();
        let small = drive.with_capacity(1 << 30);
        let far = |drive: &DriveModel| drive.cylinder(drive.capacity() - 4096);
        assert!((far(&drive) - far(&small)).abs() < 2.0, "{} {}", far(&drive), far(&small));
        assert!((small.transfer_ms(0, 1e6) / drive.transfer_ms(0, 1e6) - 1.0).abs() < 1e-9);
    }
}
