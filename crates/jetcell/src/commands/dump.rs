//! `jetcell dump`: shows the contents of a database, log, checkpoint or flush map.

use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ese_format::log::record::LogRecord;
use jetcell_dump::{
    DumpError, DumpOutput, DumpSource, LogDumpOptions, LogFilter, SchemaOptions, SpaceOptions, TreeSelector,
};
use jetcell_host::{ProgressLine, completed_share};
use jetcell_input::OptionValueError;
use jetcell_vfs::RealOptions;

use crate::console;
use crate::decompressing_vfs::{DecompressingVfs, UnpackOptions};
use crate::outcome::{CommandError, CommandOutcome, CommandResult};

/// Examples shown below the list of kinds.
pub const EXAMPLES: &str = "\
Examples:
  jetcell dump header priv1.edb
      state of a database, and the logs that it needs
  jetcell dump schema --table MSysLocales priv1.edb
      columns and indexes of a table
  jetcell dump log --page 13 E0000000042.log
      changes to a page in a log

Exit code: 0 shown, 1 part of the file is damaged, 2 could not run.";

/// Show the contents of a database, log, checkpoint or flush map
#[derive(Subcommand)]
#[command(subcommand_value_name = "KIND", subcommand_help_heading = "Kinds")]
pub enum DumpCommand {
    /// Show every field of the header of any ESE file
    #[command(after_help = HEADER_EXAMPLES)]
    Header(DumpTarget),
    /// Show database pages: one line for each page, or the full contents of selected pages
    #[command(after_help = PAGES_EXAMPLES)]
    Pages(DumpPagesArgs),
    /// Show a database tree page by page: levels, separators, keys
    #[command(after_help = TREE_EXAMPLES)]
    Tree(DumpTreeArgs),
    /// Show tables, columns, indexes and long-value trees
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema(DumpSchemaArgs),
    /// Show owned and available extents, fill level, fragmentation and leaks for every tree
    #[command(after_help = SPACE_EXAMPLES)]
    Space(DumpSpaceArgs),
    /// Show the records of a log file, one per line
    #[command(after_help = LOG_EXAMPLES)]
    Log(DumpLogArgs),
    /// Show a checkpoint file
    #[command(after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(DumpTarget),
    /// Show a flush map: the flush type of the last write to each page
    #[command(after_help = FLUSHMAP_EXAMPLES)]
    Flushmap(DumpTarget),
}

/// A file to dump and the output format.
#[derive(Args)]
pub struct DumpTarget {
    /// Print JSON, one object per line, each with a "type"
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    unpack: UnpackOptions,
    /// File to show; its type is determined from its content
    file: PathBuf,
}

#[derive(Args)]
pub struct DumpPagesArgs {
    #[command(flatten)]
    target: DumpTarget,
    /// Show only this page, or a range of pages, with all tags and nodes
    #[arg(long, value_name = "PAGE[-PAGE]", value_parser = range)]
    page: Vec<RangeInclusive<u32>>,
}

#[derive(Args)]
pub struct DumpTreeArgs {
    #[command(flatten)]
    target: DumpTarget,
    /// Show the tree of this table
    #[arg(long, value_name = "NAME", required_unless_present = "root", conflicts_with = "root")]
    table: Option<String>,
    /// Show the tree of this index of the table
    #[arg(long, value_name = "NAME", requires = "table", conflicts_with = "long_values")]
    index: Option<String>,
    /// Show the table's long-value tree
    #[arg(long, requires = "table")]
    long_values: bool,
    /// Show the tree rooted at this page
    #[arg(long, value_name = "PAGE", value_parser = clap::value_parser!(u32).range(1..))]
    root: Option<u32>,
    /// Also show all nodes
    #[arg(long)]
    nodes: bool,
}

#[derive(Args)]
pub struct DumpSchemaArgs {
    #[command(flatten)]
    target: DumpTarget,
    /// Show only this table
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// Show the rows of the catalog with ESE's column names
    #[arg(long)]
    rows: bool,
}

#[derive(Args)]
pub struct DumpSpaceArgs {
    #[command(flatten)]
    target: DumpTarget,
    /// Also show every extent
    #[arg(long)]
    extents: bool,
    /// Order of the trees; by size, also show bytes, percent of the file and white space
    #[arg(long, value_enum, default_value_t = SpaceOrder::Catalog, value_name = "ORDER")]
    sort: SpaceOrder,
}

