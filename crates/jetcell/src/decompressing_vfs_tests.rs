use ese_format::checksum::header_checksum;
use ese_format::flush_map::{FILE_TYPE_FLUSH_MAP, FLUSH_MAP_PAGE_LEN};
use ese_format::header::DATABASE_MAGIC;
use ese_format::recognise::FILE_TYPE_AT;
use ese_format::{LogPosition, Signature};
use jetcell_vfs::IoReason;

use super::*;

/// A directory with files, and the file system through which commands read them.
struct UnpackFixture {
    dir: tempfile::TempDir,
    vfs: DecompressingVfs,
}

impl UnpackFixture {
    fn new(max_unpacked: Option<u64>) -> UnpackFixture {
        UnpackFixture::with(UnpackOptions { max_unpacked: max_unpacked.map(ByteSize), ..Default::default() })
    }

    fn with(options: UnpackOptions) -> UnpackFixture {
        let real = RealOptions { direct: false, ..RealOptions::default() };
        UnpackFixture {
            dir: tempfile::tempdir().unwrap(),
            vfs: DecompressingVfs::new(real, options).unwrap(),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = Vfs::open(&self.vfs, path, OpenMode::Read)?;
        assert_eq!(file.path(), path);
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes, IoReason::Verify)?;
        Ok(bytes)
    }
}

/// Returns the first bytes of a database.
fn database_start() -> Vec<u8> {
    let mut start = vec![0; 4096];
    start[4..8].copy_from_slice(&DATABASE_MAGIC.to_le_bytes());
    start
}

/// Returns a packed file that starts with the given bytes, followed by zeros up to `len`. Packing it uses little
/// memory.
fn packed_zeros(start: &[u8], len: u64) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(start).unwrap();
    io::copy(&mut io::repeat(0).take(len - start.len() as u64), &mut encoder).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_read_as_content_and_other_files_unchanged() {
    let site = UnpackFixture::new(None);
    let mut content = database_start();
    content.extend((0..100_000u32).flat_map(u32::to_le_bytes));
    let packed = zstd::encode_all(content.as_slice(), 3).unwrap();
    assert!(site.read(&site.write("a.edb.zst", &packed)).unwrap() == content);
    assert!(
        site.read(&site.write("a.edb", &packed)).unwrap() == packed,
        "the name says that it is not compressed"
    );
    assert!(site.read(&site.write("b.edb.zst", &content)).unwrap() == content, "the content says so");
    let cut = site.read(&site.write("c.zst", &packed[..packed.len() / 2])).unwrap_err().to_string();
    assert!(cut.contains("the compressed content is damaged"), "{cut}");
    assert!(site.read(&site.dir.path().join("none.zst")).is_err());
}

/// Returns the bytes as a gzip file.
fn gzip(bytes: impl Read) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
    packed
}

#[test]
fn gzip_files_read_as_content_within_the_same_limits() {
    let site = UnpackFixture::new(Some(10 << 20));
    let mut content = database_start();
    content.extend((0..100_000u32).flat_map(u32::to_le_bytes));
    let packed = gzip(content.as_slice());
    assert!(site.read(&site.write("a.edb.gz", &packed)).unwrap() == content);
    let (one, other) = content.split_at(5000);
    assert!(site.read(&site.write("b.edb.GZ", &[gzip(one), gzip(other)].concat())).unwrap() == content);
    assert!(site.read(&site.write("a.edb", &packed)).unwrap() == packed, "the name does not end in .gz");
    assert!(site.read(&site.write("c.edb.gz", &content)).unwrap() == content, "the content is not packed");
    let cut = site.read(&site.write("cut.gz", &packed[..packed.len() / 2])).unwrap_err().to_string();
    assert!(cut.contains("the compressed content is damaged"), "{cut}");
    let zeros = |start: &[u8], len: u64| gzip(start.chain(io::repeat(0).take(len - start.len() as u64)));
    let large = site.write("large.gz", &zeros(&database_start(), (10 << 20) + 1));
    let error = site.read(&large).unwrap_err().to_string();
    assert!(error.contains("exceeds 10MiB") && error.contains("--max-unpacked"), "{error}");
    let other = site.write("other.gz", &zeros(b"no database", 20 << 20));
    assert_eq!(site.read(&other).unwrap().len(), START_LEN);
}

