//! The mark before records that happen together or not at all.
//!
//! ESE has macros for splits and merges only. Jetcell must also change the space trees together with the tree. So it marks
//! the records of such a group with a Nop2 record, which ESE skips:
//!
//! ```text
//! 0 "Jetcell group" (13)   13 number of records behind it that count (4)
//! ```

use super::LogRecord;

const MARK: &[u8; 13] = b"Jetcell group";

impl LogRecord {
    /// The mark before a group of this number of records.
    pub fn group_mark(records: u32) -> LogRecord {
        LogRecord::Nop2([&MARK[..], &records.to_le_bytes()].concat())
    }

    /// The number of records of the group, if this is the mark before one.
    pub fn marked_group(&self) -> Option<u32> {
        let LogRecord::Nop2(body) = self else { return None };
        let count = body.strip_prefix(&MARK[..])?;
        count.try_into().ok().map(u32::from_le_bytes)
    }

    /// Whether the record counts as one of the group whose mark is before it. Recovery fills segments, appends before-images
    /// and ends generations behind a group that a crash interrupted. These records must not complete the group.
    pub fn counts_in_group(&self) -> bool {
        !matches!(
            self,
            LogRecord::Nop | LogRecord::Nop2(_) | LogRecord::UndoInfo(_) | LogRecord::ForceLogRollover(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_is_a_mark() {
        let mark = LogRecord::group_mark(7);
        assert_eq!(LogRecord::decode(&mark.to_bytes()).unwrap().0.marked_group(), Some(7));
        for other in [LogRecord::Nop, LogRecord::Nop2(vec![0; 17]), LogRecord::Nop2(MARK.to_vec())] {
            assert_eq!(other.marked_group(), None);
        }
    }
}
