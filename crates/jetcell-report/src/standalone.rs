//! Writes drawings as standalone files.

use jetcell_input::printable_lines;
use maud::{PreEscaped, html};

const COLOURS: &str = include_str!("colours.css");

/// Returns a drawing as a standalone file, below its caption and in the reports' colours.
pub(crate) fn standalone(drawing: &str, caption: &str, note: &str) -> String {
    const LINE: f64 = 17.0;
    let lines: Vec<(String, bool)> = [(caption, true), (note, false)]
        .into_iter()
        .flat_map(|(text, bold)| {
            let lines = crate::text_table::wrap("", text, 62).to_string();
            lines.lines().map(|line| (line.trim_start().to_string(), bold)).collect::<Vec<_>>()
        })
        .collect();
    let top = lines.len() as f64 * LINE + 12.0;
    // The drawing's size is in its view box: x, y, width, height.
    let height: f64 = drawing
        .split_once("viewBox=\"")
        .and_then(|(_, rest)| rest.split('"').next()?.split(' ').nth(3)?.parse().ok())
        .unwrap_or(244.0);
    let drawing =
        drawing.replacen("<svg ", &format!("<svg y=\"{top}\" width=\"480\" height=\"{height}\" "), 1);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width="960" viewBox=(format!("0 0 480 {}", top + height + 6.0)) font-family="sans-serif" {
            style { (PreEscaped(COLOURS)) "svg { color: light-dark(#222, #ddd); }" }
            rect width="480" height=(top + height + 6.0) style="fill:var(--paper)" {}
            @for (number, (line, bold)) in lines.iter().enumerate() {
                text x="8" y=(number as f64 * LINE + 18.0) font-size="13" font-weight=[bold.then_some("bold")] fill="currentColor" { (line) }
            }
            (PreEscaped(drawing))
        }
    }
    .into_string();
    printable_lines(&svg).into_owned() + "\n"
}
