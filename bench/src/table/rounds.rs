//! Runs steps: child processes, repetition when the machine was not quiet, room for stores.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::measurements::{Measurements, NOT_ASKED_FOR, SampleDisturbance, TableSample};
use super::{TableArgs, machine};
use crate::device;
use crate::engines::ALL;
use crate::stall_monitor::StallMonitor;
use crate::store_args::{record_list, remove_record_lists};
use crate::usage::ProcessUsage;

/// Engines that several rows measure.
pub const FREQUENT: [&str; 3] = ["jetcell", "wiredtiger", "rocksdb"];
/// Argument that binds a child to one processor.
pub const ONE_CORE_SUFFIX: &str = "@one-core";
/// Bytes that stay free on the volume.
const MIN_FREE_BYTES: u64 = 3 << 30;
/// Share of a measurement in which the machine may stand still.
const MAX_STALLED_SHARE: f64 = 0.02;
/// Pause before a measurement is repeated.
const PAUSE: Duration = Duration::from_secs(5);

/// The rounds of the table.
pub struct TableRounds<'a> {
    pub args: &'a TableArgs,
    /// All measurements so far.
    pub measurements: Measurements,
    /// Number of the current round.
    pub round: u32,
    /// When each engine's store was last used.
    used: BTreeMap<String, Instant>,
}

