//! Mutations of whole files, and the readers that process them: check, export, dump.
//!
//! The mutations change the structure: headers, tags, links, child numbers, log records. Most mutations update the
//! checksum. Otherwise the reader would stop at the checksum and not process the changed content.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_check::{CheckOptions, EseFileKind, check_files};
use ese_format::checksum::{SEGMENT_LEN, header_checksum, seal_page, seal_segment};
use ese_format::{PageNumber, PageSize};
use jetcell_dump::{DumpOutput, DumpSource, LogDumpOptions, SchemaOptions, TreeSelector};
use jetcell_export::{
    AdditionalRows, ExportDestination, ExportOptions, ROW_LIMIT, RenderingOptions, Selection,
};
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Reader that a case runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuzzedReader {
    /// Both levels of `ese-check`.
    Check,
    /// `export`, with every format.
    Export,
    /// All kinds of dumps.
    Dump,
}

impl FuzzedReader {
    /// All readers, with their names on the command line.
    pub const ALL: [(&'static str, FuzzedReader); 3] =
        [("check", FuzzedReader::Check), ("export", FuzzedReader::Export), ("dump", FuzzedReader::Dump)];

    /// Reads the file. Any result is accepted, but the reader must return.
    pub fn read(self, vfs: &RealVfs, path: &Path, output: &Path, random: &mut ChaCha8Rng) {
        match self {
            FuzzedReader::Check => {
                let mut files = 0;
                check_files(vfs, &[path.to_owned()], &CheckOptions::default(), &mut |_| files += 1);
                assert_eq!(files, 1, "one report for one file");
            }
            FuzzedReader::Export => export(vfs, path, output, random),
            FuzzedReader::Dump => dump(vfs, path),
        }
    }
}

/// Returns the file system that the commands use.
pub fn real_files() -> Arc<RealVfs> {
    let options = RealOptions { direct: false, ..RealOptions::default() };
    Arc::new(RealVfs::new(options).expect("the threads of the file system start"))
}

fn export(vfs: &RealVfs, path: &Path, output: &Path, random: &mut ChaCha8Rng) {
    use jetcell_export::ExportFormat::{Csv, JsonLines, Parquet, Sqlite};
    let format = [Csv, JsonLines, Parquet, Sqlite][random.random_range(0..4)];
    let destination = ExportDestination::Directory(output.to_owned());
    // With a small limit, some values are exported to separate files.
    let row_limit = if random.random() { ROW_LIMIT } else { random.random_range(0..20_000) };
    let options = ExportOptions {
        selection: Selection::default(),
        format,
        destination,
        additional: AdditionalRows { deleted: true, carved: true, damaged: true },
        force: true,
        row_limit,
        rendering: RenderingOptions::default(),
    };
    match jetcell_export::export(vfs, path, &options, &mut |_, _| {}) {
        Ok(_) | Err(jetcell_export::ExportError::Open(_)) => {}
        Err(error) => panic!("{format}: {error}"),
    }
}

fn dump(vfs: &RealVfs, path: &Path) {
    let open = || DumpSource::open(vfs as &dyn Vfs, path);
    let mut sink = std::io::sink();
    let output = &mut DumpOutput::json(&mut sink);
    // An error is a valid result, too.
    let each = |result: jetcell_dump::Result<()>| drop(result);
    let Ok(source) = open() else { return };
    each(jetcell_dump::dump_header(&source, output));
    each(jetcell_dump::dump_checkpoint(&source, output));
    each(jetcell_dump::dump_flush_map(&source, output));
    each(jetcell_dump::dump_pages(&source, &[], output));
    each(jetcell_dump::dump_pages(&source, &[1..=60], output));
    each(jetcell_dump::dump_schema(&source, &SchemaOptions { tables: Vec::new(), rows: true }, output));
    each(jetcell_dump::dump_schema(&source, &SchemaOptions { tables: Vec::new(), rows: false }, output));
    let space = jetcell_dump::SpaceOptions { extents: true, sort_by_size: true };
    each(jetcell_dump::dump_space(&source, space, &mut |_, _| {}, output));
    each(jetcell_dump::dump_log(&source, &LogDumpOptions::default(), output));
    for root in [1, 4, 24] {
        each(jetcell_dump::dump_tree(&source, &TreeSelector::Root(root), true, output));
    }
}

/// Changes a file in one to twelve places.
pub fn mutate_file(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut ChaCha8Rng) {
    let format = EseFileKind::detect(bytes);
    for _ in 0..random.random_range(1..=12) {
        match format {
            EseFileKind::Database => mutate_database(bytes, others, random),
            _ => mutate_segments(bytes, random),
        }
    }
    if random.random_ratio(1, 12) {
        bytes.truncate(random.random_range(0..=bytes.len()));
    }
}

fn page_size(bytes: &[u8]) -> PageSize {
    let stored = bytes.get(236..240).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
    stored.and_then(PageSize::new).unwrap_or(PageSize::KIB_4)
}

fn mutate_database(bytes: &mut [u8], others: &[Vec<u8>], random: &mut ChaCha8Rng) {
    let size = page_size(bytes);
    let pages = (bytes.len() / size.bytes()).saturating_sub(2) as u32;
    if pages == 0 {
        return;
    }
    if random.random_ratio(1, 30) {
        return mutate_header(bytes, size.bytes(), random);
    }
    // The catalog and the roots are on the first pages.
    let reach = if random.random() { pages } else { pages.min(60) };
    let number = random.random_range(1..=reach);
    let range = |number: u32| {
        let start = (number as usize + 1) * size.bytes();
        start..start + size.bytes()
    };
    let other = {
        let file = &others[random.random_range(0..others.len())];
        let enough = page_size(file) == size && file.len() >= 3 * size.bytes();
        let from = if enough && random.random() { &file[..] } else { &bytes[..] };
        let number = random.random_range(2..from.len() / size.bytes());
        from[number * size.bytes()..(number + 1) * size.bytes()].to_vec()
    };
    let page = &mut bytes[range(number)];
    let len = page.len();
    match random.random_range(0..9) {
        // Copy another page of the file over this page, which creates cycles and pages of other trees.
        0 => page.copy_from_slice(&other),
        // Copy a part of another page, which creates contradicting nodes and tags.
        1 => {
            let start = random.random_range(0..len);
            let end = random.random_range(start..len);
            page[start..=end].copy_from_slice(&other[start..=end]);
        }
        // Change links, child numbers, or object ids.
        2 => put(page, random.random_range(8..len - 4), &random.random_range(0..pages + 2).to_le_bytes()),
        3 => put(
            page,
            [16, 20, 24][random.random_range(0..3)],
            &random.random_range(0..pages + 2).to_le_bytes(),
        ),
        // Change counts, flags, or free space.
        4 => page[random.random_range(24..40)] = random.random(),
        // Change tags.
        5 | 6 => {
            let at = len - random.random_range(1..=len.min(200));
            page[at] = random.random();
        }
        7 => page.fill(0),
        _ => {
            for _ in 0..random.random_range(1..20) {
                page[random.random_range(8..len)] = random.random();
            }
        }
    }
    if random.random_range(0..10) > 0 && page.iter().any(|byte| *byte != 0) {
        seal_page(page, size, PageNumber::fixed(number));
    }
}

fn put(page: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = page.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Changes a header or its copy, and updates the checksum.
fn mutate_header(bytes: &mut [u8], len: usize, random: &mut ChaCha8Rng) {
    let copy = random.random_range(0..2) * len;
    let Some(page) = bytes.get_mut(copy..copy + len) else { return };
    for _ in 0..random.random_range(1..4) {
        page[random.random_range(4..len.min(700))] = random.random();
    }
    let checksum = header_checksum(page);
    put(page, 0, &checksum.to_le_bytes());
}

/// Changes a segment of a log, or a page of another file that consists of 4 KiB blocks.
fn mutate_segments(bytes: &mut [u8], random: &mut ChaCha8Rng) {
    let segments = bytes.len() / SEGMENT_LEN;
    if segments == 0 {
        return;
    }
    let number = random.random_range(0..segments);
    if number == 0 {
        return mutate_header(bytes, SEGMENT_LEN, random);
    }
    let other = random.random_range(1..segments.max(2)).min(segments - 1);
    let copy = bytes[other * SEGMENT_LEN..(other + 1) * SEGMENT_LEN].to_vec();
    let segment = &mut bytes[number * SEGMENT_LEN..(number + 1) * SEGMENT_LEN];
    match random.random_range(0..4) {
        0 => segment.copy_from_slice(&copy),
        1 => segment[random.random_range(8..48)] = random.random(),
        2 => {
            let start = random.random_range(8..SEGMENT_LEN);
            let end = random.random_range(start..SEGMENT_LEN);
            segment[start..=end].copy_from_slice(&copy[start..=end]);
        }
        _ => {
            for _ in 0..random.random_range(1..12) {
                segment[random.random_range(40..SEGMENT_LEN)] = random.random();
            }
        }
    }
    if random.random_range(0..10) > 0 {
        seal_segment(segment, number as u32);
    }
}

/// Returns the path under which the file of a failed case is kept.
pub fn artifact(target: &str, seed: u64) -> PathBuf {
    super::mutate::folder().join("artifacts").join(target).join(format!("{seed}"))
}
