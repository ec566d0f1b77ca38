use super::*;

#[test]
fn numbers_have_as_many_decimals_as_needed() {
    let texts = [with_three_decimals(1.0), with_three_decimals(2.0755), plain(1.0), plain(20.0), plain(0.5)];
    assert_eq!(texts, ["1.000", "2.076", "1", "20", "0.5"]);
    assert_eq!([rounded(83.68125, 2), rounded(334.725, 2), rounded(2.9, 0)], [83.68, 334.73, 3.0]);
    assert_eq!(
        [17.66225, 2.0755, 1.2925, -1.9685].map(|value| rounded(value, 3)),
        [17.662, 2.076, 1.293, -1.969]
    );
    let values = [0.0, 0.012_34, 0.999_6, 1.234, 9.999, 12.34, 99.96, 999.5, 1_234.5, -1_234_567.0];
    let texts = ["0", "0.012", "1", "1.23", "10", "12.3", "100", "1,000", "1,235", "-1,234,567"];
    assert_eq!(values.map(significant), texts);
    assert_eq!([decimal(999.95, 1), decimal(-1_000.0, 2), decimal(0.0, 0)], ["1,000.0", "-1,000.00", "0"]);
}

#[test]
fn numbers_keep_four_digits_at_every_magnitude() {
    let values = [0.0, 2.071_276e-6, 0.002_071_276, 0.5, 12.0, 9_999.4, 461_052.6, 8_411_000.0, 2.95e9];
    let texts = ["0", "2.071e-6", "0.002071", "0.5", "12", "9,999", "461,100", "8,411,000", "2.95e9"];
    assert_eq!(values.map(four_digits), texts);
    assert_eq!(["1.50e3", "100", "1.0", "10e2"].map(without_zeros), ["1.5e3", "100", "1", "10e2"]);
    assert_eq!([-0.25, 0.999_96, f64::INFINITY].map(four_digits), ["-0.25", "1", "inf"]);
}

#[test]
fn differences_have_a_sign_and_shares_four_digits() {
    assert_eq!([1.54, -0.3, 0.0, 1_234.5].map(signed), ["+1.5", "-0.3", "0.0", "+1,234.5"]);
    assert_eq!([0.002_071_276, 1.0].map(percentage), ["0.2071 %", "100 %"]);
}

#[test]
fn bytes_have_the_largest_binary_unit() {
    let texts = ["0 B", "1023 B", "1.00 KiB", "1.50 MiB", "1.25 GiB", "16777216.00 TiB"];
    assert_eq!([0, 1023, 1024, 3 << 19, 5 << 28, u64::MAX].map(human_bytes), texts);
}
