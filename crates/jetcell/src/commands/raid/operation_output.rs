//! Results of array operations as text and as JSON.

use jetcell_input::json_path;
use std::fmt::Display;
use std::path::PathBuf;

use chrono::{DateTime, Local, SecondsFormat};
use jetcell_array_service::{
    LunSummary, OperationResult, PerformedOperation, RebuildResult, ScrubResult, SnapshotSummary, ZONE_BYTES,
};
use jetcell_input::number::human_bytes;
use serde_json::{Value, json};

/// Returns the result as JSON: one line for each value.
pub fn json(result: &OperationResult) -> String {
    let lines: Vec<Value> = match result {
        OperationResult::MemberRemoved { slot, health, replacement } => {
            vec![json!({ "slot": slot, "state": health, "replacement": replacement.as_ref().map(json_path) })]
        }
        OperationResult::SparesAdded(spares) => {
            spares.iter().map(|spare| json!({ "member": json_path(spare) })).collect()
        }
        OperationResult::Rebuilt(RebuildResult { bytes, seconds, rows_lost, is_complete, health }) => {
            vec![json!({ "complete": is_complete, "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost,
                        "state": health })]
        }
        OperationResult::Scrubbed(scrub) => {
            vec![json!({ "complete": scrub.is_complete, "seconds": scrub.seconds, "zones": scrub.zones,
                        "rows": scrub.rows, "damaged": scrub.damaged, "repaired": scrub.repaired,
                        "unrecoverable_rows": scrub.unrecoverable_rows, "disagreements": scrub.disagreements })]
        }
        OperationResult::Grown { slots, bytes, .. } => vec![json!({ "slots": slots, "bytes": bytes })],
        OperationResult::LunCreated { lun, bytes } => vec![json!({ "lun": lun, "bytes": bytes })],
        OperationResult::Luns { free_bytes, luns } => vec![json!({ "free_bytes": free_bytes, "luns": luns })],
        OperationResult::LunsCleaned { blocks_moved, free_rows, free_rows_before } => {
            vec![
                json!({ "blocks_moved": blocks_moved, "free_rows": free_rows, "free_rows_before": free_rows_before }),
            ]
        }
        OperationResult::LunDeleted { lun } => vec![json!({ "lun": lun })],
        OperationResult::SnapshotChanged { lun, snapshot, .. } => {
            vec![json!({ "lun": lun, "snapshot": snapshot })]
        }
        OperationResult::Snapshots(snapshots) => {
            let value = |SnapshotSummary { lun, snapshot, created }: &SnapshotSummary| json!({ "lun": lun, "snapshot": snapshot, "created": local_time(*created) });
            snapshots.iter().map(value).collect()
        }
    };
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the result as text. `name` is the array as the user named it.
pub fn text(performed: &PerformedOperation, name: impl Display) -> String {
    let is_in_use = performed.is_in_use;
    match &performed.result {
        OperationResult::MemberRemoved { slot, replacement, .. } => {
            let next = match (replacement, is_in_use) {
                (Some(spare), false) => {
                    format!("the spare {} takes its place: run jetcell raid rebuild {name}", spare.display())
                }
                (Some(spare), true) => {
                    format!(
                        "the spare {} takes its place and is rebuilt while the load runs",
                        spare.display()
                    )
                }
                (None, _) => format!("replace it with jetcell raid replace {name} {slot} FILE"),
            };
            format!("{name}: slot {slot} has lost its member; {next}")
        }
        OperationResult::SparesAdded(spares) => {
            let line = |spare: &PathBuf| format!("{name}: {} is a spare\n", spare.display());
            spares.iter().map(line).collect()
        }
        OperationResult::Rebuilt(result) => rebuild_text(result, name),
        OperationResult::Scrubbed(result) => scrub_text(result, name),
        OperationResult::Grown { slots, bytes, is_lun_volume } => {
            let later = if is_in_use && !is_lun_volume {
                "; processes that currently use the array see the new space after their next start"
            } else {
                ""
            };
            format!("{name}: {slots} slots, {}{later}", human_bytes(*bytes))
        }
        OperationResult::LunCreated { lun, bytes } => {
            let later = if is_in_use { "; jetcell raid serve exports it after its next start" } else { "" };
            format!("{name}: LUN {lun}, {}{later}", human_bytes(*bytes))
        }
        OperationResult::Luns { free_bytes, luns } => {
            let line = |LunSummary { name, bytes, used_bytes, snapshots }: &LunSummary| {
                let (bytes, used) = (human_bytes(*bytes), human_bytes(*used_bytes));
                format!("{name}: {bytes}, {used} used, {snapshots} snapshots\n")
            };
            let lines: String = luns.iter().map(line).collect();
            format!("{lines}{} free for all LUNs", human_bytes(*free_bytes))
        }
        OperationResult::LunsCleaned { blocks_moved, free_rows, free_rows_before } => format!(
            "{name}: {blocks_moved} blocks moved; {free_rows} rows are entirely free, {free_rows_before} before"
        ),
        OperationResult::LunDeleted { lun } => format!("{name}: LUN {lun} was deleted"),
        OperationResult::SnapshotChanged { lun, snapshot, change } => {
            format!("{name}: snapshot {snapshot} of {lun} {}", change.describe())
        }
        OperationResult::Snapshots(snapshots) => {
            let line = |SnapshotSummary { lun, snapshot, created }: &SnapshotSummary| {
                format!("{lun} {snapshot} {}\n", local_time(*created))
            };
            snapshots.iter().map(line).collect()
        }
    }
}

fn local_time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(String::new, |time| {
        time.with_timezone(&Local).to_rfc3339_opts(SecondsFormat::Secs, false)
    })
}