/// Order of the trees in a dump of space.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SpaceOrder {
    /// Tables in the order of the catalog, each followed by its indexes
    Catalog,
    /// The largest tree first
    Size,
}

#[derive(Args)]
pub struct DumpLogArgs {
    #[command(flatten)]
    target: DumpTarget,
    /// Show only records about the database with this number
    #[arg(long, value_name = "NUMBER")]
    database: Vec<u8>,
    /// Show only records that change or name this page, or any page in a range
    #[arg(long, value_name = "PAGE[-PAGE]", value_parser = range)]
    page: Vec<RangeInclusive<u32>>,
    /// Show only records of this session
    #[arg(long, value_name = "NUMBER")]
    procid: Vec<u16>,
    /// Show only records of the transaction with this begin number
    #[arg(long, value_name = "NUMBER")]
    transaction: Vec<u32>,
    /// Show only records of this type, by name (Insert, Split2) or number
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kinds: Vec<u8>,
    /// Show statistics by type instead of the records
    #[arg(long)]
    stats: bool,
}

const HEADER_EXAMPLES: &str = "Examples:
  jetcell dump header priv1.edb
      state, logs needed, every field
  jetcell dump header --json E00.log | jq .fields.generation
Exit code 1: a copy of the header is damaged.";

const PAGES_EXAMPLES: &str = "Examples:
  jetcell dump pages priv1.edb
      a line for every page
  jetcell dump pages --page 31 priv1.edb
      header, tags and nodes of a page
  jetcell dump pages --json --page 1-6 priv1.edb
Exit code 1: a page that was shown is damaged.";

const TREE_EXAMPLES: &str = "Examples:
  jetcell dump tree --table MSysObjects priv1.edb
  jetcell dump tree --table MSysObjects --index Name --nodes priv1.edb
  jetcell dump tree --root 31 --json priv1.edb
Exit code 1: part of the tree cannot be read.";

const SCHEMA_EXAMPLES: &str = "Examples:
  jetcell dump schema priv1.edb
  jetcell dump schema --table MSysLocales priv1.edb
  jetcell dump schema --json priv1.edb | jq -r 'select(.type == \"table\").name'
  jetcell dump schema --rows --table MSysLocales priv1.edb
Exit code 1: part of the catalog cannot be read.";

const SPACE_EXAMPLES: &str = "The command reads every used page, which takes some time for a large database.

Examples:
  jetcell dump space priv1.edb
      a table of all trees and a map
  jetcell dump space --sort size priv1.edb
      the largest trees, and the total white space
  jetcell dump space --extents priv1.edb
  jetcell dump space --json priv1.edb | jq 'select(.leaked_pages? > 0)'
Exit code 1: part of the trees or of the space trees cannot be read.";

const LOG_EXAMPLES: &str =
    "Different options are combined with AND; the same option several times is combined with OR.

Examples:
  jetcell dump log E0000000042.log
      every record
  jetcell dump log --stats E0000000042.log
      which types use most space
  jetcell dump log --page 13 E0000000042.log
      the history of a page
  jetcell dump log --type Split2 --type Merge2 E0000000042.log
  jetcell dump log --json --transaction 88 E0000000042.log
Exit code 1: part of the log is damaged.";

const CHECKPOINT_EXAMPLES: &str = "Examples:
  jetcell dump checkpoint E00.chk
      the start of redo, attached databases
  jetcell dump checkpoint --json E00.chk
Exit code 1: a copy is damaged.";

const FLUSHMAP_EXAMPLES: &str = "Examples:
  jetcell dump flushmap priv1.jfm
  jetcell dump flushmap --json priv1.jfm
Exit code 1: a page of the map is damaged.";

