//! Renders how files are fragmented on their device, for a terminal, as Markdown, and as a page.

use jetcell_input::number::{decimal, human_bytes, significant};
use jetcell_lab::drive::ExpectedCost;
use jetcell_lab::fragmentation::Fragmentation;

use crate::markdown::tables_markdown;
use crate::page::tables_html;
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportTable};
use crate::text_table::{table_text, wrap};

/// Renders two tables and remarks with at most `width` characters per line. The remarks mention holes and unwritten
/// ranges in the files, and what the fragmentation is expected to cost. `costs` has one entry per file, or is empty.
pub fn fragmentation_text(files: &[Fragmentation], costs: &[ExpectedCost], width: usize) -> StyledText {
    let mut out = StyledText::new();
    for (number, table) in fragmentation_tables(files).iter().enumerate() {
        if number > 0 {
            out += "\n";
        }
        out.append(table_text(table, width));
    }
    let remarks = fragmentation_remarks(files, costs);
    if !remarks.is_empty() {
        out += "\n";
    }
    remarks.iter().for_each(|line| out.append(wrap("  ", line, width)));
    out
}

/// Renders the fragmentation as Markdown.
pub fn fragmentation_markdown(files: &[Fragmentation], costs: &[ExpectedCost]) -> String {
    tables_markdown(
        "fragmentation of files",
        &fragmentation_tables(files),
        &fragmentation_remarks(files, costs),
    )
}

/// Renders the fragmentation as a page.
pub fn fragmentation_html(files: &[Fragmentation], costs: &[ExpectedCost]) -> String {
    tables_html("Fragmentation of files", &fragmentation_tables(files), &fragmentation_remarks(files, costs))
}

/// Returns tables with the files' extents and the distances between them.
pub(crate) fn fragmentation_tables(files: &[Fragmentation]) -> [ReportTable; 2] {
    [extents(files), reads(files)]
}

fn fragmentation_remarks(files: &[Fragmentation], costs: &[ExpectedCost]) -> Vec<String> {
    files.iter().flat_map(remarks).chain(expected(files, costs)).collect()
}

/// Describes what the fragmentation is expected to cost on a drive, one line per file.
fn expected(files: &[Fragmentation], costs: &[ExpectedCost]) -> Vec<String> {
    let line = |(file, cost): (&Fragmentation, &ExpectedCost)| {
        let slower = match cost.contiguous_scan_seconds {
            0.0 => 0.0,
            seconds => (cost.scan_seconds / seconds - 1.0) * 100.0,
        };
        format!(
            "{} on {}: based on the measured seek times of the drive, a full scan takes {} s instead of {} \
             s ({} % more); a read of {} takes {} ms longer on average",
            file.path.display(),
            cost.drive,
            decimal(cost.scan_seconds, 1),
            decimal(cost.contiguous_scan_seconds, 1),
            decimal(slower, 1),
            human_bytes(cost.read_bytes),
            decimal(cost.read_ms, 3)
        )
    };
    files.iter().zip(costs).map(line).collect()
}

fn name(file: &Fragmentation) -> ReportCell {
    file.path.display().to_string().into()
}

fn extents(files: &[Fragmentation]) -> ReportTable {
    let columns = ["Size", "Extents", "Pieces", "Smallest", "Mean", "Largest"];
    let row = |file: &Fragmentation| {
        let sizes = [file.smallest_extent_bytes, file.mean_extent_bytes as u64, file.largest_extent_bytes];
        let [smallest, mean, largest] = sizes.map(|bytes| ReportCell::from(human_bytes(bytes)));
        let counts = [file.extents, file.pieces].map(|count| ReportCell::from(count.to_string()));
        let [extents, pieces] = counts;
        vec![name(file), human_bytes(file.bytes).into(), extents, pieces, smallest, mean, largest]
    };
    ReportTable::numbers("Extents", "File", columns).rows(files.iter().map(row))
}

