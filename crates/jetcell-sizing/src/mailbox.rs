//! Requirements of one mailbox: reads, writes, cache, logs and space.

use serde::Serialize;

use crate::config::MailboxConfig;
use crate::platform::Platform;
use crate::sheet::{CalculationSheet, max, min, power};

/// Storage requirements for one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MailboxRequirements {
    /// Database reads per second of the active copy.
    pub reads: f64,
    /// Database writes per second of the active copy.
    pub writes: f64,
    /// Database cache, MiB.
    pub cache_mib: f64,
    /// Number of logs of 1 MiB per day.
    pub logs_per_day: f64,
    /// Freed space that has not been reused yet, MiB.
    pub whitespace_mib: f64,
    /// Size of retained deleted messages, MiB.
    pub dumpster_mib: f64,
    /// Total space on disk, MiB.
    pub on_disk_mib: f64,
}

impl MailboxRequirements {
    /// Calculates the requirements from the mailbox profile.
    pub fn new(
        mailboxes: &MailboxConfig,
        platform: &Platform,
        sheet: &mut CalculationSheet,
    ) -> MailboxRequirements {
        sheet.heading("One mailbox");
        input!(sheet, messages_per_day = mailboxes.messages_per_day, "messages sent and received per day");
        input!(sheet, cache_base_mib = platform.cache_base_mib, "MiB");
        input!(sheet, cache_per_message_mib = platform.cache_per_message_mib, "MiB per message per day");
        input!(sheet, cache_most_mib = platform.cache_most_mib, "MiB");
        formula!(
            sheet,
            cache_mib = min(cache_most_mib, cache_base_mib + cache_per_message_mib * messages_per_day),
            "MiB"
        );
        let (reads, writes) = match mailboxes.iops {
            Some(iops) => split_measured_iops(iops, mailboxes, platform, sheet),
            None => iops_from_messages(cache_mib, messages_per_day, mailboxes, platform, sheet),
        };
        input!(sheet, busier_share = mailboxes.busier_share.0, "of the mailboxes");
        input!(sheet, busier_factor = mailboxes.busier_factor, "times the I/O of the other mailboxes");
        formula!(sheet, reads = reads * (1.0 + busier_share * (busier_factor - 1.0)), "reads/s");
        formula!(sheet, writes = writes * (1.0 + busier_share * (busier_factor - 1.0)), "writes/s");

        input!(sheet, message_kib = mailboxes.message_size.kib(), "KiB");
        input!(sheet, logs_per_message = platform.logs_per_message, "logs of 1 MiB per message of 75 KiB");
        formula!(
            sheet,
            logs_per_day = messages_per_day * logs_per_message * max(1.0, message_kib / 75.0),
            "logs/day"
        );
        input!(sheet, quota_mib = mailboxes.quota.mib(), "MiB");
        input!(sheet, retention_days = mailboxes.retention.days(), "days");
        input!(sheet, item_recovery = platform.item_recovery, "of the quota");
        input!(sheet, calendar_logging = platform.calendar_logging, "of the quota");
        formula!(sheet, whitespace_mib = messages_per_day * message_kib / 1024.0, "MiB");
        formula!(
            sheet,
            dumpster_mib = whitespace_mib * retention_days + quota_mib * (item_recovery + calendar_logging),
            "MiB"
        );
        formula!(sheet, on_disk_mib = quota_mib + whitespace_mib + dumpster_mib, "MiB");
        MailboxRequirements {
            reads,
            writes,
            cache_mib,
            logs_per_day,
            whitespace_mib,
            dumpster_mib,
            on_disk_mib,
        }
    }

    /// Returns the database reads and writes per second.
    pub fn iops(&self) -> f64 {
        self.reads + self.writes
    }
}

/// Divides a measured total into reads and writes. The share of writes is taken from `mailboxes`, or from the
/// platform if it is not given there.
fn split_measured_iops(
    iops: f64,
    mailboxes: &MailboxConfig,
    platform: &Platform,
    sheet: &mut CalculationSheet,
) -> (f64, f64) {
    let usual = platform.writes_per_message / (platform.reads_per_message + platform.writes_per_message);
    input!(sheet, iops = iops, "reads and writes/s, given");
    input!(sheet, write_share = mailboxes.write_share.map_or(usual, |share| share.0), "of them");
    formula!(sheet, writes = iops * write_share, "writes/s");
    formula!(sheet, reads = iops - writes, "reads/s");
    (reads, writes)
}

fn iops_from_messages(
    cache_mib: f64,
    messages_per_day: f64,
    mailboxes: &MailboxConfig,
    platform: &Platform,
    sheet: &mut CalculationSheet,
) -> (f64, f64) {
    input!(sheet, reads_per_message = platform.reads_per_message, "reads/s per message per day");
    input!(sheet, writes_per_message = platform.writes_per_message, "writes/s per message per day");
    input!(sheet, read_cache_exponent = platform.read_cache_exponent, "");
    formula!(
        sheet,
        reads = reads_per_message * messages_per_day * power(max(cache_mib, 0.01), read_cache_exponent),
        "reads/s"
    );
    formula!(sheet, writes = writes_per_message * messages_per_day, "writes/s");
    match mailboxes.write_share {
        None => (reads, writes),
        Some(share) => {
            input!(sheet, write_share = share.0, "of reads and writes, given");
            formula!(sheet, iops = reads + writes, "reads and writes/s");
            formula!(sheet, writes = iops * write_share, "writes/s");
            formula!(sheet, reads = iops - writes, "reads/s");
            (reads, writes)
        }
    }
}
