//! Terminal view for the `--live` option: draws a [`MonitorState`] in a terminal of any size. If space is limited,
//! progress and figures have priority, then the charts in order, then the log.

use std::time::Duration;

use jetcell_input::columns;
use jetcell_input::time::format_duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Wrap};

use super::monitor::HISTORY_DURATION;
use super::progress::describe_rates;
use super::{MonitorState, RunIoRates};

/// Number of test log lines below the charts.
const LOG_ROWS: u16 = 4;

/// Minimum height of a chart in rows: frame, axis, labels and a line.
const CHART_ROWS: u16 = 5;

/// Maximum number of rows for the figures.
const FIGURE_ROWS: u16 = 3;

/// One line of a chart.
struct ChartLine {
    name: &'static str,
    color: Color,
    value: fn(&RunIoRates) -> f64,
}

/// A chart with a long and a short title.
struct LiveChart {
    title: &'static str,
    short_title: &'static str,
    series: &'static [ChartLine],
    height_share: u16,
}

const CHARTS: [LiveChart; 3] = [
    LiveChart { title: "I/O per second", short_title: "I/O/s", series: &IO_LINES, height_share: 3 },
    LiveChart {
        title: "Latency in ms, one-second means",
        short_title: "ms",
        series: &LATENCY_LINES,
        height_share: 3,
    },
    LiveChart { title: "Cache in percent", short_title: "Cache %", series: &CACHE_LINES, height_share: 2 },
];

const IO_LINES: [ChartLine; 3] = [
    ChartLine { name: "reads", color: Color::Cyan, value: |rates| rates.reads },
    ChartLine { name: "writes", color: Color::Yellow, value: |rates| rates.writes },
    ChartLine { name: "log writes", color: Color::Magenta, value: |rates| rates.log_writes },
];

const LATENCY_LINES: [ChartLine; 3] = [
    ChartLine { name: "read", color: Color::Cyan, value: |rates| rates.read_ms },
    ChartLine { name: "write", color: Color::Yellow, value: |rates| rates.write_ms },
    ChartLine { name: "log write", color: Color::Magenta, value: |rates| rates.log_write_ms },
];

const CACHE_LINES: [ChartLine; 1] =
    [ChartLine { name: "in use", color: Color::Green, value: |rates| rates.cache_percent }];

/// Draws the whole view.
pub fn draw(frame: &mut Frame<'_>, state: &MonitorState) {
    let area = frame.area();
    let rates = state.rates().map(describe_rates).unwrap_or_default();
    let figures = format!("{rates}  {}", state.note);
    let figure_rows = wrapped_rows(figures.trim(), area.width).clamp(1, FIGURE_ROWS);
    let left = area.height.saturating_sub(2 + figure_rows);
    let charts = (left / CHART_ROWS).min(CHARTS.len() as u16);
    let log_rows = if left - charts * CHART_ROWS >= LOG_ROWS { LOG_ROWS } else { 0 };
    let [progress, numbers, pictures, log, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(figure_rows),
        Constraint::Fill(1),
        Constraint::Length(log_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_progress(frame, progress, state);
    frame.render_widget(Paragraph::new(figures.trim()).wrap(Wrap { trim: true }), numbers);
    let shown = CHARTS.iter().take(charts.into());
    let places =
        Layout::vertical(shown.clone().map(|one| Constraint::Fill(one.height_share))).split(pictures);
    shown.zip(places.iter()).for_each(|(one, place)| draw_chart(frame, *place, one, state));
    let lines: Vec<Line<'_>> =
        state.log.iter().rev().take(log_rows.into()).rev().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).dim(), log);
    let help = if state.is_stopping {
        "stopping; press again to stop now"
    } else {
        "q or Ctrl-C stops cleanly and reports"
    };
    frame.render_widget(Line::from(help).reversed(), keys);
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, state: &MonitorState) {
    let title = state.phase.map_or("Preparing", |phase| phase.title());
    if !state.has_total() {
        let text = format!("{title}: {} so far", format_duration(state.began.elapsed()));
        return frame.render_widget(Line::from(text).bold(), area);
    }
    let left = state.remaining().map_or(String::new(), |left| format!(", {} left", format_duration(left)));
    let label = format!("{title}: {:.0} %{left}", state.fraction() * 100.0);
    let gauge =
        Gauge::default().ratio(state.fraction()).label(label).gauge_style(Style::new().fg(Color::Blue));
    frame.render_widget(gauge, area);
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, picture: &LiveChart, state: &MonitorState) {
    let series = picture.series;
    let now = state.history.back().map_or(0.0, |(at, _)| *at);
    let points: Vec<Vec<(f64, f64)>> = series
        .iter()
        .map(|one| {
            let point = |(at, rates): &(f64, RunIoRates)| (at - now, (one.value)(rates));
            state.history.iter().map(point).collect()
        })
        .collect();
    let highest = points.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max);
    let top = round_up_scale(highest);
    let datasets = series.iter().zip(&points).map(|(one, points)| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(one.color))
            .data(points)
    });
    // The time span shown grows until the charts cover the whole history.
    let oldest = points.first().and_then(|points| points.first()).map_or(0.0, |(x, _)| -x);
    let span = HISTORY_DURATION.as_secs_f64().min(oldest.max(60.0));
    let ago = format!("{} ago", format_duration(Duration::from_secs_f64(span)));
    // A legend inside the chart would cover lines.
    let legend = |title: &'static str| {
        let name = |(one, before): (&ChartLine, &'static str)| {
            [Span::raw(before), Span::styled(one.name, Style::new().fg(one.color))]
        };
        let names = series.iter().zip([": ", ", ", ", "]).flat_map(name);
        Line::from_iter(std::iter::once(Span::raw(title)).chain(names))
    };
    let long = legend(picture.title);
    let title = if long.width() + 2 <= area.width.into() { long } else { legend(picture.short_title) };
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(title))
        .x_axis(Axis::default().bounds([-span, 0.0]).labels([ago, "now".into()]))
        .y_axis(Axis::default().bounds([0.0, top]).labels(["0".to_string(), short_number(top)]));
    frame.render_widget(chart, area);
}

