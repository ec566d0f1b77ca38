//! The figures of IBM NS3574-0, "Microsoft Exchange Server 2007 and IBM System Storage N series with RAID-DP" (2008).

/// Table 5: mean read latency over the ten databases, in milliseconds.
pub const READ_MS: f64 = 9.7;
/// Table 5: mean write latency in milliseconds.
pub const WRITE_MS: f64 = 5.9;
/// Table 7: mean read latency during the rebuild, in milliseconds.
pub const READ_MS_REBUILDING: f64 = 14.4;
/// Table 7: mean write latency during the rebuild, in milliseconds.
pub const WRITE_MS_REBUILDING: f64 = 6.0;
/// Text of table 5: host I/O per second that the test reached.
pub const IOPS: f64 = 5320.0;
/// Figure 7: the number of disk writes per host write is "substantially below" this.
pub const DISK_WRITES_PER_HOST_WRITE_BELOW: f64 = 1.0;
/// Figure 8: duration of the rebuild in seconds.
pub const REBUILD_SECONDS: f64 = 5432.0;
/// Figure 8: 144 GB in that time, in megabytes (10^6) per second.
pub const REBUILD_MB_PER_SECOND: f64 = 26.51;

/// Table 8: overall performance, write performance, degraded performance, rebuild time.
pub const TABLE_8: [(&str, [&str; 4]); 4] = [
    ("RAID 10", ["Best", "Best", "Best", "Best"]),
    ("RAID 5", ["Good", "Poor", "Poor", "Poor"]),
    ("RAID 6", ["Poor", "Poor", "Good", "Poor"]),
    ("RAID-DP", ["Best", "Best", "Best", "Good"]),
];
