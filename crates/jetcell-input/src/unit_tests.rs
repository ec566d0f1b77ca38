use super::*;

#[test]
fn figures_with_one_unit_have_the_same_decimals() {
    assert_eq!([0.0, 12.25, 12_345.67].map(|value| Unit::Iops.format(value)), ["0.0", "12.3", "12,345.7"]);
    let text = |unit: Unit, value| unit.format(value);
    assert_eq!([text(Unit::Milliseconds, 1_234.5), text(Unit::Ratio, 0.5)], ["1,234.500", "0.500"]);
    assert_eq!([text(Unit::Count, 1234.0), text(Unit::Bytes, 262_144.0)], ["1,234", "262,144"]);
    assert_eq!([text(Unit::Percent, 33.333), text(Unit::Change, 17.86)], ["33.3", "+17.9 %"]);
    assert_eq!([text(Unit::Money, 1.5), text(Unit::Other, 17.62)], ["1.50", "17.6"]);
    assert_eq!([Unit::PerSecond, Unit::Change].map(|unit| unit.half_width(4.46)), ["± 4.5"; 2]);
}

#[test]
fn numbers_without_a_unit_have_as_many_decimals_as_needed() {
    let values = [12_000.0, 0.1, -0.0, 777.03, f64::INFINITY];
    assert_eq!(values.map(|value| Unit::None.format(value)), ["12,000", "0.1", "0", "777", "inf"]);
}
