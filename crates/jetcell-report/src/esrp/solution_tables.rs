//! Tables 1 to 4 of the document: the tested solution as described by the author, completed with values from the
//! results.

use jetcell_input::number::{human_bytes, plain, plain_grouped};

use crate::esrp::aggregate::ServerTests;
use crate::esrp::configuration::{
    DiskDescription, ExchangeDescription, HardwareDescription, SoftwareDescription, SubmissionConfiguration,
};
use crate::esrp::solution::{SolutionCapacity, loads};
use crate::table::{CellValue, ReportCell, ReportTable};

/// Remark for a figure that the author did not state.
const COMPUTED: &str = "computed";

/// Returns all four tables. Their figures are checked in `solution`.
pub(crate) fn all(configuration: &SubmissionConfiguration, servers: &[ServerTests]) -> [ReportTable; 4] {
    let space = SolutionCapacity::new(configuration, &loads(servers));
    [
        exchange(&configuration.exchange, servers, &space),
        hardware(&configuration.hardware),
        software(&configuration.software, servers),
        disks(&configuration.disks, &space),
    ]
}

/// Returns the names of rows without a value.
pub(crate) fn not_stated(table: &ReportTable) -> Vec<String> {
    let empty =
        table.rows.iter().filter(|row| row.get(1).is_some_and(|cell| cell.value == CellValue::NotStated));
    empty.filter_map(|row| Some(row.first()?.text())).collect()
}

fn stated_cell(value: Option<impl ToString>) -> ReportCell {
    stated_or_computed(value, None)
}

/// Returns the stated value, or the computed one if none is stated.
fn stated_or_computed(value: Option<impl ToString>, computed: Option<String>) -> ReportCell {
    match (value, computed) {
        (Some(value), _) => value.to_string().into(),
        (None, Some(computed)) => ReportCell::from(computed).with_remark(COMPUTED),
        (None, None) => ReportCell::new(CellValue::NotStated),
    }
}

fn percent(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.1} %"))
}

fn with_percent(figure: Option<crate::esrp::figure::StatedNumber>) -> Option<String> {
    figure.map(|figure| format!("{figure} %"))
}

fn exchange(
    exchange: &ExchangeDescription,
    servers: &[ServerTests],
    space: &SolutionCapacity,
) -> ReportTable {
    let loads = loads(servers);
    let (tested, databases) = (loads.len(), loads.iter().map(|test| test.databases).sum::<usize>());
    let each =
        |of: usize| exchange.mailboxes.filter(|_| of > 0).map(|all| plain_grouped(all.value() / of as f64));
    let rates = exchange.iops_per_mailbox.zip(exchange.tested_iops_per_mailbox);
    let headroom = rates
        .filter(|(planned, _)| planned.value() > 0.0)
        .map(|(planned, tested)| format!("{} %", plain((tested.value() / planned.value() - 1.0) * 100.0)));
    let host = loads.first().map(|test| test.databases.to_string());
    let copies = loads.first().and_then(|test| test.copies).map(|copies| copies.to_string());
    let size = space.databases.map(|bytes| human_bytes(bytes as u64));
    let [used, _, _] = space.used_percent();
    ReportTable::facts("Simulated Exchange configuration")
        .fact("Number of Exchange mailboxes simulated", stated_cell(exchange.mailboxes))
        .fact("Number of servers tested", ReportCell::count(tested as u64).with_remark(COMPUTED))
        .fact("Number of Database Availability Groups (DAGs)", stated_cell(exchange.availability_groups))
        .fact("Number of servers/DAG", stated_cell(exchange.servers_per_group))
        .fact(
            "Number of active mailboxes/server",
            stated_or_computed(exchange.active_mailboxes_per_server, each(tested)),
        )
        .fact("Number of databases/host", stated_or_computed(exchange.databases_per_host, host))
        .fact("Number of copies/database", stated_or_computed(exchange.copies_per_database, copies))
        .fact(
            "Number of mailboxes/database",
            stated_or_computed(exchange.mailboxes_per_database, each(databases)),
        )
        .fact("Mailbox size", stated_cell(exchange.mailbox_size.as_ref().map(|size| &size.written)))
        .fact(
            "Simulated profile: I/O per second per mailbox, planned",
            stated_cell(exchange.iops_per_mailbox),
        )
        .fact(
            "Simulated profile: I/O per second per mailbox, tested",
            stated_cell(exchange.tested_iops_per_mailbox),
        )
        .fact("Headroom", stated_or_computed(with_percent(exchange.headroom_percent), headroom))
        .fact("Database/log LUN size", stated_cell(exchange.volume_size.as_ref().map(|size| &size.written)))
        .fact(
            "Total database size for performance testing",
            stated_or_computed(exchange.total_database_size.as_ref().map(|size| &size.written), size),
        )
        .fact(
            "% storage capacity used by Exchange database",
            stated_or_computed(with_percent(exchange.storage_capacity_used_percent), percent(used)),
        )
}

