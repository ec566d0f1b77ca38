//! Tables for a sizing, used for text, CSV and the HTML page.

use jetcell_input::Align;
use jetcell_input::number::{decimal, signed};
use jetcell_report::{Digits, ReportCell, ReportColumn, ReportTable};
use jetcell_sizing::StorageDesign;
use jetcell_sizing::disk_count::SizedArray;
use jetcell_sizing::states::SystemState;

use super::SizingWithRisk;

/// Probability of data loss above which a design is mentioned below the table.
const HIGH_LOSS_PROBABILITY: f64 = 0.01;

fn number(value: f64, decimals: u8) -> ReportCell {
    ReportCell::number(value, Digits::Decimals(decimals))
}

/// Returns the name of a design, which consists of its array and its disks.
pub fn name(design: &StorageDesign) -> String {
    format!("{} of {}", design.array, design.disk)
}

/// Returns the requirement that determines the number of disks.
fn bound(array: &SizedArray) -> String {
    array
        .state
        .map_or_else(|| array.constraint.to_string(), |state| format!("{} ({state})", array.constraint))
}

/// Formats a probability as a percentage.
pub fn loss(probability: Option<f64>) -> ReportCell {
    probability.map_or_else(ReportCell::missing, |loss| {
        ReportCell::number(loss * 100.0, Digits::Four).bad_if(loss > HIGH_LOSS_PROBABILITY)
    })
}

/// Returns the table of designs, the cheapest first.
pub fn designs(sized: &SizingWithRisk) -> ReportTable {
    let cost = &sized.sizing.inputs.cost;
    let columns = [
        "Disks".to_string(),
        "Spares".into(),
        "Power (W)".into(),
        "Energy (kWh/year)".into(),
        format!("Price ({})", cost.currency),
        format!("{} years ({})", cost.years, cost.currency),
        format!("Data loss, {} years (%)", cost.years),
    ];
    let mut table = ReportTable::numbers("Designs", "Design", columns.iter().map(String::as_str));
    table.columns.insert(1, ReportColumn::text("Bound by"));
    let row = |(design, risk): (&StorageDesign, &Option<f64>)| -> Vec<ReportCell> {
        let economy = &design.economy;
        vec![
            name(design).into(),
            bound(&design.database).into(),
            number(design.disks, 0),
            number(design.spares, 0),
            number(economy.watts, 0),
            number(economy.kwh_per_year, 0),
            number(economy.price, 0),
            number(economy.total_cost, 0),
            loss(*risk),
        ]
    };
    let table = table.rows(sized.sizing.designs.iter().zip(&sized.risks).map(row)).note(format!(
        "Cheapest over {} years first, including energy and replacements. Data loss: probability that any \
         array loses data, from the models of jetcell raid reliability with their published scrubs and \
         defects; copies on other servers ({} of each database) are not included.",
        cost.years, sized.sizing.inputs.servers.copies
    ));
    let risky = sized
        .sizing
        .designs
        .iter()
        .zip(&sized.risks)
        .filter(|(_, risk)| risk.is_some_and(|risk| risk > HIGH_LOSS_PROBABILITY));
    risky.fold(table, |table, (design, risk)| {
        table.note(format!(
            "Risky: {} loses data with a probability of {} % in {} years.",
            name(design),
            loss(*risk).text(),
            cost.years
        ))
    })
}

/// Returns a table of the number of disks per server required in each state.
pub fn requirements(sized: &SizingWithRisk) -> ReportTable {
    let states = SystemState::ALL.map(|state| state.to_string());
    let columns =
        ["Disks", "Capacity"].into_iter().chain(states.iter().map(String::as_str)).chain(["Rebuild (h)"]);
    let mut table = ReportTable::numbers("Disks per server, by requirement", "Array", columns);
    for design in &sized.sizing.designs {
        let arrays = [("database", Some(&design.database)), ("log", design.log.as_ref())];
        for (what, array) in arrays.into_iter().filter_map(|(what, array)| Some((what, array?))) {
            let disks_for = |state: SystemState| {
                let need = array.disks_for_load.iter().find(|need| need.state == state);
                need.map_or_else(ReportCell::missing, |need| number(need.disks, 0))
            };
            let mut row = vec![ReportCell::from(format!("{}, {what}", name(design)))];
            row.extend([number(array.disks, 0), number(array.disks_for_capacity, 0)]);
            row.extend(SystemState::ALL.map(disks_for));
            row.push(number(array.rebuild_hours, 1));
            table = table.row(row);
        }
    }
    table
}

