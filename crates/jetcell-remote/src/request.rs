//! Requests from a client.

use std::io;

use jetcell_vfs::OpenMode;

use crate::fields::{FieldReader, FieldWriter, malformed_message};

/// Magic number at the start of a connection.
const MAGIC: u64 = u64::from_le_bytes(*b"jetcellR");
/// Protocol version. Client and server must have the same version.
pub const VERSION: u16 = 1;

/// A file in an exported directory, identified by export name and file name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RemotePath {
    /// Name of the export.
    pub directory: String,
    /// Name of the file; empty for the directory itself.
    pub file: String,
}

/// A request from a client to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteRequest {
    /// Sends the client's protocol version and token.
    Hello {
        version: u16,
        token: Vec<u8>,
    },
    /// Keeps the connection alive.
    Ping,
    Open {
        place: RemotePath,
        mode: OpenMode,
    },
    Close {
        file: u32,
    },
    Length {
        file: u32,
    },
    Read {
        file: u32,
        offset: u64,
        len: u32,
    },
    Write {
        file: u32,
        offset: u64,
        data: Vec<u8>,
    },
    Sync {
        file: u32,
    },
    Exists {
        place: RemotePath,
    },
    Remove {
        place: RemotePath,
    },
    /// Renames a file within one directory.
    Rename {
        from: RemotePath,
        to: String,
    },
    SyncDirectory {
        directory: String,
    },
    /// Lists the names after `after`, in ascending order.
    List {
        directory: RemotePath,
        after: String,
    },
    Lock {
        place: RemotePath,
    },
    Unlock {
        lock: u32,
    },
}

impl RemoteRequest {
    /// Encodes the request as a message.
    pub fn encode(&self) -> Vec<u8> {
        let place_writer =
            |kind: u8, place: &RemotePath| FieldWriter::new(kind).text(&place.directory).text(&place.file);
        let writer = match self {
            RemoteRequest::Hello { version, token } => {
                FieldWriter::new(0).u64(MAGIC).u16(*version).rest(token)
            }
            RemoteRequest::Ping => FieldWriter::new(1),
            RemoteRequest::Open { place, mode } => place_writer(2, place).u8(match mode {
                OpenMode::Read => 0,
                OpenMode::Write | OpenMode::WriteOwn => 1,
                OpenMode::CreateNew => 2,
            }),
            RemoteRequest::Close { file } => FieldWriter::new(3).u32(*file),
            RemoteRequest::Length { file } => FieldWriter::new(4).u32(*file),
            RemoteRequest::Read { file, offset, len } => {
                FieldWriter::new(5).u32(*file).u64(*offset).u32(*len)
            }
            RemoteRequest::Write { file, offset, data } => {
                FieldWriter::new(6).u32(*file).u64(*offset).rest(data)
            }
            RemoteRequest::Sync { file } => FieldWriter::new(7).u32(*file),
            RemoteRequest::Exists { place } => place_writer(8, place),
            RemoteRequest::Remove { place } => place_writer(9, place),
            RemoteRequest::Rename { from, to } => place_writer(10, from).text(to),
            RemoteRequest::SyncDirectory { directory } => FieldWriter::new(11).text(directory),
            RemoteRequest::List { directory, after } => place_writer(12, directory).text(after),
            RemoteRequest::Lock { place } => place_writer(13, place),
            RemoteRequest::Unlock { lock } => FieldWriter::new(14).u32(*lock),
        };
        writer.finish()
    }

    /// Decodes a request from a message.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the message is not a valid request.
    pub fn decode(message: &[u8]) -> io::Result<RemoteRequest> {
        let mut fields = FieldReader::new(message);
        let request = match fields.u8()? {
            0 => {
                if fields.u64()? != MAGIC {
                    return Err(malformed_message());
                }
                // Other versions may send additional fields.
                RemoteRequest::Hello { version: fields.u16()?, token: fields.rest() }
            }
            1 => RemoteRequest::Ping,
            2 => {
                let place = read_remote_path(&mut fields)?;
                let mode = match fields.u8()? {
                    0 => OpenMode::Read,
                    1 => OpenMode::Write,
                    2 => OpenMode::CreateNew,
                    _ => return Err(malformed_message()),
                };
                RemoteRequest::Open { place, mode }
            }
            3 => RemoteRequest::Close { file: fields.u32()? },
            4 => RemoteRequest::Length { file: fields.u32()? },
            5 => RemoteRequest::Read { file: fields.u32()?, offset: fields.u64()?, len: fields.u32()? },
            6 => RemoteRequest::Write { file: fields.u32()?, offset: fields.u64()?, data: fields.rest() },
            7 => RemoteRequest::Sync { file: fields.u32()? },
            8 => RemoteRequest::Exists { place: read_remote_path(&mut fields)? },
            9 => RemoteRequest::Remove { place: read_remote_path(&mut fields)? },
            10 => RemoteRequest::Rename { from: read_remote_path(&mut fields)?, to: fields.text()? },
            11 => RemoteRequest::SyncDirectory { directory: fields.text()? },
            12 => RemoteRequest::List { directory: read_remote_path(&mut fields)?, after: fields.text()? },
            13 => RemoteRequest::Lock { place: read_remote_path(&mut fields)? },
            14 => RemoteRequest::Unlock { lock: fields.u32()? },
            _ => return Err(malformed_message()),
        };
        fields.finish(request)
    }
}

fn read_remote_path(fields: &mut FieldReader<'_>) -> io::Result<RemotePath> {
    Ok(RemotePath { directory: fields.text()?, file: fields.text()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_round_trip() {
        let place = || RemotePath { directory: "app".into(), file: "E00.log".into() };
        let requests = [
            RemoteRequest::Hello { version: 1, token: b"secret".to_vec() },
            RemoteRequest::Ping,
            RemoteRequest::Open { place: place(), mode: OpenMode::CreateNew },
            RemoteRequest::Close { file: 1 },
            RemoteRequest::Length { file: 2 },
            RemoteRequest::Read { file: 3, offset: 1 << 40, len: 4096 },
            RemoteRequest::Write { file: 4, offset: 5, data: vec![9; 100] },
            RemoteRequest::Sync { file: 6 },
            RemoteRequest::Exists { place: place() },
            RemoteRequest::Remove { place: place() },
            RemoteRequest::Rename { from: place(), to: "E0000000001.log".into() },
            RemoteRequest::SyncDirectory { directory: "app".into() },
            RemoteRequest::List { directory: place(), after: String::new() },
            RemoteRequest::Lock { place: place() },
            RemoteRequest::Unlock { lock: 7 },
        ];
        for request in requests {
            let bytes = request.encode();
            assert_eq!(RemoteRequest::decode(&bytes).unwrap(), request);
            let rest_is_data = matches!(request, RemoteRequest::Hello { .. } | RemoteRequest::Write { .. });
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(RemoteRequest::decode(&longer).is_ok(), rest_is_data, "{request:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_to_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = RemoteRequest::decode(&bytes) {
                prop_assert_eq!(RemoteRequest::decode(&request.encode()).unwrap(), request);
            }
        }
    }
}
