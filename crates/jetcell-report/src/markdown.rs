//! Renders the report as GitHub-flavored Markdown.

use std::fmt::Write;

use jetcell_workload::measurement::Sample;
use jetcell_workload::result::RunResult;

use crate::advice::advice;
use crate::table::{ReportCell, ReportTable};
use crate::tables;
use jetcell_input::{printable, printable_lines};

/// Renders the whole report.
pub fn markdown(result: &RunResult, samples: &[Sample]) -> String {
    let mut out =
        format!("# Jetcell {} test: {}\n\n", result.test.name(), tables::verdict_word(result.verdict));
    out += &escaped(&result.reason);
    out += "\n\n";
    tables::test_description(result).iter().for_each(|line| out += &format!("- {}\n", escaped(line)));
    out.push('\n');
    let headline = tables::headline(result);
    if !headline.rows.is_empty() {
        out += &table(&headline);
    }
    out += &table(&tables::rules(result));
    let advice = advice(result, samples);
    if !advice.is_empty() {
        out += "## What to look at\n\n";
        advice.iter().for_each(|line| out += &format!("- {}\n", escaped(line)));
        out.push('\n');
    }
    tables::all(result, samples).iter().for_each(|one| out += &table(one));
    out += "## Configuration\n\nThis file, given with `--config`, repeats the run.\n\n";
    indented(&result.repeatable_profile().to_toml(), &mut out);
    out += "\nThis command also repeats the run.\n\n";
    indented(&result.repeatable_profile().to_command_line(), &mut out);
    out
}

/// Renders tables and remarks under a heading, as GitHub-flavored Markdown.
pub fn tables_markdown(title: &str, tables: &[ReportTable], remarks: &[String]) -> String {
    let mut out = format!("# Jetcell {}\n\n", escaped(title));
    tables.iter().for_each(|one| out += &table(one));
    remarks.iter().for_each(|line| out += &format!("- {}\n", escaped(line)));
    out
}

/// Renders a code block. It is indented instead of fenced, because content could close a fenced block.
fn indented(code: &str, out: &mut String) {
    for line in code.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "    {}", printable(line));
    }
}

/// Renders a table with its heading and notes.
pub(crate) fn table(table: &ReportTable) -> String {
    table_below(2, table)
}

/// Renders a table below a heading of the given level.
pub(crate) fn table_below(level: usize, table: &ReportTable) -> String {
    let mut out = format!("{} {}\n\n", "#".repeat(level), escaped(&table.title));
    if !table.rows.is_empty() {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            cells.fold("|".to_string(), |line, cell| format!("{line} {cell} |")) + "\n"
        };
        out += &line(&mut table.columns.iter().map(|column| escaped(&column.name)));
        out += &line(
            &mut table.columns.iter().map(|column| if column.is_number() { "---:" } else { "---" }.into()),
        );
        for row in &table.rows {
            out += &line(&mut row.iter().map(|cell: &ReportCell| escaped(&cell.line())));
        }
        out.push('\n');
    }
    table.notes.iter().for_each(|note| out += &format!("{}\n\n", escaped(note)));
    out
}

/// Escapes text for Markdown and HTML, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable_lines(&text.replace(['\n', '\r'], " ")).chars() {
        match c {
            '\\' | '|' | '`' | '*' | '_' | '<' | '[' | ']' => out.extend(['\\', c]),
            '&' => out += "&amp;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};

    #[test]
    fn every_table_is_complete() {
        let (result, samples) = (result(), samples(3));
        let text = markdown(&result, &samples);
        assert!(text.starts_with("# Jetcell performance test: FAIL\n"), "{text}");
        for one in tables::all(&result, &samples) {
            assert!(text.contains(&format!("## {}\n", one.title)), "{}", one.title);
        }
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| Jetstress001001")).collect();
        assert_eq!(rows.iter().map(|row| row.matches('|').count()).collect::<Vec<_>>(), [3, 14, 14]);
        assert!(text.contains("    threads = 4\n"), "{text}");
    }

    #[test]
    fn external_text_is_escaped_in_markdown() {
        assert_eq!(escaped("a|b\n<i>*&[x](y)"), r"a\|b \<i>\*&amp;\[x\](y)");
    }
}
