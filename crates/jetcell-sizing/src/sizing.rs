//! The complete calculation, from the configuration to the designs.

use serde::Serialize;

use crate::catalogue::{CatalogueDisk, DiskCatalogue};
use crate::config::Config;
use crate::demand::{ServerDemand, ServerLoad};
use crate::disk_count::{ArrayLoad, SizedArray};
use crate::economy::{DiskComparison, DiskCosts};
use crate::error::SizingError;
use crate::mailbox::MailboxRequirements;
use crate::raid::GroupLayout;
use crate::sheet::{CalculationSheet, ceil};
use crate::test_config::test_config;

/// Result of a storage sizing calculation.
#[derive(Clone, Debug, Serialize)]
pub struct SizingResult {
    /// Configuration on which the sizing is based.
    pub inputs: Config,
    /// Requirements of one mailbox.
    pub mailbox: MailboxRequirements,
    /// Requirements of one server.
    pub server: ServerDemand,
    /// Designs for every combination of disk and array, cheapest first.
    pub designs: Vec<StorageDesign>,
    /// Comparison of each disk with the first disk.
    pub comparisons: Vec<DiskComparison>,
    /// Configuration for a performance test of the design.
    pub test_config: String,
    /// Calculation sheet with every formula and its numbers.
    #[serde(skip)]
    pub sheet: CalculationSheet,
}

/// A storage design: one kind of disk in one kind of array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageDesign {
    /// Name of the disk.
    pub disk: String,
    /// Description of the array.
    pub array: String,
    /// Layout of the array.
    pub layout: GroupLayout,
    /// Array of database disks in a server.
    pub database: SizedArray,
    /// Array of log disks in a server, if logs have dedicated disks.
    pub log: Option<SizedArray>,
    /// Number of spares for all servers.
    pub spares: f64,
    /// Number of disks in all servers, including spares.
    pub disks: f64,
    /// Usable capacity of a server's database disks, after redundancy, GiB.
    pub usable_gib: f64,
    /// Number of mailboxes that fit on these disks before another group is needed for capacity.
    pub mailboxes_by_capacity: f64,
    /// Cost of the disks.
    pub economy: DiskCosts,
}

/// Sizes the system described by the configuration.
pub fn size(config: &Config, catalogue: &DiskCatalogue) -> Result<SizingResult, SizingError> {
    config.check()?;
    let platform = config.platform()?;
    let mut catalogue = catalogue.clone();
    catalogue.add(config.disk.clone())?;
    let mut sheet = CalculationSheet::default();
    let mailbox = MailboxRequirements::new(&config.mailboxes, &platform, &mut sheet);
    let server = ServerDemand::new(config, &platform, &mailbox, &mut sheet)?;
    check_finite(&sheet)?;
    let disks: Vec<&CatalogueDisk> =
        config.storage.disks.iter().map(|name| catalogue.find(name)).collect::<Result<_, _>>()?;
    let mut designs = Vec::new();
    for disk in &disks {
        let log = log_array(config, &server, disk, &mut sheet)?;
        for layout in &config.storage.layouts {
            designs.push(design(config, &server, layout, disk, log.clone(), &mut sheet)?);
        }
    }
    check_finite(&sheet)?;
    designs.sort_by(|a, b| a.economy.total_cost.total_cmp(&b.economy.total_cost));
    let comparisons = disks.iter().skip(1).filter_map(|disk| DiskComparison::new(disk, disks[0])).collect();
    let test_config = test_config(config, &platform, &server)?;
    Ok(SizingResult { inputs: config.clone(), mailbox, server, designs, comparisons, test_config, sheet })
}

fn check_finite(sheet: &CalculationSheet) -> Result<(), SizingError> {
    match sheet.first_invalid() {
        None => Ok(()),
        Some(name) => Err(SizingError::NotFinite { name: name.into() }),
    }
}

/// Calculates the log disks of a server, if logs have dedicated disks.
fn log_array(
    config: &Config,
    server: &ServerDemand,
    disk: &CatalogueDisk,
    sheet: &mut CalculationSheet,
) -> Result<Option<SizedArray>, SizingError> {
    if !config.logs.apart {
        return Ok(None);
    }
    let credit = config.logs.sequential_credit;
    let works = server.loads.iter().map(|load| ArrayLoad {
        state: load.state,
        reads: load.log_reads / credit,
        writes: load.log_writes / credit,
        sequential_mb_s: 0.0,
    });
    let works: Vec<ArrayLoad> = works.collect();
    let storage = &config.storage;
    sheet.heading(format!(
        "Logs of a server on {}; {credit} log transfers count as one random operation",
        disk.name
    ));
    SizedArray::new(&storage.log_layout, disk, storage, &works, server.log_capacity_gib, sheet).map(Some)
}

fn design(
    config: &Config,
    server: &ServerDemand,
    layout: &GroupLayout,
    disk: &CatalogueDisk,
    log: Option<SizedArray>,
    sheet: &mut CalculationSheet,
) -> Result<StorageDesign, SizingError> {
    let storage = &config.storage;
    let apart = config.logs.apart;
    let database_work = |load: &ServerLoad| {
        // Log transfers on shared disks are not sequential, so each transfer counts as a random operation.
        let (log_reads, log_writes) = if apart { (0.0, 0.0) } else { (load.log_reads, load.log_writes) };
        ArrayLoad {
            state: load.state,
            reads: load.database_reads + log_reads,
            writes: load.database_writes + log_writes,
            sequential_mb_s: load.maintenance_mb_s + load.backup_mb_s,
        }
    };
    let works: Vec<ArrayLoad> = server.loads.iter().map(database_work).collect();
    let database = SizedArray::new(layout, disk, storage, &works, server.database_capacity_gib, sheet)?;
    sheet.heading(format!("{layout} of {}: all servers", disk.name));
    input!(sheet, servers = f64::from(config.servers.count), "");
    input!(sheet, database_disks = database.disks, "on a server");
    input!(sheet, log_disks = log.as_ref().map_or(0.0, |log| log.disks), "on a server");
    formula!(sheet, working_disks = servers * (database_disks + log_disks), "disks");
    let spares = match storage.disks_per_spare {
        0 => 0.0,
        disks => {
            input!(sheet, disks_per_spare = f64::from(disks), "");
            formula!(sheet, spares = ceil(working_disks / disks_per_spare), "disks");
            spares
        }
    };
    formula!(sheet, all_disks = working_disks + spares, "disks");
    input!(
        sheet,
        data_share = f64::from(layout.data_disks()) / f64::from(layout.group_disks()),
        "of the disks"
    );
    input!(sheet, usable_per_disk_gib = disk.capacity.gib() * storage.formatted.0, "GiB");
    formula!(sheet, usable_gib = database_disks * data_share * usable_per_disk_gib, "GiB on a server");
    input!(sheet, needed_gib = server.database_capacity_gib, "GiB on a server");
    input!(sheet, mailboxes = config.mailboxes.count as f64, "");
    formula!(sheet, mailboxes_by_capacity = mailboxes * usable_gib / needed_gib, "mailboxes that fit");
    let economy = DiskCosts::new(all_disks, disk, &config.cost, sheet);
    Ok(StorageDesign {
        disk: disk.name.clone(),
        array: layout.to_string(),
        layout: layout.clone(),
        database,
        log,
        spares,
        disks: all_disks,
        usable_gib,
        mailboxes_by_capacity: mailboxes_by_capacity.floor(),
        economy,
    })
}
