//! Checks whether the figures in the solution's tables follow from each other and from the results.

use jetcell_input::number::{human_bytes, plain};
use jetcell_workload::TestKind;

use crate::esrp::aggregate::{ServerTests, tests_of_kind};
use crate::esrp::check::{ConsistencyChecks, StatementOutcome};
use crate::esrp::configuration::{
    DiskDescription, ExchangeDescription, HardwareDescription, SubmissionConfiguration,
};
use crate::esrp::figure::{StatedCapacity, StatedNumber};
use crate::esrp::tested_server::ServerTest;

/// Ratios between two printed sizes that denote the same size in decimal and binary units. Each unit prefix step,
/// such as from GB to TB, contributes a factor of 1.024.
const SAME_IN_OTHER_UNITS: [f64; 5] = [1.0, 1.024, 1.0 / 1.024, 1.024 * 1.024, 1.0 / (1.024 * 1.024)];
/// Relative tolerance for printed sizes, which have four digits.
const SIZE_TOLERANCE: f64 = 0.0005;

/// Database, volume and disk sizes that several checks use.
pub(crate) struct SolutionCapacity {
    /// Total size of all databases on all servers at the end of the load, in bytes.
    pub(crate) databases: Option<f64>,
    /// Total size of the volumes for all databases, in bytes.
    pub(crate) volumes: Option<f64>,
    pub(crate) raw: Option<f64>,
    pub(crate) formatted: Option<f64>,
}

impl SolutionCapacity {
    /// Computes the sizes from the configuration and from the tests with a load.
    pub(crate) fn new(configuration: &SubmissionConfiguration, loads: &[&ServerTest]) -> SolutionCapacity {
        let SubmissionConfiguration { exchange, disks, .. } = configuration;
        let count: usize = loads.iter().map(|test| test.databases).sum();
        let bytes: Option<u64> =
            loads.iter().map(|test| test.final_bytes).try_fold(0, |sum: u64, one| sum.checked_add(one?));
        let size =
            |capacity: &Option<StatedCapacity>| capacity.as_ref().map(|capacity| capacity.bytes as f64);
        let parts = disks.count.zip(size(&disks.raw_capacity)).map(|(count, each)| count.value() * each);
        SolutionCapacity {
            databases: bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64),
            volumes: size(&exchange.volume_size).filter(|_| count > 0).map(|each| each * count as f64),
            raw: parts.or(size(&disks.total_raw_capacity)),
            formatted: size(&disks.formatted_capacity),
        }
    }

    /// Returns three percentages: databases relative to volumes, volumes relative to formatted capacity, and
    /// databases relative to formatted capacity.
    pub(crate) fn used_percent(&self) -> [Option<f64>; 3] {
        let percent = |part: Option<f64>, whole: Option<f64>| {
            part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole * 100.0)
        };
        [
            percent(self.databases, self.volumes),
            percent(self.volumes, self.formatted),
            percent(self.databases, self.formatted),
        ]
    }
}

/// Returns the tests against which the solution's tables are checked: the performance tests, or the stress tests if
/// there are no performance tests.
pub(crate) fn loads(servers: &[ServerTests]) -> Vec<&ServerTest> {
    let performance = tests_of_kind(servers, TestKind::Performance);
    if performance.is_empty() { tests_of_kind(servers, TestKind::Stress) } else { performance }
}

/// Adds the checks for all tables.
pub(crate) fn check(
    configuration: &SubmissionConfiguration,
    servers: &[ServerTests],
    checks: &mut ConsistencyChecks,
) {
    let loads = loads(servers);
    if !loads.is_empty() {
        mailboxes(&configuration.exchange, &loads, checks);
        databases(&configuration.exchange, &loads, checks);
        profile(&configuration.exchange, &loads, checks);
    }
    hardware(&configuration.hardware, &configuration.disks, checks);
    if let Some(stated) = &configuration.software.engine_version {
        for test in &loads {
            let place = "Table 3, Engine version";
            checks.add_comparison(
                test.engine_version == *stated,
                place,
                stated,
                format!("{}: {}", test.title(), test.engine_version),
            );
        }
    }
    let space = SolutionCapacity::new(configuration, &loads);
    capacity(&configuration.disks, &space, checks);
    utilization(configuration, &space, checks);
}

