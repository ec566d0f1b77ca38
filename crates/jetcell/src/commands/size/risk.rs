//! Probability that a design loses data, computed with the models of `jetcell raid reliability`.

use jetcell_raid_models::units::{AnnualFailure, Hours};
use jetcell_raid_models::{Assessment, Question, RaidType};
use jetcell_sizing::array::Array;
use jetcell_sizing::catalogue::Disk;
use jetcell_sizing::raid::{Layout, Raid};
use jetcell_sizing::{Catalogue, Config, Design};

/// Returns the probability that at least one array, among the arrays of all servers, loses data within the service
/// life. Copies on other servers are not taken into account. Scrubs and latent defects are those of the published
/// models. Returns `None` if the models do not cover the array.
pub fn of_design(design: &Design, config: &Config, catalogue: &Catalogue) -> Option<f64> {
    let disk = catalogue.find(&design.disk).ok()?;
    let database = of_arrays(&design.database, &design.layout, disk, config)?;
    let log = match &design.log {
        Some(log) => of_arrays(log, &config.storage.log_layout, disk, config)?,
        None => 0.0,
    };
    // This formula keeps the significant digits of small probabilities.
    Some(database + log - database * log)
}

fn of_arrays(array: &Array, layout: &Layout, disk: &Disk, config: &Config) -> Option<f64> {
    let (years, servers) = (config.cost.years, f64::from(config.servers.count));
    if years <= 0.0 || disk.failure_rate.0 <= 0.0 {
        return None;
    }
    let disks = array.disks * servers;
    let raid = match layout.raid {
        // Without redundancy, every failure loses the content of a disk.
        Raid::Jbod => return Some(-(-disk.failure_rate.0 * years * disks).exp_m1()),
        Raid::Raid10 => RaidType::Raid10,
        Raid::Mirror3 => RaidType::Mirror3,
        Raid::Raid5 => RaidType::Raid5,
        Raid::Raid6 => RaidType::Raid6,
        Raid::RaidDp => RaidType::RaidDp,
    };
    let question = Question {
        raid: Some(raid),
        data_disks: Some(layout.data_disks()),
        groups: Some((disks / f64::from(layout.group_disks())).round().max(1.0) as u32),
        years: Some(years),
        afr: Some(AnnualFailure::new(disk.failure_rate.0).ok()?),
        restore: Some(Hours::new(array.rebuild_hours).ok()?),
        ..Question::default()
    };
    Some(Assessment::new(&question.case().ok()?).ok()?.array.loss)
}