fn hardware(hardware: &HardwareDescription) -> ReportTable {
    let parts = (hardware.hbas_per_host, hardware.ports_per_hba, hardware.hba_port_gbit);
    let bandwidth = match parts {
        (Some(hbas), Some(ports), Some(speed)) => Some(plain(hbas.value() * ports.value() * speed.value())),
        _ => None,
    };
    let adapters = match (hardware.hbas_per_host, hardware.ports_per_hba, hardware.hba_port_gbit) {
        (Some(hbas), Some(ports), Some(speed)) => Some(format!("{hbas} with {ports} ports of {speed} Gb/s")),
        (Some(hbas), _, _) => Some(hbas.to_string()),
        _ => None,
    };
    ReportTable::facts("Primary storage hardware")
        .fact(
            "Storage connectivity (Fibre Channel, SAS, SATA, iSCSI)",
            stated_cell(hardware.connectivity.as_ref()),
        )
        .fact("Storage model and OS/firmware revision", stated_cell(hardware.model.as_ref()))
        .fact_if("Catalogue entry", hardware.catalogue.as_deref())
        .fact("Storage cache", stated_cell(hardware.cache.as_ref()))
        .fact("Number of storage controllers", stated_cell(hardware.controllers.as_ref()))
        .fact("Number of storage ports", stated_cell(hardware.ports.as_ref()))
        .fact(
            "Maximum bandwidth of storage connectivity to host (Gb/s)",
            stated_or_computed(hardware.bandwidth_to_host_gbit, bandwidth),
        )
        .fact("Switch type/model/firmware revision", stated_cell(hardware.switch.as_ref()))
        .fact("HBA model and firmware", stated_cell(hardware.hba.as_ref()))
        .fact("Number of HBAs/host", stated_cell(adapters))
        .fact("Host server type", stated_cell(hardware.host_server.as_ref()))
        .fact("Total number of disks tested in solution", stated_cell(hardware.disks_tested))
        .fact(
            "Maximum number of spindles that the storage can host",
            stated_cell(hardware.maximum_disks.as_ref()),
        )
}

fn software(software: &SoftwareDescription, servers: &[ServerTests]) -> ReportTable {
    let engine =
        loads(servers).first().map(|test| test.engine_version.clone()).filter(|engine| !engine.is_empty());
    ReportTable::facts("Primary storage software")
        .fact("HBA driver", stated_cell(software.hba_driver.as_ref()))
        .fact("HBA queue depth setting", stated_cell(software.hba_queue_depth.as_ref()))
        .fact("Multi-pathing", stated_cell(software.multipathing.as_ref()))
        .fact("Host OS", stated_cell(software.operating_system.as_ref()))
        .fact("Engine version", stated_or_computed(software.engine_version.as_ref(), engine))
        .fact("Replication solution name/version", stated_cell(software.replication.as_ref()))
}

fn disks(disks: &DiskDescription, space: &SolutionCapacity) -> ReportTable {
    let raw = space.raw.map(|bytes| human_bytes(bytes as u64));
    let [_, storage, databases] = space.used_percent();
    ReportTable::facts("Primary storage disk configuration (mailbox store and log disks)")
        .fact("Disk type, speed and firmware revision", stated_cell(disks.model.as_ref()))
        .fact("Raw capacity per disk", stated_cell(disks.raw_capacity.as_ref().map(|size| &size.written)))
        .fact("Number of physical disks in test", stated_cell(disks.count))
        .fact(
            "Total raw storage capacity",
            stated_or_computed(disks.total_raw_capacity.as_ref().map(|size| &size.written), raw),
        )
        .fact("RAID level", stated_cell(disks.raid_level.as_ref()))
        .fact(
            "Total formatted capacity",
            stated_cell(disks.formatted_capacity.as_ref().map(|size| &size.written)),
        )
        .fact(
            "Storage capacity utilization",
            stated_or_computed(with_percent(disks.storage_capacity_utilization_percent), percent(storage)),
        )
        .fact(
            "Database capacity utilization",
            stated_or_computed(with_percent(disks.database_capacity_utilization_percent), percent(databases)),
        )
}
