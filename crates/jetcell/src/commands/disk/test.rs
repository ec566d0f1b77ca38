//! `jetcell disk test`: measures drives and file systems.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jetcell_host::machine::ArrayStorage;
use jetcell_host::{Cancellation, ProgressReport, cancelled_by_signals};
use jetcell_input::quantity::{QuantityError, positive, within};
use jetcell_input::time::format_duration;
use jetcell_input::{OptionValueError, json_pretty};
use jetcell_lab::drive::{
    DriveTest, DriveTestError, DriveTestOptions, DriveTestProgress, TargetCosts, TestTarget, WritePermission,
    is_step, test,
};
use jetcell_lab::{ErasableDevice, LocalSystem};
use jetcell_power::MeterScope;
use jetcell_report::{drive_test_html, drive_test_markdown, drive_test_text};
use jetcell_vfs::{MountedVfs, RealOptions, RealVfs, Vfs};
use jetcell_workload::units::{ByteSize, TimeSpan};

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::array_volumes::{mount_arrays, resolve_array_directories};
use crate::shared::empty_directory::require_empty;
use crate::shared::result_directory::store;
use crate::shared::tariff::above_zero;

const EXAMPLES: &str = "\
Examples:
  jetcell disk test /mnt/data
      reads and writes an unnamed file of 500 MB, which is removed at the end
  jetcell disk test /mnt/data --size 8GiB --precondition --time-limit 30m --output result
      a flash drive in its steady state; result.json, report.md, and report.html with charts in the directory result
  jetcell disk test /mnt/green /mnt/black
      two drives alternately, with differences, their confidence intervals and significance
  jetcell disk test /dev/sdb
      a device, which is only read; needs root
  jetcell disk test --erase /dev/sdb --precondition --output result
      the same device, read and written: everything on it is lost
  jetcell disk test /mnt/data --steps sync,mixed_8k --json
      only some steps
  jetcell disk test /mnt/green /mnt/black --price 139 --price 249 --watts 4.5 --watts 8.4 --power-scope drive
      also shows the specified prices and power of the drives
  jetcell disk test array:arr1 /mnt/data
      an array made by jetcell raid create, compared with a file system; jetcell raid bench does the same

Existing files and devices are only read. --erase overwrites devices; --write with --force overwrites existing files.

Exit code: 0 tested, 1 a read did not return the data just written, 2 could not run.";

/// Minimum transfer size in bytes that is tested.
const MIN_TRANSFER: usize = 512;

/// Measure drives and file systems: transfer rates, access times, queue depths, syncs and mixed loads
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DiskTestArgs {
    /// Directories, files or block devices; several are tested alternately and compared
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<PathBuf>,
    /// Create a file at each path that does not exist, write to it, and remove it
    #[arg(long, group = "writing")]
    write: bool,
    /// Also write to the devices: all data on them is lost. Mounted devices, the disk of the running system, and
    /// parts of arrays and volumes are refused
    #[arg(long, group = "writing")]
    erase: bool,
    /// With --erase, also erase devices with file systems, partitions or array members that are not in use; with
    /// --write, also overwrite existing files: their content is lost
    #[arg(long, requires = "writing")]
    force: bool,
    #[command(flatten)]
    options: MeasurementOptions,
}

/// Options for a drive measurement and its result.
#[derive(Args)]
pub struct MeasurementOptions {
    /// Size of the file that is created in a directory
    #[arg(long, value_name = "SIZE", default_value = "500MB")]
    size: ByteSize,
    /// Run only these steps; their names are in result.json and in the documentation
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = step)]
    steps: Vec<String>,
    /// Maximum duration of each step
    #[arg(long, alias = "seconds", value_name = "TIME", default_value = "3s", value_parser = step_duration)]
    duration: TimeSpan,
    /// Maximum duration of the whole test, including fill and preconditioning: steps are shortened to fit [default:
    /// no limit]
    #[arg(long, alias = "longest", value_name = "TIME", value_parser = positive::<TimeSpan>)]
    time_limit: Option<TimeSpan>,
    /// Number of repetitions of each step on each target [default: 1; 4 for several targets]
    #[arg(long, alias = "repetitions", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Number of zones in the transfer curve
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    zones: u16,
    /// Precondition flash: first write the test files twice, then at random offsets until the rate is steady
    #[arg(long)]
    precondition: bool,
    /// End each write step with a sync and include it in the time, so that rates are those of durable writes
    #[arg(long)]
    end_sync: bool,
    /// Seed for the random offsets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Price of each target, for the report; specify once per target, in order
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    price: Vec<f64>,
    /// Mean power of each target in watts, for the report; specify once per target, in order
    #[arg(long, value_name = "W", requires = "power_scope", value_parser = above_zero)]
    watts: Vec<f64>,
    /// Scope of the power measurement: drive, enclosure, server or processor
    #[arg(long, value_name = "SCOPE", requires = "watts")]
    power_scope: Option<MeterScope>,
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "PRICE", requires = "watts", value_parser = above_zero)]
    price_per_kwh: Option<f64>,
    /// Name of the currency
    #[arg(long, value_name = "NAME")]
    currency: Option<String>,
    /// Directory for result.json, report.html with charts, and report.md; it must be empty or new
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn step(text: &str) -> Result<String, OptionValueError> {
    let example = "try a name such as transfer_read, random_read_4k or sync";
    if is_step(text) {
        Ok(text.into())
    } else {
        Err(OptionValueError::new("there is no step with this name", example))
    }
}

fn step_duration(text: &str) -> Result<TimeSpan, QuantityError> {
    let limits = TimeSpan(Duration::from_millis(10))..=TimeSpan(Duration::from_secs(24 * 3600));
    within(limits)(text)
}

