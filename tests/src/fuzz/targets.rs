//! The targets and the properties that they assert.

use std::path::Path;
use std::sync::Arc;

use ese_engine::{BackgroundThreads, CacheSource, InstanceOptions, Replayer};
use ese_format::checkpoint::Checkpoint;
use ese_format::checksum::{
    BlockIntegrity, PageIntegrity, header_checksum, seal_page, seal_segment, verify_page, verify_segment,
};
use ese_format::header::DatabaseHeader;
use ese_format::log::header::LogHeader;
use ese_format::log::record::{LogRecord, record_len};
use ese_format::long_value::{LongValueKey, LongValueRoot, decode_chunk};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut, validate};
use ese_format::record::{Column, ColumnId, ColumnType, ColumnValue, Record, Value, layout_fixed_columns};
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{Generation, LogPosition, PageNumber, PageSize};
use jetcell_vfs::{FileStem, SimVfs, Vfs};

/// Returns the page size for an input of this length: the largest page size that the input fills, or 4 KiB.
fn page_size(len: usize) -> PageSize {
    let sizes = [PageSize::KIB_32, PageSize::KIB_16, PageSize::KIB_8];
    sizes.into_iter().find(|size| len >= size.bytes()).unwrap_or(PageSize::KIB_4)
}

/// Target for database pages. Reading accepts any bytes, and a valid page stays valid after any edit.
pub fn page(data: &[u8]) {
    let size = page_size(data.len());
    let mut bytes = data.to_vec();
    bytes.resize(size.bytes(), 0);
    let number = PageNumber::fixed(7);
    let verdict = verify_page(&mut bytes, size, number);
    if matches!(verdict, PageIntegrity::Repaired { .. }) {
        assert_eq!(verify_page(&mut bytes, size, number), PageIntegrity::Good, "repaired, but not good");
    }
    // The nodes of a freed or never filled page are stale, and validation does not check them.
    let stale = PageFlags::EMPTY | PageFlags::PRE_INIT;
    let view = Page::new(&bytes, size);
    let in_use = !view.flags().intersects(stale) && view.db_time().0 < u64::MAX - 3;
    let valid = in_use && validate(&bytes, size).is_ok();
    read_page(&Page::new(&bytes, size), valid);
    // Editing must not panic, even on invalid pages.
    edit(&mut bytes, size, valid);
    seal_page(&mut bytes, size, number);
    assert_eq!(verify_page(&mut bytes, size, number), PageIntegrity::Good, "sealed, but not good");
}

fn read_page(page: &Page<'_>, valid: bool) {
    let count = page.node_count();
    let decoded = page.nodes().take(count).count();
    if valid {
        assert_eq!(decoded, count, "a valid page has a node that cannot be decoded");
    }
    for node in page.nodes() {
        let key = node.key_to_vec();
        assert_eq!(node.cmp_key(&key), std::cmp::Ordering::Equal);
        assert!(page.lower_bound(&key).0 <= count);
        let key_data = [key.as_slice(), node.data].concat();
        assert_eq!(node.cmp_key_data(&key_data), std::cmp::Ordering::Equal);
        let _ = (page.lower_bound_key_data(&key_data), page.child_for(&key), node.child());
        let _ = Extent::decode(&key, node.data);
    }
    let _ = SpaceHeader::decode(page.external_header());
    let _ = SplitReserve::decode(page.external_header());
    let _ = (page.prefix(), page.contiguous_free(), page.used_space(0..count), page.prefix_for(0..count));
}

fn edit(bytes: &mut [u8], size: PageSize, valid: bool) {
    let check = |bytes: &[u8], what: &str| {
        // A leaf may become empty when its last node is removed, but the rest of the page must stay valid.
        if valid {
            assert_eq!(validate(bytes, size), Ok(()), "{what} broke a valid page");
        }
    };
    let mut page = PageMut::new(bytes, size);
    // The caller of an edit must respect the space that is reserved for rollbacks.
    page.set_uncommitted_free(0);
    let count = page.as_page().node_count();
    let last_key = count.checked_sub(1).and_then(|last| Some(page.as_page().node(last)?.key_to_vec()));
    let leaf = page.as_page().is_leaf();
    if leaf {
        let key = [last_key.unwrap_or_default().as_slice(), b"more"].concat();
        let _ = page.insert_node(count, NodeFlags::VERSIONED, &key, b"data of the new node");
        check(bytes, "insert");
        let mut page = PageMut::new(bytes, size);
        let _ = page.replace_data(0, &[0x55; 300]);
        check(bytes, "a growing replace");
        let mut page = PageMut::new(bytes, size);
        let _ = page.replace_data(count, b"x");
        check(bytes, "a shrinking replace");
    }
    let mut page = PageMut::new(bytes, size);
    page.delete_node(count / 2);
    if leaf {
        check(bytes, "delete");
    }
}

