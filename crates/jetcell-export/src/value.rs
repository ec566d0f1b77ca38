//! Converts stored bytes to values, and values to text.

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;

use encoding_rs::Encoding;
use ese_format::record::{CodePage, Column, ColumnClass, ColumnType};
use jetcell_input::hex::write_hex;

/// A point in time, as stored in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// Time in units of 100 nanoseconds since 1970-01-01.
    pub ticks: i64,
    /// True if the time is known to be UTC. OLE dates have no time zone.
    pub utc: bool,
}

/// A decoded column value, ready for export.
#[derive(Clone, PartialEq, Debug)]
pub enum ExportedValue<'a> {
    /// A Boolean value.
    Bit(bool),
    /// An integer of any type except `UnsignedLongLong` and Currency.
    Int(i64),
    /// An `UnsignedLongLong`.
    UInt(u64),
    /// A Currency value in units of 1/10,000.
    Currency(i64),
    /// An `IEEESingle`.
    Single(f32),
    /// An `IEEEDouble`.
    Double(f64),
    /// A point in time.
    Time(Timestamp),
    /// A GUID's stored bytes. The first three groups are little-endian.
    Guid([u8; 16]),
    /// A binary value.
    Binary(&'a [u8]),
    /// A binary value that is a security identifier if it is well-formed. Its last part is big-endian.
    DirectorySid(&'a [u8]),
    /// Text without terminating NULs.
    Text(Cow<'a, str>),
    /// A duration in units of 100 nanoseconds.
    Duration(u64),
    /// Several values that are stored as one.
    List(Vec<ExportedValue<'a>>),
    /// Named values that are stored as one.
    Object(Vec<(&'static str, ExportedValue<'a>)>),
}

/// Reason why stored bytes cannot be decoded as a column value.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ValueDecodeError {
    /// The length of the value is wrong for its type.
    #[error("a {kind:?} of {len} bytes")]
    WrongLength {
        /// Type of the column.
        kind: ColumnType,
        /// Length of the value.
        len: usize,
    },
    /// The value is neither an OLE date nor a FILETIME.
    #[error("{0:e} is not a date")]
    NotADate(f64),
    /// The code page is not supported.
    #[error("code page {0} is not supported")]
    CodePage(u32),
    /// The bytes are not valid text in the column's code page.
    #[error("not valid text in code page {0}")]
    NotText(u32),
    /// The UTF-16 text has an odd number of bytes.
    #[error("not valid UTF-16 text (odd length)")]
    OddLength,
}

const TICKS_PER_SECOND: i64 = 10_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// Number of 100-nanosecond units from 1601-01-01 to 1970-01-01.
const FILETIME_EPOCH: i64 = 11_644_473_600 * TICKS_PER_SECOND;
/// Number of days from 1899-12-30 to 1970-01-01.
const OLE_EPOCH: f64 = 25_569.0;
/// Range of OLE dates, from the year 100 up to the start of the year 10000.
const OLE_RANGE: std::ops::Range<f64> = -657_434.0..2_958_466.0;
/// FILETIME of the start of the year 10000.
const FILETIME_END: i64 = 2_650_467_744_000_000_000;

impl<'a> ExportedValue<'a> {
    /// Decodes the stored bytes of a column.
    pub fn decode(column: &Column, bytes: &'a [u8]) -> Result<ExportedValue<'a>, ValueDecodeError> {
        fn exact<const N: usize>(column: &Column, bytes: &[u8]) -> Result<[u8; N], ValueDecodeError> {
            let error = ValueDecodeError::WrongLength { kind: column.kind, len: bytes.len() };
            bytes.try_into().map_err(|_| error)
        }
        Ok(match column.kind {
            ColumnType::Bit => ExportedValue::Bit(exact::<1>(column, bytes)? != [0]),
            ColumnType::UnsignedByte => ExportedValue::Int(u8::from_le_bytes(exact(column, bytes)?).into()),
            ColumnType::Short => ExportedValue::Int(i16::from_le_bytes(exact(column, bytes)?).into()),
            ColumnType::Long => ExportedValue::Int(i32::from_le_bytes(exact(column, bytes)?).into()),
            ColumnType::UnsignedShort => ExportedValue::Int(u16::from_le_bytes(exact(column, bytes)?).into()),
            ColumnType::UnsignedLong => ExportedValue::Int(u32::from_le_bytes(exact(column, bytes)?).into()),
            ColumnType::LongLong => ExportedValue::Int(i64::from_le_bytes(exact(column, bytes)?)),
            ColumnType::UnsignedLongLong => ExportedValue::UInt(u64::from_le_bytes(exact(column, bytes)?)),
            ColumnType::Currency => ExportedValue::Currency(i64::from_le_bytes(exact(column, bytes)?)),
            ColumnType::Single => ExportedValue::Single(f32::from_le_bytes(exact(column, bytes)?)),
            ColumnType::Double => ExportedValue::Double(f64::from_le_bytes(exact(column, bytes)?)),
            ColumnType::DateTime => ExportedValue::Time(Timestamp::decode(exact(column, bytes)?)?),
            ColumnType::Guid => ExportedValue::Guid(exact(column, bytes)?),
            ColumnType::Binary | ColumnType::LongBinary => ExportedValue::Binary(bytes),
            ColumnType::Text | ColumnType::LongText => {
                ExportedValue::Text(text(column.code_page, trim_odd_byte(column, bytes))?)
            }
        })
    }

    /// Appends the value as text, without quotes. Lists and named values are written as JSON.
    pub fn write_text(&self, to: &mut Vec<u8>) {
        // The result can be ignored, because writing to memory cannot fail.
        let _ = match self {
            ExportedValue::Bit(value) => write!(to, "{value}"),
            ExportedValue::Int(value) => write!(to, "{value}"),
            ExportedValue::UInt(value) => write!(to, "{value}"),
            ExportedValue::Currency(value) => {
                let (sign, value) = (if *value < 0 { "-" } else { "" }, value.unsigned_abs());
                write!(to, "{sign}{}.{:04}", value / 10_000, value % 10_000)
            }
            ExportedValue::Single(value) => write!(to, "{value:?}"),
            ExportedValue::Double(value) => write!(to, "{value:?}"),
            ExportedValue::Time(time) => time.write_text(to),
            ExportedValue::Guid(bytes) => write_guid(bytes, to),
            ExportedValue::Binary(bytes) => {
                if !write_sid(bytes, to) {
                    write_hex(bytes, to);
                }
                Ok(())
            }
            ExportedValue::DirectorySid(bytes) => {
                if !write_directory_sid(bytes, to) {
                    write_hex(bytes, to);
                }
                Ok(())
            }
            ExportedValue::Text(text) => to.write_all(text.as_bytes()),
            ExportedValue::Duration(ticks) => write_duration(*ticks, to),
            ExportedValue::List(_) | ExportedValue::Object(_) => {
                self.write_json(false, to);
                Ok(())
            }
        };
    }
}

impl Timestamp {
    /// Converts a FILETIME. Returns `None` for 0 and for values beyond the year 9999, both of which mean "never".
    pub(crate) fn from_filetime(value: i64) -> Option<Timestamp> {
        (1..FILETIME_END).contains(&value).then(|| Timestamp { ticks: value - FILETIME_EPOCH, utc: true })
    }

    /// Returns the time as FILETIME.
    pub(crate) fn to_filetime(self) -> i64 {
        self.ticks.saturating_add(FILETIME_EPOCH)
    }

    /// Returns the time as OLE date, in days since 1899-12-30. The time must not be before that day.
    pub(crate) fn to_ole_date(self) -> f64 {
        self.ticks as f64 / (SECONDS_PER_DAY * TICKS_PER_SECOND) as f64 + OLE_EPOCH
    }

    /// Converts a time in seconds since 1601. Returns `None` for the same values as [`Timestamp::from_filetime`].
    pub(crate) fn from_seconds(value: i64) -> Option<Timestamp> {
        Timestamp::from_filetime(value.checked_mul(TICKS_PER_SECOND)?)
    }

    /// Decodes an OLE date, or a FILETIME, which some applications store instead. The bytes of a FILETIME are almost
    /// zero when read as a double, so the two can be distinguished.
    fn decode(bytes: [u8; 8]) -> Result<Timestamp, ValueDecodeError> {
        let (days, filetime) = (f64::from_le_bytes(bytes), i64::from_le_bytes(bytes));
        if days == 0.0 || (days.abs() > 1e-9 && OLE_RANGE.contains(&days)) {
            // In an OLE date, the fraction is added to the day even for dates before the epoch.
            let (day, part) = (days.trunc(), days.fract().abs());
            let milliseconds = (part * 86_400_000.0).round();
            let ticks = (day - OLE_EPOCH) * SECONDS_PER_DAY as f64 * TICKS_PER_SECOND as f64;
            return Ok(Timestamp { ticks: ticks as i64 + milliseconds as i64 * 10_000, utc: false });
        }
        Timestamp::from_filetime(filetime).ok_or(ValueDecodeError::NotADate(days))
    }

    fn write_text(self, to: &mut Vec<u8>) -> std::io::Result<()> {
        let seconds = self.ticks.div_euclid(TICKS_PER_SECOND);
        let fraction = self.ticks.rem_euclid(TICKS_PER_SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        write!(
            to,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )?;
        if fraction % 10_000 != 0 {
            write!(to, ".{fraction:07}")?;
        } else if fraction != 0 {
            write!(to, ".{:03}", fraction / 10_000)?;
        }
        if self.utc { to.write_all(b"Z") } else { Ok(()) }
    }
}

/// Converts a number of days since 1970-01-01 to year, month and day in the Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Count years from March, so that the leap day is the last day of the year. An era has 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Removes the last byte of a UTF-16 value if the value is in a fixed column and has an odd length. That byte is half
/// of a character that was truncated when the value was stored.
pub(crate) fn trim_odd_byte<'a>(column: &Column, bytes: &'a [u8]) -> &'a [u8] {
    let odd = column.class() == ColumnClass::Fixed && column.code_page == CodePage::UNICODE;
    bytes.split_last().filter(|_| odd && !bytes.len().is_multiple_of(2)).map_or(bytes, |(_, whole)| whole)
}

/// Decodes text in the column's code page, without terminating NULs. Fails for invalid text.
fn text(code_page: CodePage, bytes: &[u8]) -> Result<Cow<'_, str>, ValueDecodeError> {
    let text = match encoding(code_page)? {
        Some(encoding) => encoding
            .decode_without_bom_handling_and_without_replacement(bytes)
            .ok_or(ValueDecodeError::NotText(code_page.0))?,
        None => {
            let (units, rest) = bytes.as_chunks::<2>();
            let mut text = String::with_capacity(units.len());
            for character in char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit))) {
                // An unpaired surrogate must not cause the rest of the text to be discarded.
                text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            if !rest.is_empty() {
                return Err(ValueDecodeError::OddLength);
            }
            Cow::Owned(text)
        }
    };
    Ok(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches('\0')),
        Cow::Owned(mut text) => {
            text.truncate(text.trim_end_matches('\0').len());
            Cow::Owned(text)
        }
    })
}

