//! Typed values and their stored form.

use std::borrow::Cow;

use thiserror::Error;
use zerocopy::{Immutable, IntoBytes};

use super::{CodePage, Column, ColumnType};

/// A typed column value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// The null value.
    Null,
    /// Value of a [`ColumnType::Bit`] column.
    Bit(bool),
    /// Value of a [`ColumnType::UnsignedByte`] column.
    UnsignedByte(u8),
    /// Value of a [`ColumnType::Short`] column.
    Short(i16),
    /// Value of a [`ColumnType::Long`] column.
    Long(i32),
    /// Value of a [`ColumnType::UnsignedLong`] column.
    UnsignedLong(u32),
    /// Value of a [`ColumnType::LongLong`] column.
    LongLong(i64),
    /// Value of a [`ColumnType::UnsignedLongLong`] column.
    UnsignedLongLong(u64),
    /// Value of a [`ColumnType::UnsignedShort`] column.
    UnsignedShort(u16),
    /// Value of a [`ColumnType::Currency`] column, in units of 1/10,000.
    Currency(i64),
    /// Value of a [`ColumnType::Single`] column.
    Single(f32),
    /// Value of a [`ColumnType::Double`] column.
    Double(f64),
    /// Value of a [`ColumnType::DateTime`] column: days since 1899-12-30.
    DateTime(f64),
    /// Value of a [`ColumnType::Guid`] column, in its stored form.
    Guid([u8; 16]),
    /// Value of a [`ColumnType::Binary`] or [`ColumnType::LongBinary`] column.
    Binary(Vec<u8>),
    /// Value of a [`ColumnType::Text`] or [`ColumnType::LongText`] column.
    Text(String),
}

/// Error returned when bytes cannot be decoded as a value, or when a value cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The value's length does not match its type.
    #[error("a {kind:?} of {len} bytes")]
    WrongLength {
        /// Type of the column.
        kind: ColumnType,
        /// Actual length in bytes.
        len: usize,
    },
    /// The value's type does not match the column's type.
    #[error("the value does not match the column's type {0:?}")]
    WrongType(ColumnType),
    /// The code page is not 1200, 1252, or 20127.
    #[error("code page {0} is not supported")]
    CodePage(u32),
    /// The column's code page does not contain this character.
    #[error("{0:?} cannot be represented in the column's code page")]
    Character(char),
}

/// Windows-1252 characters from 0x80 to 0x9F; 0xFFFD marks unassigned bytes.
const WESTERN_HIGH: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
    '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

