//! `jetcell test filesystems`: runs the mail load on several file systems alternately.

mod created;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use jetcell_input::quantity::QuantityKind;
use jetcell_input::quantity::units::{self, UnitFactor};
use jetcell_input::{OptionValueError, json_pretty};
use jetcell_lab::LocalSystem;
use jetcell_lab::filesystems::{
    FilesystemComparison, FilesystemMaker, FilesystemSpecification, ROWS, SkippedFilesystem, TestedDirectory,
    TurnLimits, compare,
};
use jetcell_report::{filesystems_html, filesystems_markdown, filesystems_text};
use jetcell_workload::Options;
use jetcell_workload::units::{DatabaseSize, TimeSpan};

use self::created::{CreatedFilesystemOptions, measure_created};
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::empty_directory::require_empty;
use crate::shared::load_turns::{LoadTurns, load_options};
use crate::shared::result_directory::store;

const EXAMPLES: &str = "\
Examples:
  jetcell test filesystems /mnt/ext4/run /mnt/xfs/run --output result
      the load of jetcell test performance on both alternately, until the difference is known within 2 %
  jetcell test filesystems /mnt/ext4/run /mnt/btrfs/run --size 20GiB --duration 10m --repeat 4 --output result
      larger databases, longer turns, at most four turns
  jetcell test filesystems /mnt/a/run /mnt/b/run --config load.toml --output result --json | jq '.rows[0].differences'
      another load, from the configuration file of jetcell test performance
  jetcell test filesystems --make ext4,xfs,btrfs --images /mnt/drive --image-size 20GiB --output result
      file systems that the command creates on images, as root, and removes at the end
  jetcell test filesystems --make-list list.toml --device /dev/sdb1 --erase --output result
      file systems with their own options, one after another on a partition, which is overwritten
  jetcell test filesystems --images /mnt/drive --clean-up
      removes mounts and images that a killed test left

Files:
  DIR/                         the databases, in new or empty directories; they are not removed, delete them when you are done
  IMAGES/.jetcell-filesystems-…  images and mount points, until the end of the test
  OUTPUT/                      result.json, report.md, report.html with charts
  OUTPUT/runs/N-T/             each run: number of the directory and of the turn; jetcell report shows it

