//! Page images in records, which omit the page's free gap.
//!
//! ```text
//! page       header | nodes ... | gap           | tags
//! dehydrated header | nodes ... | tags            with cbFree (bytes 28..30) smaller by the length of the gap
//! ```
//!
//! Invariants: `rehydrate(dehydrate(page))` is `page` with a zeroed gap. Nodes and checksums are not interpreted. An
//! image keeps the checksum of its page, which is not valid for the dehydrated bytes.

use std::ops::Range;

use super::{BeforeImageFlags, Merge, PageMove, Split};
use crate::PageSize;

const FREE_AT: Range<usize> = 28..30;
const NODES_END_AT: Range<usize> = 32..34;
const TAG_COUNT_AT: Range<usize> = 34..36;
const TAG_LEN: usize = 4;
/// Mask for the tag count. In newer formats, the top bits hold the number of reserved tags.
const TAG_COUNT_MASK: u16 = 0x0fff;

/// Error returned when a page image in a log record cannot be converted to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image is longer than a page, or too short to hold its header and tags.
    #[error("page image of {len} bytes does not fit into a page of {page} bytes")]
    Length {
        /// Length of the image in bytes.
        len: usize,
        /// Page size in bytes.
        page: usize,
    },
    /// The compressed bytes are damaged.
    #[error("the compressed page image is damaged")]
    Compression,
}