impl DiskTestArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if let Some(path) = self.targets.first()
            && self.erase
            && !self.targets.iter().any(|path| is_device(path))
        {
            let shown = path.display();
            return Err(CommandError::new(format_args!(
                "{shown} is not a block device, but --erase applies only to devices"
            ))
            .advise("specify a device"));
        }
        self.options.run(&self.targets, &|vfs, path| self.open(vfs, path))
    }

    fn open(&self, vfs: &dyn Vfs, path: &Path) -> CommandResult<TestTarget> {
        if self.erase && is_device(path) {
            let device = ErasableDevice::claim(path, self.force, &LocalSystem)?;
            return Ok(TestTarget::erase(vfs, device)?);
        }
        let writing = match (self.write, self.force) {
            (false, _) => WritePermission::ReadOnly,
            (true, false) => WritePermission::NewFiles,
            (true, true) => WritePermission::AllFiles,
        };
        Ok(TestTarget::open(vfs, path, self.options.size.0, writing)?)
    }
}

/// Function that opens a target by its path.
type OpenTargetFn<'a> = &'a dyn Fn(&dyn Vfs, &Path) -> CommandResult<TestTarget>;

impl MeasurementOptions {
    /// Returns the size in bytes of the file that is created in a directory.
    #[cfg(feature = "arrays")]
    pub fn size(&self) -> u64 {
        self.size.0
    }

    /// Measures the targets and reports the result.
    pub fn run(&self, targets: &[PathBuf], open: OpenTargetFn<'_>) -> CommandResult {
        let result = self.test(targets, open)?;
        console::print_serialized(
            self.json,
            || json_pretty(&result),
            || drive_test_text(&result, console::width()),
        )?;
        Ok(if result.has_mismatches() { CommandOutcome::Findings } else { CommandOutcome::Good })
    }

    fn test(&self, targets: &[PathBuf], open: OpenTargetFn<'_>) -> CommandResult<DriveTest> {
        require_empty(self.output.as_deref(), "result")?;
        for (values, name) in [(&self.price, "--price"), (&self.watts, "--watts")] {
            if !values.is_empty() && values.len() != targets.len() {
                return Err(CommandError::new(format_args!(
                    "the number of values of {name} differs from the number of targets"
                ))
                .advise("specify it once for each target, or omit it"));
            }
        }
        let real = RealVfs::new(RealOptions::default())
            .context("could not start the I/O threads")?
            .with_smallest_transfer(MIN_TRANSFER);
        let backend = real.backend_name();
        let cancel = cancelled_by_signals()?;
        let mut paths = targets.to_vec();
        let arrays = resolve_array_directories(&mut paths)?;
        let volumes = mount_arrays(arrays)?;
        let vfs = MountedVfs::new(Arc::new(real), volumes.mounts());
        let opened = paths.iter().map(|path| open(&vfs, path)).collect::<Result<Vec<TestTarget>, _>>();
        let tested = opened.and_then(|targets| self.measure(targets, backend, &cancel, &volumes.storage()));
        drop(vfs);
        volumes.close()?;
        tested
    }

    fn measure(
        &self,
        targets: Vec<TestTarget>,
        backend: &'static str,
        cancel: &Cancellation,
        arrays: &[(PathBuf, ArrayStorage)],
    ) -> CommandResult<DriveTest> {
        let options = DriveTestOptions {
            seconds: self.duration.0.as_secs_f64(),
            repetitions: self
                .repeat
                .map_or_else(|| DriveTestOptions::default_repetitions(targets.len()), usize::from),
            zones: self.zones.into(),
            precondition: self.precondition,
            end_sync: self.end_sync,
            seed: self.seed,
            only: self.steps.clone(),
            longest_seconds: self.time_limit.map(|limit| limit.0.as_secs_f64()),
            costs: TargetCosts {
                prices: self.price.clone(),
                watts: self.watts.clone(),
                power_scope: self.power_scope,
                price_per_kwh: self.price_per_kwh,
                currency: self.currency.clone(),
            },
        };
        let mut shown = DiskTestProgress(ProgressReport::new(ProgressReport::PLAIN_INTERVAL));
        let result = test(targets, backend, &options, cancel, &mut |at| shown.show(&at));
        drop(shown);
        let result = match result {
            // Transfers are still in flight, and closing the files would wait for them.
            Err(error @ DriveTestError::Stalled { .. }) => {
                std::process::exit(CommandError::from(error).print() as i32)
            }
            result => result,
        };
        let mut result = result?;
        result.evidence.machine.set_arrays(arrays);
        if let Some(output) = &self.output {
            store(output, &drive_test_html(&result), &drive_test_markdown(&result), &json_pretty(&result)?)?;
        }
        Ok(result)
    }
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// Progress output on stderr: a single updated line on a terminal, otherwise periodic lines.
struct DiskTestProgress(ProgressReport);

impl DiskTestProgress {
    fn show(&mut self, at: &DriveTestProgress) {
        if !self.0.is_due() {
            return;
        }
        let left = at.max_remaining.map_or_else(
            || "time unknown".to_string(),
            |left| format!("at most {} left", format_duration(left)),
        );
        let written =
            at.written.map_or_else(String::new, |share| format!(" {:.0} %", (share * 100.0).floor()));
        if let Some(line) = self.0.line() {
            line.show("testing", at.fraction_elapsed(), &format!("{left}, {}{written}", at.title));
        } else {
            console::print_note(&format!("{} of {}: {}{written}, {left}", at.done, at.total, at.title));
        }
    }
}
