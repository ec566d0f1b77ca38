//! `jetcell raid simulate --drives`: compares the drive table with published data.

use jetcell_disk_simulation::drive_figures::{DriveFigures, SeekCurveComparison, agreements, drive_figures};
use jetcell_input::Align;
use jetcell_input::number::{decimal, grouped};
use jetcell_report::ReportTable;
use serde_json::json;

pub fn json() -> String {
    format!("{}\n", json!({ "drives": drive_figures(), "agreements": agreements() }))
}

pub fn tables() -> Vec<ReportTable> {
    let published = |found: f64, published: Option<f64>| match published {
        Some(published) => format!("{} ({})", grouped(found.round()), grouped(published.round())),
        None => grouped(found.round()),
    };
    let row = |figures: DriveFigures| {
        vec![
            format!("{}: {}", figures.name, figures.drive),
            decimal(figures.read_ms, 2),
            decimal(figures.write_ms, 2),
            published(figures.reads_per_second, figures.published_reads_per_second),
            grouped(figures.reads_per_second_16.round()),
            published(figures.mb_per_second[0], figures.published_mb_per_second[0]),
            published(figures.mb_per_second[1], figures.published_mb_per_second[1]),
        ]
    };
    let drives = ReportTable::text_columns(
        "Simulated drives, with published values in brackets",
        &["drive", "read ms", "write ms", "reads/s", "reads/s, 16 queued", "MB/s, first byte", "last byte"],
    )
    .aligned(1.., Align::Right)
    .text_rows(drive_figures().into_iter().map(row))
    .note(
        "Random accesses of 8 KiB over the whole drive; sequential reads of 1 MiB. The published rates \
             of 15k-146 exclude track switches.",
    );
    let times = |times: [f64; 4]| times.map(|time| decimal(time, 1)).join(", ");
    let row = |agreement: SeekCurveComparison| {
        vec![
            format!("{}: {}", agreement.name, agreement.load),
            times(agreement.measured_ms),
            times(agreement.modelled_ms),
            format!("{} %", decimal(agreement.demerit * 100.0, 1)),
        ]
    };
    let agreements = ReportTable::text_columns(
        "Three data sheet points compared with measured seek times",
        &["drive: load", "measured ms: 10, 50, 90, 99 %", "three points", "demerit figure"],
    )
    .text_rows(agreements().into_iter().map(row))
    .note(
        "Demerit figure: root mean square distance between the two response time distributions, divided \
             by the measured mean. Published drive models have 2 to 40 %. With a queue, the elevator makes \
             seeks short, and the curve is too fast for short seeks.",
    );
    vec![drives, agreements]
}
