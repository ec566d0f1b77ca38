//! Configuration for a performance test of the design. The test covers one server's storage in its worst state.

use crate::config::Config;
use crate::demand::ServerDemand;
use crate::error::SizingError;
use crate::platform::Platform;
use crate::states::SystemState;

/// Maximum number of databases in a test.
const MAX_DATABASES: f64 = 999.0;

/// Returns the TOML configuration for `jetcell test performance --config`.
///
/// The databases are those on one server, including passive copies. Each has the size of a full database after
/// growth. The target is the server's database I/O, including headroom, when another server is lost. No tolerance is
/// subtracted.
pub fn test_config(
    config: &Config,
    platform: &Platform,
    demand: &ServerDemand,
) -> Result<String, SizingError> {
    let load = demand.load(SystemState::ServerLost);
    let databases = demand.database_copies_per_server;
    if databases > MAX_DATABASES {
        return Err(SizingError::TooManyDatabases { databases, max: MAX_DATABASES });
    }
    let target = load.database_reads + load.database_writes;
    if target <= 0.0 {
        return Err(SizingError::NoIo);
    }
    let directories = |all: &[String]| {
        let used: Vec<_> = all.iter().take(databases as usize).map(|dir| format!("{dir:?}")).collect();
        format!("[{}]", used.join(", "))
    };
    let size_mib = (demand.database_gib * 1024.0).ceil().max(32.0);
    let (copies, servers) = (config.servers.copies, config.servers.count);
    Ok(format!(
        "\
# Test of the storage of one server, as sized: {mailboxes} mailboxes on {servers} servers, {copies} copies of each
# of {all} databases; {active:.0} mailboxes active on the server when {lost} of the others are lost.
#   jetcell test performance --config THIS-FILE
# Put the directories where the volumes of the design are mounted.
dirs = {dirs}
log_dirs = {log_dirs}

# Copies of databases on a server ({all} databases x {copies} copies / {servers} servers), full and grown.
databases = {databases}
size = \"{size_mib}MiB\"
page_size = \"{page}KiB\"

# Database reads and writes per second in the worst state, {headroom} headroom included; no shortfall is tolerated.
target_iops = {target:.3}
margin = 0.0
duration = \"{duration}s\"
threads = {threads}

[thresholds]
average_database_read_ms = {latency}
",
        mailboxes = config.mailboxes.count,
        all = demand.databases,
        active = load.active_mailboxes,
        lost = if servers > 1 { config.servers.lost } else { 0 },
        dirs = directories(&config.test.dirs),
        log_dirs = directories(&config.test.log_dirs),
        page = platform.page_kib,
        headroom = config.servers.headroom,
        duration = config.test.duration.0.ceil(),
        threads = config.test.threads,
        latency = toml_float(config.storage.latency.ms()),
    ))
}

/// Formats a number with a decimal point, as TOML requires for a float.
fn toml_float(value: f64) -> String {
    format!("{:?}", (value * 1e6).round() / 1e6)
}
