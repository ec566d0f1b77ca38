//! Checks the format of a file, and offers a hint if it is not the expected format.

use ese_format::recognise::Format;

use crate::{DumpError, Result, Source};

/// Returns a hint that names the kinds of dump available for files of this format.
fn hint(format: Format) -> &'static str {
    match format {
        Format::Database => "use dump header, pages, tree, schema or space",
        Format::Log => "use dump header or log",
        Format::Checkpoint => "use dump header or checkpoint",
        Format::FlushMap => "use dump header or flushmap",
        Format::Unknown => "no dump command supports this format",
    }
}

/// Reads the start of a file. Fails if the format of the file is not `wanted`.
pub(crate) fn start_of(source: &Source, wanted: Format) -> Result<Vec<u8>> {
    let start = source.start()?;
    match Format::of(&start) {
        found if found == wanted => Ok(start),
        found => Err(DumpError::Format { path: source.path().to_owned(), found, wanted, hint: hint(found) }),
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
