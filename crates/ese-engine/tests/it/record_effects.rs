//! Redoes the vectors in `golden/record-effects.txt` and compares pages and headers.
//!
//! `golden/record_effects.py` describes the format. It derives the effects from ESE's source, not from this engine.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use ese_engine::{BackgroundThreads, CacheSource, Error, InstanceOptions, Replayer, Result};
use ese_format::attachment::Attachment;
use ese_format::checksum::{PageIntegrity, seal_page, verify_page};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::{ENGINE_VERSION, FILE_TYPE_LOG, LOG_VERSION, LogHeader, SEGMENT_BYTES};
use ese_format::log::record::{AttachDb, DetachDb, LogRecord, encode_path};
use ese_format::log::segment::{RECORDS_AT, finish};
use ese_format::page::{Page, PageFlags, validate};
use ese_format::{
    DatabaseIdInLog, DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, Signature, TreeId,
};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const VECTORS: &str = include_str!("../golden/record-effects.txt");

/// Names of the vectors whose result differs from ESE's, with the reason. A final `*` stands for any rest. None of these
/// differences loses a change.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    (
        "external-header-too-short",
        "the nodes are rewritten without the prefix; ESE does not log such a header",
    ),
    ("split-right-replace-left-v", "the node keeps versioned, which means only that it may have versions"),
    (
        "split-right-flag-insert-left-vd",
        "the node keeps versioned, which means only that it may have versions",
    ),
    (
        "new-page-later",
        "a page that is ahead of the header is an error (-625), because its file has another history",
    ),
    ("obsolete-split", "types 27 and 28 have no published layout, so the error is -501"),
    ("obsolete-merge", "types 27 and 28 have no published layout, so the error is -501"),
];

const TABLE: &str = include_str!("../../../../docs/internals/formats/log-records.md");
const COPY: &str = "/copy/test.edb";
const LOGGED: &str = "/db/test.edb";
const PAGES: u32 = 100;
/// The only generation that the database requires.
const REQUIRED: Generation = Generation(5);
const FILE_SEGMENTS: u16 = 32;
/// Length of a fragment's header.
const FRAGMENT_HEAD: usize = 7;

#[derive(Clone, Debug, PartialEq, Eq)]
struct VectorNode {
    flags: u8,
    prefix: usize,
    key: Vec<u8>,
    data: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct VectorPage {
    number: u32,
    time: u64,
    links: [u32; 2],
    tree: u32,
    flags: u32,
    free: u16,
    head: Vec<u8>,
    /// Byte that fills the free space.
    fill: Option<u8>,
    nodes: Vec<VectorNode>,
}

#[derive(Clone, Debug)]
struct RecordVector {
    name: String,
    size: PageSize,
    later: bool,
    before: Vec<VectorPage>,
    records: Vec<Vec<u8>>,
    error: Option<i32>,
    after: Vec<VectorPage>,
    header: Vec<String>,
}

fn hex(text: &str) -> Vec<u8> {
    let digits = if text == "-" { "" } else { text };
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn parse_page(words: &[&str]) -> VectorPage {
    let fields: BTreeMap<&str, &str> = words[2..].iter().map(|word| word.split_once('=').unwrap()).collect();
    let field = |name: &str| number(fields[name]);
    VectorPage {
        number: number(words[1]) as u32,
        time: field("time"),
        links: [field("previous") as u32, field("next") as u32],
        tree: field("tree") as u32,
        flags: field("flags") as u32,
        free: field("free") as u16,
        head: hex(fields["head"]),
        fill: fields.get("fill").map(|fill| number(fill) as u8),
        nodes: Vec::new(),
    }
}

fn parse_vector(block: &str) -> RecordVector {
    let mut vector = RecordVector {
        name: String::new(),
        size: PageSize::KIB_4,
        later: false,
        before: Vec::new(),
        records: Vec::new(),
        error: None,
        after: Vec::new(),
        header: Vec::new(),
    };
    let mut is_after = false;
    for line in block.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "vector" => vector.name = words[1].to_string(),
            "reason" => assert!(words.len() > 1, "{line}"),
            "size" => vector.size = PageSize::new(number(words[1]) as u32).unwrap(),
            "later" => vector.later = true,
            "before" => vector.before.push(parse_page(&words)),
            "after" => {
                is_after = true;
                vector.after.push(parse_page(&words));
            }
            "node" => {
                let pages = if is_after { &mut vector.after } else { &mut vector.before };
                let (flags, prefix) = (number(words[1]) as u8, number(words[2]) as usize);
                let node = VectorNode { flags, prefix, key: hex(words[3]), data: hex(words[4]) };
                pages.last_mut().unwrap().nodes.push(node);
            }
            "record" => vector.records.push(hex(words[1])),
            "error" => vector.error = Some(words[1].parse().unwrap()),
            "header" => vector.header.push(words[1].to_string()),
            _ => panic!("{line}"),
        }
    }
    vector
}