fn rebuild_text(result: &RebuildResult, name: impl Display) -> String {
    let RebuildResult { bytes, seconds, rows_lost, is_complete, health } = result;
    let per_second = human_bytes((*bytes as f64 / seconds.max(1e-3)) as u64);
    let end = match (is_complete, bytes) {
        (false, _) => format!("; interrupted; to resume, run jetcell raid rebuild {name}"),
        (true, 0) => "; nothing is left to rebuild".into(),
        (true, _) => String::new(),
    };
    let lost =
        if *rows_lost > 0 { format!("; {rows_lost} rows could not be recovered") } else { String::new() };
    let bytes = human_bytes(*bytes);
    format!("{name}: {bytes} rebuilt in {seconds:.1} s ({per_second}/s), {health}{end}{lost}")
}

fn scrub_text(result: &ScrubResult, name: impl Display) -> String {
    let seconds = result.seconds;
    let rate = human_bytes(((result.zones * ZONE_BYTES) as f64 / seconds.max(1e-3)) as u64);
    let end = if result.is_complete { "" } else { "; interrupted: the same command resumes it" };
    let mut lines =
        vec![format!("{name}: {} rows verified in {seconds:.1} s ({rate}/s per member){end}", result.rows)];
    lines.extend(result.damaged.iter().map(|damaged| {
        let (slot, member, blocks) = (damaged.slot, damaged.member.display(), damaged.blocks);
        format!("  slot {slot} ({member}): {blocks} damaged or stale blocks")
    }));
    if result.repaired > 0 {
        lines.push(format!("  {} blocks written back", result.repaired));
    }
    lines.extend(
        result.unrecoverable_rows.iter().map(|row| format!("  row {row}: too many blocks are damaged")),
    );
    lines.extend(result.disagreements.iter().map(|found| {
        let suspect = found.suspect.map_or("no single slot explains the mismatch".into(), |slot| {
            format!("slot {slot} would explain the mismatch")
        });
        let repaired = if found.repaired { "; parity was recomputed" } else { "; nothing was changed" };
        format!("  row {}: checksums are correct, parity disagrees; {suspect}{repaired}", found.row)
    }));
    jetcell_input::printable_rows(&lines)
}