/// Returns the encoding of a Windows code page, or `None` for UTF-16.
fn encoding(code_page: CodePage) -> Result<Option<&'static Encoding>, ValueDecodeError> {
    let label = match code_page.0 {
        1200 => return Ok(None),
        0 | 1252 | 20127 | 28591 => "windows-1252",
        65001 => "utf-8",
        1201 => "utf-16be",
        866 => "ibm866",
        874 => "windows-874",
        932 => "shift_jis",
        936 => "gbk",
        949 => "euc-kr",
        950 => "big5",
        1250 => "windows-1250",
        1251 => "windows-1251",
        1253 => "windows-1253",
        1254 => "windows-1254",
        1255 => "windows-1255",
        1256 => "windows-1256",
        1257 => "windows-1257",
        1258 => "windows-1258",
        10000 => "macintosh",
        20866 => "koi8-r",
        20932 | 51932 => "euc-jp",
        21866 => "koi8-u",
        28592 => "iso-8859-2",
        28595 => "iso-8859-5",
        28597 => "iso-8859-7",
        28605 => "iso-8859-15",
        50220 => "iso-2022-jp",
        51949 => "euc-kr",
        54936 => "gb18030",
        other => return Err(ValueDecodeError::CodePage(other)),
    };
    Ok(Encoding::for_label(label.as_bytes()))
}

