//! Renders a file system comparison for a terminal, as Markdown, and as a page with charts.

use jetcell_input::number::{human_bytes, significant};
use jetcell_lab::filesystems::{
    FilesystemComparison, FilesystemSpecification, MetricResult, SignConvention, TestedDirectory,
};
use jetcell_workload::measurement::{BetterDirection, Change};

use crate::bars::{BarChart, BarItem};
use crate::chart::{AxisScale, Chart, ChartSeries, HorizontalAxis};
use crate::drive_test::name_with_difference;
use crate::markdown as md;
use crate::page::ReportPage;
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportTable};
use crate::text_table::tables_text;

/// Names of the rows shown as bars.
const BAR_CHART_ROWS: [&str; 6] = [
    "scan_mib_per_sec",
    "backup_mib_per_sec",
    "achieved_transactional_iops",
    "db_reads_avg_latency_ms",
    "log_writes_avg_latency_ms",
    "avg_processor_time_pct",
];

/// Renders figures, differences, directories, and remarks, with at most `width` characters per line.
pub fn filesystems_text(test: &FilesystemComparison, width: usize) -> StyledText {
    tables_text(&tables(test), &notes(test), width)
}

/// Renders GitHub-flavored Markdown.
pub fn filesystems_markdown(test: &FilesystemComparison) -> String {
    let mut out = format!("# Jetcell comparison: {}\n\n", test.title);
    tables(test).iter().for_each(|table| out += &md::table(table));
    notes(test).iter().for_each(|line| out += &format!("- {}\n", md::escaped(line)));
    out
}

/// Renders a page with charts that show the turns and the most important rows.
pub fn filesystems_html(test: &FilesystemComparison) -> String {
    comparison(ReportPage::new(test.title), test).finish()
}

/// Adds the comparison to a page.
pub(crate) fn comparison(page: ReportPage, test: &FilesystemComparison) -> ReportPage {
    let page = notes(test).iter().fold(page, |page, line| page.text(line));
    let drawn = test.rows.iter().filter(|row| BAR_CHART_ROWS.contains(&row.row.name));
    let bars: Vec<BarChart> = drawn.map(|row| metric_bars(test, row)).collect();
    let page = page.bars(&bars).charts(&turn_charts(test));
    tables(test).iter().fold(page, ReportPage::table)
}

fn names(test: &FilesystemComparison) -> impl Iterator<Item = &str> {
    test.directories.iter().map(|one| one.name.as_str())
}

fn title(row: &MetricResult) -> String {
    let mark = match row.row.better {
        BetterDirection::Higher => "",
        BetterDirection::Lower => " ↓",
        BetterDirection::Neither => " ·",
    };
    format!("{}{mark} ({})", row.row.title, row.row.unit.name())
}

pub(crate) fn tables(test: &FilesystemComparison) -> Vec<ReportTable> {
    let figure = |row: &MetricResult| {
        let cell = |(mean, interval): (&f64, &Option<jetcell_workload::measurement::ConfidenceInterval>)| {
            ReportCell::figure(row.row.unit, *mean).within(interval.map(|found| found.half_width))
        };
        let cells = row.means.iter().zip(&row.intervals).map(cell);
        std::iter::once(ReportCell::from(title(row))).chain(cells).collect()
    };
    let difference = |row: &MetricResult| {
        let cell = |difference: &Option<Change>| match difference {
            None => ReportCell::missing(),
            Some(found) => crate::drive_test::difference(found),
        };
        let winner = row.winner.and_then(|at| names(test).nth(at));
        let winner = winner.map_or_else(ReportCell::missing, ReportCell::from);
        let cells = row.differences.iter().skip(1).map(cell);
        std::iter::once(ReportCell::from(title(row))).chain(cells).chain([winner]).collect()
    };
    let others = names(test).skip(1).chain(["Better"]);
    vec![
        ReportTable::text_columns(
            "Directories",
            &["Name", "File system", "Device", "Options", "Files", "Space used"],
        )
        .rows(test.directories.iter().map(directory_cells)),
        ReportTable::numbers("Figures", "Row", names(test)).rows(test.rows.iter().map(figure)),
        ReportTable::numbers("Differences", "Row", others).rows(test.rows.iter().map(difference)),
    ]
}

