//! Content of blocks for tests, and the settings of long tests.

use jetcell_array::{BLOCK, BlockStore, CreateArrayOptions, RaidLevel, Result};
use jetcell_vfs::IoBuffer;

/// Returns the content of a block with this value: every word has this value.
pub fn content(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK / 8)
}

/// Returns a buffer with a copy of these bytes.
pub fn copy_to_buffer(bytes: &[u8]) -> IoBuffer {
    let mut copy = IoBuffer::zeroed(bytes.len());
    copy.copy_from_slice(bytes);
    copy
}

/// Writes blocks from an owned buffer, as a transfer does. Then overwrites the buffer received in exchange.
pub fn write_transfer(store: &mut dyn BlockStore, first: u64, data: &[u8]) -> Result<()> {
    let mut buffer = copy_to_buffer(data);
    let result = store.write_buffer(first, &mut buffer);
    assert_eq!((buffer.len(), buffer.capacity()), (data.len(), data.len()));
    buffer.fill(0xEE);
    result
}

/// Returns the length of a member with this journal size and number of rows, in bytes.
pub fn member_bytes(journal_images: u32, rows: u64) -> u64 {
    CreateArrayOptions { journal_images, ..CreateArrayOptions::new(RaidLevel::Raid6, 1) }.member_bytes(rows)
}

pub fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