/// Appends a duration in ISO 8601 form, in seconds.
fn write_duration(ticks: u64, to: &mut Vec<u8>) -> std::io::Result<()> {
    let (seconds, fraction) = (ticks / TICKS_PER_SECOND as u64, ticks % TICKS_PER_SECOND as u64);
    if fraction == 0 {
        write!(to, "PT{seconds}S")
    } else {
        let fraction = format!("{fraction:07}");
        write!(to, "PT{seconds}.{}S", fraction.trim_end_matches('0'))
    }
}

/// Appends a GUID as text.
pub(crate) fn write_guid(bytes: &[u8; 16], to: &mut Vec<u8>) -> std::io::Result<()> {
    let [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, rest @ ..] = bytes;
    for (index, group) in
        [&[*a3, *a2, *a1, *a0][..], &[*b1, *b0], &[*c1, *c0], &[*d0, *d1], rest].iter().enumerate()
    {
        if index > 0 {
            to.push(b'-');
        }
        write_hex(group, to);
    }
    Ok(())
}

/// Formats an Active Directory security identifier like [`write_sid`]. Active Directory stores the last part
/// big-endian, so that the identifiers of one domain are adjacent in an index.
pub(crate) fn write_directory_sid(bytes: &[u8], to: &mut Vec<u8>) -> bool {
    let mut turned = bytes.to_vec();
    let Some(last) = turned.len().checked_sub(4).and_then(|at| turned.get_mut(at..)) else { return false };
    last.reverse();
    write_sid(&turned, to)
}

