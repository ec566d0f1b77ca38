//! Files written by a coordinator: its state, the hosts' results, and the fleet's result.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::iter;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Local};
use jetcell_fleet::result::{FleetResult, RunMetadata, merge_results};
use jetcell_fleet::{
    Coordinator, CoordinatorBackend, CoordinatorState, FleetConfig, FleetEvent, FleetMember, HostResult,
    StorageOutcome, StoreResultError,
};
use jetcell_host::{Evidence, ProgressLine, peak_resident_bytes};
use jetcell_input::error_line;
use jetcell_input::time::format_duration;
use jetcell_report::StoredRun;
use jetcell_vfs::{create_private_directory, open_input, replace_output};
use jetcell_workload::RunResult;
use jetcell_workload::measurement::{Sample, SampleFile};
use serde::{Deserialize, Serialize};

use super::monitor::FleetMonitor;
use super::page::fleet_html;
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};

const STATE: &str = "fleet-state.json";

/// Maximum size of the state file in bytes: ten thousand hosts with a few kilobytes each.
const MAX_STATE: u64 = 64 << 20;

/// Interval between two updates of the displayed hosts and the metrics.
const SHOW_INTERVAL_NS: u64 = 500_000_000;

/// The coordinator's stored state, with the directory of the run.
#[derive(Serialize, Deserialize)]
struct StoredCoordinator {
    directory: PathBuf,
    saved: CoordinatorState,
}

/// Stores a coordinator's state and results, and shows its progress.
pub struct FleetStore {
    output: PathBuf,
    directory: PathBuf,
    quiet: bool,
    line: Option<ProgressLine>,
    monitor: FleetMonitor,
    /// Time, on the coordinator's clock, at which the hosts were last shown.
    shown_ns: u64,
    failed: bool,
}

fn format_time_ns(ns: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(ns).unwrap_or(i64::MAX));
    time.with_timezone(&Local).to_rfc3339_opts(chrono::SecondsFormat::Millis, false)
}

impl FleetStore {
    /// Opens the directory of a fleet without writing to it. Returns the state of an unfinished run, if there is one.
    pub fn open(
        config: &FleetConfig,
        new: bool,
        quiet: bool,
    ) -> CommandResult<(FleetStore, Option<CoordinatorState>)> {
        let output = config.output.clone().unwrap_or_else(|| format!("fleet-{}", config.name).into());
        let state = if new { None } else { read_state(&output.join(STATE))? };
        let (directory, saved) = match state {
            Some(StoredCoordinator { directory, saved }) => {
                (output.join(directory.file_name().unwrap_or_default()), Some(saved))
            }
            None => (output.join(Local::now().format("Fleet_%Y-%m-%d_%H-%M-%S").to_string()), None),
        };
        let line = if quiet { None } else { ProgressLine::new() };
        Ok((
            FleetStore {
                output,
                directory,
                quiet,
                line,
                monitor: FleetMonitor::default(),
                shown_ns: 0,
                failed: false,
            },
            saved,
        ))
    }

    /// Returns the directory of the run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the monitor with the live figures of the hosts.
    pub fn monitor(&self) -> FleetMonitor {
        self.monitor.clone()
    }

    /// Shows a message to the user.
    pub fn show_message(&self, text: &str) {
        self.monitor.add_event_line(text);
        match &self.line {
            _ if self.quiet => {}
            Some(line) => line.suspend(|| console::print_note(text)),
            None => console::print_note(text),
        }
    }

    fn host_directory(&self, rank: u32) -> PathBuf {
        self.directory.join(format!("host-{rank}"))
    }

    /// Removes the state and the empty directories of a run that did not start.
    pub fn abandon(&self) {
        let _ = fs::remove_file(self.output.join(STATE));
        let _ = fs::remove_dir(&self.directory);
        let _ = fs::remove_dir(&self.output);
    }

    /// Combines the hosts' results into the result of the fleet, and stores it.
    pub fn finish(&mut self, coordinator: &Coordinator) -> CommandResult<FleetResult> {
        self.line = None;
        let mut results = BTreeMap::new();
        for member in coordinator
            .members()
            .filter(|member| matches!(member.storage_outcome(), Some(StorageOutcome::Stored(()))))
        {
            let read = StoredRun::read(&self.host_directory(member.rank()))?;
            results.insert(member.rank(), HostResult { result: read.result, samples: read.samples });
        }
        let metadata = RunMetadata {
            evidence: Evidence::collect(iter::empty()),
            started: format_time_ns(coordinator.started_ns()),
            ended: format_time_ns(jetcell_fleet::clock::wall_ns()),
            measured_from: coordinator.start_ns().map(format_time_ns),
            peak_resident_bytes: peak_resident_bytes(),
        };
        let fleet = FleetResult::new(coordinator, &results, metadata);
        let written = || -> std::io::Result<()> {
            if let Some(HostResult { result, samples }) = merge_results(&fleet, &results) {
                write_run(&self.directory, result, &samples)?;
            }
            replace_output(&self.directory.join("report.html"), fleet_html(&fleet, &results))?;
            // This file is written last, so its existence means that the directory is complete.
            replace_output(&self.directory.join("fleet.json"), fleet.to_json())?;
            fs::remove_file(self.output.join(STATE))
        };
        written()
            .context(format_args!("{}: could not write results", self.directory.display()))
            .advise("free some space, and run the command again")?;
        Ok(fleet)
    }

