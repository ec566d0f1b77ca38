//! Formats times for people. There is one form for each purpose.

use std::time::Duration;

/// Formats a measured time as `1:02:03` or `12.3 s`.
pub fn duration_text(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Formats seconds as `hh:mm:ss`, truncating fractions of a second like Jetstress.
pub fn clock(seconds: f64) -> String {
    let whole = seconds as u64;
    format!("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Formats a remaining or elapsed time in a progress line as `45s`, `3m05s`, `2h07m`, or `1d03h`.
pub fn format_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Formats an age in its two largest units: `2 d 3 h`, `5 min 7 s`.
pub fn format_in_two_units(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
