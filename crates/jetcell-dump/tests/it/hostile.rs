//! Tests with damaged and hostile files. Dumps must report the damage, continue, and terminate.

use std::time::{Duration, Instant};

use ese_format::checksum::{header_checksum, seal_page, seal_segment};
use ese_format::{PageNumber, PageSize};
use jetcell_dump::{
    DumpError, DumpOutput, DumpSource, LogDumpOptions, SchemaOptions, SpaceOptions, TreeSelector,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{corpus_file, dump, items, manifest, run, text};

const PAGE: usize = 4096;

fn basic() -> Option<Vec<u8>> {
    corpus_file("db/4k/basic.edb")
}

/// Changes a page of a database with 4 KiB pages and updates its checksum.
fn change_page(file: &mut [u8], number: u32, change: impl FnOnce(&mut [u8])) {
    let at = (number as usize + 1) * PAGE;
    let page = &mut file[at..at + PAGE];
    change(page);
    seal_page(page, PageSize::KIB_4, PageNumber::fixed(number));
}

fn tree(choice: TreeSelector) -> impl Fn(&DumpSource, &mut DumpOutput<'_>) -> jetcell_dump::Result<()> {
    move |source, output| jetcell_dump::dump_tree(source, &choice, false, output)
}

#[test]
fn a_cyclic_tree_is_reported_without_looping() {
    let Some(mut file) = basic() else { return };
    // The second entry of the catalog's root now refers to page 4, which is the root.
    change_page(&mut file, 4, |page| {
        let place = 40 + 2809 - 40 + 2;
        assert_eq!(page[place..place + 4], [14, 0, 0, 0]);
        page[place] = 4;
    });
    let (output, problems) = dump(&file, tree(TreeSelector::Root(4)));
    assert_eq!(problems, 1, "{output}");
    assert!(output.contains("the page is already part of a tree, although page 4 refers to it"), "{output}");
    let (output, problems) = dump(&file, |source, output| {
        jetcell_dump::dump_space(source, SpaceOptions::default(), &mut |_, _| {}, output)
    });
    assert!(problems > 0 && output.contains("the catalog is damaged; its shadow copy is used"), "{output}");
}

#[test]
fn a_damaged_page_is_reported_and_other_pages_are_shown() {
    let Some(mut file) = basic() else { return };
    file[15 * PAGE + 2000..15 * PAGE + 2003].copy_from_slice(&[7, 1, 9]);
    let (output, problems) = dump(&file, tree(TreeSelector::Table("MSysObjects".into())));
    assert_eq!(problems, 2, "{output}");
    let summary = items(&output).pop().unwrap();
    assert_eq!((summary["records"].as_u64(), summary["name"].as_str()), (Some(59), Some("MSysObjects")));
    let (output, _) = dump(&file, |source, output| jetcell_dump::dump_pages(source, &[13..=15], output));
    let states: Vec<_> = items(&output).into_iter().filter(|item| item["type"] == "page").collect();
    assert_eq!(
        states.iter().map(|item| item["state"].as_str().unwrap()).collect::<Vec<_>>(),
        ["good", "bad", "good"]
    );
    // The schema comes from the shadow catalog and is complete.
    let (output, _) =
        dump(&file, |source, output| jetcell_dump::dump_schema(source, &SchemaOptions::default(), output));
    let table = items(&output).into_iter().rfind(|item| item["type"] == "table").unwrap();
    assert_eq!(table["columns"].as_array().unwrap().len(), 13);
    let (output, _) = dump(&file, |source, output| {
        jetcell_dump::dump_space(source, SpaceOptions::default(), &mut |_, _| {}, output)
    });
    let space = items(&output).pop().unwrap();
    assert_eq!((&space["damaged_pages"], &space["leaked_pages"]), (&1.into(), &0.into()), "{output}");
}

#[test]
fn a_misplaced_page_is_reported() {
    let Some(mut file) = basic() else { return };
    file.copy_within(15 * PAGE..16 * PAGE, 14 * PAGE);
    let (output, problems) = dump(&file, tree(TreeSelector::Root(4)));
    assert!(problems == 1 && output.contains("contains page 14, although page 4 refers to it"), "{output}");
}

#[test]
fn temporary_database_pages_need_no_checksum() {
    for file_type in [0, 1, 5] {
        temporary_database(file_type);
    }
}

fn temporary_database(file_type: u8) {
    let Some(mut file) = basic() else { return };
    file[667] = file_type;
    // The database was just created. Its header is never updated.
    file[52] = 1;
    let checksum = header_checksum(&file[..PAGE]).to_le_bytes();
    file[..4].copy_from_slice(&checksum);
    file.copy_within(..PAGE, PAGE);
    for page in 2..33 {
        file[page * PAGE..page * PAGE + 8].fill(0);
    }
    let (output, problems) = dump(&file, tree(TreeSelector::Table("MSysObjects".into())));
    assert_eq!((problems, &items(&output).pop().unwrap()["records"]), (0, &87.into()), "{output}");
    let header = text(&file, jetcell_dump::dump_header);
    assert!(header.contains("temporary database") && header.contains("complete"), "{header}");
    assert!(!header.contains("did not complete") || file_type != 5, "{header}");
}

#[test]
fn a_valid_header_copy_is_preferred_over_a_damaged_copy() {
    let Some(mut file) = basic() else { return };
    file[60] ^= 1;
    let (output, problems) = dump(&file, jetcell_dump::dump_header);
    let header = &items(&output)[0];
    assert_eq!((problems, &header["shadow"]["shown"]), (1, &true.into()), "{output}");
    assert_eq!(header["fields"]["state"], "CleanShutdown");
    file[PAGE + 52] = 99;
    let (output, problems) = dump(&file, jetcell_dump::dump_header);
    let header = &items(&output)[0];
    assert_eq!((problems, &header["checksum"]["good"]), (2, &false.into()), "{output}");
    assert_eq!(header["shadow"]["differs"].as_array().unwrap().len(), 2, "{output}");
}

#[test]
fn only_damaged_segments_lose_records_unlike_torn_segments() {
    let Some(log) = corpus_file("logsets/srum-server2022/a/SRU00001.log") else { return };
    let show = |log: &[u8]| {
        dump(log, |source, output| jetcell_dump::dump_log(source, &LogDumpOptions::default(), output))
    };
    let in_segment = |output: &str, segment: &str| {
        let records = items(output).into_iter().filter(|item| item["type"] == "record");
        records.filter(|item| item["position"].as_str().unwrap().contains(segment)).count()
    };
    let count = |output: &str| in_segment(output, "");
    let (whole, _) = show(&log);
    let mut damaged = log.clone();
    damaged[5 * PAGE + 100..5 * PAGE + 140].fill(0x55);
    let (output, problems) = show(&damaged);
    let lost = in_segment(&whole, ",0005,");
    // A record that starts before the segment and ends in it is also lost.
    assert!(lost > 50 && (lost..=lost + 1).contains(&(751 - count(&output))), "{}", count(&output));
    assert!(problems >= 1 && output.contains("segment 5 is damaged"), "{output}");
    let end = items(&output).pop().unwrap();
    assert_eq!((&end["good"], &end["bad"]), (&13.into(), &1.into()));
    // Segment 14 is the last one and has a shadow.
    let mut torn = log;
    torn[14 * PAGE + 100..14 * PAGE + 140].fill(0x55);
    let (output, problems) = show(&torn);
    assert_eq!((count(&output), problems), (751, 1));
    assert!(output.contains("segment 14 is torn; the copy that follows it is intact"), "{output}");
}

#[test]
fn filters_choose_records() {
    let Some(log) = corpus_file("logsets/srum-server2022/a/SRU00001.log") else { return };
    let shown = |filter: jetcell_dump::LogFilter| {
        let options = LogDumpOptions { filter, stats: false };
        let (output, _) = dump(&log, |source, output| jetcell_dump::dump_log(source, &options, output));
        items(&output).into_iter().filter(|item| item["type"] == "record").collect::<Vec<_>>()
    };
    let all = shown(jetcell_dump::LogFilter::default());
    let splits = shown(jetcell_dump::LogFilter { kinds: vec![62], ..Default::default() });
    assert_eq!(splits.len(), 7);
    assert!(splits.iter().all(|record| record["record"] == "Split2"));
    let page = shown(jetcell_dump::LogFilter { pages: vec![14..=14], ..Default::default() });
    let by_hand = all.iter().filter(|record| {
        let fields = &record["fields"];
        let names = [
            "page",
            "new_page",
            "right",
            "left",
            "parent",
            "root",
            "owned_root",
            "available_root",
            "parent_root",
        ];
        names.iter().any(|name| fields[*name] == 14)
            || fields["pages"].as_array().is_some_and(|pages| pages.contains(&14.into()))
    });
    assert_eq!(page.iter().collect::<Vec<_>>(), by_hand.collect::<Vec<_>>());
    // A transaction consists of the records from its begin to its commit.
    let begin = all.iter().find(|record| record["record"] == "Begin0").unwrap();
    let number = begin["fields"]["begin0"].as_u64().unwrap() as u32;
    let one = shown(jetcell_dump::LogFilter { transactions: vec![number], ..Default::default() });
    assert_eq!(one.first(), Some(begin));
    assert_eq!(one.last().unwrap()["record"], "Commit0");
    assert!(one.iter().all(|record| record["transaction"] == number));
    let no_database = jetcell_dump::LogFilter { databases: vec![9], ..Default::default() };
    assert!(shown(no_database).is_empty());
    let session = begin["fields"]["procid"].as_u64().unwrap() as u16;
    let session = shown(jetcell_dump::LogFilter { procids: vec![session], ..Default::default() });
    assert!(session.len() > one.len() && session.len() < all.len());
}

#[test]
fn other_formats_are_rejected_with_advice() {
    let Some(file) = basic() else { return };
    let failed = |with: fn(&DumpSource, &mut DumpOutput<'_>) -> jetcell_dump::Result<()>, file: &[u8]| {
        let error = run(file, false, with).2.unwrap_err();
        format!("{error}; {}", error.advice().unwrap_or_default())
    };
    let log = |source: &DumpSource, output: &mut DumpOutput<'_>| {
        jetcell_dump::dump_log(source, &LogDumpOptions::default(), output)
    };
    let message = "/file: the file is an ESE database, not an ESE log file; use dump header, pages, tree, schema or space";
    assert_eq!(failed(log, &file), message);
    assert!(
        failed(jetcell_dump::dump_header, b"text")
            .contains("the file is not an ESE database, log, checkpoint or flush map")
    );
    assert!(
        failed(jetcell_dump::dump_header, &file[..700])
            .contains("truncated inside the header: only 700 bytes")
    );
    let Some(mut old) = corpus_file("logsets/srum-server2022/a/SRU00001.log") else { return };
    old[32] = 7;
    let checksum = header_checksum(&old[..PAGE]).to_le_bytes();
    old[..4].copy_from_slice(&checksum);
    assert!(failed(log, &old).contains("log format 7.4000 is not supported"), "{}", failed(log, &old));
    assert!(text(&old, jetcell_dump::dump_header).contains("the format is older"));
}

