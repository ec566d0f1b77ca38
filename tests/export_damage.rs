//! Exports of damaged databases: no export panics or runs forever, and each reports the data that is lost.

use std::path::Path;
use std::time::{Duration, Instant};

use ese_format::checksum::seal_page;
use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize, TreeId};
use jetcell_export::{
    AdditionalRows, ExportDestination, ExportError, ExportFormat, ExportOptions, ExportSummary, ROW_LIMIT,
    RenderingOptions, Selection, export,
};
use jetcell_vfs::{RealOptions, RealVfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

fn run(path: &Path, format: ExportFormat, output: &Path, force: bool) -> Result<ExportSummary, ExportError> {
    run_with(path, format, output, force, AdditionalRows { deleted: true, ..AdditionalRows::default() })
}

fn run_with(
    path: &Path,
    format: ExportFormat,
    output: &Path,
    force: bool,
    additional: AdditionalRows,
) -> Result<ExportSummary, ExportError> {
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let destination = ExportDestination::Directory(output.to_owned());
    let options = ExportOptions {
        selection: Selection::default(),
        format,
        destination,
        additional,
        force,
        row_limit: ROW_LIMIT,
        rendering: RenderingOptions::default(),
    };
    export(&vfs, path, &options, &mut |_, _| {})
}

fn page(bytes: &mut [u8], size: PageSize, number: u32) -> &mut [u8] {
    let start = (number as usize + 1) * size.bytes();
    &mut bytes[start..start + size.bytes()]
}

#[test]
fn only_the_rows_of_a_damaged_leaf_are_lost_and_the_loss_is_reported() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = corpus.unpack("db/4k/basic.edb", directory.path());
    let output = directory.path().join("out");
    let whole = run(&path, ExportFormat::Csv, &output, false).unwrap();
    assert!(!whole.issues.has_missing(), "{:?}", whole.issues.stored());
    let mut bytes = std::fs::read(&path).unwrap();
    // The root of the first user table is its only leaf.
    page(&mut bytes, PageSize::KIB_4, 31)[300..400].fill(0x5a);
    std::fs::write(&path, &bytes).unwrap();
    let damaged = run(&path, ExportFormat::Csv, &output, true).unwrap();
    assert_eq!(damaged.rows, whole.rows - 2);
    assert!(damaged.issues.has_missing());
    let issue = &damaged.issues.stored()[0];
    assert_eq!((issue.table.as_deref(), issue.page), (Some("basic"), PageNumber::new(31)), "{issue}");
}

#[test]
fn an_export_replaces_files_only_with_force_and_leaves_no_incomplete_file() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = corpus.unpack("db/4k/basic.edb", directory.path());
    for format in [ExportFormat::Csv, ExportFormat::JsonLines, ExportFormat::Parquet, ExportFormat::Sqlite] {
        let output = directory.path().join(format.extension());
        run(&path, format, &output, false).unwrap();
        let again = run(&path, format, &output, false).unwrap_err();
        assert!(again.to_string().contains("--force"), "{again}");
        run(&path, format, &output, true).unwrap();
        for entry in std::fs::read_dir(&output).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().ends_with(".partial"), "{name:?}");
        }
    }
}

