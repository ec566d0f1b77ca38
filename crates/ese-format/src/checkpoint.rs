//! The checkpoint file: two copies of a 4096-byte page that contains the log position where redo begins.
//!
//! ```text
//!   0 checksum (4)   4 checkpoint of last full backup (8)   12 checkpoint (8)   20 log signature (28)
//!  48 engine parameters (567)   615 full backup position (8), time (8)   631 incremental backup position, time
//! 647 flags (1)   648 database consistency position (8)   656 zero (11)   667 file type (4)   671 zero (8)
//! 679 attachment list (2048), meaningful with flag 1   2727 zero
//! ```
//!
//! Invariant: a decoded page encodes to the same bytes. The engine decides when the checkpoint may advance.

use crate::LogPosition;
use crate::attachment::{ATTACHMENT_LIST_LEN, Attachment, AttachmentError};
use crate::checksum::header_checksum;
use crate::declare::layout;
use crate::fields::{self, Fields};
use crate::layout::{BinaryLayout, Input};
use crate::log::parameters::EngineParameters;
use crate::{LogTime, Signature};

/// Length of one copy, in bytes.
pub const CHECKPOINT_LEN: usize = 4096;
/// Length in bytes of the checksum, which precedes the fields.
const CHECKSUM_LEN: usize = 4;
/// File type of a checkpoint, at byte 667 of every ESE header.
pub const FILE_TYPE_CHECKPOINT: u32 = 4;
/// Number of bytes after the checksum that have a defined meaning.
const FIELDS_LEN: usize = <Checkpoint as BinaryLayout>::FIXED;
const _: () = assert!(CHECKSUM_LEN + FIELDS_LEN == 2727);

layout! {
    /// Fields of a checkpoint page in file order, from byte 4.
    #[doc(alias = "CHECKPOINT_FIXED")]
    pub struct Checkpoint {
        /// Checkpoint at the time of the last full backup.
        full_backup_checkpoint: LogPosition,
        /// Log position where redo begins. ESE: `le_lgposCheckpoint`.
        position: LogPosition,
        /// Signature of the log stream.
        log_signature: Signature,
        /// Settings of the engine that wrote the checkpoint.
        parameters: EngineParameters,
        /// Log position of the last full backup.
        full_backup_position: LogPosition,
        /// Time of the last full backup.
        full_backup_time: LogTime,
        /// Log position of the last incremental backup.
        incremental_backup_position: LogPosition,
        /// Time of the last incremental backup.
        incremental_backup_time: LogTime,
        /// Checkpoint flags. If bit 0 is set, the attachment list is present.
        flags: u8,
        /// Log position up to which the databases are consistent without replaying the log.
        consistency_position: LogPosition,
        /// Reserved; always zero.
        reserved: [u8; 11],
        /// File type; always [`FILE_TYPE_CHECKPOINT`].
        file_type: u32,
        /// Reserved; always zero.
        reserved_2: [u8; 8],
        /// Attached databases; see [`Checkpoint::attachments`].
        attachment_list: [u8; ATTACHMENT_LIST_LEN],
    }
}

/// Error returned when bytes cannot be decoded as a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The input is shorter than one copy.
    #[error("the checkpoint needs {CHECKPOINT_LEN} bytes, but only {available} are available")]
    Truncated {
        /// Length of the input in bytes.
        available: usize,
    },
    /// The stored checksum does not match the contents.
    #[error("the checkpoint checksum is {stored:08x}, expected {computed:08x}")]
    BadChecksum {
        /// Checksum stored in the page.
        stored: u32,
        /// Checksum computed from the page.
        computed: u32,
    },
    /// The file is a different kind of ESE file.
    #[error("the file is not a checkpoint file (file type {file_type})")]
    NotACheckpoint {
        /// File type found in bytes 667..671.
        file_type: u32,
    },
}

impl Checkpoint {
    /// Flag that indicates that the attachment list is present. ESE: `fCheckpointAttachInfoPresent`.
    const HAS_ATTACHMENTS: u8 = 1;