/// Decodes UTF-16 text without terminating NULs. Returns `None` if the bytes are not valid text.
pub(crate) fn decode_utf16(bytes: &[u8]) -> Option<String> {
    let whole = bytes.len().is_multiple_of(2) && unpaired_surrogates(bytes) == 0;
    let text = whole.then(|| text(CodePage::UNICODE, bytes).ok()).flatten()?;
    (!text.contains(|c: char| c.is_control() && !c.is_whitespace())).then(|| text.into_owned())
}

/// Decodes UTF-16 texts that are separated by NULs. Returns `None` if the bytes are not valid text.
pub(crate) fn decode_utf16_list(bytes: &[u8]) -> Option<Vec<String>> {
    let (units, []) = bytes.as_chunks::<2>() else { return None };
    let end = units.iter().rposition(|unit| *unit != [0, 0]).map_or(0, |last| last + 1);
    let units = units.get(..end).filter(|units| !units.is_empty());
    units.map_or(Some(Vec::new()), |units| {
        units.split(|unit| *unit == [0, 0]).map(|text| decode_utf16(text.as_flattened())).collect()
    })
}

/// Formats a security identifier, or decodes UTF-16 text.
pub(crate) fn sid_or_text(bytes: &[u8]) -> Option<String> {
    let mut sid = Vec::new();
    if write_sid(bytes, &mut sid) {
        String::from_utf8(sid).ok()
    } else {
        decode_utf16(bytes).filter(|text| !text.is_empty())
    }
}

/// Decodes text that consists of printable ASCII characters and spaces, without terminating NULs. Returns `None` for
/// anything else.
pub(crate) fn decode_ascii(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    let printable = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    (!text.is_empty() && text.bytes().all(printable)).then(|| text.to_owned())
}

