//! Creates arrays. All checks are made before the first byte is written.

use std::path::PathBuf;

use jetcell_vfs::{OpenMode, Vfs};

use super::Array;
use crate::error::{ArrayRefusal, Result};
use crate::geometry::{ArrayLayout, RaidLevel, ZONE_ROWS};
use crate::member::{
    ArrayConfig, Extents, LostRows, MemberDevice, MemberId, MemberLayout, SlotConfig, is_journal_size,
};

/// Options for creating an array.
#[derive(Clone, Debug)]
pub struct CreateArrayOptions {
    /// RAID level of the array.
    pub level: RaidLevel,
    /// Identity of the array, which is a random number.
    pub id: u128,
    /// Number of consecutive blocks on one member. Must be a power of two up to 64.
    pub chunk: u32,
    /// Number of blocks in each member's journal. Must be a power of two up to 4096.
    pub journal_images: u32,
    /// Whether to use members even if they contain data. The data is destroyed.
    pub force: bool,
}

impl CreateArrayOptions {
    /// Returns options with chunks of 64 KiB and a journal of 256 blocks.
    pub fn new(level: RaidLevel, id: u128) -> CreateArrayOptions {
        CreateArrayOptions { level, id, chunk: 16, journal_images: 256, force: false }
    }

    /// Returns the minimum length of a member with this many rows, in bytes.
    pub fn member_bytes(&self, rows: u64) -> u64 {
        MemberLayout::new(self.journal_images).bytes_for(rows)
    }
}

impl Array {
    /// Creates an array on existing files of equal length. The new array reads as zeros.
    pub fn create(vfs: &dyn Vfs, members: &[PathBuf], options: &CreateArrayOptions) -> Result<()> {
        let CreateArrayOptions { level, .. } = *options;
        if !level.member_counts().any(|count| count == members.len()) {
            return Err(ArrayRefusal::MemberCount { level, members: members.len() }.into());
        }
        if !options.chunk.is_power_of_two() || u64::from(options.chunk) > ZONE_ROWS {
            return Err(ArrayRefusal::ChunkSize.into());
        }
        if !is_journal_size(options.journal_images) {
            return Err(ArrayRefusal::JournalSize.into());
        }
        let mut devices = open_distinct(vfs, members, OpenMode::Write)?;
        let rows = common_rows(&devices, options)?;
        for device in &devices {
            if let Some(what) = device.describe_content()?.filter(|_| !options.force) {
                return Err(ArrayRefusal::HasData { path: device.path(), what }.into());
            }
        }
        let config = ArrayConfig {
            array: options.id,
            generation: 1,
            layout: ArrayLayout {
                level,
                chunk: options.chunk,
                rows,
                base_slots: members.len(),
                slots: members.len(),
            },
            journal_images: options.journal_images,
            slots: (1..=members.len() as MemberId)
                .map(|member| SlotConfig { member, ..SlotConfig::default() })
                .collect(),
            spares: vec![],
            next_member: members.len() as MemberId + 1,
            is_open: false,
            journal_floor: 1,
            scrub_cursor: 0,
            open_rows: Extents::default(),
            lost_rows: LostRows::default(),
            lifetime: Default::default(),
        };
        for (device, member) in devices.iter_mut().zip(1..) {
            device.layout = MemberLayout::new(options.journal_images);
            device.member = member;
            device.clear_records(config.layout.zones())?;
            device.sync()?;
        }
        devices.iter_mut().try_for_each(|device| device.write_superblocks(&config))
    }
}

/// Opens the members, which must be distinct files.
pub(super) fn open_distinct(vfs: &dyn Vfs, members: &[PathBuf], mode: OpenMode) -> Result<Vec<MemberDevice>> {
    for (index, path) in members.iter().enumerate() {
        if members[..index].iter().any(|other| vfs.same_file(other, path)) {
            return Err(ArrayRefusal::DuplicateMember(path.clone()).into());
        }
    }
    members.iter().map(|path| MemberDevice::open(vfs, path, mode)).collect()
}

fn common_rows(devices: &[MemberDevice], options: &CreateArrayOptions) -> Result<u64> {
    let layout = MemberLayout::new(options.journal_images);
    let expected = devices[0].len()?;
    for device in devices {
        let found = device.len()?;
        if found != expected {
            let first = devices[0].path();
            return Err(ArrayRefusal::SizeDiffers { path: device.path(), found, first, expected }.into());
        }
    }
    let (rows, needed) = (layout.rows_in(expected), layout.bytes_for(ZONE_ROWS));
    if rows == 0 {
        return Err(ArrayRefusal::TooSmall { path: devices[0].path(), found: expected, needed }.into());
    }
    Ok(rows)
}