fn directory_cells(one: &TestedDirectory) -> Vec<ReportCell> {
    let mount = one.storage.mount.as_ref();
    let text = |text: Option<&str>| ReportCell::from(text.unwrap_or("unknown"));
    vec![
        ReportCell::from(one.name.as_str()),
        text(mount.map(|mount| mount.file_system.as_str())),
        text(mount.map(|mount| mount.source.as_str())),
        text(mount.map(|mount| mount.options.as_str())),
        human_bytes(one.file_bytes).into(),
        human_bytes(one.allocated_bytes).into(),
    ]
}

pub(crate) fn notes(test: &FilesystemComparison) -> Vec<String> {
    let turns = test.rows.first().and_then(|row| row.turns.first()).map_or(0, Vec::len);
    let precision = significant(test.limits.precision_percent);
    let state = if test.precise { "are" } else { "are not" };
    let signs = match test.signs {
        SignConvention::Change => {
            ", with the sign of the change. Lower is better where the row is marked (↓)"
        }
        SignConvention::Better => {
            ". Positive is better: where lower is better (↓), the sign is reversed. Where neither is better \
             (·), the sign is that of the change"
        }
    };
    let mut lines = vec![
        format!(
            "{turns} turns. The 95 % confidence intervals of the differences in transactional I/O {state} \
             within ± {precision} %."
        ),
        format!(
            "Differences are in percent of the first directory{signs}. A directory is marked as better only \
             if its intervals against all others exclude zero. Of twenty rows without a real difference, \
             one may still be marked by chance."
        ),
        "Processor is the busy share of the whole machine, because file systems also work in the kernel."
            .to_string(),
    ];
    if test.too_few_turns {
        lines.push(format!(
            "The time limit expired before {} turns completed; raise --time-limit.",
            test.limits.fewest
        ));
    }
    for one in &test.directories {
        lines.extend(one.made.iter().map(|how| creation_text(&one.name, how)));
        if one.made.is_none() && one.storage.mount.as_ref().is_some_and(|mount| mount.file_system == "btrfs")
        {
            lines.push(format!(
                "{}: the space used is counted in file blocks. On btrfs, this count ignores compression and \
                 copies.",
                one.name
            ));
        }
        lines.extend(one.remarks.iter().map(|remark| format!("{}: {remark}.", one.name)));
    }
    lines.extend(test.skipped.iter().map(|one| format!("{} is skipped: {}.", one.name, one.reason)));
    lines.push("Encryption performed inside a drive cannot be detected.".into());
    let device = |one: &TestedDirectory| match one.made {
        Some(_) => None,
        None => Some(one.storage.mount.as_ref()?.source.clone()),
    };
    let Some((first, rest)) = test.directories.split_first() else { return lines };
    for other in rest.iter().filter(|other| device(other).is_some() && device(other) == device(first)) {
        lines.push(format!("{} and {} are on the same file system.", first.name, other.name));
    }
    lines
}

/// Describes in one line how a file system was made.
fn creation_text(name: &str, how: &FilesystemSpecification) -> String {
    let options = |options: &[String]| match options {
        [] => "no additional options".to_string(),
        some => some.join(" "),
    };
    let mut line = format!(
        "{name}: {} made for this test; mkfs: {}; mount: {}",
        how.kind,
        options(&how.mkfs_options),
        options(&how.mount_options)
    );
    if how.fill_percent > 0 {
        line += &format!("; {} % in use by other files", how.fill_percent);
    }
    if how.aging_rounds > 0 {
        line += &format!("; aged by writing and removing files in {} rounds", how.aging_rounds);
    }
    line + "."
}

