//! What one server must bear and hold: I/O in each state, space, memory, network, and the time of backups.
//!
//! Servers are alike and share the load evenly. A lost server's databases become active on the others as far as
//! these have copies; with one copy its mailboxes are out of reach and the others' load does not change.

use serde::Serialize;

use crate::config::{Config, Mistake};
use crate::mailbox::Mailbox;
use crate::platform::Platform;
use crate::sheet::{Sheet, ceil, floor, max, min};
use crate::states::State;

/// I/O of one server in one state, with headroom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// What is going on.
    pub state: State,
    /// Mailboxes whose active copy is here.
    pub active_mailboxes: f64,
    /// Database reads per second.
    pub database_reads: f64,
    /// Database writes per second.
    pub database_writes: f64,
    /// Log reads per second.
    pub log_reads: f64,
    /// Log writes per second.
    pub log_writes: f64,
    /// Background maintenance, MB/s.
    pub maintenance_mb_s: f64,
    /// Backup, MB/s.
    pub backup_mb_s: f64,
}

/// What one server must bear and hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// I/O by state.
    pub loads: Vec<Load>,
    /// Databases in all, copies not counted.
    pub databases: f64,
    /// Copies of databases on a server.
    pub database_copies_per_server: f64,
    /// Mailboxes in a database.
    pub mailboxes_per_database: f64,
    /// One database, GiB.
    pub database_gib: f64,
    /// Volumes for databases on a server.
    pub database_volumes_per_server: f64,
    /// One volume for databases, GiB.
    pub database_volume_gib: f64,
    /// All database volumes of a server, the restore volume included, GiB.
    pub database_capacity_gib: f64,
    /// Logs of a server, GiB; 0 when they are on the database volumes.
    pub log_capacity_gib: f64,
    /// Memory for the database cache of a server, GiB.
    pub cache_gib: f64,
    /// Memory of a server, GiB.
    pub memory_gib: f64,
    /// Background maintenance as reads of 256 KiB per second and server.
    pub maintenance_reads: f64,
    /// From a server in the busiest hour, all target copies, Mbit/s.
    pub replication_mbit_s: f64,
    /// In flight on a connection between sites, KiB: the window that a single stream needs.
    pub replication_window_kib: f64,
    /// Backup of a server, hours.
    pub backup_hours: f64,
    /// Restore of a server, replay included, hours.
    pub restore_hours: f64,
    /// What a person should know.
    pub warnings: Vec<String>,
}