    /// Creates a checkpoint at `position` without attachments.
    pub fn new(position: LogPosition, log_signature: Signature) -> Checkpoint {
        Checkpoint {
            full_backup_checkpoint: LogPosition::MIN,
            position,
            log_signature,
            parameters: EngineParameters::default(),
            full_backup_position: LogPosition::MIN,
            full_backup_time: LogTime::NONE,
            incremental_backup_position: LogPosition::MIN,
            incremental_backup_time: LogTime::NONE,
            flags: 0,
            consistency_position: position,
            reserved: [0; 11],
            file_type: FILE_TYPE_CHECKPOINT,
            reserved_2: [0; 8],
            attachment_list: [0; ATTACHMENT_LIST_LEN],
        }
    }

    /// Decodes one copy.
    pub fn decode(bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
        let truncated = CheckpointError::Truncated { available: bytes.len() };
        let page = bytes.get(..CHECKPOINT_LEN).ok_or(truncated)?;
        let input = &mut Input::new(page);
        let stored = u32::take(input).map_err(|_| truncated)?;
        let computed = header_checksum(page);
        if stored != computed {
            return Err(CheckpointError::BadChecksum { stored, computed });
        }
        let checkpoint = Checkpoint::take(input).map_err(|_| truncated)?;
        match checkpoint.file_type {
            FILE_TYPE_CHECKPOINT => Ok(checkpoint),
            file_type => Err(CheckpointError::NotACheckpoint { file_type }),
        }
    }

    /// Returns the fields of a checkpoint page without validating them. Returns `None` if the page is too short.
    pub fn fields(page: &[u8]) -> Option<Fields> {
        fields::describe_fields::<Checkpoint>(page.get(CHECKSUM_LEN..)?).ok()
    }

    /// Encodes one copy, including the checksum. A checkpoint file contains two copies, written one after the other.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(CHECKPOINT_LEN);
        0u32.put(&mut page);
        self.put(&mut page);
        page.resize(CHECKPOINT_LEN, 0);
        let checksum = header_checksum(&page);
        if let Some(first) = page.first_chunk_mut() {
            *first = checksum.to_le_bytes();
        }
        page
    }

    /// Decodes a checkpoint file. Uses the first copy if it is valid, and the second otherwise.
    pub fn decode_file(file: &[u8]) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::decode(file).or_else(|error| {
            Checkpoint::decode(file.get(CHECKPOINT_LEN..).unwrap_or_default()).map_err(|_| error)
        })
    }

    /// Returns the attached databases, or `None` if the writer did not store them.
    pub fn attachments(&self) -> Option<Result<Vec<Attachment>, AttachmentError>> {
        (self.flags & Checkpoint::HAS_ATTACHMENTS != 0)
            .then(|| Attachment::decode_list(&self.attachment_list))
    }

    /// Stores a list of attached databases.
    pub fn set_attachments(&mut self, entries: &[Attachment]) -> Result<(), AttachmentError> {
        self.attachment_list.copy_from_slice(&Attachment::encode_list(entries)?);
        self.flags |= Checkpoint::HAS_ATTACHMENTS;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_published_offsets() {
        let expected = [
            ("full_backup_checkpoint", 4),
            ("position", 12),
            ("log_signature", 20),
            ("parameters", 48),
            ("full_backup_position", 615),
            ("full_backup_time", 623),
            ("incremental_backup_position", 631),
            ("incremental_backup_time", 639),
            ("flags", 647),
            ("consistency_position", 648),
            ("reserved", 656),
            ("file_type", 667),
            ("reserved_2", 671),
            ("attachment_list", 679),
            ("end", 2727),
        ];
        let offsets: Vec<_> = Checkpoint::offsets().into_iter().map(|(name, at)| (name, at + 4)).collect();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn the_second_copy_is_used_if_the_first_is_torn() {
        let page = Checkpoint::new(LogPosition::new(5, 6, 0), Signature::default()).encode();
        let mut file = [page.clone(), page].concat();
        assert_eq!(Checkpoint::decode_file(&file).unwrap().position, LogPosition::new(5, 6, 0));
        file[700] ^= 1;
        assert_eq!(Checkpoint::decode_file(&file).unwrap().position, LogPosition::new(5, 6, 0));
        file[CHECKPOINT_LEN + 700] ^= 1;
        assert!(matches!(Checkpoint::decode_file(&file), Err(CheckpointError::BadChecksum { .. })));
        assert_eq!(Checkpoint::decode_file(&file[..100]), Err(CheckpointError::Truncated { available: 100 }));
    }
}
