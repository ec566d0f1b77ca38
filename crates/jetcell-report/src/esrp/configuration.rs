//! The author's input for an ESRP document: a TOML file with the tables that describe the solution, the vendor's
//! text, and the figures that the text quotes.
//!
//! Every key except `title` is optional. A missing figure is computed if it follows from other figures or from the
//! results. A stated figure is checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_input::toml;
use jetcell_vfs::read_input;
use jetcell_workload::{ConfigurationError, TestKind};
use serde::Deserialize;

use crate::esrp::figure::{NumberRange, StatedCapacity, StatedNumber};

/// A commented configuration with every key.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Maximum size of a configuration in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 16 << 20;

/// Contents of the configuration file for an ESRP submission.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionConfiguration {
    pub(crate) title: String,
    pub(crate) vendor: Option<String>,
    #[serde(default)]
    pub(crate) authors: Vec<String>,
    /// Date as printed in the document. The program never uses the current time.
    pub(crate) date: Option<String>,
    #[serde(default)]
    pub(crate) text: VendorText,
    #[serde(default)]
    pub(crate) exchange: ExchangeDescription,
    #[serde(default)]
    pub(crate) hardware: HardwareDescription,
    #[serde(default)]
    pub(crate) software: SoftwareDescription,
    #[serde(default)]
    pub(crate) disks: DiskDescription,
    #[serde(default)]
    pub(crate) claims: PublishedClaims,
    /// Directories that contain each server's runs, for runs whose host names do not identify the server.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, PathBuf>,
}

/// The vendor's prose. Paragraphs are separated by empty lines, and lines that begin with `- ` are list items.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct VendorText {
    pub(crate) executive_summary: Option<String>,
    pub(crate) solution: Option<String>,
    pub(crate) customer_profile: Option<String>,
    pub(crate) best_practices: Option<String>,
    pub(crate) backup_strategy: Option<String>,
    pub(crate) conclusion: Option<String>,
    pub(crate) additional_resources: Option<String>,
    pub(crate) contacts: Option<String>,
}

/// Contents of Table 1, which describes the Exchange deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExchangeDescription {
    pub(crate) mailboxes: Option<StatedNumber>,
    pub(crate) availability_groups: Option<StatedNumber>,
    pub(crate) servers_per_group: Option<StatedNumber>,
    pub(crate) active_mailboxes_per_server: Option<StatedNumber>,
    pub(crate) databases_per_host: Option<StatedNumber>,
    pub(crate) copies_per_database: Option<StatedNumber>,
    pub(crate) mailboxes_per_database: Option<NumberRange>,
    pub(crate) mailbox_size: Option<StatedCapacity>,
    pub(crate) iops_per_mailbox: Option<StatedNumber>,
    pub(crate) tested_iops_per_mailbox: Option<StatedNumber>,
    pub(crate) headroom_percent: Option<StatedNumber>,
    pub(crate) volume_size: Option<StatedCapacity>,
    pub(crate) total_database_size: Option<StatedCapacity>,
    pub(crate) storage_capacity_used_percent: Option<StatedNumber>,
}

/// Contents of Table 2, which describes the storage hardware.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HardwareDescription {
    pub(crate) connectivity: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) catalogue: Option<String>,
    pub(crate) cache: Option<String>,
    pub(crate) controllers: Option<String>,
    pub(crate) ports: Option<String>,
    pub(crate) bandwidth_to_host_gbit: Option<StatedNumber>,
    pub(crate) switch: Option<String>,
    pub(crate) hba: Option<String>,
    pub(crate) hbas_per_host: Option<StatedNumber>,
    pub(crate) ports_per_hba: Option<StatedNumber>,
    pub(crate) hba_port_gbit: Option<StatedNumber>,
    pub(crate) host_server: Option<String>,
    pub(crate) disks_tested: Option<StatedNumber>,
    pub(crate) maximum_disks: Option<String>,
}

/// Contents of Table 3, which describes the software.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SoftwareDescription {
    pub(crate) hba_driver: Option<String>,
    pub(crate) hba_queue_depth: Option<String>,
    pub(crate) multipathing: Option<String>,
    pub(crate) operating_system: Option<String>,
    pub(crate) engine_version: Option<String>,
    pub(crate) replication: Option<String>,
}