A list for --make-list:
  [[filesystem]]
  kind = \"ext4\"
  name = \"ext4, full and aged\"
  mkfs_options = [\"-b\", \"4096\"]
  mount_options = [\"noatime\"]
  fill_percent = 50              # space that other files use
  aging_rounds = 3               # number of rounds; a round writes files up to 90 % and removes files in random order

Exit code: 0 compared, 1 stopped early, or file systems were skipped, 2 could not run.";

/// Run the mail load on several file systems alternately, and compare them with confidence intervals
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareFilesystemsArgs {
    /// New or empty directories, one on each file system
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    made: CreatedFilesystemOptions,
    /// Directory for the result; it must be empty or new
    #[arg(long, value_name = "DIR", required_unless_present = "clean_up")]
    output: Option<PathBuf>,
    /// Size of the database in each directory [default: 1GiB, or as in --config]
    #[arg(long, value_name = "SIZE")]
    size: Option<DatabaseSize>,
    /// Measured time of each turn in each directory [default: 60s, or as in --config]
    #[arg(long, value_name = "TIME")]
    duration: Option<TimeSpan>,
    /// Configuration file for jetcell test performance with further options for the load
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End when the confidence intervals for the differences in transactional I/O are within plus or minus this
    /// percentage
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    precision: f64,
    /// Minimum number of turns
    #[arg(long, alias = "fewest-turns", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    min_repeat: u16,
    /// Maximum number of turns
    #[arg(long, alias = "turns", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Start no further turn after this time
    #[arg(long, alias = "longest", value_name = "TIME", default_value = "24h")]
    time_limit: TimeSpan,
    /// Show every difference as a signed change; by default, positive values are improvements
    #[arg(long)]
    signs_of_change: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

fn percent(text: &str) -> Result<f64, OptionValueError> {
    let kind = QuantityKind::new(units::percent, "2%").with_bare(UnitFactor::ONE);
    kind.parse(text).ok().filter(|value| (0.01..=100.0).contains(value)).ok_or_else(|| {
        OptionValueError::unparsable(text, "a precision", "use a percentage between 0.01 and 100")
    })
}

impl CompareFilesystemsArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let Some(result) = self.test()? else { return Ok(CommandOutcome::Good) };
        let text = || filesystems_text(&result, console::width());
        console::print_serialized(self.json, || json_pretty(&result), text)?;
        Ok(CommandOutcome::good_if(result.skipped.is_empty()))
    }

    /// Runs the test. Returns `None` if leftovers were removed and nothing else was requested.
    fn test(&self) -> CommandResult<Option<FilesystemComparison>> {
        self.made.handle_leftovers()?;
        let Some(output) = &self.output else {
            self.made.report_other_leftovers();
            return Ok(None);
        };
        let plan = self.prepare(output)?;
        self.made.report_other_leftovers();
        let turns = LoadTurns::new(plan.options.clone(), !plan.created.is_empty())?;
        // The maker is created after the Ctrl-C handler is installed. Otherwise Ctrl-C would not remove the
        // maker's directory.
        let maker =
            (!plan.created.is_empty()).then(|| self.made.create_maker(plan.created.len())).transpose()?;
        let tested = self.run_comparison(&plan, maker.as_ref(), &turns, output).and_then(|mut result| {
            result.skipped = plan.skipped;
            if self.signs_of_change {
                result = result.with_signs_of_change();
            }
            store(
                output,
                &filesystems_html(&result),
                &filesystems_markdown(&result),
                &json_pretty(&result)?,
            )?;
            Ok(result)
        });
        let closed = maker.as_ref().map_or(Ok(()), FilesystemMaker::close);
        let closed = closed.map_err(|error| self.made.removal_error(&error));
        match (tested, closed) {
            (tested, Ok(())) => tested.map(Some),
            (Ok(_), Err(left)) => Err(left),
            // Both errors are reported: the reason why the test ended, and the file systems that it could not remove.
            (Err(stopped), Err(left)) => {
                left.print();
                Err(stopped)
            }
        }
    }

    fn run_comparison(
        &self,
        plan: &FilesystemTestPlan,
        maker: Option<&FilesystemMaker<'_>>,
        turns: &LoadTurns,
        output: &Path,
    ) -> CommandResult<FilesystemComparison> {
        let examine = |name: &str, path: &Path| TestedDirectory::examine(name, path, &LocalSystem);
        let named = self.directories.iter().map(|path| examine(&path.display().to_string(), path));
        let mut tested: Vec<TestedDirectory> = named.collect();
        // The properties of a created file system are known only once it is mounted.
        tested.extend(plan.created.iter().map(|one| examine(&one.name, Path::new(""))));
        let names: Vec<String> = tested.iter().map(|one| one.name.clone()).collect();
        let limits = TurnLimits {
            fewest: self.min_repeat.min(self.repeat).into(),
            most: self.repeat.into(),
            precision_percent: self.precision,
            longest: self.time_limit.0,
        };
        let (began, mut seen) = (Instant::now(), vec![None; plan.created.len()]);
        let mut used_before = vec![0; plan.created.len()];
        let measure = &mut |at: usize, turn: usize| {
            if !self.quiet {
                console::print_note(&format!("turn {}: {}", turn + 1, names[at]));
            }
            let output = output.join(format!("runs/{}-{}", at + 1, turn + 1));
            if let Some(path) = self.directories.get(at) {
                return turns.measure(path, &output, turn > 0);
            }
            let number = at - self.directories.len();
            let Some((maker, one)) = maker.zip(plan.created.get(number)) else {
                return Ok(Vec::new());
            };
            let (figures, directory) =
                measure_created(maker, (number, one), turn, turns, &output, &mut used_before[number])?;
            seen[number] = Some(directory);
            Ok(figures)
        };
        let rows = ("File systems", &ROWS[..]);
        let mut result = compare(rows, tested, limits, measure, &|| began.elapsed())?;
        result.complete_directories(seen, &LocalSystem);
        Ok(result)
    }

    /// Returns the test plan. Everything that can be checked before the first write is checked here.
    fn prepare(&self, output: &Path) -> CommandResult<FilesystemTestPlan> {
        require_empty(output, "result")?;
        for (at, path) in self.directories.iter().enumerate() {
            require_empty(&**path, "databases")?;
            let same = |other: &PathBuf| std::path::absolute(other).ok() == std::path::absolute(path).ok();
            if self.directories.iter().take(at).any(same) {
                return Err(CommandError::new(format_args!("{} is specified twice", path.display()))
                    .advise("specify each directory only once"));
            }
        }
        let given = Options { size: self.size, duration: self.duration, ..Options::default() };
        let (made, skipped) = self.made.specifications()?;
        if self.directories.len() + made.len() < 2 {
            return Err(CommandError::new("a comparison needs at least two file systems")
                .advise("specify directories, or use --make"));
        }
        let mut directories = self.directories.clone();
        directories.extend(made.iter().map(|one| PathBuf::from(&one.name)));
        let options = load_options(given, self.config.as_deref(), &directories)?;
        Ok(FilesystemTestPlan { options, created: made, skipped })
    }
}

/// Test plan.
struct FilesystemTestPlan {
    /// Options for the load.
    options: Options,
    /// File systems to create, tested after the directories.
    created: Vec<FilesystemSpecification>,
    skipped: Vec<SkippedFilesystem>,
}
