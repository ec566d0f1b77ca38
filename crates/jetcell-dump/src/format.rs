//! Checks the format of a file, and offers a hint if it is not the expected format.

use ese_format::recognise::EseFileKind;

use crate::{DumpError, DumpSource, Result};

/// Returns a hint that names the kinds of dump available for files of this format.
fn hint(format: EseFileKind) -> &'static str {
    match format {
        EseFileKind::Database => "use dump header, pages, tree, schema or space",
        EseFileKind::Log => "use dump header or log",
        EseFileKind::Checkpoint => "use dump header or checkpoint",
        EseFileKind::FlushMap => "use dump header or flushmap",
        EseFileKind::Unknown => "no dump command supports this format",
    }
}

/// Reads the start of a file. Fails if the format of the file is not `wanted`.
pub(crate) fn read_start(source: &DumpSource, wanted: EseFileKind) -> Result<Vec<u8>> {
    let start = source.start()?;
    match EseFileKind::detect(&start) {
        found if found == wanted => Ok(start),
        found => Err(DumpError::Format { path: source.path().to_owned(), found, wanted, hint: hint(found) }),
    }
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
