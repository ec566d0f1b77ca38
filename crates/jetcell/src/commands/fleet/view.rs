//! Terminal view for a coordinator's `--live` option: one line for each host, for terminals of any size.

use jetcell_fleet::HostActivity;
use jetcell_input::time::format_duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::monitor::{FleetState, HostState};

/// Number of event lines below the hosts.
const EVENT_ROWS: u16 = 4;
/// Minimum number of host lines required to show events.
const HOST_ROWS: u16 = 6;
/// Seconds without a message after which a host is shown as silent.
const MAX_SILENCE_SECONDS: f64 = 3.0;

const COLUMNS: [(&str, Constraint); 8] = [
    ("rank", Constraint::Length(6)),
    ("host", Constraint::Fill(1)),
    ("does", Constraint::Length(22)),
    ("done", Constraint::Length(5)),
    ("IOPS", Constraint::Length(9)),
    ("MB/s", Constraint::Length(9)),
    ("read ms", Constraint::Length(9)),
    ("log write ms", Constraint::Length(12)),
];

/// Draws the whole view.
pub fn draw(frame: &mut Frame<'_>, state: &FleetState, is_stopping: bool) {
    let area = frame.area();
    let news_rows = if area.height >= 3 + HOST_ROWS + EVENT_ROWS { EVENT_ROWS } else { 0 };
    let [title, totals, hosts, news, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(news_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    let text = format!("{}, {} so far", state.title, format_duration(state.since));
    frame.render_widget(Line::from(text).bold(), title);
    let (with_figures, iops, bytes) = state.totals();
    let joined = format!("{} of {} hosts", state.hosts.len(), state.expected);
    let text = match with_figures {
        0 => joined,
        count => format!("{joined}; {iops:.0} IOPS, {:.1} MB/s on {count} of them", bytes / 1e6),
    };
    frame.render_widget(Line::from(text), totals);
    draw_hosts(frame, hosts, state);
    let lines: Vec<Line<'_>> = state
        .event_lines
        .iter()
        .rev()
        .take(news_rows.into())
        .rev()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    frame.render_widget(Paragraph::new(lines).dim(), news);
    let help = if is_stopping {
        "stopping; press again to stop now"
    } else {
        "q or Ctrl-C stops all hosts cleanly and reports"
    };
    frame.render_widget(Line::from(help).reversed(), keys);
}

/// Draws as many hosts as fit, those that need attention first.
fn draw_hosts(frame: &mut Frame<'_>, area: Rect, state: &FleetState) {
    let room = usize::from(area.height.saturating_sub(1));
    let mut hosts: Vec<&HostState> = state.hosts.iter().collect();
    if hosts.len() > room {
        hosts.sort_by(|one, other| {
            attention_rank(other).total_cmp(&attention_rank(one)).then(one.rank.cmp(&other.rank))
        });
        hosts.truncate(room);
        hosts.sort_by_key(|host| host.rank);
    }
    let header = Row::new(COLUMNS.map(|(title, _)| title)).bold();
    let widths = COLUMNS.map(|(_, width)| width);
    frame.render_widget(Table::new(hosts.into_iter().map(row), widths).header(header), area);
}

/// Returns the rank by need for attention: lost hosts, then silent hosts, then hosts with slow reads.
fn attention_rank(host: &HostState) -> f64 {
    match (host.activity, host.silence.as_secs_f64()) {
        (HostActivity::Lost, _) => f64::INFINITY,
        (_, silence) if silence >= MAX_SILENCE_SECONDS => 1e6 + silence,
        _ => host.live.map_or(0.0, |live| live.read_ms),
    }
}

fn row(host: &HostState) -> Row<'_> {
    let silence = host.silence.as_secs_f64();
    let is_silent =
        silence >= MAX_SILENCE_SECONDS && !matches!(host.activity, HostActivity::Lost | HostActivity::Ended);
    let does = if is_silent { format!("silent for {silence:.0} s") } else { host.activity.to_string() };
    let figure = |value: fn(&jetcell_fleet::message::LiveMetrics) -> f64, digits: usize| {
        Cell::new(host.live.as_ref().map_or(String::new(), |live| format!("{:.digits$}", value(live))))
    };
    let style = match (host.activity, is_silent) {
        (HostActivity::Lost, _) => Style::new().fg(Color::Red),
        (_, true) => Style::new().fg(Color::Yellow),
        (_, false) => Style::new(),
    };
    Row::new([
        Cell::new(host.rank.to_string()),
        Cell::new(host.name.as_str()),
        Cell::new(does),
        Cell::new(format!("{:.0} %", host.fraction * 100.0)),
        figure(|live| live.iops, 0),
        figure(|live| live.bytes_per_second / 1e6, 1),
        figure(|live| live.read_ms, 2),
        figure(|live| live.log_write_ms, 2),
    ])
    .style(style)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_fleet::message::LiveMetrics;
    use jetcell_workload::RunPhase;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn host(rank: u32, read_ms: f64) -> HostState {
        let live = LiveMetrics { iops: 100.0, bytes_per_second: 3.2e6, read_ms, log_write_ms: 0.25 };
        HostState {
            rank,
            name: format!("db{rank}"),
            activity: HostActivity::Running(RunPhase::Measure),
            fraction: 0.5,
            live: Some(live),
            silence: Duration::ZERO,
        }
    }

    fn fleet(hosts: u32) -> FleetState {
        FleetState {
            title: "Measuring",
            since: Duration::from_secs(75),
            expected: hosts,
            hosts: (0..hosts).map(|rank| host(rank, 1.0)).collect(),
            event_lines: ["db1 joined, 2 of 3".to_string()].into(),
        }
    }

    fn render(state: &FleetState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, false)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_each_host_totals_and_events() {
        let mut state = fleet(3);
        state.hosts[2].activity = HostActivity::Lost;
        state.hosts[2].live = None;
        state.hosts[1].silence = Duration::from_secs(9);
        let text = render(&state, 100, 20);
        for part in [
            "Measuring, 1m15s so far",
            "3 of 3 hosts; 200 IOPS, 6.4 MB/s on 2 of them",
            "db0",
            "50 %",
            "silent for 9 s",
            "lost",
            "db1 joined, 2 of 3",
            "q or Ctrl-C stops all hosts",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn hosts_needing_attention_are_shown_when_space_is_short() {
        let mut state = fleet(50);
        state.hosts[31].live.as_mut().unwrap().read_ms = 40.0;
        state.hosts[44].activity = HostActivity::Lost;
        let text = render(&state, 90, 8);
        assert!(text.contains("db31") && text.contains("db44") && !text.contains("db30"), "{text}");
        for (width, height) in [(1, 1), (10, 3), (300, 100)] {
            render(&state, width, height);
        }
    }
}
