//! Collects the findings of a check. A check reports all findings rather than stopping at the first.

pub(crate) mod finding;
pub(crate) mod finding_kind;
pub(crate) mod tree_label;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::PageNumber;

use crate::findings::finding::{Finding, FindingCounts, FindingFn, FindingKind, Severity};
use crate::findings::tree_label::table_name;

/// Maximum number of findings to list in a report. A file may have millions of findings that add no new information.
const MAX_LISTED: usize = 10_000;

/// Maximum number of damaged pages whose trees can be determined later.
const MAX_UNATTRIBUTED: usize = 100_000;

/// Collects findings about one file, or about several files in turn.
pub(crate) struct Findings {
    file: PathBuf,
    /// Whether structural damage is reported as a warning because recovery may repair it.
    pub(crate) lenient: bool,
    /// Whether leaked pages are reported with severity [`Severity::Info`].
    pub(crate) tolerates_leaks: bool,
    /// Page size, used to compute page offsets.
    pub(crate) page_size: Option<ese_format::PageSize>,
    /// Findings about damaged pages whose trees are not known yet, by page.
    unattributed_pages: HashMap<PageNumber, (Finding, u32)>,
    listed: Vec<Finding>,
    /// Number of findings beyond [`MAX_LISTED`], by severity.
    dropped: [u64; 3],
    counts: [u64; 3],
    sink: Option<Arc<FindingFn>>,
}

impl Findings {
    pub(crate) fn new(file: &Path) -> Findings {
        Findings {
            file: file.to_owned(),
            lenient: false,
            tolerates_leaks: false,
            page_size: None,
            unattributed_pages: HashMap::new(),
            listed: Vec::new(),
            dropped: [0; 3],
            counts: [0; 3],
            sink: None,
        }
    }

    /// Creates an empty collection for the same file, for use by another thread.
    pub(crate) fn new_for_same_file(&self) -> Findings {
        let Findings { lenient, tolerates_leaks, page_size, .. } = *self;
        Findings { lenient, tolerates_leaks, page_size, ..Findings::new(&self.file) }
    }

    /// Adds the findings from another collection.
    pub(crate) fn merge(&mut self, other: Findings) {
        for finding in other.listed {
            self.add(finding);
        }
        for (severity, dropped) in other.dropped.into_iter().enumerate() {
            self.dropped[severity] += dropped;
            self.counts[severity] += dropped;
        }
    }

    /// Sets a sink that also receives each finding immediately.
    pub(crate) fn with_sink(mut self, sink: Option<Arc<FindingFn>>) -> Findings {
        self.sink = sink;
        self
    }

    /// Sets the file to which later findings refer.
    pub(crate) fn set_file(&mut self, file: &Path) {
        self.file = file.to_owned();
    }

