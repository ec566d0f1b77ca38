//! Tests that replay logs that Windows wrote on its databases. The result must be the pages that Windows wrote.

use std::path::{Path, PathBuf};

use ese_check::{CheckOptions, Finding, FindingKind, Severity, check_database};
use ese_engine::{BackgroundThreads, CacheSource, InstanceOptions, Replayer, Result};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::LogHeader;
use ese_format::page::Page;
use ese_format::{Generation, LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FileStem, SimVfs, Vfs};
use testkit::corpus::Corpus;

const SIZE: PageSize = PageSize::KIB_4;
const COPY: &str = "/copy/SRUDB.dat";

/// Paths of the generations of srum-server2022, from 1 on. The recycled file of snapshot B still contains generation
/// 2.
const GENERATIONS: [&str; 5] =
    ["a/SRU00001.log", "b/SRUtmp.log", "b/SRU00003.log", "b/SRU00004.log", "b/SRU.log"];

fn log(generation: usize) -> PathBuf {
    PathBuf::from(format!("/log/SRU{generation:05X}.log"))
}

/// Creates a disk with the logs of srum-server2022.
fn server2022(corpus: &Corpus) -> SimVfs {
    let disk = SimVfs::new();
    for directory in ["/log", "/copy"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    for (index, name) in GENERATIONS.iter().enumerate() {
        disk.put(&log(index + 1), &corpus.read(&format!("logsets/srum-server2022/{name}")));
    }
    disk
}

fn options(disk: &SimVfs) -> InstanceOptions {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut options = InstanceOptions::with_vfs(vfs, "/copy".into());
    (options.log.base_name, options.background, options.cache) =
        (FileStem::new("SRU").unwrap(), BackgroundThreads::None, CacheSource::Own { bytes: 1 << 20 });
    options.recovery.database_paths.search("/copy");
    options
}

fn header(bytes: &[u8]) -> DatabaseHeader {
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0
}

/// Returns the content of a page that redo determines: everything except the offsets of its nodes and the fields that
/// change with each write.
fn content(number: u32, bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return "zero".to_string();
    }
    let page = Page::new(bytes, SIZE);
    let nodes: Vec<_> = (0..page.node_count())
        .map(|line| page.node(line).map(|node| (node.key_to_vec(), node.data.to_vec(), node.flags)))
        .collect();
    let flags = page.flags().bits() & !(3 << 15);
    format!(
        "page {number}: {:?} {:?} {:?} {:?} {flags:x} free {} external {:x?} nodes {nodes:x?}",
        page.db_time(),
        page.prev(),
        page.next(),
        page.tree(),
        page.free_bytes(),
        page.external_header(),
    )
}