/// Checks that dumps of corpus files with random changes neither panic nor hang. Most of these files have valid
/// checksums. The output must be valid, and its size must be justified by the size of the file.
#[test]
fn mutants_of_real_files_neither_panic_nor_hang() {
    let seconds =
        std::env::var("JETCELL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4.0);
    let seed = std::env::var("JETCELL_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let small = |file: &serde_json::Value| file["size"].as_u64().unwrap() <= 2 << 20;
    let real =
        |file: &serde_json::Value| ["db", "log", "chk", "jfm"].contains(&file["kind"].as_str().unwrap());
    let seeds: Vec<FuzzSeed> = manifest()
        .iter()
        .filter(|file| small(file) && real(file))
        .map(FuzzSeed::from_manifest_entry)
        .collect();
    if seeds.is_empty() {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut tried = 0;
    while Instant::now() < end {
        let seed = &seeds[rng.random_range(0..seeds.len())];
        let mutant = seed.mutant(&mut rng);
        let began = Instant::now();
        all_dumps(&mutant, seed, rng.random());
        assert!(began.elapsed() < Duration::from_secs(60), "{}: {:?}", seed.name, began.elapsed());
        tried += 1;
    }
    println!("{tried} mutants of {} files", seeds.len());
    assert!(tried > 5, "{tried}");
}

struct FuzzSeed {
    name: String,
    kind: String,
    bytes: Vec<u8>,
    page: usize,
    /// Indexes of the units of `page` bytes that are not zero.
    used: Vec<usize>,
    tables: Vec<String>,
}

impl FuzzSeed {
    fn from_manifest_entry(file: &serde_json::Value) -> FuzzSeed {
        let name = file["name"].as_str().unwrap().to_owned();
        let bytes = corpus_file(&name).unwrap();
        let kind = file["kind"].as_str().unwrap().to_owned();
        let page = match kind.as_str() {
            "db" => file["page_size"].as_u64().unwrap() as usize,
            "jfm" => 8192,
            _ => PAGE,
        };
        let content = |unit: &&[u8]| unit.iter().any(|&byte| byte != 0);
        let used =
            bytes.chunks(page).enumerate().filter(|(_, unit)| content(unit)).map(|(at, _)| at).collect();
        let tables =
            file["tables"].as_object().into_iter().flat_map(|tables| tables.keys().cloned()).collect();
        FuzzSeed { name, kind, bytes, page, used, tables }
    }

    fn mutant(&self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        const INTERESTING: [u32; 10] = [0, 1, 2, 4, 0x7f, 0xff, 0x1fff, 0x7fff, 0xffff, u32::MAX];
        let mut bytes = self.bytes.clone();
        for _ in 0..rng.random_range(1..=8) {
            let unit = self.used[rng.random_range(0..self.used.len())];
            let start = unit * self.page;
            let page = &mut bytes[start..start + self.page];
            for _ in 0..rng.random_range(1..=6) {
                // Half of the changes are in headers and tags, which hold the structure.
                let at = match rng.random_range(0..4) {
                    0 => rng.random_range(0..80),
                    1 => self.page - 1 - rng.random_range(0..64),
                    _ => rng.random_range(0..self.page),
                };
                match rng.random_range(0..5) {
                    0 => page[at] ^= 1 << rng.random_range(0..8),
                    1 => page[at] = rng.random(),
                    2 => page[at & !1] = rng.random_range(0..64),
                    3 => {
                        let word = INTERESTING[rng.random_range(0..INTERESTING.len())].to_le_bytes();
                        page.iter_mut().skip(at & !3).zip(word).for_each(|(byte, new)| *byte = new);
                    }
                    _ => page[at..(at + 16).min(self.page)].fill(rng.random()),
                }
            }
            if rng.random_range(0..5) > 0 {
                self.seal(page, unit);
            }
        }
        match rng.random_range(0..12) {
            0 => bytes.truncate(rng.random_range(0..self.bytes.len())),
            1 => {
                let (from, to) = (
                    self.used[rng.random_range(0..self.used.len())],
                    self.used[rng.random_range(0..self.used.len())],
                );
                bytes.copy_within(from * self.page..(from + 1) * self.page, to * self.page);
                self.seal(&mut bytes[to * self.page..(to + 1) * self.page], to);
            }
            _ => {}
        }
        bytes
    }

    fn seal(&self, page: &mut [u8], unit: usize) {
        let header = match self.kind.as_str() {
            "db" => unit < 2,
            "chk" => true,
            _ => unit == 0,
        };
        if header {
            let checksum = header_checksum(page).to_le_bytes();
            page[..4].copy_from_slice(&checksum);
        } else if self.kind == "db" {
            let size = PageSize::new(self.page as u32).unwrap();
            seal_page(page, size, PageNumber::fixed(unit as u32 - 1));
        } else if self.kind == "log" {
            seal_segment(page, unit as u32);
        }
    }
}

fn all_dumps(bytes: &[u8], seed: &FuzzSeed, pick: u32) {
    let json = pick.is_multiple_of(2);
    let limit = 64 * bytes.len() + (1 << 20);
    let check = |output: (String, u64, jetcell_dump::Result<()>)| {
        let (output, _, result) = output;
        assert!(output.len() < limit, "{}: {} bytes of output", seed.name, output.len());
        assert!(!matches!(result, Err(DumpError::Output(_) | DumpError::Io { .. })), "{result:?}");
        if json {
            items(&output);
        }
    };
    check(run(bytes, json, jetcell_dump::dump_header));
    match seed.kind.as_str() {
        "db" => {
            let table = seed.tables[pick as usize % seed.tables.len()].clone();
            check(run(bytes, json, |s, o| jetcell_dump::dump_pages(s, &[], o)));
            check(run(bytes, json, |s, o| jetcell_dump::dump_pages(s, &[1..=60, 250..=u32::MAX], o)));
            check(run(bytes, json, |s, o| jetcell_dump::dump_tree(s, &TreeSelector::Table(table), true, o)));
            check(run(bytes, json, |s, o| {
                jetcell_dump::dump_tree(s, &TreeSelector::Root(pick % 64 + 1), false, o)
            }));
            for rows in [false, true] {
                let options = SchemaOptions { rows, ..SchemaOptions::default() };
                check(run(bytes, json, |s, o| jetcell_dump::dump_schema(s, &options, o)));
            }
            for sort_by_size in [false, true] {
                let options = SpaceOptions { extents: true, sort_by_size };
                check(run(bytes, json, |s, o| jetcell_dump::dump_space(s, options, &mut |_, _| {}, o)));
            }
        }
        "log" => {
            for stats in [false, true] {
                let options = LogDumpOptions { stats, ..LogDumpOptions::default() };
                check(run(bytes, json, |s, o| jetcell_dump::dump_log(s, &options, o)));
            }
        }
        "chk" => check(run(bytes, json, jetcell_dump::dump_checkpoint)),
        _ => check(run(bytes, json, jetcell_dump::dump_flush_map)),
    }
}