impl Value {
    /// Decodes a value of `column`.
    ///
    /// Invalid text is decoded with replacement characters. Blanks that pad fixed-length text are preserved.
    pub fn decode(column: &Column, bytes: &[u8]) -> Result<Value, ValueError> {
        let kind = column.kind;
        let len = bytes.len();
        fn exact<const N: usize>(kind: ColumnType, bytes: &[u8]) -> Result<[u8; N], ValueError> {
            bytes.try_into().map_err(|_| ValueError::WrongLength { kind, len: bytes.len() })
        }
        Ok(match kind {
            ColumnType::Bit => match bytes {
                [byte] => Value::Bit(*byte != 0),
                _ => return Err(ValueError::WrongLength { kind, len }),
            },
            ColumnType::UnsignedByte => Value::UnsignedByte(u8::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Short => Value::Short(i16::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Long => Value::Long(i32::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::UnsignedLong => Value::UnsignedLong(u32::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::LongLong => Value::LongLong(i64::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::UnsignedLongLong => Value::UnsignedLongLong(u64::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::UnsignedShort => Value::UnsignedShort(u16::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Currency => Value::Currency(i64::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Single => Value::Single(f32::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Double => Value::Double(f64::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::DateTime => Value::DateTime(f64::from_le_bytes(exact(kind, bytes)?)),
            ColumnType::Guid => Value::Guid(exact(kind, bytes)?),
            ColumnType::Binary | ColumnType::LongBinary => Value::Binary(bytes.to_vec()),
            ColumnType::Text | ColumnType::LongText => Value::Text(column.code_page.decode(bytes)?),
        })
    }

    /// Encodes the value for `column`. Returns `None` for null.
    pub fn encode(&self, column: &Column) -> Result<Option<Cow<'_, [u8]>>, ValueError> {
        let kind = column.kind;
        let raw = match (self, kind) {
            (Value::Null, _) => return Ok(None),
            (Value::Bit(value), ColumnType::Bit) => vec![if *value { 0xff } else { 0 }],
            (Value::UnsignedByte(value), ColumnType::UnsignedByte) => vec![*value],
            (Value::Short(value), ColumnType::Short) => return Ok(Some(little_endian(value))),
            (Value::Long(value), ColumnType::Long) => return Ok(Some(little_endian(value))),
            (Value::UnsignedLong(value), ColumnType::UnsignedLong) => return Ok(Some(little_endian(value))),
            (Value::LongLong(value), ColumnType::LongLong) => return Ok(Some(little_endian(value))),
            (Value::UnsignedLongLong(value), ColumnType::UnsignedLongLong) => {
                return Ok(Some(little_endian(value)));
            }
            (Value::UnsignedShort(value), ColumnType::UnsignedShort) => {
                return Ok(Some(little_endian(value)));
            }
            (Value::Currency(value), ColumnType::Currency) => return Ok(Some(little_endian(value))),
            (Value::Single(value), ColumnType::Single) => return Ok(Some(little_endian(value))),
            (Value::Double(value), ColumnType::Double) => return Ok(Some(little_endian(value))),
            (Value::DateTime(value), ColumnType::DateTime) => return Ok(Some(little_endian(value))),
            (Value::Guid(value), ColumnType::Guid) => return Ok(Some(value.as_slice().into())),
            (Value::Binary(value), ColumnType::Binary | ColumnType::LongBinary) => {
                return Ok(Some(value.into()));
            }
            (Value::Text(text), ColumnType::Text | ColumnType::LongText) => column.code_page.encode(text)?,
            _ => return Err(ValueError::WrongType(kind)),
        };
        Ok(Some(raw.into()))
    }
}

/// Returns the bytes of a number in little-endian order. Only big-endian processors need a copy.
fn little_endian<T: IntoBytes + Immutable>(number: &T) -> Cow<'_, [u8]> {
    let bytes = number.as_bytes();
    if cfg!(target_endian = "little") { bytes.into() } else { bytes.iter().rev().copied().collect() }
}

impl CodePage {
    /// Decodes text. Invalid bytes become replacement characters.
    pub fn decode(self, bytes: &[u8]) -> Result<String, ValueError> {
        match self {
            CodePage::UNICODE => {
                let (units, rest) = bytes.as_chunks::<2>();
                let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
                let mut text: String = char::decode_utf16(units)
                    .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect();
                if !rest.is_empty() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                Ok(text)
            }
            CodePage::WESTERN | CodePage::NONE => Ok(bytes.iter().map(|byte| western(*byte)).collect()),
            CodePage::ASCII => Ok(bytes
                .iter()
                .map(|byte| if byte.is_ascii() { char::from(*byte) } else { char::REPLACEMENT_CHARACTER })
                .collect()),
            CodePage(other) => Err(ValueError::CodePage(other)),
        }
    }

    /// Encodes text. Fails if the code page lacks one of the characters.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, ValueError> {
        match self {
            CodePage::UNICODE => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            CodePage::WESTERN | CodePage::NONE => {
                text.chars().map(|c| western_byte(c).ok_or(ValueError::Character(c))).collect()
            }
            CodePage::ASCII => {
                let byte =
                    |c: char| u8::try_from(c).ok().filter(u8::is_ascii).ok_or(ValueError::Character(c));
                text.chars().map(byte).collect()
            }
            CodePage(other) => Err(ValueError::CodePage(other)),
        }
    }
}

fn western(byte: u8) -> char {
    match byte {
        0x80..=0x9f => match WESTERN_HIGH.get(usize::from(byte - 0x80)) {
            // Windows maps unassigned bytes to the control characters with the same code.
            Some('\u{fffd}') | None => char::from(byte),
            Some(assigned) => *assigned,
        },
        _ => char::from(byte),
    }
}

fn western_byte(c: char) -> Option<u8> {
    match u8::try_from(c) {
        Ok(byte) if western(byte) == c => Some(byte),
        _ => {
            let index = WESTERN_HIGH.iter().position(|high| *high == c && c != '\u{fffd}')?;
            u8::try_from(0x80 + index).ok()
        }
    }
}
