//! Settings for recovery: the logs and databases that it accepts, and the paths of the databases.

use crate::storage::DatabasePaths;

/// Settings for recovery.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryOptions {
    /// Paths of databases that are not at the paths recorded in the log.
    pub database_paths: DatabasePaths,
    /// Whether recovery may continue if the newest generations are missing but no database needs them to be
    /// consistent. The commits in these generations are lost;
    /// [`RecoverySummary::lost_generations`](crate::RecoverySummary::lost_generations) names the generations. ESE:
    /// `JET_bitReplayIgnoreLostLogs`.
    #[doc(alias = "JET_bitReplayIgnoreLostLogs")]
    pub accept_lost_logs: bool,
    /// Whether recovery accepts databases in a format that the engine cannot write. Such databases can only be
    /// recovered.
    pub accept_newer_formats: bool,
    /// Whether recovery skips databases that it cannot find. ESE: `JET_bitReplayIgnoreMissingDB`.
    pub ignore_missing_databases: bool,
    /// Whether the first record after recovery starts a new log file, even if the newest file has room. A restored
    /// stream needs this, because in another history, different records may have been written to the rest of that
    /// file.
    pub begin_generation: bool,
}
