//! Tests of keys from real indexes, key order, and truncation.

use proptest::prelude::*;

use super::*;
use crate::record::{CodePage, ColumnType, Value};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn variable(kind: ColumnType) -> Column {
    Column::new(128, "c", kind, 255)
}

fn key(kind: ColumnType, value: &[u8]) -> Vec<u8> {
    part_key(&variable(kind), Some(value), false, KeyLimits::default(), IndexFlags::empty()).bytes
}

fn part_key(
    column: &Column,
    value: Option<&[u8]>,
    descending: bool,
    limits: KeyLimits,
    flags: IndexFlags,
) -> Key {
    normalise(&[KeyPart { column, value, descending }], limits, flags).unwrap()
}

fn limited(kind: ColumnType, value: &[u8], limit: usize) -> (Vec<u8>, bool) {
    let limits = KeyLimits { key: limit, segment: None };
    let key = part_key(&variable(kind), Some(value), false, limits, IndexFlags::empty());
    (key.bytes, key.truncated)
}

#[test]
fn keys_match_real_index_keys() {
    assert_eq!(key(ColumnType::Short, &(-1337i16).to_le_bytes()), hex("7f 7ac7"));
    assert_eq!(key(ColumnType::Long, &(-13371337i32).to_le_bytes()), hex("7f 7f33f837"));
    assert_eq!(key(ColumnType::UnsignedShort, &1337u16.to_le_bytes()), hex("7f 0539"));
    assert_eq!(key(ColumnType::Double, &hex("43614724f9806941")), hex("7f c16980f924476143"));
    assert_eq!(key(ColumnType::DateTime, &hex("0000000080afe140")), hex("7f c0e1af8000000000"));
    let guid = hex("f10a363f 6667 dc46 9af2 0dacf295c2a1");
    assert_eq!(key(ColumnType::Guid, &guid), hex("7f 0dacf295c2a1 9af2 dc46 6667 f10a363f"));
    assert_eq!(
        key(ColumnType::Binary, b"test binary data"),
        hex("7f 746573742062696e 09 6172792064617461 08")
    );
    assert_eq!(key(ColumnType::Text, b"Simple ASCII text"), b"\x7fSIMPLE ASCII TEXT\0");
    assert_eq!(key(ColumnType::LongBinary, &[1, 2, 3]), hex("7f 0102030000000000 03"));
    assert_eq!(key(ColumnType::Bit, &[1]), hex("7f ff"));
}

#[test]
fn null_empty_and_value_differ_by_prefix() {
    let column = variable(ColumnType::Binary);
    let limits = KeyLimits::default();
    let plain = |value| part_key(&column, value, false, limits, IndexFlags::empty()).bytes;
    assert_eq!(plain(None), [0]);
    assert_eq!(plain(Some(&[])), [0x40]);
    assert_eq!(part_key(&column, None, false, limits, IndexFlags::NULLS_HIGH).bytes, [0xc0]);
    assert_eq!(part_key(&column, None, true, limits, IndexFlags::empty()).bytes, [0xff]);
    let descending = part_key(&column, Some(&[1]), true, limits, IndexFlags::empty()).bytes;
    let inverted: Vec<u8> = plain(Some(&[1])).iter().map(|byte| !byte).collect();
    assert_eq!(descending, inverted);
}

#[test]
fn dot_net_guids_sort_by_their_printed_form() {
    let guid: Vec<u8> = (0..16).collect();
    let key = part_key(
        &variable(ColumnType::Guid),
        Some(&guid),
        false,
        KeyLimits::default(),
        IndexFlags::DOT_NET_GUID,
    );
    assert_eq!(key.bytes, hex("7f 03020100 0504 0706 08090a0b0c0d0e0f"));
}

#[test]
fn keys_are_truncated_at_the_limit() {
    let sixteen = b"test binary data";
    let whole = key(ColumnType::Binary, sixteen);
    assert_eq!(limited(ColumnType::Binary, sixteen, 19), (whole.clone(), false));
    // Truncation within a group keeps the bytes before the cut. Truncation right after the group's last byte leaves a
    // length byte that indicates more bytes.
    assert_eq!(limited(ColumnType::Binary, sixteen, 18), (whole[..18].to_vec(), true));
    assert_eq!(limited(ColumnType::Binary, sixteen, 10), (whole[..10].to_vec(), true));
    assert_eq!(limited(ColumnType::Binary, b"12345678", 9), (b"\x7f12345678".to_vec(), true));
    assert_eq!(limited(ColumnType::Binary, b"123", 6), (b"\x7f123\0\0".to_vec(), true));
    assert_eq!(limited(ColumnType::Long, &[0; 4], 3), (hex("7f 8000"), true));

    assert_eq!(limited(ColumnType::Text, b"abcd", 6), (b"\x7fABCD\0".to_vec(), false));
    // As in ESE, the last character is shifted even if it is not a lower-case letter.
    assert_eq!(limited(ColumnType::Text, b"abcd", 5), (b"\x7fABCD".to_vec(), true));
    assert_eq!(limited(ColumnType::Text, b"ab1d", 4), (vec![0x7f, b'A', b'B', b'1' - 0x20], true));
    assert_eq!(limited(ColumnType::Text, b"ab\0d", 4), (b"\x7fAB\0".to_vec(), false));
}