fn mailboxes(exchange: &ExchangeDescription, loads: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let tested = loads.len() as f64;
    let in_groups = exchange
        .servers_per_group
        .map(|each| each.value() * exchange.availability_groups.map_or(1.0, StatedNumber::value));
    if let (Some(all), Some(stated)) = (exchange.mailboxes, exchange.active_mailboxes_per_server) {
        let each = all.value() / tested;
        let mut found = format!("{}: {all} mailboxes, servers tested: {tested}", plain(each));
        let holds = stated.value() == each.round();
        if let Some(servers) = in_groups.filter(|servers| !holds && stated.value() * servers == all.value()) {
            found += &format!(
                "; {stated} is the value for normal operation on {servers} servers, which was not tested"
            );
        }
        checks.add_comparison(holds, "Table 1, Number of active mailboxes/server", stated.to_string(), found);
    }
    if let Some(servers) = in_groups.filter(|servers| *servers != tested) {
        let found = format!("servers tested: {tested}");
        checks.add(
            StatementOutcome::Remark,
            "Table 1, Number of servers/DAG",
            format!("{servers} servers in all groups"),
            found,
        );
    }
    let databases: usize = loads.iter().map(|test| test.databases).sum();
    if let (Some(all), Some(stated)) = (exchange.mailboxes, exchange.mailboxes_per_database) {
        let each = all.value() / databases as f64;
        let (low, high) = stated.bounds();
        let holds = low <= each.ceil() && each.floor() <= high;
        let found = format!("{}: {all} mailboxes in {databases} databases", plain(each));
        checks.add_comparison(holds, "Table 1, Number of mailboxes/database", stated.to_string(), found);
    }
}

fn databases(exchange: &ExchangeDescription, loads: &[&ServerTest], checks: &mut ConsistencyChecks) {
    for test in loads {
        if let Some(stated) = exchange.databases_per_host {
            let found = format!("{}: {}", test.title(), test.databases);
            let place = "Table 1, Number of databases/host";
            checks.add_comparison(stated.value() == test.databases as f64, place, stated.to_string(), found);
        }
        match (exchange.copies_per_database, test.copies) {
            (Some(stated), Some(copies)) => {
                let found = format!("{}: {copies}", test.title());
                let place = "Table 1, Number of copies/database";
                checks.add_comparison(stated.value() == copies as f64, place, stated.to_string(), found);
            }
            (Some(stated), None) if stated.value() > 1.0 => {
                let found = format!("{}: log reads for other copies were not simulated", test.title());
                checks.add(
                    StatementOutcome::NoEvidence,
                    "Table 1, Number of copies/database",
                    stated.to_string(),
                    found,
                );
            }
            _ => {}
        }
    }
}

fn profile(exchange: &ExchangeDescription, loads: &[&ServerTest], checks: &mut ConsistencyChecks) {
    if let (Some(all), Some(iops)) = (exchange.mailboxes, exchange.tested_iops_per_mailbox) {
        let place = "Table 1, Tested IOPS per mailbox";
        let due = all.value() * iops.value() / loads.len() as f64;
        for test in loads {
            let title = test.title();
            match test.target_iops {
                Some(target) => checks.add_comparison(
                    (target - due).abs() <= 0.005 * due,
                    place,
                    iops.to_string(),
                    format!(
                        "{title}: target of {} I/O per second; its mailboxes need {}",
                        plain(target),
                        plain(due)
                    ),
                ),
                None => {
                    checks.add(
                        StatementOutcome::NoEvidence,
                        place,
                        iops.to_string(),
                        format!("{title}: the test had no target"),
                    );
                }
            }
        }
    }
    let rates = exchange.iops_per_mailbox.zip(exchange.tested_iops_per_mailbox);
    if let (Some(stated), Some((planned, tested))) = (exchange.headroom_percent, rates) {
        let headroom = (tested.value() / planned.value() - 1.0) * 100.0;
        checks.add_figure(
            "Table 1, Headroom (%)",
            stated,
            headroom,
            &format!("{tested} tested for {planned} planned"),
        );
    }
}

fn hardware(hardware: &HardwareDescription, disks: &DiskDescription, checks: &mut ConsistencyChecks) {
    if let Some(stated) = &hardware.connectivity {
        let of_host = [&hardware.hba, &hardware.switch].into_iter().flatten();
        for name in of_host.filter(|name| is_fibre_channel(name) && !is_fibre_channel(stated)) {
            checks.add_comparison(
                false,
                "Table 2, Storage connectivity",
                stated,
                format!("the host is connected by {name}"),
            );
        }
    }
    let parts = (hardware.hbas_per_host, hardware.ports_per_hba, hardware.hba_port_gbit);
    if let (Some(stated), (Some(hbas), Some(ports), Some(speed))) = (hardware.bandwidth_to_host_gbit, parts) {
        let found = format!("adapters in a host: {hbas}, each with {ports} ports of {speed} Gb/s");
        let all = hbas.value() * ports.value() * speed.value();
        checks.add_figure("Table 2, Maximum bandwidth to host (Gb/s)", stated, all, &found);
    }
    if let (Some(stated), Some(count)) = (hardware.disks_tested, disks.count) {
        let found = format!("{count} disks in table 4");
        checks.add_comparison(
            stated == count,
            "Table 2, Total number of disks tested",
            stated.to_string(),
            found,
        );
    }
}

