//! Newtypes that are common to all on-disk structures: page numbers, log positions, database times, and signatures.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

/// A page number within a database. Page 1 follows the two header copies. ESE: `pgno`.
///
/// On disk, zero means "no page". It is represented as `None`.
#[doc(alias = "pgno")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNumber(NonZeroU32);

impl PageNumber {
    /// Creates a page number. Returns `None` for 0, which ESE uses for "no page".
    pub const fn new(number: u32) -> Option<PageNumber> {
        match NonZeroU32::new(number) {
            Some(n) => Some(PageNumber(n)),
            None => None,
        }
    }

    /// Creates a page number from a constant that is known to be non-zero, such as the number of a system page. If
    /// `number` is 0, returns page 1.
    pub const fn fixed(number: u32) -> PageNumber {
        match NonZeroU32::new(number) {
            Some(n) => PageNumber(n),
            None => PageNumber(NonZeroU32::MIN),
        }
    }

    /// Returns the number in its on-disk form.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the page that is `count` pages after this one. The result saturates at the largest page number.
    #[must_use]
    pub const fn plus(self, count: u32) -> PageNumber {
        PageNumber(self.0.saturating_add(count))
    }

    /// Converts an optional page number to its on-disk form, in which 0 means none.
    pub fn to_raw(page: Option<PageNumber>) -> u32 {
        page.map_or(0, PageNumber::get)
    }
}

impl fmt::Debug for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A per-database counter of page modifications, not a clock. ESE: `DBTIME`.
#[doc(alias = "DBTIME")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DbTime(pub u64);

impl DbTime {
    /// dbtime of a page that was removed from its database by a shrink. ESE: `dbtimeShrunk`.
    #[doc(alias = "dbtimeShrunk")]
    pub const SHRUNK: DbTime = DbTime(u64::MAX - 2);
    /// dbtime of a page that did not exist in the state to which its database was reverted. ESE: `dbtimeRevert`.
    #[doc(alias = "dbtimeRevert")]
    pub const REVERTED: DbTime = DbTime(u64::MAX - 3);

    /// Returns true if a page with this dbtime counts as never written. Such a page is older than every change, and
    /// its contents have no meaning.
    pub const fn is_unwritten(self) -> bool {
        self.0 == DbTime::SHRUNK.0 || self.0 == DbTime::REVERTED.0
    }
}

/// Object id of a B+ tree, stored in all its pages and in those of its space trees. ESE: `objidFDP`.
#[doc(alias = "objidFDP")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TreeId(pub u32);

/// Identifies a database in the log while it is attached. Ids start at 1. ESE: `DBID`.
#[doc(alias = "DBID")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DatabaseIdInLog(pub u8);

/// A log file's number within its stream, starting at 1. ESE: `lGeneration`.
#[doc(alias = "lGeneration")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub u32);

impl Generation {
    /// Returns the next generation.
    #[must_use]
    pub const fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

/// A supported page size: 4, 8, 16, or 32 KiB, and 2 KiB for reading only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// Page size of 4 KiB.
    pub const KIB_4: PageSize = PageSize(4096);
    /// Page size of 8 KiB.
    pub const KIB_8: PageSize = PageSize(8192);
    /// Page size of 16 KiB.
    pub const KIB_16: PageSize = PageSize(16384);
    /// Page size of 32 KiB, which is the default.
    pub const KIB_32: PageSize = PageSize(32768);

    /// Creates a page size. Returns `None` unless `bytes` is 2048, 4096, 8192, 16384, or 32768.
    pub const fn new(bytes: u32) -> Option<PageSize> {
        match bytes {
            2048 | 4096 | 8192 | 16384 | 32768 => Some(PageSize(bytes)),
            _ => None,
        }
    }

    /// Decodes the page size in a database header. Files written before the field existed contain 0 and have 4 KiB
    /// pages.
    pub const fn from_header(stored: u32) -> Option<PageSize> {
        if stored == 0 { Some(PageSize::KIB_4) } else { PageSize::new(stored) }
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Returns the size in bytes, in the form stored in the header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns true for 16 and 32 KiB pages. Large pages have an 80-byte header, four checksums, and node flags in
    /// the node.
    pub const fn is_large(self) -> bool {
        self.0 >= 16384
    }

    /// Returns the length of the page header in bytes: 80 on large pages, 40 on others.
    pub const fn header_len(self) -> usize {
        if self.is_large() { 80 } else { 40 }
    }

    /// Returns the file offset of a page, taking into account the two header copies at the start of the file.
    pub const fn offset_of(self, page: PageNumber) -> u64 {
        (page.get() as u64 + 1) * self.0 as u64
    }
}

impl fmt::Debug for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.0 / 1024)
    }
}