impl<'a> TableRounds<'a> {
    /// Finds the engines that were built, and their versions.
    pub fn new(args: &'a TableArgs) -> Result<TableRounds<'a>> {
        let mut measurements = Measurements {
            machine: machine::describe(&args.dir),
            rows: args.rows.clone(),
            size_mib: args.size_mib(),
            ..Measurements::default()
        };
        if let Ok(version) = device::fio_version() {
            measurements.versions.insert("fio".to_string(), version);
        }
        for engine in ALL {
            let wanted = args.engines.is_empty() || args.engines.iter().any(|name| name == engine);
            let binary = args.binaries.join(engine);
            let missing = if !wanted {
                Some(NOT_ASKED_FOR.to_string())
            } else if !binary.exists() {
                let why = fs::read_to_string(binary.with_extension("missing"));
                Some(why.unwrap_or_else(|_| "not built".to_string()).trim().to_string())
            } else {
                None
            };
            if let Some(why) = missing {
                measurements.missing.insert(engine.to_string(), why);
                continue;
            }
            let output = Command::new(&binary).args(["version", "--engine", engine]).output()?;
            let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
            measurements.versions.insert(engine.to_string(), version);
        }
        Ok(TableRounds { args, measurements, round: 0, used: BTreeMap::new() })
    }

    /// Measured seconds of a mix.
    pub fn seconds(&self) -> f64 {
        self.args.seconds.unwrap_or(if self.args.quick { 5.0 } else { 15.0 })
    }

    /// Seconds of a baseline of the device.
    pub fn baseline_seconds(&self) -> f64 {
        if self.args.quick { 2.0 } else { 5.0 }
    }

    /// Whether an engine is measured.
    pub fn is_measured(&self, engine: &str) -> bool {
        !self.measurements.missing.contains_key(engine)
    }

    /// Whether an engine has a filled store.
    pub fn is_filled(&self, engine: &str) -> bool {
        record_list(&self.args.dir, engine, self.measurements.size_mib).exists()
    }

    /// A file in the directory of the stores.
    pub fn store_path(&self, name: &str) -> PathBuf {
        self.args.dir.join(name)
    }

    /// Notes a failure of a step. The other steps continue.
    pub fn record_failure(&mut self, step: &str, error: &anyhow::Error) {
        self.measurements.failures.insert(step.to_string(), format!("{error:#}"));
    }

    /// Runs a step and stores its result. The step is repeated if the machine was not quiet, or if it failed once.
    pub fn step(&mut self, name: &str, measure: impl Fn(&mut TableRounds<'a>) -> Result<Value>) {
        for attempt in 0.. {
            eprint!("  {name} ... ");
            match self.timed(&measure) {
                Err(error) if attempt == 0 => eprintln!("failed, again: {error:#}"),
                Err(error) => {
                    eprintln!("failed: {error:#}");
                    self.record_failure(name, &error);
                    return;
                }
                Ok((value, disturbance)) => {
                    let quiet = disturbance.other_cores <= self.args.quiet
                        && disturbance.stalled_share <= MAX_STALLED_SHARE;
                    if quiet || attempt >= self.args.retries {
                        eprintln!("{}", if quiet { "done".to_string() } else { disturbance.to_string() });
                        let sample = TableSample { round: self.round, quiet, disturbance, value };
                        self.measurements.samples.entry(name.to_string()).or_default().push(sample);
                        return;
                    }
                    eprintln!("{disturbance}: again");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Runs a measurement and finds out what disturbed it. A child that measures a window of its own reports itself
    /// what other processes used in that window.
    fn timed(
        &mut self,
        measure: &impl Fn(&mut TableRounds<'a>) -> Result<Value>,
    ) -> Result<(Value, SampleDisturbance)> {
        let monitor = StallMonitor::start();
        let before = ProcessUsage::now(&self.args.dir)?;
        let value = measure(self)?;
        let used = before.until_now(&self.args.dir)?;
        let own = [&value["used"]["other_cores"], &value["other_cores"]];
        let other_cores = own.iter().find_map(|one| one.as_f64()).unwrap_or(used.other_cores);
        Ok((value, SampleDisturbance { other_cores, stalled_share: monitor.stalled_share() }))
    }

    /// Runs the binary of an engine and returns the JSON that it prints. [`ONE_CORE_SUFFIX`] among `more` binds it to
    /// one processor.
    pub fn child(&mut self, engine: &str, command: &[&str], more: &[&str]) -> Result<Value> {
        self.used.insert(engine.to_string(), Instant::now());
        let binary = self.args.binaries.join(engine);
        let mut child = if more.contains(&ONE_CORE_SUFFIX) {
            let mut child = Command::new("taskset");
            child.args(["-c", "0"]).arg(&binary);
            child
        } else {
            Command::new(&binary)
        };
        child.args(command).args(more.iter().filter(|one| **one != ONE_CORE_SUFFIX));
        child.arg("--engine").arg(engine).arg("--dir").arg(&self.args.dir);
        child.arg("--size-mib").arg(self.measurements.size_mib.to_string());
        let output = child.stdin(Stdio::null()).output().with_context(|| binary.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        // `crash` prints its result and then ends with a signal.
        let value = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let killed = command.first() == Some(&"crash");
        match value {
            Some(value) if output.status.success() || killed => Ok(value),
            _ if output.status.signal() == Some(9) => {
                bail!("killed, probably because it exceeded its memory limit")
            }
            _ => bail!("{} {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    /// Removes the stores of other engines until one more store fits: first those that few rows need, and among these
    /// the least recently used.
    pub fn make_room(&mut self, engine: &str) -> Result<()> {
        let size_mib = self.measurements.size_mib;
        let need = (size_mib << 20) * 2 + MIN_FREE_BYTES;
        while free(&self.args.dir)? < need {
            let mut others: Vec<&str> = ALL.iter().filter(|name| **name != engine).copied().collect();
            others.retain(|name| self.args.dir.join(name).exists());
            others.sort_by_key(|name| (FREQUENT.contains(name), self.used.get(*name).copied()));
            let Some(oldest) = others.first() else {
                if free(&self.args.dir)? < need - MIN_FREE_BYTES {
                    bail!(
                        "{} does not have enough free space for a store of {size_mib} MiB",
                        self.args.dir.display()
                    );
                }
                return Ok(());
            };
            remove_record_lists(&self.args.dir, oldest)?;
            fs::remove_dir_all(self.args.dir.join(oldest)).context(oldest.to_string())?;
        }
        Ok(())
    }
}

/// Free bytes of the volume of a directory.
fn free(directory: &Path) -> Result<u64> {
    let volume = rustix::fs::statvfs(directory).with_context(|| directory.display().to_string())?;
    Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
}

impl fmt::Display for SampleDisturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stalled = self.stalled_share * 100.0;
        write!(
            f,
            "other processes used {:.2} cores, and the machine was stalled for {stalled:.1} % of the time",
            self.other_cores
        )
    }
}