impl DumpCommand {
    /// Writes the dump to stdout.
    pub fn run(self) -> CommandResult {
        let target = match &self {
            DumpCommand::Header(target) | DumpCommand::Checkpoint(target) | DumpCommand::Flushmap(target) => {
                target
            }
            DumpCommand::Pages(pages) => &pages.target,
            DumpCommand::Tree(tree) => &tree.target,
            DumpCommand::Schema(schema) => &schema.target,
            DumpCommand::Space(space) => &space.target,
            DumpCommand::Log(log) => &log.target,
        };
        let stdout = BufWriter::new(io::stdout().lock());
        let mut out: Box<dyn Write> = if target.json {
            Box::new(console::json_writer(stdout))
        } else {
            Box::new(console::lines_writer(stdout))
        };
        let mut output = if target.json { DumpOutput::json(&mut *out) } else { DumpOutput::text(&mut *out) };
        let result = self.write(&mut output);
        let problems = output.problems();
        let result = result.and_then(|()| Ok(out.flush()?));
        match result {
            Ok(()) if problems > 0 => Ok(CommandOutcome::Findings),
            Ok(()) => Ok(CommandOutcome::Good),
            Err(DumpError::Output(error)) => Err(CommandError::from_output(&error)),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, output: &mut DumpOutput<'_>) -> jetcell_dump::Result<()> {
        match self {
            DumpCommand::Header(target) => jetcell_dump::dump_header(&target.open()?, output),
            DumpCommand::Checkpoint(target) => jetcell_dump::dump_checkpoint(&target.open()?, output),
            DumpCommand::Flushmap(target) => jetcell_dump::dump_flush_map(&target.open()?, output),
            DumpCommand::Pages(pages) => jetcell_dump::dump_pages(&pages.target.open()?, &pages.page, output),
            DumpCommand::Tree(tree) => {
                jetcell_dump::dump_tree(&tree.target.open()?, &tree.choice(), tree.nodes, output)
            }
            DumpCommand::Schema(schema) => {
                let options = SchemaOptions { tables: schema.table.clone(), rows: schema.rows };
                jetcell_dump::dump_schema(&schema.target.open()?, &options, output)
            }
            DumpCommand::Space(space) => space.write(output),
            DumpCommand::Log(log) => jetcell_dump::dump_log(&log.target.open()?, &log.options(), output),
        }
    }
}

impl DumpTarget {
    fn open(&self) -> jetcell_dump::Result<DumpSource> {
        let io_error = |error| DumpError::Io { path: self.file.clone(), error };
        // A dump reads few pages, some of them repeatedly, so it uses the kernel's cache.
        let real = RealOptions { direct: false, ..RealOptions::default() };
        let vfs = DecompressingVfs::new(real, self.unpack).map_err(io_error)?;
        DumpSource::open(&vfs, &self.file)
    }
}

impl DumpSpaceArgs {
    fn write(&self, output: &mut DumpOutput<'_>) -> jetcell_dump::Result<()> {
        let line = ProgressLine::new();
        let mut show = |done: u32, total: u32| {
            if let Some(line) = &line {
                line.show(
                    "reading pages",
                    completed_share(done.into(), total.into()),
                    &format!("{total} in total"),
                );
            }
        };
        let options = SpaceOptions { extents: self.extents, sort_by_size: self.sort == SpaceOrder::Size };
        jetcell_dump::dump_space(&self.target.open()?, options, &mut show, output)
    }
}

impl DumpTreeArgs {
    fn choice(&self) -> TreeSelector {
        let table = self.table.clone().unwrap_or_default();
        match (self.root, &self.index) {
            (Some(root), _) => TreeSelector::Root(root),
            (None, Some(index)) => TreeSelector::Index(table, index.clone()),
            (None, None) if self.long_values => TreeSelector::LongValues(table),
            (None, None) => TreeSelector::Table(table),
        }
    }
}

impl DumpLogArgs {
    fn options(&self) -> LogDumpOptions {
        let filter = LogFilter {
            databases: self.database.clone(),
            pages: self.page.clone(),
            procids: self.procid.clone(),
            transactions: self.transaction.clone(),
            kinds: self.kinds.clone(),
        };
        LogDumpOptions { filter, stats: self.stats }
    }
}

fn range(text: &str) -> Result<RangeInclusive<u32>, OptionValueError> {
    let example = "try a value such as 13 or 13-20";
    let number = |text: &str| {
        text.trim().parse().map_err(|_| OptionValueError::unknown(text, "a page number", example))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first == 0 {
        return Err(OptionValueError::new("pages are numbered from 1", example));
    }
    if first <= last {
        Ok(first..=last)
    } else {
        Err(OptionValueError::new(format_args!("the range {text} ends before it starts"), example))
    }
}

fn kind(text: &str) -> Result<u8, OptionValueError> {
    text.parse().ok().or_else(|| LogRecord::kind_named(text)).ok_or_else(|| {
        let list = "`jetcell dump log --stats FILE` lists the types in a log";
        OptionValueError::unknown(text, "a record type", list)
    })
}