fn vectors() -> Vec<RecordVector> {
    VECTORS.split("\n\n").map(parse_vector).collect()
}

/// Encodes a page: lines in their order, then free space, then the tags in reverse order.
fn page_bytes(page: &VectorPage, size: PageSize) -> Vec<u8> {
    let start = size.header_len();
    let mut body = page.head.clone();
    let mut tags = vec![(0, page.head.len(), 0)];
    for node in &page.nodes {
        let mut line = Vec::new();
        if node.flags & 4 != 0 {
            line.extend((node.prefix as u16).to_le_bytes());
        }
        line.extend((node.key.len() as u16).to_le_bytes());
        line.extend(&node.key);
        line.extend(&node.data);
        let mut in_tag = node.flags;
        if size.is_large() {
            line[1] |= std::mem::take(&mut in_tag) << 5;
        }
        tags.push((body.len(), line.len(), in_tag));
        body.extend(line);
    }
    let room = size.bytes() - start - body.len() - 4 * tags.len();
    let [free, free_start, count] =
        [room, body.len(), tags.len()].map(|number| (number as u16).to_le_bytes());
    let [left, right] = page.links.map(u32::to_le_bytes);
    let flags = page.flags | PageFlags::NEW_CHECKSUM.bits();
    let head: [&[u8]; 10] = [
        &[0; 8],
        &page.time.to_le_bytes(),
        &left,
        &right,
        &page.tree.to_le_bytes(),
        &free,
        &page.free.to_le_bytes(),
        &free_start,
        &count,
        &flags.to_le_bytes(),
    ];
    let mut bytes = head.concat();
    bytes.resize(size.bytes(), 0);
    bytes[start..start + body.len()].copy_from_slice(&body);
    for (index, (at, len, flags)) in tags.into_iter().enumerate() {
        let tag = (len as u32) | (at as u32 | u32::from(flags) << 13) << 16;
        let place = size.bytes() - 4 * (index + 1);
        bytes[place..place + 4].copy_from_slice(&tag.to_le_bytes());
    }
    if size.is_large() {
        bytes[64..68].copy_from_slice(&page.number.to_le_bytes());
    }
    seal_page(&mut bytes, size, PageNumber::new(page.number).unwrap());
    bytes
}

/// Decodes a page. The result has the byte that fills the free space if `fills`.
fn decoded(bytes: &[u8], size: PageSize, number: u32, fills: bool) -> VectorPage {
    let page = Page::new(bytes, size);
    let nodes = page.nodes().map(|node| VectorNode {
        flags: node.flags.bits(),
        prefix: node.prefix.len(),
        key: node.suffix.to_vec(),
        data: node.data.to_vec(),
    });
    let free = &bytes[page.free_range()];
    VectorPage {
        number,
        time: page.db_time().0,
        links: [PageNumber::to_raw(page.prev()), PageNumber::to_raw(page.next())],
        tree: page.tree().0,
        flags: (page.flags() - PageFlags::FLUSH_TYPE - PageFlags::NEW_CHECKSUM).bits(),
        free: page.uncommitted_free() as u16,
        head: page.external_header().to_vec(),
        fill: free.first().filter(|byte| fills && free.iter().all(|other| other == *byte)).copied(),
        nodes: nodes.collect(),
    }
}

fn signature(random: u32) -> Signature {
    Signature::new(random, LogTime::from_unix_ms(1_700_000_000_000))
}

