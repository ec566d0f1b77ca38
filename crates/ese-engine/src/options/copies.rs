//! Settings for passive copies of databases: log retention and page repair.

use std::time::Duration;

/// Settings for the passive copies of an instance's databases.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Maximum number of generations by which a copy may lag. If it falls further back, logs that it still needs are
    /// removed (see [`CopyRegistration`](crate::CopyRegistration)).
    pub lag_limit: u32,
    /// Maximum time that a session waits for a copy to repair a damaged page, measured from the detection of the
    /// damage.
    ///
    /// After this time, the session gets the read error (-1018). Until the page is repaired, other sessions get the
    /// error immediately. Sessions do not wait without [threads](crate::BackgroundThreads), or if no copy has made
    /// contact within the last half minute. If this is zero, sessions never wait. This is how ESE behaves: it repairs a
    /// page while sessions that read it get errors.
    pub page_repair_wait: Duration,
}

impl CopyOptions {
    /// Default for [`CopyOptions::lag_limit`].
    pub const LAG_LIMIT: u32 = 10_000;
    /// Default for [`CopyOptions::page_repair_wait`]. A repair takes two to three seconds if the copy keeps up.
    pub const PAGE_REPAIR_WAIT: Duration = Duration::from_secs(10);
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions { lag_limit: CopyOptions::LAG_LIMIT, page_repair_wait: CopyOptions::PAGE_REPAIR_WAIT }
    }
}
