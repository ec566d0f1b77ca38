//! Units of bytes, rates and times.

/// Conversion factor for a unit, as a (multiplier, divisor) pair. One of the two is 1 for units of size and time,
/// which ensures that a conversion rounds only once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitFactor(pub f64, pub f64);

impl UnitFactor {
    /// Factor of the base unit.
    pub const ONE: UnitFactor = UnitFactor(1.0, 1.0);

    /// Converts a number in this unit to the base unit.
    pub fn apply(self, number: f64) -> f64 {
        number * self.0 / self.1
    }
}

/// Returns the number of bytes in a unit such as `KiB`, `kB` or `K`.
pub fn bytes(unit: &str) -> Option<UnitFactor> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, rest) = unit.split_at_checked(1)?;
    let power = || Some(1 + "kmgtp".find(prefix)? as i32);
    let bytes = match rest {
        "" if prefix == "b" => 1.0,
        "" | "ib" => 1024_f64.powi(power()?),
        "b" => 1000_f64.powi(power()?),
        _ => return None,
    };
    Some(UnitFactor(bytes, 1.0))
}

/// Like [`bytes`], but requires an exact unit such as `KiB` or `kB`. `G` does not say whether it means `GB` or `GiB`,
/// and `Gb` could mean bits.
pub fn exact_bytes(unit: &str) -> Option<UnitFactor> {
    if unit.ends_with('B') { bytes(unit) } else { None }
}

/// Returns the number of bytes per second in a unit such as `MB/s`, `GB/h` or `Gbit/s`. `/s` can be omitted.
pub fn bytes_per_second(unit: &str) -> Option<UnitFactor> {
    let (amount, time) = unit.split_once('/').unwrap_or((unit, "s"));
    rate(amount.trim(), time.trim())
}

/// Like [`bytes_per_second`], but requires an exact unit of bytes or bits, and a time.
pub fn exact_bytes_per_second(unit: &str) -> Option<UnitFactor> {
    let (amount, time) = unit.split_once('/')?;
    let amount = amount.trim();
    if amount.ends_with('B') || amount.ends_with("bit") { rate(amount, time.trim()) } else { None }
}

fn rate(amount: &str, time: &str) -> Option<UnitFactor> {
    // In `Mb/s`, the b usually means bits.
    if amount.ends_with('b') && amount.contains(|letter: char| letter.is_ascii_uppercase()) {
        return None;
    }
    let (amount, time) = (amount.to_ascii_lowercase(), seconds(time)?);
    let UnitFactor(multiply, divide) = match amount.strip_suffix("bit") {
        Some("") => UnitFactor(1.0, 8.0),
        Some(prefix) => UnitFactor(bytes(&format!("{prefix}b"))?.0, 8.0),
        None => bytes(&amount)?,
    };
    Some(UnitFactor(multiply * time.1, divide * time.0))
}

/// Returns the number of microseconds in a unit of time.
pub fn microseconds(unit: &str) -> Option<UnitFactor> {
    time(unit, 1.0)
}

/// Returns the number of seconds in a unit of time.
pub fn seconds(unit: &str) -> Option<UnitFactor> {
    time(unit, 1e6)
}

/// Returns the number of hours in a unit of time.
pub fn hours(unit: &str) -> Option<UnitFactor> {
    time(unit, 3.6e9)
}

/// Returns a unit of time relative to a base in microseconds.
fn time(unit: &str, base: f64) -> Option<UnitFactor> {
    let microseconds = match unit.to_ascii_lowercase().as_str() {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" | "second" | "seconds" => 1e6,
        // `M` could be taken for mega.
        "m" if unit == "M" => return None,
        "m" | "min" | "minute" | "minutes" => 6e7,
        "h" | "hour" | "hours" => 3.6e9,
        "d" | "day" | "days" => 8.64e10,
        "w" | "week" | "weeks" => 6.048e11,
        "y" | "year" | "years" => 3.1536e13,
        _ => return None,
    };
    let is_larger = microseconds >= base;
    Some(if is_larger { UnitFactor(microseconds / base, 1.0) } else { UnitFactor(1.0, base / microseconds) })
}

/// Returns the factor that converts a percentage to a fraction, if the unit is `%`.
pub fn fraction(unit: &str) -> Option<UnitFactor> {
    (unit == "%").then_some(UnitFactor(1.0, 100.0))
}

/// Returns the factor for a value that remains in percent, if the unit is `%`.
pub fn percent(unit: &str) -> Option<UnitFactor> {
    (unit == "%").then_some(UnitFactor::ONE)
}
