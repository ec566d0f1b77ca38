//! Tables 1 to 4 of the document: the tested solution as described by the author, completed with values from the
//! results.

use jetcell_workload::units::human_bytes;

use crate::esrp::aggregate::Server;
use crate::esrp::configuration::{Configuration, Disks, Exchange, Hardware, Software};
use crate::esrp::solution::{Space, loads};
use crate::number::{plain, plain_grouped};
use crate::table::{Cell, Table};

/// Remark for a figure that the author did not state.
const COMPUTED: &str = "computed";

/// Returns all four tables. Their figures are checked in `solution`.
pub(crate) fn all(configuration: &Configuration, servers: &[Server]) -> [Table; 4] {
    let space = Space::of(configuration, &loads(servers));
    [
        exchange(&configuration.exchange, servers, &space),
        hardware(&configuration.hardware),
        software(&configuration.software, servers),
        disks(&configuration.disks, &space),
    ]
}

/// Returns the names of rows without a value.
pub(crate) fn not_stated(table: &Table) -> Vec<&str> {
    let empty = table.rows.iter().filter(|row| row.get(1).is_some_and(|cell| cell.text == NOT_STATED));
    empty.filter_map(|row| Some(row.first()?.text.as_str())).collect()
}

const NOT_STATED: &str = "not stated";

fn stated(value: Option<impl ToString>) -> Cell {
    value.map_or(NOT_STATED.into(), |value| value.to_string().into())
}

/// Returns the stated value, or the computed one if none is stated.
fn or_computed(value: Option<impl ToString>, computed: Option<String>) -> Cell {
    match (value, computed) {
        (Some(value), _) => value.to_string().into(),
        (None, Some(computed)) => Cell::with_remark(computed, COMPUTED),
        (None, None) => NOT_STATED.into(),
    }
}

fn percent(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.1} %"))
}

fn with_percent(figure: Option<crate::esrp::figure::Figure>) -> Option<String> {
    figure.map(|figure| format!("{figure} %"))
}

fn exchange(exchange: &Exchange, servers: &[Server], space: &Space) -> Table {
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
    Table::facts("Simulated Exchange configuration")
        .fact("Number of Exchange mailboxes simulated", stated(exchange.mailboxes))
        .fact("Number of servers tested", Cell::with_remark(tested.to_string(), COMPUTED))
        .fact("Number of Database Availability Groups (DAGs)", stated(exchange.availability_groups))
        .fact("Number of servers/DAG", stated(exchange.servers_per_group))
        .fact(
            "Number of active mailboxes/server",
            or_computed(exchange.active_mailboxes_per_server, each(tested)),
        )
        .fact("Number of databases/host", or_computed(exchange.databases_per_host, host))
        .fact("Number of copies/database", or_computed(exchange.copies_per_database, copies))
        .fact("Number of mailboxes/database", or_computed(exchange.mailboxes_per_database, each(databases)))
        .fact("Mailbox size", stated(exchange.mailbox_size.as_ref().map(|size| &size.written)))
        .fact("Simulated profile: I/O per second per mailbox, planned", stated(exchange.iops_per_mailbox))
        .fact(
            "Simulated profile: I/O per second per mailbox, tested",
            stated(exchange.tested_iops_per_mailbox),
        )
        .fact("Headroom", or_computed(with_percent(exchange.headroom_percent), headroom))
        .fact("Database/log LUN size", stated(exchange.volume_size.as_ref().map(|size| &size.written)))
        .fact(
            "Total database size for performance testing",
            or_computed(exchange.total_database_size.as_ref().map(|size| &size.written), size),
        )
        .fact(
            "% storage capacity used by Exchange database",
            or_computed(with_percent(exchange.storage_capacity_used_percent), percent(used)),
        )
}

fn hardware(hardware: &Hardware) -> Table {
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
    Table::facts("Primary storage hardware")
        .fact(
            "Storage connectivity (Fibre Channel, SAS, SATA, iSCSI)",
            stated(hardware.connectivity.as_ref()),
        )
        .fact("Storage model and OS/firmware revision", stated(hardware.model.as_ref()))
        .fact_if("Catalogue entry", hardware.catalogue.as_deref())
        .fact("Storage cache", stated(hardware.cache.as_ref()))
        .fact("Number of storage controllers", stated(hardware.controllers.as_ref()))
        .fact("Number of storage ports", stated(hardware.ports.as_ref()))
        .fact(
            "Maximum bandwidth of storage connectivity to host (Gb/s)",
            or_computed(hardware.bandwidth_to_host_gbit, bandwidth),
        )
        .fact("Switch type/model/firmware revision", stated(hardware.switch.as_ref()))
        .fact("HBA model and firmware", stated(hardware.hba.as_ref()))
        .fact("Number of HBAs/host", stated(adapters))
        .fact("Host server type", stated(hardware.host_server.as_ref()))
        .fact("Total number of disks tested in solution", stated(hardware.disks_tested))
        .fact("Maximum number of spindles that the storage can host", stated(hardware.maximum_disks.as_ref()))
}

fn software(software: &Software, servers: &[Server]) -> Table {
    let engine =
        loads(servers).first().map(|test| test.engine_version.clone()).filter(|engine| !engine.is_empty());
    Table::facts("Primary storage software")
        .fact("HBA driver", stated(software.hba_driver.as_ref()))
        .fact("HBA queue depth setting", stated(software.hba_queue_depth.as_ref()))
        .fact("Multi-pathing", stated(software.multipathing.as_ref()))
        .fact("Host OS", stated(software.operating_system.as_ref()))
        .fact("Engine version", or_computed(software.engine_version.as_ref(), engine))
        .fact("Replication solution name/version", stated(software.replication.as_ref()))
}

fn disks(disks: &Disks, space: &Space) -> Table {
    let raw = space.raw.map(|bytes| human_bytes(bytes as u64));
    let [_, storage, databases] = space.used_percent();
    Table::facts("Primary storage disk configuration (mailbox store and log disks)")
        .fact("Disk type, speed and firmware revision", stated(disks.model.as_ref()))
        .fact("Raw capacity per disk", stated(disks.raw_capacity.as_ref().map(|size| &size.written)))
        .fact("Number of physical disks in test", stated(disks.count))
        .fact(
            "Total raw storage capacity",
            or_computed(disks.total_raw_capacity.as_ref().map(|size| &size.written), raw),
        )
        .fact("RAID level", stated(disks.raid_level.as_ref()))
        .fact("Total formatted capacity", stated(disks.formatted_capacity.as_ref().map(|size| &size.written)))
        .fact(
            "Storage capacity utilization",
            or_computed(with_percent(disks.storage_capacity_utilization_percent), percent(storage)),
        )
        .fact(
            "Database capacity utilization",
            or_computed(with_percent(disks.database_capacity_utilization_percent), percent(databases)),
        )
}
