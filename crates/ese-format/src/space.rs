//! Space management of a tree: space header, extents, and split reserve.
//!
//! ```text
//!  space header (external header of an ordinary root)
//!  0               4             8       12
//!  | primary pages | parent root | flags | root of owned extents, or bitmap of free pages |
//!
//!  extent (node of a space tree):   key = u32 big-endian last page   data = u32 page count
//!                newest files:      key = u8 0x80 | pool, u32 big-endian last page
//!  split reserve (start of the external header of a space-tree root): two { u32 last page, u32 page count }
//! ```
//!
//! A tree starts with a single extent, whose free pages are the bits of a bitmap. A tree that outgrows its extent has
//! a tree of owned extents and a tree of available extents. The roots of these two trees are consecutive pages. Since
//! format 1568.30, the external header of a root may contain more. In this case, its first byte states what follows:
//! bit 0 the space header, bit 1 a u64 auto-increment value.

use crate::PageNumber;
use crate::checksum::u32_at;
use crate::page::SPLIT_RESERVE_LEN;

/// Error returned for bytes that are not a valid space header, extent, or split reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} of {len} bytes")]
pub struct SpaceError {
    /// Name of the structure that was expected.
    pub what: &'static str,
    /// Actual number of bytes.
    pub len: usize,
}

/// Space header of a tree. ESE: `SPACE_HEADER`.
#[doc(alias = "SPACE_HEADER")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceHeader {
    /// Number of pages in the first extent or, if [`SpaceHeader::counts_last_allocation`] is set, in the last
    /// allocation.
    #[doc(alias = "cpgPrimary")]
    pub primary_pages: u32,
    /// Root page of the parent tree, from which the pages were allocated. Absent for the database root.
    #[doc(alias = "pgnoParentFDP")]
    pub parent: Option<PageNumber>,
    /// Whether the tree has space trees. ESE: multiple extents, as opposed to a single extent.
    pub multiple: bool,
    /// Whether the tree is ordered by the combination of key and data, which allows duplicate keys.
    pub non_unique: bool,
    /// Whether `primary_pages` is the size of the last allocation ("v2").
    pub counts_last_allocation: bool,
    /// Root of the owned-extents tree if `multiple` is set. Otherwise, a bitmap in which bit k is set if the page
    /// with number root + 1 + k is free.
    pub owned_root_or_bitmap: u32,
}

impl SpaceHeader {
    /// Length on disk in bytes.
    pub const LEN: usize = 16;

    const MULTIPLE: u32 = 1;
    const NON_UNIQUE: u32 = 2;
    const V2: u32 = 4;

    /// Creates the header of a new tree in a single extent of `pages` pages, all free except the root.
    pub const fn single(pages: u32, parent: Option<PageNumber>, non_unique: bool) -> SpaceHeader {
        let free = pages.saturating_sub(1);
        let bitmap = if free >= 32 { u32::MAX } else { (1 << free) - 1 };
        SpaceHeader {
            primary_pages: pages,
            parent,
            multiple: false,
            non_unique,
            counts_last_allocation: false,
            owned_root_or_bitmap: bitmap,
        }
    }

    /// Creates the header of a tree with space trees.
    pub const fn multiple(
        pages: u32,
        parent: Option<PageNumber>,
        non_unique: bool,
        owned_root: PageNumber,
    ) -> SpaceHeader {
        SpaceHeader {
            primary_pages: pages,
            parent,
            multiple: true,
            non_unique,
            counts_last_allocation: false,
            owned_root_or_bitmap: owned_root.get(),
        }
    }

    /// Returns the root of the owned-extents tree. ESE: OE.
    #[doc(alias = "pgnoOE")]
    pub fn owned_root(&self) -> Option<PageNumber> {
        PageNumber::new(self.owned_root_or_bitmap).filter(|_| self.multiple)
    }

    /// Returns the root of the available-extents tree, which is the page after [`SpaceHeader::owned_root`]. ESE: AE.
    #[doc(alias = "pgnoAE")]
    pub fn available_root(&self) -> Option<PageNumber> {
        self.owned_root().map(|root| root.plus(1))
    }

    /// Returns the free-page bitmap of a tree in a single extent. Bit k is set if the page with number root + 1 + k
    /// is free.
    pub fn available_bitmap(&self) -> Option<u32> {
        if self.multiple { None } else { Some(self.owned_root_or_bitmap) }
    }

