//! `jetcell disk fragmentation`: shows where databases are located on their device.

use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_input::json_pretty;
use jetcell_input::quantity::positive;
use jetcell_lab::drive::{ExpectedCost, SeekCurve};
use jetcell_lab::fragmentation::{FileMap, Fragmentation, find_databases};
use jetcell_report::{fragmentation_html, fragmentation_markdown, fragmentation_text};
use jetcell_workload::units::ByteSize;
use serde::Serialize;

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::empty_directory::require_empty;
use crate::shared::result_directory::store;
use crate::shared::stored_drive_result::stored_drive_test;

const EXAMPLES: &str = "\
Examples:
  jetcell disk fragmentation priv1.edb
      extents, pieces and distances, and the share of reads of 32 KiB and 256 KiB that cross a boundary
  jetcell disk fragmentation --read 8KiB --read 1MiB jetcell-run
      all databases below a directory, with other read sizes
  jetcell disk fragmentation priv1.edb --drive-test result
      also the expected cost of the pieces, from the seek times that jetcell disk test --output result measured on the drive
  jetcell disk fragmentation priv1.edb --output result
      also as an HTML page and as Markdown
  jetcell disk fragmentation --json jetcell-run | jq '.files[].pieces'
      for a script

The examined files are not changed. Exit code: 0 shown, 2 could not run.";

/// Show where databases are located on their device: extents, distances, and split reads
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowFragmentationArgs {
    /// Files, or directories with databases (*.edb, *.dit)
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Read size; may be repeated [default: 32KiB, one page, and 256KiB, one read of the background scan]
    #[arg(long = "read", value_name = "SIZE", value_parser = positive::<ByteSize>)]
    reads: Vec<ByteSize>,
    /// Also show the expected cost of the fragmentation on a drive, based on a result of jetcell disk test for that
    /// drive
    #[arg(long, value_name = "DIR")]
    drive_test: Option<PathBuf>,
    /// Name of the drive in a drive test with several targets
    #[arg(long, value_name = "NAME", requires = "drive_test")]
    target: Option<String>,
    /// Directory for result.json, report.html and report.md; it must be empty or new
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of the command.
#[derive(Serialize)]
struct FragmentationOutput {
    /// Version of this format.
    schema: u32,
    files: Vec<Fragmentation>,
    /// Expected cost for each file, if a test of its drive was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expected: Vec<ExpectedCost>,
}

impl ShowFragmentationArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let found = self.examine()?;
        let text = || fragmentation_text(&found.files, &found.expected, console::width());
        console::print_serialized(self.json, || json_pretty(&found), text)?;
        Ok(CommandOutcome::Good)
    }

    fn examine(&self) -> CommandResult<FragmentationOutput> {
        require_empty(self.output.as_deref(), "result")?;
        let curve = self.drive_test.as_deref().map(|path| self.seek_curve(path)).transpose()?;
        let mut files = Vec::new();
        for path in &self.paths {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let shown = path.display();
            let found = find_databases(path).context(format_args!("{shown} cannot be searched"))?;
            if found.is_empty() {
                let problem = format!("{shown}: the directory contains no databases (*.edb, *.dit)");
                return Err(CommandError::new(problem).advise("specify database files"));
            }
            files.extend(found);
        }
        let sizes: Vec<u64> = match &self.reads[..] {
            [] => vec![32 << 10, 256 << 10],
            given => given.iter().map(|size| size.0).collect(),
        };
        let maps = files.iter().map(|path| FileMap::read(path)).collect::<Result<Vec<_>, _>>()?;
        if maps.iter().all(|map| map.bytes == 0) {
            let first = self.paths.first().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(CommandError::new(format_args!("nothing found at {first}: the files are empty"))
                .advise("specify files with content"));
        }
        let read = sizes.first().copied().unwrap_or(32 << 10);
        let expected =
            curve.iter().flat_map(|curve| maps.iter().map(|map| ExpectedCost::estimate(map, curve, read)));
        let files = maps.iter().map(|map| Fragmentation::from_map(map, &sizes)).collect();
        let found = FragmentationOutput { schema: 1, files, expected: expected.collect() };
        if let Some(output) = &self.output {
            let html = fragmentation_html(&found.files, &found.expected);
            let markdown = fragmentation_markdown(&found.files, &found.expected);
            store(output, &html, &markdown, &json_pretty(&found)?)?;
        }
        Ok(found)
    }

    /// Returns the seek curve from the drive test in a directory.
    fn seek_curve(&self, directory: &Path) -> CommandResult<SeekCurve> {
        let (test, target) = stored_drive_test(directory, self.target.as_deref())?;
        SeekCurve::from_test(&test, target).ok_or_else(|| {
            CommandError::new(format_args!(
                "{}: the test result does not contain the steps transfer_read, sequential_read_4k or seek_curve",
                directory.display()
            ))
            .advise("test the drive again")
        })
    }
}
