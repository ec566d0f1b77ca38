//! Requirements of one server: I/O in each state, space, memory, network, and backup time.
//!
//! All servers are equal and share the load evenly. If a server is lost, its databases become active on the servers
//! that hold copies of them. Without copies, the lost server's mailboxes are unavailable, and the load of the other
//! servers does not change.

mod databases;
mod memory;
mod space;
mod transfer;

use serde::Serialize;

use self::databases::DatabasePlan;
use self::memory::MemoryPlan;
use self::space::SpacePlan;
use self::transfer::{BackupPlan, ReplicationPlan};

use crate::config::Config;
use crate::error::SizingError;
use crate::mailbox::MailboxRequirements;
use crate::platform::Platform;
use crate::sheet::{CalculationSheet, max};
use crate::states::SystemState;

/// I/O load on one server in one system state, including headroom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerLoad {
    /// State of the system.
    pub state: SystemState,
    /// Number of mailboxes whose active copy is on the server.
    pub active_mailboxes: f64,
    /// Database reads per second.
    pub database_reads: f64,
    /// Database writes per second.
    pub database_writes: f64,
    /// Log reads per second.
    pub log_reads: f64,
    /// Log writes per second.
    pub log_writes: f64,
    /// Background maintenance I/O, MB/s.
    pub maintenance_mb_s: f64,
    /// Backup I/O, MB/s.
    pub backup_mb_s: f64,
}

/// Storage requirements for one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerDemand {
    /// I/O in each state.
    pub loads: Vec<ServerLoad>,
    /// Number of databases in the system, not counting copies.
    pub databases: f64,
    /// Number of database copies on a server.
    pub database_copies_per_server: f64,
    /// Number of mailboxes in a database.
    pub mailboxes_per_database: f64,
    /// Size of one database, GiB.
    pub database_gib: f64,
    /// Number of database volumes on a server.
    pub database_volumes_per_server: f64,
    /// Size of one database volume, GiB.
    pub database_volume_gib: f64,
    /// Total size of all database volumes on a server, including the restore volume, GiB.
    pub database_capacity_gib: f64,
    /// Total size of the logs on a server, GiB. Zero if the logs are on the database volumes.
    pub log_capacity_gib: f64,
    /// Memory for a server's database cache, GiB.
    pub cache_gib: f64,
    /// Memory size of a server, GiB.
    pub memory_gib: f64,
    /// Background maintenance reads of 256 KiB, per second per server.
    pub maintenance_reads: f64,
    /// Replication traffic from a server to all target copies in the busiest hour, Mbit/s.
    pub replication_mbit_s: f64,
    /// Data in flight on a connection between sites, KiB. A single stream needs this window size.
    pub replication_window_kib: f64,
    /// Time to back up a server, hours.
    pub backup_hours: f64,
    /// Time to restore a server, including replay, hours.
    pub restore_hours: f64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl ServerDemand {
    /// Calculates the requirements of one server.
    pub fn new(
        config: &Config,
        platform: &Platform,
        mailbox: &MailboxRequirements,
        sheet: &mut CalculationSheet,
    ) -> Result<ServerDemand, SizingError> {
        let mut warnings = Vec::new();
        let databases = DatabasePlan::new(config, platform, mailbox, sheet, &mut warnings)?;
        let space = SpacePlan::new(config, platform, mailbox, &databases, sheet);
        let memory = MemoryPlan::new(config, platform, mailbox, &databases, sheet);
        let replication = ReplicationPlan::new(config, &databases, &space, &memory, sheet);
        let backup = BackupPlan::new(config, &databases, &space, sheet);
        backup.warn_of_slow_replay(config, &replication, sheet, &mut warnings);
        warn_of_missing_copies(config, &mut warnings);
        let database_copies = databases.database_copies;
        input!(sheet, maintenance_each = platform.maintenance_mb_s, "MB/s per database copy");
        formula!(sheet, maintenance_mb_s = maintenance_each * database_copies, "MB/s on a server");
        formula!(sheet, maintenance_reads = maintenance_mb_s * 1000000.0 / 262144.0, "reads of 256 KiB/s");

        let copies = databases.copies;
        let loads = SystemState::ALL.map(|state| {
            let backup_mb_s = if state == SystemState::BackupRunning { backup.backup_mb_s } else { 0.0 };
            let load = load(state, config, platform, mailbox, copies, &memory, sheet);
            ServerLoad { maintenance_mb_s, backup_mb_s, ..load }
        });
        Ok(ServerDemand {
            loads: loads.to_vec(),
            databases: databases.databases,
            database_copies_per_server: database_copies,
            mailboxes_per_database: databases.mailboxes_per_database,
            database_gib: databases.database_gib,
            database_volumes_per_server: space.database_volumes,
            database_volume_gib: space.database_volume_gib,
            database_capacity_gib: space.database_capacity_gib,
            log_capacity_gib: space.log_capacity_gib,
            cache_gib: memory.cache_gib,
            memory_gib: memory.memory_gib,
            maintenance_reads,
            replication_mbit_s: replication.replication_mbit_s,
            replication_window_kib: replication.replication_window_kib,
            backup_hours: backup.backup_hours,
            restore_hours: backup.restore_hours,
            warnings,
        })
    }

    /// Returns the load in the given state.
    pub fn load(&self, state: SystemState) -> &ServerLoad {
        // `loads` contains every state, in order.
        &self.loads[state as usize]
    }
}

