//! Checks one database file: its header, its pages, and its structure.

use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use ese_format::header::{DatabaseHeader, DatabaseState};
use jetcell_host::Pacer;
use jetcell_vfs::Vfs;
use serde::{Serialize, Serializer};

use crate::error::CheckError;
use crate::findings::Findings;
use crate::findings::finding::{Finding, FindingKind, Severity};
use crate::findings::tree_label::DATABASE;
use crate::options::{CheckOptions, thread_count};
use crate::pages;
use crate::pages::database::ReadableDatabase;
use crate::pages::page_set::PageSet;
use crate::pages::page_status::PageCounts;
use crate::pages::reader::VerifiedPageReader;
use crate::pages::verified_pages::VerifiedPages;
use crate::structure::key_filter::KeyFilter;
use crate::structure::page_map::PageMap;
use crate::structure::tree_shape::TreeShape;
use crate::structure::{self, StructureSummary};
use crate::structure::{locate, space};

/// Smallest page size that the format supports, in bytes.
const MIN_PAGE: u64 = 2048;

/// Result of checking a database file.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Size of a page in bytes.
    pub page_size: u32,
    /// Whether the database was shut down cleanly.
    pub clean: bool,
    /// State stored in the header.
    #[serde(serialize_with = "state_text")]
    pub state: DatabaseState,
    /// Number of pages in the file.
    pub file_pages: u32,
    /// Last page that the database owns.
    pub last_owned_page: u32,
    /// Whether the database is temporary. Pages of temporary databases have no checksums.
    pub temporary: bool,
    /// First page that was not verified, if the check was cancelled. Pass it to [`CheckOptions::start_page`] to
    /// resume the check.
    #[serde(serialize_with = "crate::findings::finding::page_number")]
    pub resume_from: Option<PageNumber>,
    /// Whether the check was cancelled.
    pub cancelled: bool,
    /// First page that was verified.
    pub first_page: u32,
    /// Number of pages by state, if pages were verified.
    pub pages: Option<PageCounts>,
    /// Contents of the trees, if the structure was verified.
    pub structure: Option<StructureSummary>,
    /// All findings, sorted by page.
    pub findings: Vec<Finding>,
}

fn state_text<S: Serializer>(state: &DatabaseState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{state:?}"))
}

impl CheckReport {
    /// Returns the number of findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Returns true if no damage was found.
    pub fn is_sound(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Returns the findings that report damage.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }
}

/// Returns the maximum number of bytes that a structure check keeps in memory for a database of this length. This
/// includes a set of keys, and the owner and use of each page, but not the buffers for pages that are being read.
pub fn max_check_memory(database_len: u64) -> u64 {
    KeyFilter::bytes(database_len) + PageMap::max_bytes(database_len / MIN_PAGE)
}

/// Checks one database file.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if neither copy of its header is usable. Damage is not an error:
/// it is listed in the report.
pub fn check_database(vfs: &dyn Vfs, path: &Path, options: &CheckOptions) -> Result<CheckReport, CheckError> {
    let mut findings = Findings::new(path).with_sink(options.sink.clone());
    let (_, mut report) = examine_database(vfs, path, options, &mut findings)?;
    report.findings = findings.finish().0;
    Ok(report)
}