    fn add(&mut self, finding: Finding) {
        if let Some(sink) = &self.sink {
            sink(&finding);
        }
        self.counts[finding.severity as usize] += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(finding);
        } else {
            self.dropped[finding.severity as usize] += 1;
        }
    }

    /// Adds a finding about the file or about an offset in it.
    pub(crate) fn add_at_offset(
        &mut self,
        severity: Severity,
        kind: FindingKind,
        offset: impl Into<Option<u64>>,
        what: String,
    ) {
        let finding = Finding::for_file(&self.file, kind, severity, what);
        self.add(Finding { offset: offset.into(), ..finding });
    }

    /// Adds a finding about a page that is itself damaged. The finding is reported once the page's tree is known, or
    /// when the check ends. `rows` is the number of nodes that the page claims to have.
    pub(crate) fn damaged_page(&mut self, kind: FindingKind, page: PageNumber, what: String, rows: u32) {
        let offset = self.page_size.map(|size| size.offset_of(page));
        let finding = Finding::for_file(&self.file, kind, Severity::Error, what);
        let finding = Finding { page: Some(page), offset, ..finding };
        if self.unattributed_pages.len() < MAX_UNATTRIBUTED {
            self.unattributed_pages.insert(page, (finding, rows));
        } else {
            self.add(finding);
        }
    }

    /// Reports damage to available pages as information only, because the bytes of such a page have no meaning. `owner`
    /// returns the tree to which a page is available. Returns the kinds of the reported findings.
    pub(crate) fn report_available_pages(
        &mut self,
        owner: impl Fn(PageNumber) -> Option<String>,
    ) -> Vec<FindingKind> {
        let mut pages: Vec<PageNumber> = self.unattributed_pages.keys().copied().collect();
        pages.sort_unstable();
        let mut kinds = Vec::new();
        for page in pages {
            let leftover = |(finding, _): &(Finding, u32)| finding.kind != FindingKind::PageUnreadable;
            let Some(tree) =
                self.unattributed_pages.get(&page).filter(|held| leftover(held)).and_then(|_| owner(page))
            else {
                continue;
            };
            let Some((finding, _)) = self.unattributed_pages.remove(&page) else { continue };
            kinds.push(finding.kind);
            let meaning =
                "no data is affected; the page is available, so its bytes have no meaning".to_owned();
            self.add(Finding { severity: Severity::Info, meaning, ..finding.with_tree(&tree) });
        }
        kinds
    }

    /// Returns true if there are damaged pages whose trees are not known yet.
    pub(crate) fn has_damaged_pages(&self) -> bool {
        !self.unattributed_pages.is_empty()
    }

    /// Returns true if this page is damaged and its tree is not known yet.
    pub(crate) fn is_damaged_page(&self, page: PageNumber) -> bool {
        self.unattributed_pages.contains_key(&page)
    }

    /// Discards the damaged pages, because the database has no checksums.
    pub(crate) fn forget_damaged_pages(&mut self) {
        self.unattributed_pages.clear();
    }

    /// Reports a damaged page as part of a tree. `leaf` is true if the page is known to be a leaf. Returns false if
    /// the page is not among the damaged pages.
    pub(crate) fn attribute(&mut self, page: PageNumber, tree: &str, leaf: bool) -> bool {
        let Some((finding, rows)) = self.unattributed_pages.remove(&page) else { return false };
        let mut finding = finding.with_tree(tree);
        if !matches!(finding.kind, FindingKind::PageRepairable | FindingKind::PageLostWrite) && leaf {
            finding.meaning = lost_rows(tree, rows);
        }
        self.add(finding);
        true
    }

    /// Adds a finding about structural damage, as an error, or as a warning if the database needs recovery.
    pub(crate) fn add_structural(
        &mut self,
        kind: FindingKind,
        page: impl Into<Option<PageNumber>>,
        tree: &str,
        what: String,
    ) {
        let severity = if self.lenient { Severity::Warning } else { Severity::Error };
        self.in_tree(severity, kind, page.into(), tree, what);
    }

    pub(crate) fn add_info(
        &mut self,
        kind: FindingKind,
        page: impl Into<Option<PageNumber>>,
        tree: &str,
        what: String,
    ) {
        self.in_tree(Severity::Info, kind, page.into(), tree, what);
    }

    fn in_tree(
        &mut self,
        severity: Severity,
        kind: FindingKind,
        page: Option<PageNumber>,
        tree: &str,
        what: String,
    ) {
        let offset = page.zip(self.page_size).map(|(page, size)| size.offset_of(page));
        let finding = Finding { page, offset, ..Finding::for_file(&self.file, kind, severity, what) };
        self.add(finding.with_tree(tree));
    }

    /// Returns the number of findings so far.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Reports the damaged pages whose trees remain unknown.
    pub(crate) fn report_unattributed_pages(&mut self) {
        let mut held: Vec<_> = self.unattributed_pages.drain().collect();
        held.sort_by_key(|(page, _)| *page);
        for (_, (finding, _)) in held {
            self.add(finding);
        }
    }

    /// Returns all findings, and the number of findings of each severity. Findings about the whole file come first,
    /// followed by the others sorted by page.
    pub(crate) fn finish(mut self) -> (Vec<Finding>, FindingCounts) {
        self.report_unattributed_pages();
        self.listed.sort_by(|a, b| {
            let place = |finding: &Finding| (finding.page, finding.offset, finding.kind);
            place(a).cmp(&place(b)).then_with(|| (&a.tree, &a.message).cmp(&(&b.tree, &b.message)))
        });
        for severity in [Severity::Error, Severity::Warning, Severity::Info] {
            let count = self.dropped[severity as usize];
            if count > 0 {
                let what = format!("{count} additional findings of this severity are not listed");
                self.listed.push(Finding::for_file(&self.file, FindingKind::Omitted, severity, what));
            }
        }
        let [infos, warnings, errors] = self.counts;
        (self.listed, FindingCounts { errors, warnings, infos })
    }
}

fn lost_rows(tree: &str, rows: u32) -> String {
    let table = table_name(tree).unwrap_or(tree);
    let unit = |one: &'static str, many: &'static str| if rows == 1 { one } else { many };
    let count = if rows == 0 { "an unknown number of".to_owned() } else { format!("about {rows}") };
    if tree == table {
        let (rows, are) = (unit("row", "rows"), unit("is", "are"));
        format!("{count} {rows} of table {table} {are} unreadable")
    } else if tree.contains(" / index ") {
        format!("{count} entries of an index of table {table} are unreadable, but its rows are not affected")
    } else {
        format!("{count} parts of long values of table {table} are unreadable")
    }
}
