//! A file opened for reading, with its first bytes, which identify its format.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ese_format::recognise::START_LEN;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

/// A file and its first bytes.
pub(crate) struct RecognizedFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) len: u64,
    pub(crate) start: IoBuffer,
}

impl RecognizedFile {
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path) -> io::Result<RecognizedFile> {
        let file = vfs.open(path, OpenMode::Read)?;
        let len = file.len()?;
        let mut start = IoBuffer::zeroed(len.min(START_LEN as u64) as usize);
        file.read_at(0, &mut start, IoReason::Verify)?;
        Ok(RecognizedFile { file, len, start })
    }
}
