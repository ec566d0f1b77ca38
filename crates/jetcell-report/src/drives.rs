//! Renders a comparison of drives for a terminal, as Markdown, as CSV, and as a page with charts.

use jetcell_input::Unit;
use jetcell_input::number::{decimal, signed, significant};
use jetcell_lab::drives::{
    CheckedPercentage, ComparedDrive, DifferenceFromFirst, DriveRow, DriveSummary, PercentageFinding,
};
use jetcell_workload::measurement::BetterDirection;

use crate::bars::{BarChart, BarItem};
use crate::chart::AxisScale;
use crate::csv::table_csv;
use crate::markdown::tables_markdown;
use crate::page::ReportPage;
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportTable};
use crate::text_table::tables_text;

/// Renders tables and remarks with at most `width` characters per line.
pub fn drives_text(summary: &DriveSummary, width: usize) -> StyledText {
    tables_text(&tables(summary), &notes(summary), width)
}

/// Renders GitHub-flavored Markdown.
pub fn drives_markdown(summary: &DriveSummary) -> String {
    tables_markdown("comparison of drives", &tables(summary), &notes(summary))
}

/// Renders the tables as CSV.
pub fn drives_csv(summary: &DriveSummary) -> String {
    tables(summary).iter().map(table_csv).collect::<Vec<_>>().join("\n")
}

/// Renders a page that shows the figures as bars.
pub fn drives_html(summary: &DriveSummary) -> String {
    let page = notes(summary).iter().fold(ReportPage::new("Drives"), |page, line| page.text(line));
    let page = page.bars(&bars(summary));
    tables(summary).iter().fold(page, ReportPage::table).finish()
}

fn signed_percent(percent: f64) -> String {
    format!("{} %", signed(percent))
}

fn tables(summary: &DriveSummary) -> Vec<ReportTable> {
    let claims = (!summary.claims.is_empty()).then(|| claims(summary));
    [drives(summary), rows(summary)].into_iter().chain(claims).collect()
}

/// Returns a table with the percentages printed by the source, next to the percentages computed from its figures.
fn claims(summary: &DriveSummary) -> ReportTable {
    let row = |claim: &CheckedPercentage| {
        let CheckedPercentage { drive, than, .. } = claim;
        let other = if claim.printed < 0.0 { "more" } else { "less" };
        let mut finding = match claim.finding {
            PercentageFinding::Holds => "holds".to_string(),
            PercentageFinding::OtherBase => {
                format!("wrong base: the percentage is of {drive}; {than} has this much {other} than {drive}")
            }
            PercentageFinding::ContainsAnError => {
                "the mean of the printed percentages, which include a wrong percentage".to_string()
            }
            PercentageFinding::Differs => {
                "does not follow from the figures, even after rounding the result".to_string()
            }
            PercentageFinding::NoFigures => "the figures needed to verify this claim are missing".to_string(),
        };
        if let Some(scope) = claim.measured_scope {
            finding +=
                &format!("; the meter measured {scope}, so the claim says nothing about {drive} alone");
        }
        vec![
            ReportCell::from(claim.text.as_str()),
            ReportCell::from(format!("{drive} over {than}")),
            ReportCell::from(format!("{}{} %", if claim.printed > 0.0 { "+" } else { "" }, claim.printed)),
            ReportCell::figure_or_missing(Unit::Change, claim.computed),
            ReportCell::from(finding),
        ]
    };
    ReportTable::text_columns("Printed percentages", &["Claim", "Drives", "Printed", "Computed", "Finding"])
        .rows(summary.claims.iter().map(row))
}

fn drives(summary: &DriveSummary) -> ReportTable {
    let currency = summary.currency.as_deref().unwrap_or("money");
    // Each file must contain the base's name, because it may be read without the remarks.
    let first = summary.drives.first().map_or("", |drive| drive.name.as_str());
    let columns = [
        format!("Mean advantage (% of {first})"),
        format!("Price ({currency})"),
        format!("Premium (% of {first})"),
        "Power (W)".to_string(),
        "Measured".to_string(),
        "kWh per year".to_string(),
        format!("{currency} per year"),
        "CO2, kg per year".to_string(),
        "Joules per I/O".to_string(),
    ];
    let row = |drive: &ComparedDrive| {
        let energy = drive.energy.as_ref();
        vec![
            ReportCell::from(drive.name.as_str()),
            ReportCell::figure_or_missing(Unit::Change, drive.mean_advantage),
            ReportCell::figure_or_missing(Unit::Money, drive.price),
            ReportCell::figure_or_missing(Unit::Change, drive.premium.map(|premium| premium.more_percent)),
            ReportCell::figure_or_missing(Unit::Watts, energy.map(|energy| energy.watts)),
            energy.map_or_else(ReportCell::missing, |energy| energy.scope.name().into()),
            ReportCell::figure_or_missing(Unit::KilowattHours, energy.map(|energy| energy.kwh_per_year)),
            ReportCell::figure_or_missing(Unit::Money, energy.and_then(|energy| energy.cost_per_year)),
            ReportCell::figure_or_missing(Unit::Kilograms, energy.and_then(|energy| energy.co2_kg_per_year)),
            ReportCell::figure_or_missing(Unit::Joules, drive.joules_per_io),
        ]
    };
    ReportTable::numbers("Drives", "Drive", columns.iter().map(String::as_str))
        .rows(summary.drives.iter().map(row))
}

