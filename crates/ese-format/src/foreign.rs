//! Recognition of files in other formats, which a user may mistake for ESE databases.

use std::fmt;

use crate::header::DATABASE_MAGIC;
use crate::recognise::EseFileKind;

/// Format of a file that is not an ESE file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFormat {
    /// An SQLite database.
    Sqlite,
    /// An Access database in the Jet 3 format, which is unrelated to the Jet of ESE.
    AccessJet3,
    /// An Access database in the Jet 4 format.
    AccessJet4,
    /// An Access database in the format of the Access Database Engine (ACE).
    AccessAce,
    /// A gzip file.
    Gzip,
    /// A Zstandard file.
    Zstandard,
    /// A ZIP archive.
    Zip,
    /// A 7z archive.
    SevenZip,
    /// An Outlook message store (PST or OST).
    OutlookStore,
    /// A registry hive.
    RegistryHive,
    /// An Exchange 2000 or 2003 streaming file.
    ExchangeStreaming,
    /// A file whose first sector is all zeros.
    Zeros,
}

/// Offset and bytes that identify each format.
const MAGIC_NUMBERS: [(usize, &[u8], ForeignFormat); 11] = [
    (0, b"SQLite format 3\0", ForeignFormat::Sqlite),
    (0, b"\0\x01\0\0Standard Jet DB\0\0", ForeignFormat::AccessJet3),
    (0, b"\0\x01\0\0Standard Jet DB\0\x01", ForeignFormat::AccessJet4),
    (0, b"\0\x01\0\0Standard ACE DB\0", ForeignFormat::AccessAce),
    (0, b"\x1f\x8b\x08", ForeignFormat::Gzip),
    (0, b"\x28\xb5\x2f\xfd", ForeignFormat::Zstandard),
    (0, b"PK\x03\x04", ForeignFormat::Zip),
    (0, b"7z\xbc\xaf\x27\x1c", ForeignFormat::SevenZip),
    (0, b"!BDN", ForeignFormat::OutlookStore),
    (0, b"regf", ForeignFormat::RegistryHive),
    // Format version of a database, followed by the file attribute of a streaming file.
    (8, b"\x20\x06\0\0\x01\0\0\0", ForeignFormat::ExchangeStreaming),
];

/// Number of leading zero bytes that make a file count as [`ForeignFormat::Zeros`].
const SECTOR_BYTES: usize = 512;

impl ForeignFormat {
    /// Recognises a file by its first bytes.
    pub fn detect(start: &[u8]) -> Option<ForeignFormat> {
        let is_database = start.get(4..8) == Some(&DATABASE_MAGIC.to_le_bytes()[..]);
        let matches = |(at, magic, format): &&(usize, &[u8], ForeignFormat)| {
            start.get(*at..).is_some_and(|rest| rest.starts_with(magic))
                && is_database == (*format == ForeignFormat::ExchangeStreaming)
        };
        let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
        match MAGIC_NUMBERS.iter().find(matches) {
            Some((.., format)) => Some(*format),
            None => start.get(..SECTOR_BYTES).is_some_and(is_zero).then_some(ForeignFormat::Zeros),
        }
    }
}

impl fmt::Display for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ForeignFormat::Sqlite => "an SQLite database (Windows 11 keeps its search index in it)",
            ForeignFormat::AccessJet3 => "an Access database (Jet 3)",
            ForeignFormat::AccessJet4 => "an Access database (Jet 4)",
            ForeignFormat::AccessAce => "an Access database (ACE)",
            ForeignFormat::Gzip => "a gzip file (check, dump and export read it if its name ends in .gz)",
            ForeignFormat::Zstandard => {
                "a Zstandard file (check, dump and export read it if its name ends in .zst)"
            }
            ForeignFormat::Zip => "a ZIP archive",
            ForeignFormat::SevenZip => "a 7z archive",
            ForeignFormat::OutlookStore => "a message store of Outlook (PST or OST)",
            ForeignFormat::RegistryHive => "a registry hive",
            ForeignFormat::ExchangeStreaming => {
                "a streaming file of Exchange (.stm), which belongs to an .edb file"
            }
            ForeignFormat::Zeros => "a file that begins with zeros",
        })
    }
}

/// Content of a file, judged by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// An ESE file, or an unknown format.
    Ese(EseFileKind),
    /// A file in the format of another program.
    Foreign(ForeignFormat),
}

impl FileContent {
    /// Recognises a file by its first bytes, using at most [`START_LEN`](crate::recognise::START_LEN) of them.
    pub fn detect(start: &[u8]) -> FileContent {
        match (EseFileKind::detect(start), ForeignFormat::detect(start)) {
            (EseFileKind::Unknown, Some(format))
            | (EseFileKind::Database, Some(format @ ForeignFormat::ExchangeStreaming)) => {
                FileContent::Foreign(format)
            }
            (kind, _) => FileContent::Ese(kind),
        }
    }

    /// Returns text that completes a sentence such as `the file is not an ESE database`, for example ` but a ZIP
    /// archive`. The text is empty if the format is unknown. It is also empty if the format is `wanted`, because the
    /// file is then merely damaged.
    pub fn correction(self, wanted: EseFileKind) -> String {
        match self {
            FileContent::Ese(kind) if kind == wanted || kind == EseFileKind::Unknown => String::new(),
            content => format!(" but {content}"),
        }
    }
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileContent::Ese(kind) => kind.fmt(f),
            FileContent::Foreign(format) => format.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::header::FILE_TYPE_LOG;
    use crate::recognise::FILE_TYPE_AT;

    fn padded(start: &[u8]) -> Vec<u8> {
        let mut bytes = start.to_vec();
        bytes.resize(4096, 7);
        bytes
    }

    #[test]
    fn every_format_is_recognised_by_its_first_bytes() {
        for (at, magic, format) in MAGIC_NUMBERS {
            let mut bytes = padded(&[]);
            if format == ForeignFormat::ExchangeStreaming {
                bytes[4..8].copy_from_slice(&DATABASE_MAGIC.to_le_bytes());
            }
            bytes[at..at + magic.len()].copy_from_slice(magic);
            assert_eq!(FileContent::detect(&bytes), FileContent::Foreign(format));
            // If the last byte of its magic number is missing, a streaming file is taken for a database.
            let cut = &bytes[..at + magic.len() - 1];
            assert_eq!(FileContent::detect(cut), FileContent::Ese(EseFileKind::detect(cut)));
        }
    }

    #[test]
    fn other_files_are_not_named_wrongly() {
        let text = padded(b"SQLite format 2");
        for (start, correction) in [
            (&text[..], ""),
            (&padded(b"\0\x01\0\0Standard Jet DB\0\x05"), ""),
            (b"", ""),
            (&[0; 511], ""),
            (&[0; 512], " but a file that begins with zeros"),
        ] {
            assert_eq!(FileContent::detect(start).correction(EseFileKind::Database), correction);
        }
        let mut log = padded(&[]);
        log[FILE_TYPE_AT..FILE_TYPE_AT + 4].copy_from_slice(&FILE_TYPE_LOG.to_le_bytes());
        assert_eq!(FileContent::detect(&log).correction(EseFileKind::Database), " but an ESE log file");
        assert_eq!(FileContent::detect(&log).correction(EseFileKind::Log), "");
        // A database whose first sector is zeroed is still recognized by its second header copy.
        let mut shadow = vec![0; 16384];
        shadow[4100..4104].copy_from_slice(&DATABASE_MAGIC.to_le_bytes());
        assert_eq!(FileContent::detect(&shadow), FileContent::Ese(EseFileKind::Database));
    }
}
