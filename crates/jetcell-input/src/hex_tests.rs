use super::*;

#[test]
fn bytes_and_numbers_have_lower_case_digits() {
    assert_eq!(hex(&[0, 0x9a, 0xff]), "009aff");
    assert_eq!((hex(&[]), hex64(0x1F)), (String::new(), "000000000000001f".into()));
}

#[test]
fn only_hexadecimal_digits_are_parsed() {
    assert_eq!(["1f", "ffffffffffffffff"].map(parse_hex64), [Some(31), Some(u64::MAX)]);
    for text in ["", "+1f", "-1", "0x1f", "1 ", "10000000000000000"] {
        assert_eq!(parse_hex64(text), None, "{text}");
    }
}
