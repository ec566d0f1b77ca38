//! The complete calculation, from the configuration to the designs.

use serde::Serialize;

use crate::array::{Array, Work};
use crate::catalogue::{Catalogue, Disk};
use crate::config::Config;
use crate::demand::{Demand, Load};
use crate::economy::{Comparison, Economy};
use crate::mailbox::Mailbox;
use crate::mistake::Mistake;
use crate::raid::Layout;
use crate::sheet::{Sheet, ceil};
use crate::test_config::test_config;

/// Result of a sizing.
#[derive(Clone, Debug, Serialize)]
pub struct Sizing {
    /// Configuration on which the sizing is based.
    pub inputs: Config,
    /// Requirements of one mailbox.
    pub mailbox: Mailbox,
    /// Requirements of one server.
    pub server: Demand,
    /// Designs for every combination of disk and array, cheapest first.
    pub designs: Vec<Design>,
    /// Comparison of each disk with the first disk.
    pub comparisons: Vec<Comparison>,
    /// Configuration for a performance test of the design.
    pub test_config: String,
    /// Calculation sheet with every formula and its numbers.
    #[serde(skip)]
    pub sheet: Sheet,
}

/// A design: one kind of disk in one kind of array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Design {
    /// Name of the disk.
    pub disk: String,
    /// Description of the array.
    pub array: String,
    /// Layout of the array.
    pub layout: Layout,
    /// Array of database disks in a server.
    pub database: Array,
    /// Array of log disks in a server, if logs have dedicated disks.
    pub log: Option<Array>,
    /// Number of spares for all servers.
    pub spares: f64,
    /// Number of disks in all servers, including spares.
    pub disks: f64,
    /// Usable capacity of a server's database disks, after redundancy, GiB.
    pub usable_gib: f64,
    /// Number of mailboxes that fit on these disks before another group is needed for capacity.
    pub mailboxes_by_capacity: f64,
    /// Cost of the disks.
    pub economy: Economy,
}

/// Sizes the system described by the configuration.
pub fn size(config: &Config, catalogue: &Catalogue) -> Result<Sizing, Mistake> {
    config.check()?;
    let platform = config.platform()?;
    let mut catalogue = catalogue.clone();
    catalogue.add(config.disk.clone())?;
    let mut sheet = Sheet::default();
    let mailbox = Mailbox::of(&config.mailboxes, &platform, &mut sheet);
    let server = Demand::of(config, &platform, &mailbox, &mut sheet)?;
    sound(&sheet)?;
    let disks: Vec<&Disk> =
        config.storage.disks.iter().map(|name| catalogue.find(name)).collect::<Result<_, _>>()?;
    let mut designs = Vec::new();
    for disk in &disks {
        let log = log_array(config, &server, disk, &mut sheet)?;
        for layout in &config.storage.layouts {
            designs.push(design(config, &server, layout, disk, log.clone(), &mut sheet)?);
        }
    }
    sound(&sheet)?;
    designs.sort_by(|a, b| a.economy.total_cost.total_cmp(&b.economy.total_cost));
    let comparisons = disks.iter().skip(1).filter_map(|disk| Comparison::of(disk, disks[0])).collect();
    let test_config = test_config(config, &platform, &server)?;
    Ok(Sizing { inputs: config.clone(), mailbox, server, designs, comparisons, test_config, sheet })
}

fn sound(sheet: &Sheet) -> Result<(), Mistake> {
    match sheet.spoilt() {
        None => Ok(()),
        Some(name) => Err(Mistake(format!("{name} is out of range; check the configuration for errors"))),
    }
}

/// Calculates the log disks of a server, if logs have dedicated disks.
fn log_array(
    config: &Config,
    server: &Demand,
    disk: &Disk,
    sheet: &mut Sheet,
) -> Result<Option<Array>, Mistake> {
    if !config.logs.apart {
        return Ok(None);
    }
    let credit = config.logs.sequential_credit;
    let works = server.loads.iter().map(|load| Work {
        state: load.state,
        reads: load.log_reads / credit,
        writes: load.log_writes / credit,
        sequential_mb_s: 0.0,
    });
    let works: Vec<Work> = works.collect();
    let storage = &config.storage;
    sheet.heading(format!(
        "Logs of a server on {}; {credit} log transfers count as one random operation",
        disk.name
    ));
    Array::of(&storage.log_layout, disk, storage, &works, server.log_capacity_gib, sheet).map(Some)
}

fn design(
    config: &Config,
    server: &Demand,
    layout: &Layout,
    disk: &Disk,
    log: Option<Array>,
    sheet: &mut Sheet,
) -> Result<Design, Mistake> {
    let storage = &config.storage;
    let apart = config.logs.apart;
    let database_work = |load: &Load| {
        // Log transfers on shared disks are not sequential, so each transfer counts as a random operation.
        let (log_reads, log_writes) = if apart { (0.0, 0.0) } else { (load.log_reads, load.log_writes) };
        Work {
            state: load.state,
            reads: load.database_reads + log_reads,
            writes: load.database_writes + log_writes,
            sequential_mb_s: load.maintenance_mb_s + load.backup_mb_s,
        }
    };
    let works: Vec<Work> = server.loads.iter().map(database_work).collect();
    let database = Array::of(layout, disk, storage, &works, server.database_capacity_gib, sheet)?;
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
    let economy = Economy::of(all_disks, disk, &config.cost, sheet);
    Ok(Design {
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