fn rows(summary: &DriveSummary) -> ReportTable {
    let names = || summary.drives.iter().map(|drive| drive.name.as_str());
    let first = names().next().unwrap_or_default();
    let advantages: Vec<String> =
        names().skip(1).map(|name| format!("{name}, advantage (% of {first})")).collect();
    let columns = names().chain(advantages.iter().map(String::as_str));
    let row = |row: &DriveRow| {
        let mark = if row.better == BetterDirection::Lower { " ↓" } else { "" };
        let unit = if row.unit.is_empty() { String::new() } else { format!(" ({})", row.unit) };
        let of_steps = if row.steps > 1 { format!(", mean of {} steps", row.steps) } else { String::new() };
        let title = format!("{}{of_steps}{mark}{unit}", row.title);
        let title = if row.in_mean { title } else { format!("{title} ¹") };
        let figures = row.figures.iter().map(|figure| ReportCell::figure_or_missing(Unit::Other, *figure));
        let advantages = row
            .advantages
            .iter()
            .skip(1)
            .map(|advantage| ReportCell::figure_or_missing(Unit::Change, *advantage));
        std::iter::once(ReportCell::from(title)).chain(figures).chain(advantages).collect()
    };
    ReportTable::numbers("Advantages", "Test", columns).rows(summary.rows.iter().map(row))
}

