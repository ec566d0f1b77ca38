//! The summary that ends a run in a terminal.

use std::fmt::Write;

use workload::RunResult;
use workload::result::{Bound, Verdict};

use crate::number::{latency, plain, span};

/// The word for a verdict.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Incomplete => "INCOMPLETE",
    }
}

/// `≤ 20` or `≥ 256.5`.
pub(crate) fn limit(bound: Bound, limit: f64) -> String {
    let sign = if bound == Bound::AtMost { '≤' } else { '≥' };
    format!("{sign} {}", plain(limit))
}

/// Verdict, rules, throughput and latencies in a dozen lines.
pub fn text(result: &RunResult) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_summary(&mut out, result);
    out
}

fn write_summary(out: &mut String, result: &RunResult) -> std::fmt::Result {
    writeln!(out, "{}: {}", verdict_word(result.verdict), result.reason)?;
    writeln!(out)?;
    for rule in &result.rules {
        let mark = if rule.passed { "ok    " } else { "BROKEN" };
        let (measured, limit) = (plain(rule.measured), limit(rule.bound, rule.limit));
        writeln!(out, "  {mark}  {:<50} {measured:>10}   {limit}", rule.name)?;
    }
    if result.measured_seconds == 0.0 {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "  {} transactional I/O per second, {:.0} operations per second, measured for {}",
        plain(result.achieved_transactional_iops),
        result.operations.per_second,
        span(result.measured_seconds)
    )?;
    for (kind, name) in
        [("database_read", "Database read"), ("database_write", "Database write"), ("log_write", "Log write")]
    {
        // The samples of a killed run hold no percentiles.
        let Some(summary) = result.latency.get(kind).filter(|summary| summary.count > 0) else { continue };
        writeln!(
            out,
            "  {name:<15} mean {:>9}   p99 {:>9}   max {:>9}   ({} transfers)",
            latency(summary.mean),
            latency(summary.p99 as f64),
            latency(summary.max as f64),
            summary.count
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    #[test]
    fn the_summary_says_what_counts() {
        let text = text(&result());
        assert!(text.starts_with("FAIL: Average database read latency: 25 where"), "{text}");
        assert!(text.contains("BROKEN  Average database read latency"), "{text}");
        assert!(text.contains("285.979 transactional I/O per second"), "{text}");
        assert!(text.contains("p99   20.00 ms") || text.contains("p99  20.00 ms"), "{text}");
    }
}
