//! Messages about individual pages, exchanged between an active side and its copies. They are small files in the
//! active side's log directory.
//!
//! ```text
//!  E00-1f3a77c2.wants             a copy needs pages, or has found that the active side has lost page writes
//!  E00-5e3f0a11-1A.image          the active side's page 1A (hexadecimal), at the position of a scan-check record
//!  E00-5e3f0a11-1A.patch          a copy's page, at the position of a patch request
//! ```
//!
//! Message contents are not trusted. A page is used only if the log confirms it, or if this instance has requested
//! it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{LogPosition, PageNumber, PageSize, Signature};
use jetcell_vfs::{FileStem, IoBuffer, IoReason, OpenMode, Vfs, parent_directory, replace_file_unsynced};
use twox_hash::XxHash3_64;

use crate::log::copy_file_name;
use crate::recovery::ExchangedPage;
use crate::{Error, Result};

const REQUESTS_HEADER: &str = "jetcell pages 1";
const PAGE: &str = "jetcell page 1";
/// Maximum number of pages per message.
pub const MAX_PAGE_REQUESTS: usize = 32;

/// Pages that a copy requests from its active side, or for which the active side has lost a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequests {
    /// Pages that the copy cannot bring up to date, each with the signature of its database.
    pub repair: Vec<(Signature, PageNumber)>,
    /// Pages for which the active side has lost a write, each with the signature of its database.
    pub lost: Vec<(Signature, PageNumber)>,
}

impl PageRequests {
    /// Returns true if no page is requested.
    pub fn is_empty(&self) -> bool {
        self.repair.is_empty() && self.lost.is_empty()
    }

    /// Stores a copy's requests in the log directory, replacing its earlier requests.
    pub fn store(&self, vfs: &dyn Vfs, directory: &Path, base: FileStem, id: &str) -> Result<()> {
        let line = |kind: &str, (database, page): &(Signature, PageNumber)| {
            format!("{kind} {} {:X}\n", database.to_hex(), page.get())
        };
        let wishes = self.repair.iter().map(|wish| line("repair", wish));
        let wishes: Vec<String> = wishes.chain(self.lost.iter().map(|wish| line("lost", wish))).collect();
        let text = format!("{REQUESTS_HEADER}\n{}", wishes[..wishes.len().min(MAX_PAGE_REQUESTS)].concat());
        put(vfs, &directory.join(copy_file_name(base, id, "wants")?), &text, &[])
    }

    fn from_text(text: &str) -> Option<PageRequests> {
        let mut lines = text.lines();
        if lines.next()? != REQUESTS_HEADER {
            return None;
        }
        let mut wishes = PageRequests::default();
        for line in lines.take(MAX_PAGE_REQUESTS) {
            let mut fields = line.split(' ');
            let list = match fields.next()? {
                "repair" => &mut wishes.repair,
                "lost" => &mut wishes.lost,
                _ => return None,
            };
            let database = Signature::from_hex(fields.next()?)?;
            list.push((database, PageNumber::new(u32::from_str_radix(fields.next()?, 16).ok()?)?));
        }
        Some(wishes)
    }
}

/// Direction in which a page is sent: from the active side to a copy, or the reverse.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PageDirection {
    /// From the active side to a copy.
    Image,
    /// From a copy to the active side.
    Patch,
}

impl PageDirection {
    fn extension(self) -> &'static str {
        match self {
            PageDirection::Image => "image",
            PageDirection::Patch => "patch",
        }
    }
}

impl ExchangedPage {
    /// Stores the page in the log directory of the active side.
    pub fn store(&self, vfs: &dyn Vfs, directory: &Path, base: FileStem, way: PageDirection) -> Result<()> {
        let LogPosition { generation, segment, offset } = self.position;
        let text = format!(
            "{PAGE}\ndatabase {}\npage {:X}\nposition {:X} {segment:X} {offset:X}\nbytes {}\nhash {:016x}\n",
            self.database.to_hex(),
            self.page.get(),
            generation.0,
            self.bytes.len(),
            self.hash,
        );
        put(vfs, &page_path(directory, base, self.database, self.page, way), &text, &self.bytes)
    }