fn created(generation: Generation) -> LogTime {
    LogTime::from_unix_ms(1_700_000_000_000 + i64::from(generation.0) * 1000)
}

/// Returns a log file and the XOR of the checksums of its segments.
fn log_file(
    generation: Generation,
    size: PageSize,
    previous: u64,
    attached: &[Attachment],
    records: &[Vec<u8>],
) -> (Vec<u8>, u64) {
    let header = LogHeader {
        generation,
        segment_bytes: SEGMENT_BYTES as u16,
        header_segments: 1,
        file_segments: FILE_SEGMENTS,
        database_page_size: size.bytes() as u16,
        created: created(generation),
        previous_created: created(Generation(generation.0 - 1)),
        version_major: LOG_VERSION.0,
        version_minor: LOG_VERSION.1,
        version_update: LOG_VERSION.2,
        signature: signature(1),
        parameters: Default::default(),
        flags: 0,
        checkpoint: LogPosition::MIN,
        version_update_minor: LOG_VERSION.3,
        sector_code: 0,
        previous_checksum: previous,
        engine_version: ENGINE_VERSION,
        reserved: [0; 2],
        file_type: FILE_TYPE_LOG,
        attachment_list: Attachment::encode_list(attached).unwrap().try_into().unwrap(),
    };
    let mut segments = vec![Vec::new()];
    for record in records {
        let room = |segments: &[Vec<u8>]| SEGMENT_BYTES - RECORDS_AT - segments.last().unwrap().len();
        if record.len() <= SEGMENT_BYTES - RECORDS_AT {
            if record.len() > room(&segments) {
                segments.push(Vec::new());
            }
            segments.last_mut().unwrap().extend(record);
            continue;
        }
        let (mut rest, mut is_first) = (&record[..], true);
        while !rest.is_empty() {
            if room(&segments) <= FRAGMENT_HEAD {
                segments.push(Vec::new());
            }
            let (piece, behind) = rest.split_at(rest.len().min(room(&segments) - FRAGMENT_HEAD));
            let head = [&[76][..], &(record.len() as u32).to_le_bytes()].concat();
            let segment = segments.last_mut().unwrap();
            segment.extend(if std::mem::take(&mut is_first) { &head[..] } else { &[77] });
            segment.extend((piece.len() as u16).to_le_bytes());
            segment.extend(piece);
            rest = behind;
        }
    }
    let (mut file, mut sum) = (header.encode(), 0);
    for (index, records) in (1..).zip(segments) {
        let mut segment = [0; SEGMENT_BYTES];
        segment[RECORDS_AT..RECORDS_AT + records.len()].copy_from_slice(&records);
        let position = LogPosition { generation, segment: index, offset: 0 };
        finish(&mut segment, position, created(generation), position);
        sum ^= u64::from_le_bytes(*segment.first_chunk().unwrap());
        file.extend(segment);
    }
    file.resize(usize::from(FILE_SEGMENTS) * SEGMENT_BYTES, 0);
    (file, sum)
}

/// Redoes the records of a vector on a database that was attached earlier. Returns the file and the error, if there
/// is one.
fn redo(vector: &RecordVector) -> (Vec<u8>, Option<Error>) {
    let mut header = DatabaseHeader::for_new_database(vector.size, signature(2), signature(1));
    header.state = DatabaseState::DirtyShutdown;
    (header.db_time, header.last_tree) = (DbTime(0x100), TreeId(30));
    header.attach_position = LogPosition::new(REQUIRED.0 - 1, 1, 0x100);
    (header.gen_min_required, header.gen_min_consistent) = (REQUIRED, REQUIRED);
    (header.gen_max_required, header.gen_max_committed) = (REQUIRED, REQUIRED);
    (header.gen_max_required_time, header.gen_max_committed_time) = (created(REQUIRED), created(REQUIRED));
    let mut attached = Attachment {
        database: DatabaseIdInLog(1),
        flags: 0,
        db_time: header.db_time,
        last_tree: header.last_tree,
        max_pages: 0,
        attach_position: header.attach_position,
        consistent_position: LogPosition::MIN,
        signature: header.signature,
        path: Vec::new(),
    };
    attached.set_path(LOGGED);
    redo_on(&header, &[attached], vector)
}

