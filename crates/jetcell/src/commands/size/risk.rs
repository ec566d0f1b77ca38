//! Probability that a design loses data, computed with the models of `jetcell raid reliability`.

use jetcell_raid_models::units::{AnnualFailure, Hours};
use jetcell_raid_models::{RaidType, ReliabilityAssessment, ReliabilityInputs};
use jetcell_sizing::catalogue::CatalogueDisk;
use jetcell_sizing::disk_count::SizedArray;
use jetcell_sizing::raid::{GroupLayout, RaidKind};
use jetcell_sizing::{Config, DiskCatalogue, StorageDesign};

/// Returns the probability that at least one array, among the arrays of all servers, loses data within the service
/// life. Copies on other servers are not taken into account. Scrubs and latent defects are those of the published
/// models. Returns `None` if the models do not cover the array.
pub fn design_loss_probability(
    design: &StorageDesign,
    config: &Config,
    catalogue: &DiskCatalogue,
) -> Option<f64> {
    let disk = catalogue.find(&design.disk).ok()?;
    let database = array_loss_probability(&design.database, &design.layout, disk, config)?;
    let log = match &design.log {
        Some(log) => array_loss_probability(log, &config.storage.log_layout, disk, config)?,
        None => 0.0,
    };
    // This formula keeps the significant digits of small probabilities.
    Some(database + log - database * log)
}

fn array_loss_probability(
    array: &SizedArray,
    layout: &GroupLayout,
    disk: &CatalogueDisk,
    config: &Config,
) -> Option<f64> {
    let (years, servers) = (config.cost.years, f64::from(config.servers.count));
    if years <= 0.0 || disk.failure_rate.0 <= 0.0 {
        return None;
    }
    let disks = array.disks * servers;
    let raid = match layout.raid {
        // Without redundancy, every failure loses the content of a disk.
        RaidKind::Jbod => return Some(-(-disk.failure_rate.0 * years * disks).exp_m1()),
        RaidKind::Raid10 => RaidType::Raid10,
        RaidKind::Mirror3 => RaidType::Mirror3,
        RaidKind::Raid5 => RaidType::Raid5,
        RaidKind::Raid6 => RaidType::Raid6,
        RaidKind::RaidDp => RaidType::RaidDp,
    };
    let question = ReliabilityInputs {
        raid: Some(raid),
        data_disks: Some(layout.data_disks()),
        groups: Some((disks / f64::from(layout.group_disks())).round().max(1.0) as u32),
        years: Some(years),
        afr: Some(AnnualFailure::new(disk.failure_rate.0).ok()?),
        restore: Some(Hours::new(array.rebuild_hours).ok()?),
        ..ReliabilityInputs::default()
    };
    Some(ReliabilityAssessment::new(&question.case().ok()?).ok()?.array.loss)
}
