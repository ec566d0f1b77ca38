//! Duration of a rebuild and of a scrub pass, derived from the drive and its load.

use serde::Serialize;

use crate::Error;
use crate::units::{Bytes, BytesPerSecond, Fraction, Hours};

/// A drive and its load while a rebuild is running.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadedDrive {
    /// Capacity: how much data a rebuild writes and a scrub reads.
    pub capacity: Bytes,
    /// Sequential transfer rate.
    pub bandwidth: BytesPerSecond,
    /// Fraction of the bandwidth used by hosts.
    pub load: Fraction,
    /// Fraction of the remaining bandwidth that a scrub may use.
    pub scrub_share: Fraction,
    /// Maximum total transfer rate for the drives in a group, if there is a limit.
    pub bus: Option<BytesPerSecond>,
}

/// The component that limits the rebuild rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebuildLimit {
    /// The spare drive, which is being written.
    Write,
    /// The drives being read, which also serve hosts.
    Read,
    /// The bus shared by all drives.
    Bus,
}

/// Rebuild and scrub times for a drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RebuildTimes {
    /// Duration of a rebuild.
    pub rebuild: Hours,
    /// Rate of the rebuild.
    pub rebuild_rate: BytesPerSecond,
    /// Component that limits the rebuild rate.
    pub limit: RebuildLimit,
    /// Duration of one scrub pass over the drive.
    pub scrub_pass: Hours,
}

impl LoadedDrive {
    /// Computes the durations for a set of `drives` drives: rebuild = capacity / min(write rate, read rate (1 -
    /// load), bus / N), scrub pass = capacity / (bandwidth (1 - load) share).
    pub fn rebuild_times(&self, drives: u32) -> Result<RebuildTimes, Error> {
        let free = self.bandwidth.get() * (1.0 - self.load.get());
        let bus = self.bus.map_or(f64::INFINITY, |bus| bus.get() / f64::from(drives));
        let (mut rate, mut limit) = (self.bandwidth.get(), RebuildLimit::Write);
        for (other, name) in [(free, RebuildLimit::Read), (bus, RebuildLimit::Bus)] {
            if other < rate {
                (rate, limit) = (other, name);
            }
        }
        let scrub = free * self.scrub_share.get();
        if self.capacity.get() == 0.0 {
            return Err(Error::Zero("the capacity"));
        }
        if rate == 0.0 || scrub == 0.0 {
            return Err(Error::Zero("the bandwidth that load and scrub share leave"));
        }
        Ok(RebuildTimes {
            rebuild: Hours::new(self.capacity.get() / rate / 3600.0)?,
            rebuild_rate: BytesPerSecond::new(rate)?,
            limit,
            scrub_pass: Hours::new(self.capacity.get() / scrub / 3600.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(bandwidth: &str, load: &str, bus: Option<&str>) -> LoadedDrive {
        LoadedDrive {
            capacity: "144GB".parse().unwrap(),
            bandwidth: bandwidth.parse().unwrap(),
            load: load.parse().unwrap(),
            scrub_share: "10%".parse().unwrap(),
            bus: bus.map(|bus| bus.parse().unwrap()),
        }
    }

    /// Checks the rebuild measured in the paper: 144 GB in 5,432 s, 26.51 MB/s.
    #[test]
    fn rebuild_time_matches_the_paper() {
        let fixture: serde_json::Value =
            serde_json::from_str(include_str!("../fixtures/raid-dp-exchange.json")).unwrap();
        let rebuild = &fixture["rebuild"];
        let times = drive("26.51MB/s", "0%", None).rebuild_times(16).unwrap();
        assert!((times.rebuild.get() * 3600.0 / rebuild["seconds"].as_f64().unwrap() - 1.0).abs() < 1e-4);
        // A single 2 Gb/s loop, with 200 MB/s for 16 drives, would have needed 3.2 h.
        let times = drive("100MB/s", "30%", Some("200MB/s")).rebuild_times(16).unwrap();
        assert_eq!(
            (times.limit, format!("{:.1}", times.rebuild.get())),
            (RebuildLimit::Bus, "3.2".to_string())
        );
    }

    #[test]
    fn the_slowest_part_limits_the_rebuild() {
        assert_eq!(drive("100MB/s", "0%", None).rebuild_times(8).unwrap().limit, RebuildLimit::Write);
        let loaded = drive("100MB/s", "60%", None).rebuild_times(8).unwrap();
        assert_eq!((loaded.limit, loaded.rebuild.get()), (RebuildLimit::Read, 1.0));
        assert!((loaded.scrub_pass.get() - 10.0).abs() < 1e-12);
    }

    #[test]
    fn a_drive_without_free_bandwidth_is_refused() {
        assert!(drive("100MB/s", "100%", None).rebuild_times(8).is_err());
        assert!(drive("0B/s", "0%", None).rebuild_times(8).is_err());
    }
}
