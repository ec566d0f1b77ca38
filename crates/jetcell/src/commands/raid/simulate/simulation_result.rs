//! Converts a simulation result to options for `jetcell raid reliability`.

use std::path::Path;

use jetcell_raid_models::RaidType;
use jetcell_raid_models::units::{Bytes, BytesPerSecond};
use jetcell_vfs::read_input;
use serde_json::Value;

use super::super::measured_options::MeasuredOptions;
use crate::commands::raid::reliability::ReliabilityOptions;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Maximum size in bytes of a result file.
const MAX_RESULT_BYTES: u64 = 64 << 20;

impl MeasuredOptions {
    /// Returns the layout and the rebuild rate from a result of `jetcell raid simulate --json`.
    pub fn from_simulation(result: &Path, name: Option<&str>) -> CommandResult<MeasuredOptions> {
        let option = format!("--simulated {}", result.display());
        let text = read_input(result, MAX_RESULT_BYTES).context(&option)?;
        let value: Value = serde_json::from_str(&text)
            .context(format_args!("{option}: not JSON"))
            .advise("specify a file with the output of jetcell raid simulate --json")?;
        let no_result = || {
            CommandError::new("not a result of jetcell raid simulate --json")
                .context(&option)
                .advise("specify a file with the output of that command")
        };
        let (Some(layouts), Some(found)) =
            (value["config"]["layouts"].as_array(), value["layouts"].as_array())
        else {
            return Err(no_result());
        };
        let place = match name {
            Some(name) => layouts.iter().position(|layout| layout["name"] == name),
            None => layouts.iter().position(|layout| layout["write_anywhere"].is_object()).or(Some(0)),
        };
        let Some(place) = place else {
            let names: Vec<&str> = layouts.iter().filter_map(|layout| layout["name"].as_str()).collect();
            return Err(CommandError::new(format_args!(
                "--layout {}: unknown layout",
                name.unwrap_or_default()
            ))
            .advise(format!("available layouts: {}", names.join(", "))));
        };
        let (layout, figures) = layouts.get(place).zip(found.get(place)).ok_or_else(no_result)?;
        let groups = layout["groups"].as_array().ok_or_else(no_result)?;
        let drives = groups.first().and_then(Value::as_u64).ok_or_else(no_result)?;
        let (raid, data) = match layout["level"].as_str() {
            Some("raid10") => (RaidType::Raid10, drives / 2),
            Some("raid5") => (RaidType::Raid5, drives.saturating_sub(1)),
            Some("raid6") => (RaidType::Raid6, drives.saturating_sub(2)),
            Some("raid-dp") => (RaidType::RaidDp, drives.saturating_sub(2)),
            _ => return Err(no_result()),
        };
        let bytes = value["drive_gb"].as_f64().ok_or_else(no_result)? * 1e9;
        let Some(seconds) = figures["timeline"]["whole_rebuild_seconds"].as_f64().filter(|time| *time > 0.0)
        else {
            return Err(CommandError::new("the rebuild of this layout did not complete")
                .context(option)
                .advise("choose another layout with --layout"));
        };
        let options = ReliabilityOptions {
            raid: Some(raid),
            data_disks: u32::try_from(data).ok(),
            groups: u32::try_from(groups.len()).ok(),
            capacity: Bytes::new(bytes).ok(),
            rebuild_rate: BytesPerSecond::new(bytes / seconds).ok(),
            ..ReliabilityOptions::default()
        };
        let notes = vec![
            format!(
                "layout: {}, {} groups of {drives} drives",
                layout["name"].as_str().unwrap_or_default(),
                groups.len()
            ),
            format!("rebuild: {:.2} h for a drive under the simulated load", seconds / 3600.0),
        ];
        Ok(MeasuredOptions { options, notes })
    }
}
