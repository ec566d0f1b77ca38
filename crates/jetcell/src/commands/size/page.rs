//! The HTML page of a sizing.

use jetcell_input::number::decimal;
use jetcell_report::chart::AxisScale;
use jetcell_report::{BarChart, BarItem, ReportPage};
use jetcell_sizing::StorageDesign;

use super::{SizingWithRisk, subject, tables};

/// Returns the page, which shows the designs as bars and contains all tables.
pub fn page(sized: &SizingWithRisk) -> String {
    let page = ReportPage::new(format!("Sizing: {}", subject(sized)));
    let page = page.bars(&charts(sized)).table(&tables::designs(sized)).table(&tables::states(sized));
    let page = page.table(&tables::requirements(sized)).table(&tables::server(sized));
    let page = if sized.sizing.comparisons.is_empty() { page } else { page.table(&tables::drives(sized)) };
    let page = if sized.sizing.server.warnings.is_empty() { page } else { page.heading("Notes") };
    sized.sizing.server.warnings.iter().fold(page, |page, warning| page.text(warning)).finish()
}

/// Function that computes a value and its text from a design and its risk.
type DesignValueFn<'v> = &'v dyn Fn(&StorageDesign, Option<f64>) -> Option<(f64, String)>;

fn charts(sized: &SizingWithRisk) -> [BarChart; 3] {
    let cost = &sized.sizing.inputs.cost;
    let bars = |title: &str, unit: String, scale, value: DesignValueFn<'_>| {
        let bar = |(design, risk): (&StorageDesign, &Option<f64>)| {
            let (value, label) = value(design, *risk)?;
            Some(BarItem { name: tables::name(design), value, label, series: 0 })
        };
        let all: Vec<BarItem> = sized.sizing.designs.iter().zip(&sized.risks).filter_map(bar).collect();
        let least = all.iter().filter(|bar| bar.value.is_finite()).min_by(|a, b| a.value.total_cmp(&b.value));
        let seen = least.map(|bar| format!(": least with {}, {}", bar.name, bar.label)).unwrap_or_default();
        BarChart { title: format!("{title}{seen}"), unit, scale, legend: Vec::new(), bars: all }
    };
    [
        bars(
            "Total cost",
            format!("price, energy and replacements in {} years", cost.years),
            AxisScale::Linear,
            &|design, _| {
                let total = design.economy.total_cost;
                Some((total, format!("{} {}", decimal(total, 0), cost.currency)))
            },
        ),
        bars(
            "Data loss",
            format!("probability that an array loses data in {} years", cost.years),
            AxisScale::Logarithmic,
            &|_, risk| risk.map(|risk| (risk * 100.0, format!("{} %", tables::loss(Some(risk)).text()))),
        ),
        bars("Disks", "all servers, with spares".into(), AxisScale::Linear, &|design, _| {
            Some((design.disks, decimal(design.disks, 0)))
        }),
    ]
}
