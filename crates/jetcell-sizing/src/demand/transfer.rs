//! Data transfers of a server: log replication, backups, and restores.

use super::databases::DatabasePlan;
use super::memory::MemoryPlan;
use super::space::SpacePlan;
use crate::config::Config;
use crate::sheet::{CalculationSheet, max, min};

/// Replication traffic planned for one server.
#[derive(Clone, Copy)]
pub(super) struct ReplicationPlan {
    /// Number of logs in the busiest hour.
    pub peak_logs: f64,
    /// Traffic to all target copies, Mbit/s.
    pub replication_mbit_s: f64,
    /// Data in flight on one connection, KiB.
    pub replication_window_kib: f64,
}

impl ReplicationPlan {
    pub fn new(
        config: &Config,
        plan: &DatabasePlan,
        space: &SpacePlan,
        memory: &MemoryPlan,
        sheet: &mut CalculationSheet,
    ) -> ReplicationPlan {
        let (copies, logs_per_day_each) = (plan.copies, space.logs_per_day_each);
        let active_lost = memory.active_lost;
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
        ReplicationPlan { peak_logs, replication_mbit_s, replication_window_kib }
    }
}

/// Backup and restore times planned for one server.
#[derive(Clone, Copy)]
pub(super) struct BackupPlan {
    /// Time to replay one log, seconds.
    pub replay_s: f64,
    /// Number of databases that are replayed concurrently.
    pub parallel_replay: f64,
    /// Transfer rate of a backup, MB/s.
    pub backup_mb_s: f64,
    pub backup_hours: f64,
    /// Time to restore a server, including replay, hours.
    pub restore_hours: f64,
}

impl BackupPlan {
    pub fn new(
        config: &Config,
        plan: &DatabasePlan,
        space: &SpacePlan,
        sheet: &mut CalculationSheet,
    ) -> BackupPlan {
        let DatabasePlan { servers, databases, database_gib, .. } = *plan;
        let logs_per_day = space.logs_per_day;
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
        BackupPlan { replay_s, parallel_replay, backup_mb_s, backup_hours, restore_hours }
    }

    /// Adds a warning if a server writes logs faster than a server with a copy can replay them.
    pub fn warn_of_slow_replay(
        &self,
        config: &Config,
        replication: &ReplicationPlan,
        sheet: &mut CalculationSheet,
        warnings: &mut Vec<String>,
    ) {
        let BackupPlan { replay_s, parallel_replay, .. } = *self;
        let peak_logs = replication.peak_logs;
        if replay_s > 0.0 && config.servers.copies > 1 {
            formula!(sheet, replay_per_hour = parallel_replay / replay_s * 3600.0, "logs");
            if peak_logs > replay_per_hour {
                warnings.push(format!(
                    "the busiest hour generates {peak_logs:.0} logs on a server, more than the \
                     {replay_per_hour:.0} that a server replays in an hour: a copy that is catching up then \
                     lags further"
                ));
            }
        }
    }
}
