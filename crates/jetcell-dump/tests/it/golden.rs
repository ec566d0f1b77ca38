//! Tests of the exact text output.

use jetcell_dump::{DumpOutput, DumpSource, LogDumpOptions, LogFilter, Result, SchemaOptions, TreeSelector};

use crate::common::{corpus_file, text};

fn same(name: &str, file: &str, with: impl FnOnce(&DumpSource, &mut DumpOutput<'_>) -> Result<()>) {
    let Some(bytes) = corpus_file(file) else { return };
    let found = text(&bytes, with);
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    testkit::golden::compare(&path, &found);
}

#[test]
fn header_of_a_dirty_database() {
    same("header", "db/4k/ual-hyperv-Current.mdb", jetcell_dump::dump_header);
}

#[test]
fn checkpoint() {
    same("checkpoint", "logsets/srum-win11-dirty/SRU.chk", jetcell_dump::dump_checkpoint);
}

#[test]
fn flush_map() {
    same("flushmap", "logsets/srum-server2022/b/SRUDB.jfm", jetcell_dump::dump_flush_map);
}

#[test]
fn lines_of_pages() {
    same("pages", "db/4k/basic.edb", |source, output| jetcell_dump::dump_pages(source, &[], output));
}

#[test]
fn pages_with_their_nodes() {
    same("nodes", "db/4k/text.edb", |source, output| {
        jetcell_dump::dump_pages(source, &[4..=7, 31..=36], output)
    });
}

#[test]
fn tree() {
    let choice = TreeSelector::Table("MSysObjects".to_owned());
    same("tree", "db/4k/filehistory-Catalog1.edb", |source, output| {
        jetcell_dump::dump_tree(source, &choice, false, output)
    });
}

#[test]
fn schema() {
    let options = SchemaOptions { tables: vec!["index".to_owned()], rows: false };
    same("schema", "db/4k/index.edb", |source, output| jetcell_dump::dump_schema(source, &options, output));
}

#[test]
fn space() {
    same("space", "db/32k/Windows-search.edb", |source, output| {
        jetcell_dump::dump_space(source, Default::default(), &mut |_, _| {}, output)
    });
}

#[test]
fn log_records() {
    let filter = LogFilter { pages: vec![13..=13], ..LogFilter::default() };
    let options = LogDumpOptions { filter, stats: false };
    same("log", "logsets/srum-server2022/a/SRU00001.log", |source, output| {
        jetcell_dump::dump_log(source, &options, output)
    });
}

#[test]
fn log_statistics() {
    let options = LogDumpOptions { stats: true, ..LogDumpOptions::default() };
    same("stats", "logsets/srum-server2022/a/SRU00001.log", |source, output| {
        jetcell_dump::dump_log(source, &options, output)
    });
}
