//! `jetcell compare-files`: compares two versions of a database, row by row and page by page.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ese_check::{PageDifference, PagePairCounts, PageVersion, compare_pages};
use jetcell_export::{
    ExportError, ExportIssues, RowComparison, RowComparisonObserver, RowDifference, RowDifferenceKind,
    RowPairCounts, SourceDatabase, compare_rows,
};
use jetcell_host::{ProgressReport, completed_share};
use jetcell_input::hex::write_hex;
use jetcell_input::{Printable, printable};
use jetcell_vfs::RealOptions;
use serde_json::{Value, json};

use crate::console::{self, print_note};
use crate::decompressing_vfs::{DecompressingVfs, UnpackOptions};
use crate::in_use::check_not_in_use;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell compare-files before.edb after.edb
      rows and pages that a repair changed
  jetcell compare-files --tables --limit 100 monday.dit tuesday.dit
      only tables and their rows
  jetcell compare-files --pages --json snapshot/a.edb a.edb | jq 'select(.type == \"page\").page'

Rows are matched by their primary key, or by their number in a table without a primary key. Rows that are flagged as
deleted are not compared. Pages are compared byte by byte, if both files have the same page size. Files with different
page sizes differ, unless --tables is specified. In the JSON summary, \"complete\" is false if some data could not be compared.

Exit code: 0 the files are equal, 1 they differ or some data could not be read, 2 could not run.";

/// Compare two versions of a database, row by row and page by page
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareFilesArgs {
    /// First database (A), which may be compressed as FILE.zst
    a: PathBuf,
    /// Second database (B)
    b: PathBuf,
    /// Compare only tables and rows
    #[arg(long, conflicts_with = "pages")]
    tables: bool,
    /// Compare only pages
    #[arg(long)]
    pages: bool,
    /// Maximum number of differences to print, of rows and of pages; the others are only counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    /// Print JSON, one object per line, each with a "type"
    #[arg(long)]
    json: bool,
    /// Compare databases that are in use, although their pages change while they are read
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    unpack: UnpackOptions,
}

/// Names of the files in the output.
const FILES: [&str; 2] = ["A", "B"];