/// Returns the number of rows that a string needs when it is wrapped between words.
fn wrapped_rows(text: &str, width: u16) -> u16 {
    let (mut rows, mut used) = (1, 0);
    for length in text.split_whitespace().map(columns) {
        if used > 0 && used + 1 + length > width.into() {
            (rows, used) = (rows + 1, length);
        } else {
            used += length + usize::from(used > 0);
        }
    }
    rows
}

/// Rounds up to 1, 2, 5, 10, 20, 50 and so on, so that the scale does not change with every point.
fn round_up_scale(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|top| *top >= value).unwrap_or(value)
}

fn short_number(value: f64) -> String {
    if value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use jetcell_workload::{Observer, RunPhase};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live::monitor_observer::tests::measuring;
    use crate::live::{MonitorObserver, RunMonitor};

    fn render(state: &MonitorState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_has_progress_figures_charts_and_log() {
        let mut state = measuring(20).state();
        let text = render(&state, 100, 40);
        for part in [
            "Measuring: 33 %, 40s left",
            "40 IOPS, read 2.00 ms, write 4.00 ms, log write 0.50 ms, 50 operations/s",
            "I/O per second",
            "I/O per second: reads, writes, log writes",
            "Latency in ms, one-second means: read, write, log write",
            "log write",
            "in use",
            "1m00s ago",
            "now",
            "q or Ctrl-C stops cleanly and reports",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let drawn = |text: &str| text.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
        assert!(drawn(&text) > 50, "no line is drawn\n{text}");
        state.is_stopping = true;
        assert!(render(&state, 100, 40).contains("stopping; press again to stop now"));
        state.history.clear();
        assert_eq!(drawn(&render(&state, 100, 40)), 0);
    }

    #[test]
    fn a_small_terminal_shows_the_most_important_parts() {
        let monitor = measuring(20);
        let text = render(&monitor.state(), 40, 10);
        for part in [
            "Measuring: 33 %, 40s left",
            "40 IOPS, read 2.00 ms, write 4.00 ms,",
            "log write 0.50 ms, 50 operations/s",
            "I/O/s: reads, writes, log writes",
            "now",
            "q or Ctrl-C stops cleanly and reports",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("Cache") && !text.contains("ms: read"), "no room\n{text}");
        let mut state = monitor.state();
        state.is_stopping = true;
        assert!(render(&state, 40, 10).contains("stopping; press again to stop now"));
        // As rows are added, the other charts appear one by one, each complete, and then the log.
        let frames = |height| render(&monitor.state(), 80, height).matches('┌').count();
        assert_eq!([3, 7, 8, 13, 18, 24].map(frames), [0, 0, 1, 2, 3, 3]);
        let log = |height| render(&monitor.state(), 80, height).matches("Measuring").count() == 2;
        assert_eq!([7, 8, 18, 21, 22, 24].map(log), [true, false, false, false, true, true]);
    }

    #[test]
    fn any_state_fits_any_size() {
        let monitor = RunMonitor::default();
        let empty = monitor.state();
        let mut watcher = MonitorObserver::new(monitor.clone(), None);
        watcher.begin_phase(RunPhase::Shutdown, 1);
        watcher.log("a line that is much longer than the terminal is wide");
        for state in [empty, monitor.state(), measuring(400).state()] {
            for (width, height) in [(1, 1), (2, 3), (10, 7), (20, 10), (80, 24), (300, 100)] {
                render(&state, width, height);
            }
        }
        let text = render(&monitor.state(), 80, 24);
        assert!(text.contains("Shutting down: ") && text.contains("s so far"), "{text}");
    }

    #[test]
    fn axis_scales_are_round_numbers() {
        for (value, top) in
            [(0.0, 1.0), (f64::NAN, 1.0), (0.03, 0.05), (1.0, 1.0), (9851.0, 10_000.0), (20.1, 50.0)]
        {
            assert!((round_up_scale(value) - top).abs() < 1e-9, "{value} {}", round_up_scale(value));
        }
    }
}
