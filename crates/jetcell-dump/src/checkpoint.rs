//! Dump of a checkpoint file.

use crate::format::read_start;
use crate::header::{read_header, report_damage};
use crate::{DumpOutput, DumpSource, EseFileKind, Result};

/// Dumps a checkpoint file: all fields, the state of both copies, and the attached databases.
pub fn dump_checkpoint(source: &DumpSource, output: &mut DumpOutput<'_>) -> Result<()> {
    read_start(source, EseFileKind::Checkpoint)?;
    let header = read_header(source)?;
    output.item(&header)?;
    report_damage(&header, output)
}
