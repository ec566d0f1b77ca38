//! Requests from a client.

use std::io;

use jetcell_vfs::OpenMode;

use crate::fields::{FieldReader, FieldWriter, garbled};

/// Magic number at the start of a connection.
const MAGIC: u64 = u64::from_le_bytes(*b"jetcellR");
/// Protocol version. Client and server must have the same version.
pub const VERSION: u16 = 1;

/// A file in an exported directory, identified by export name and file name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Name of the export.
    pub directory: String,
    /// Name of the file; empty for the directory itself.
    pub file: String,
}

/// A request from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Sends the client's protocol version and token.
    Hello {
        version: u16,
        token: Vec<u8>,
    },
    /// Keeps the connection alive.
    Ping,
    Open {
        place: Place,
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
        place: Place,
    },
    Remove {
        place: Place,
    },
    /// Renames a file within one directory.
    Rename {
        from: Place,
        to: String,
    },
    SyncDirectory {
        directory: String,
    },
    /// Lists the names after `after`, in ascending order.
    List {
        directory: Place,
        after: String,
    },
    Lock {
        place: Place,
    },
    Unlock {
        lock: u32,
    },
}

impl Request {
    /// Encodes the request as a message.
    pub fn encode(&self) -> Vec<u8> {
        let at = |kind: u8, place: &Place| FieldWriter::new(kind).text(&place.directory).text(&place.file);
        let writer = match self {
            Request::Hello { version, token } => FieldWriter::new(0).u64(MAGIC).u16(*version).rest(token),
            Request::Ping => FieldWriter::new(1),
            Request::Open { place, mode } => at(2, place).u8(match mode {
                OpenMode::Read => 0,
                OpenMode::Write | OpenMode::WriteOwn => 1,
                OpenMode::CreateNew => 2,
            }),
            Request::Close { file } => FieldWriter::new(3).u32(*file),
            Request::Length { file } => FieldWriter::new(4).u32(*file),
            Request::Read { file, offset, len } => FieldWriter::new(5).u32(*file).u64(*offset).u32(*len),
            Request::Write { file, offset, data } => FieldWriter::new(6).u32(*file).u64(*offset).rest(data),
            Request::Sync { file } => FieldWriter::new(7).u32(*file),
            Request::Exists { place } => at(8, place),
            Request::Remove { place } => at(9, place),
            Request::Rename { from, to } => at(10, from).text(to),
            Request::SyncDirectory { directory } => FieldWriter::new(11).text(directory),
            Request::List { directory, after } => at(12, directory).text(after),
            Request::Lock { place } => at(13, place),
            Request::Unlock { lock } => FieldWriter::new(14).u32(*lock),
        };
        writer.end()
    }

    /// Decodes a request from a message.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the message is not a valid request.
    pub fn decode(message: &[u8]) -> io::Result<Request> {
        let mut fields = FieldReader::new(message);
        let request = match fields.u8()? {
            0 => {
                if fields.u64()? != MAGIC {
                    return Err(garbled());
                }
                // Other versions may send additional fields.
                Request::Hello { version: fields.u16()?, token: fields.rest() }
            }
            1 => Request::Ping,
            2 => {
                let place = place(&mut fields)?;
                let mode = match fields.u8()? {
                    0 => OpenMode::Read,
                    1 => OpenMode::Write,
                    2 => OpenMode::CreateNew,
                    _ => return Err(garbled()),
                };
                Request::Open { place, mode }
            }
            3 => Request::Close { file: fields.u32()? },
            4 => Request::Length { file: fields.u32()? },
            5 => Request::Read { file: fields.u32()?, offset: fields.u64()?, len: fields.u32()? },
            6 => Request::Write { file: fields.u32()?, offset: fields.u64()?, data: fields.rest() },
            7 => Request::Sync { file: fields.u32()? },
            8 => Request::Exists { place: place(&mut fields)? },
            9 => Request::Remove { place: place(&mut fields)? },
            10 => Request::Rename { from: place(&mut fields)?, to: fields.text()? },
            11 => Request::SyncDirectory { directory: fields.text()? },
            12 => Request::List { directory: place(&mut fields)?, after: fields.text()? },
            13 => Request::Lock { place: place(&mut fields)? },
            14 => Request::Unlock { lock: fields.u32()? },
            _ => return Err(garbled()),
        };
        fields.end(request)
    }
}

fn place(fields: &mut FieldReader<'_>) -> io::Result<Place> {
    Ok(Place { directory: fields.text()?, file: fields.text()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
        let place = || Place { directory: "app".into(), file: "E00.log".into() };
        let requests = [
            Request::Hello { version: 1, token: b"secret".to_vec() },
            Request::Ping,
            Request::Open { place: place(), mode: OpenMode::CreateNew },
            Request::Close { file: 1 },
            Request::Length { file: 2 },
            Request::Read { file: 3, offset: 1 << 40, len: 4096 },
            Request::Write { file: 4, offset: 5, data: vec![9; 100] },
            Request::Sync { file: 6 },
            Request::Exists { place: place() },
            Request::Remove { place: place() },
            Request::Rename { from: place(), to: "E0000000001.log".into() },
            Request::SyncDirectory { directory: "app".into() },
            Request::List { directory: place(), after: String::new() },
            Request::Lock { place: place() },
            Request::Unlock { lock: 7 },
        ];
        for request in requests {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes).unwrap(), request);
            let rest_is_data = matches!(request, Request::Hello { .. } | Request::Write { .. });
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Request::decode(&longer).is_ok(), rest_is_data, "{request:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(Request::decode(&request.encode()).unwrap(), request);
            }
        }
    }
}