/// Position in the log stream. The position of a record is that of its first byte. ESE: `LGPOS`.
///
/// ```text
///  0        2        4            8
///  | offset | segment| generation |   little-endian; compares as one u64
/// ```
///
/// All offsets up to [`RECORDS_AT`](crate::log::segment::RECORDS_AT) compare as equal. ESE may store the position of
/// a segment's first record with either the record's offset or 0.
#[doc(alias = "LGPOS")]
#[derive(Clone, Copy, Default)]
pub struct LogPosition {
    /// Generation of the log file.
    pub generation: Generation,
    /// Index of the 4 KiB segment in the file; 0 is the log header. ESE: `isec`.
    pub segment: u16,
    /// Offset of the byte in the segment. ESE: `ib`.
    pub offset: u16,
}

impl LogPosition {
    /// Offset of the first record in a segment.
    pub(crate) const FIRST_RECORD: u16 = 40;
    /// Position that precedes every record.
    pub const MIN: LogPosition = LogPosition { generation: Generation(0), segment: 0, offset: 0 };
    /// Position that follows every record.
    pub const MAX: LogPosition =
        LogPosition { generation: Generation(u32::MAX), segment: u16::MAX, offset: u16::MAX };

    /// Creates a position from its components.
    pub const fn new(generation: u32, segment: u16, offset: u16) -> LogPosition {
        LogPosition { generation: Generation(generation), segment, offset }
    }

    /// Converts the position to the 64-bit number that is stored little-endian.
    pub const fn to_u64(self) -> u64 {
        ((self.generation.0 as u64) << 32) | ((self.segment as u64) << 16) | self.offset as u64
    }

    /// Converts a 64-bit number to a position; the inverse of [`LogPosition::to_u64`].
    pub const fn from_u64(value: u64) -> LogPosition {
        LogPosition::new((value >> 32) as u32, (value >> 16) as u16, value as u16)
    }

    /// Returns the position of the next byte that can belong to a record.
    #[must_use]
    pub const fn next_byte(self) -> LogPosition {
        LogPosition::from_u64(self.place().saturating_add(1))
    }

    /// Returns a number that sorts in the same order as positions.
    const fn place(self) -> u64 {
        let first = LogPosition::FIRST_RECORD;
        LogPosition { offset: if self.offset < first { first } else { self.offset }, ..self }.to_u64()
    }
}

impl PartialEq for LogPosition {
    fn eq(&self, other: &LogPosition) -> bool {
        self.place() == other.place()
    }
}

impl Eq for LogPosition {}

impl Ord for LogPosition {
    fn cmp(&self, other: &LogPosition) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for LogPosition {
    fn partial_cmp(&self, other: &LogPosition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for LogPosition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl fmt::Debug for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:X},{:X},{:X})", self.generation.0, self.segment, self.offset)
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X},{:04X},{:04X}", self.generation.0, self.segment, self.offset)
    }
}

/// Wall-clock time in ESE's stored format. ESE: `LOGTIME`.
///
/// ```text
///  0     1     2     3     4      5           6                      7
///  | sec | min | hour| day | month| year-1900 | bit 0 UTC, ms 0..6<<1 | bit 0 snapshot, ms 7..9<<1 |
/// ```
#[doc(alias = "LOGTIME")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LogTime(pub [u8; 8]);

impl LogTime {
    /// Value that means "no time".
    pub const NONE: LogTime = LogTime([0; 8]);

    /// Converts milliseconds since 1970 UTC. Times outside 1900..=2155 become [`LogTime::NONE`].
    pub fn from_unix_ms(ms: i64) -> LogTime {
        let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
        // Civil-from-days algorithm, with 400-year eras that start on 1 March.
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        let Ok(year) = u8::try_from(year - 1900) else { return LogTime::NONE };
        let (secs, milli) = (in_day / 1000, (in_day % 1000) as u16);
        LogTime([
            (secs % 60) as u8,
            (secs / 60 % 60) as u8,
            (secs / 3600) as u8,
            day as u8,
            month as u8,
            year,
            1 | ((milli & 0x7f) as u8) << 1,
            ((milli >> 7) as u8) << 1,
        ])
    }

    /// Returns the time in milliseconds since 1970 UTC, or `None` if this value means "no time". A local time is
    /// interpreted as UTC.
    pub fn unix_ms(self) -> Option<i64> {
        let [second, minute, hour, day, month, year, ..] = self.0.map(i64::from);
        if self.0 == [0; 8] || !(1..=12).contains(&month) {
            return None;
        }
        // Days-from-civil algorithm, the inverse of the calculation in `from_unix_ms`.
        let year = 1900 + year - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let yoe = year.rem_euclid(400);
        let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468;
        Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + i64::from(self.millis()))
    }

    /// Returns the milliseconds, which are 0..=999 in undamaged files.
    const fn millis(self) -> u16 {
        (self.0[6] >> 1) as u16 | (((self.0[7] >> 1) & 7) as u16) << 7
    }
}