/// The links have valid checksums and form a cycle: below a table, below its long values, or from leaf to leaf.
#[test]
fn exports_with_cyclic_links_terminate_and_report_the_cycle() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let (mut tables, mut long_values, mut rings) = (0, 0, 0);
    for file in corpus.databases().filter(|file| file.size < 8 << 20) {
        let path = corpus.unpack(&file.name, directory.path());
        let whole = EditableDatabase::new(std::fs::read(&path).unwrap());
        let space_or_index = PageFlags::SPACE | PageFlags::INDEX;
        let internal = whole.find(|page| {
            !page.is_leaf() && page.tree() > TreeId(3) && !page.flags().intersects(space_or_index)
        });
        for page in internal.into_iter().take(3) {
            let mut patient = whole.clone();
            patient.edit(page, |mut it| it.replace_data(0, &page.get().to_le_bytes()).unwrap());
            std::fs::write(&path, &patient.bytes).unwrap();
            let exported = run(&path, ExportFormat::JsonLines, &output, true).unwrap();
            let long = whole.page(page).flags().contains(PageFlags::LONG_VALUE);
            *(if long { &mut long_values } else { &mut tables }) += 1;
            if !long && whole.page(page).is_root() {
                let told = exported.issues.stored().iter().any(|issue| issue.page == Some(page));
                assert!(told, "{}, page {page}: {:?}", file.name, exported.issues.stored());
            }
            // The parent of the leaves is unreadable, so the export follows the links between leaves, which form a
            // cycle.
            let Some(first) = whole.page(page).node(0).and_then(|node| node.child()) else { continue };
            let view = whole.page(first);
            if let Some(next) = view.next().filter(|_| view.is_leaf()) {
                let mut patient = whole.clone();
                patient.edit(next, |mut leaf| leaf.set_next(Some(first)));
                patient.edit(page, |mut it| it.replace_data(1, &u32::MAX.to_le_bytes()).unwrap());
                std::fs::write(&path, &patient.bytes).unwrap();
                run(&path, ExportFormat::Csv, &output, true).unwrap();
                rings += 1;
            }
        }
        std::fs::remove_dir_all(&output).ok();
    }
    assert!(
        tables > 3 && long_values > 0 && rings > 3,
        "{tables} tables, {long_values} long values, {rings} rings"
    );
}

#[test]
fn exports_from_mutated_files_do_not_panic() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let names =
        ["db/4k/multi.edb", "db/4k/text.edb", "db/8k/decompress_test.edb", "db/16k/qmgr-win11-24h2.db"];
    let until = Instant::now() + Duration::from_secs(20);
    let (mut tried, mut found) = (0u32, 0u32);
    while Instant::now() < until {
        let name = names[tried as usize % names.len()];
        let size = PageSize::new(corpus.file(name).page_size.unwrap()).unwrap();
        let path = corpus.unpack(name, directory.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let pages = u32::try_from(bytes.len() / size.bytes() - 2).unwrap();
        for _ in 0..random.random_range(1..30) {
            let number = random.random_range(1..=pages.min(60));
            let other = page(&mut bytes, size, random.random_range(1..=pages.min(60))).to_vec();
            let page = page(&mut bytes, size, number);
            match random.random_range(0..4) {
                // Copy another page of the file over this page, which creates cycles and pages of other trees.
                0 => page.copy_from_slice(&other),
                // Change links, child numbers, offsets, or lengths.
                1 => {
                    let at = random.random_range(16..size.bytes() - 4);
                    page[at..at + 4].copy_from_slice(&random.random_range(0..pages).to_le_bytes());
                }
                _ => {
                    for _ in 0..random.random_range(1..20) {
                        let at = random.random_range(8..size.bytes());
                        page[at] = random.random();
                    }
                }
            }
            // Usually update the checksum, which lets the reader reach the damaged content.
            if random.random_range(0..10) > 0 {
                seal_page(page, size, PageNumber::fixed(number));
            }
        }
        if random.random_range(0..8) == 0 {
            bytes.truncate(random.random_range(0..bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        let format =
            [ExportFormat::Csv, ExportFormat::JsonLines, ExportFormat::Parquet, ExportFormat::Sqlite]
                [tried as usize / 4 % 4];
        let begun = Instant::now();
        let additional = AdditionalRows { deleted: true, carved: random.random(), damaged: random.random() };
        match run_with(&path, format, &output, true, additional) {
            Ok(exported) => found += u32::from(exported.issues.has_missing()),
            Err(ExportError::Open(_)) => {}
            Err(error) => panic!("{name}, mutant {tried}: {error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}, mutant {tried}");
        tried += 1;
    }
    eprintln!("{tried} mutants, {found} with something missing");
    assert!(tried > 0 && found > 0, "{found} of {tried}");
}
