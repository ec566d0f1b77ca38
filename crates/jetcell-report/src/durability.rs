//! Renders the verdict of a durability test for a terminal, as Markdown, and as a page.

use jetcell_durability::{BrokenPromise, DurabilityVerification, FailureLevel, OperationKindCounts};
use jetcell_input::number::grouped;

use crate::bars::{BarChart, BarItem};
use crate::chart::AxisScale;
use crate::markdown as md;
use crate::page::ReportPage;
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportTable};
use crate::text_table::{table_text, wrap};

/// Heading of the reports.
const TITLE: &str = "Durability test";
/// Maximum number of findings that are listed.
const MAX_FINDINGS: usize = 20;

fn count(number: u64) -> String {
    grouped(number as f64)
}

/// Renders the verdict, the promises by operation kind, the findings, and remarks, with at most `width` characters
/// per line.
pub fn durability_text(found: &DurabilityVerification, width: usize) -> StyledText {
    let mut out = wrap("", &verdict(found), width);
    for table in tables(found) {
        out += "\n";
        out.append(table_text(&table, width));
    }
    out += "\n";
    remarks(found).iter().for_each(|line| out.append(wrap("  ", line, width)));
    out
}

/// Renders GitHub-flavored Markdown.
pub fn durability_markdown(found: &DurabilityVerification) -> String {
    let mut out = format!("# Jetcell: {TITLE}\n\n{}\n\n", md::escaped(&verdict(found)));
    tables(found).iter().for_each(|table| out += &md::table(table));
    remarks(found).iter().for_each(|line| out += &format!("- {}\n", md::escaped(line)));
    out
}

/// Renders a page that shows the damaged operations of each kind as bars.
pub fn durability_html(found: &DurabilityVerification) -> String {
    let page = ReportPage::new(TITLE).text(&verdict(found));
    let page = if found.is_passed() { page } else { page.bars(&[damages(found)]) };
    let page = tables(found).iter().fold(page, ReportPage::table);
    let page = remarks(found).iter().fold(page.heading("Remarks"), |page, line| page.text(line));
    page.finish()
}

fn tables(found: &DurabilityVerification) -> Vec<ReportTable> {
    [Some(kinds(found)), findings(found)].into_iter().flatten().collect()
}

/// Returns bars with the number of damaged operations of each kind.
fn damages(found: &DurabilityVerification) -> BarChart {
    let bar = |tally: &OperationKindCounts| {
        let bad = tally.lost + tally.torn + tally.reordered + tally.unreadable;
        let label = format!("{} of {}", count(bad), count(tally.acknowledged));
        (bad > 0).then(|| BarItem { name: tally.kind.name().into(), value: bad as f64, label, series: 0 })
    };
    BarChart {
        title: "Acknowledged operations found damaged".into(),
        unit: "operations".into(),
        scale: AxisScale::Linear,
        legend: Vec::new(),
        bars: found.kinds.iter().filter_map(bar).collect(),
    }
}

fn verdict(found: &DurabilityVerification) -> String {
    let last = count(found.last_acknowledged.0);
    match found.first_missing {
        None => format!("KEPT: all acknowledged operations up to operation {last} are present"),
        Some(first) => {
            format!(
                "NOT KEPT: {} acknowledged operations are missing or differ from what was written. The \
                 first is operation {}; the last acknowledged operation is {last}",
                found.findings.len(),
                count(first.0)
            )
        }
    }
}

fn kinds(found: &DurabilityVerification) -> ReportTable {
    let columns = ["Acknowledged", "Lost", "Torn", "Reordered", "Unreadable", "Undecided"];
    let row = |tally: &OperationKindCounts| {
        let bad = |number: u64| ReportCell::count(number).bad_if(number > 0);
        vec![
            ReportCell::from(tally.kind.name()),
            ReportCell::count(tally.acknowledged),
            bad(tally.lost),
            bad(tally.torn),
            bad(tally.reordered),
            bad(tally.unreadable),
            ReportCell::count(tally.undecided),
        ]
    };
    ReportTable::numbers("Promises", "Operation", columns).rows(found.kinds.iter().map(row))
}

