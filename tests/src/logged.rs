//! What the logs say that the engine did.

use std::path::Path;
use std::sync::Arc;

use ese_engine::log::{LogNames, LogReader, StoredRecord};
use ese_format::LogPosition;
use ese_format::log::record::LogRecord;
use jetcell_vfs::Vfs;

/// Times a full leaf shared nodes with its neighbour, by the logs in a directory, as far as they can be read.
pub fn partial_merges(vfs: Arc<dyn Vfs>, logs: &Path) -> u64 {
    let Ok(Some(reader)) = LogReader::open(vfs, LogNames::new(logs, "E00")) else { return 0 };
    let mut count = 0;
    let from = LogPosition { generation: reader.range().0, segment: 0, offset: 0 };
    let visit = |stored: StoredRecord| {
        if let Ok((LogRecord::Merge2(merge), _)) = LogRecord::decode(&stored.bytes) {
            count += u64::from(matches!(merge.merge_type, 3 | 6));
        }
        Ok(())
    };
    // The end may be what a crash left; recovery judges that.
    let _ = reader.read_from(from, visit);
    count
}