fn reads(files: &[Fragmentation]) -> ReportTable {
    let sizes: Vec<u64> = files
        .first()
        .map(|file| file.reads.iter().map(|reads| reads.read_bytes).collect())
        .unwrap_or_default();
    let crossing: Vec<String> =
        sizes.iter().map(|size| format!("Split reads of {}", human_bytes(*size))).collect();
    let columns =
        ["Mean distance", "Largest", "Backward"].into_iter().chain(crossing.iter().map(String::as_str));
    let row = |file: &Fragmentation| {
        let distance =
            |bytes: Option<u64>| ReportCell::from(bytes.map_or_else(|| "unknown".into(), human_bytes));
        let mut cells = vec![
            name(file),
            distance(file.mean_distance_bytes.map(|bytes| bytes as u64)),
            distance(file.largest_distance_bytes),
            file.backward.to_string().into(),
        ];
        cells.extend(file.reads.iter().map(|reads| {
            ReportCell::from(format!(
                "{} of {} ({} %)",
                reads.crossing,
                reads.reads,
                significant(reads.share * 100.0)
            ))
        }));
        cells
    };
    ReportTable::numbers("Distances", "File", columns).rows(files.iter().map(row))
}

fn remarks(file: &Fragmentation) -> Vec<String> {
    let parts = [
        (file.hole_bytes, "are holes: reads of them do not reach the device"),
        (file.unwritten_bytes, "are allocated and were never written: reads of them do not reach the device"),
        (file.shared_bytes, "are shared with other files: the next write relocates them"),
        (file.unplaced_bytes, "have a location that the file system does not report"),
    ];
    let said = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
    said.map(|(bytes, what)| format!("{}: {} {what}", file.path.display(), human_bytes(bytes))).collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use jetcell_lab::fragmentation::{FileExtent, FileMap};

    use super::*;

    #[test]
    fn every_file_has_remarks_and_a_row_in_both_tables() {
        let extent = |logical, physical| FileExtent {
            logical,
            physical: Some(physical),
            bytes: 48 << 10,
            ..FileExtent::default()
        };
        let map = FileMap {
            path: "a\x1b.edb".into(),
            bytes: 128 << 10,
            extents: vec![extent(0, 1 << 30), extent(48 << 10, 1 << 20)],
        };
        let files = [Fragmentation::from_map(&map, &[32 << 10, 256 << 10])];
        let text = fragmentation_text(&files, &[], usize::MAX).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            rows.iter().any(|row| row[..]
                == [
                    "a\\u{1b}.edb",
                    "128.00",
                    "KiB",
                    "2",
                    "2",
                    "48.00",
                    "KiB",
                    "48.00",
                    "KiB",
                    "48.00",
                    "KiB"
                ]),
            "{text}"
        );
        let words = "a\\u{1b}.edb 1023.05 MiB 1023.05 MiB 1 1 of 4 (25 %) 1 of 1 (100 %)";
        assert!(rows.contains(&words.split(' ').collect()), "{text}");
        assert!(text.ends_with("32.00 KiB are holes: reads of them do not reach the device\n"), "{text}");
        let cost = ExpectedCost {
            drive: "<disk>".into(),
            contiguous_scan_seconds: 1.0,
            scan_seconds: 1.25,
            read_bytes: 32 << 10,
            read_ms: 0.5,
        };
        let (page, markdown) =
            (fragmentation_html(&files, from_ref(&cost)), fragmentation_markdown(&files, from_ref(&cost)));
        assert!(
            markdown.contains("on \\<disk>: based on the measured seek times")
                && markdown.contains("## Distances")
        );
        assert!(
            page.contains("&lt;disk&gt;") && page.contains("1.3 s instead of 1.0 s (25.0 % more)"),
            "{page}"
        );
        assert!(!page.contains('\x1b') && !page.contains("http"));
    }

    #[test]
    fn files_without_extents_have_unknown_distances() {
        let map = FileMap { path: "a.edb".into(), bytes: 0, extents: Vec::new() };
        let files = [Fragmentation::from_map(&map, &[4096])];
        assert!(fragmentation_text(&files, &[], usize::MAX).to_string().contains("unknown"));
    }
}
