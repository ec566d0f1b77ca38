//! Replies from a server.

use std::io::{self, ErrorKind};

use crate::fields::{FieldReader, FieldWriter, malformed_message};

/// A reply from a server to a client's request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteReply {
    /// The request succeeded.
    Done,
    /// The server accepted the token. The reply contains the server's host name, and whether the client may take over
    /// the role of the active side.
    Welcome { allows_handover: bool, host: String },
    /// Handle of a file or a lock, valid only on this connection.
    Handle(u32),
    /// A length in bytes.
    Number(u64),
    /// A Boolean result.
    Flag(bool),
    /// File content.
    Bytes(Vec<u8>),
    /// File names, and whether there are more.
    Names { names: Vec<String>, more: bool },
    /// The reply is delayed, for example by a rate limit. Another reply to the same request follows.
    Working,
    /// The request failed. Whether it had an effect is unknown, unless the error kind implies it.
    Failed { kind: ErrorKind, what: String },
}

/// Error kinds that are transmitted. Other kinds are received as `Other`.
const TRANSMITTED_KINDS: [ErrorKind; 14] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::UnexpectedEof,
    ErrorKind::StorageFull,
    ErrorKind::QuotaExceeded,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::Unsupported,
    ErrorKind::OutOfMemory,
    ErrorKind::TimedOut,
];

impl RemoteReply {
    /// Creates the reply for a request that failed.
    pub fn failed(error: &io::Error) -> RemoteReply {
        RemoteReply::Failed { kind: error.kind(), what: error.to_string() }
    }

    /// Encodes the reply as a message.
    pub fn encode(&self) -> Vec<u8> {
        let writer = match self {
            RemoteReply::Done => FieldWriter::new(0),
            RemoteReply::Welcome { allows_handover, host } => {
                FieldWriter::new(1).u8((*allows_handover).into()).text(host)
            }
            RemoteReply::Handle(handle) => FieldWriter::new(2).u32(*handle),
            RemoteReply::Number(number) => FieldWriter::new(3).u64(*number),
            RemoteReply::Flag(flag) => FieldWriter::new(4).u8((*flag).into()),
            RemoteReply::Bytes(bytes) => FieldWriter::new(5).rest(bytes),
            RemoteReply::Names { names, more } => {
                names.iter().fold(FieldWriter::new(6).u8((*more).into()), |writer, name| writer.text(name))
            }
            RemoteReply::Working => FieldWriter::new(7),
            RemoteReply::Failed { kind, what } => {
                let kind = TRANSMITTED_KINDS.iter().position(|known| known == kind).unwrap_or(0);
                FieldWriter::new(8).u8(kind as u8).text(what)
            }
        };
        writer.finish()
    }

    /// Decodes a reply from a message.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the message is not a valid reply.
    pub fn decode(message: &[u8]) -> io::Result<RemoteReply> {
        let mut fields = FieldReader::new(message);
        let reply = match fields.u8()? {
            0 => RemoteReply::Done,
            1 => RemoteReply::Welcome { allows_handover: fields.flag()?, host: fields.text()? },
            2 => RemoteReply::Handle(fields.u32()?),
            3 => RemoteReply::Number(fields.u64()?),
            4 => RemoteReply::Flag(fields.flag()?),
            5 => RemoteReply::Bytes(fields.rest()),
            6 => {
                let more = fields.flag()?;
                let mut names = Vec::new();
                while !fields.is_empty() {
                    names.push(fields.text()?);
                }
                RemoteReply::Names { names, more }
            }
            7 => RemoteReply::Working,
            8 => {
                let kind = TRANSMITTED_KINDS
                    .get(usize::from(fields.u8()?))
                    .copied()
                    .ok_or_else(malformed_message)?;
                RemoteReply::Failed { kind, what: fields.text()? }
            }
            _ => return Err(malformed_message()),
        };
        fields.finish(reply)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replies_round_trip() {
        let names = vec!["E00.log".to_string(), "größe.edb".to_string()];
        let mut replies = vec![
            RemoteReply::Done,
            RemoteReply::Welcome { allows_handover: true, host: "db1".into() },
            RemoteReply::Handle(3),
            RemoteReply::Number(u64::MAX),
            RemoteReply::Flag(true),
            RemoteReply::Bytes(vec![1, 2, 3]),
            RemoteReply::Names { names, more: false },
            RemoteReply::Working,
        ];
        replies.extend(TRANSMITTED_KINDS.map(|kind| RemoteReply::failed(&io::Error::new(kind, "why"))));
        for reply in replies {
            assert_eq!(RemoteReply::decode(&reply.encode()).unwrap(), reply);
        }
        let other = RemoteReply::failed(&io::Error::new(ErrorKind::Deadlock, "why"));
        let read = RemoteReply::decode(&other.encode()).unwrap();
        assert_eq!(read, RemoteReply::Failed { kind: ErrorKind::Other, what: "why".into() });
    }

    #[test]
    fn a_long_text_is_truncated_at_a_character_boundary() {
        let what = "é".repeat(40_000);
        let read =
            RemoteReply::decode(&RemoteReply::Failed { kind: ErrorKind::Other, what }.encode()).unwrap();
        let RemoteReply::Failed { what, .. } = read else { panic!("{read:?}") };
        assert_eq!(what, "é".repeat(32_767));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_to_a_reply_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = RemoteReply::decode(&bytes) {
                prop_assert_eq!(RemoteReply::decode(&reply.encode()).unwrap(), reply);
            }
        }
    }
}