    /// Decodes the space header from a root page's external header.
    pub fn decode(external_header: &[u8]) -> Result<SpaceHeader, SpaceError> {
        let fault = SpaceError { what: "space header", len: external_header.len() };
        let bytes = match external_header {
            plain if plain.len() == SpaceHeader::LEN => plain,
            [present, rest @ ..] if present & 1 != 0 => rest,
            _ => return Err(fault),
        };
        let (Some(primary_pages), Some(parent), Some(flags), Some(last)) =
            (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8), u32_at(bytes, 12))
        else {
            return Err(fault);
        };
        let multiple = flags & SpaceHeader::MULTIPLE != 0;
        if multiple && last == 0 {
            return Err(fault);
        }
        Ok(SpaceHeader {
            primary_pages,
            parent: PageNumber::new(parent),
            multiple,
            non_unique: flags & SpaceHeader::NON_UNIQUE != 0,
            counts_last_allocation: flags & SpaceHeader::V2 != 0,
            owned_root_or_bitmap: last,
        })
    }

    /// Encodes the space header.
    pub fn encode(&self) -> [u8; SpaceHeader::LEN] {
        let flags = [
            (self.multiple, SpaceHeader::MULTIPLE),
            (self.non_unique, SpaceHeader::NON_UNIQUE),
            (self.counts_last_allocation, SpaceHeader::V2),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        words([self.primary_pages, PageNumber::to_raw(self.parent), flags, self.owned_root_or_bitmap])
    }

    /// Replaces the space header in a root page's external header, preserving everything else there.
    pub fn update(&self, external_header: &mut Vec<u8>) {
        let at = usize::from(!external_header.is_empty() && external_header.len() != SpaceHeader::LEN);
        match external_header.get_mut(at..at + SpaceHeader::LEN) {
            Some(place) => place.copy_from_slice(&self.encode()),
            None => *external_header = self.encode().to_vec(),
        }
    }
}

/// Returns the auto-increment value from a root page's external header, if present.
pub fn auto_increment(external_header: &[u8]) -> Option<u64> {
    let (present, fields) = external_header.split_first()?;
    if external_header.len() == SpaceHeader::LEN || present & 2 == 0 {
        return None;
    }
    let at = if present & 1 != 0 { SpaceHeader::LEN } else { 0 };
    fields.get(at..)?.first_chunk().map(|value| u64::from_le_bytes(*value))
}

/// A range of consecutive pages, identified by its last page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Last page of the extent.
    pub last: PageNumber,
    /// Number of pages. 0 occurs only in the pool for continuous allocation, which only the newest files have.
    pub count: u32,
}

impl Extent {
    /// Creates an extent of `count` pages that starts at page `first`.
    pub const fn starting_at(first: PageNumber, count: u32) -> Extent {
        Extent { last: first.plus(count.saturating_sub(1)), count }
    }

    /// Returns the first page.
    pub const fn first(&self) -> PageNumber {
        PageNumber::fixed(self.last.get().saturating_sub(self.count.saturating_sub(1)))
    }

    /// Returns true if the extent contains `page`.
    pub fn contains(&self, page: PageNumber) -> bool {
        self.count > 0 && (self.first()..=self.last).contains(&page)
    }

    /// Returns the key for this extent's node in a space tree.
    pub const fn key(&self) -> [u8; 4] {
        self.last.get().to_be_bytes()
    }

    /// Returns the data for this extent's node in a space tree.
    pub const fn data(&self) -> [u8; 4] {
        self.count.to_le_bytes()
    }

    /// Decodes a space-tree node. Returns the extent and its pool: 0 for general use, 1 for continuous allocation, 2
    /// for reserved pages that must not be used. ESE: `SpacePool`.
    pub fn decode(key: &[u8], data: &[u8]) -> Result<(Extent, u8), SpaceError> {
        let fault = SpaceError { what: "extent", len: key.len() + data.len() };
        let (pool, last) = match *key {
            [a, b, c, d] => (0, [a, b, c, d]),
            [pool, a, b, c, d] if pool & 0x80 != 0 => (pool & 0x7f, [a, b, c, d]),
            _ => return Err(fault),
        };
        let last = PageNumber::new(u32::from_be_bytes(last)).ok_or(fault)?;
        let count = u32::from_le_bytes(data.try_into().map_err(|_| fault)?);
        if count > last.get() {
            return Err(fault);
        }
        Ok((Extent { last, count }, pool))
    }
}

/// Extents reserved for a space tree, which allow it to split without allocating pages. ESE: `SPLIT_BUFFER`.
#[doc(alias = "SPLIT_BUFFER")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SplitReserve {
    /// Up to two extents. Their pages are counted as available.
    pub extents: [Option<Extent>; 2],
}

impl SplitReserve {
    /// Length on disk in bytes.
    pub const LEN: usize = SPLIT_RESERVE_LEN;