#[test]
fn several_files_in_one_compressed_file_are_refused() {
    let site = UnpackFixture::new(None);
    let database = testkit::samples::read("engine-4k.edb");
    let log = testkit::samples::read(testkit::samples::ENGINE_LOG);
    let zst = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    let page = Checkpoint::new(LogPosition::new(1, 8, 0), Signature::default()).encode();
    let checkpoint = [&page[..], &page].concat();
    let mut map = vec![0; 4 * FLUSH_MAP_PAGE_LEN];
    map[FILE_TYPE_AT..FILE_TYPE_AT + 4].copy_from_slice(&FILE_TYPE_FLUSH_MAP.to_le_bytes());
    let checksum = header_checksum(&map[..FLUSH_MAP_PAGE_LEN]);
    map[..4].copy_from_slice(&checksum.to_le_bytes());
    let files = [&database, &log, &checkpoint, &map];
    for (first, second) in files.iter().flat_map(|first| files.iter().map(move |second| (*first, *second))) {
        let packed = [
            site.write("a.gz", &[gzip(&first[..]), gzip(&second[..])].concat()),
            site.write("a.zst", &[zst(first), zst(second)].concat()),
        ];
        for path in packed {
            let error = site.read(&path).unwrap_err().to_string();
            assert!(error.contains("contains several ESE files"), "{error}");
        }
    }
    for at in [1, CHECKPOINT_LEN - 1, CHECKPOINT_LEN, CHECKPOINT_LEN + 1] {
        let (one, other) = checkpoint.split_at(at);
        let path = site.write("c.gz", &[gzip(one), gzip(other)].concat());
        assert!(site.read(&path).unwrap() == checkpoint, "{at}");
    }
    // A file that follows a text is not an additional one.
    let path = site.write("d.gz", &[gzip(&b"text"[..]), gzip(&database[..])].concat());
    assert_eq!(site.read(&path).unwrap().len(), START_LEN);
    // Programs that compress in parallel make several members of one file.
    for at in [1, 4096, 5000, START_LEN - 1, START_LEN, START_LEN + 1, database.len()] {
        let (one, other) = database.split_at(at);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0], &[7; 4][..]].concat();
        let packed = [
            site.write("b.gz", &[gzip(one), gzip(&b""[..]), gzip(other)].concat()),
            site.write("b.zst", &[zst(one), skippable, zst(other)].concat()),
        ];
        for path in packed {
            assert!(site.read(&path).unwrap() == database, "{at}: {}", path.display());
        }
    }
}

#[test]
fn a_range_of_a_file_is_read() {
    let range = |offset: u64, length: Option<u64>| UnpackOptions {
        offset: Some(ByteSize(offset)),
        length: length.map(ByteSize),
        ..Default::default()
    };
    let content: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
    for (offset, length) in [(0, Some(4096)), (1000, None), (40_000, None), (513, Some(39_487))] {
        let site = UnpackFixture::with(range(offset, length));
        let end = length.map_or(content.len(), |length| (offset + length) as usize);
        let path = site.write("image.gz", &content);
        assert!(site.read(&path).unwrap() == content[offset as usize..end], "{offset}");
    }
    for (offset, length) in [(40_001, None), (513, Some(39_488))] {
        let site = UnpackFixture::with(range(offset, length));
        let error = site.read(&site.write("image", &content)).unwrap_err().to_string();
        assert!(error.contains("only 40000 bytes"), "{error}");
    }
}

#[test]
fn content_that_is_not_an_ese_file_is_not_unpacked() {
    let site = UnpackFixture::new(None);
    let bomb = site.write("bomb.edb.zst", &packed_zeros(b"no database", 2 << 30));
    assert_eq!(site.read(&bomb).unwrap().len(), START_LEN);
    let short = site.write("short.zst", &packed_zeros(b"no database", 100));
    assert_eq!(site.read(&short).unwrap().len(), 100);
}

#[test]
fn a_file_that_unpacks_to_more_than_the_limit_is_refused() {
    let site = UnpackFixture::new(Some(10 << 20));
    let large = site.write("large.edb.zst", &packed_zeros(&database_start(), (10 << 20) + 1));
    let error = site.read(&large).unwrap_err().to_string();
    assert!(error.contains("exceeds 10MiB") && error.contains("--max-unpacked"), "{error}");
    let fits = site.write("fits.edb.zst", &packed_zeros(&database_start(), 10 << 20));
    assert_eq!(site.read(&fits).unwrap().len(), 10 << 20);
}

#[test]
fn the_default_limit_follows_the_packed_size() {
    let site = UnpackFixture::new(None);
    let plain = tempfile::tempfile().unwrap();
    let limit = |packed| site.vfs.limit(packed, &plain).unwrap();
    assert_eq!(limit(218 << 10).requested, DEFAULT_MAX_BYTES);
    assert_eq!(limit(1 << 30).requested, DEFAULT_MAX_RATIO << 30);
    let space = UnpackLimit { requested: u64::MAX, free_space: 1 << 20 };
    let error = space.check((1 << 20) + 1).unwrap_err().to_string();
    assert!(error.contains("TMPDIR") && space.check(1 << 20).is_ok(), "{error}");
}

#[test]
fn skippable_frames_before_the_content_are_skipped() {
    let site = UnpackFixture::new(None);
    let mut content = database_start();
    content.resize(100_000, 7);
    let packed = zstd::encode_all(content.as_slice(), 3).unwrap();
    for first in [0x50, 0x5f] {
        let skippable = [&[first, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"hello"].concat();
        let path = site.write("a.edb.zst", &[&skippable[..], &skippable, &packed].concat());
        assert!(site.read(&path).unwrap() == content);
        // Frames without content, and a frame that extends past the end of the file.
        assert_eq!(site.read(&site.write("b.edb.zst", &skippable)).unwrap(), b"");
        let cut = [first, 0x2a, 0x4d, 0x18, 255, 255, 255, 255];
        assert!(site.read(&site.write("c.edb.zst", &cut)).is_err());
    }
}