    fn host(coordinator: &Coordinator, rank: u32) -> String {
        coordinator.member(rank).map_or_else(|| format!("rank {rank}"), FleetMember::display_name)
    }
}

fn read_state(path: &Path) -> CommandResult<Option<StoredCoordinator>> {
    let mut text = String::new();
    match open_input(path).and_then(|file| file.take(MAX_STATE).read_to_string(&mut text)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => {
            other.context(format_args!("{}: cannot be read", path.display()))?;
        }
    }
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let what = error_line(&error);
        CommandError::new(format_args!("{} is damaged ({what})", path.display()))
            .advise("--new discards the run")
    })
}

/// Writes a run in the same form in which a test writes its own run.
fn write_run(directory: &Path, mut result: RunResult, samples: &[Sample]) -> std::io::Result<()> {
    create_private_directory(directory)?;
    result.plan.output = directory.into();
    drop(SampleFile::continue_with(&directory.join("samples.csv"), samples)?);
    result.write(&directory.join("result.json"))
}

impl CoordinatorBackend for FleetStore {
    fn store_result(&mut self, rank: u32, bytes: &[u8]) -> Result<(), StoreResultError> {
        let HostResult { result, samples } =
            serde_json::from_slice(bytes).map_err(StoreResultError::Invalid)?;
        let directory = self.host_directory(rank);
        write_run(&directory, result, &samples).map_err(|error| StoreResultError::Io { directory, error })
    }

    fn save_state(&mut self, saved: &CoordinatorState) {
        let state = StoredCoordinator { directory: self.directory.clone(), saved: saved.clone() };
        let path = self.output.join(STATE);
        let text = jetcell_input::json_pretty(&state).expect("states have only string keys");
        let written = create_private_directory(&self.directory).and_then(|()| replace_output(&path, &text));
        let had_failed = std::mem::replace(&mut self.failed, written.is_err());
        if let Err(error) = written
            && !had_failed
        {
            let context =
                "cannot be written; the run continues, but a restarted coordinator cannot resume it";
            CommandError::from(error).context(format_args!("{}: {context}", path.display())).print();
        }
    }

    fn report(&mut self, news: &FleetEvent, fleet: &Coordinator) {
        let host = |rank: &u32| FleetStore::host(fleet, *rank);
        let hosts = fleet.config().size();
        let text = match news {
            FleetEvent::Joined(rank) => {
                format!("{} joined, {} of {hosts}", host(rank), fleet.members().count())
            }
            FleetEvent::BarrierReleased(gate) => gate.title().to_string(),
            FleetEvent::AloneTurnStarted(rank) => format!("{} measures its load alone", host(rank)),
            FleetEvent::Silent(rank) => format!("{} is not responding", host(rank)),
            FleetEvent::Returned(rank) => format!("{} is responding again", host(rank)),
            FleetEvent::DeclaredLost(rank) => format!("{} timed out; the other hosts continue", host(rank)),
            FleetEvent::TestEnded(rank) => format!("{} has finished", host(rank)),
            FleetEvent::Stopping(reason) => format!("Stopping all hosts: {reason}"),
            FleetEvent::BrokerLost => "The NATS server does not respond; hosts continue without it".into(),
            FleetEvent::BrokerRestored => "The NATS server responds again".into(),
        };
        self.show_message(&text);
    }

    fn show_progress(&mut self, fleet: &Coordinator, now_ns: u64) {
        if now_ns < self.shown_ns + SHOW_INTERVAL_NS {
            return;
        }
        self.shown_ns = now_ns;
        self.monitor.update(fleet, now_ns);
        let Some(line) = &self.line else { return };
        let state = self.monitor.state();
        let (hosts, iops, bytes) = state.totals();
        let running = fleet.members().filter(|member| !member.is_settled());
        let fractions: Vec<f64> = running.map(|member| member.heartbeat().fraction).collect();
        let share = (!fractions.is_empty()).then(|| fractions.iter().sum::<f64>() / fractions.len() as f64);
        let mut details = format!("{} of {} hosts", fleet.members().count(), fleet.config().size());
        if hosts > 0 {
            details = format!("{iops:.0} IOPS, {:.1} MB/s on {hosts} hosts", bytes / 1e6);
        }
        line.show(state.title, share, &format!("{details}, {} so far", format_duration(state.since)));
    }
}
