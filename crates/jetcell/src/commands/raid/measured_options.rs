//! Measured properties of a `jetcell raid` array: layout, rebuild rate, time between scrubs, and defects found by
//! scrubs and by the reads of loads.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use chrono::DateTime;
use jetcell_array::RaidLevel;
use jetcell_array_service::{ArrayDirectory, ZONE_BYTES};
use jetcell_input::number::human_bytes;
use jetcell_raid_models::units::{Bytes, BytesPerSecond, HOURS_PER_YEAR, Hours, PerHour};
use jetcell_raid_models::{RaidType, ScrubPolicy};
use jetcell_vfs::open_input;
use jetcell_workload::EVENT_FILE;
use serde_json::Value;

use crate::commands::raid::reliability::ReliabilityOptions;
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files::vfs;

/// Maximum number of bytes that are read from the event file.
const MAX_EVENTS: u64 = 64 << 20;

/// Options that were determined from an array. The notes list the values that were measured and those that could not
/// be.
pub struct MeasuredOptions {
    pub options: ReliabilityOptions,
    pub notes: Vec<String>,
}

/// Repair rates and frequencies, collected from an array's events.
#[derive(Default)]
struct RepairRecord {
    /// Rate of the last complete rebuild in bytes per second.
    rebuild_rate: Option<f64>,
    /// Time of the array's creation, or of the first event, in milliseconds since 1970.
    began: Option<i64>,
    /// Times of the complete scrubs in milliseconds since 1970.
    scrubs: Vec<i64>,
    /// Number of damaged blocks found by scrubs, reads and writes.
    damaged: u64,
    /// End time, in milliseconds since 1970, of the last complete scrub or of the last load that found damage.
    last_examined: Option<i64>,
}

impl MeasuredOptions {
    /// Examines an array without changing it.
    pub fn from_array(array: &Path) -> CommandResult<MeasuredOptions> {
        let directory = ArrayDirectory::open(array)?;
        let found = directory.examine(&*vfs()?).context(array.display())?;
        let layout = found.layout;
        let raid = match (layout.level, layout.slots) {
            (RaidLevel::Raid0, _) => {
                return Err(CommandError::new(format_args!(
                    "{}: no model is available for raid0, which loses data if any drive fails",
                    array.display()
                ))
                .advise("specify an array of another level"));
            }
            (RaidLevel::Mirror, 2) | (RaidLevel::Raid10 { copies: 2 }, _) => RaidType::Raid10,
            (RaidLevel::Mirror | RaidLevel::Raid10 { .. }, _) => RaidType::Mirror3,
            (RaidLevel::Raid5, _) => RaidType::Raid5,
            (RaidLevel::Raid6, _) => RaidType::Raid6,
            (RaidLevel::RaidDp { .. }, _) => RaidType::RaidDp,
            (RaidLevel::TripleParity, _) => RaidType::TripleParity,
        };
        let capacity = layout.zones() * ZONE_BYTES;
        let mut options = ReliabilityOptions {
            raid: Some(raid),
            data_disks: u32::try_from(layout.data_columns()).ok(),
            capacity: Bytes::new(capacity as f64).ok(),
            ..ReliabilityOptions::default()
        };
        let record = RepairRecord::read(&directory.path)?;
        let notes = record.set_options(&mut options, layout.slots, capacity);
        Ok(MeasuredOptions { options, notes })
    }
}

impl RepairRecord {
    fn read(directory: &Path) -> CommandResult<RepairRecord> {
        let path = directory.join(EVENT_FILE);
        let file = match open_input(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(RepairRecord::default()),
            file => file.context(path.display())?,
        };
        let mut record = RepairRecord::default();
        for line in BufReader::new(file.take(MAX_EVENTS)).split(b'\n') {
            let line = line.context(path.display())?;
            // A truncated line is not an event.
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            let at = event["at"].as_str().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
            let Some(at) = at.map(|at| at.timestamp_millis()) else { continue };
            record.add(&event, at);
        }
        Ok(record)
    }