/// Formats an IP address of 4 or 16 bytes.
pub(crate) fn format_address(bytes: &[u8]) -> Option<String> {
    let address = match *bytes {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(address.to_string())
}

/// Returns the number of unpaired surrogates in UTF-16 text.
pub(crate) fn unpaired_surrogates(bytes: &[u8]) -> usize {
    let units = || bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    // Most texts contain no surrogates.
    if !units().any(|unit| (0xD800..0xE000).contains(&unit)) {
        return 0;
    }
    char::decode_utf16(units()).filter(Result::is_err).count()
}

/// If `bytes` are exactly a Windows security identifier from a known authority, appends it as `S-1-...` and returns
/// true.
pub(crate) fn write_sid(bytes: &[u8], to: &mut Vec<u8>) -> bool {
    let [1, count @ 1..=15, 0, 0, 0, 0, 0, authority @ (0..=5 | 9..=18), rest @ ..] = bytes else {
        return false;
    };
    let (parts, []) = rest.as_chunks::<4>() else { return false };
    if parts.len() != usize::from(*count) {
        return false;
    }
    let _ = write!(to, "S-1-{authority}");
    for part in parts {
        let _ = write!(to, "-{}", u32::from_le_bytes(*part));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: ColumnType, code_page: u32, bytes: &[u8]) -> Result<String, ValueDecodeError> {
        let mut column = Column::new(256, "c", kind, 0);
        column.code_page = CodePage(code_page);
        let mut text = Vec::new();
        ExportedValue::decode(&column, bytes)?.write_text(&mut text);
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn dates_of_both_kinds() {
        let date = |days: f64| shown(ColumnType::DateTime, 0, &days.to_le_bytes()).unwrap();
        assert_eq!(date(0.0), "1899-12-30T00:00:00");
        assert_eq!(date(25_569.5), "1970-01-01T12:00:00");
        assert_eq!(date(-1.25), "1899-12-29T06:00:00");
        assert_eq!(date(36_585.000_011_574_08), "2000-02-29T00:00:01");
        assert_eq!(date(44_197.999_988_425_92), "2021-01-01T23:59:59");
        let filetime = |ticks: i64| shown(ColumnType::DateTime, 0, &ticks.to_le_bytes());
        assert_eq!(filetime(116_444_736_000_000_001).unwrap(), "1970-01-01T00:00:00.0000001Z");
        assert_eq!(filetime(132_000_000_000_000_000).unwrap(), "2019-04-17T18:40:00Z");
        assert!(filetime(-1).is_err());
        assert!(shown(ColumnType::DateTime, 0, &f64::INFINITY.to_le_bytes()).is_err());
    }

    #[test]
    fn integers_that_are_times() {
        let shown = |time: Option<Timestamp>| {
            let mut text = Vec::new();
            ExportedValue::Time(time.unwrap()).write_text(&mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(shown(Timestamp::from_filetime(132_000_000_000_000_000)), "2019-04-17T18:40:00Z");
        assert_eq!(shown(Timestamp::from_seconds(13_200_000_000)), "2019-04-17T18:40:00Z");
        for never in [0, -1, i64::MAX] {
            assert_eq!((Timestamp::from_filetime(never), Timestamp::from_seconds(never)), (None, None));
        }
    }

    #[test]
    fn guids_sids_and_bytes() {
        let guid =
            [0xf1, 10, 0x36, 0x3f, 0x66, 0x67, 0xdc, 0x46, 0x9a, 0xf2, 0x0d, 0xac, 0xf2, 0x95, 0xc2, 0xa1];
        assert_eq!(shown(ColumnType::Guid, 0, &guid).unwrap(), "3f360af1-6766-46dc-9af2-0dacf295c2a1");
        let sid = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
        assert_eq!(shown(ColumnType::Binary, 0, &sid).unwrap(), "S-1-5-32-544");
        assert_eq!(shown(ColumnType::Binary, 0, &sid[..15]).unwrap(), "010200000000000520000000200200");
    }

    #[test]
    fn the_last_part_of_a_directory_sid_is_big_endian() {
        // The identifier S-1-5-21-1-2-3-500, as objectSid stores it.
        let mut sid = vec![1, 5, 0, 0, 0, 0, 0, 5];
        [21u32, 1, 2, 3].iter().for_each(|part| sid.extend(part.to_le_bytes()));
        sid.extend(500u32.to_be_bytes());
        let mut text = Vec::new();
        ExportedValue::DirectorySid(&sid).write_text(&mut text);
        assert_eq!(text, b"S-1-5-21-1-2-3-500");
        text.clear();
        ExportedValue::DirectorySid(&sid[..3]).write_text(&mut text);
        assert_eq!(text, b"010500", "other bytes stay as they are");
    }

    #[test]
    fn vectors_and_durations() {
        let list = |bytes: &[u8]| decode_utf16_list(bytes);
        assert_eq!(list(b"A\0\0\0b\0\0\0").unwrap(), ["A", "b"]);
        assert_eq!(list(b"A\0\0\0\0\0b\0").unwrap(), ["A", "", "b"]);
        assert_eq!(list(b"\0\0").unwrap(), Vec::<String>::new());
        assert_eq!(list(b"A\0b"), None, "an odd length");
        assert_eq!(list(b"A\0\x01\0"), None, "a control character");
        let text = |value: ExportedValue<'_>| {
            let mut text = Vec::new();
            value.write_text(&mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(ExportedValue::Duration(19_200_000_000)), "PT1920S");
        assert_eq!(text(ExportedValue::Duration(10_500_000)), "PT1.05S");
        let list = vec![ExportedValue::Text("a\"".into()), ExportedValue::Duration(0)];
        let fields = vec![("list", ExportedValue::List(list)), ("number", ExportedValue::Int(1 << 60))];
        let object = ExportedValue::Object(fields);
        let mut json = Vec::new();
        object.write_json(true, &mut json);
        assert_eq!(json, br#"{"list":["a\"","PT0S"],"number":"1152921504606846976"}"#);
        assert_eq!(text(object), r#"{"list":["a\"","PT0S"],"number":1152921504606846976}"#);
    }

    #[test]
    fn names_are_identifiers_or_text() {
        let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        assert_eq!(sid_or_text(&sid).as_deref(), Some("S-1-5-18"));
        assert_eq!(sid_or_text(b"a\0.\0e\0x\0e\0\0\0").as_deref(), Some("a.exe"));
        assert_eq!(sid_or_text(b""), None);
        assert_eq!(sid_or_text(b"odd"), None);
    }

    #[test]
    fn numbers() {
        let currency = |value: i64| shown(ColumnType::Currency, 0, &value.to_le_bytes()).unwrap();
        assert_eq!(currency(-1), "-0.0001");
        assert_eq!(currency(i64::MIN), "-922337203685477.5808");
        assert_eq!(shown(ColumnType::UnsignedLongLong, 0, &[255; 8]).unwrap(), "18446744073709551615");
        assert_eq!(shown(ColumnType::Long, 0, &[255; 4]).unwrap(), "-1");
        assert_eq!(
            shown(ColumnType::Long, 0, &[255; 3]),
            Err(ValueDecodeError::WrongLength { kind: ColumnType::Long, len: 3 })
        );
    }

    #[test]
    fn text_in_the_column_code_page() {
        assert_eq!(shown(ColumnType::Text, 1252, b"caf\xe9 \x80\0").unwrap(), "café €");
        assert_eq!(shown(ColumnType::Text, 932, b"\x93\xfa\x96\x7b").unwrap(), "日本");
        assert_eq!(shown(ColumnType::Text, 1251, b"\xcc\xe8\xf0").unwrap(), "Мир");
        assert_eq!(shown(ColumnType::LongText, 1200, b"a\0\x3d\xd8\x00\xde").unwrap(), "a😀");
        assert_eq!(shown(ColumnType::LongText, 1200, b"a\0\x3d\xd8b\0").unwrap(), "a\u{fffd}b");
        assert_eq!(unpaired_surrogates(b"a\0\x3d\xd8b\0\x00\xde"), 2);
        assert_eq!(unpaired_surrogates(b"a\0\x3d\xd8\x00\xde"), 0);
        assert!(shown(ColumnType::LongText, 1200, b"abc").is_err());
        let fixed = Column { code_page: CodePage::UNICODE, ..Column::new(1, "c", ColumnType::Text, 3) };
        assert_eq!(
            ExportedValue::decode(&fixed, b"a\0 "),
            Ok(ExportedValue::Text("a".into())),
            "the last byte is half a space"
        );
        assert!(shown(ColumnType::Text, 37, b"x").is_err());
    }
}
