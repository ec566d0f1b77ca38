//! On-disk structures as lists of named values, for tools that display files.
//!
//! Invariants: the fields are in file order. They come from the same declaration as the decoder and the encoder.
//! Nothing is validated: if a type does not define a value, the value is returned as a number. This makes it possible
//! to display damaged structures.

use crate::layout::{Input, LayoutError};
use crate::{
    DatabaseIdInLog, DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, Signature, TreeId,
};

/// The value of one field in a decoded structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A time.
    Time(LogTime),
    /// A position in the log.
    Position(LogPosition),
    /// A signature.
    Signature(Signature),
    /// Bytes with no further structure.
    Bytes(Vec<u8>),
    /// An enumeration value. The name is absent if the number has no defined meaning.
    Choice {
        /// The stored number.
        value: u64,
        /// Name of the value.
        name: Option<String>,
    },
    /// A set of bits.
    Flags {
        /// The stored number.
        value: u64,
        /// Names of the defined bits that are set.
        names: Vec<&'static str>,
    },
    /// Several values of one type.
    List(Vec<FieldValue>),
    /// A nested structure.
    Group(Fields),
}

/// Names and values of a structure's fields, in file order.
pub type Fields = Vec<(&'static str, FieldValue)>;

/// A type whose stored bytes can be decoded into named values.
pub(crate) trait Describe {
    fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError>;
}

/// Returns the fields of `T` at the start of `bytes`.
pub(crate) fn describe_fields<T: Describe>(bytes: &[u8]) -> Result<Fields, LayoutError> {
    match T::describe(&mut Input::new(bytes))? {
        FieldValue::Group(fields) => Ok(fields),
        value => Ok(vec![("value", value)]),
    }
}

macro_rules! numbers {
    ($($name:ty: $int:ty => $variant:ident),* $(,)?) => {$(
        impl Describe for $name {
            fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
                Ok(FieldValue::$variant(<$int as crate::layout::BinaryLayout>::take(input)?.into()))
            }
        }
    )*};
}
numbers!(
    u8: u8 => Number, u16: u16 => Number, u32: u32 => Number, u64: u64 => Number,
    i16: i16 => Signed, i32: i32 => Signed, i64: i64 => Signed,
    DatabaseIdInLog: u8 => Number, DbTime: u64 => Number, TreeId: u32 => Number, Generation: u32 => Number,
    PageNumber: u32 => Number, Option<PageNumber>: u32 => Number, PageSize: u32 => Number,
);

macro_rules! simple {
    ($($name:ty => $variant:ident),* $(,)?) => {$(
        impl Describe for $name {
            fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
                Ok(FieldValue::$variant(<$name as crate::layout::BinaryLayout>::take(input)?))
            }
        }
    )*};
}
simple!(LogTime => Time, LogPosition => Position, Signature => Signature, Vec<u8> => Bytes);

impl<const N: usize> Describe for [u8; N] {
    fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
        Ok(FieldValue::Bytes(input.bytes(N)?.to_vec()))
    }
}

impl<T: Describe> Describe for Box<T> {
    fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
        T::describe(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageSize;
    use crate::header::{DATABASE_HEADER_LEN, DatabaseHeader};

    #[test]
    fn all_header_fields_are_returned_even_with_invalid_values() {
        let mut page =
            DatabaseHeader::for_new_database(PageSize::KIB_4, Signature::default(), Signature::default())
                .encode();
        let find = |page: &[u8], name: &str| {
            let fields = DatabaseHeader::fields(page).unwrap();
            fields.into_iter().find(|(found, _)| *found == name).unwrap().1
        };
        let clean = FieldValue::Choice { value: 3, name: Some("CleanShutdown".to_owned()) };
        assert_eq!(find(&page, "state"), clean);
        assert_eq!(find(&page, "unknown"), FieldValue::Bytes(vec![0; 4096 - DATABASE_HEADER_LEN]));
        page[52] = 77;
        page[236..240].fill(0xff);
        assert_eq!(find(&page, "state"), FieldValue::Choice { value: 77, name: None });
        assert_eq!(find(&page, "page_size"), FieldValue::Number(u32::MAX.into()));
        assert!(DatabaseHeader::fields(&page[..600]).is_none());
    }
}