#[test]
fn key_segments_have_a_separate_limit() {
    let limits = KeyLimits { key: 255, segment: Some(5) };
    let text = variable(ColumnType::Text);
    let part = KeyPart { column: &text, value: Some(b"abcdefgh"), descending: false };
    let two = normalise(&[part, part], limits, IndexFlags::empty()).unwrap();
    assert_eq!(two, Key { bytes: b"\x7fABCD\x7fABCD".to_vec(), truncated: false });
}

#[test]
fn unsupported_keys_are_rejected() {
    let unicode = Column { code_page: CodePage::UNICODE, ..variable(ColumnType::Text) };
    let part = KeyPart { column: &unicode, value: Some(b"a\0"), descending: false };
    let made = normalise(&[part], KeyLimits::default(), IndexFlags::empty());
    assert_eq!(made, Err(KeyError::UnicodeText(unicode.id)));
    let long = variable(ColumnType::Long);
    let part = KeyPart { column: &long, value: Some(&[1]), descending: false };
    let made = normalise(&[part], KeyLimits::default(), IndexFlags::empty());
    assert_eq!(made, Err(KeyError::WrongLength { column: long.id, len: 1 }));
    let part = KeyPart { column: &long, value: Some(&[1; 4]), descending: false };
    let limits = KeyLimits { key: 4, segment: None };
    assert_eq!(normalise(&[part], limits, IndexFlags::DISALLOW_TRUNCATION), Err(KeyError::Truncated));
}

#[test]
fn null_rules_omit_or_reject_entries() {
    use NullRuleResult::*;
    let none = IndexFlags::empty();
    let secondary = IndexFlags::DEFAULT_SECONDARY;
    assert_eq!(null_rule(&[false, false], none), Entry);
    assert_eq!(null_rule(&[true, true], none), NoEntry);
    assert_eq!(null_rule(&[true, true], IndexFlags::ALLOW_ALL_NULLS), Entry);
    assert_eq!(null_rule(&[true, false], IndexFlags::ALLOW_SOME_NULLS), NoEntry);
    assert_eq!(null_rule(&[false, true], IndexFlags::ALLOW_SOME_NULLS), Entry);
    assert_eq!(null_rule(&[false, true], none), NoEntry);
    assert_eq!(null_rule(&[true, false], secondary), Entry);
    assert_eq!(null_rule(&[true, false], secondary | IndexFlags::NO_NULL_SEGMENT), Rejected);
}

#[test]
fn exact_limits_exist_for_fixed_sizes_only() {
    let (long, date) = (variable(ColumnType::Long), variable(ColumnType::DateTime));
    assert_eq!(exact_key_limit([&long]), Some(5));
    assert_eq!(exact_key_limit([&long, &date]), Some(14));
    assert_eq!(exact_key_limit([&long, &variable(ColumnType::Text)]), None);
}

/// Returns the key for a typed value.
fn value_key(kind: ColumnType, value: Value, descending: bool) -> Vec<u8> {
    let column = variable(kind);
    let bytes = value.encode(&column).unwrap().unwrap();
    part_key(&column, Some(&bytes), descending, KeyLimits { key: 2000, segment: None }, IndexFlags::empty())
        .bytes
}

proptest! {
    #[test]
    fn integers_sort_as_numbers(a in any::<i64>(), b in any::<i64>(), descending in any::<bool>()) {
        let order = |kind, x: Value, y: Value| value_key(kind, x, descending).cmp(&value_key(kind, y, descending));
        let (small, other) = (a as i16, b as i16);
        let turn = |order: std::cmp::Ordering| if descending { order.reverse() } else { order };
        prop_assert_eq!(order(ColumnType::LongLong, Value::LongLong(a), Value::LongLong(b)), turn(a.cmp(&b)));
        prop_assert_eq!(order(ColumnType::Short, Value::Short(small), Value::Short(other)), turn(small.cmp(&other)));
        let (ua, ub) = (a as u64, b as u64);
        let unsigned = order(
            ColumnType::UnsignedLongLong, Value::UnsignedLongLong(ua), Value::UnsignedLongLong(ub),
        );
        prop_assert_eq!(unsigned, turn(ua.cmp(&ub)));
    }

    #[test]
    fn floats_sort_as_numbers(a in any::<f64>(), b in any::<f64>()) {
        let order = value_key(ColumnType::Double, Value::Double(a), false)
            .cmp(&value_key(ColumnType::Double, Value::Double(b), false));
        prop_assert_eq!(order, a.total_cmp(&b));
    }

    #[test]
    fn binary_sorts_as_bytes_and_short_keys_are_prefixes(
        a in proptest::collection::vec(0u8..3, 0..40), b in proptest::collection::vec(0u8..3, 0..40),
        limit in 1usize..60,
    ) {
        let whole = |value: &[u8]| key(ColumnType::Binary, value);
        prop_assert_eq!(whole(&a).cmp(&whole(&b)), a.cmp(&b));
        let (short_a, cut) = limited(ColumnType::Binary, &a, limit);
        prop_assert_eq!(cut, whole(&a).len() > limit);
        prop_assert!(short_a.len() <= limit);
        let (short_b, _) = limited(ColumnType::Binary, &b, limit);
        let (shorter, longer) = if a <= b { (short_a, short_b) } else { (short_b, short_a) };
        prop_assert!(shorter <= longer, "truncation keeps the order");
    }

    #[test]
    fn text_sorts_without_regard_to_case(a in "[ -~]{0,20}", b in "[ -~]{0,20}") {
        let whole = |value: &str| key(ColumnType::Text, value.as_bytes());
        prop_assert_eq!(whole(&a).cmp(&whole(&b)), a.to_ascii_uppercase().cmp(&b.to_ascii_uppercase()));
    }
}
