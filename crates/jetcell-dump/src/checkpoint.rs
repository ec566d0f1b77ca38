//! Dump of a checkpoint file.

use crate::format::start_of;
use crate::header::{read_header, report};
use crate::{Format, Output, Result, Source};

/// Dumps a checkpoint file: all fields, the state of both copies, and the attached databases.
pub fn dump_checkpoint(source: &Source, output: &mut Output<'_>) -> Result<()> {
    start_of(source, Format::Checkpoint)?;
    let header = read_header(source)?;
    output.item(&header)?;
    report(&header, output)
}
