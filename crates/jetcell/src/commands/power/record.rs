//! `jetcell power record`: reads a meter while a command runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_host::cancelled_by_signals;
use jetcell_power::{MeterKind, MeterScope};
use jetcell_workload::units::TimeSpan;

use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::power_recording::PowerRecording;

const EXAMPLES: &str = "\
Meters:
  rapl            counters of processor and memory, without drives; requires root
  hwmon[=NAME]    a sensor of the kernel's hardware monitor, by the name of its chip, its directory (hwmon2) or its path
  ipmi            the board controller of the server, through ipmitool
  tasmota=URL     smart plug with Tasmota
  shelly=URL      smart plug by Shelly, second generation and later
  shelly1=URL     smart plug by Shelly, first generation

Examples:
  jetcell power record --meter rapl --output power.csv -- jetcell test performance --dir /mnt/data --output run
  jetcell power record --meter shelly=http://192.168.1.20 --scope enclosure --output power.csv
      until Ctrl-C

A meter that returns no reading, such as a relay without a meter, is an error before the command starts. If the meter fails later, the
command continues, and the log has a gap: the energy of a window that spans the gap is unknown.

Exit code: that of the command, if it is 0 or 1; 2 if the command exited otherwise, or if the meter failed.";

/// Interval between two checks for the exit of the command.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Read a meter while a command runs, or until Ctrl-C
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordPowerArgs {
    /// Meter to read
    #[arg(long, value_name = "METER")]
    meter: MeterKind,
    /// Scope of the meter: drive, enclosure, server or processor [default: reported by the meter]
    #[arg(long, value_name = "SCOPE")]
    scope: Option<MeterScope>,
    /// File for the log; it must be new
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Interval between two readings, 100ms to 10s; processor counters may wrap within a minute
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: TimeSpan,
    /// Command to run, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RecordPowerArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let interval = self.interval.0;
        if !(Duration::from_millis(100)..=Duration::from_secs(10)).contains(&interval) {
            return Err(
                CommandError::new("--interval is out of range").advise("use a value between 100ms and 10s")
            );
        }
        let mut recording = PowerRecording::open(&self.meter, self.scope, &self.output)?;
        let cancel = cancelled_by_signals()?;
        let mut running = RecordedCommand::start(&self.command)?;
        let began = Instant::now();
        let mut next = interval;
        loop {
            let end = running.exit_status()?;
            let stop = end.is_some() || (running.0.is_none() && cancel.is_cancelled());
            if stop || began.elapsed() >= next {
                next = began.elapsed() + interval;
                if let Err(error) = recording.read() {
                    return Ok(self.wait_after_failure(&mut running, error));
                }
            }
            if stop {
                return self.outcome(end, recording.failures);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Prints the failure of the meter immediately, because the command may run for hours.
    fn wait_after_failure(&self, running: &mut RecordedCommand, error: CommandError) -> CommandOutcome {
        let is_running = running.exit_status().is_ok_and(|status| status.is_none()) && running.0.is_some();
        let error = if is_running { error.add_advice("waiting for the command to exit") } else { error };
        let outcome = error.print();
        if let Err(error) = running.wait_for_exit() {
            error.print();
        }
        outcome
    }

    fn outcome(&self, end: Option<ExitStatus>, failures: u64) -> CommandResult {
        if failures > 0 {
            let error = CommandError::new(format_args!("{}: {failures} readings failed", self.meter));
            return Err(error.advise(format!("check the meter; {} has gaps", self.output.display())));
        }
        Ok(match end.map(|status| status.code()) {
            None | Some(Some(0)) => CommandOutcome::Good,
            Some(Some(1)) => CommandOutcome::Findings,
            Some(_) => CommandOutcome::CouldNotRun,
        })
    }
}

/// The running command, if there is one. It also receives Ctrl-C, and the log ends when it exits.
struct RecordedCommand(Option<Child>);

impl RecordedCommand {
    fn start(command: &[OsString]) -> CommandResult<RecordedCommand> {
        let Some((program, arguments)) = command.split_first() else { return Ok(RecordedCommand(None)) };
        let child = Command::new(program).args(arguments).spawn();
        let child = child.context(format_args!("could not run {}", program.display()))?;
        Ok(RecordedCommand(Some(child)))
    }

    fn exit_status(&mut self) -> CommandResult<Option<ExitStatus>> {
        let Some(child) = &mut self.0 else { return Ok(None) };
        child.try_wait().context("waiting for the command failed")
    }

    fn wait_for_exit(&mut self) -> Result<(), CommandError> {
        let Some(child) = &mut self.0 else { return Ok(()) };
        child.wait().map(drop).context("waiting for the command failed")
    }
}
