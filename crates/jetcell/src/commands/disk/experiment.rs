//! `jetcell disk experiment`: measures the cost of fragmentation on a drive.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_input::quantity::within;
use jetcell_input::{OptionValueError, json_pretty};
use jetcell_lab::LocalSystem;
use jetcell_lab::filesystems::{TestedDirectory, TurnLimits, compare};
use jetcell_lab::fragmentation::{
    DEFAULT_FRAGMENT_BYTES, DefragmentationExperiment, EXPERIMENT_ROWS, FileMap, FilePlacement,
    Fragmentation, find_databases, read_rates, rewrite_with_placement,
};
use jetcell_report::{experiment_html, experiment_markdown, experiment_text};
use jetcell_workload::Options;
use jetcell_workload::units::{ByteSize, DatabaseSize, TimeSpan};

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::empty_directory::require_empty;
use crate::shared::load_turns::{LoadTurns, load_options};
use crate::shared::result_directory::store;

const EXAMPLES: &str = "\
Examples:
  jetcell disk experiment /mnt/data/experiment --output result
      a database of 1 GiB, once contiguous and once in pieces of 64 KiB in random order
  jetcell disk experiment /mnt/data/experiment --size 20GiB --piece 1MiB --duration 5m --output result

Each turn reads both files as a scan does (256 KiB, one read at a time) and as a backup does (eight reads in flight), and runs the
load of jetcell test performance on both. The difference is the gain from a defragmentation of the file on this drive. The result
states whether the difference exceeds noise.

Files:
  DIR/contiguous, DIR/scattered  the databases; they are not removed, delete them when you are done
  OUTPUT/                        result.json, report.md, report.html with charts, and the runs

Exit code: 0 measured, 1 stopped early, 2 could not run.";

/// Read sizes in bytes for which split reads are shown.
const READ_SIZES: [u64; 2] = [32 << 10, 256 << 10];
/// Placements of the database. They are also used as directory names.
const LAYOUT_NAMES: [&str; 2] = ["contiguous", "scattered"];

/// Measure the cost of database fragmentation on a drive
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FragmentationExperimentArgs {
    /// New or empty directory on the drive; it needs four times the size of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory for the result; it must be empty or new
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Size of the database [default: 1GiB, or as in --config]
    #[arg(long, value_name = "SIZE")]
    size: Option<DatabaseSize>,
    /// Size of each piece of the scattered file, 4KiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(DEFAULT_FRAGMENT_BYTES), value_parser = piece)]
    piece: ByteSize,
    /// Measured time of each turn on each file [default: 60s, or as in --config]
    #[arg(long, value_name = "TIME")]
    duration: Option<TimeSpan>,
    /// Configuration file for jetcell test performance with further options for the load
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of turns
    #[arg(long, alias = "turns", value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

fn piece(text: &str) -> Result<ByteSize, OptionValueError> {
    let advice = "use a multiple of 4KiB, from 4KiB to 1GiB";
    let size = within(ByteSize(4 << 10)..=ByteSize(1 << 30))(text)
        .map_err(|error| OptionValueError::new(error, advice))?;
    if !size.0.is_multiple_of(4096) {
        return Err(OptionValueError::new(format_args!("{size} is not a multiple of 4KiB"), advice));
    }
    Ok(size)
}

impl FragmentationExperimentArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let found = self.experiment()?;
        console::print_serialized(
            self.json,
            || json_pretty(&found),
            || experiment_text(&found, console::width()),
        )?;
        Ok(CommandOutcome::Good)
    }

    fn experiment(&self) -> CommandResult<DefragmentationExperiment> {
        let directories = LAYOUT_NAMES.map(|name| self.directory.join(name));
        let options = self.prepare(&directories)?;
        let turns = LoadTurns::new(options, false)?;
        fs::create_dir(&self.directory)
            .or_else(|error| if self.directory.is_dir() { Ok(()) } else { Err(error) })
            .context(self.directory.display())?;
        let mut files = Vec::new();
        let placements = [FilePlacement::Contiguous, FilePlacement::Scattered(self.piece.0)];
        for (directory, placement) in directories.iter().zip(placements) {
            self.report(&format!("creating {}", directory.display()));
            let name = directory.file_name().unwrap_or_default();
            // The load in this turn is not compared, because it runs before the file is placed.
            turns.measure(directory, &self.output.join("runs").join(name), false)?;
            let path = database(directory)?;
            rewrite_with_placement(&path, placement)
                .context(format_args!("{}: could not create the file layout", path.display()))
                .advise("free some space, or use a different directory")?;
            let map = FileMap::read(&path)?;
            files.push(Fragmentation::from_map(&map, &READ_SIZES));
        }
        if let [contiguous, scattered] = files.as_slice()
            && scattered.pieces < contiguous.pieces * 4
        {
            let what = format!(
                "the file system stored the scattered file in {} pieces and the contiguous file in {}",
                scattered.pieces, contiguous.pieces
            );
            let error = CommandError::new(what).context(self.directory.display());
            return Err(error.advise("use another file system, or a smaller --piece"));
        }
        let most = self.repeat.into();
        let limits = TurnLimits { fewest: most, most, precision_percent: 2.0, longest: Duration::MAX };
        let began = Instant::now();
        let inspect_named =
            |(directory, name): (&PathBuf, &str)| TestedDirectory::examine(name, directory, &LocalSystem);
        let tested = directories.iter().zip(LAYOUT_NAMES).map(inspect_named).collect();
        let measure = &mut |at: usize, turn: usize| {
            let directory = &directories[at];
            self.report(&format!("turn {}: {}", turn + 1, LAYOUT_NAMES[at]));
            let path = database(directory)?;
            let rates = read_rates(&path).context(path.display())?;
            let output = self.output.join(format!("runs/{}-{}", LAYOUT_NAMES[at], turn + 1));
            let load = turns.measure(directory, &output, true)?;
            Ok::<_, CommandError>(load.into_iter().chain(rates).collect())
        };
        let rows = ("Fragmentation of a database", &EXPERIMENT_ROWS[..]);
        let mut comparison = compare(rows, tested, limits, measure, &|| began.elapsed())?;
        comparison.complete_directories(Vec::new(), &LocalSystem);
        let found = DefragmentationExperiment::new(self.piece.0, files, comparison);
        store(&self.output, &experiment_html(&found), &experiment_markdown(&found), &json_pretty(&found)?)?;
        Ok(found)
    }

    fn prepare(&self, directories: &[PathBuf]) -> CommandResult<Options> {
        require_empty(&*self.output, "result")?;
        require_empty(&*self.directory, "databases")?;
        let given = Options { size: self.size, duration: self.duration, ..Options::default() };
        load_options(given, self.config.as_deref(), directories)
    }

    fn report(&self, line: &str) {
        if !self.quiet {
            console::print_note(line);
        }
    }
}

/// Returns the single database in a directory of the experiment.
fn database(directory: &Path) -> CommandResult<PathBuf> {
    let mut found =
        find_databases(directory).context(format_args!("{} cannot be searched", directory.display()))?;
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (_, more) => {
            let problem =
                format_args!("{} databases, but the experiment needs a load with one database", more + 1);
            Err(CommandError::new(problem)
                .context(directory.display())
                .advise("omit databases and further dirs in --config"))
        }
    }
}