fn notes(summary: &DriveSummary) -> Vec<String> {
    let mut lines = summary.remarks.clone();
    let Some((first, rest)) = summary.drives.split_first() else { return lines };
    lines.push(format!(
        "Advantages are in percent of {}. Positive is better: where lower is better (↓), the sign is \
         reversed.",
        first.name
    ));
    if summary.rows.iter().any(|row| !row.in_mean) {
        lines.push(
            "¹ Excluded from the mean. Latencies of the mail load are excluded because, with a fixed number \
             of threads, they follow from the rate."
                .into(),
        );
    }
    for other in rest {
        let relation = |verb: &str, found: Option<DifferenceFromFirst>| {
            let DifferenceFromFirst { more_percent, first_is_less_percent } = found?;
            let (one, other_way) = if more_percent < 0.0 { ("less", "more") } else { ("more", "less") };
            let [more, less] = [more_percent, first_is_less_percent].map(|percent| decimal(percent.abs(), 1));
            let (this, first) = (&other.name, &first.name);
            Some(format!(
                "{this} {verb} {more} % {one} than {first}; {first} {verb} {less} % {other_way} than {this}."
            ))
        };
        lines.extend(relation("costs", other.premium));
        lines.extend(relation("draws", other.power));
        if let Some(mean) = other.mean_advantage {
            lines.push(format!(
                "{}: {} on average over {} tests.",
                other.name,
                signed_percent(mean),
                other.rows_in_mean
            ));
        }
        if other.power.is_none() && first.energy.is_some() && other.energy.is_some() {
            lines.push(format!(
                "The power of {} and {} is not compared: the first was measured for {}, the second for {}.",
                first.name,
                other.name,
                first.energy.map_or(String::new(), |energy| energy.scope.to_string()),
                other.energy.map_or(String::new(), |energy| energy.scope.to_string()),
            ));
        }
    }
    for scope in summary.drives.iter().filter_map(|drive| drive.energy).map(|energy| energy.scope) {
        let line =
            format!("Energy and joules were measured for {scope}, and say nothing about the drive alone.");
        if !scope.is_storage() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let (steps, undecided) = summary.rows.iter().fold((0, 0), |(steps, undecided), row| {
        (steps + row.steps * rest.len(), undecided + row.undecided_steps)
    });
    if undecided > 0 {
        lines.push(format!(
            "Noise could explain {undecided} of {steps} differences: their 95 % confidence intervals \
             contain zero, or are unknown because the test ran only once."
        ));
    }
    lines
}

fn bars(summary: &DriveSummary) -> Vec<BarChart> {
    let bar_chart = |title: &str, unit: &str, values: Vec<Option<f64>>| {
        let bar = |(series, (drive, value)): (usize, (&ComparedDrive, &Option<f64>))| {
            value.map(|value| BarItem { name: drive.name.clone(), value, label: significant(value), series })
        };
        let bars: Vec<BarItem> = summary.drives.iter().zip(&values).enumerate().filter_map(bar).collect();
        let (scale, legend) = (AxisScale::Linear, Vec::new());
        (bars.len() > 1).then(|| BarChart { title: title.into(), unit: unit.into(), scale, legend, bars })
    };
    let currency = summary.currency.as_deref().unwrap_or("money");
    let all = |value: fn(&ComparedDrive) -> Option<f64>| summary.drives.iter().map(value).collect();
    let figures = summary.rows.iter().map(|row| bar_chart(&row.title, &row.unit, row.figures.clone()));
    figures
        .chain([
            bar_chart("Price", currency, all(|drive| drive.price)),
            bar_chart("Power", "W", all(|drive| Some(drive.energy?.watts))),
            bar_chart("Energy of a transactional I/O", "J", all(|drive| drive.joules_per_io)),
        ])
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use jetcell_lab::drives::{DriveList, RunFigures};

    use super::*;

    fn example() -> DriveSummary {
        let list = "currency = \"USD\"\nprice_per_kwh = 0.185\n\
             [[drive]]\nname = \"gr<e>en\"\nprice = 139\npower = { kwh = 1.1, hours = 27.5, scope = \"server\" }\n\
             [[drive]]\nname = \"black\\u001b\"\nprice = 249\npower = { kwh = 0.72, hours = 14.75, scope = \"server\" }\n\
             [[measured]]\ntitle = \"Access time\"\nunit = \"ms\"\nbetter = \"lower\"\nvalues = [17.6, 12.0]\n\
             [[advantage]]\ntitle = \"Transfer\"\npercent = [17.9]\n\
             [[claim]]\ntext = \"26.6 % <more>\"\nof = \"Mail load, transactional I/O\"\npercent = 26.6\n\
             [[claim]]\ntext = \"18.8 % less\"\nof = \"power\"\ndrive = \"gr<e>en\"\nthan = \"black\\u001b\"\npercent = -18.8\n\
             scope = \"drive\"\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drives.toml");
        std::fs::write(&path, list).unwrap();
        let list = DriveList::read(&path).unwrap();
        let run = |iops, ms| {
            Some(RunFigures {
                transactional_iops: (iops, None),
                database_read_ms: Some((ms, None)),
                log_write_ms: Some((1.0, None)),
            })
        };
        let energy: Vec<_> = list.drives.iter().map(|drive| list.stated_energy(drive)).collect();
        DriveSummary::new(&list, &[None, None], &[run(47.396, 10.751), run(64.57, 15.18)], &energy)
    }

    #[test]
    fn every_percentage_names_the_base_and_energy_the_scope() {
        let text = drives_text(&example(), usize::MAX).to_string();
        for said in [
            "costs 79.1 % more than gr<e>en; gr<e>en costs 44.2 % less than black",
            "draws 22.0 % more than gr<e>en; gr<e>en draws 18.1 % less than black",
            "Advantages are in percent of gr<e>en",
            "Energy and joules were measured for the whole server, and say nothing about the drive alone.",
            "Noise could explain",
            "+28.7 % on average over 3 tests",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let has_row = |words: &str| rows.contains(&words.split(' ').collect());
        assert!(has_row("gr<e>en – 139.00 – 40.0 server 350.4 64.82 – 0.844"), "{text}");
        assert!(has_row("Access time ↓ (ms) 17.6 12 +31.8 %"), "{text}");
        assert!(has_row("Mail load, transactional I/O (1/s) 47.4 64.6 +36.2 %"), "{text}");
        for said in [
            "wrong base: the percentage is of black\\u{1b}; gr<e>en has this much less than black\\u{1b}",
            "the meter measured the whole server, so the claim says nothing about gr<e>en alone",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn every_format_has_both_tables_and_escapes_names() {
        let summary = example();
        let (page, markdown, csv) = (drives_html(&summary), drives_markdown(&summary), drives_csv(&summary));
        assert!(page.contains("gr&lt;e&gt;en") && !page.contains('\x1b') && !page.contains("http"));
        assert_eq!(page.matches("<svg").count(), 7);
        assert!(
            markdown.contains("## Drives")
                && markdown.contains("## Advantages")
                && markdown.contains("gr\\<e>en")
        );
        assert!(csv.contains("79.137") && csv.contains("0.844"), "{csv}");
        for base in ["Mean advantage (% of gr<e>en)", "Premium (% of gr<e>en)", "advantage (% of gr<e>en)"] {
            assert!(csv.contains(base), "{base}: {csv}");
        }
    }
}