impl fmt::Debug for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0; 8] {
            return f.write_str("-");
        }
        let [s, m, h, d, mo, y, ..] = self.0;
        let zone = if self.0[6] & 1 == 1 { "Z" } else { "" };
        write!(f, "{:04}-{mo:02}-{d:02}T{h:02}:{m:02}:{s:02}.{:03}{zone}", 1900 + u32::from(y), self.millis())
    }
}

/// Identifies a database or log stream by a random number and a creation time. ESE: `SIGNATURE`.
///
/// ```text
///  0        4                 12                       28
///  | random | creation time   | computer name (zero)   |
/// ```
#[doc(alias = "SIGNATURE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Signature {
    /// Random part of the signature.
    pub random: u32,
    /// Time at which the signature was created.
    pub created: LogTime,
    /// NetBIOS name of the computer; zero in files from the last 20 years.
    pub computer: [u8; 16],
}

impl Signature {
    /// Length on disk in bytes.
    pub const LEN: usize = 28;

    /// Creates a signature from a random number and a creation time.
    pub fn new(random: u32, created: LogTime) -> Signature {
        Signature { random, created, computer: [0; 16] }
    }

    /// Encodes the value in its on-disk form.
    pub fn to_bytes(self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&self.random.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.created.0);
        bytes[12..].copy_from_slice(&self.computer);
        bytes
    }

    /// Decodes the on-disk bytes.
    pub fn from_bytes(bytes: &[u8; 28]) -> Signature {
        let mut signature = Signature::default();
        let (random, rest) = bytes.split_at(4);
        let (created, computer) = rest.split_at(8);
        signature.random = u32::from_le_bytes(random.try_into().unwrap_or_default());
        signature.created.0.copy_from_slice(created);
        signature.computer.copy_from_slice(computer);
        signature
    }

    /// Returns the on-disk bytes as 56 hexadecimal digits.
    pub fn to_hex(self) -> String {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
        self.to_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xF)]).collect()
    }

    /// Parses the text returned by [`to_hex`](Signature::to_hex). Returns `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Signature> {
        if text.len() != 2 * Signature::LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; Signature::LEN];
        for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(Signature::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_hexadecimal_signatures_round_trip() {
        let signature =
            Signature { computer: *b"EXCHANGE01\0\0\0\0\0\xff", ..Signature::new(7, LogTime([9; 8])) };
        let text = signature.to_hex();
        assert_eq!(Signature::from_hex(&text), Some(signature));
        for other in
            ["", "é7", &text[1..], &format!("{text}0"), &format!("+{}", &text[1..]), &text.replace('f', "é")]
        {
            assert_eq!(Signature::from_hex(other), None, "{other}");
        }
    }

    #[test]
    fn log_time_matches_the_reference_example() {
        // The time is 2022-08-19 11:46:32.636 UTC, from a real header.
        let time = LogTime::from_unix_ms(1_660_909_592_636);
        assert_eq!(time.0, [0x20, 0x2e, 0x0b, 0x13, 0x08, 0x7a, 0xf9, 0x08]);
        assert_eq!(time.to_string(), "2022-08-19T11:46:32.636Z");
    }

    #[test]
    fn log_positions_sort_like_integers() {
        let p = LogPosition::new(5, 3, 0x1d5);
        assert_eq!(LogPosition::from_u64(p.to_u64()), p);
        assert!(
            LogPosition::new(5, 4, 0) > p && LogPosition::new(6, 0, 0) > LogPosition::new(5, 0xffff, 0xffff)
        );
    }

    #[test]
    fn the_first_record_of_a_segment_has_one_position() {
        let hash = |position: LogPosition| {
            let mut hasher = std::hash::DefaultHasher::new();
            position.hash(&mut hasher);
            hasher.finish()
        };
        let first = LogPosition::new(5, 3, LogPosition::FIRST_RECORD);
        for offset in 0..=LogPosition::FIRST_RECORD {
            let same = LogPosition::new(5, 3, offset);
            assert_eq!((same, same.cmp(&first), hash(same)), (first, Ordering::Equal, hash(first)));
            assert_eq!(same.to_u64() as u16, offset, "the stored form keeps the offset");
            assert!(LogPosition::new(5, 2, 4095) < same && same < LogPosition::new(5, 3, 41));
            assert!(same < same.next_byte() && same.next_byte() == LogPosition::new(5, 3, 41));
        }
        assert_ne!(LogPosition::new(5, 3, 41), first);
        assert_ne!(LogPosition::new(5, 2, 0), first);
    }
}
