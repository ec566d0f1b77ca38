//! `jetcell export`: writes the tables of a database as CSV, JSON Lines, Parquet or SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use clap::Args;
use jetcell_export::{
    AdditionalRows, ApplicationProfile, CurrencyFormat, ExportDestination, ExportError, ExportFormat,
    ExportOptions, ROW_LIMIT, RenderingOptions, Selection, TimeCondition, export, export_timeline,
};
use jetcell_host::ProgressReport;
use jetcell_input::OptionValueError;
use jetcell_vfs::RealOptions;

use crate::console::print_note;
use crate::decompressing_vfs::{DecompressingVfs, UnpackOptions};
use crate::in_use::check_not_in_use;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell export ntds.dit --format csv --output tables/
  jetcell export SRUDB.dat --format sqlite --output srum.sqlite
  jetcell export Windows.edb --table SystemIndex_PropertyStore --format jsonl --output - | jq .
  jetcell export ntds.dit --table datatable --format jsonl --omit-nulls --output objects.jsonl
  jetcell export Current.mdb --format parquet --deleted --output current/
  jetcell export WebCacheV01.dat --table 'Container_*' --deleted --carve --format sqlite --output cache.sqlite
  jetcell export SRUDB.dat --table '*Usage' --since 2026-11-01 --before 2026-11-08 --format csv --output week/
  jetcell export SRUDB.dat Current.mdb --timeline --format csv --output timeline.csv

With csv, jsonl and parquet, --output is a directory for one file per table; with exactly one --table it may be a file.
System tables (MSys...) are also exported. docs/export-tables.md describes the format of each type.

Long values that together exceed 24 MiB in one row are written to separate files in DIR/values or FILE.values, and their
cells contain the file names. With standard output, such files cannot be written, and the values are reported as not read.

Exit code: 0 everything was exported, 1 some data could not be read and is listed on stderr, 2 could not run.";

/// Write the tables of a database as CSV, JSON Lines, Parquet or SQLite
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Database file, or a database compressed as FILE.zst or FILE.gz; it is opened read-only; may be repeated with --timeline
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Export only tables whose name matches this pattern, which may contain the wildcards * and ?; may be repeated
    #[arg(long, value_name = "PATTERN")]
    table: Vec<String>,
    /// Export only columns whose name matches this pattern, which may contain the wildcards * and ?; may be repeated
    #[arg(long, value_name = "PATTERN")]
    column: Vec<String>,
    /// Export only rows with a time at or after this one, such as 2026-11-23 or 2026-11-23T08:00:00Z; tables without
    /// times are not filtered
    #[arg(long, value_name = "TIME", value_parser = point_in_time)]
    since: Option<DateTime<Utc>>,
    /// Export only rows with a time before this one
    #[arg(long, value_name = "TIME", value_parser = point_in_time)]
    before: Option<DateTime<Utc>>,
    /// Columns to which --since and --before apply [default: all columns with times]
    #[arg(long, value_name = "PATTERN")]
    time_column: Vec<String>,
    /// Output format: csv, jsonl, parquet or sqlite
    #[arg(long)]
    format: ExportFormat,
    /// Directory or file for the output, or - for standard output
    #[arg(long, value_name = "DIR|FILE|-")]
    output: PathBuf,
    /// Also export deleted rows that still exist, marked in a column _deleted
    #[arg(long)]
    deleted: bool,
    /// Also export removed rows from the free space of pages and from pages that a table no longer uses, marked in
    /// columns with their page, offset and confidence (high, medium, low)
    #[arg(long)]
    carve: bool,
    /// Also export the rows of pages with a bad checksum that can be decoded, marked in a column _damaged
    #[arg(long)]
    include_damaged: bool,
    /// CSV for a spreadsheet: put an apostrophe before each field that a spreadsheet would read as a formula (= + -
    /// @)
    #[arg(long)]
    csv_safe: bool,
    /// Profile with names and formats for the columns of an application
    #[arg(long, value_enum, default_value_t = ProfileName::Auto, value_name = "PROFILE")]
    profile: ProfileName,
    /// Format of Currency columns, in which Windows often stores integers
    #[arg(long, alias = "currency", value_enum, default_value_t = CurrencyFormatName::Auto, value_name = "FORM")]
    currency_format: CurrencyFormatName,
    /// Format of integers beyond 2^53 in JSON Lines
    #[arg(long, value_enum, default_value_t = WideIntegers::Number, value_name = "FORM")]
    wide_integers: WideIntegers,
    /// Omit columns that are null from JSON Lines
    #[arg(long)]
    omit_nulls: bool,
    /// Export one table with all times of all rows, sorted: time, source, table, key, and what happened
    #[arg(long, conflicts_with_all = ["column", "include_damaged"])]
    timeline: bool,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Export a database that is in use, although its pages change while they are read
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    unpack: UnpackOptions,
}