fn assert_equal(found: &[u8], expected: &[u8]) {
    // Windows had extended the file once more. It logs an extension only when the space is used.
    let (replayed, rest) = expected.split_at(found.len());
    assert!(rest.iter().all(|byte| *byte == 0));
    let expected = replayed;
    let pages = |bytes: &[u8]| bytes.chunks(SIZE.bytes()).skip(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    for (number, (found, expected)) in (1..).zip(pages(found).iter().zip(&pages(expected))) {
        assert_eq!(content(number, found), content(number, expected), "page {number}");
    }
    let (found, expected) = (header(found), header(expected));
    assert_eq!(
        (found.state, found.update, found.update_minor),
        (expected.state, expected.update, expected.update_minor)
    );
    assert_eq!(found.consistent_position, expected.consistent_position);
    assert_eq!(found.attach_position, expected.attach_position);
    assert_eq!((found.signature, found.log_signature), (expected.signature, expected.log_signature));
    assert_eq!(found.db_time, expected.db_time);
}

fn check(disk: &SimVfs) {
    let options = CheckOptions { structure: true, ..CheckOptions::default() };
    let report = check_database(disk, Path::new(COPY), &options).unwrap();
    // Windows left deleted nodes, and in one database it had lost track of free pages.
    let known =
        |finding: &&Finding| finding.severity == Severity::Info || finding.kind == FindingKind::SpaceLeak;
    let faults: Vec<_> = report.findings.iter().filter(|finding| !known(finding)).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// Replays up to a position of generation 2, or all generations.
fn replay(replayer: &mut Replayer, until: LogPosition) -> Result<()> {
    for generation in replayer.next().0..=5 {
        let path = log(generation as usize);
        if until.generation.0 == generation || generation == 5 {
            return replayer.replay_until(&path, until);
        }
        replayer.replay(&path)?;
    }
    Ok(())
}

#[test]
fn replay_from_the_first_log_reproduces_each_snapshot() {
    let Some(corpus) = Corpus::locate() else { return };
    let [a, b] =
        ["a", "b"].map(|snapshot| corpus.read(&format!("logsets/srum-server2022/{snapshot}/SRUDB.dat")));
    let disk = server2022(&corpus);
    let mut replayer = Replayer::open(options(&disk), &log(1)).unwrap();
    replay(&mut replayer, LogPosition::new(2, 2, 0)).unwrap();
    assert_equal(&disk.contents(Path::new(COPY)).unwrap(), &a);
    replay(&mut replayer, LogPosition::MAX).unwrap();
    replayer.check_complete().unwrap();
    let replayed = replayer.stop().unwrap();
    assert_eq!(replayed.records["Split2"], 41);
    assert_eq!(header(&disk.contents(Path::new(COPY)).unwrap()).state, DatabaseState::CleanShutdown);
    assert_equal(&disk.contents(Path::new(COPY)).unwrap(), &b);
    check(&disk);
}

/// Returns the generation from which redo of the copy starts. This is the first one if the copy does not exist.
fn first_needed(disk: &SimVfs) -> Generation {
    let Some(bytes) = disk.contents(Path::new(COPY)) else { return Generation(1) };
    let header = header(&bytes);
    match header.state {
        DatabaseState::DirtyShutdown => header.gen_min_required,
        _ => header.consistent_position.generation,
    }
}

/// Replays the missing generations with a separate replayer for each.
fn replay_one_by_one(disk: &SimVfs) -> Result<()> {
    for generation in first_needed(disk).0..=5 {
        let mut options = options(disk);
        options.checkpoint.depth = 64 << 10;
        let mut replayer = Replayer::open(options, &log(first_needed(disk).0 as usize))?;
        while replayer.next().0 < generation {
            replayer.replay(&log(replayer.next().0 as usize))?;
        }
        replayer.replay_until(&log(generation as usize), LogPosition::MAX)?;
        replayer.stop()?;
    }
    Ok(())
}

#[test]
fn replaying_generations_one_by_one_produces_the_same_pages() {
    let Some(corpus) = Corpus::locate() else { return };
    let disk = server2022(&corpus);
    replay_one_by_one(&disk).unwrap();
    let b = corpus.read("logsets/srum-server2022/b/SRUDB.dat");
    assert_equal(&disk.contents(Path::new(COPY)).unwrap(), &b);
    check(&disk);
}

/// Kills the replay, or cuts the power, at any operation. The next replay continues.
#[test]
fn a_replay_resumes_after_an_interruption_at_any_write() {
    let Some(corpus) = Corpus::locate() else { return };
    let b = corpus.read("logsets/srum-server2022/b/SRUDB.dat");
    let undisturbed = server2022(&corpus);
    let before = undisturbed.operations();
    replay_one_by_one(&undisturbed).unwrap();
    let operations = undisturbed.operations() - before;
    let (mut cuts, mut stopped) = (0, 0);
    for cut in (1..operations).step_by(2) {
        let disk = server2022(&corpus);
        disk.cut_power_after(disk.operations() + cut);
        if replay_one_by_one(&disk).is_err() {
            stopped += 1;
        }
        let disk = match cut % 2 {
            0 => disk.process_kill(),
            _ => disk.crash(cut, CrashOptions::default()),
        };
        replay_one_by_one(&disk).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        assert_equal(&disk.contents(Path::new(COPY)).unwrap(), &b);
        cuts += 1;
    }
    assert!(cuts > 50 && stopped > cuts / 2, "{stopped} of {cuts}");
}

/// Every page of the database has all changes in its log. Recovery makes the database clean and changes no page.
#[test]
fn a_dirty_windows_database_becomes_clean() {
    let Some(corpus) = Corpus::locate() else { return };
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/copy")).unwrap();
    for name in [
        "SRU00059.log",
        "SRU0005A.log",
        "SRU0005B.log",
        "SRU.log",
        "SRUtmp.log",
        "SRU.chk",
        "SRUDB.dat",
        "SRUDB.jfm",
    ] {
        disk.put(&Path::new("/copy").join(name), &corpus.read(&format!("logsets/srum-win11-dirty/{name}")));
    }
    let before = disk.contents(Path::new(COPY)).unwrap();
    let mut replayer = Replayer::open(options(&disk), Path::new("/copy/SRU.log")).unwrap();
    replayer.replay_until(Path::new("/copy/SRU.log"), LogPosition::MAX).unwrap();
    let (replayed, recovery) = replayer.finish().unwrap();
    assert_eq!((replayed.changed, recovery.rolled_back, recovery.left_attached), (0, 0, 1));
    let after = disk.contents(Path::new(COPY)).unwrap();
    assert!(before[2 * SIZE.bytes()..] == after[2 * SIZE.bytes()..]);
    let (old, new) = (header(&before), header(&after));
    assert_eq!((old.state, new.state), (DatabaseState::DirtyShutdown, DatabaseState::CleanShutdown));
    assert_eq!((new.update, new.update_minor, new.db_time), (old.update, old.update_minor, old.db_time));
    check(&disk);
    // The stream continues with its version and its file names, and names the database in the same way as Windows.
    let logs: Vec<_> = disk.list(Path::new("/copy")).unwrap();
    assert!(logs.contains(&"/copy/SRU0005C.log".into()), "{logs:?}");
    let [closed, current] = ["/copy/SRU0005C.log", "/copy/SRU.log"]
        .map(|path| LogHeader::decode(&disk.contents(Path::new(path)).unwrap()[..4096]).unwrap());
    assert_eq!(current.generation, Generation(0x5D));
    assert_eq!(
        (current.version_update, current.version_update_minor, current.engine_version),
        (closed.version_update, closed.version_update_minor, closed.engine_version)
    );
    assert!(closed.version_update > 5);
}

/// Checks that pages from a different time are reported: pages older than the log, and pages newer than the header of
/// the database allows.
#[test]
fn pages_with_a_mismatched_time_are_reported() {
    let Some(corpus) = Corpus::locate() else { return };
    let a = corpus.read("logsets/srum-server2022/a/SRUDB.dat");
    // A time before every change, and a time after all changes that the header allows.
    for (time, code) in [(1u64, -566), (1 << 40, -625)] {
        let (mut found, mut tried, mut by_code) = (0, 0, 0);
        for number in 1..=46u32 {
            let page = number as usize * SIZE.bytes() + SIZE.bytes();
            let mut bytes = a.clone();
            let place = &mut bytes[page..page + SIZE.bytes()];
            if place.iter().all(|byte| *byte == 0) {
                continue;
            }
            place[8..16].copy_from_slice(&time.to_le_bytes());
            ese_format::checksum::seal_page(place, SIZE, PageNumber::new(number).unwrap());
            let disk = server2022(&corpus);
            disk.put(Path::new(COPY), &bytes);
            let mut replayer = Replayer::open(options(&disk), &log(2)).unwrap();
            tried += 1;
            // The time of a page that the log does not change, or that it formats, is not checked.
            if let Err(error) = replay(&mut replayer, LogPosition::MAX) {
                // If redo did not read the page, the first reader of the page detects the error.
                let by_reader = error.to_string().contains("older than the log expects");
                assert!(error.jet_code() == code || by_reader, "{error}");
                by_code += usize::from(error.jet_code() == code);
                assert!(error.to_string().contains(&format!("page {number}: ")), "{error}");
                found += 1;
            }
        }
        assert!(found * 4 > tried && by_code > 0, "{code}: {by_code} of {found} of {tried}");
    }
}

/// A page with a time between those before and after a change belongs to another history.
#[test]
fn a_page_newer_than_a_change_expects_is_reported() {
    let Some(corpus) = Corpus::locate() else { return };
    let a = corpus.read("logsets/srum-server2022/a/SRUDB.dat");
    let mut named = 0;
    for number in 1..=46u32 {
        let at = number as usize * SIZE.bytes() + SIZE.bytes();
        let mut bytes = a.clone();
        let page = &mut bytes[at..at + SIZE.bytes()];
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let time = Page::new(page, SIZE).db_time().0 + 1;
        page[8..16].copy_from_slice(&time.to_le_bytes());
        ese_format::checksum::seal_page(page, SIZE, PageNumber::new(number).unwrap());
        let disk = server2022(&corpus);
        disk.put(Path::new(COPY), &bytes);
        let mut replayer = Replayer::open(options(&disk), &log(2)).unwrap();
        if let Err(error) = replay(&mut replayer, LogPosition::MAX)
            && error.jet_code() == -567
        {
            assert_eq!(error.jet_name(), "JET_errDbTimeTooNew");
            let text = error.to_string();
            assert!(text.contains(&format!("page {number}: ")) && text.contains(COPY), "{text}");
            // The damaged page was not changed, and the replayer stops.
            let after = disk.contents(Path::new(COPY)).unwrap();
            assert!(after[at..at + SIZE.bytes()] == bytes[at..at + SIZE.bytes()]);
            assert_eq!(replayer.checkpoint().unwrap_err().jet_code(), -567);
            named += 1;
        }
    }
    assert!(named > 3, "{named}");
}

/// On a full disk the replay stops, and continues when there is space.
#[test]
fn a_full_disk_pauses_the_replay_until_space_is_available() {
    let Some(corpus) = Corpus::locate() else { return };
    let b = corpus.read("logsets/srum-server2022/b/SRUDB.dat");
    let disk = server2022(&corpus);
    disk.set_capacity(disk.used() + (256 << 10));
    let error = replay_one_by_one(&disk).unwrap_err();
    assert!(matches!(error, ese_engine::Error::DiskFull { .. }), "{error}");
    assert_eq!((error.jet_code(), error.jet_name()), (-1808, "JET_errDiskFull"));
    disk.set_capacity(u64::MAX);
    replay_one_by_one(&disk).unwrap();
    assert_equal(&disk.contents(Path::new(COPY)).unwrap(), &b);
}