    fn add(&mut self, event: &Value, at: i64) {
        self.began.get_or_insert(at);
        match event["event"].as_str() {
            Some("rebuild_completed") => {
                let (bytes, seconds) = (event["bytes"].as_f64(), event["seconds"].as_f64());
                let rate = bytes.zip(seconds).map(|(bytes, seconds)| bytes / seconds);
                self.rebuild_rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0).or(self.rebuild_rate);
            }
            Some("scrub_ended") => {
                self.damaged = self.damaged.saturating_add(event["damaged"].as_u64().unwrap_or(0));
                if event["complete"] == true {
                    self.scrubs.push(at);
                    self.last_examined = Some(at);
                }
            }
            Some("test_ended" | "serving_ended") => {
                if let Some(defects @ 1..) = event["defects"].as_u64() {
                    self.damaged = self.damaged.saturating_add(defects);
                    self.last_examined = Some(at);
                }
            }
            _ => {}
        }
    }

    /// Sets the options that can be determined from the events, and returns a line for each value, whether it was
    /// determined or is missing.
    fn set_options(&self, options: &mut ReliabilityOptions, drives: usize, capacity: u64) -> Vec<String> {
        let hours = |from: i64, to: i64| (to as f64 - from as f64).max(1.0) / 3.6e6;
        let mut notes = Vec::new();
        match self.rebuild_rate {
            Some(rate) => {
                options.rebuild_rate = BytesPerSecond::new(rate).ok();
                let time = capacity as f64 / rate / 3600.0;
                notes.push(format!(
                    "rebuild: {}/s as in the last rebuild, {time:.2} h for a drive",
                    human_bytes(rate as u64)
                ));
            }
            None => {
                notes.push("rebuild: no rebuild was completed, so --restore or its default applies".into());
            }
        }
        match self.scrubs[..] {
            [first, .., last] => {
                let interval = hours(first, last) / (self.scrubs.len() - 1) as f64;
                // A defect can occur at any time between two scrubs, so its mean age is half of the interval.
                options.scrub = Hours::new(interval / 2.0).ok().map(ScrubPolicy::Mean);
                notes.push(format!(
                    "scrub: every {interval:.3} h, so a defect is found after half of that on average"
                ));
            }
            _ => notes.push("scrub: fewer than two were completed, so --scrub or its default applies".into()),
        }
        match (self.damaged, self.began, self.last_examined) {
            (damaged @ 1.., Some(began), Some(last)) => {
                let drive_hours = hours(began, last) * drives as f64;
                options.latent_rate = PerHour::new(damaged as f64 / drive_hours).ok();
                let years = drive_hours / HOURS_PER_YEAR;
                notes.push(format!("defects: {damaged} blocks in {years:.3} drive years"));
            }
            _ => notes.push(
                "defects: neither scrubs nor the load found defects, so --latent-rate or its default applies"
                    .into(),
            ),
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn filled(events: &[(i64, Value)]) -> (String, Vec<String>) {
        let mut record = RepairRecord::default();
        events.iter().for_each(|(at, event)| record.add(event, *at));
        let mut options = ReliabilityOptions::default();
        let notes = record.set_options(&mut options, 4, 1 << 40);
        let ReliabilityOptions { rebuild_rate, scrub, latent_rate, .. } = options;
        (format!("{rebuild_rate:?} {scrub:?} {latent_rate:?}"), notes)
    }

    #[test]
    fn rates_are_derived_from_rebuilds_scrubs_and_defects() {
        let (options, notes) = filled(&[
            (0, json!({ "event": "array_created" })),
            (HOUR, json!({ "event": "scrub_ended", "complete": true, "damaged": 3 })),
            (2 * HOUR, json!({ "event": "rebuild_completed", "bytes": 8_000_000, "seconds": 2.0 })),
            (3 * HOUR, json!({ "event": "scrub_ended", "complete": false, "damaged": 0 })),
            (5 * HOUR, json!({ "event": "scrub_ended", "complete": true, "damaged": 1 })),
        ]);
        // The scrubs are four hours apart, and four defects were found in five hours on four drives.
        assert_eq!(options, "Some(BytesPerSecond(4000000.0)) Some(Mean(Hours(2.0))) Some(PerHour(0.2))");
        assert!(
            notes[0].contains("76.35 h") && notes[1].contains("4.000 h") && notes[2].contains("4 blocks"),
            "{notes:?}"
        );
    }

    #[test]
    fn defects_found_by_loads_count_like_scrub_defects() {
        let scrub = |damaged: u64| json!({ "event": "scrub_ended", "complete": true, "damaged": damaged });
        let (options, _) = filled(&[
            (0, json!({ "event": "array_created" })),
            (HOUR, scrub(1)),
            (2 * HOUR, json!({ "event": "test_ended", "defects": 5 })),
            (3 * HOUR, scrub(0)),
            (4 * HOUR, json!({ "event": "serving_ended", "defects": 0 })),
        ]);
        assert!(options.ends_with("Some(PerHour(0.5))"), "{options}");
        // For load events after the last scrub, or without any scrub, the time up to the event is included.
        let (options, notes) = filled(&[
            (0, json!({ "event": "array_created" })),
            (5 * HOUR, json!({ "event": "serving_ended", "defects": 2 })),
        ]);
        assert!(options.ends_with("Some(PerHour(0.1))") && notes[2].contains("2 blocks"), "{options}");
    }

    #[test]
    fn values_without_events_keep_the_defaults() {
        let nothing = "None None None";
        assert_eq!(filled(&[]).0, nothing);
        let strange = [
            (i64::MIN, json!({ "event": "rebuild_completed", "bytes": 5, "seconds": 0 })),
            (0, json!({ "event": "rebuild_completed", "bytes": "x" })),
            (7, json!({ "event": "scrub_ended", "damaged": u64::MAX })),
            (8, json!({ "event": "scrub_ended", "complete": true })),
        ];
        assert!(filled(&strange).0.starts_with("None None "), "{:?}", filled(&strange));
    }
}