/// Calculates a server's I/O in one state, excluding maintenance and backup.
fn load(
    state: SystemState,
    config: &Config,
    platform: &Platform,
    mailbox: &MailboxRequirements,
    copies: f64,
    memory: &MemoryPlan,
    sheet: &mut CalculationSheet,
) -> ServerLoad {
    let MemoryPlan { mailbox_copies, active_normal, active_lost, .. } = *memory;
    let active = if state == SystemState::ServerLost { active_lost } else { active_normal };
    sheet.heading(format!("I/O of a server: {state}"));
    input!(sheet, active = active, "mailboxes");
    input!(sheet, reads = mailbox.reads, "reads/s per mailbox");
    input!(sheet, writes = mailbox.writes, "writes/s per mailbox");
    input!(sheet, headroom = config.servers.headroom.0, "");
    input!(sheet, passive_io = platform.passive_io, "of an active copy's I/O");
    formula!(sheet, passive = max(mailbox_copies - active, 0.0), "mailboxes");
    formula!(sheet, weight = (active + passive_io * passive) * (1.0 + headroom), "mailboxes");
    formula!(sheet, database_reads = weight * reads, "reads/s");
    formula!(sheet, database_writes = weight * writes, "writes/s");
    input!(sheet, log_writes_per_write = platform.log_writes_per_write, "");
    let log_read_ratio = if copies > 1.0 { platform.log_reads_per_log_write } else { 0.0 };
    input!(sheet, log_reads_per_log_write = log_read_ratio, "");
    formula!(sheet, log_writes = database_writes * log_writes_per_write, "writes/s");
    formula!(sheet, log_reads = log_writes * log_reads_per_log_write, "reads/s");
    ServerLoad {
        state,
        active_mailboxes: active,
        database_reads,
        database_writes,
        log_reads,
        log_writes,
        maintenance_mb_s: 0.0,
        backup_mb_s: 0.0,
    }
}

fn warn_of_missing_copies(config: &Config, warnings: &mut Vec<String>) {
    let servers_config = &config.servers;
    if servers_config.copies == 1 && servers_config.count > 1 {
        warnings.push("one copy: if a server fails, its mailboxes are unavailable".into());
    } else if servers_config.count > 1 && servers_config.lost >= servers_config.copies {
        warnings.push(format!(
            "{} copies do not cover {} failed servers: some databases would have no remaining copy",
            servers_config.copies, servers_config.lost
        ));
    }
    if config.mailboxes.message_size.kib() > 75.0 {
        warnings.push(
            "messages are larger than 75 KiB: logs and space are scaled with the message size, but I/O is \
             not, because no source states how I/O grows with message size"
                .into(),
        );
    }
}

/// Returns the maximum size of a database on a single disk, GiB: `formatted_gib` minus the free share and the content
/// index.
pub fn largest_on_disk_gib(formatted_gib: f64, free: f64, content_index: f64) -> f64 {
    formatted_gib * (1.0 - free) / (1.0 + content_index)
}

/// Returns the size of the message transport's queue database, GiB. It contains queued messages and messages retained
/// for redelivery. Each message is stored on several servers.
pub fn transport_gib(
    mailboxes: f64,
    messages_per_day: f64,
    message_kib: f64,
    queued_share: f64,
    queue_days: f64,
    safety_net_days: f64,
    copies: f64,
) -> f64 {
    let daily_gib = mailboxes * messages_per_day * message_kib / 1024.0 / 1024.0;
    daily_gib * (1.0 + queued_share * queue_days + safety_net_days) * copies
}
