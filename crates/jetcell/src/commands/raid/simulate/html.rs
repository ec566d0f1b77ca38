//! The page of an experiment: its tables, and charts of the run in which a drive fails.

use jetcell_disk_simulation::Experiment;
use jetcell_disk_simulation::experiment::{LayoutFigures, TimelineSecond};

use super::tables;

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:.5rem 0 1rem}th,td{border-bottom:1px solid #ddd;padding:.25rem .6rem;text-align:right}\
th:first-child,td:first-child,.text td,.text th{text-align:left}p{color:#555}svg{max-width:100%;height:auto}";
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 55.0;

pub fn page(experiment: &Experiment) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Simulated arrays</title><style>{STYLE}</style></head>\n\
         <body><h1>Simulated arrays</h1><p>{}</p>\n",
        escaped(&tables::title(experiment))
    );
    for table in tables::all(experiment) {
        let cells = |row: &[String], tag: &str| {
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect::<String>()
        };
        let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row, "td"))).collect();
        let class = if table.has_text { " class=\"text\"" } else { "" };
        page += &format!(
            "<h2>{}</h2>\n<table{class}><tr>{}</tr>\n{rows}</table>\n",
            escaped(&table.title),
            cells(&table.head, "th")
        );
        page += &table.note.iter().map(|line| format!("<p>{}</p>\n", escaped(line))).collect::<String>();
    }
    page += "<h2>Before, during and after the loss of a drive</h2>\n<p>A drive fails after a third of the time; its rebuild begins after two \
             thirds.</p>\n";
    for layout in &experiment.layouts {
        page += &charts(layout);
    }
    page + "</body></html>\n"
}

fn charts(layout: &LayoutFigures) -> String {
    type Value = fn(&TimelineSecond) -> Option<f64>;
    let all: [(&str, Value); 3] = [
        ("read latency, ms", |second| second.read_ms),
        ("disk writes for each host write", |second| {
            (second.host_writes > 0).then(|| second.disk_writes as f64 / second.host_writes as f64)
        }),
        ("rebuild, MB/s", |second| Some(second.rebuilt_mb)),
    ];
    let chart = |(name, value): (&str, Value)| {
        let points: Vec<Option<f64>> = layout.timeline.iter().map(value).collect();
        format!("<h4>{}</h4>\n{}\n", escaped(name), chart(&points))
    };
    format!("<h3>{}</h3>\n{}", escaped(&layout.name), all.map(chart).concat())
}

/// A line over the seconds, with the highest value and the times of the failure and of the rebuild.
fn chart(points: &[Option<f64>]) -> String {
    let highest = points.iter().flatten().copied().fold(0.0, f64::max).max(1e-9);
    let count = points.len().max(2) as f64 - 1.0;
    let x = |second: f64| LEFT + second / count * (WIDTH - LEFT - 10.0);
    let y = |value: f64| HEIGHT - 20.0 - value / highest * (HEIGHT - 40.0);
    let point = |(second, value): (usize, &Option<f64>)| {
        value.map(|value| format!("{:.1},{:.1}", x(second as f64), y(value)))
    };
    let line: Vec<String> = points.iter().enumerate().filter_map(point).collect();
    let mark = |share: f64, name: &str| {
        let at = x(share * count);
        format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"10\" y2=\"{:.0}\" stroke=\"#c33\" stroke-dasharray=\"4\"/>\
             <text x=\"{:.1}\" y=\"18\" font-size=\"11\">{name}</text>",
            HEIGHT - 20.0,
            at + 4.0
        )
    };
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" role=\"img\">\
         <line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{base:.1}\" y2=\"{base:.1}\" stroke=\"#999\"/>\
         <text x=\"2\" y=\"{top:.1}\" font-size=\"11\">{highest:.2}</text><text x=\"2\" y=\"{base:.1}\" font-size=\"11\">0</text>\
         <text x=\"{right:.1}\" y=\"{bottom:.1}\" font-size=\"11\" text-anchor=\"end\">{count:.0} s</text>{failed}{rebuilt}\
         <polyline fill=\"none\" stroke=\"#26a\" stroke-width=\"1.5\" points=\"{line}\"/></svg>",
        base = y(0.0),
        top = y(highest) + 4.0,
        right = WIDTH - 10.0,
        bottom = HEIGHT - 5.0,
        failed = mark(1.0 / 3.0, "a drive fails"),
        rebuilt = mark(2.0 / 3.0, "rebuild begins"),
        line = line.join(" "),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
