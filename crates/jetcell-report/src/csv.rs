//! Renders the report as CSV with one value per line. A single file can therefore contain all tables for several runs.

use jetcell_input::printable_lines;
use jetcell_workload::measurement::Sample;
use jetcell_workload::result::RunResult;

use crate::table::ReportTable;
use crate::tables;

/// Returns the reports as CSV with the columns `run,table,row,column,value`.
pub fn csv<'a>(runs: impl IntoIterator<Item = (&'a str, &'a RunResult, &'a [Sample])>) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut add =
        |record: [&str; 5]| writer.write_record(record.map(|field| printable_lines(field).into_owned()));
    // Writing to memory cannot fail, and every record has five fields.
    let _ = add(["run", "table", "row", "column", "value"]);
    for (run, result, samples) in runs {
        let all = tables::all(result, samples);
        for table in std::iter::once(&tables::rules(result)).chain(&all) {
            let ReportTable { title, columns, rows, .. } = table;
            for row in rows {
                let Some((name, values)) = row.split_first() else { continue };
                for (cell, column) in values.iter().zip(columns.iter().skip(1)) {
                    let _ = add([run, title, &name.text(), &column.name, &cell.machine_text()]);
                }
            }
        }
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns one table as CSV with one line per row, for use by programs.
pub fn table_csv(table: &ReportTable) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and every row has the same number of cells as the heading.
    let _ =
        writer.write_record(table.columns.iter().map(|column| printable_lines(&column.name).into_owned()));
    for row in &table.rows {
        let _ =
            writer.write_record(row.iter().map(|cell| printable_lines(&cell.machine_text()).into_owned()));
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};

    #[test]
    fn every_value_is_in_the_csv() {
        let (mut result, samples) = (result(), samples(3));
        result.evidence.machine.host = "a,\"b\"\nc".into();
        let text = csv([("one", &result, samples.as_slice()), ("two", &result, &[])]);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let records: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let find = |key: [&str; 4]| {
            let mut found = records.iter().filter(|record| record.iter().take(4).eq(key));
            let value = found.next().unwrap_or_else(|| panic!("{key:?} is missing"))[4].to_string();
            assert!(found.next().is_none(), "{key:?} is there twice");
            value
        };
        let transactional = "Transactional I/O Performance";
        let instance = "Jetstress001001";
        assert_eq!(find(["one", transactional, instance, "I/O Database Reads/sec"]), "100.500");
        assert_eq!(find(["two", "Test Summary", "Machine Name", "Value"]), "a,\"b\"\nc");
        let sizing = "Database Sizing and Throughput";
        assert_eq!(find(["one", sizing, "Initial Database Size (bytes)", "Value"]), "1073741824");
        assert_eq!(find(["one", "Rules", "Average database read latency", "Outcome"]), "broken");
    }
}