    /// Reads the page that is stored in the log directory of the active side. Returns `None` if it does not exist or
    /// is damaged.
    pub fn read(
        vfs: &dyn Vfs,
        directory: &Path,
        base: FileStem,
        (database, page): (Signature, PageNumber),
        way: PageDirection,
    ) -> Result<Option<ExchangedPage>> {
        let path = page_path(directory, base, database, page, way);
        let image = read_page(vfs, &path)?;
        Ok(image.filter(|image| (image.database, image.page) == (database, page)))
    }

    fn from_text(text: &str, rest: &[u8]) -> Option<ExchangedPage> {
        let mut lines = text.lines();
        if lines.next()? != PAGE {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let database = Signature::from_hex(field("database")?)?;
        let page = PageNumber::new(u32::from_str_radix(field("page")?, 16).ok()?)?;
        let position: Vec<u32> = field("position")?
            .split(' ')
            .map(|number| u32::from_str_radix(number, 16).ok())
            .collect::<Option<_>>()?;
        let [generation, segment, offset] = position[..] else { return None };
        let position =
            LogPosition::new(generation, u16::try_from(segment).ok()?, u16::try_from(offset).ok()?);
        let len = field("bytes")?.parse::<u32>().ok()?;
        let bytes = rest.get(..PageSize::new(len)?.bytes())?.to_vec();
        let hash = u64::from_str_radix(field("hash")?, 16).ok()?;
        Some(ExchangedPage { database, page, position, bytes, hash }).filter(ExchangedPage::is_intact)
    }
}

/// Messages from copies, as found in the log directory, each with its file. Unreadable messages are `None`.
pub(super) struct CopyMessages {
    pub requests: Vec<(PathBuf, Option<PageRequests>)>,
    pub patches: Vec<(PathBuf, Option<ExchangedPage>)>,
}

impl CopyMessages {
    /// Reads the messages for the instance whose log files have this base name.
    pub fn read(vfs: &dyn Vfs, directory: &Path, base: FileStem) -> Result<CopyMessages> {
        let files = vfs.list(directory).map_err(|error| Error::io(directory, &error))?;
        let mut messages = CopyMessages { requests: Vec::new(), patches: Vec::new() };
        for path in files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(rest) = name.strip_prefix(base.as_str()).and_then(|rest| rest.strip_prefix('-')) else {
                continue;
            };
            if rest.ends_with(".wants") {
                let wishes = read_text(vfs, &path)?.and_then(|(text, _)| PageRequests::from_text(&text));
                messages.requests.push((path, wishes));
            } else if rest.ends_with(".patch") {
                let patch = read_page(vfs, &path)?;
                messages.patches.push((path, patch));
            }
        }
        Ok(messages)
    }
}

fn page_path(
    directory: &Path,
    base: FileStem,
    database: Signature,
    page: PageNumber,
    way: PageDirection,
) -> PathBuf {
    let hash = XxHash3_64::oneshot(database.to_hex().as_bytes()) as u32;
    directory.join(format!("{base}-{hash:08x}-{:X}.{}", page.get(), way.extension()))
}

fn read_page(vfs: &dyn Vfs, path: &Path) -> Result<Option<ExchangedPage>> {
    Ok(read_text(vfs, path)?.and_then(|(text, rest)| ExchangedPage::from_text(&text, &rest)))
}

