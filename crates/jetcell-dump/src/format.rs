//! Checks the format of a file.

use ese_format::foreign::FileContent;
use ese_format::recognise::EseFileKind;

use crate::{DumpError, DumpSource, Result};

/// Reads the start of a file. Fails if the format of the file is not `wanted`.
pub(crate) fn read_start(source: &DumpSource, wanted: EseFileKind) -> Result<Vec<u8>> {
    let start = source.start()?;
    match EseFileKind::detect(&start) {
        found if found == wanted => Ok(start),
        _ => {
            let found = FileContent::detect(&start);
            Err(DumpError::Format { path: source.path().to_owned(), found, wanted })
        }
    }
}
