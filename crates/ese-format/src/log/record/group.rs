//! Marks for groups of records that recovery applies completely or not at all.
//!
//! ESE has macros only for splits and merges. Jetcell must also change the space trees together with the tree. It
//! therefore writes a mark before the records of such a group. The mark is a Nop2 record, which ESE skips:
//!
//! ```text
//! 0 "Jetcell group" (13)   13 number of records after the mark that belong to the group (4)
//! ```

use super::LogRecord;

const MARK: &[u8; 13] = b"Jetcell group";

impl LogRecord {
    /// Creates the mark for a group of `records` records.
    pub fn group_mark(records: u32) -> LogRecord {
        LogRecord::Nop2([&MARK[..], &records.to_le_bytes()].concat())
    }

    /// Returns the number of records in the group, if this record is a group mark.
    pub fn marked_group(&self) -> Option<u32> {
        let LogRecord::Nop2(body) = self else { return None };
        let count = body.strip_prefix(&MARK[..])?;
        count.try_into().ok().map(u32::from_le_bytes)
    }

    /// Returns true if the record counts toward the group of the preceding group mark.
    ///
    /// After a crash in the middle of a group, recovery fills segments, appends before-images, and ends generations.
    /// The records that it writes while doing so must not count as members of the unfinished group.
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
    fn only_a_group_mark_is_recognized_as_a_mark() {
        let mark = LogRecord::group_mark(7);
        assert_eq!(LogRecord::decode(&mark.to_bytes()).unwrap().0.marked_group(), Some(7));
        for other in [LogRecord::Nop, LogRecord::Nop2(vec![0; 17]), LogRecord::Nop2(MARK.to_vec())] {
            assert_eq!(other.marked_group(), None);
        }
    }
}