/// Returns a table of the five states, with the activities and the load of a server in each state.
pub fn states(sized: &SizingWithRisk) -> ReportTable {
    let columns = [
        "Mailboxes",
        "Database reads/s",
        "Database writes/s",
        "Log reads/s",
        "Log writes/s",
        "Maintenance MB/s",
        "Backup MB/s",
    ];
    let headroom = sized.sizing.inputs.servers.headroom;
    let mut table = ReportTable::numbers("Server states and their load", "State", columns);
    for load in &sized.sizing.server.loads {
        let rates = [
            load.database_reads,
            load.database_writes,
            load.log_reads,
            load.log_writes,
            load.maintenance_mb_s,
            load.backup_mb_s,
        ];
        let first = [ReportCell::from(load.state.to_string()), number(load.active_mailboxes, 0)];
        table = table.row(first.into_iter().chain(rates.map(|rate| number(rate, 1))).collect());
    }
    let meanings = SystemState::ALL.map(|state| format!("{state}: {}.", state.description()));
    meanings.into_iter().fold(table.note(format!("{headroom} headroom included.")), ReportTable::note)
}

/// Returns a table of the figures for one mailbox and for one server.
pub fn server(sized: &SizingWithRisk) -> ReportTable {
    let (mailbox, server) = (&sized.sizing.mailbox, &sized.sizing.server);
    let one_decimal = |value: f64| decimal(value, 1);
    let whole = |value: f64| decimal(value, 0);
    ReportTable::facts("One mailbox and one server")
        .fact(
            "I/O per mailbox",
            format!("{:.4} IOPS ({:.4} reads, {:.4} writes)", mailbox.iops(), mailbox.reads, mailbox.writes),
        )
        .fact(
            "Space per mailbox",
            format!(
                "{} MiB on disk, {} MiB of cache, {} logs a day",
                whole(mailbox.on_disk_mib),
                one_decimal(mailbox.cache_mib),
                whole(mailbox.logs_per_day)
            ),
        )
        .fact(
            "Databases",
            format!(
                "{} in all, {} copies on a server; {} mailboxes and {} GiB each",
                server.databases,
                server.database_copies_per_server,
                whole(server.mailboxes_per_database),
                one_decimal(server.database_gib)
            ),
        )
        .fact(
            "Volumes",
            format!(
                "{} of {} GiB; {} GiB in all, logs {} GiB",
                server.database_volumes_per_server,
                one_decimal(server.database_volume_gib),
                one_decimal(server.database_capacity_gib),
                one_decimal(server.log_capacity_gib)
            ),
        )
        .fact(
            "Memory",
            format!(
                "{} GiB, {} GiB of it cache",
                one_decimal(server.memory_gib),
                one_decimal(server.cache_gib)
            ),
        )
        .fact(
            "Replication",
            format!(
                "{} Mbit/s in the busiest hour; a single stream needs a window of {} KiB",
                one_decimal(server.replication_mbit_s),
                whole(server.replication_window_kib)
            ),
        )
        .fact(
            "Backup",
            format!(
                "{} h; restore with replay {} h",
                one_decimal(server.backup_hours),
                one_decimal(server.restore_hours)
            ),
        )
}

/// Returns the table that compares each disk with the first one.
pub fn drives(sized: &SizingWithRisk) -> ReportTable {
    let currency = &sized.sizing.inputs.cost.currency;
    let columns = [
        "Base".to_string(),
        "Price (%)".into(),
        "Random I/O (%)".into(),
        format!("{currency} per IOPS"),
        "Base".into(),
        format!("{currency} per GiB"),
        "Base".into(),
        "IOPS per W".into(),
        "Base".into(),
    ];
    let table = ReportTable::numbers(
        "Drives compared with the first drive",
        "Drive",
        columns.iter().map(String::as_str),
    );
    let gain = |value: f64| ReportCell::from(signed(value * 100.0));
    table.aligned(1..2, Align::Left).rows(sized.sizing.comparisons.iter().map(|drive| {
        vec![
            drive.disk.as_str().into(),
            drive.base.as_str().into(),
            gain(drive.price_gain),
            gain(drive.iops_gain),
            number(drive.price_per_iops, 3),
            number(drive.base_price_per_iops, 3),
            number(drive.price_per_gib, 4),
            number(drive.base_price_per_gib, 4),
            number(drive.iops_per_watt, 1),
            number(drive.base_iops_per_watt, 1),
        ]
    }))
}
