//! A server's memory and its number of active mailboxes.

use super::databases::DatabasePlan;
use crate::config::Config;
use crate::mailbox::MailboxRequirements;
use crate::platform::Platform;
use crate::sheet::{CalculationSheet, max, min};

/// Mailbox counts and memory sizes planned for one server.
#[derive(Clone, Copy)]
pub(super) struct MemoryPlan {
    /// Number of mailbox copies on a server.
    pub mailbox_copies: f64,
    /// Number of active mailboxes while all servers are working.
    pub active_normal: f64,
    /// Number of active mailboxes after the loss of servers.
    pub active_lost: f64,
    /// Size of the database cache, GiB.
    pub cache_gib: f64,
    /// Memory size, GiB.
    pub memory_gib: f64,
}

impl MemoryPlan {
    pub fn new(
        config: &Config,
        platform: &Platform,
        mailbox: &MailboxRequirements,
        plan: &DatabasePlan,
        sheet: &mut CalculationSheet,
    ) -> MemoryPlan {
        let servers_config = &config.servers;
        let DatabasePlan { mailboxes, servers, copies, .. } = *plan;
        sheet.heading("Memory of a server");
        let lost = if servers_config.count > 1 { f64::from(servers_config.lost) } else { 0.0 };
        input!(sheet, lost = lost, "servers");
        formula!(sheet, mailbox_copies = mailboxes * copies / servers, "on a server");
        formula!(sheet, active_normal = mailboxes / servers, "mailboxes on a server");
        formula!(
            sheet,
            active_lost = max(active_normal, min(mailboxes / (servers - lost), mailbox_copies)),
            "mailboxes on each remaining server"
        );
        input!(sheet, cache_mib = mailbox.cache_mib, "MiB per active mailbox");
        input!(sheet, cache_share = platform.cache_share_of_memory, "of the memory above the base");
        input!(sheet, memory_base_gib = platform.memory_base_gib, "GiB");
        input!(sheet, least_memory_gib = platform.least_memory_gib, "GiB");
        formula!(sheet, cache_gib = active_lost * cache_mib / 1024.0, "GiB");
        formula!(sheet, memory_gib = max(least_memory_gib, memory_base_gib + cache_gib / cache_share), "GiB");
        MemoryPlan { mailbox_copies, active_normal, active_lost, cache_gib, memory_gib }
    }
}