/// Profile for the columns of a specific application.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    /// The profile that matches the tables, if there is one
    Auto,
    /// Active Directory: columns named after attributes (ATTm590045 is sAMAccountName), names of objects, classes and
    /// links, security descriptors in SDDL, replication metadata, single values not written as lists, times
    Ntds,
    /// System Resource Usage Monitor (SRUDB.dat): names of providers, applications and users, types of network
    /// interfaces, times
    Srum,
    /// User Access Logging (Current.mdb, SystemIdentity.mdb): names of roles, addresses
    Ual,
    /// Windows Search (Windows.edb): property names, folder paths, lists of texts, times, durations, sizes
    Search,
    /// Web cache (WebCacheV01.dat): names of containers, times, headers, cookies
    Webcache,
    /// Columns with their names and types from the catalog
    None,
}

impl From<ProfileName> for ApplicationProfile {
    fn from(name: ProfileName) -> ApplicationProfile {
        match name {
            ProfileName::Auto => ApplicationProfile::BySchema,
            ProfileName::Ntds => ApplicationProfile::Directory,
            ProfileName::Srum => ApplicationProfile::UsageMonitor,
            ProfileName::Ual => ApplicationProfile::AccessLogging,
            ProfileName::Search => ApplicationProfile::Search,
            ProfileName::Webcache => ApplicationProfile::WebCache,
            ProfileName::None => ApplicationProfile::None,
        }
    }
}

/// Format of Currency columns.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CurrencyFormatName {
    /// Integers in Active Directory, which stores times and identifiers in them; decimals in other databases
    Auto,
    /// Decimals with four digits after the decimal point
    Decimal,
    /// The stored 64-bit integers
    Integer,
}

impl From<CurrencyFormatName> for CurrencyFormat {
    fn from(form: CurrencyFormatName) -> CurrencyFormat {
        match form {
            CurrencyFormatName::Auto => CurrencyFormat::BySchema,
            CurrencyFormatName::Decimal => CurrencyFormat::Decimal,
            CurrencyFormatName::Integer => CurrencyFormat::Integer,
        }
    }
}

/// Format of integers that a double cannot represent exactly.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WideIntegers {
    /// Numbers
    Number,
    /// Strings, for programs that read all numbers as doubles
    String,
}

