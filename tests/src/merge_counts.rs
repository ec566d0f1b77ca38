//! Counts operations of the engine by their records in the logs.

use std::path::Path;
use std::sync::Arc;

use ese_engine::internals::log::{LogNames, LogReader, PositionedRecord};
use ese_format::LogPosition;
use ese_format::log::record::LogRecord;
use jetcell_vfs::{FileStem, Vfs};

/// Numbers of page merges, counted in the logs.
#[derive(Clone, Copy, Default, Debug)]
pub struct MergeCounts {
    /// Number of partial merges, in which a full leaf moved nodes to its neighbour.
    pub partial: u64,
    /// Number of removed internal pages, below which no pages were left.
    pub internal_removed: u64,
}

impl MergeCounts {
    /// Counts the merges in the logs of a directory, up to the first log that cannot be read.
    pub fn in_logs(vfs: Arc<dyn Vfs>, logs: &Path) -> MergeCounts {
        let mut merges = MergeCounts::default();
        let Ok(Some(reader)) = LogReader::open(vfs, LogNames::new(logs, FileStem::E00)) else {
            return merges;
        };
        let from = LogPosition { generation: reader.range().0, segment: 0, offset: 0 };
        let visit = |stored: PositionedRecord| {
            if let Ok((LogRecord::Merge2(merge), _)) = LogRecord::decode(&stored.bytes) {
                merges.partial += u64::from(matches!(merge.merge_type, 3 | 6));
                // Only leaves have siblings.
                let internal = merge.left.is_none() && merge.right.is_none();
                merges.internal_removed += u64::from(internal);
            }
            Ok(())
        };
        // A crash may leave a torn end, which is the responsibility of recovery.
        let _ = reader.read_from(from, visit);
        merges
    }
}
