//! Table that shows how a run's databases are fragmented on their device.

use jetcell_input::Align;
use jetcell_workload::fragmentation::Fragmentation;
use jetcell_workload::result::RunResult;

use crate::number::bytes;
use crate::table::{ReportCell, ReportTable};

/// Returns the table if the file system reports the databases' extents.
pub(super) fn fragmentation(result: &RunResult) -> Option<ReportTable> {
    let columns = [
        "When",
        "Extents",
        "Pieces",
        "Mean distance (bytes)",
        "Split reads of a page (%)",
        "Split reads of the scan (%)",
    ];
    let row = |when: &str, found: &Fragmentation| {
        let share = |at: usize| {
            let reads = found.reads.get(at);
            ReportCell::from(reads.map_or_else(String::new, |reads| format!("{:.2}", reads.share * 100.0)))
        };
        vec![
            found.path.display().to_string().into(),
            when.into(),
            ReportCell::count(found.extents as u64),
            ReportCell::count(found.pieces as u64),
            found.mean_distance_bytes.map_or_else(|| "unknown".into(), |distance| bytes(distance as u64)),
            share(0),
            share(1),
        ]
    };
    let rows =
        result.fragmentation.iter().flat_map(|one| [row("before", &one.before), row("after", &one.after)]);
    let table = ReportTable::numbers("Fragmentation", "Database", columns).rows(rows);
    let table = table.aligned(1..2, Align::Left);
    (!result.fragmentation.is_empty()).then(|| {
        table.note(
            "Before and after the load. A read is split if it needs parts of more than one piece; \
         for details, run jetcell disk fragmentation.",
        )
    })
}

#[cfg(test)]
mod tests {
    use jetcell_workload::fragmentation::{FileExtent, FileMap, FragmentationChange};

    use super::*;
    use crate::example::result;

    #[test]
    fn each_database_has_a_row_before_and_after() {
        let mut result = result();
        assert_eq!(fragmentation(&result), None);
        let found = |pieces: u64| {
            let extent = |at: u64| FileExtent {
                logical: at * 4096,
                physical: Some(at << 20),
                bytes: 4096,
                ..FileExtent::default()
            };
            let map =
                FileMap { path: "a.edb".into(), bytes: 8 * 4096, extents: (0..pieces).map(extent).collect() };
            Fragmentation::from_map(&map, &[32 << 10, 256 << 10])
        };
        result.fragmentation = vec![FragmentationChange { before: found(1), after: found(8) }];
        let table = fragmentation(&result).unwrap();
        let cells: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(ReportCell::line).collect()).collect();
        assert_eq!(cells[0], ["a.edb", "before", "1", "1", "unknown", "0.00", "0.00"]);
        assert_eq!(cells[1][..4], ["a.edb", "after", "8", "8"]);
        assert_eq!(cells[1][5], "100.00");
    }
}