impl ExportArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        check_not_in_use(self.files.iter().map(PathBuf::as_path), self.anyway)?;
        let file = match self.files.as_slice() {
            [file, ..] if self.timeline || self.files.len() == 1 => file.as_path(),
            _ => {
                return Err(CommandError::new("several files can only be exported as a time line")
                    .advise("export one file at a time, or add --timeline"));
            }
        };
        self.unpack.require_one_file(self.files.len() == 1)?;
        let times = times(self.since, self.before, self.time_column)?;
        let selection = Selection { tables: self.table, columns: self.column, times };
        let tables = if self.timeline { 1 } else { selection.tables.len() };
        let options = ExportOptions {
            destination: destination(&self.output, self.format, tables),
            selection,
            format: self.format,
            additional: AdditionalRows {
                deleted: self.deleted,
                carved: self.carve,
                damaged: self.include_damaged,
            },
            force: self.force,
            row_limit: ROW_LIMIT,
            rendering: RenderingOptions {
                csv_safe: self.csv_safe,
                currency: self.currency_format.into(),
                profile: self.profile.into(),
                wide_integers_as_text: self.wide_integers == WideIntegers::String,
                omit_nulls: self.omit_nulls,
            },
        };
        // An export reads a file mostly in order, so the kernel's read-ahead improves throughput.
        let real = RealOptions { direct: false, ..RealOptions::default() };
        let vfs = DecompressingVfs::new(real, self.unpack).context("cannot read files")?;
        let to_stdout = self.output == Path::new("-");
        let mut shown = ExportProgress::new();
        let progress = &mut |table: &str, rows| shown.show(table, rows);
        let result = if self.timeline {
            export_timeline(&vfs, &self.files, &options, progress)
        } else {
            export(&vfs, file, &options, progress)
        };
        shown.finish();
        let exported = result.map_err(|error| match error {
            ExportError::Write(error) if to_stdout => CommandError::from_output(&error),
            error => error.into(),
        })?;
        let issues = &exported.issues;
        for issue in issues.stored() {
            let kind = if issue.missing { "missing" } else { "note" };
            print_note(&format!("{kind}: {issue}"));
        }
        if issues.dropped() > 0 {
            print_note(&format!("... and {} more", issues.dropped()));
        }
        let aside = match exported.value_files {
            0 => String::new(),
            count => format!("; long values in separate files: {count}"),
        };
        if self.timeline {
            let left_out = exported.implausible_times;
            print_note(&format!("left out {left_out} times that are not set, or not between 1970 and 2099"));
        }
        let missing = if issues.has_missing() { "; SOME DATA could not be read, see above" } else { "" };
        print_note(&format!("exported {} rows of {} tables{aside}{missing}", exported.rows, exported.tables));
        Ok(if issues.has_missing() { CommandOutcome::Findings } else { CommandOutcome::Good })
    }
}

/// Parses `2026-11-23`, which means midnight UTC, or `2026-11-23T08:00:00Z`.
fn point_in_time(text: &str) -> Result<DateTime<Utc>, OptionValueError> {
    if let Ok(day) = text.parse::<NaiveDate>() {
        return Ok(day.and_time(NaiveTime::MIN).and_utc());
    }
    DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).map_err(|_| {
        let examples = "use a date such as 2026-11-23 or a time such as 2026-11-23T08:00:00Z";
        OptionValueError::unparsable(text, "a time", examples)
    })
}

/// Returns the filter for row times, or `None` if neither --since nor --before was given.
fn times(
    since: Option<DateTime<Utc>>,
    before: Option<DateTime<Utc>>,
    columns: Vec<String>,
) -> CommandResult<Option<TimeCondition>> {
    if since.is_none() && before.is_none() {
        return if columns.is_empty() {
            Ok(None)
        } else {
            Err(CommandError::new("--time-column requires --since or --before").advise("add one of them"))
        };
    }
    let ticks = |time: DateTime<Utc>| time.timestamp_micros().saturating_mul(10);
    let first = since.map_or(i64::MIN, ticks);
    let last = before.map_or(i64::MAX, |time| ticks(time).saturating_sub(1));
    if first > last {
        return Err(CommandError::new("--before must be later than --since")
            .advise("use a later --before or an earlier --since"));
    }
    Ok(Some(TimeCondition { columns, range: first..=last }))
}

/// Determines the destination. For SQLite or a single table, the output is a file, unless the path is a directory or
/// ends with a slash.
fn destination(output: &Path, format: ExportFormat, tables: usize) -> ExportDestination {
    if output == Path::new("-") {
        return ExportDestination::Stdout;
    }
    let slash = output.to_string_lossy().ends_with('/');
    let one_file = format == ExportFormat::Sqlite || (tables == 1 && output.extension().is_some());
    if one_file && !slash && !output.is_dir() {
        ExportDestination::File(output.to_owned())
    } else {
        ExportDestination::Directory(output.to_owned())
    }
}

/// Progress output on a terminal.
struct ExportProgress(ProgressReport);

impl ExportProgress {
    fn new() -> ExportProgress {
        ExportProgress(ProgressReport::new(Duration::MAX))
    }

    fn show(&mut self, table: &str, rows: u64) {
        let is_due = self.0.is_due() || rows == 0;
        if let Some(line) = self.0.line().filter(|_| is_due) {
            line.show(table, None, &format!("{rows} rows"));
        }
    }

    fn finish(&mut self) {
        self.0.clear();
    }
}
