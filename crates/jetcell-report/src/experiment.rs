//! Renders what fragmentation costs on a drive, for a terminal, as Markdown, and as a page with charts.

use jetcell_input::number::human_bytes;
use jetcell_lab::fragmentation::DefragmentationExperiment;

use crate::filesystems::{comparison, filesystems_text, notes, tables};
use crate::fragmentation::{fragmentation_tables, fragmentation_text};
use crate::markdown::tables_markdown;
use crate::page::ReportPage;
use crate::styled_text::StyledText;
use crate::text_table::wrap;

const QUESTION: &str = "Should a database on this drive be defragmented?";

/// Renders the answer, both files' fragments, and the comparison, with at most `width` characters per line.
pub fn experiment_text(found: &DefragmentationExperiment, width: usize) -> StyledText {
    let mut out = wrap("", &format!("{QUESTION} {}", found.answer), width);
    out.append(wrap("", &describe_pieces(found), width));
    out.append(fragmentation_text(&found.files, &[], width));
    out += "\n";
    out.append(filesystems_text(&found.comparison, width));
    out
}

/// Renders the experiment as Markdown.
pub fn experiment_markdown(found: &DefragmentationExperiment) -> String {
    let tables: Vec<_> =
        fragmentation_tables(&found.files).into_iter().chain(tables(&found.comparison)).collect();
    let first = [format!("{QUESTION} {}", found.answer), describe_pieces(found)];
    let remarks: Vec<String> = first.into_iter().chain(notes(&found.comparison)).collect();
    tables_markdown(&format!("experiment: {}", found.comparison.title), &tables, &remarks)
}

/// Renders the experiment as a page.
pub fn experiment_html(found: &DefragmentationExperiment) -> String {
    let page = ReportPage::new(found.comparison.title)
        .heading(QUESTION)
        .text(&found.answer)
        .text(&describe_pieces(found));
    let page = comparison(page.heading("Measured"), &found.comparison);
    let page = fragmentation_tables(&found.files).iter().fold(page, ReportPage::table);
    page.finish()
}

/// Describes how the two files are fragmented.
fn describe_pieces(found: &DefragmentationExperiment) -> String {
    let counts: Vec<String> = found.files.iter().map(|file| file.pieces.to_string()).collect();
    format!(
        "The scattered file was allocated in pieces of {} in random order. The file system reports {} \
         pieces for the contiguous and the scattered file.",
        human_bytes(found.piece_bytes),
        counts.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use jetcell_lab::fragmentation::{EXPERIMENT_ROWS, FileMap, Fragmentation};
    use std::time::Duration;

    use jetcell_host::machine::DirectoryStorage;
    use jetcell_lab::filesystems::{TestedDirectory, TurnLimits, compare};

    use super::*;

    #[test]
    fn every_format_has_the_answer_fragment_count_and_fragment_size() {
        let limits = TurnLimits { fewest: 3, most: 3, precision_percent: 2.0, longest: Duration::MAX };
        let directories = ["contiguous", "scattered"].map(|name| TestedDirectory {
            name: name.into(),
            directory: name.into(),
            storage: DirectoryStorage { directory: name.into(), mount: None, device: None, array: None },
            file_bytes: 1,
            allocated_bytes: 1,
            made: None,
            remarks: Vec::new(),
        });
        let measure = &mut |at: usize, turn: usize| {
            let figure = 100.0 - 50.0 * at as f64 + turn as f64 * 0.1;
            Ok::<_, ()>(vec![figure; EXPERIMENT_ROWS.len()])
        };
        let rows = ("Fragmentation of a database", &EXPERIMENT_ROWS[..]);
        let comparison = compare(rows, directories.into(), limits, measure, &|| Duration::ZERO).unwrap();
        let file = |path: &str| {
            Fragmentation::from_map(
                &FileMap { path: path.into(), bytes: 0, extents: Vec::new() },
                &[32 << 10],
            )
        };
        let found =
            DefragmentationExperiment::new(64 << 10, vec![file("c<1>.edb"), file("s.edb")], comparison);
        let (text, page) = (experiment_text(&found, usize::MAX).to_string(), experiment_html(&found));
        for form in [&text, &experiment_markdown(&found), &page] {
            for said in [
                "Should a database on this drive be",
                "Yes: the mail load is slower",
                "pieces of 64.00 KiB",
                "Backup",
            ] {
                assert!(form.contains(said), "{said}: {form}");
            }
        }
        assert!(page.contains("c&lt;1&gt;.edb") && !page.contains("http"));
    }
}
