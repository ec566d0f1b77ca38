//! Disk space of a server: database volumes and logs.

use super::databases::DatabasePlan;
use crate::config::Config;
use crate::mailbox::MailboxRequirements;
use crate::platform::Platform;
use crate::sheet::{CalculationSheet, ceil, max};

/// Disk space planned for one server.
#[derive(Clone, Copy)]
pub(super) struct SpacePlan {
    /// Number of logs of 1 MiB per mailbox and day.
    pub logs_per_day_each: f64,
    /// Number of logs of 1 MiB per database and day.
    pub logs_per_day: f64,
    /// Number of database volumes.
    pub database_volumes: f64,
    /// Size of a volume, GiB.
    pub database_volume_gib: f64,
    /// Total size of all database volumes, GiB.
    pub database_capacity_gib: f64,
    /// Total size of the log disks, GiB.
    pub log_capacity_gib: f64,
}

impl SpacePlan {
    pub fn new(
        config: &Config,
        platform: &Platform,
        mailbox: &MailboxRequirements,
        plan: &DatabasePlan,
        sheet: &mut CalculationSheet,
    ) -> SpacePlan {
        let DatabasePlan { mailboxes_per_database, on_disk_mib, database_gib, database_copies, .. } = *plan;
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
        input!(sheet, logs_here = if apart { 0.0 } else { 1.0 }, "1 if logs share the volume");
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
            "GiB; a restore volume holds the largest database plus 10 %"
        );
        formula!(
            sheet,
            log_capacity_gib = (1.0 - logs_here) * database_copies * logs_gib / (1.0 - free),
            "GiB on separate disks"
        );
        SpacePlan {
            logs_per_day_each,
            logs_per_day,
            database_volumes,
            database_volume_gib,
            database_capacity_gib,
            log_capacity_gib,
        }
    }
}
