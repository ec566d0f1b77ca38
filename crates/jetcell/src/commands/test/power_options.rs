//! Energy used by a run, from a meter that is read during the run or from the log of another meter.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jetcell_power::{EnergyEstimate, MeterKind, MeterScope, PowerLog};
use jetcell_vfs::{UnfinishedFile, open_input};
use jetcell_workload::result::{RunEnergy, RunResult};

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::power_recording::{PowerRecording, RecordingThread};
use crate::shared::tariff::TariffOptions;

/// Target number of readings during the measured time. The resulting interval is limited to a minimum and a maximum.
/// Larger gaps between readings would be refused.
const TARGET_READINGS: u32 = 20;
const MIN_READING_INTERVAL: Duration = Duration::from_millis(100);
const MAX_READING_INTERVAL: Duration = Duration::from_secs(1);
/// Name of the meter's log in the results directory.
const POWER_LOG_FILE: &str = "power.csv";

/// Options for measuring the energy used by a run.
#[derive(Args, Clone)]
#[command(next_help_heading = "Energy")]
pub struct PowerOptions {
    /// Read a power meter during the run: rapl, hwmon[=NAME], ipmi, tasmota=URL, shelly=URL, shelly1=URL
    #[arg(long, value_name = "METER")]
    power_meter: Option<MeterKind>,
    /// Log of a meter that runs during the test (CSV as written by jetcell power record); it is read at the end
    #[arg(long, value_name = "FILE", conflicts_with = "power_meter")]
    power_log: Option<PathBuf>,
    /// Scope of the meter: drive, enclosure, server or processor [default: reported by the meter or its log]
    #[arg(long, value_name = "SCOPE")]
    power_scope: Option<MeterScope>,
    #[command(flatten)]
    tariff: TariffOptions,
}

/// Reads a power meter during a test run.
pub struct RunMeter {
    options: PowerOptions,
    /// Thread that writes the log, and the directory that holds the log until it is copied to the results.
    recording: Option<(RecordingThread, tempfile::TempDir)>,
}

impl PowerOptions {
    /// Opens the meter and starts reading it, for a run with the given measured time. If this fails, the run has not
    /// changed anything yet.
    pub fn start(self, measured: Duration) -> CommandResult<RunMeter> {
        let Some(kind) = &self.power_meter else {
            if self.power_log.is_none() && self.power_scope.is_some() {
                return Err(CommandError::new("--power-scope requires --power-meter or --power-log")
                    .advise("add one of them, or omit --power-scope"));
            }
            return Ok(RunMeter { options: self, recording: None });
        };
        let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
        let recording = PowerRecording::open(kind, self.power_scope, &directory.path().join(POWER_LOG_FILE))?;
        let thread = recording
            .start_thread((measured / TARGET_READINGS).clamp(MIN_READING_INTERVAL, MAX_READING_INTERVAL))?;
        Ok(RunMeter { options: self, recording: Some((thread, directory)) })
    }
}

impl RunMeter {
    /// Adds the energy used during the measured time to the result. If the energy is unknown, prints the reason; the
    /// other figures of the run remain valid.
    pub fn finish(self, result: &mut RunResult) {
        let found = match self.recording {
            Some((thread, directory)) => {
                let kept = result.plan.output.join(POWER_LOG_FILE);
                let recorded = thread.finish();
                // The readings before a failure of the meter remain useful.
                let copied = copy_log(&directory.path().join(POWER_LOG_FILE), &kept);
                let name = self.options.power_meter.as_ref().map(ToString::to_string).unwrap_or_default();
                recorded.and(copied).and_then(|()| energy_of(&self.options, &kept, name, result))
            }
            None => match &self.options.power_log {
                Some(log) => energy_of(&self.options, log, log.display().to_string(), result),
                None => return,
            },
        };
        match found {
            Ok(energy) => result.energy = Some(energy),
            Err(failure) => {
                console::print_note(&format!(
                    "the result does not contain energy values: {}",
                    failure.full_text()
                ));
            }
        }
    }
}

fn copy_log(from: &Path, to: &Path) -> CommandResult<()> {
    let copy = || {
        let mut copy = UnfinishedFile::create(to)?;
        io::copy(&mut open_input(from)?, &mut copy)?;
        copy.finish()
    };
    copy().context(format_args!("{} cannot be written", to.display()))
}

fn energy_of(
    options: &PowerOptions,
    log: &Path,
    meter: String,
    result: &RunResult,
) -> CommandResult<RunEnergy> {
    let (from, to) = result.measured_window()?;
    let log = PowerLog::read(log, options.power_scope)?;
    let used = log.energy_between(from, to)?;
    let tariff = options.tariff.tariff();
    let energy = EnergyEstimate::from_watts(used.watts(), log.scope, &tariff);
    Ok(RunEnergy {
        meter,
        energy,
        seconds: used.seconds,
        joules: used.joules,
        joules_per_transactional_io: energy.joules_per(result.achieved_transactional_iops),
        tariff,
        currency: options.tariff.currency.clone(),
    })
}