    /// Decodes the split reserve from the external header of a space-tree root. An empty header means an empty
    /// reserve.
    pub fn decode(external_header: &[u8]) -> Result<SplitReserve, SpaceError> {
        if external_header.is_empty() {
            return Ok(SplitReserve::default());
        }
        let fault = SpaceError { what: "split reserve", len: external_header.len() };
        let extent = |at| {
            let last = PageNumber::new(u32_at(external_header, at).ok_or(fault)?);
            let count = u32_at(external_header, at + 4).ok_or(fault)?;
            match last {
                Some(last) if count > last.get() => Err(fault),
                last => Ok(last.filter(|_| count > 0).map(|last| Extent { last, count })),
            }
        };
        Ok(SplitReserve { extents: [extent(0)?, extent(8)?] })
    }

    /// Encodes the reserve. In the external header, it is followed by the page's prefix.
    pub fn encode(&self) -> [u8; SplitReserve::LEN] {
        let [first, second] = self.extents.map(|extent| match extent {
            Some(Extent { last, count }) => (last.get(), count),
            None => (0, 0),
        });
        words([first.0, first.1, second.0, second.1])
    }
}

const _: () = assert!(SpaceHeader::LEN == 16 && SplitReserve::LEN == 16);

fn words(values: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (place, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *place = value.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_headers_on_real_pages() {
        // basic.edb page 31: 4 pages, parent 1, pages 32 to 34 free.
        let single = [4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
        let header = SpaceHeader::decode(&single).unwrap();
        assert_eq!(header, SpaceHeader::single(4, PageNumber::new(1), false));
        assert_eq!((header.available_bitmap(), header.owned_root()), (Some(7), None));
        // basic.edb page 4, and page 7, which stores the size of the last allocation.
        let multiple = [0x14, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0];
        let header = SpaceHeader::decode(&multiple).unwrap();
        assert_eq!((header.owned_root(), header.available_root()), (PageNumber::new(5), PageNumber::new(6)));
        assert_eq!(header.encode(), multiple);
        let v2 = [4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0];
        let header = SpaceHeader::decode(&v2).unwrap();
        assert!(header.counts_last_allocation && header.multiple && !header.non_unique);
        assert_eq!(header.encode(), v2);
    }

    #[test]
    fn space_header_among_other_fields_is_found_and_updated() {
        let header = SpaceHeader::multiple(20, None, true, PageNumber::fixed(2));
        let mut external = vec![3];
        external.extend(header.encode());
        external.extend(77u64.to_le_bytes());
        assert_eq!(SpaceHeader::decode(&external), Ok(header));
        assert_eq!(auto_increment(&external), Some(77));
        let changed = SpaceHeader { primary_pages: 8, ..header };
        changed.update(&mut external);
        assert_eq!((SpaceHeader::decode(&external), external.len()), (Ok(changed), 25));
        assert_eq!(auto_increment(&external), Some(77));
        let mut fresh = Vec::new();
        changed.update(&mut fresh);
        assert_eq!((fresh, auto_increment(&changed.encode())), (changed.encode().to_vec(), None));
        assert!(SpaceHeader::decode(&[]).is_err() && SpaceHeader::decode(&[1; 9]).is_err());
    }

    #[test]
    fn extents_round_trip() {
        let extent = Extent::starting_at(PageNumber::fixed(0x29), 4);
        assert_eq!((extent.last.get(), extent.first().get()), (0x2c, 0x29));
        assert_eq!(Extent::decode(&[0, 0, 0, 0x2c], &[4, 0, 0, 0]), Ok((extent, 0)));
        assert_eq!((extent.key(), extent.data()), ([0, 0, 0, 0x2c], [4, 0, 0, 0]));
        assert_eq!(Extent::decode(&[0x82, 0, 0, 0, 0x2c], &[4, 0, 0, 0]), Ok((extent, 2)));
        assert!(Extent::decode(&[0, 0, 0, 3], &[4, 0, 0, 0]).is_err());
        assert!(Extent::decode(&[0, 0, 0, 0], &[0, 0, 0, 0]).is_err());
        assert!(!extent.contains(PageNumber::fixed(0x28)) && extent.contains(PageNumber::fixed(0x29)));
    }

    #[test]
    fn split_reserve_round_trip() {
        let reserve = SplitReserve { extents: [None, Some(Extent { last: PageNumber::fixed(9), count: 3 })] };
        assert_eq!(SplitReserve::decode(&reserve.encode()), Ok(reserve));
        assert_eq!(SplitReserve::decode(&[]), Ok(SplitReserve::default()));
        assert!(SplitReserve::decode(&[1; 15]).is_err());
    }
}