fn is_fibre_channel(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("fibre channel")
        || text.contains("fiber channel")
        || text.split_whitespace().any(|word| word == "fc")
}

fn capacity(disks: &DiskDescription, space: &SolutionCapacity, checks: &mut ConsistencyChecks) {
    if let (Some(count), Some(each), Some(stated)) =
        (disks.count, &disks.raw_capacity, &disks.total_raw_capacity)
    {
        let all = count.value() * each.bytes as f64;
        let found = format!("{}: {count} disks of {}", stated.in_same_unit(all), each.written);
        checks.add_comparison(
            stated.matches_rounded(all),
            "Table 4, Total raw storage capacity",
            &stated.written,
            found,
        );
    }
    let (Some(raw), Some(stated)) = (space.raw, &disks.formatted_capacity) else { return };
    let place = "Table 4, Total formatted capacity";
    let share = stated.bytes as f64 / raw;
    let level = disks.raid_level.as_deref();
    let same = SAME_IN_OTHER_UNITS.iter().any(|factor| (share / factor - 1.0).abs() < SIZE_TOLERANCE);
    match level {
        Some(level) if same && !is_striped_only(level) => {
            let raw = stated.in_same_unit(raw);
            let found =
                format!("the raw capacity ({raw}) in other units: {level} leaves less than the raw capacity");
            checks.add_comparison(false, place, &stated.written, found);
        }
        _ => checks.add_comparison(
            share <= 1.0,
            place,
            &stated.written,
            format!("of {} raw", stated.in_same_unit(raw)),
        ),
    }
}

fn is_striped_only(level: &str) -> bool {
    let digits: String = level.chars().filter(char::is_ascii_digit).collect();
    digits == "0"
}

fn utilization(
    configuration: &SubmissionConfiguration,
    space: &SolutionCapacity,
    checks: &mut ConsistencyChecks,
) {
    let SubmissionConfiguration { exchange, disks, .. } = configuration;
    if let (Some(stated), Some(all)) = (&exchange.total_database_size, space.databases) {
        let mut found = format!("{}: all databases at the end of the load", human_bytes(all as u64));
        let is_close_to = |size: f64| (stated.bytes as f64 / size - 1.0).abs() <= 0.01;
        if let Some(volumes) = space.volumes.filter(|volumes| {
            !is_close_to(all) && (is_close_to(*volumes) || stated.matches_in_other_units(*volumes))
        }) {
            found +=
                &format!("; {} is the size of the volumes ({})", stated.written, human_bytes(volumes as u64));
        }
        checks.add_comparison(
            is_close_to(all),
            "Table 1, Total database size for performance testing",
            &stated.written,
            found,
        );
    }
    let size = |bytes: Option<f64>| bytes.map_or("unknown".into(), |bytes| human_bytes(bytes as u64));
    let (databases, volumes, formatted) = (size(space.databases), size(space.volumes), size(space.formatted));
    let stated = [
        (
            "Table 1, % storage capacity used by Exchange database",
            exchange.storage_capacity_used_percent,
            format!("databases of {databases} on volumes of {volumes}"),
        ),
        (
            "Table 4, Storage capacity utilization (%)",
            disks.storage_capacity_utilization_percent,
            format!("volumes of {volumes} on {formatted} formatted"),
        ),
        (
            "Table 4, Database capacity utilization (%)",
            disks.database_capacity_utilization_percent,
            format!("databases of {databases} on {formatted} formatted"),
        ),
    ];
    for ((place, stated, how), computed) in stated.into_iter().zip(space.used_percent()) {
        match (stated, computed) {
            (Some(stated), Some(computed)) => {
                checks.add_figure(place, stated, computed, &how);
            }
            (Some(stated), None) => {
                checks.add(
                    StatementOutcome::NoEvidence,
                    place,
                    stated.to_string(),
                    format!("its components are not given: {how}"),
                );
            }
            (None, _) => {}
        }
    }
}