impl CompareFilesArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        check_not_in_use([self.a.as_path(), self.b.as_path()], self.anyway)?;
        let real = RealOptions { direct: false, ..RealOptions::default() };
        let vfs = DecompressingVfs::new(real, self.unpack).context("cannot read files")?;
        let mut issues = [ExportIssues::default(), ExportIssues::default()];
        let [issues_a, issues_b] = &mut issues;
        let sources = [
            &SourceDatabase::open(&vfs, &self.a, issues_a).map_err(ExportError::Open)?,
            &SourceDatabase::open(&vfs, &self.b, issues_b).map_err(ExportError::Open)?,
        ];
        let rows = (!self.pages).then(|| self.compare_rows(sources, &mut issues));
        let (pages, are_pages_read) = if self.tables { (None, true) } else { self.compare_pages(sources)? };
        for (issues, file) in issues.iter().zip(FILES) {
            for issue in issues.stored() {
                print_note(&format!("{}: {file}: {issue}", if issue.missing { "missing" } else { "note" }));
            }
            if issues.dropped() > 0 {
                print_note(&format!("... and {} more in {file}", issues.dropped()));
            }
        }
        let unread = rows.iter().flat_map(|rows| &rows.tables).any(|table| table.unread > 0);
        let is_complete = !issues.iter().any(ExportIssues::has_missing) && !unread && are_pages_read;
        let are_equal = rows.as_ref().is_none_or(RowComparison::are_equal)
            && pages.as_ref().is_none_or(PagePairCounts::are_equal)
            && is_complete;
        self.print_summary(rows.as_ref(), pages.as_ref(), [are_equal, is_complete]);
        Ok(if are_equal { CommandOutcome::Good } else { CommandOutcome::Findings })
    }

    fn compare_rows(&self, sources: [&SourceDatabase; 2], issues: &mut [ExportIssues; 2]) -> RowComparison {
        let mut printed = PrintedDifferences::new(self);
        let shown = RefCell::new(ProgressReport::new(Duration::MAX));
        let observer = RowComparisonObserver {
            visit: &mut |difference| {
                let print = || printed.print(|| row_json(&difference), || row_text(&difference));
                shown.borrow().suspend(print);
            },
            progress: &mut |table, rows| {
                let is_due = shown.borrow_mut().is_due() || rows == 0;
                if let Some(line) = shown.borrow().line().filter(|_| is_due) {
                    line.show(table, None, &format!("{rows} rows"));
                }
            },
        };
        let comparison = compare_rows(sources, issues, observer);
        shown.borrow_mut().clear();
        printed.finish("rows, columns and tables");
        comparison
    }

    /// Returns the counts, and whether all pages were read. If the page sizes differ, returns no counts, provided that
    /// the rows were compared.
    fn compare_pages(&self, sources: [&SourceDatabase; 2]) -> CommandResult<(Option<PagePairCounts>, bool)> {
        let mut are_all_read = true;
        let mut printed = PrintedDifferences::new(self);
        let shown = RefCell::new(ProgressReport::new(Duration::MAX));
        let compared = compare_pages(
            sources.map(SourceDatabase::database),
            &mut |difference| {
                let is_unread = |version: &PageVersion| matches!(version, PageVersion::Unreadable(_));
                are_all_read &= !difference.versions.iter().any(is_unread);
                let print = || printed.print(|| page_json(&difference), || page_text(&difference));
                shown.borrow().suspend(print);
            },
            &mut |done, total| {
                let is_due = shown.borrow_mut().is_due();
                if let Some(line) = shown.borrow().line().filter(|_| is_due) {
                    line.show(
                        "comparing pages",
                        completed_share(done.into(), total.into()),
                        &format!("{total} in total"),
                    );
                }
            },
        );
        shown.borrow_mut().clear();
        printed.finish("pages");
        match compared {
            Ok(counts) => Ok((Some(counts), are_all_read)),
            Err(error) if self.pages => {
                Err(CommandError::new(format_args!("{error}")).advise("compare the rows with --tables"))
            }
            Err(error) => {
                print_note(&format!("note: pages are not compared: {error}"));
                Ok((None, false))
            }
        }
    }

    fn print_summary(
        &self,
        rows: Option<&RowComparison>,
        pages: Option<&PagePairCounts>,
        [are_equal, is_complete]: [bool; 2],
    ) {
        if self.json {
            let summary = json!({
                "type": "summary",
                "equal": are_equal,
                "complete": is_complete,
                "rows": rows.map(rows_json),
                "pages": pages.map(|pages| json!({
                    "equal": pages.equal, "different": pages.different, "only_a": pages.only[0],
                    "only_b": pages.only[1], "headers_differ": pages.headers_differ,
                    "lengths_differ": pages.lengths_differ,
                })),
            });
            console::print_json(&format!("{summary}\n"));
            return;
        }
        let mut text = rows.map_or_else(String::new, rows_text);
        if let Some(pages) = pages {
            let PagePairCounts { equal, different, only: [only_a, only_b], headers_differ, lengths_differ } =
                pages;
            let state = |differ: bool| if differ { "differ" } else { "are equal" };
            let (headers, lengths) = (state(*headers_differ), state(*lengths_differ));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "pages: {equal} equal, {different} different, {only_a} only in A, {only_b} only in B; the headers \
                 {headers}; the file lengths {lengths}"
            );
        }
        if !is_complete {
            text.push_str("INCOMPLETE: some data could not be compared\n");
        }
        console::print(&text);
    }
}

/// Prints differences up to a limit.
struct PrintedDifferences {
    is_json: bool,
    limit: u64,
    found: u64,
}

impl PrintedDifferences {
    fn new(arguments: &CompareFilesArgs) -> PrintedDifferences {
        PrintedDifferences { is_json: arguments.json, limit: arguments.limit, found: 0 }
    }

    fn print(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        self.found += 1;
        if self.found > self.limit {
            return;
        }
        if self.is_json {
            console::print_json(&format!("{}\n", json()));
        } else {
            console::print(&format!("{}\n", printable(&text())));
        }
    }