fn findings(found: &DurabilityVerification) -> Option<ReportTable> {
    let row = |one: &BrokenPromise| {
        let damage = format!("{:?}", one.damage).to_lowercase();
        vec![
            ReportCell::count(one.operation.0),
            one.kind.name().into(),
            damage.into(),
            one.path.display().to_string().into(),
            one.found.as_str().into(),
        ]
    };
    let table = ReportTable::text_columns("Findings", &["Number", "Operation", "Damage", "Path", "Found"]);
    (!found.findings.is_empty()).then(|| table.rows(found.findings.iter().take(MAX_FINDINGS).map(row)))
}

fn remarks(found: &DurabilityVerification) -> Vec<String> {
    let mut lines = Vec::new();
    if found.findings.len() > MAX_FINDINGS {
        lines.push(format!(
            "{} findings in total; the JSON result lists all of them",
            count(found.findings.len() as u64)
        ));
    }
    lines.push(
        match found.level {
            FailureLevel::Process => {
                "Level process: the writer was killed. This says nothing about a reset or a power cut."
            }
            FailureLevel::Reset => {
                "Level reset: the drives kept power, and their caches kept their data. This says nothing \
                 about a power cut."
            }
            FailureLevel::Power => "Level power: the result is valid only if the drives also lost power.",
        }
        .to_string(),
    );
    lines.push(format!(
        "Syncs: {}, median {} µs, 99 % {} µs, slowest {} µs",
        count(found.sync.count),
        count(found.sync.p50),
        count(found.sync.p99),
        count(found.sync.max)
    ));
    if let Some(doubt) = found.sync_doubt {
        lines.push(format!("Suspicious: {}.", doubt.meaning()));
    }
    if let Some((operation, error)) = &found.failed {
        lines.push(format!(
            "Operation {} failed ({error}). Operations that no sync had covered by then are undecided.",
            count(operation.0)
        ));
    }
    if found.ended {
        lines.push("The writer had already exited, so no write was interrupted.".to_string());
    }
    lines
}

#[cfg(test)]
mod tests {
    use jetcell_durability::{OperationDamage, OperationNumber, StorageOperationKind, SuspiciousSyncReason};
    use jetcell_host::Evidence;
    use jetcell_workload::measurement::LatencySummary;

    use super::*;

    #[test]
    fn the_report_shows_verdict_findings_and_doubts() {
        let tally = |kind| OperationKindCounts {
            kind,
            acknowledged: 1200,
            undecided: 3,
            lost: 1,
            torn: 0,
            reordered: 0,
            unreadable: 0,
        };
        let finding = BrokenPromise {
            operation: OperationNumber(1017),
            kind: StorageOperationKind::Rename,
            damage: OperationDamage::Lost,
            path: "trials/001/\x1b".into(),
            found: "the name does not exist".into(),
        };
        let mut found = DurabilityVerification {
            schema: 1,
            evidence: Evidence::default(),
            level: FailureLevel::Power,
            last_acknowledged: OperationNumber(2345),
            last_unix_ms: 0,
            first_missing: Some(OperationNumber(1017)),
            kinds: vec![tally(StorageOperationKind::Rename)],
            findings: vec![finding],
            sync: LatencySummary { count: 500, p50: 7, ..LatencySummary::default() },
            sync_doubt: Some(SuspiciousSyncReason::NoRoundTrip),
            failed: Some((OperationNumber(2347), "Input/output error".into())),
            ended: false,
        };
        let text = durability_text(&found, usize::MAX).to_string();
        for part in [
            "NOT KEPT: 1 acknowledged operations",
            "operation 1,017",
            "Suspicious: half",
            "Operation 2,347 failed",
            "lost",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let (page, markdown) = (durability_html(&found), durability_markdown(&found));
        for part in [
            "NOT KEPT: 1 acknowledged operations",
            "Suspicious: half",
            "the name does not exist",
            "undecided",
        ] {
            assert!(page.contains(part) && markdown.contains(part), "{part} is not in\n{markdown}\n{page}");
        }
        assert!(page.contains("1 of 1,200") && page.contains("<svg") && markdown.starts_with("# Jetcell"));
        assert!([&text, &page, &markdown].iter().all(|form| !form.contains('\x1b')));
        (found.first_missing, found.sync_doubt, found.ended) = (None, None, true);
        found.findings.clear();
        let text = durability_text(&found, usize::MAX).to_string();
        assert!(
            !durability_html(&found).contains("<svg")
                && text.starts_with("KEPT: ")
                && text.contains("had already exited")
                && !text.contains("Suspicious"),
            "{text}"
        );
    }
}
