//! Table of files: their names, lengths and extents, encoded with a checksum.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jetcell_array::BLOCK;
use twox_hash::XxHash3_64;

/// Number of blocks in each of the two areas of the table.
pub(super) const TABLE_AREA_BLOCKS: u64 = 256;

const MAGIC: [u8; 8] = *b"JETFILES";
/// Number of bytes before the first file.
const HEADER_BYTES: usize = 48;
/// Offset at which the checksummed bytes start.
const CHECKSUM_START: usize = 16;

pub(super) type FileNodeId = u64;

/// A file that has a name or is open.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct FileNode {
    len: u64,
    /// Blocks of the array, in file order.
    extents: Vec<Range<u64>>,
}

/// The file table, stored as follows:
///
/// ```text
/// offset  bytes
///      0      8  "JETFILES"
///      8      8  checksum (XXH3) from byte 16 to the end of the last file
///     16      8  state number; the table with the highest state number is current
///     24      8  reserve: array blocks from here on were never written
///     32      8  length in bytes, up to the end of the last file
///     40      8  number of files
///     48         files: name length (8), file length (8), number of extents (8), name,
///                extents (start 8, end 8)
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct FileTable {
    pub sequence: u64,
    pub reserve: u64,
    names: BTreeMap<PathBuf, FileNodeId>,
    nodes: BTreeMap<FileNodeId, FileNode>,
    next_node: FileNodeId,
}

impl FileTable {
    /// Creates a table without files.
    pub fn with_reserve(reserve: u64) -> FileTable {
        FileTable { reserve, ..FileTable::default() }
    }

    pub fn names(&self) -> impl Iterator<Item = &PathBuf> {
        self.names.keys()
    }

    pub fn find(&self, name: &Path) -> Option<FileNodeId> {
        self.names.get(name).copied()
    }

    /// Adds a file without content.
    pub fn create(&mut self, name: &Path) -> FileNodeId {
        let node = self.next_node;
        self.next_node += 1;
        self.nodes.insert(node, FileNode::default());
        self.names.insert(name.to_path_buf(), node);
        node
    }

