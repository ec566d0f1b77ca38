use super::*;

#[test]
fn sizes_and_times_have_units() {
    let sizes = [
        ("256MiB", 256 << 20),
        ("1GiB", 1 << 30),
        ("1.5 GiB", 3 << 29),
        ("32k", 32768),
        ("10GB", 10_000_000_000),
        ("1e3", 1000),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, bytes) in sizes {
        assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
    }
    let times = [
        ("60s", 60_000),
        ("2h", 7_200_000),
        ("5m", 300_000),
        ("250ms", 250),
        ("7", 7_000),
        ("1m30s", 90_000),
    ];
    for (text, ms) in times {
        assert_eq!(text.parse(), Ok(TimeSpan(Duration::from_millis(ms))), "{text}");
    }
    for (text, bytes) in [("50MB/s", 50_000_000), ("1MiB", 1 << 20), ("4096", 4096), ("8Mbit/s", 1_000_000)] {
        assert_eq!(text.parse(), Ok(ByteRate(bytes)), "{text}");
    }
}

#[test]
fn invalid_text_is_refused_with_an_example() {
    for text in ["", "GiB", "1XB", "-5MiB", "1.2.3GiB", "99999999999TiB", "18446744073709551616"] {
        assert!(text.parse::<ByteSize>().is_err(), "{text}");
    }
    let full = |error: QuantityError| crate::with_advice(&error, error.advice());
    let message = |text: &str| full(text.parse::<ByteRate>().unwrap_err());
    assert_eq!(message("0"), "'0' is zero; try a value such as 50MB/s");
    assert_eq!(message("fast"), "could not parse 'fast'; try a value such as 50MB/s");
    assert_eq!(
        full("soon".parse::<TimeSpan>().unwrap_err()),
        "could not parse 'soon'; try a value such as 60s or 2h"
    );
    assert_eq!(full(positive::<TimeSpan>("0s").unwrap_err()), "'0s' is zero; try a value such as 60s or 2h");
    assert_eq!(
        full(within(ByteSize::mib(512)..=ByteSize::mib(1 << 20))("1MiB").unwrap_err()),
        "'1MiB' is out of range; use a value from 512MiB to 1TiB"
    );
}

#[test]
fn a_written_value_reads_back_exactly() {
    for bytes in [0, 1, 4096, 1000, 1 << 30, (1 << 30) + 1, u64::MAX] {
        assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        let json = serde_json::to_string(&ByteSize(bytes)).unwrap();
        assert_eq!(serde_json::from_str::<ByteSize>(&json).unwrap(), ByteSize(bytes));
    }
    for us in [0, 1, 999, 60_000_000, 7_200_000_000, 86_400_000_000, 90_001_000] {
        let span = TimeSpan(Duration::from_micros(us));
        assert_eq!(span.to_string().parse(), Ok(span), "{span}");
    }
    let shown =
        [ByteRate(5_000_000).to_string(), ByteSize(0).to_string(), TimeSpan(Duration::ZERO).to_string()];
    assert_eq!(shown, ["5MB/s", "0", "0s"]);
}

#[test]
fn a_number_in_a_file_is_a_bare_number() {
    assert_eq!(serde_json::from_str::<ByteSize>("4096").unwrap(), ByteSize(4096));
    assert_eq!(serde_json::from_str::<TimeSpan>("1.5").unwrap(), TimeSpan(Duration::from_millis(1500)));
    for (json, expected) in [("-4", "'-4' is negative"), ("[1]", "expected a number, or text in quotes")] {
        let error = serde_json::from_str::<ByteSize>(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
