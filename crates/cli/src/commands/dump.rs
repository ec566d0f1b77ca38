//! `jetcell dump`: what is inside a database, log, checkpoint or flush map.

use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dump::{DumpError, LogFilter, LogOptions, Output, Source};
use ese_format::log::record::LogRecord;
use vfs::{RealOptions, RealVfs};

use crate::outcome::{Outcome, complain};

/// What to show.
#[derive(Subcommand)]
pub enum Dump {
    /// Every field of the header of any ESE file
    #[command(after_help = HEADER_EXAMPLES)]
    Header(Target),
    /// The records of a log file, one a line
    #[command(after_help = LOG_EXAMPLES)]
    Log(Log),
    /// The checkpoint file
    #[command(after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(Target),
    /// The flush map: which flush type every page was last written with
    #[command(after_help = FLUSHMAP_EXAMPLES)]
    Flushmap(Target),
}

/// The file, and the form of the output.
#[derive(Args)]
pub struct Target {
    /// JSON, one object a line, each with a "type"
    #[arg(long)]
    json: bool,
    /// The file; what it is is told by its content
    file: PathBuf,
}

#[derive(Args)]
pub struct Log {
    #[command(flatten)]
    target: Target,
    /// Only records about the database with this number
    #[arg(long, value_name = "NUMBER")]
    database: Vec<u8>,
    /// Only records that change or name this page, or one of a range
    #[arg(long, value_name = "PAGE[-PAGE]", value_parser = range)]
    page: Vec<RangeInclusive<u32>>,
    /// Only records of this session
    #[arg(long, value_name = "NUMBER")]
    procid: Vec<u16>,
    /// Only records of the transaction with this begin number
    #[arg(long, value_name = "NUMBER")]
    transaction: Vec<u32>,
    /// Only records of this type, by name (Insert, Split2) or number
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kinds: Vec<u8>,
    /// Numbers by type instead of the records
    #[arg(long)]
    stats: bool,
}

const HEADER_EXAMPLES: &str = "Examples:
  jetcell dump header priv1.edb                      state, logs needed, every field
  jetcell dump header --json E00.log | jq .fields.generation
Exit code 1: a copy of the header is damaged.";

const LOG_EXAMPLES: &str = "Several options narrow the choice; the same option several times widens it.

Examples:
  jetcell dump log E0000000042.log                   every record
  jetcell dump log --stats E0000000042.log           which types take the room
  jetcell dump log --page 1793 E0000000042.log       the history of a page
  jetcell dump log --type Split2 --type Merge2 E0000000042.log
  jetcell dump log --json --transaction 88 E0000000042.log
Exit code 1: part of the log is damaged.";

const CHECKPOINT_EXAMPLES: &str = "Examples:
  jetcell dump checkpoint E00.chk                    where redo begins, attached databases
  jetcell dump checkpoint --json E00.chk
Exit code 1: a copy is damaged.";

const FLUSHMAP_EXAMPLES: &str = "Examples:
  jetcell dump flushmap priv1.jfm
  jetcell dump flushmap --json priv1.jfm
Exit code 1: a page of the map is damaged.";

impl Dump {
    /// Writes the dump to stdout.
    pub fn run(self) -> Outcome {
        let target = match &self {
            Dump::Header(target) | Dump::Checkpoint(target) | Dump::Flushmap(target) => target,
            Dump::Log(log) => &log.target,
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let mut output = if target.json { Output::json(&mut out) } else { Output::text(&mut out) };
        let result = self.write(&mut output);
        let problems = output.problems();
        let result = result.and_then(|()| Ok(out.flush()?));
        match result {
            Ok(()) if problems > 0 => Outcome::Findings,
            Ok(()) => Outcome::Good,
            // Whoever reads has seen enough.
            Err(DumpError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Outcome::Good,
            Err(error) => {
                complain(error);
                Outcome::CouldNotRun
            }
        }
    }

    fn write(&self, output: &mut Output<'_>) -> dump::Result<()> {
        match self {
            Dump::Header(target) => dump::dump_header(&target.open()?, output),
            Dump::Checkpoint(target) => dump::dump_checkpoint(&target.open()?, output),
            Dump::Flushmap(target) => dump::dump_flush_map(&target.open()?, output),
            Dump::Log(log) => dump::dump_log(&log.target.open()?, &log.options(), output),
        }
    }
}

impl Target {
    fn open(&self) -> dump::Result<Source> {
        let failed = |error| DumpError::Io { path: self.file.clone(), error };
        // The kernel's cache reads ahead; a dump visits few pages of a file, some of them often.
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).map_err(failed)?;
        Source::open(&vfs, &self.file)
    }
}

impl Log {
    fn options(&self) -> LogOptions {
        let filter = LogFilter {
            databases: self.database.clone(),
            pages: self.page.clone(),
            procids: self.procid.clone(),
            transactions: self.transaction.clone(),
            kinds: self.kinds.clone(),
        };
        LogOptions { filter, stats: self.stats }
    }
}

fn range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("`{text}` is no page number"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first <= last { Ok(first..=last) } else { Err(format!("the range {text} ends before it begins")) }
}

fn kind(text: &str) -> Result<u8, String> {
    text.parse().ok().or_else(|| LogRecord::kind_named(text)).ok_or_else(|| {
        format!("there is no record type `{text}`; `jetcell dump log --stats FILE` names those of a log")
    })
}