/// Returns the text of a message, and the bytes after its first block. Returns `None` if the message does not exist
/// or cannot be read.
fn read_text(vfs: &dyn Vfs, path: &Path) -> Result<Option<(String, Vec<u8>)>> {
    const MAX_MESSAGE_BYTES: u64 = (SEGMENT_BYTES + PageSize::KIB_32.bytes()) as u64;
    let read = || {
        let file = vfs.open(path, OpenMode::Read)?;
        let len = file.len()?.min(MAX_MESSAGE_BYTES) as usize / SEGMENT_BYTES * SEGMENT_BYTES;
        let mut bytes = IoBuffer::zeroed(len);
        file.read_at(0, &mut bytes, IoReason::Other)?;
        Ok(bytes)
    };
    let bytes = match read() {
        Err(error) if is_permanent_error(&error) => return Err(Error::io(path, &error)),
        Err(_) => return Ok(None),
        Ok(bytes) => bytes,
    };
    let head = bytes.get(..SEGMENT_BYTES).unwrap_or_default();
    let end = head.iter().position(|byte| *byte == 0).unwrap_or(head.len());
    let text = String::from_utf8(head[..end].to_vec()).ok();
    Ok(text.map(|text| (text, bytes.get(SEGMENT_BYTES..).unwrap_or_default().to_vec())))
}

fn is_permanent_error(error: &std::io::Error) -> bool {
    !matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof)
}

/// Stores a message, replacing any earlier message.
fn put(vfs: &dyn Vfs, path: &Path, text: &str, rest: &[u8]) -> Result<()> {
    let aside = path.with_extension("message-new");
    let mut block = text.as_bytes().to_vec();
    block.resize(SEGMENT_BYTES, 0);
    block.extend_from_slice(rest);
    // A message that is lost in a power failure is sent again.
    match replace_file_unsynced(vfs, path, &aside, &block, IoReason::Other) {
        // Another copy is storing the same message concurrently. Readers ignore a damaged message.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            let is_there = vfs.exists(parent_directory(path)).map_err(|error| Error::io(path, &error))?;
            if is_there { Ok(()) } else { Err(Error::io(path, &error)) }
        }
        stored => stored.map_err(|error| Error::io(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use ese_format::LogTime;
    use jetcell_vfs::SimVfs;

    use super::*;

    #[test]
    fn messages_round_trip_and_damaged_messages_are_rejected() {
        let disk = SimVfs::new();
        let logs = Path::new("/log");
        disk.create_directory(logs).unwrap();
        let database = Signature::new(7, LogTime::NONE);
        let page = PageNumber::fixed(0x1A);
        let wishes =
            PageRequests { repair: vec![(database, page)], lost: vec![(database, PageNumber::fixed(9))] };
        wishes.store(&disk, logs, FileStem::E00, "a1").unwrap();
        let bytes = vec![0x5A; 4096];
        let image = ExchangedPage::new(database, page, LogPosition::new(3, 4, 5), bytes);
        for way in [PageDirection::Image, PageDirection::Patch] {
            image.store(&disk, logs, FileStem::E00, way).unwrap();
            let read = ExchangedPage::read(&disk, logs, FileStem::E00, (database, page), way).unwrap();
            assert_eq!(read.as_ref(), Some(&image));
        }
        let found = CopyMessages::read(&disk, logs, FileStem::E00).unwrap();
        assert_eq!((found.requests.len(), found.patches.len()), (1, 1));
        assert_eq!((&found.requests[0].1, &found.patches[0].1), (&Some(wishes), &Some(image.clone())));
        assert!(CopyMessages::read(&disk, logs, FileStem::new("E01").unwrap()).unwrap().requests.is_empty());
        disk.corrupt(&found.patches[0].0, 5000, &[1]).unwrap();
        disk.corrupt(&found.requests[0].0, 0, b"x").unwrap();
        let found = CopyMessages::read(&disk, logs, FileStem::E00).unwrap();
        assert_eq!((&found.requests[0].1, &found.patches[0].1), (&None, &None));
        // The image was damaged before it was stored.
        let damaged = ExchangedPage { bytes: vec![0x5B; 4096], ..image };
        damaged.store(&disk, logs, FileStem::E00, PageDirection::Image).unwrap();
        assert_eq!(
            ExchangedPage::read(&disk, logs, FileStem::E00, (database, page), PageDirection::Image).unwrap(),
            None
        );
        let other = (database, PageNumber::fixed(5));
        assert_eq!(
            ExchangedPage::read(&disk, logs, FileStem::E00, other, PageDirection::Image).unwrap(),
            None
        );
    }
}