/// Redoes the records of a vector, and then a detach of the database, which makes its header final.
fn redo_on(
    header: &DatabaseHeader,
    attached: &[Attachment],
    vector: &RecordVector,
) -> (Vec<u8>, Option<Error>) {
    let size = vector.size;
    let header = header.encode();
    let mut file = [&header[..], &header].concat();
    file.resize((PAGES as usize + 2) * size.bytes(), 0);
    for page in &vector.before {
        let at = size.offset_of(PageNumber::new(page.number).unwrap()) as usize;
        file[at..at + size.bytes()].copy_from_slice(&page_bytes(page, size));
    }
    let detach = DetachDb {
        procid: 3,
        database: DatabaseIdInLog(1),
        flags: DetachDb::UNICODE,
        path: encode_path(LOGGED),
    };
    let mut records = vector.records.clone();
    records.push(LogRecord::DetachDb(detach).to_bytes());
    let generations =
        if vector.later { vec![vec![LogRecord::Nop.to_bytes()], records] } else { vec![records] };

    let disk = SimVfs::new();
    disk.set_capacity(64 << 20);
    for directory in ["/log", "/copy"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    disk.put(Path::new(COPY), &file);
    let (mut sum, mut paths) = (0, Vec::new());
    for (generation, records) in (REQUIRED.0..).map(Generation).zip(&generations) {
        let bytes;
        (bytes, sum) = log_file(generation, size, sum, attached, records);
        let path = Path::new("/log").join(format!("E00{:08X}.log", generation.0));
        disk.put(&path, &bytes);
        paths.push(path);
    }
    let replay = || -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut options = InstanceOptions::with_vfs(vfs, "/copy".into());
        options.background = BackgroundThreads::None;
        options.cache = CacheSource::Own { bytes: 64 * size.bytes() };
        options.recovery.database_paths.search("/copy");
        let (last, closed) = paths.split_last().unwrap();
        let mut replayer = Replayer::open(options, &paths[0])?;
        closed.iter().try_for_each(|path| replayer.replay(path))?;
        replayer.replay_until(last, LogPosition::MAX)?;
        replayer.check_complete()?;
        replayer.stop().map(drop)
    };
    let result = replay();
    (disk.contents(Path::new(COPY)).unwrap(), result.err())
}

/// Returns how a header differs from an expectation such as `pages=100` or `dbtime>=0x200`.
fn header_difference(expected: &str, file: &[u8], size: PageSize) -> Option<String> {
    let (name, value) = expected.split_once('=').unwrap();
    let header = DatabaseHeader::read_from_start(&file[..2 * size.bytes()]).unwrap().0;
    let wanted: Vec<u64> = value.split(',').map(number).collect();
    let list = |numbers: &[u32]| numbers.iter().map(|number| u64::from(*number)).collect::<Vec<_>>();
    let found = match name {
        "last_object_id" => list(&[header.last_tree.0]),
        "dbtime>" => vec![header.db_time.0.min(wanted[0])],
        "version" => list(&[header.version, header.update, header.update_minor]),
        "created" => list(&[header.created_version, header.created_update]),
        "pages" => vec![(file.len() / size.bytes()) as u64 - 2],
        "extended" => list(&[header.extend_count]),
        "shrunk" => list(&[header.shrink_count]),
        "trimmed" => list(&[header.trim_count]),
        "zero" => {
            let at = size.offset_of(PageNumber::new(wanted[0] as u32).unwrap()) as usize;
            let zero = file[at..at + size.bytes()].iter().all(|byte| *byte == 0);
            if zero { wanted.clone() } else { Vec::new() }
        }
        _ => panic!("{expected}"),
    };
    (found != wanted).then(|| format!("header: {found:x?} instead of {expected}"))
}