impl Demand {
    /// What the configuration asks of each server.
    pub fn of(
        config: &Config,
        platform: &Platform,
        mailbox: &Mailbox,
        sheet: &mut Sheet,
    ) -> Result<Demand, Mistake> {
        let mut warnings = Vec::new();
        let servers_config = &config.servers;

        sheet.heading("Databases");
        input!(sheet, mailboxes = config.mailboxes.count as f64, "");
        input!(sheet, servers = f64::from(servers_config.count), "");
        input!(sheet, copies = f64::from(servers_config.copies), "of each database");
        input!(sheet, on_disk_mib = mailbox.on_disk_mib, "MiB per mailbox");
        input!(sheet, growth = config.mailboxes.growth.0, "");
        formula!(sheet, mailbox_gib = on_disk_mib / 1024.0 * (1.0 + growth), "GiB per mailbox, grown");
        let limit = match servers_config.copies {
            1 => platform.largest_database_gib,
            _ => platform.largest_replicated_gib,
        };
        input!(sheet, largest_gib = config.databases.largest.map_or(limit, |size| size.gib()), "GiB");
        let databases = match config.databases.count {
            Some(count) => {
                input!(sheet, databases = f64::from(count), "given");
                databases
            }
            None => {
                formula!(sheet, mailboxes_that_fit = floor(largest_gib / mailbox_gib), "per database");
                if mailboxes_that_fit < 1.0 {
                    return Err(Mistake(format!(
                        "a mailbox takes {mailbox_gib:.1} GiB but a database may have {largest_gib:.1} GiB: \
                         raise databases.largest or lower mailboxes.quota"
                    )));
                }
                formula!(
                    sheet,
                    databases = ceil(ceil(mailboxes / mailboxes_that_fit) / servers) * servers,
                    "databases, the same number on each server"
                );
                databases
            }
        };
        formula!(sheet, mailboxes_per_database = ceil(mailboxes / databases), "");
        formula!(sheet, database_gib = mailboxes_per_database * mailbox_gib, "GiB");
        if database_gib > largest_gib * (1.0 + 1e-9) {
            warnings.push(format!(
                "a database has {database_gib:.0} GiB, more than the {largest_gib:.0} GiB it should: use more databases"
            ));
        }
        formula!(sheet, database_copies = ceil(databases * copies / servers), "copies on a server");

        sheet.heading("Space of a server");
        input!(sheet, content_index = platform.content_index, "of a database");
        input!(sheet, per_volume = f64::from(config.databases.per_volume), "databases on a volume");
        input!(sheet, free = config.databases.free.0, "of a volume");
        input!(sheet, logs_per_day_each = mailbox.logs_per_day, "logs of 1 MiB per mailbox");
        formula!(sheet, logs_per_day = mailboxes_per_database * logs_per_day_each, "logs per database");
        input!(sheet, without_truncation_days = config.logs.without_truncation.days(), "days");
        input!(sheet, outage_days = config.logs.outage.days(), "days");
        input!(sheet, lag_days = config.logs.lag.days(), "days");
        input!(sheet, moved = config.logs.moved.0, "of the mailboxes per week");
        formula!(
            sheet,
            logs_gib = (logs_per_day * (max(without_truncation_days, outage_days) + lag_days)
                + moved * mailboxes_per_database * on_disk_mib)
                / 1024.0,
            "GiB per database"
        );
        let apart = config.logs.apart;
        input!(sheet, logs_here = if apart { 0.0 } else { 1.0 }, "1 when logs share the volume");
        formula!(
            sheet,
            database_volume_gib =
                per_volume * (database_gib * (1.0 + content_index) + logs_here * logs_gib) / (1.0 - free),
            "GiB"
        );
        formula!(sheet, database_volumes = ceil(database_copies / per_volume), "volumes");
        input!(sheet, restore_volumes = if config.databases.restore_volume { 1.0 } else { 0.0 }, "");
        formula!(
            sheet,
            database_capacity_gib =
                database_volumes * database_volume_gib + restore_volumes * database_gib * 1.1 / (1.0 - free),
            "GiB; a restore volume has the largest database and a tenth"
        );
        formula!(
            sheet,
            log_capacity_gib = (1.0 - logs_here) * database_copies * logs_gib / (1.0 - free),
            "GiB on disks of their own"
        );

        sheet.heading("Memory of a server");
        let lost = if servers_config.count > 1 { f64::from(servers_config.lost) } else { 0.0 };
        input!(sheet, lost = lost, "servers");
        formula!(sheet, mailbox_copies = mailboxes * copies / servers, "on a server");
        formula!(sheet, active_normal = mailboxes / servers, "mailboxes on a server");
        formula!(
            sheet,
            active_lost = max(active_normal, min(mailboxes / (servers - lost), mailbox_copies)),
            "mailboxes on a server that is left"
        );
        input!(sheet, cache_mib = mailbox.cache_mib, "MiB per active mailbox");
        input!(sheet, cache_share = platform.cache_share_of_memory, "of the memory above the base");
        input!(sheet, memory_base_gib = platform.memory_base_gib, "GiB");
        input!(sheet, least_memory_gib = platform.least_memory_gib, "GiB");
        formula!(sheet, cache_gib = active_lost * cache_mib / 1024.0, "GiB");
        formula!(sheet, memory_gib = max(least_memory_gib, memory_base_gib + cache_gib / cache_share), "GiB");

        sheet.heading("Replication from a server");
        input!(sheet, peak_hour = config.network.peak_hour.0, "of a day's logs");
        input!(sheet, compression = config.network.compression.0, "saved");
        input!(sheet, protocol = config.network.protocol.0, "added");
        input!(sheet, round_trip_ms = config.network.round_trip.ms(), "ms");
        formula!(sheet, peak_logs = active_lost * logs_per_day_each * peak_hour, "logs in the busiest hour");
        formula!(
            sheet,
            replication_mbit_s =
                (copies - 1.0) * peak_logs * 1.048576 * 8.0 / 3600.0 * (1.0 - compression) * (1.0 + protocol),
            "Mbit/s"
        );
        formula!(
            sheet,
            replication_window_kib = replication_mbit_s * 1000.0 / 8.0 * round_trip_ms / 1024.0,
            "KiB in flight"
        );

        sheet.heading("Backup and restore of a server");
        input!(sheet, stream_mb_s = config.backup.stream.mb_s(), "MB/s");
        input!(sheet, streams = f64::from(config.backup.streams), "");
        input!(sheet, bus_mb_s = config.backup.bus.mb_s(), "MB/s");
        input!(sheet, replay_s = config.backup.replay.0, "s per log");
        input!(sheet, parallel_replay = f64::from(config.backup.parallel_replay), "databases");
        input!(sheet, age_days = config.backup.age.days(), "days of logs to replay");
        formula!(sheet, databases_active = databases / servers, "databases to back up");
        formula!(sheet, backup_mb_s = min(stream_mb_s * streams, bus_mb_s), "MB/s");
        formula!(
            sheet,
            backup_hours = databases_active * database_gib * 1073.741824 / backup_mb_s / 3600.0,
            "h"
        );
        formula!(
            sheet,
            replay_hours = databases_active * logs_per_day * age_days * replay_s
                / min(parallel_replay, max(databases_active, 1.0))
                / 3600.0,
            "h"
        );
        formula!(sheet, restore_hours = backup_hours + replay_hours, "h");
        if replay_s > 0.0 && servers_config.copies > 1 {
            formula!(sheet, replay_per_hour = parallel_replay / replay_s * 3600.0, "logs");
            if peak_logs > replay_per_hour {
                warnings.push(format!(
                    "the busiest hour makes {peak_logs:.0} logs on a server, more than the {replay_per_hour:.0} that a \
                     server replays in an hour: a copy that has to catch up then falls behind"
                ));
            }
        }
        if servers_config.copies == 1 && servers_config.count > 1 {
            warnings.push("one copy: when a server is lost, its mailboxes are out of reach".into());
        } else if servers_config.count > 1 && servers_config.lost >= servers_config.copies {
            warnings.push(format!(
                "{} copies do not cover {} lost servers: some databases would have no copy left",
                servers_config.copies, servers_config.lost
            ));
        }
        if config.mailboxes.message_size.kib() > 75.0 {
            warnings.push(
                "messages are larger than 75 KiB: logs and space grow with them, I/O is left as it is because no \
                 source says how it grows"
                    .into(),
            );
        }

        input!(sheet, maintenance_each = platform.maintenance_mb_s, "MB/s per database copy");
        formula!(sheet, maintenance_mb_s = maintenance_each * database_copies, "MB/s on a server");
        formula!(sheet, maintenance_reads = maintenance_mb_s * 1000000.0 / 262144.0, "reads of 256 KiB/s");

        let mut loads = Vec::new();
        for state in State::ALL {
            let backup = if state == State::BackupRunning { backup_mb_s } else { 0.0 };
            let active = if state == State::ServerLost { active_lost } else { active_normal };
            sheet.heading(format!("I/O of a server: {state}"));
            input!(sheet, active = active, "mailboxes");
            input!(sheet, reads = mailbox.reads, "reads/s per mailbox");
            input!(sheet, writes = mailbox.writes, "writes/s per mailbox");
            input!(sheet, headroom = servers_config.headroom.0, "");
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
            loads.push(Load {
                state,
                active_mailboxes: active,
                database_reads,
                database_writes,
                log_reads,
                log_writes,
                maintenance_mb_s,
                backup_mb_s: backup,
            });
        }
        Ok(Demand {
            loads,
            databases,
            database_copies_per_server: database_copies,
            mailboxes_per_database,
            database_gib,
            database_volumes_per_server: database_volumes,
            database_volume_gib,
            database_capacity_gib,
            log_capacity_gib,
            cache_gib,
            memory_gib,
            maintenance_reads,
            replication_mbit_s,
            replication_window_kib,
            backup_hours,
            restore_hours,
            warnings,
        })
    }

    /// The load in this state.
    pub fn load(&self, state: State) -> &Load {
        // `loads` has every state, in order.
        &self.loads[state as usize]
    }
}

/// Largest database on a single disk: what is left of `formatted_gib` after the free share and the index.
pub fn largest_on_disk_gib(formatted_gib: f64, free: f64, content_index: f64) -> f64 {
    formatted_gib * (1.0 - free) / (1.0 + content_index)
}

/// Queue database of message transport, GiB: messages that wait and messages kept to be sent again, each stored
/// on several servers.
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
