//! The tables of an experiment, which text and page both show.

use jetcell_disk_simulation::Experiment;
use jetcell_disk_simulation::experiment::{LATENCY_LIMIT_MS, LayoutFigures, State, StateFigures, word};
use jetcell_disk_simulation::published;
use jetcell_report::{Cell, Table, decimal, grouped};
use serde::Serialize;

struct Plain {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns behind the first one are text as well.
    has_text: bool,
    note: Vec<String>,
}

impl From<Plain> for Table {
    fn from(plain: Plain) -> Table {
        let names: Vec<&str> = plain.head.iter().map(String::as_str).collect();
        let mut table = Table::words(&plain.title, &names);
        table.columns.iter_mut().skip(1).for_each(|column| column.number = !plain.has_text);
        let rows = plain.rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect());
        plain.note.into_iter().fold(table.rows(rows), Table::note)
    }
}

/// A published figure beside ours.
#[derive(Serialize)]
pub struct Compared {
    /// Which figure, with its unit.
    pub figure: &'static str,
    /// Where it is published.
    pub source: &'static str,
    pub published: f64,
    /// Absent if the experiment has no such figure.
    pub simulated: Option<f64>,
    pub agrees: bool,
    /// What the model has, or lacks.
    pub why: &'static str,
}

pub fn title(experiment: &Experiment) -> String {
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

pub fn all(experiment: &Experiment) -> Vec<Table> {
    let mut tables = vec![states(experiment), levels(experiment)];
    if !experiment.decay.is_empty() {
        tables.push(decay(experiment));
    }
    tables.push(beside_the_paper(experiment));
    tables.into_iter().map(Table::from).collect()
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn states(experiment: &Experiment) -> Plain {
    let row = |layout: &LayoutFigures, figures: &StateFigures| {
        vec![
            format!("{}, {}", layout.name, word(figures.state)),
            format!("{}{}", decimal(figures.iops, 1), if figures.is_reached { "" } else { " *" }),
            format!("{} ({})", decimal(figures.read_ms, 3), decimal(figures.read_ms_99, 3)),
            format!("{} ({})", decimal(figures.write_ms, 3), decimal(figures.write_ms_99, 3)),
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
        "writes/host write",
        "reads/host read",
        "bytes/host byte",
        "busy",
        "rebuild MB/s",
        "rebuild",
    ];
    Plain {
        title: "States".into(),
        head: head(&names),
        rows: rows.collect(),
        has_text: false,
        note: vec![
            "* the rate asked for was not reached. Writes and reads of drives are commands, without the writes of the rebuild.".into(),
            "The time of a rebuild is that of a whole drive at the rate that was measured from 35 % of the drive on.".into(),
        ],
    }
}

fn figures(layout: &LayoutFigures, state: State) -> Option<&StateFigures> {
    layout.states.iter().find(|figures| figures.state == state)
}

fn levels(experiment: &Experiment) -> Plain {
    let row = |layout: &LayoutFigures| {
        let degraded = figures(layout, State::Normal).zip(figures(layout, State::Degraded));
        let rebuild = figures(layout, State::Rebuilding).and_then(|figures| figures.rebuild_seconds);
        // "RAID-DP in place" is what the paper calls RAID 6 with a penalty of six, on fixed parity drives.
        let words = published::TABLE_8
            .iter()
            .find(|(name, _)| layout.name.starts_with(name) && !layout.name.contains("in place"));
        vec![
            layout.name.clone(),
            grouped(layout.drives as f64),
            decimal(layout.highest_iops, 1),
            figures(layout, State::Normal)
                .map_or("-".into(), |normal| decimal(normal.disk_writes_per_host_write, 2)),
            degraded.map_or("-".into(), |(normal, degraded)| {
                format!("{:+.0} %", (degraded.read_ms / normal.read_ms - 1.0) * 100.0)
            }),
            rebuild.map_or("-".into(), |seconds| format!("{:.2} h", seconds / 3600.0)),
            words.map_or("-".into(), |(_, words)| words.join(", ")),
        ]
    };
    let names = [
        "layout",
        "drives",
        "highest IOPS",
        "writes/host write",
        "reads, degraded",
        "rebuild",
        "table 8 of the paper",
    ];
    Plain {
        title: "Levels: overall, write and degraded performance, and rebuild, beside the words of table 8"
            .into(),
        head: head(&names),
        rows: experiment.layouts.iter().map(row).collect(),
        has_text: false,
        note: vec![format!(
            "Highest IOPS: with a mean read latency of at most {LATENCY_LIMIT_MS} ms, to one part in 128 of 400 per drive."
        )],
    }
}

fn decay(experiment: &Experiment) -> Plain {
    let row = |decay: &jetcell_disk_simulation::experiment::Decay| {
        vec![
            format!("{:.0} %", decay.fill * 100.0),
            decimal(decay.overwritten, 1),
            decimal(decay.commands_per_host_write, 2),
            decimal(decay.blocks_per_host_block, 2),
            decimal(decay.reads_per_host_write, 2),
        ]
    };
    Plain {
        title: "Writes of the volume that is written anywhere, by share in use and age".into(),
        head: head(&["in use", "overwritten", "writes/host write", "blocks/host block", "reads/host write"]),
        rows: experiment.decay.iter().map(row).collect(),
        has_text: false,
        note: vec![
            "Overwritten: how many times all data was written again, at random, before the measurement."
                .into(),
        ],
    }
}

/// The layout of the paper: RAID-DP, written anywhere.
fn of_the_paper(experiment: &Experiment) -> Option<&LayoutFigures> {
    let place = experiment.config.layouts.iter().position(|layout| layout.write_anywhere.is_some())?;
    experiment.layouts.get(place)
}

/// The published figures beside ours.
pub fn comparison(experiment: &Experiment) -> Vec<Compared> {
    let layout = of_the_paper(experiment);
    let figure =
        |state, value: fn(&StateFigures) -> f64| layout.and_then(|layout| figures(layout, state)).map(value);
    let increase = |value: fn(&StateFigures) -> f64| {
        Some((figure(State::Rebuilding, value)? / figure(State::Normal, value)? - 1.0) * 100.0)
    };
    let row = |figure, source, published: f64, simulated: Option<f64>, tolerance: f64, why| {
        let agrees = simulated.is_some_and(|found| (found - published).abs() <= tolerance);
        Compared { figure, source, published, simulated, agrees, why }
    };
    let published_increase = |normal: f64, rebuilding: f64| (rebuilding / normal - 1.0) * 100.0;
    let reads = published_increase(published::READ_MS, published::READ_MS_REBUILDING);
    let writes = published_increase(published::WRITE_MS, published::WRITE_MS_REBUILDING);
    let ratio = figure(State::Normal, |figures| figures.disk_writes_per_host_write);
    vec![
        row(
            "host I/O per second",
            "text of table 5",
            published::IOPS,
            layout.map(|layout| layout.highest_iops),
            published::IOPS * 0.25,
            "ours is the highest rate at 20 ms; the paper reports what its test reached, with latencies far below the limit",
        ),
        row(
            "read latency, ms",
            "table 5",
            published::READ_MS,
            figure(State::Normal, |figures| figures.read_ms),
            2.5,
            "the model has drives and queues only: no server, network, controller, metadata reads or log drives",
        ),
        row(
            "write latency, ms",
            "table 5",
            published::WRITE_MS,
            figure(State::Normal, |figures| figures.write_ms),
            1.5,
            "ours is the time of the log memory, a parameter (log_ms); the paper's includes server, network and controller",
        ),
        row(
            "read latency while rebuilding, ms",
            "table 7",
            published::READ_MS_REBUILDING,
            figure(State::Rebuilding, |figures| figures.read_ms),
            3.5,
            "the mean over all groups; only the reads of the group with the lost drive wait for the rebuild",
        ),
        row(
            "reads slower while rebuilding, %",
            "tables 5 and 7",
            reads,
            increase(|figures| figures.read_ms),
            15.0,
            "depends on the piece and the patience of the rebuild, which the paper does not give",
        ),
        row(
            "writes slower while rebuilding, %",
            "tables 5 and 7",
            writes,
            increase(|figures| figures.write_ms),
            5.0,
            "writes are answered from the log, whatever the drives do",
        ),
        Compared {
            figure: "disk writes for each host write: below",
            source: "figure 7",
            published: published::DISK_WRITES_PER_HOST_WRITE_BELOW,
            simulated: ratio,
            agrees: ratio.is_some_and(|ratio| ratio < published::DISK_WRITES_PER_HOST_WRITE_BELOW),
            why: "a ratio of commands on a young volume; see bytes and the table of decay for what it becomes",
        },
        row(
            "rebuild, MB/s",
            "figure 8",
            published::REBUILD_MB_PER_SECOND,
            figure(State::Rebuilding, |figures| figures.rebuild_mb_per_second.unwrap_or(0.0)),
            published::REBUILD_MB_PER_SECOND * 0.25,
            "set by the piece and the number of pieces under way (rebuild.piece_bytes, rebuild.pieces) and by the load",
        ),
        row(
            "rebuild of a drive, s",
            "figure 8",
            published::REBUILD_SECONDS,
            figure(State::Rebuilding, |figures| figures.rebuild_seconds.unwrap_or(0.0)),
            published::REBUILD_SECONDS * 0.25,
            "capacity by rate; the paper's drive is rebuilt from its first byte to its last",
        ),
    ]
}

fn beside_the_paper(experiment: &Experiment) -> Plain {
    let row = |compared: Compared| {
        vec![
            format!("{} ({})", compared.figure, compared.source),
            number(compared.published),
            compared.simulated.map_or("-".into(), number),
            if compared.agrees { "agrees" } else { "differs" }.into(),
            compared.why.into(),
        ]
    };
    Plain {
        title: "RAID-DP beside IBM NS3574-0 (2008)".into(),
        head: head(&["figure", "paper", "simulated", "", "why"]),
        rows: comparison(experiment).into_iter().map(row).collect(),
        has_text: true,
        note: vec![],
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 { grouped(value) } else { decimal(value, 2) }
}