/// Target for database headers and checkpoint pages. A decoded value must be unchanged after encoding and decoding.
pub fn header(data: &[u8]) {
    // Mutations have a wrong checksum. With a valid checksum, decoding continues to the fields.
    let mut sealed = data.to_vec();
    if let Some(page) = sealed.get_mut(..4096) {
        let checksum = header_checksum(page);
        page[..4].copy_from_slice(&checksum.to_le_bytes());
    }
    let data = sealed.as_slice();
    let _ = DatabaseHeader::read_from_start(data);
    if let Ok(header) = DatabaseHeader::decode(data) {
        let len = header.page_size.bytes();
        let mut encoded = header.encode();
        // A stored page size of 0 means 4096 and is encoded as 4096.
        let stored_zero = data[236..240] == [0; 4];
        if stored_zero {
            encoded[..4].copy_from_slice(&data[..4]);
            encoded[236..240].fill(0);
        }
        assert!(encoded == data[..len], "a header changed by decoding and encoding");
    }
    if let Ok(checkpoint) = Checkpoint::decode(data) {
        let _ = checkpoint.attachments();
        // Bytes after the known fields are not preserved.
        assert_eq!(Checkpoint::decode(&checkpoint.encode()), Ok(checkpoint), "a checkpoint changed");
    }
}

/// Target for log segments: the checksum, and the records, each of which must encode to its original bytes.
pub fn log_segment(data: &[u8]) {
    let mut segment = data.to_vec();
    segment.resize(4096, 0);
    if verify_segment(&mut segment, 1) == BlockIntegrity::Repaired {
        assert_eq!(verify_segment(&mut segment, 1), BlockIntegrity::Good, "repaired, but not good");
    }
    let mut rest = &segment[40..];
    while !rest.is_empty() {
        let len = record_len(rest);
        let Ok((record, used)) = LogRecord::decode(rest) else { break };
        assert!(used > 0 && used <= rest.len(), "a record of {used} bytes among {}", rest.len());
        assert_eq!(len.ok(), Some(used), "record_len and decode disagree");
        assert!(record.to_bytes() == rest[..used], "{} changed by decoding and encoding", record.name());
        rest = &rest[used..];
    }
}

/// Target for the data of a leaf node, which is read as a record, a long-value node, and a compressed value.
pub fn record(data: &[u8]) {
    for size in [PageSize::KIB_4, PageSize::KIB_32] {
        let record = Record::new(data, size);
        let valid = record.validate().is_ok();
        let tagged = record.tagged();
        assert!(!valid || tagged.is_ok(), "a valid record has tagged columns that cannot be read");
        let mut columns = [
            Column::new(1, "fixed", ColumnType::Long, 4),
            Column::new(2, "second", ColumnType::Guid, 16),
            Column::new(128, "variable", ColumnType::Binary, 255),
            Column::new(200, "late", ColumnType::Text, 255),
            Column::new(256, "tagged", ColumnType::LongBinary, 0),
        ];
        layout_fixed_columns(&mut columns);
        for column in &columns {
            let value = record.get(column);
            assert!(
                !valid || column.id <= ColumnId(127) || value.is_ok(),
                "a valid record has an unreadable {column:?}"
            );
            if let Ok(ColumnValue::Bytes(bytes)) = record.get_or_default(column) {
                let _ = Value::decode(column, bytes);
            }
        }
    }
    let _ = (LongValueKey::decode(data), LongValueRoot::decode(data), decode_chunk(data, 4014));
}

/// Target for log files. The file is the first generation of a stream that a replayer follows. The checksums are
/// corrected, which lets the replay reach the records. The replay may fail, but must not panic or use unbounded
/// memory.
pub fn replay(data: &[u8]) {
    let mut bytes = data.get(..data.len().min(1 << 20) / 4096 * 4096).unwrap_or_default().to_vec();
    let Some((head, segments)) = bytes.split_first_chunk_mut::<4096>() else { return };
    let checksum = header_checksum(&head[..]);
    head[..4].copy_from_slice(&checksum.to_le_bytes());
    let Ok(mut header) = LogHeader::decode(&head[..]) else { return };
    header.generation = Generation(1);
    header.file_segments = (segments.len() / 4096 + 1) as u16;
    header.database_page_size = 4096;
    head.copy_from_slice(&header.encode());
    for (index, segment) in (1u32..).zip(segments.chunks_exact_mut(4096)) {
        if segment.iter().any(|byte| *byte != 0) {
            let position = LogPosition::new(1, index as u16, 0);
            segment[8..16].copy_from_slice(&position.to_u64().to_le_bytes());
            segment[24..40].fill(0);
            segment[37] = 0x20;
            seal_segment(segment, index);
        }
    }
    let disk = SimVfs::new();
    ["/log", "/copy"].iter().for_each(|path| disk.create_directory(Path::new(path)).unwrap());
    let path = Path::new("/log/SRU00001.log");
    disk.put(path, &bytes);
    disk.set_capacity(disk.used() + (8 << 20));
    let mut options = InstanceOptions::with_vfs(Arc::new(disk.clone()), "/copy".into());
    (options.log.base_name, options.background, options.cache) =
        (FileStem::new("SRU").unwrap(), BackgroundThreads::None, CacheSource::Own { bytes: 1 << 20 });
    options.recovery.database_paths.search("/copy");
    let Ok(mut replayer) = Replayer::open(options, path) else { return };
    if replayer.replay_until(path, LogPosition::MAX).is_ok() {
        let _ = replayer.stop();
    }
}