/// Returns how the result of a vector differs from the expected one.
fn differences(vector: &RecordVector) -> Vec<String> {
    let (size, (file, error)) = (vector.size, redo(vector));
    let mut differences = Vec::new();
    let code = error.as_ref().map(Error::jet_code);
    if code != vector.error {
        differences.push(format!("error {code:?} instead of {:?}: {error:?}", vector.error));
        if error.is_some() {
            return differences;
        }
    }
    for page in &vector.after {
        let at = size.offset_of(PageNumber::new(page.number).unwrap()) as usize;
        let Some(bytes) = file.get(at..at + size.bytes()) else {
            differences.push(format!("page {} is missing", page.number));
            continue;
        };
        let intact = verify_page(&mut bytes.to_vec(), size, PageNumber::new(page.number).unwrap());
        if intact != PageIntegrity::Good {
            differences.push(format!("page {}: {intact:?}", page.number));
        }
        if let Err(error) = validate(bytes, size) {
            differences.push(format!("page {}: {error}", page.number));
        }
        let found = decoded(bytes, size, page.number, page.fill.is_some());
        if found != *page {
            differences.push(format!("found    {found:x?}\n    expected {page:x?}"));
        }
    }
    let named: BTreeSet<u32> = vector.before.iter().chain(&vector.after).map(|page| page.number).collect();
    for (number, bytes) in (1..).zip(file.chunks(size.bytes()).skip(2)) {
        if !named.contains(&number) && bytes.iter().any(|byte| *byte != 0) {
            differences.push(format!("page {number} was changed"));
        }
    }
    differences.extend(vector.header.iter().filter_map(|line| header_difference(line, &file, size)));
    differences
}

#[test]
fn every_record_has_the_effect_that_it_has_in_ese() {
    let vectors = vectors();
    assert!(vectors.len() >= 130);
    let is_meant = |known: &str, name: &str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == known,
    };
    let known = |name: &str| KNOWN_DIFFERENCES.iter().any(|(known, _)| is_meant(known, name));
    let mut wrong = Vec::new();
    for vector in &vectors {
        let differences = differences(vector);
        match (known(&vector.name), differences.is_empty()) {
            (false, false) => wrong.push(format!("{}:\n    {}", vector.name, differences.join("\n    "))),
            (true, true) => wrong.push(format!("{}: no longer differs", vector.name)),
            _ => {}
        }
    }
    for (name, reason) in KNOWN_DIFFERENCES {
        assert!(!reason.is_empty() && vectors.iter().any(|vector| is_meant(name, &vector.name)), "{name}");
    }
    assert!(wrong.is_empty(), "{} of {} vectors:\n{}", wrong.len(), vectors.len(), wrong.join("\n"));
}

/// Returns the types in the first column of the table, such as `67 to 75` or `100, 101`.
fn types_of_row(column: &str) -> Vec<u8> {
    let parse = |number: &str| number.trim().parse::<u8>().ok();
    let types = column.split(',').filter_map(|part| match part.split_once(" to ") {
        Some((first, last)) => Some(parse(first)?..=parse(last)?),
        None => Some(parse(part)?..=parse(part)?),
    });
    types.flatten().collect()
}

/// The table lists every type under its name. The vectors that it names for a type contain records of that type.
#[test]
fn the_table_of_log_records_names_every_type_and_its_vectors() {
    let vectors = vectors();
    let mut listed = BTreeSet::new();
    for row in TABLE.lines().filter(|line| line.starts_with("| ")) {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let types = types_of_row(columns[0]);
        for kind in &types {
            assert!(listed.insert(*kind), "type {kind} is listed twice");
        }
        for (name, kind) in columns[1].split(", ").zip(&types) {
            assert!(LogRecord::kind_named(name).is_none_or(|named| named == *kind), "{row}");
        }
        let named = columns[columns.len() - 1].split('`').skip(1).step_by(2);
        for prefix in named.filter(|name| name.ends_with('*')).map(|name| name.trim_end_matches('*')) {
            let matching: Vec<_> = vectors.iter().filter(|vector| vector.name.starts_with(prefix)).collect();
            let has_type = |record: &Vec<u8>| types.contains(&record[0]);
            assert!(!matching.is_empty(), "{prefix}: {row}");
            assert!(matching.iter().any(|vector| vector.records.iter().any(has_type)), "{prefix}: {row}");
        }
    }
    assert_eq!(listed.into_iter().collect::<Vec<_>>(), (0..=101).collect::<Vec<_>>());
}

