//! Checks the two copies in a checkpoint file.

use std::path::Path;

use ese_format::checkpoint::{CHECKPOINT_LEN, Checkpoint};
use ese_format::recognise::EseFileKind;

use crate::files::recognized_file::RecognizedFile;
use crate::files::report::FileReport;
use crate::findings::Findings;
use crate::findings::finding::{FindingKind, Severity};

/// Checks both copies and returns the valid one.
pub(crate) fn check_checkpoint(
    source: &RecognizedFile,
    path: &Path,
    mut findings: Findings,
) -> (FileReport, Findings, Option<Checkpoint>) {
    let mut report = FileReport::new(path, EseFileKind::Checkpoint);
    let mut good = None;
    for (number, name) in [(1, "second"), (0, "first")] {
        let at = number * CHECKPOINT_LEN;
        match Checkpoint::decode(source.start.get(at..).unwrap_or_default()) {
            Ok(checkpoint) => good = Some(checkpoint),
            Err(error) => {
                let what = format!("the {name} copy: {error}");
                findings.add_at_offset(Severity::Error, FindingKind::CheckpointDamaged, at as u64, what);
            }
        }
    }
    if let Some(checkpoint) = &good {
        report.position = Some(checkpoint.position.to_string());
        report.generation = Some(checkpoint.position.generation.0);
        if let Some(Ok(attached)) = checkpoint.attachments() {
            report.databases = attached.iter().map(ese_format::attachment::Attachment::path_text).collect();
        }
    }
    (report, findings, good)
}
