//! The online defragmentation of a database beside the load, as the summary of a result.

use std::path::PathBuf;

use ese_engine::{DefragProgress, WindowAdvice};
use serde::{Deserialize, Serialize};

/// Summary of the defragmentation of one database, from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefragSummary {
    /// Database file.
    pub database: PathBuf,
    /// Passes that were completed.
    pub passes: u64,
    /// Leaves visited. ESE: Online Defrag Pages Read.
    pub pages_read: u64,
    /// Pages freed. ESE: Online Defrag Pages Freed.
    pub pages_freed: u64,
    /// Time from its start to its end, in seconds.
    pub seconds: f64,
    /// Damaged pages that were skipped.
    pub skipped: u64,
    /// Whether the task was the sequential layout, which moves pages.
    #[serde(default)]
    pub sequential_layout: bool,
    /// Pages that the layout has moved.
    #[serde(default)]
    pub pages_moved: u64,
}

impl DefragSummary {
    /// The summary of a defragmentation that ran for `seconds`.
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

    /// The same, of the sequential layout.
    pub fn of_layout(database: PathBuf, seconds: f64, progress: &DefragProgress) -> DefragSummary {
        DefragSummary {
            sequential_layout: true,
            pages_moved: progress.pages_moved,
            ..DefragSummary::new(database, seconds, progress)
        }
    }

    /// Online Defrag Pages Read/sec.
    pub fn read_per_second(&self) -> f64 {
        self.pages_read as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// What the task is called.
    pub fn task(&self) -> &'static str {
        if self.sequential_layout { "sequential layout" } else { "defragmentation" }
    }

    /// Pages moved per second.
    pub fn moved_per_second(&self) -> f64 {
        self.pages_moved as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Online Defrag Pages Freed/sec.
    pub fn freed_per_second(&self) -> f64 {
        self.pages_freed as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// What the ratio of pages read to pages freed says about the time that defragmentation gets; empty if none was read.
    pub fn advice(&self) -> &'static str {
        WindowAdvice::of(self.pages_read, self.pages_freed).map_or("", WindowAdvice::text)
    }
}