/// Windows stores the position of a record at the start of a segment with offset 0 or 40.
#[test]
fn a_database_is_attached_at_either_form_of_its_position() {
    let vector = vectors().into_iter().find(|vector| vector.name == "insert-first").unwrap();
    for (stored, logged, attached) in [(0, 40, true), (40, 0, true), (0, 0, true), (0, 41, false)] {
        let at = |offset| LogPosition::new(REQUIRED.0 - 1, 7, offset);
        let mut header = DatabaseHeader::for_new_database(vector.size, signature(2), signature(1));
        (header.consistent_position, header.db_time) = (at(stored), DbTime(0x100));
        let attach = AttachDb {
            procid: 3,
            database: DatabaseIdInLog(1),
            max_pages: 0,
            consistent_position: at(logged),
            signature: signature(2),
            log_signature: signature(1),
            flags: AttachDb::UNICODE,
            path: encode_path(LOGGED),
        };
        let mut attaching = vector.clone();
        attaching.records.insert(0, LogRecord::AttachDb(attach).to_bytes());
        let (file, error) = redo_on(&header, &[], &attaching);
        assert_eq!(error.map(|error| error.jet_code()), (!attached).then_some(-551), "{stored} {logged}");
        if attached {
            let at = vector.size.offset_of(PageNumber::fixed(vector.after[0].number)) as usize;
            let page = &file[at..at + vector.size.bytes()];
            assert_eq!(decoded(page, vector.size, vector.after[0].number, false), vector.after[0]);
        }
    }
}

/// Changes one thing in a vector: the line, the flags or another byte of a record, or a page before it.
fn mutate(vector: &mut RecordVector, rng: &mut ChaCha8Rng) -> String {
    let [page_at, line_at, flags_at] = [4, 29, 31];
    let index = rng.random_range(0..vector.records.len());
    let record = &mut vector.records[index];
    let (at, value) = match rng.random_range(0..6) {
        0 if record.len() > flags_at => (line_at, rng.random_range(0..8)),
        1 if record.len() > flags_at => (line_at + rng.random_range(0..2), rng.random()),
        2 if record.len() > flags_at => (flags_at, rng.random()),
        3 if record.len() > flags_at => (page_at, rng.random_range(0..PAGES as u8 + 20)),
        4 if !vector.before.is_empty() => {
            let at = rng.random_range(0..vector.before.len());
            let page = &mut vector.before[at];
            match rng.random_range(0..4) {
                0 => page.nodes.truncate(rng.random_range(0..=page.nodes.len())),
                1 => page.head = Vec::new(),
                2 => page.flags ^= 1 << rng.random_range(0..20),
                _ => {
                    page.time =
                        [0xff, 0x100, 0x1ff, 0x200, u64::MAX - 2, u64::MAX - 3][rng.random_range(0..6)];
                }
            }
            return format!("page {}", page.number);
        }
        _ => (rng.random_range(1..record.len().max(2)), rng.random()),
    };
    if let Some(byte) = record.get_mut(at) {
        *byte = value;
    }
    format!("record {index}, byte {at} is {value}")
}

/// Records with wrong numbers have their effect, or are refused with a typed error.
#[test]
fn mutated_records_do_not_panic() {
    let (vectors, begun) = (vectors(), Instant::now());
    let mut rng = ChaCha8Rng::seed_from_u64(62);
    let mut tried = [0; 2];
    while tried.iter().sum::<usize>() < 3000 && begun.elapsed() < Duration::from_secs(10) {
        let mut vector = vectors[rng.random_range(0..vectors.len())].clone();
        let mutation = mutate(&mut vector, &mut rng);
        let result = catch_unwind(AssertUnwindSafe(|| redo(&vector)));
        let (_, error) = result.unwrap_or_else(|_| panic!("{}: {mutation}", vector.name));
        if let Some(error @ Error::Internal(_)) = &error {
            panic!("{}: {mutation}: {error}", vector.name);
        }
        tried[usize::from(error.is_some())] += 1;
    }
    assert!(tried.iter().all(|count| *count >= 20), "{tried:?}");
}