    /// Prints how many differences were not printed.
    fn finish(self, what: &str) {
        if let Some(more) = self.found.checked_sub(self.limit).filter(|more| *more > 0 && !self.is_json) {
            console::print(&format!("... and {more} more differences of {what}\n"));
        }
    }
}

fn hexadecimal(key: &[u8]) -> String {
    let mut text = Vec::new();
    write_hex(key, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the name of a file in the output.
fn file(position: usize) -> &'static str {
    FILES.get(position).copied().unwrap_or_default()
}

fn row_text(RowDifference { table, kind }: &RowDifference<'_>) -> String {
    match kind {
        RowDifferenceKind::TableOnly(side) => format!("table {table}: only in {}", file(*side)),
        RowDifferenceKind::ColumnOnly(column, side) => {
            format!("table {table}: column {column} only in {}", file(*side))
        }
        RowDifferenceKind::ColumnDefinition(column) => {
            format!("table {table}: column {column} has a different definition")
        }
        RowDifferenceKind::RowOnly { key, database, page } => {
            format!("table {table}: row {} only in {}, page {page}", hexadecimal(key), file(*database))
        }
        RowDifferenceKind::Row { key, pages: [a, b], columns } => format!(
            "table {table}: row {} differs in {}; page {a} in A, {b} in B",
            hexadecimal(key),
            columns.join(", ")
        ),
    }
}

fn row_json(RowDifference { table, kind }: &RowDifference<'_>) -> Value {
    match kind {
        RowDifferenceKind::TableOnly(side) => json!({"type": "table", "table": table, "only": file(*side)}),
        RowDifferenceKind::ColumnOnly(column, side) => {
            json!({"type": "column", "table": table, "column": column, "only": file(*side)})
        }
        RowDifferenceKind::ColumnDefinition(column) => {
            json!({"type": "column", "table": table, "column": column})
        }
        RowDifferenceKind::RowOnly { key, database, page } => json!({
            "type": "row", "table": table, "key": hexadecimal(key), "only": file(*database), "page": page.get(),
        }),
        RowDifferenceKind::Row { key, pages: [a, b], columns } => json!({
            "type": "row", "table": table, "key": hexadecimal(key), "columns": columns,
            "page_a": a.get(), "page_b": b.get(),
        }),
    }
}

fn page_text(PageDifference { page, versions: [a, b] }: &PageDifference) -> String {
    format!("page {page}: {a} in A; {b} in B")
}

fn page_json(PageDifference { page, versions: [a, b] }: &PageDifference) -> Value {
    json!({"type": "page", "page": page.get(), "a": a.to_string(), "b": b.to_string()})
}

fn rows_json(rows: &RowComparison) -> Value {
    let table = |table: &RowPairCounts| {
        json!({
            "table": table.table, "equal": table.equal, "changed": table.changed,
            "unread": table.unread, "only_a": table.only[0], "only_b": table.only[1], "columns": table.columns,
        })
    };
    json!({
        "tables": rows.tables.iter().map(table).collect::<Vec<_>>(),
        "tables_only_a": rows.only[0], "tables_only_b": rows.only[1],
    })
}

/// Returns a line for each table that differs, and the totals.
fn rows_text(rows: &RowComparison) -> String {
    let line = |what: &str, [equal, changed, only_a, only_b, unread]: [u64; 5]| {
        let unread = if unread > 0 { format!(", {unread} not comparable") } else { String::new() };
        format!("{what}: {equal} equal, {changed} changed, {only_a} only in A, {only_b} only in B{unread}")
    };
    let counts =
        |table: &RowPairCounts| [table.equal, table.changed, table.only[0], table.only[1], table.unread];
    let mut text = String::new();
    let mut totals = [0; 5];
    for table in &rows.tables {
        totals.iter_mut().zip(counts(table)).for_each(|(total, count)| *total += count);
        if !table.are_equal() {
            let name = Printable(&table.table);
            text += &line(&format!("table {name}: rows"), counts(table));
            text.push('\n');
        }
    }
    let tables = [rows.tables.len(), rows.only[0].len(), rows.only[1].len()];
    let [both, only_a, only_b] = tables;
    text += &format!("tables: {both} in both, {only_a} only in A, {only_b} only in B\n");
    text += &line("rows", totals);
    text.push('\n');
    text
}
