//! Summary of the online defragmentation of a database during the load.

use std::path::PathBuf;

use ese_engine::{DefragProgress, WindowAdvice};
use serde::{Deserialize, Serialize};

/// Defragmentation summary for one database, from start to finish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefragSummary {
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Number of completed passes.
    pub passes: u64,
    /// Number of leaf pages visited. ESE: Online Defrag Pages Read.
    pub pages_read: u64,
    /// Number of pages freed. ESE: Online Defrag Pages Freed.
    pub pages_freed: u64,
    /// Running time of the task, in seconds.
    pub seconds: f64,
    /// Number of damaged pages that were skipped.
    pub skipped: u64,
    /// Whether the task was the sequential layout, which moves pages.
    #[serde(default)]
    pub sequential_layout: bool,
    /// Number of pages that the layout has moved.
    #[serde(default)]
    pub pages_moved: u64,
}

impl DefragSummary {
    /// Creates the summary of a defragmentation that ran for `seconds`.
    pub fn new(database: PathBuf, seconds: f64, progress: &DefragProgress) -> DefragSummary {
        DefragSummary {
            database,
            passes: progress.passes,
            pages_read: progress.pages_visited,
            pages_freed: progress.pages_freed,
            seconds,
            skipped: progress.skipped,
            ..DefragSummary::default()
        }
    }

    /// Creates the summary of a sequential layout that ran for `seconds`.
    pub fn for_layout(database: PathBuf, seconds: f64, progress: &DefragProgress) -> DefragSummary {
        DefragSummary {
            sequential_layout: true,
            pages_moved: progress.pages_moved,
            ..DefragSummary::new(database, seconds, progress)
        }
    }

    /// Returns the number of pages read per second. ESE: Online Defrag Pages Read/sec.
    pub fn read_per_second(&self) -> f64 {
        self.pages_read as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns the name of the task.
    pub fn task(&self) -> &'static str {
        if self.sequential_layout { "sequential layout" } else { "defragmentation" }
    }

    /// Returns the number of pages moved per second.
    pub fn moved_per_second(&self) -> f64 {
        self.pages_moved as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns the number of pages freed per second. ESE: Online Defrag Pages Freed/sec.
    pub fn freed_per_second(&self) -> f64 {
        self.pages_freed as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns advice on the time window of the defragmentation, derived from the ratio of pages read to pages freed.
    /// Empty if no page was read.
    pub fn advice(&self) -> &'static str {
        WindowAdvice::from_page_counts(self.pages_read, self.pages_freed).map_or("", WindowAdvice::text)
    }
}