fn word(bytes: &[u8], at: Range<usize>) -> u16 {
    bytes.get(at).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn tags_len(page: &[u8]) -> usize {
    usize::from(word(page, TAG_COUNT_AT) & TAG_COUNT_MASK) * TAG_LEN
}

/// Returns the free gap of a page, which starts at an even offset. Returns `None` if the counters in the page header
/// are invalid.
fn gap(page: &[u8], size: PageSize) -> Option<Range<usize>> {
    let start = (size.header_len() + usize::from(word(page, NODES_END_AT))).next_multiple_of(2);
    let end = page.len().checked_sub(tags_len(page))?;
    (page.len() == size.bytes() && start <= end).then_some(start..end)
}

/// Returns the page without its free gap. As in ESE, returns `None` if the gap is less than a tenth of the page.
fn dehydrate(page: &[u8], size: PageSize) -> Option<Vec<u8>> {
    let gap = gap(page, size)?;
    let free = usize::from(word(page, FREE_AT)).checked_sub(gap.len())?;
    if gap.len() < size.bytes() / 10 {
        return None;
    }
    let mut image = [page.get(..gap.start)?, page.get(gap.end..)?].concat();
    image.get_mut(FREE_AT)?.copy_from_slice(&(free as u16).to_le_bytes());
    Some(image)
}

/// Restores a page from a dehydrated image, filling the gap with zeros.
fn rehydrate(image: &[u8], size: PageSize) -> Result<Vec<u8>, ImageError> {
    let error = ImageError::Length { len: image.len(), page: size.bytes() };
    let tags = tags_len(image);
    let body = image.len().checked_sub(tags).filter(|&body| body >= size.header_len()).ok_or(error)?;
    let grown = size.bytes().checked_sub(image.len()).ok_or(error)?;
    let free = u16::try_from(usize::from(word(image, FREE_AT)) + grown).map_err(|_| error)?;
    let (body, tags) = image.split_at_checked(body).ok_or(error)?;
    let mut page = Vec::with_capacity(size.bytes());
    page.extend_from_slice(body);
    page.resize(body.len() + grown, 0);
    page.extend_from_slice(tags);
    page.get_mut(FREE_AT).ok_or(error)?.copy_from_slice(&free.to_le_bytes());
    Ok(page)
}

/// Returns the page stored in a before-image, calling `decompress` if the image is compressed.
fn before_page(
    flags: BeforeImageFlags,
    image: &[u8],
    size: PageSize,
    decompress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, ImageError> {
    if image.is_empty() {
        return Ok(None);
    }
    let expanded = if flags.contains(BeforeImageFlags::XPRESS) {
        decompress(image).ok_or(ImageError::Compression)?
    } else {
        image.to_vec()
    };
    if flags.contains(BeforeImageFlags::DEHYDRATED) {
        return rehydrate(&expanded, size).map(Some);
    }
    if expanded.len() == size.bytes() {
        Ok(Some(expanded))
    } else {
        Err(ImageError::Length { len: expanded.len(), page: size.bytes() })
    }
}

macro_rules! before_images {
    ($($record:ty),*) => {
        $(impl $record {
            /// Returns the page as it was before the change, or `None` if the record has no image. Calls `decompress`
            /// if the image is compressed.
            pub fn before_page(
                &self,
                size: PageSize,
                decompress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
            ) -> Result<Option<Vec<u8>>, ImageError> {
                before_page(self.image_flags, &self.before_image, size, decompress)
            }

            /// Stores the page as it was before the change. Omits the free gap if that saves enough space.
            pub fn set_before_page(&mut self, page: &[u8], size: PageSize) {
                (self.image_flags, self.before_image) = image_of(page, size);
            }
        })*
    };
}

before_images!(Split, Merge);

fn image_of(page: &[u8], size: PageSize) -> (BeforeImageFlags, Vec<u8>) {
    match dehydrate(page, size) {
        Some(image) => (BeforeImageFlags::DEHYDRATED, image),
        None => (BeforeImageFlags::empty(), page.to_vec()),
    }
}

impl PageMove {
    /// Returns the moved page, with its free gap zeroed.
    pub fn page(&self, size: PageSize) -> Result<Vec<u8>, ImageError> {
        let len = self.head.len().saturating_add(self.tail.len());
        let gap = size.bytes().checked_sub(len).ok_or(ImageError::Length { len, page: size.bytes() })?;
        let mut page = self.head.clone();
        page.resize(page.len() + gap, 0);
        page.extend_from_slice(&self.tail);
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(size: PageSize, nodes: usize, tags: usize) -> Vec<u8> {
        let mut page: Vec<u8> = (0..size.bytes()).map(|i| (i % 251) as u8 | 1).collect();
        let gap = size.bytes() - size.header_len() - nodes - tags * 4;
        page[28..30].copy_from_slice(&(gap as u16).to_le_bytes());
        page[32..34].copy_from_slice(&(nodes as u16).to_le_bytes());
        page[34..36].copy_from_slice(&(tags as u16).to_le_bytes());
        page[size.header_len() + nodes..size.bytes() - tags * 4].fill(0);
        page
    }

    proptest! {
        #[test]
        fn dehydrated_pages_round_trip(large: bool, nodes in 0usize..3000, tags in 1usize..200) {
            let size = if large { PageSize::KIB_32 } else { PageSize::KIB_4 };
            let page = page(size, nodes, tags);
            match dehydrate(&page, size) {
                Some(image) => {
                    prop_assert_eq!(image.len(), (size.header_len() + nodes).next_multiple_of(2) + tags * 4);
                    prop_assert_eq!(rehydrate(&image, size).unwrap(), page);
                }
                None => prop_assert!(size.bytes() - nodes - tags * 4 - size.header_len() < size.bytes() / 10 + 2),
            }
        }

        #[test]
        fn arbitrary_images_do_not_cause_a_panic(image in prop::collection::vec(any::<u8>(), 0..5000)) {
            if let Ok(page) = rehydrate(&image, PageSize::KIB_4) {
                prop_assert_eq!(page.len(), 4096);
            }
            let _ = gap(&image, PageSize::KIB_4);
            let _ = dehydrate(&image, PageSize::KIB_4);
        }
    }

    #[test]
    fn a_full_page_is_not_dehydrated() {
        assert_eq!(dehydrate(&page(PageSize::KIB_4, 3900, 10), PageSize::KIB_4), None);
    }
}