/// Contents of Table 4, which describes the disks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DiskDescription {
    pub(crate) model: Option<String>,
    pub(crate) raw_capacity: Option<StatedCapacity>,
    pub(crate) count: Option<StatedNumber>,
    pub(crate) total_raw_capacity: Option<StatedCapacity>,
    pub(crate) raid_level: Option<String>,
    pub(crate) formatted_capacity: Option<StatedCapacity>,
    pub(crate) storage_capacity_utilization_percent: Option<StatedNumber>,
    pub(crate) database_capacity_utilization_percent: Option<StatedNumber>,
}

/// Published figures and statements to check.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PublishedClaims {
    pub(crate) mb_read_per_sec_per_database: Option<StatedNumber>,
    pub(crate) mb_read_per_sec_per_server: Option<StatedNumber>,
    pub(crate) avg_seconds_per_log: Option<StatedNumber>,
    /// True if the text states that database and log checksums showed no errors.
    pub(crate) checksums_clean: Option<bool>,
    pub(crate) servers: BTreeMap<String, SummaryClaim>,
    pub(crate) aggregate: Option<SummaryClaim>,
    pub(crate) test_log: Vec<LogReadClaim>,
}

/// A server's figures in the results summary.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SummaryClaim {
    pub(crate) database_disk_transfers_per_sec: Option<StatedNumber>,
    pub(crate) database_disk_reads_per_sec: Option<StatedNumber>,
    pub(crate) database_disk_writes_per_sec: Option<StatedNumber>,
    pub(crate) avg_database_read_latency_ms: Option<StatedNumber>,
    pub(crate) avg_database_write_latency_ms: Option<StatedNumber>,
    pub(crate) log_disk_writes_per_sec: Option<StatedNumber>,
    pub(crate) avg_log_write_latency_ms: Option<StatedNumber>,
}

/// Log read latency for each instance, with one decimal place, as printed in a test log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogReadClaim {
    pub(crate) server: String,
    pub(crate) test: TestKind,
    pub(crate) log_reads_avg_latency_ms: Vec<StatedNumber>,
}

impl SubmissionConfiguration {
    /// Reads a configuration file. Relative directories are resolved against the file's directory. An error names the
    /// file and line.
    pub fn read(path: &Path) -> Result<SubmissionConfiguration, ConfigurationError> {
        let text = read_input(path, MAX_CONFIGURATION_BYTES).map_err(|error| {
            ConfigurationError::for_io(format_args!("--esrp {}: cannot be read", path.display()), error)
                .advise("jetcell report --example-esrp prints an example")
        })?;
        let mut configuration: SubmissionConfiguration =
            toml::parse(&format!("--esrp {}", path.display()), &text)?;
        let from = path.parent().unwrap_or(Path::new(""));
        for (name, directory) in &mut configuration.servers {
            let found = from.join(&*directory).canonicalize();
            *directory = found.map_err(|error| {
                let (path, directory) = (path.display(), directory.display());
                let what = format!(
                    "--esrp {path}: the directory {directory} of the server {name:?} cannot be found"
                );
                ConfigurationError::for_io(what, error)
            })?;
        }
        Ok(configuration)
    }
}

impl PublishedClaims {
    /// Returns these claims, with missing ones taken from `other`.
    pub(crate) fn or(mut self, other: PublishedClaims) -> PublishedClaims {
        self.mb_read_per_sec_per_database =
            self.mb_read_per_sec_per_database.or(other.mb_read_per_sec_per_database);
        self.mb_read_per_sec_per_server =
            self.mb_read_per_sec_per_server.or(other.mb_read_per_sec_per_server);
        self.avg_seconds_per_log = self.avg_seconds_per_log.or(other.avg_seconds_per_log);
        self.checksums_clean = self.checksums_clean.or(other.checksums_clean);
        self.aggregate = self.aggregate.or(other.aggregate);
        for (server, claim) in other.servers {
            self.servers.entry(server).or_insert(claim);
        }
        self.test_log.extend(other.test_log);
        self
    }
}