    pub fn unlink(&mut self, name: &Path) -> Option<FileNodeId> {
        self.names.remove(name)
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> Option<()> {
        let node = self.names.remove(from)?;
        self.names.insert(to.to_path_buf(), node);
        Some(())
    }

    /// Removes files that have no name any more and are not open. Returns their extents.
    pub fn remove_unnamed(&mut self, is_open: impl Fn(&FileNodeId) -> bool) -> Vec<Range<u64>> {
        let named: std::collections::BTreeSet<FileNodeId> = self.names.values().copied().collect();
        let mut extents = vec![];
        self.nodes.retain(|node, content| {
            let stays = named.contains(node) || is_open(node);
            if !stays {
                extents.append(&mut content.extents);
            }
            stays
        });
        extents
    }

    fn node(&self, node: FileNodeId) -> &FileNode {
        self.nodes.get(&node).expect("open and named files have nodes")
    }

    fn node_mut(&mut self, node: FileNodeId) -> &mut FileNode {
        self.nodes.get_mut(&node).expect("open and named files have nodes")
    }

    pub fn len(&self, node: FileNodeId) -> u64 {
        self.node(node).len
    }

    pub fn set_len(&mut self, node: FileNodeId, len: u64) {
        self.node_mut(node).len = len;
    }

    pub fn blocks_of(&self, node: FileNodeId) -> u64 {
        self.node(node).extents.iter().map(|extent| extent.end - extent.start).sum()
    }

    pub fn add_extent(&mut self, node: FileNodeId, extent: Range<u64>) {
        let extents = &mut self.node_mut(node).extents;
        match extents.last_mut() {
            Some(last) if last.end == extent.start => last.end = extent.end,
            _ => extents.push(extent),
        }
    }

    /// Removes all blocks after the first `blocks` blocks from a file, and returns the removed blocks.
    pub fn truncate(&mut self, node: FileNodeId, blocks: u64) -> Vec<Range<u64>> {
        let (mut kept, mut cut, mut left) = (vec![], vec![], blocks);
        for extent in std::mem::take(&mut self.node_mut(node).extents) {
            let count = (extent.end - extent.start).min(left);
            let border = extent.start + count;
            kept.extend(Some(extent.start..border).filter(|part| !part.is_empty()));
            cut.extend(Some(border..extent.end).filter(|part| !part.is_empty()));
            left -= count;
        }
        self.node_mut(node).extents = kept;
        cut
    }

    /// Returns the blocks of the array that store `count` blocks of a file, starting at block `first`. The file must
    /// have these blocks.
    pub fn map(&self, node: FileNodeId, first: u64, count: u64) -> Vec<Range<u64>> {
        let (mut found, mut at, end) = (vec![], 0, first + count);
        for extent in &self.node(node).extents {
            let len = extent.end - extent.start;
            let (from, to) = (first.max(at), end.min(at + len));
            if from < to {
                found.push(extent.start + (from - at)..extent.start + (to - at));
            }
            at += len;
        }
        found
    }

    /// Returns the files that contain some of these array blocks, with the numbers of the blocks within the file. The
    /// ranges must be in order and disjoint.
    pub fn files_at(&self, blocks: &[Range<u64>]) -> Vec<(PathBuf, Range<u64>)> {
        let mut found: Vec<(PathBuf, Range<u64>)> = vec![];
        for (name, node) in &self.names {
            let mut at = 0;
            for extent in &self.node(*node).extents {
                let first = blocks.partition_point(|range| range.end <= extent.start);
                for range in blocks[first..].iter().take_while(|range| range.start < extent.end) {
                    let (start, end) = (extent.start.max(range.start), extent.end.min(range.end));
                    let part = at + (start - extent.start)..at + (end - extent.start);
                    match found.last_mut() {
                        Some((file, last)) if file == name && last.end == part.start => last.end = part.end,
                        _ => found.push((name.clone(), part)),
                    }
                }
                at += extent.end - extent.start;
            }
        }
        found
    }

    pub fn extents(&self) -> impl Iterator<Item = &Range<u64>> {
        self.nodes.values().flat_map(|node| &node.extents)
    }

    /// Encodes the table, padded to whole blocks. Files without a name are skipped.
    ///
    /// # Errors
    /// Returns an error if the table has no room for all files.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEADER_BYTES];
        for (name, node) in &self.names {
            let (name, node) = (name.as_os_str().as_bytes(), self.node(*node));
            for number in [name.len() as u64, node.len, node.extents.len() as u64] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(name);
            for number in node.extents.iter().flat_map(|extent| [extent.start, extent.end]) {
                bytes.extend(number.to_le_bytes());
            }
        }
        let end = bytes.len();
        if end > TABLE_AREA_BLOCKS as usize * BLOCK {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the file table of the array is full"));
        }
        for (index, number) in
            [self.sequence, self.reserve, end as u64, self.names.len() as u64].into_iter().enumerate()
        {
            bytes[16 + 8 * index..][..8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&bytes[CHECKSUM_START..]);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(end.next_multiple_of(BLOCK), 0);
        Ok(bytes)
    }

    /// Decodes a table. Returns `None` if the bytes are not a table, or refer to blocks beyond the end of an array
    /// with this many blocks.
    pub fn decode(bytes: &[u8], blocks: u64) -> Option<FileTable> {
        let end = usize::try_from(number(bytes, 32)?).ok()?;
        let bytes = bytes.get(..end).filter(|bytes| bytes.len() >= HEADER_BYTES)?;
        if bytes[..8] != MAGIC || number(bytes, 8)? != XxHash3_64::oneshot(&bytes[CHECKSUM_START..]) {
            return None;
        }
        let mut table =
            FileTable { sequence: number(bytes, 16)?, reserve: number(bytes, 24)?, ..FileTable::default() };
        let reserve = table.reserve;
        // Extents are at most as long as the array, so sums of them cannot overflow.
        if reserve > blocks {
            return None;
        }
        let is_possible = |extent: &Range<u64>| {
            2 * TABLE_AREA_BLOCKS <= extent.start && extent.start < extent.end && extent.end <= reserve
        };
        let mut at = HEADER_BYTES;
        for _ in 0..number(bytes, 40)? {
            let [name, len, extents] = [number(bytes, at)?, number(bytes, at + 8)?, number(bytes, at + 16)?];
            at += 24;
            let name = bytes.get(at..at.checked_add(usize::try_from(name).ok()?)?)?;
            at += name.len();
            let node = table.create(Path::new(OsStr::from_bytes(name)));
            for _ in 0..extents {
                let extent = number(bytes, at)?..number(bytes, at + 8)?;
                at += 16;
                table.node_mut(node).extents.push(Some(extent).filter(is_possible)?);
            }
            if table.blocks_of(node).checked_mul(BLOCK as u64).is_none_or(|room| len > room) {
                return None;
            }
            table.set_len(node, len);
        }
        let mut all: Vec<&Range<u64>> = table.extents().collect();
        all.sort_by_key(|extent| extent.start);
        let is_sound = all.windows(2).all(|pair| pair[0].end <= pair[1].start);
        (is_sound && at == end).then_some(table)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of extents, some with one extent")]
mod tests {
    use super::*;

    fn table() -> FileTable {
        let mut table = FileTable { sequence: 7, reserve: 4000, ..FileTable::default() };
        for (name, extents, len) in
            [("a/b", vec![512..700, 900..901], 189 * 4096), ("c", vec![], 0), ("d", vec![700..702], 5000)]
        {
            let node = table.create(Path::new(name));
            extents.into_iter().for_each(|extent| table.add_extent(node, extent));
            table.set_len(node, len);
        }
        table
    }

    #[test]
    fn a_table_round_trips_and_every_bit_flip_is_rejected() {
        let bytes = table().encode().unwrap();
        assert_eq!(FileTable::decode(&bytes, 4000), Some(table()));
        assert_eq!(FileTable::decode(&bytes, 3999), None, "the reserve is past the end");
        let end = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        for bit in 0..end * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileTable::decode(&damaged, 4000), None, "bit {bit}");
        }
        assert!(
            (0..bytes.len())
                .step_by(40)
                .all(|len| len >= end || FileTable::decode(&bytes[..len], 4000).is_none())
        );
    }

    #[test]
    fn blocks_of_the_array_are_traced_to_files() {
        let table = table();
        let found = |blocks: &[Range<u64>]| -> Vec<(String, Range<u64>)> {
            let files = table.files_at(blocks).into_iter();
            files.map(|(name, range)| (name.display().to_string(), range)).collect()
        };
        let part = |name: &str, range: Range<u64>| (name.to_string(), range);
        assert!(found(&[0..512, 702..900, 901..4000]).is_empty());
        assert_eq!(found(&[600..701]), [part("a/b", 88..188), part("d", 0..1)]);
        assert_eq!(found(&[500..513, 699..700, 900..902]), [part("a/b", 0..1), part("a/b", 187..189)]);
    }

    #[test]
    fn inconsistent_tables_with_valid_checksums_are_rejected() {
        let lies: [fn(&mut FileTable); 5] = [
            |table| table.node_mut(0).len += 1,
            |table| table.node_mut(0).extents[0].start = 511,
            |table| table.node_mut(0).extents[1] = 600..601,
            |table| table.node_mut(2).extents[0] = Range { start: 702, end: 700 },
            |table| table.reserve = 900,
        ];
        for lie in lies {
            let mut table = table();
            lie(&mut table);
            assert_eq!(FileTable::decode(&table.encode().unwrap(), 4000), None);
        }
    }

    #[test]
    fn extents_whose_total_overflows_are_rejected() {
        let mut table = FileTable { reserve: u64::MAX, ..table() };
        table.node_mut(0).extents = vec![512..u64::MAX; 3];
        assert_eq!(FileTable::decode(&table.encode().unwrap(), 4000), None);
    }

    #[test]
    fn files_are_mapped_truncated_and_removed() {
        let mut table = table();
        assert_eq!(table.map(0, 186, 3), [698..700, 900..901]);
        assert_eq!(table.map(0, 188, 1), [900..901]);
        assert_eq!(table.truncate(0, 100), [612..700, 900..901]);
        assert_eq!(table.blocks_of(0), 100);
        table.unlink(Path::new("d")).unwrap();
        assert_eq!(table.remove_unnamed(|node| *node == 2), []);
        assert_eq!(table.remove_unnamed(|_| false), vec![700..702]);
    }
}