fn metric_bars(test: &FilesystemComparison, row: &MetricResult) -> BarChart {
    let bar = |((name, mean), at): ((&str, &f64), usize)| {
        let difference = row.differences.get(at).and_then(Option::as_ref);
        BarItem {
            name: name_with_difference(name.into(), difference, row.winner == Some(at)),
            value: *mean,
            label: row.row.unit.format(*mean),
            series: at,
        }
    };
    let bars = names(test).zip(&row.means).zip(0..).map(bar).collect();
    let (scale, legend) = (AxisScale::Linear, Vec::new());
    BarChart { title: row.row.title.into(), unit: row.row.unit.name().into(), scale, legend, bars }
}

fn turn_charts(test: &FilesystemComparison) -> Vec<Chart> {
    let Some(row) = test.rows.first() else { return Vec::new() };
    let line = |(name, values): (&str, &Vec<f64>)| {
        ChartSeries::new(name, values.iter().enumerate().map(|(turn, value)| (turn as f64 + 1.0, *value)))
    };
    let lines = names(test).zip(&row.turns).map(line).collect();
    vec![Chart::new(row.row.title, row.row.unit.name(), HorizontalAxis::Count("turn".into()), lines)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_host::machine::DirectoryStorage;
    use jetcell_lab::filesystems::{ComparedMetric, ROWS, TurnLimits, compare};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct PrintedFilesystemTest {
        columns: Vec<String>,
        metrics: Vec<PrintedFilesystemMetric>,
    }

    #[derive(Deserialize)]
    struct PrintedFilesystemMetric {
        metric: String,
        values: Vec<f64>,
        reported_delta_pct: Vec<Option<f64>>,
    }

    /// Returns a published test of three file systems, converted to a result of this program.
    fn published() -> (PrintedFilesystemTest, FilesystemComparison) {
        let text = include_str!("comparison/filesystem-comparison.json");
        let printed: PrintedFilesystemTest = serde_json::from_str(text).unwrap();
        let directory = |name: &String| TestedDirectory {
            name: name.clone(),
            directory: name.into(),
            storage: DirectoryStorage { directory: name.into(), mount: None, device: None, array: None },
            file_bytes: 186 << 30,
            allocated_bytes: 186 << 30,
            made: None,
            remarks: vec!["data checksums: none".into()],
        };
        let directories = printed.columns.iter().map(directory).collect();
        let limits = TurnLimits { fewest: 1, most: 1, precision_percent: 2.0, longest: Duration::ZERO };
        let measure = &mut |at: usize, _| {
            let value = |row: &ComparedMetric| {
                let found = printed.metrics.iter().find(|metric| metric.metric == row.name);
                found.unwrap_or_else(|| panic!("{} is not printed", row.name)).values[at]
            };
            Ok::<_, ()>(ROWS.iter().map(value).collect())
        };
        let test =
            compare(("File systems", &ROWS), directories, limits, measure, &|| Duration::ZERO).unwrap();
        (printed, test)
    }

    #[test]
    fn the_28_percentages_in_a_published_test_are_reproduced() {
        let (printed, test) = published();
        let mut compared = 0;
        for row in &test.rows {
            let reported = printed.metrics.iter().find(|metric| metric.metric == row.row.name).unwrap();
            for (at, difference) in row.differences.iter().enumerate().skip(1) {
                let percent = difference.unwrap().percent;
                assert_eq!(Some(percent.round()), reported.reported_delta_pct[at], "{} {at}", row.row.name);
                compared += 1;
            }
        }
        assert_eq!(compared, 28);
    }

    #[test]
    fn every_format_has_all_rows_and_escapes_names() {
        let (_, mut test) = published();
        test.directories[1].name = "re<fs>\x1b|".into();
        let (text, page) = (filesystems_text(&test, usize::MAX).to_string(), filesystems_html(&test));
        let markdown = filesystems_markdown(&test);
        for row in ROWS {
            assert!([&text, &page, &markdown].iter().all(|form| form.contains(row.title)), "{}", row.title);
        }
        assert!(text.contains("-12.7 %") && text.contains("1,613"), "{text}");
        assert!(!text.contains('\x1b') && !page.contains('\x1b') && !page.contains("re<fs>"));
        assert_eq!((page.matches("<svg").count(), page.contains("http")), (5, false));
    }
}
