use super::super::units;
use super::*;

const SIZE: QuantityKind = QuantityKind::new(units::bytes, "2GiB");
const RATE: QuantityKind = QuantityKind::new(units::bytes_per_second, "200MB/s");
const SECONDS: QuantityKind = QuantityKind::new(units::seconds, "8h").with_sums();
const FRACTION: QuantityKind = QuantityKind::new(units::fraction, "20%").with_bare(UnitFactor::ONE);

#[test]
fn every_unit_has_one_meaning() {
    for (text, value) in [
        ("7B", 7.0),
        ("10MB", 1e7),
        ("10mb", 1e7),
        ("10M", 10.0 * 1024.0 * 1024.0),
        ("1.5 GiB", 1.5 * 1024.0 * 1024.0 * 1024.0),
        ("1e3kB", 1e6),
        ("2E-1TiB", 0.2 * 1024_f64.powi(4)),
        ("1P", 1024_f64.powi(5)),
    ] {
        assert_eq!(SIZE.parse(text), Ok(value), "{text}");
    }
    for (text, value) in [
        ("50MB/s", 5e7),
        ("50MB", 5e7),
        ("1Gbit/s", 1.25e8),
        ("8bit/s", 1.0),
        ("3.6GB/h", 1e6),
        ("1 MiB / s", 1024.0 * 1024.0),
    ] {
        assert_eq!(RATE.parse(text), Ok(value), "{text}");
    }
    for (text, value) in [
        ("20us", 2e-5),
        ("20ms", 0.02),
        ("2.9s", 2.9),
        ("5m", 300.0),
        ("90 min", 5400.0),
        ("1h30m", 5400.0),
        ("1d 03h", 97_200.0),
        ("2w", 1_209_600.0),
        ("1y", 31_536_000.0),
        ("2 hours", 7200.0),
    ] {
        assert_eq!(SECONDS.parse(text), Ok(value), "{text}");
    }
    assert_eq!(["7%", "0.3"].map(|text| FRACTION.parse(text)), [Ok(0.07), Ok(0.3)]);
}

#[test]
fn each_mistake_is_typed_and_has_an_example() {
    let error = |kind: QuantityKind, text: &str| kind.parse(text).unwrap_err();
    assert!(matches!(error(SIZE, "-5GiB"), QuantityError::Negative { .. }));
    for text in ["", "GiB", "1.2.3GiB", "nanGiB", "soon", "+5GiB"] {
        assert!(matches!(error(SIZE, text), QuantityError::NoNumber { .. }), "{text}");
    }
    for text in ["1XB", "5 parsecs", "2e", "1KiBB", "5µ", "1G GiB"] {
        assert!(matches!(error(SIZE, text), QuantityError::UnknownUnit { .. }), "{text}");
    }
    for text in ["5M", "1h/s", "3s4"] {
        assert!(SECONDS.parse(text).is_err(), "{text}");
    }
    for text in ["30m1h", "1h1h"] {
        assert!(matches!(error(SECONDS, text), QuantityError::NoNumber { .. }), "{text}");
    }
    assert!(matches!(error(SECONDS, "1h30"), QuantityError::NoUnit { .. }));
    assert!(matches!(error(SECONDS, "1e999h"), QuantityError::TooLarge { .. }));
    assert!(matches!(error(SIZE.with_max(1e18), "99999999TiB"), QuantityError::TooLarge { .. }));
    let unitless = error(SIZE, "300");
    assert_eq!(unitless.to_string(), "'300' has no unit");
    assert_eq!(unitless.advice().unwrap(), "try a value such as 2GiB");
    assert!(error(SIZE, &"9".repeat(100_000)).to_string().len() < 200);
}

#[test]
fn a_unit_that_could_mean_bits_is_refused_in_rates() {
    let size = QuantityKind::new(units::exact_bytes, "300GB");
    let rate = QuantityKind::new(units::exact_bytes_per_second, "200MB/s");
    for text in ["6Gb/s", "200Mib/s", "200Mb"] {
        assert!(RATE.parse(text).is_err() && rate.parse(text).is_err(), "{text}");
    }
    for text in ["300G", "300gb", "300Gib", "300"] {
        assert!(size.parse(text).is_err(), "{text}");
    }
    for text in ["27MB", "27mb/s", "27M/s"] {
        assert!(rate.parse(text).is_err(), "{text}");
    }
    assert_eq!((size.parse("300GB"), size.parse("1KiB")), (Ok(3e11), Ok(1024.0)));
    assert_eq!((rate.parse("1.35GB/h"), rate.parse("1Gbit/s")), (Ok(375_000.0), Ok(1.25e8)));
}
