//! The replication metadata of a directory object: when, where and how often each attribute was changed.
//!
//! A header of 16 bytes contains a version and the number of entries. Each entry has 48 bytes: the number of the
//! attribute, its version, the time of its last change in seconds since 1601, the invocation ID of the server that
//! made the change, and the update sequence numbers on that server and on this one.

use std::collections::BTreeMap;

use crate::value::{ExportedValue, Timestamp};

/// Returns the entries, with the names of their attributes. Returns `None` if the bytes have a different form.
pub(super) fn decode_property_metadata(
    bytes: &[u8],
    attributes: &BTreeMap<i64, String>,
) -> Option<ExportedValue<'static>> {
    let (&[1, 0, 0, 0, _, _, _, _, c0, c1, c2, c3, _, _, _, _], entries) = bytes.split_first_chunk::<16>()?
    else {
        return None;
    };
    let (entries, []) = entries.as_chunks::<48>() else { return None };
    if entries.len() != u32::from_le_bytes([c0, c1, c2, c3]) as usize {
        return None;
    }
    let entries: Option<Vec<_>> = entries.iter().map(|entry| decode_entry(entry, attributes)).collect();
    entries.map(ExportedValue::List)
}

fn decode_entry(entry: &[u8; 48], attributes: &BTreeMap<i64, String>) -> Option<ExportedValue<'static>> {
    let (attribute, rest) = entry.split_first_chunk::<4>()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let (server, rest) = rest.split_first_chunk::<16>()?;
    let (origin, rest) = rest.split_first_chunk::<8>()?;
    let number = u32::from_le_bytes(*attribute);
    let seconds = i64::from_le_bytes(*time);
    let attribute = match attributes.get(&number_key(number.into())) {
        Some(name) => ExportedValue::Text(name.clone().into()),
        None => ExportedValue::Int(number.into()),
    };
    let time = Timestamp::from_seconds(seconds).map_or(ExportedValue::Int(seconds), ExportedValue::Time);
    Some(ExportedValue::Object(vec![
        ("attribute", attribute),
        ("version", ExportedValue::Int(u32::from_le_bytes(*version).into())),
        ("time", time),
        ("originatingDsa", ExportedValue::Guid(*server)),
        ("originatingUsn", ExportedValue::Int(i64::from_le_bytes(*origin))),
        ("localUsn", ExportedValue::Int(i64::from_le_bytes(rest.try_into().ok()?))),
    ]))
}

/// Returns the number of an attribute or a class as a signed 32-bit number, which is the form that columns store.
pub(crate) fn number_key(number: i64) -> i64 {
    i64::from(number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names_times_and_numbers() {
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        for (attribute, time) in [(3u32, 13_013_628_273u64), (0x8000_0001, 0)] {
            bytes.extend(attribute.to_le_bytes());
            bytes.extend(5u32.to_le_bytes());
            bytes.extend(time.to_le_bytes());
            bytes.extend([7; 16]);
            bytes.extend(8u64.to_le_bytes());
            bytes.extend(9u64.to_le_bytes());
        }
        let names = BTreeMap::from([(3, "cn".to_owned()), (i64::from(i32::MIN) + 1, "later".to_owned())]);
        let mut json = Vec::new();
        decode_property_metadata(&bytes, &names).unwrap().write_json(false, &mut json);
        let rest =
            r#""originatingDsa":"07070707-0707-0707-0707-070707070707","originatingUsn":8,"localUsn":9}"#;
        let expected = format!(
            r#"[{{"attribute":"cn","version":5,"time":"2013-05-21T16:44:33Z",{rest},{{"attribute":"later","version":5,"time":0,{rest}]"#
        );
        assert_eq!(String::from_utf8(json).unwrap(), expected);
        for len in 0..bytes.len() {
            assert_eq!(decode_property_metadata(&bytes[..len], &names), None, "{len} bytes");
        }
        bytes[8] = 3;
        assert_eq!(decode_property_metadata(&bytes, &names), None, "one entry is missing");
    }
}
