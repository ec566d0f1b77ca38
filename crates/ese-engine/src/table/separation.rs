//! Builds records, and decides which long values are separated from them. Values longer than the table's limit are
//! separated first. Then the longest remaining values are separated until the record fits.

use std::borrow::Cow;

use ese_format::compression;
use ese_format::long_value::LongValueId;
use ese_format::record::{Column, ColumnId, ColumnValue, Record, RecordBuilder, RecordError};
use smallvec::SmallVec;

use super::state::TableState;
use crate::{Result, UsageError};

/// Maximum length of long values that stay in the record, unless the table sets another limit.
const INTRINSIC: usize = 1023;
/// Maximum number of bytes that remain in the record for a separated value.
const REFERENCE_LEN: usize = 8;

/// A column and its raw value bytes, or `None` for null.
pub(super) type RawValue<'t> = (&'t Column, Option<Cow<'t, [u8]>>);
pub(super) type RawValues<'t> = SmallVec<[RawValue<'t>; 4]>;

/// Returns the length above which long values are separated from the record, even if the record is short.
fn max_intrinsic_len(state: &TableState) -> usize {
    state.schema.separate_from.map_or(INTRINSIC, |from| from as usize)
}

/// Replaces the contents of `bytes` with a record of these values if all of them stay in the record. Returns false
/// otherwise.
pub(super) fn build_whole<'v>(
    state: &TableState,
    builder: &RecordBuilder<'v>,
    values: &'v [RawValue<'_>],
    bytes: &mut Vec<u8>,
) -> Result<bool> {
    let leaves =
        |column: &Column, value: &[u8]| column.kind.is_long() && value.len() > max_intrinsic_len(state);
    if values.iter().any(|(column, value)| value.as_deref().is_some_and(|value| leaves(column, value))) {
        return Ok(false);
    }
    let mut builder = builder.clone();
    for (column, value) in values {
        builder.set_column(column, value.as_deref().map(Cow::Borrowed)).map_err(UsageError::from)?;
    }
    match builder.build_into(bytes) {
        Ok(()) => Ok(true),
        Err(RecordError::TooBig { .. }) => Ok(false),
        Err(error) => Err(UsageError::Record(error).into()),
    }
}

/// Replaces the contents of `bytes` with a record of these values. Values that are long or do not fit into the record
/// are passed to `store`, together with `with`, and are stored in the long-value tree.
pub(super) fn build<'v, S>(
    with: &mut S,
    state: &TableState,
    builder: &mut RecordBuilder<'v>,
    values: &'v [RawValue<'_>],
    before: Option<&Record<'_>>,
    mut store: impl FnMut(&mut S, &TableState, Cow<'v, [u8]>) -> Result<LongValueId>,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let intrinsic = max_intrinsic_len(state);
    for (column, value) in values {
        match value {
            Some(value) if column.kind.is_long() && value.len() > intrinsic => {
                let id = store(with, state, Cow::Borrowed(value))?;
                builder.set_separated(column.id, id)
            }
            value => builder.set_column(column, value.as_deref().map(Cow::Borrowed)),
        }
        .map_err(UsageError::from)?;
    }
    loop {
        let too_big = match builder.build_into(bytes) {
            Ok(()) => return Ok(()),
            Err(error @ RecordError::TooBig { .. }) => error,
            Err(error) => return Err(UsageError::Record(error).into()),
        };
        let candidates = builder.intrinsic_long_values().into_iter().filter(|(_, len)| *len > REFERENCE_LEN);
        let (column, _) = candidates.max_by_key(|(_, len)| *len).ok_or(UsageError::Record(too_big))?;
        let given =
            values.iter().find(|(other, _)| other.id == column).and_then(|(_, value)| value.as_deref());
        let value = match given {
            Some(value) => Cow::Borrowed(value),
            None => intrinsic_value(state, before, column)?.ok_or(UsageError::Record(too_big))?.into(),
        };
        let id = store(with, state, value)?;
        builder.set_separated(column, id).map_err(UsageError::from)?;
    }
}

fn intrinsic_value(state: &TableState, before: Option<&Record<'_>>, id: ColumnId) -> Result<Option<Vec<u8>>> {
    let (Some(record), Some(column)) = (before, state.schema.column(id)) else { return Ok(None) };
    Ok(match record.get(column).map_err(|e| state.damaged(e))? {
        ColumnValue::Bytes(bytes) => Some(bytes.to_vec()),
        ColumnValue::Compressed(stored) => {
            let plain = compression::decompress(stored, compression::MAX_INTRINSIC);
            Some(plain.map_err(|e| state.damaged(e))?)
        }
        _ => None,
    })
}
