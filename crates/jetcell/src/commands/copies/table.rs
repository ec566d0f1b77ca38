//! Table that shows several copies and instances: one line for each copy, and for each directory that cannot be
//! reached.

use std::path::{Path, PathBuf};

use jetcell_copies::{CopyLag, CopyState, health};
use jetcell_host::host_name;
use jetcell_input::number::human_bytes;
use jetcell_input::printable;
use jetcell_remote::HostAddress;
use jetcell_vfs::{Clock, RealClock};
use serde_json::{Value, json};

use super::{CopiesSide, RegisteredCopyReport, copy_json, is_fit, registered_json};
use crate::console;
use crate::outcome::{CommandError, CommandOutcome};
use crate::shared::remote::CommandFileSystems;

const COLUMN_HEADERS: [&str; 7] = ["ASKED", "HOST", "COPY", "HEALTH", "COPY QUEUE", "REPLAY QUEUE", "BEHIND"];

/// Shows the contents of each directory. An unreachable directory does not prevent the others from being shown.
pub fn show(places: &CommandFileSystems, directories: &[PathBuf], as_json: bool) -> CommandOutcome {
    let (mut rows, mut sides, mut good, mut failed) = (Vec::new(), Vec::new(), true, false);
    for directory in directories {
        let side = CopiesSide::detect(places, directory);
        good &= match &side {
            Ok(CopiesSide::Copy(state)) => is_fit(state),
            Ok(CopiesSide::Instance(copies)) => copies.iter().all(RegisteredCopyReport::is_fit),
            Err(_) => true,
        };
        failed |= side.is_err();
        if as_json {
            sides.push(as_value(places, directory, &side));
        } else {
            rows.extend(table_rows(directory, &side));
        }
    }
    console::print_json_or_text(
        as_json,
        &(if as_json { format!("{}\n", json!({ "sides": sides })) } else { align_columns(&rows) }),
    );
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
            "path": directory, "host": host_of(directory), "state": copy_json(vfs, directory, state),
        }),
        Ok(CopiesSide::Instance(copies)) => {
            let copies: Vec<Value> = copies.iter().map(|copy| registered_json(vfs, copy)).collect();
            json!({ "path": directory, "host": host_of(directory), "copies": copies })
        }
        Err(what) => json!({ "path": directory, "host": host_of(directory), "error": what.full_text() }),
    }
}

/// Returns the host of a directory.
fn host_of(directory: &Path) -> String {
    match HostAddress::from_path(directory) {
        Some(Ok(address)) => address.host,
        _ => host_name(),
    }
}

type CopyTableRow = [String; COLUMN_HEADERS.len()];

fn table_rows(directory: &Path, side: &Result<CopiesSide, CommandError>) -> Vec<CopyTableRow> {
    let asked = directory.display().to_string();
    let none = || "-".to_string();
    let row =
        |host: String, copy: String, what: String| [asked.clone(), host, copy, what, none(), none(), none()];
    match side {
        Ok(CopiesSide::Copy(state)) => {
            let [what, copied, replayed, behind] = figures(state);
            vec![[asked.clone(), host_of(directory), none(), what, copied, replayed, behind]]
        }
        Ok(CopiesSide::Instance(copies)) if copies.is_empty() => {
            vec![row(host_of(directory), none(), "no copies are registered".into())]
        }
        Ok(CopiesSide::Instance(copies)) => copies
            .iter()
            .map(|copy| {
                let RegisteredCopyReport { registration, cut_off, state } = copy;
                let host = registration.host.clone().unwrap_or_else(|| "?".into());
                let place = registration.copy.clone();
                if *cut_off {
                    return row(host, place, "CUT OFF".into());
                }
                if let Some(state) = state {
                    let [what, copied, replayed, behind] = figures(state);
                    return [asked.clone(), host, place, what, copied, replayed, behind];
                }
                let ago =
                    RealClock::new().unix_ms().saturating_sub(registration.contact_unix_ms).max(0) / 1000;
                let waits =
                    registration.waiting.as_ref().map(|what| format!(", waits: {what}")).unwrap_or_default();
                row(host, place, format!("last contact {ago} s ago{waits}"))
            })
            .collect(),
        Err(what) => vec![row(host_of(directory), none(), format!("UNREACHABLE: {}", what.full_text()))],
    }
}

/// Returns the health, the queues and the lag as text.
fn figures(state: &CopyState) -> [String; 4] {
    let lag = CopyLag::from_state(state, RealClock::new().unix_ms());
    let seconds = lag.seconds.map_or("unknown time".to_string(), |seconds| format!("{seconds} s"));
    [
        health(state).to_string(),
        state.copy_queue().to_string(),
        state.replay_queue().to_string(),
        format!("{}, {seconds}", human_bytes(lag.bytes)),
    ]
}

/// Pads each column to the width of its widest text.
fn align_columns(rows: &[CopyTableRow]) -> String {
    let heads = COLUMN_HEADERS.map(str::to_string);
    let cells: Vec<CopyTableRow> = std::iter::once(&heads)
        .chain(rows)
        .map(|row| row.clone().map(|cell| printable(&cell).to_string()))
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMN_HEADERS.len()).map(width).collect();
    let line = |row: &CopyTableRow| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_are_shown() {
        let row = |first: &str, last: &str| {
            let mut row: CopyTableRow = std::array::from_fn(|_| "-".to_string());
            (row[0], row[6]) = (first.to_string(), last.to_string());
            row
        };
        let text = align_columns(&[row("tls://db1:9440/app", "1 MiB"), row("x\u{1b}[2J", "2")]);
        let lines: Vec<&str> = text.lines().collect();
        let dash_position = |line: &str| line.chars().position(|character| character == '-');
        assert_eq!((lines.len(), dash_position(lines[1])), (3, dash_position(lines[2])));
        assert!(!text.contains('\u{1b}') && lines[0].ends_with("BEHIND"), "{text}");
    }
}
