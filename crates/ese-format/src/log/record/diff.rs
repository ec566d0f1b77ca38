//! Data that a `ReplaceD` record describes as differences from the old data.
//!
//! ```text
//! difference   u16 offset in the old data (13 bits) and flags, or u16 offset and u8 flags if the record is wide
//!              length of the new bytes (u8, or u16)
//!              length of the old bytes (same width), only if there are any and their length differs
//!              new bytes
//! flags        0x20 both lengths are equal   0x40 insert: no old bytes   0x80 lengths of two bytes
//! ```
//!
//! The flags above are those of the third byte. In the short form, they are the top bits of the first two bytes. Old
//! bytes between the differences do not change.

use super::Replace;
use crate::layout::{BinaryLayout, Input, LayoutError};

/// Error returned when the differences stored in a log record cannot be applied to the old data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// A difference is truncated.
    #[error("a difference in the log record is truncated")]
    Truncated,
    /// A difference is outside the old data, or before the previous difference.
    #[error("a difference in the log record is outside the data of the node")]
    OutOfRange,
    /// The length of the new data does not match the length in the record.
    #[error("the result of applying the differences does not have the length that the log record states")]
    Length,
}

impl From<LayoutError> for DiffError {
    fn from(_: LayoutError) -> DiffError {
        DiffError::Truncated
    }
}

const SAME_LENGTH: u8 = 0x20;
const INSERT: u8 = 0x40;
const TWO_BYTES: u8 = 0x80;
const OFFSET_MASK: u16 = 0x1fff;

impl Replace {
    /// Returns the new node data according to a `ReplaceD` record, given the old data `old`.
    pub fn changed_data(&self, old: &[u8]) -> Result<Vec<u8>, DiffError> {
        let input = &mut Input::new(&self.data);
        let (mut new, mut at) = (Vec::with_capacity(usize::from(self.new_len)), 0);
        while !input.is_empty() {
            let (offset, flags) = if self.wide_diff {
                (u16::take(input)?, u8::take(input)?)
            } else {
                let field = u16::take(input)?;
                (field & OFFSET_MASK, (field >> 8) as u8 & !(OFFSET_MASK >> 8) as u8)
            };
            let mut length = || -> Result<usize, DiffError> {
                Ok(if flags & TWO_BYTES != 0 { u16::take(input)?.into() } else { u8::take(input)?.into() })
            };
            let new_len = length()?;
            let old_len = match flags {
                _ if flags & INSERT != 0 => 0,
                _ if flags & SAME_LENGTH != 0 => new_len,
                _ => length()?,
            };
            let offset = usize::from(offset);
            new.extend_from_slice(old.get(at..offset).ok_or(DiffError::OutOfRange)?);
            new.extend_from_slice(input.bytes(new_len)?);
            at = offset + old_len;
            // The length of the new data fits its length field, so the sum of all differences also fits.
            if new.len() > usize::from(self.new_len) {
                return Err(DiffError::Length);
            }
        }
        new.extend_from_slice(old.get(at..).ok_or(DiffError::OutOfRange)?);
        if new.len() == usize::from(self.new_len) { Ok(new) } else { Err(DiffError::Length) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::record::{DatabaseIdInLog, NodeChange, PageChange, PageChangeFlags};
    use crate::{DbTime, PageNumber, TreeId};

    fn record(wide_diff: bool, new_len: usize, data: &[u8]) -> Replace {
        let page = PageChange {
            procid: 0,
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(1),
            after: DbTime(2),
            before: DbTime(1),
            begin0: 0,
            level: 0,
            line: 0,
            flags: PageChangeFlags::empty(),
        };
        let node = NodeChange { page, rceid: 0, root: None, tree: TreeId(1) };
        Replace { node, wide_diff, old_len: 0, new_len: new_len as u16, data: data.to_vec() }
    }

    #[test]
    fn each_kind_of_difference_produces_the_new_data() {
        let old = b"0123456789";
        for (data, new) in [
            // Replace two bytes with two bytes at offset 2.
            (&[0x02, 0x20, 2, b'a', b'b'][..], &b"01ab456789"[..]),
            // Insert one byte at offset 10.
            (&[0x0a, 0x40, 1, b'x'], b"0123456789x"),
            // Replace two bytes with three at offset 4, and remove one byte at offset 9.
            (&[0x04, 0x00, 3, 2, b'a', b'b', b'c', 0x09, 0x00, 0, 1], b"0123abc678"),
            // The lengths are two bytes each.
            (&[0x00, 0x80, 1, 0, 10, 0, b'z'], b"z"),
            (&[0x01, 0xa0, 1, 0, b'z'], b"0z23456789"),
        ] {
            assert_eq!(record(false, new.len(), data).changed_data(old).as_deref(), Ok(new));
        }
        let wide = record(true, 10, &[0x02, 0x00, 0x20, 2, b'a', b'b']);
        assert_eq!(wide.changed_data(old).unwrap(), b"01ab456789");
    }

    #[test]
    fn damaged_differences_are_errors() {
        let old = b"0123456789";
        for (data, new_len, error) in [
            (&[0x02][..], 10, DiffError::Truncated),
            (&[0x02, 0x20, 2, b'a'], 10, DiffError::Truncated),
            (&[0x0b, 0x40, 1, b'x'], 11, DiffError::OutOfRange),
            (&[0x09, 0x20, 2, b'a', b'b'], 11, DiffError::OutOfRange),
            // The second difference lies before the first.
            (&[0x05, 0x20, 1, b'a', 0x02, 0x20, 1, b'b'], 10, DiffError::OutOfRange),
            (&[0x02, 0x20, 1, b'a'], 9, DiffError::Length),
            (&[0x02, 0x40, 1, b'a'], 2, DiffError::Length),
        ] {
            assert_eq!(record(false, new_len, data).changed_data(old), Err(error), "{data:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_differences_produce_bounded_data_or_an_error(
            data in prop::collection::vec(any::<u8>(), 0..200),
            old in prop::collection::vec(any::<u8>(), 0..200),
            wide: bool,
            new_len in 0usize..400,
        ) {
            if let Ok(new) = record(wide, new_len, &data).changed_data(&old) {
                prop_assert_eq!(new.len(), new_len);
            }
        }
    }
}
