//! The content of the events of online defragmentation.

/// What happened to a pass of online defragmentation.
#[derive(Clone, Debug, PartialEq)]
pub enum DefragEvent {
    /// 700: a pass starts.
    Started,
    /// 702: a pass goes on after an interruption.
    Resumed(DefragReport),
    /// 701, or 703 if the pass was interrupted: a pass has reached the end of the database.
    Completed(DefragReport),
    /// 704: a pass was stopped, and will resume.
    Interrupted,
    /// 715: it waits, because most of the cache is dirty.
    Paused,
    /// 716: it goes on.
    Continued,
    /// 728: the leaves of a tree are laid out.
    TreeLaidOut(LayoutReport),
    /// 752: trees wait for a sequential layout.
    LayoutQueued {
        /// Trees that are not complete.
        outstanding: u64,
        /// Those of them on which no work has begun.
        not_started: u64,
    },
    /// 705: a pass cannot go on, or has skipped a damaged page.
    Failed {
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
        what: String,
    },
}

/// A tree whose leaves were moved to consecutive pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutReport {
    /// Name of the table.
    pub table: String,
    /// Name of the index, or of the tree of long values. `None`: it is the table's own tree.
    pub index: Option<String>,
    /// When work on the tree began, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Leaves visited.
    pub pages_visited: u64,
    /// Pages freed by merges.
    pub pages_freed: u64,
    /// Merges that moved a part of a page.
    pub partial_merges: u64,
    /// Leaves that moved to another page.
    pub pages_moved: u64,
}

/// A pass of online defragmentation, and the sums of all passes since the database was created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefragReport {
    /// When the pass began, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Seconds for which it ran.
    pub seconds: u64,
    /// Number of times that it was started or resumed.
    pub invocations: u64,
    /// Days since it began, the first one included.
    pub days: u64,
    /// Leaves visited.
    pub pages_visited: u64,
    /// Pages freed.
    pub pages_freed: u64,
    /// Merges that moved a part of a page.
    pub partial_merges: u64,
    /// Leaves that moved to another page, in a sequential layout.
    pub pages_moved: u64,
    /// All passes that were completed since the database was created.
    pub total: DefragTotals,
}

/// Sums of the completed passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragTotals {
    /// Number of passes.
    pub passes: u64,
    /// Seconds for which they ran.
    pub seconds: u64,
    /// Number of times that they were started or resumed.
    pub invocations: u64,
    /// Days that they took.
    pub days: u64,
    /// Leaves visited.
    pub pages_visited: u64,
    /// Pages freed.
    pub pages_freed: u64,
    /// Merges that moved a part of a page.
    pub partial_merges: u64,
}

/// What the ratio of pages read to pages freed says about the time that defragmentation gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowAdvice {
    /// More than 100 pages read for each page freed.
    MayShrink,
    /// Between the two.
    Keep,
    /// Less than 50 pages read for each page freed.
    MustGrow,
}

impl WindowAdvice {
    /// The advice for these numbers of pages. `None`: nothing was read.
    pub fn of(read: u64, freed: u64) -> Option<WindowAdvice> {
        match () {
            () if read == 0 => None,
            () if read > freed.saturating_mul(100) => Some(WindowAdvice::MayShrink),
            () if read < freed.saturating_mul(50) => Some(WindowAdvice::MustGrow),
            () => Some(WindowAdvice::Keep),
        }
    }

    /// The advice in words.
    pub fn text(self) -> &'static str {
        match self {
            WindowAdvice::MayShrink => "more than 100 pages read per page freed: the window may shrink",
            WindowAdvice::Keep => "50 to 100 pages read per page freed: the window fits",
            WindowAdvice::MustGrow => "less than 50 pages read per page freed: the window must grow",
        }
    }
}

impl DefragReport {
    /// What the ratio of pages read to pages freed says; `None` if nothing was read.
    pub fn advice(&self) -> Option<WindowAdvice> {
        WindowAdvice::of(self.pages_visited, self.pages_freed)
    }

    /// Adds the completed pass to the sums.
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
    fn the_ratio_of_the_article_advises_about_the_window() {
        use WindowAdvice::{Keep, MayShrink, MustGrow};
        let advice = [(10_001, 100), (10_000, 100), (5000, 100), (4999, 100), (7, 0), (0, 0)]
            .map(|(read, freed)| WindowAdvice::of(read, freed));
        assert_eq!(advice, [Some(MayShrink), Some(Keep), Some(Keep), Some(MustGrow), Some(MayShrink), None]);
    }
}
