//! Tables for an experiment, used for both text and HTML.

use jetcell_disk_simulation::ExperimentResults;
use jetcell_disk_simulation::experiment::{
    ArrayStateResults, LATENCY_LIMIT_MS, LayoutResults, SimulatedState, state_name,
};
use jetcell_disk_simulation::timeline::TimelinePhase;
use jetcell_input::Align;
use jetcell_input::number::{decimal, grouped};
use jetcell_report::ReportTable;

pub fn title(experiment: &ExperimentResults) -> String {
    let load = &experiment.config.load;
    format!(
        "{} users x {} = {} host I/O per second, {:.0} % reads, pages of {} bytes, {} GB of data; drives: {}; simulated time",
        grouped(load.users),
        load.iops_per_user,
        decimal(experiment.target_iops, 1),
        load.read_share * 100.0,
        grouped(load.page_bytes as f64),
        grouped(load.data_gb),
        experiment.drive
    )
}

pub fn all_tables(experiment: &ExperimentResults) -> Vec<ReportTable> {
    let mut tables = vec![states(experiment), levels(experiment), timelines(experiment)];
    if !experiment.decay.is_empty() {
        tables.push(decay_table(experiment));
    }
    tables
}

fn states(experiment: &ExperimentResults) -> ReportTable {
    let row = |layout: &LayoutResults, figures: &ArrayStateResults| {
        vec![
            format!("{}, {}", layout.name, state_name(figures.state)),
            format!("{}{}", decimal(figures.iops, 1), if figures.is_reached { "" } else { " *" }),
            format!("{} ({})", decimal(figures.read_ms, 3), decimal(figures.read_ms_99, 3)),
            format!("{} ({})", decimal(figures.write_ms, 3), decimal(figures.write_ms_99, 3)),
            figures
                .log_ms
                .zip(figures.log_ms_99)
                .map_or("-".into(), |(mean, most)| format!("{} ({})", decimal(mean, 3), decimal(most, 3))),
            decimal(figures.disk_writes_per_host_write, 2),
            decimal(figures.disk_reads_per_host_read, 2),
            decimal(figures.bytes_per_host_byte, 2),
            format!("{:.0} %", figures.utilisation * 100.0),
            figures.rebuild_mb_per_second.map_or("-".into(), |rate| decimal(rate, 1)),
            figures.rebuild_seconds.map_or("-".into(), |seconds| format!("{:.2} h", seconds / 3600.0)),
        ]
    };
    let rows = experiment
        .layouts
        .iter()
        .flat_map(|layout| layout.states.iter().map(move |figures| row(layout, figures)));
    let names = [
        "layout, state",
        "IOPS",
        "read ms (99 %)",
        "write ms (99 %)",
        "log write ms (99 %)",
        "writes/host write",
        "reads/host read",
        "bytes/host byte",
        "busy",
        "rebuild MB/s",
        "rebuild",
    ];
    ReportTable::text_columns("States", &names)
        .aligned(1.., Align::Right)
        .text_rows(rows)
        .note(
            "* the requested rate was not reached. Drive writes and reads are commands, excluding the \
             writes of the rebuild.",
        )
        .note(
            "Twice: two drives of a group, rebuilt at the same time. RAID 10 and RAID 5 do not tolerate \
             this.",
        )
        .note(
            "The rebuild time is that of a whole drive at the rate measured from 35 % of the drive onwards.",
        )
        .note("Log drives are excluded from writes, reads, bytes and busy.")
}

fn levels(experiment: &ExperimentResults) -> ReportTable {
    let row = |layout: &LayoutResults| {
        let normal = layout.in_state(SimulatedState::Normal);
        let degraded = normal.zip(layout.in_state(SimulatedState::Degraded));
        let rebuild = layout.timeline.whole_rebuild_seconds;
        vec![
            layout.name.clone(),
            grouped(layout.drives as f64),
            decimal(layout.highest_iops, 1),
            normal.map_or("-".into(), |normal| decimal(normal.disk_writes_per_host_write, 2)),
            degraded.map_or("-".into(), |(normal, degraded)| {
                format!("{:+.0} %", (degraded.read_ms / normal.read_ms - 1.0) * 100.0)
            }),
            rebuild.map_or("-".into(), |seconds| format!("{:.2} h", seconds / 3600.0)),
        ]
    };
    let names = ["layout", "drives", "highest IOPS", "writes/host write", "reads, degraded", "rebuild"];
    ReportTable::text_columns("Levels: overall, write and degraded performance, and rebuild", &names)
        .aligned(1.., Align::Right)
        .text_rows(experiment.layouts.iter().map(row))
        .note(format!(
            "Highest IOPS: with a mean read latency of at most {LATENCY_LIMIT_MS} ms, to a resolution of \
             1/128 of 400 per drive. Rebuild: from the first to the last byte."
        ))
}

/// Returns the table with the times before, during and after the loss of a drive.
fn timelines(experiment: &ExperimentResults) -> ReportTable {
    let value = |value: Option<f64>, digits| value.map_or("-".into(), |value| decimal(value, digits));
    let row = |layout: &LayoutResults, phase: &TimelinePhase| {
        vec![
            format!("{}, {}", layout.name, phase.name),
            format!("{:.0}-{:.0}", phase.from, phase.to),
            value(phase.read_ms, 3),
            value(phase.write_ms, 3),
            value(phase.log_ms, 3),
            value(phase.disk_writes_per_host_write, 2),
            decimal(phase.rebuild_mb_per_second, 1),
        ]
    };
    let rows = experiment
        .layouts
        .iter()
        .flat_map(|layout| layout.timeline.phases.iter().map(move |phase| row(layout, phase)));
    let share = |layout: &LayoutResults| {
        let timeline = &layout.timeline;
        let whole = match timeline.whole_rebuild_seconds {
            Some(seconds) => format!("{} s for the whole drive", grouped(seconds.round())),
            None => "it did not complete".into(),
        };
        format!("{} {:.1} %, {whole}", layout.name, timeline.share_rebuilt * 100.0)
    };
    let shares: Vec<String> = experiment.layouts.iter().map(share).collect();
    ReportTable::text_columns(
        "Before, during and after the loss of a drive",
        &["layout, time", "s", "read ms", "write ms", "log write ms", "writes/host write", "rebuild MB/s"],
    )
    .aligned(1.., Align::Right)
    .text_rows(rows)
    .note(format!(
        "The run rebuilds a part of the drive, evenly spread from its first to its last byte: {}.",
        shares.join("; ")
    ))
}

fn decay_table(experiment: &ExperimentResults) -> ReportTable {
    let row = |decay: &jetcell_disk_simulation::experiment::WriteAnywhereWriteCost| {
        vec![
            format!("{:.0} %", decay.fill * 100.0),
            decimal(decay.overwritten, 1),
            decimal(decay.commands_per_host_write, 2),
            decimal(decay.blocks_per_host_block, 2),
            decimal(decay.reads_per_host_write, 2),
        ]
    };
    ReportTable::text_columns(
        "Writes of the write-anywhere volume, by share in use and age",
        &["in use", "overwritten", "writes/host write", "blocks/host block", "reads/host write"],
    )
    .aligned(1.., Align::Right)
    .text_rows(experiment.decay.iter().map(row))
    .note("Overwritten: number of times that all data was overwritten at random before the measurement.")
}
