//! Table that shows several copies and instances: one line for each copy, and for each directory that cannot be
//! reached.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_copies::{CopyState, CopyStatus, RegisteredCopy};
use jetcell_host::host_name;
use jetcell_input::json_path;
use jetcell_input::number::human_bytes;
use jetcell_remote::HostAddress;
use jetcell_report::{ReportCell, ReportTable, Tone, flush_table_text};
use serde_json::{Value, json};

use super::{CopiesSide, contact_gap, copy_json, copy_status, registered_json};
use crate::console;
use crate::outcome::{CommandError, CommandOutcome};
use crate::shared::remote::CommandFileSystems;

const COLUMN_HEADERS: [&str; 7] = ["ASKED", "HOST", "COPY", "HEALTH", "COPY QUEUE", "REPLAY QUEUE", "LAG"];

/// Shows the contents of each directory. An unreachable directory does not prevent the others from being shown.
pub fn show(
    places: &CommandFileSystems,
    directories: &[PathBuf],
    max_lag: Option<Duration>,
    as_json: bool,
) -> CommandOutcome {
    let (mut rows, mut sides, mut good, mut failed) = (Vec::new(), Vec::new(), true, false);
    for directory in directories {
        let side = CopiesSide::detect(places, directory);
        good &= match &side {
            Ok(CopiesSide::Copy(state)) => copy_status(places.vfs(), directory, state).is_fit(state, max_lag),
            Ok(CopiesSide::Instance(copies)) => copies.iter().all(|copy| copy.is_fit(max_lag)),
            Err(_) => true,
        };
        failed |= side.is_err();
        if as_json {
            sides.push(as_value(places, directory, &side));
        } else {
            rows.extend(table_rows(places, directory, &side));
        }
    }
    console::print_result(as_json, || json!({ "sides": sides }), || flush_table_text(&table(rows)));
    match (failed, good) {
        (true, _) => CommandOutcome::CouldNotRun,
        (false, true) => CommandOutcome::Good,
        (false, false) => CommandOutcome::Findings,
    }
}

fn as_value(places: &CommandFileSystems, directory: &Path, side: &Result<CopiesSide, CommandError>) -> Value {
    let vfs = places.vfs();
    match side {
        Ok(CopiesSide::Copy(state)) => json!({
            "path": json_path(directory), "host": host_of(directory),
            "state": copy_json(vfs, directory, (state, &copy_status(vfs, directory, state))),
        }),
        Ok(CopiesSide::Instance(copies)) => {
            let copies: Vec<Value> = copies.iter().map(|copy| registered_json(vfs, copy)).collect();
            json!({ "path": json_path(directory), "host": host_of(directory), "copies": copies })
        }
        Err(what) => {
            json!({ "path": json_path(directory), "host": host_of(directory), "error": what.full_text() })
        }
    }
}

/// Returns the host of a directory.
fn host_of(directory: &Path) -> String {
    match HostAddress::from_path(directory) {
        Some(Ok(address)) => address.host,
        _ => host_name(),
    }
}

fn table(rows: Vec<Vec<ReportCell>>) -> ReportTable {
    ReportTable::text_columns("", &COLUMN_HEADERS).rows(rows)
}

fn table_rows(
    places: &CommandFileSystems,
    directory: &Path,
    side: &Result<CopiesSide, CommandError>,
) -> Vec<Vec<ReportCell>> {
    let asked = directory.display().to_string();
    let row = |host: String, copy: &str, figures: Vec<ReportCell>| {
        let first = [asked.as_str().into(), host.into(), copy.into()];
        let mut cells: Vec<ReportCell> = first.into_iter().chain(figures).collect();
        cells.resize(COLUMN_HEADERS.len(), "-".into());
        cells
    };
    match side {
        Ok(CopiesSide::Copy(state)) => {
            let status = copy_status(places.vfs(), directory, state);
            vec![row(host_of(directory), "-", figures(Some(state), &status))]
        }
        Ok(CopiesSide::Instance(copies)) if copies.is_empty() => {
            vec![row(host_of(directory), "-", vec!["no copies are registered".into()])]
        }
        Ok(CopiesSide::Instance(copies)) => copies
            .iter()
            .map(|copy| {
                let RegisteredCopy { registration, is_cut_off, state, status } = copy;
                let host = registration.host.clone().unwrap_or_else(|| "?".into());
                let place = &registration.copy;
                if *is_cut_off {
                    return row(host, place, vec![ReportCell::from("CUT OFF").with_tone(Tone::Bad)]);
                }
                let mut cells = figures(state.as_ref(), status);
                if state.is_none()
                    && let Some(what) = &registration.waiting
                {
                    cells[0] = format!("waits: {what}").into();
                }
                row(host, place, cells)
            })
            .collect(),
        Err(what) => {
            let unreachable =
                ReportCell::verdict("UNREACHABLE", Tone::Bad, format!(": {}", what.full_text()));
            vec![row(host_of(directory), "-", vec![unreachable])]
        }
    }
}

/// Returns the health, the queues and the lag as text. If the state of a copy is unknown, its contact is shown as its
/// health.
fn figures(state: Option<&CopyState>, status: &CopyStatus) -> Vec<ReportCell> {
    let seconds = status.lag.seconds.map_or("unknown time".to_string(), |seconds| format!("{seconds} s"));
    let known = state.map_or("in contact", |state| status.health(state));
    let gap = contact_gap(status).filter(|_| matches!(known, "in contact" | "no_contact"));
    vec![
        gap.unwrap_or_else(|| known.to_string()).into(),
        status.copy_queue.to_string().into(),
        status.replay_queue.to_string().into(),
        format!("{}, {seconds}", human_bytes(status.lag.bytes)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_are_shown() {
        let row = |first: &str, last: &str| {
            let mut row: Vec<ReportCell> = vec!["-".into(); COLUMN_HEADERS.len()];
            (row[0], row[6]) = (first.into(), last.into());
            row
        };
        let rows = vec![row("tls://db1:9440/app", "1 MiB"), row("x\u{1b}[2J", "2")];
        let text = flush_table_text(&table(rows)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let dash_position = |line: &str| line.chars().position(|character| character == '-');
        assert_eq!((lines.len(), dash_position(lines[1])), (3, dash_position(lines[2])));
        assert!(!text.contains('\u{1b}') && lines[0].ends_with("LAG"), "{text}");
    }
}
