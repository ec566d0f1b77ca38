//! Distribution of mailboxes over databases, and of databases over servers.

use crate::config::Config;
use crate::error::SizingError;
use crate::mailbox::MailboxRequirements;
use crate::platform::Platform;
use crate::sheet::{CalculationSheet, ceil, floor};

/// The databases planned for the system.
#[derive(Clone, Copy)]
pub(super) struct DatabasePlan {
    /// Number of mailboxes in the system.
    pub mailboxes: f64,
    pub servers: f64,
    /// Number of copies of each database, including the active copy.
    pub copies: f64,
    /// Size of a mailbox on disk, MiB.
    pub on_disk_mib: f64,
    /// Number of databases in the system, not counting copies.
    pub databases: f64,
    pub mailboxes_per_database: f64,
    /// Size of a database, GiB.
    pub database_gib: f64,
    /// Number of database copies on a server.
    pub database_copies: f64,
}

impl DatabasePlan {
    pub fn new(
        config: &Config,
        platform: &Platform,
        mailbox: &MailboxRequirements,
        sheet: &mut CalculationSheet,
        warnings: &mut Vec<String>,
    ) -> Result<DatabasePlan, SizingError> {
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
        input!(
            sheet,
            largest_gib = config.databases.largest.map_or(limit, super::super::units::DataSize::gib),
            "GiB"
        );
        let databases = match config.databases.count {
            Some(count) => {
                input!(sheet, databases = f64::from(count), "given");
                databases
            }
            None => {
                formula!(sheet, mailboxes_that_fit = floor(largest_gib / mailbox_gib), "per database");
                if mailboxes_that_fit < 1.0 {
                    return Err(SizingError::LargeMailbox { mailbox_gib, largest_gib });
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
                "a database is {database_gib:.0} GiB, which exceeds the limit of {largest_gib:.0} GiB; use \
                 more databases"
            ));
        }
        formula!(sheet, database_copies = ceil(databases * copies / servers), "copies on a server");
        Ok(DatabasePlan {
            mailboxes,
            servers,
            copies,
            on_disk_mib,
            databases,
            mailboxes_per_database,
            database_gib,
            database_copies,
        })
    }
}
