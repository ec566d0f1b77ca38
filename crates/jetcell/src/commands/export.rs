//! `jetcell export`: the tables of a database as CSV, JSON Lines, Parquet or SQLite.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use jetcell_export::{Destination, Format, Options, ROW_LIMIT, export};
use jetcell_vfs::{RealOptions, RealVfs};

use crate::outcome::{Outcome, complain};

const EXAMPLES: &str = "\
Examples:
  jetcell export ntds.dit --format csv --output tables/
  jetcell export SRUDB.dat --format sqlite --output srum.sqlite
  jetcell export Windows.edb --table SystemIndex_PropertyStore --format jsonl --output - | jq .
  jetcell export Current.mdb --format parquet --deleted --output current/

With csv, jsonl and parquet, --output names a directory that gets one file per table; with exactly one --table it may
name a file. System tables (MSys...) are exported, too. docs/export.md tells how each type is written.

Long values that together exceed 24 MiB in one row go, raw, to files of their own below DIR/values or FILE.values, and
their cells name these; beside standard output there is no place for them, and they count as not read.

Exit code: 0 everything was exported; 1 some of it could not be read and is named on stderr; 2 could not run.";

/// What to export.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The database; it is only read
    file: PathBuf,
    /// Only this table; may be given several times
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// csv, jsonl, parquet or sqlite
    #[arg(long)]
    format: Format,
    /// Directory or file to write, or - for standard output
    #[arg(long, value_name = "DIR|FILE|-")]
    output: PathBuf,
    /// Rows flagged deleted, too, marked in a column _deleted
    #[arg(long)]
    deleted: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

impl Export {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let options = Options {
            destination: destination(&self.output, self.format, self.table.len()),
            tables: self.table,
            format: self.format,
            deleted: self.deleted,
            force: self.force,
            row_limit: ROW_LIMIT,
        };
        // The kernel's read-ahead serves a reader that goes through a file mostly in order.
        let vfs = match RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }) {
            Ok(vfs) => vfs,
            Err(error) => {
                complain(error);
                return Outcome::CouldNotRun;
            }
        };
        let mut shown = Shown::new();
        let result = export(&vfs, &self.file, &options, &mut |table, rows| shown.show(table, rows));
        shown.finish();
        let exported = match result {
            Ok(exported) => exported,
            Err(error) => {
                complain(error);
                return Outcome::CouldNotRun;
            }
        };
        let issues = &exported.issues;
        for issue in issues.kept() {
            let kind = if issue.missing { "missing" } else { "note" };
            eprintln!("{kind}: {issue}");
        }
        if issues.dropped() > 0 {
            eprintln!("... and {} more", issues.dropped());
        }
        let aside = match exported.value_files {
            0 => String::new(),
            count => format!("; long values in files of their own, named in their cells: {count}"),
        };
        let missing = if issues.any_missing() { "; NOT everything could be read, see above" } else { "" };
        eprintln!("exported {} rows of {} tables{aside}{missing}", exported.rows, exported.tables);
        if issues.any_missing() { Outcome::Findings } else { Outcome::Good }
    }
}

/// A directory if it is one or looks like one; a file if one table or SQLite goes there.
fn destination(output: &Path, format: Format, tables: usize) -> Destination {
    if output == Path::new("-") {
        return Destination::Stdout;
    }
    let slash = output.to_string_lossy().ends_with('/');
    let one_file = format == Format::Sqlite || (tables == 1 && output.extension().is_some());
    if one_file && !slash && !output.is_dir() {
        Destination::File(output.to_owned())
    } else {
        Destination::Directory(output.to_owned())
    }
}

/// Progress for a terminal.
struct Shown {
    bar: Option<ProgressBar>,
    last: Instant,
}

impl Shown {
    fn new() -> Shown {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
        Shown { bar, last: Instant::now() }
    }

    fn show(&mut self, table: &str, rows: u64) {
        if let Some(bar) = &self.bar
            && (rows == 0 || self.last.elapsed() > Duration::from_millis(100))
        {
            self.last = Instant::now();
            bar.set_message(format!("{table}: {rows} rows"));
            bar.tick();
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
