//! Events of online defragmentation.

/// An event reported during an online defragmentation pass.
#[derive(Clone, Debug, PartialEq)]
pub enum DefragEvent {
    /// 700: a pass has started.
    Started,
    /// 702: a pass resumes after an interruption.
    Resumed(DefragReport),
    /// 701, or 703 if the pass was interrupted and resumed: a pass has reached the end of the database.
    Completed(DefragReport),
    /// 704: a pass was stopped, and will resume later.
    Interrupted,
    /// 715: the pass waits because most of the cache is dirty.
    Paused,
    /// 716: the pass continues.
    Continued,
    /// 728: the leaves of a tree were moved to consecutive pages.
    TreeLaidOut(LayoutReport),
    /// 752: trees wait for a sequential layout.
    LayoutQueued {
        /// Number of trees whose layout is not complete.
        outstanding: u64,
        /// Number of these trees on which work has not begun.
        not_started: u64,
    },
    /// 705: a pass cannot continue, or has skipped a damaged page.
    Failed {
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
}

/// Report on a tree whose leaves were moved to consecutive pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutReport {
    /// Name of the table.
    pub table: String,
    /// Name of the index or of the long-value tree. `None` means the table's primary tree.
    pub index: Option<String>,
    /// Time when work on the tree began, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Number of leaves visited.
    pub pages_visited: u64,
    /// Number of pages freed by merges.
    pub pages_freed: u64,
    /// Number of merges that moved only part of a page.
    pub partial_merges: u64,
    /// Number of leaves that were moved to another page.
    pub pages_moved: u64,
}

/// Report on an online defragmentation pass, including the totals for all passes since the database was created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefragReport {
    /// Start time of the pass, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Total running time of the pass, in seconds.
    pub seconds: u64,
    /// Number of times the pass was started or resumed.
    pub invocations: u64,
    /// Days since the pass began, including the first day.
    pub days: u64,
    /// Number of leaves visited.
    pub pages_visited: u64,
    /// Number of pages freed.
    pub pages_freed: u64,
    /// Number of merges that moved only part of a page.
    pub partial_merges: u64,
    /// Number of leaves that a sequential layout moved to another page.
    pub pages_moved: u64,
    /// Totals for all passes completed since the database was created.
    pub total: DefragTotals,
}

/// Totals for all completed online defragmentation passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragTotals {
    /// Number of completed passes.
    pub passes: u64,
    /// Total running time of the passes, in seconds.
    pub seconds: u64,
    /// Number of times the passes were started or resumed.
    pub invocations: u64,
    /// Total number of days the passes took.
    pub days: u64,
    /// Number of leaves visited.
    pub pages_visited: u64,
    /// Number of pages freed.
    pub pages_freed: u64,
    /// Number of merges that moved only part of a page.
    pub partial_merges: u64,
}

/// Advice on the length of the maintenance window, based on the ratio of pages read to pages freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowAdvice {
    /// More than 100 pages were read per freed page.
    MayShrink,
    /// Between 50 and 100 pages were read per freed page.
    Keep,
    /// Fewer than 50 pages were read per freed page.
    MustGrow,
}

impl WindowAdvice {
    /// Returns the advice for these page counts, or `None` if nothing was read.
    pub fn from_page_counts(read: u64, freed: u64) -> Option<WindowAdvice> {
        match () {
            () if read == 0 => None,
            () if read > freed.saturating_mul(100) => Some(WindowAdvice::MayShrink),
            () if read < freed.saturating_mul(50) => Some(WindowAdvice::MustGrow),
            () => Some(WindowAdvice::Keep),
        }
    }

    /// Returns the advice as text.
    pub fn text(self) -> &'static str {
        match self {
            WindowAdvice::MayShrink => "more than 100 pages read per page freed: the window may shrink",
            WindowAdvice::Keep => "50 to 100 pages read per page freed: the window fits",
            WindowAdvice::MustGrow => "less than 50 pages read per page freed: the window must grow",
        }
    }
}

impl DefragReport {
    /// Returns the advice for this pass's ratio of pages read to pages freed, or `None` if nothing was read.
    pub fn advice(&self) -> Option<WindowAdvice> {
        WindowAdvice::from_page_counts(self.pages_visited, self.pages_freed)
    }

    /// Adds the completed pass to the totals.
    pub(crate) fn add_to_total(&mut self) {
        let total = &mut self.total;
        total.passes += 1;
        total.seconds += self.seconds;
        total.invocations += self.invocations;
        total.days += self.days;
        total.pages_visited += self.pages_visited;
        total.pages_freed += self.pages_freed;
        total.partial_merges += self.partial_merges;
    }
}

impl DefragEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            DefragEvent::Started => "defrag_started",
            DefragEvent::Resumed(_) => "defrag_resumed",
            DefragEvent::Completed(_) => "defrag_completed",
            DefragEvent::Interrupted => "defrag_interrupted",
            DefragEvent::Paused => "defrag_paused",
            DefragEvent::Continued => "defrag_continued",
            DefragEvent::TreeLaidOut(_) => "tree_laid_out",
            DefragEvent::LayoutQueued { .. } => "layout_queued",
            DefragEvent::Failed { .. } => "defrag_failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_advice_follows_the_published_ratio() {
        use WindowAdvice::{Keep, MayShrink, MustGrow};
        let advice = [(10_001, 100), (10_000, 100), (5000, 100), (4999, 100), (7, 0), (0, 0)]
            .map(|(read, freed)| WindowAdvice::from_page_counts(read, freed));
        assert_eq!(advice, [Some(MayShrink), Some(Keep), Some(Keep), Some(MustGrow), Some(MayShrink), None]);
    }
}
