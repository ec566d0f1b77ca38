//! Formats numbers for people.

/// Number of bytes in a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// Rounds to a number of decimals, with ties away from zero. A decimal tie without an exact binary representation
/// still counts as a tie.
pub fn rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals.min(15) as i32);
    let scaled = value * scale;
    // Large numbers have too few binary digits for a tie, and would be changed.
    let tolerance = if scaled.abs() < 1e11 { 1e-12 } else { 0.0 };
    (scaled * (1.0 + tolerance)).round() / scale
}

/// Formats a number with three decimals, as in Jetstress's tables.
pub fn with_three_decimals(value: f64) -> String {
    format!("{:.3}", rounded(value, 3))
}

/// Formats a value with as few decimals as needed, at most three.
pub fn plain(value: f64) -> String {
    without_zeros(&with_three_decimals(value))
}

/// Formats a value like [`plain`], with thousands separators.
pub fn plain_grouped(value: f64) -> String {
    let text = plain(value);
    decimal(value, text.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
}

/// Formats a value with three significant digits, or with all its integer digits and thousands separators: `0.123`,
/// `1.23`, `12.3`, `123`, `12,345`.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => return grouped(value),
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    without_zeros(&format!("{:.decimals$}", rounded(value, decimals)))
}

/// Formats a value with four significant digits, for figures of any magnitude such as probabilities: `0.002071`,
/// `2.071e-6`, `461,100`, `2.95e9`.
pub fn four_digits(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = format!("{value:.3e}");
    let rounded: f64 = digits.parse().unwrap_or(value);
    if size >= 9_999.5 {
        return if rounded.abs() < 1e9 { grouped(rounded) } else { without_zeros(&digits) };
    }
    if size < 1e-3 {
        return without_zeros(&digits);
    }
    let decimals = (3 - rounded.abs().log10().floor() as i32).clamp(0, 9) as usize;
    without_zeros(&decimal(rounded, decimals))
}

/// Removes trailing zeros of decimals: `2.950e7` becomes `2.95e7`.
pub fn without_zeros(text: &str) -> String {
    let (digits, power) = text.split_at(text.find('e').unwrap_or(text.len()));
    let trimmed = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{}{power}", if digits.contains('.') { trimmed } else { digits })
}

/// Formats a whole number with thousands separators: `12,345`.
pub fn grouped(value: f64) -> String {
    decimal(value, 0)
}

/// Formats a number with the given number of decimals and with thousands separators: `12,345.6`.
pub fn decimal(value: f64, decimals: usize) -> String {
    let value = rounded(value, decimals);
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let first = whole.len() - whole.len().saturating_sub(1) / 3 * 3;
    let mut out = format!("{}{}", if value < 0.0 { "-" } else { "" }, whole.get(..first).unwrap_or_default());
    for at in (first..whole.len()).step_by(3) {
        out.push(',');
        out.push_str(whole.get(at..at + 3).unwrap_or_default());
    }
    out + rest
}

/// Formats a difference with one decimal and its sign: `+1.5`, `-0.3`. Zero has no sign.
pub fn signed(value: f64) -> String {
    let value = rounded(value, 1);
    format!("{}{}", if value > 0.0 { "+" } else { "" }, decimal(value, 1))
}

/// Formats a probability or another fraction as a percentage with four significant digits: `0.2071 %`.
pub fn percentage(fraction: f64) -> String {
    format!("{} %", four_digits(fraction * 100.0))
}

/// Formats a number of bytes for display: `1.25 GiB`. The text may not parse back to the exact value.
pub fn human_bytes(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((name, shift)) => format!("{:.2} {name}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
