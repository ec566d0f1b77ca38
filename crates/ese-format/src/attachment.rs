//! The list of attached databases in every log header and in the checkpoint file.
//!
//! ```text
//! entry   0 database (1)   1 flags (1)   2 path length (2)   4 dbtime (8)   12 last tree (4)   16 size limit (4)
//!        20 attach position (8)   28 consistent position (8)   36 signature (28)   64 path
//! list   entries one after the other, then a zero byte; 2048 bytes in all
//! ```
//!
//! Invariant: a decoded list encodes to the same bytes.

use crate::declare::layout;
use crate::fields::{Describe, FieldValue, Fields};
use crate::layout::{BinaryLayout, Input, LayoutError};
use crate::path::{decode_path, encode_path};
use crate::{DatabaseIdInLog, DbTime, LogPosition, Signature, TreeId};

/// Length of the list. ESE: `cbAttach`.
#[doc(alias = "cbAttach")]
pub const ATTACHMENT_LIST_LEN: usize = 2048;

layout! {
    /// An entry in the list of attached databases that a log header or checkpoint stores. ESE: `ATTACHINFO`.
    #[doc(alias = "ATTACHINFO")]
    pub struct Attachment {
        /// Number that identifies the database in the log.
        database: DatabaseIdInLog,
        /// Attachment flags: [`Attachment::UNICODE`] and others.
        flags: u8,
        [path: u16],
        /// Highest dbtime when the list was written.
        db_time: DbTime,
        /// Highest tree id when the list was written.
        last_tree: TreeId,
        /// Maximum size of the database in pages; 0 means no limit.
        max_pages: u32,
        /// Log position of the attach record.
        attach_position: LogPosition,
        /// Log position of the last clean shutdown before the attach.
        consistent_position: LogPosition,
        /// Signature of the database.
        signature: Signature,
    } then {
        /// Path as UTF-16 with a final NUL.
        path,
    }
}
const _: () = assert!(<Attachment as BinaryLayout>::FIXED == 64);

/// Error returned when a list of attached databases cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentError {
    /// The last entry extends beyond the end of the list.
    #[error("the attachment list ends in the middle of an entry")]
    Truncated,
    /// The databases do not fit in the list: there are too many, or their paths are too long.
    #[error("the attachment list needs {needed} bytes, but the maximum is {ATTACHMENT_LIST_LEN}")]
    Full {
        /// Number of bytes that the entries need, including the terminator.
        needed: usize,
    },
}

impl Attachment {
    /// The path is encoded as UTF-16.
    pub const UNICODE: u8 = 0x20;
    /// The file may be sparse.
    pub const SPARSE: u8 = 0x40;

    /// Decodes the path as text.
    pub fn path_text(&self) -> String {
        decode_path(&self.path)
    }

    /// Stores `path` as UTF-16 with a final NUL.
    pub fn set_path(&mut self, path: &str) {
        self.flags |= Attachment::UNICODE;
        self.path = encode_path(path);
    }

    /// Decodes a list up to its zero byte.
    pub fn decode_list(bytes: &[u8]) -> Result<Vec<Attachment>, AttachmentError> {
        let mut entries = Vec::new();
        let mut rest = bytes;
        while rest.first().is_some_and(|&database| database != 0) {
            let input = &mut Input::new(rest);
            let entry = Attachment::take(input).map_err(|_: LayoutError| AttachmentError::Truncated)?;
            rest = rest.get(input.consumed()..).unwrap_or_default();
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns the fields of all entries in a list, up to the zero byte or the first truncated entry.
    pub fn fields_of_list(bytes: &[u8]) -> Vec<Fields> {
        let mut entries = Vec::new();
        let input = &mut Input::new(bytes);
        while bytes.get(input.consumed()).is_some_and(|&database| database != 0) {
            match Attachment::describe(input) {
                Ok(FieldValue::Group(fields)) => entries.push(fields),
                _ => break,
            }
        }
        entries
    }

    /// Encodes a list into its fixed 2048 bytes.
    pub fn encode_list(entries: &[Attachment]) -> Result<Vec<u8>, AttachmentError> {
        let needed = entries.iter().map(|entry| Attachment::FIXED + entry.path.len()).sum::<usize>() + 1;
        if needed > ATTACHMENT_LIST_LEN {
            return Err(AttachmentError::Full { needed });
        }
        let mut list = Vec::with_capacity(ATTACHMENT_LIST_LEN);
        entries.iter().for_each(|entry| entry.put(&mut list));
        list.resize(ATTACHMENT_LIST_LEN, 0);
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Attachment {
        let mut entry = Attachment {
            database: DatabaseIdInLog(1),
            flags: 0,
            db_time: DbTime(0x1c7),
            last_tree: TreeId(11),
            max_pages: 0,
            attach_position: LogPosition::new(1, 1, 0x268),
            consistent_position: LogPosition::MIN,
            signature: Signature::default(),
            path: Vec::new(),
        };
        entry.set_path(path);
        entry
    }

    #[test]
    fn golden_entry_of_a_real_log_header() {
        // Contents of "SRU.log", generation 2 of the Server 2022 test set, with the signature and path shortened.
        let list = Attachment::encode_list(&[entry("C:")]).unwrap();
        let head =
            [1, 0x20, 6, 0, 0xc7, 1, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0x68, 2, 1, 0, 1, 0, 0, 0];
        assert_eq!(list[..28], head);
        assert_eq!(list[64..72], [b'C', 0, b':', 0, 0, 0, 0, 0]);
        assert_eq!(list.len(), ATTACHMENT_LIST_LEN);
    }

    #[test]
    fn attachment_lists_round_trip_and_oversized_lists_are_rejected() {
        for count in 0..=20 {
            let entries: Vec<_> = (0..count).map(|i| entry(&"x".repeat(i))).collect();
            let needed = entries.iter().map(|e| 64 + e.path.len()).sum::<usize>() + 1;
            let list = Attachment::encode_list(&entries);
            if needed <= ATTACHMENT_LIST_LEN {
                assert_eq!(Attachment::decode_list(&list.unwrap()), Ok(entries));
            } else {
                assert_eq!(list, Err(AttachmentError::Full { needed }));
            }
        }
    }

    #[test]
    fn a_truncated_entry_is_rejected_unlike_a_missing_terminator() {
        let list = Attachment::encode_list(&[entry("db")]).unwrap();
        assert_eq!(Attachment::decode_list(&list[..69]), Err(AttachmentError::Truncated));
        assert_eq!(Attachment::decode_list(&list[..70]).unwrap()[0].path_text(), "db");
    }
}
