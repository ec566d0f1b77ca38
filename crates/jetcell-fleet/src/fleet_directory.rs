//! Directories of a coordinator: the state of the run, the hosts' results, and the fleet's result.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::iter;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Local, SecondsFormat};
use jetcell_host::{Evidence, peak_resident_bytes};
use jetcell_input::error_line;
use jetcell_vfs::{create_private_directory, open_input, replace_output};
use jetcell_workload::RunResult;
use jetcell_workload::measurement::{Sample, SampleFile};
use serde::{Deserialize, Serialize};

use crate::clock::wall_ns;
use crate::config::FleetConfig;
use crate::coordinator::{Coordinator, CoordinatorState, FleetMember, StorageOutcome, StoreResultError};
use crate::result::{FleetResult, RunMetadata, merge_results};
use crate::result_transfer::HostResult;

const STATE: &str = "fleet-state.json";

/// Maximum size of the state file in bytes: ten thousand hosts with a few kilobytes each.
const MAX_STATE: u64 = 64 << 20;

/// The coordinator's stored state, with the directory of the run.
#[derive(Serialize, Deserialize)]
struct StoredCoordinator {
    directory: PathBuf,
    saved: CoordinatorState,
}

/// Reason why the state of an unfinished run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FleetStateError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is damaged.
    #[error("{} is damaged ({})", .0.display(), error_line(.1))]
    Damaged(PathBuf, #[source] serde_json::Error),
}

impl FleetStateError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&'static str> {
        matches!(self, FleetStateError::Damaged(..)).then_some("--new discards the run")
    }
}

/// The output directory of a coordinator, and the directory of its run.
pub struct FleetDirectory {
    output: PathBuf,
    directory: PathBuf,
}

impl FleetDirectory {
    /// Opens the output directory of a fleet without writing to it. Returns the state of an unfinished run, if there
    /// is one, unless a new run is requested.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn open(
        config: &FleetConfig,
        new: bool,
    ) -> Result<(FleetDirectory, Option<CoordinatorState>), FleetStateError> {
        let output = config.output.clone().unwrap_or_else(|| format!("fleet-{}", config.name).into());
        let (name, saved) = match if new { None } else { read_state(&output.join(STATE))? } {
            Some(StoredCoordinator { directory, saved }) => {
                (directory.file_name().unwrap_or_default().to_owned(), Some(saved))
            }
            None => (Local::now().format("Fleet_%Y-%m-%d_%H-%M-%S").to_string().into(), None),
        };
        Ok((FleetDirectory { directory: output.join(name), output }, saved))
    }

    /// Returns the directory of the run.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory for the result of a host.
    pub fn host_directory(&self, rank: u32) -> PathBuf {
        self.directory.join(format!("host-{rank}"))
    }

    /// Returns the file with the state of the run.
    pub fn state_file(&self) -> PathBuf {
        self.output.join(STATE)
    }

    /// Removes the state and the empty directories of a run that did not start.
    pub fn abandon(&self) {
        let _ = fs::remove_file(self.state_file());
        let _ = fs::remove_dir(&self.directory);
        let _ = fs::remove_dir(&self.output);
    }

    /// Stores the state of the run durably.
    ///
    /// # Errors
    /// A directory or the file cannot be written, or the path of the directory is not UTF-8.
    pub fn save_state(&self, saved: &CoordinatorState) -> io::Result<()> {
        let state = StoredCoordinator { directory: self.directory.clone(), saved: saved.clone() };
        let text = jetcell_input::json_pretty(&state)?;
        create_private_directory(&self.directory)?;
        replace_output(&self.state_file(), text)
    }

    /// Stores the result of a host durably.
    ///
    /// # Errors
    /// The result cannot be parsed or written.
    pub fn store_result(&self, rank: u32, bytes: &[u8]) -> Result<(), StoreResultError> {
        let HostResult { result, samples } =
            serde_json::from_slice(bytes).map_err(StoreResultError::Invalid)?;
        let directory = self.host_directory(rank);
        write_run(&directory, result, &samples).map_err(|error| StoreResultError::Io { directory, error })
    }

    /// Returns the directories of all stored host results, by rank.
    pub fn stored_results(&self, coordinator: &Coordinator) -> BTreeMap<u32, PathBuf> {
        let is_stored =
            |member: &&FleetMember| matches!(member.storage_outcome(), Some(StorageOutcome::Stored(())));
        let members = coordinator.members().filter(is_stored);
        members.map(|member| (member.rank(), self.host_directory(member.rank()))).collect()
    }

    /// Combines the hosts' results into the result of the fleet, stores it together with the report that `html`
    /// renders, and removes the state.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(
        &self,
        coordinator: &Coordinator,
        results: &BTreeMap<u32, HostResult>,
        html: impl FnOnce(&FleetResult) -> String,
    ) -> io::Result<FleetResult> {
        let metadata = RunMetadata {
            evidence: Evidence::collect(iter::empty()),
            started: format_time_ns(coordinator.started_ns()),
            ended: format_time_ns(wall_ns()),
            measured_from: coordinator.start_ns().map(format_time_ns),
            peak_resident_bytes: peak_resident_bytes(),
        };
        let fleet = FleetResult::new(coordinator, results, metadata);
        if let Some(HostResult { result, samples }) = merge_results(&fleet, results) {
            write_run(&self.directory, result, &samples)?;
        }
        replace_output(&self.directory.join("report.html"), html(&fleet))?;
        // This file is written last, so its existence means that the directory is complete.
        replace_output(&self.directory.join("fleet.json"), jetcell_input::json_pretty(&fleet)?)?;
        fs::remove_file(self.state_file())?;
        Ok(fleet)
    }
}

fn read_state(path: &Path) -> Result<Option<StoredCoordinator>, FleetStateError> {
    let mut text = String::new();
    match open_input(path).and_then(|file| file.take(MAX_STATE).read_to_string(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FleetStateError::Unreadable(path.to_path_buf(), error)),
        Ok(_) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| FleetStateError::Damaged(path.to_path_buf(), error)),
    }
}

/// Writes a run in the format in which a test stores its own run.
fn write_run(directory: &Path, mut result: RunResult, samples: &[Sample]) -> io::Result<()> {
    create_private_directory(directory)?;
    result.plan.output = directory.into();
    drop(SampleFile::continue_with(&directory.join("samples.csv"), samples)?);
    result.write(&directory.join("result.json"))
}

fn format_time_ns(ns: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(ns).unwrap_or(i64::MAX));
    time.with_timezone(&Local).to_rfc3339_opts(SecondsFormat::Millis, false)
}