/// Checks a database on its own, without looking at other files.
pub(crate) fn examine_database(
    vfs: &dyn Vfs,
    path: &Path,
    options: &CheckOptions,
    findings: &mut Findings,
) -> Result<(DatabaseHeader, CheckReport), CheckError> {
    let pace = Pacer::new(vfs.clock(), options.throttle, options.cancel.clone());
    let mut database = ReadableDatabase::open(vfs, path, pace, findings)?;
    database.threads = thread_count(options.threads);
    let (from, last) = (options.start_page.get(), database.file_pages);
    if from > 1 && from > last {
        return Err(CheckError::BeyondEnd { path: path.to_owned(), from, last });
    }
    database.read_flush_types(vfs, findings);
    findings.lenient = !database.must_be_consistent();
    findings.tolerates_leaks = !options.leaks_are_errors;
    let just_created = database.header.state == DatabaseState::JustCreated;
    let progress = options.progress.as_deref();
    let (last_owned, doubt) = last_owned_page(&database);
    let (mut pages, mut resume_from, mut structure) = (None, None, None);
    let mut zero_pages = PageSet::for_pages(MAX_ZERO_PAGES);
    // Walk the trees first. After that, only pages that no tree reaches are read, so that no page is read twice. For
    // databases without checksums, resumed checks, and throttled checks, read the file sequentially first instead.
    let mut judged = None;
    let trees_first = options.pages
        && options.structure
        && options.start_page.get() == 1
        && !database.temporary
        && !just_created
        && !database.pace.is_limited()
        && last_owned <= MAX_TRACKED_PAGES
        && VerifiedPageReader::new(&database).get(PageNumber::fixed(1)).is_ok();
    if trees_first {
        judged = Some(VerifiedPages::new(last_owned));
        structure = Some(structure::check_structure(&database, last_owned, &mut judged, findings, progress));
    }
    if options.cancel.is_cancelled() {
        // A later check will resume at the first page, so no page counts as checked.
        judged = None;
    }
    if options.pages {
        let (counts, resume) = pages::verify_pages(
            &database,
            options.start_page,
            last_owned,
            judged.as_ref(),
            &mut zero_pages,
            findings,
            progress,
        );
        (pages, resume_from) = (Some(counts), resume);
    }
    let maybe_temporary = database.temporary || just_created;
    let unsealed =
        pages.as_mut().is_some_and(|pages| pages.accept_missing_checksums(maybe_temporary, findings));
    let temporary = database.temporary || unsealed;
    if let Some(what) = doubt.filter(|_| !temporary) {
        findings.add_structural(FindingKind::SpaceHeader, PageNumber::fixed(1), DATABASE, what);
    }
    // Without checksums, there is no way to tell which pages can be trusted.
    let go_on = !temporary && !options.cancel.is_cancelled();
    if trees_first {
        // The structure was already checked.
    } else if options.structure && go_on {
        structure = Some(structure::check_structure(&database, last_owned, &mut None, findings, progress));
    } else if let Some(counts) = pages.as_mut().filter(|_| go_on) {
        locate::check_internal_pages(&database, &zero_pages, counts, findings);
    }
    if let (Some(structure), Some(counts)) = (&structure, &mut pages) {
        structure.report_available_pages(counts, findings);
    }
    findings.report_unattributed_pages();
    let report = CheckReport {
        path: path.to_owned(),
        page_size: database.page_size.get(),
        clean: database.header.state == DatabaseState::CleanShutdown,
        state: database.header.state,
        file_pages: database.file_pages,
        last_owned_page: last_owned,
        temporary,
        resume_from,
        cancelled: options.cancel.is_cancelled(),
        first_page: from,
        pages,
        structure: structure.filter(|_| !options.cancel.is_cancelled()).map(|structure| structure.summary),
        findings: Vec::new(),
    };
    Ok((database.header, report))
}

/// Largest database, in pages, for which the check remembers which pages it has already read. This takes 64 MiB. In
/// larger databases, pages are read twice.
const MAX_TRACKED_PAGES: u32 = 1 << 29;
/// Maximum number of zero pages to remember, which takes 16 MiB.
const MAX_ZERO_PAGES: u32 = 1 << 27;
/// Maximum number of pages that a truncated file is assumed to lack. If the database root claims more pages than
/// that, its claim is ignored.
const MAX_ASSUMED_MISSING_PAGES: u32 = 1 << 20;

/// Returns the last page that the root tree owns. If that is unknown, returns the last page of the file and the
/// reason.
fn last_owned_page(database: &ReadableDatabase) -> (u32, Option<String>) {
    let mut reader = VerifiedPageReader::new(database);
    // The structure check reports the problems with these pages.
    let mut unreported = Findings::new(&database.path);
    let extents = space::owned_extents(&mut reader, &mut unreported, &TreeShape::database_root());
    let last = extents.iter().map(|extent| extent.last.get()).max();
    let believable = database.file_pages.saturating_add(MAX_ASSUMED_MISSING_PAGES);
    let doubt = match last {
        Some(last) if last <= believable => return (last, None),
        Some(last) => {
            format!(
                "according to the database root, the database has pages up to {last}, but the file has only {}",
                database.file_pages
            )
        }
        None => "the owned extents of the database cannot be read, so all pages of the file are checked"
            .to_owned(),
    };
    (database.file_pages, Some(doubt))
}
