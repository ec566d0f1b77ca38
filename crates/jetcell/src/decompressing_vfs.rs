//! Transparent reading of compressed files, and of a database in a part of a file.

use std::fs::File as RealFile;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_format::checkpoint::{CHECKPOINT_LEN, Checkpoint};
use ese_format::flush_map::FlushMapHeader;
use ese_format::header::DatabaseHeader;
use ese_format::log::header::LogHeader;
use ese_format::recognise::{EseFileKind, START_LEN};
use jetcell_input::quantity::positive;
use jetcell_vfs::{File, FileLayer, FileRange, OpenMode, RealOptions, RealVfs, Vfs, VfsLayer};
use jetcell_workload::units::ByteSize;

use crate::outcome::{CommandError, CommandResult};
use crate::packed_members::{PackedMembers, Packing};

/// First bytes of a Zstandard frame.
const ZSTANDARD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// First bytes of a gzip member.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// First bytes of a skippable frame, where the lower half of the first byte can have any value. Such frames may
/// precede the content.
const SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// Default size limit in bytes, which applies even if a file is highly compressed. Small databases consist mostly of
/// free space, which compresses to almost nothing.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// Default limit for larger files as a multiple of the packed size. Typical Windows databases have a ratio of at most
/// a tenth of this limit.
const DEFAULT_MAX_RATIO: u64 = 100;

/// Options for reading a file that is compressed or that contains a database.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct UnpackOptions {
    /// Unpack .zst and .gz files up to this size [default: 1 GiB, or 100 times the packed size if that is more]
    #[arg(long, value_name = "SIZE")]
    max_unpacked: Option<ByteSize>,
    /// Read a database that begins at this offset of the file, such as an image of a disk
    #[arg(long, value_name = "SIZE")]
    offset: Option<ByteSize>,
    /// Length of the database at --offset [default: up to the end of the file]
    #[arg(long, value_name = "SIZE", requires = "offset", value_parser = positive::<ByteSize>)]
    length: Option<ByteSize>,
}

impl UnpackOptions {
    /// Fails if the database is in a part of the file, unless exactly one file is read.
    pub fn require_one_file(&self, is_one_file: bool) -> CommandResult<()> {
        if self.offset.is_none() || is_one_file {
            return Ok(());
        }
        Err(CommandError::new("--offset names the start of a single database")
            .advise("specify only the path of its file"))
    }

    /// Returns true if the database is in a part of the file.
    fn has_range(&self) -> bool {
        self.offset.is_some()
    }
}

/// A file system that unpacks compressed files when they are opened for reading. A file whose name ends in `.zst` or
/// `.gz` is unpacked into a temporary file. If the options specify an offset, files are not unpacked, and are read from
/// that offset on.
///
/// Compressed files may be malicious: a few kilobytes can unpack to terabytes. Only ESE files are unpacked
/// completely. For other files, only the first [`START_LEN`] bytes are unpacked, which is enough to report that the
/// file is not an ESE file.
pub struct DecompressingVfs {
    inner: RealVfs,
    options: UnpackOptions,
}

impl DecompressingVfs {
    /// Opens the file system. See [`RealVfs::new`].
    pub fn new(options: RealOptions, unpack: UnpackOptions) -> io::Result<DecompressingVfs> {
        // The start of a range need not be aligned.
        let options = RealOptions { direct: options.direct && !unpack.has_range(), ..options };
        Ok(DecompressingVfs { inner: RealVfs::new(options)?, options: unpack })
    }

    /// Returns the unpacked content in an unnamed file, or `None` if the file is not compressed.
    fn unpack(&self, path: &Path) -> io::Result<Option<RealFile>> {
        let Some(packing) = Packing::from_name(path) else { return Ok(None) };
        // Opening a pipe would wait until its other end is opened.
        if !path.metadata()?.is_file() {
            return Ok(None);
        }
        let mut packed = RealFile::open(path)?;
        let mut magic = Vec::new();
        Read::by_ref(&mut packed).take(packing.magic_len()).read_to_end(&mut magic)?;
        if !packing.has_magic(&magic) {
            return Ok(None);
        }
        packed.rewind()?;
        let packed_len = packed.metadata()?.len();
        let space = std::env::temp_dir();
        // Other error kinds would look like errors of the compressed file itself.
        let no_space = |error: io::Error| {
            let shown = space.display();
            io::Error::other(format!(
                "cannot be unpacked to {shown}: {error}; set TMPDIR to another directory"
            ))
        };
        let corrupt = |error: io::Error| {
            io::Error::new(error.kind(), format!("the compressed content is damaged: {error}"))
        };
        let mut content = PackedMembers::new(packing, packed)?;
        let mut buffer = vec![0; 1 << 20];
        let mut start = Vec::new();
        let mut has_several = false;
        while start.len() < START_LEN {
            // The part may extend past the start, because it must contain the whole header of a member.
            let part = content.read_part(buffer.get_mut(..START_LEN).unwrap_or_default()).map_err(corrupt)?;
            let bytes = buffer.get(..part.len).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            has_several |= part.begins_member
                && !start.is_empty()
                && begins_ese_file(bytes)
                && !is_second_header(&start, bytes);
            start.extend_from_slice(bytes);
        }
        let mut plain = tempfile::tempfile_in(&space).map_err(no_space)?;
        if EseFileKind::detect(&start) == EseFileKind::Unknown {
            start.truncate(START_LEN);
            plain.write_all(&start).map_err(no_space)?;
            return Ok(Some(plain));
        }
        if has_several {
            return Err(several_files_error());
        }
        plain.write_all(&start).map_err(no_space)?;
        let limit = self.limit(packed_len, &plain).map_err(no_space)?;
        let mut len = start.len() as u64;
        loop {
            let part = content.read_part(&mut buffer).map_err(corrupt)?;
            let bytes = buffer.get(..part.len).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(Some(plain));
            }
            if part.begins_member && begins_ese_file(bytes) {
                return Err(several_files_error());
            }
            len += part.len as u64;
            limit.check(len)?;
            plain.write_all(bytes).map_err(no_space)?;
        }
    }

    /// Returns the size limit for a file with the given packed size that is unpacked into `plain`.
    fn limit(&self, packed: u64, plain: &RealFile) -> io::Result<UnpackLimit> {
        let stat = rustix::fs::fstatvfs(plain)?;
        // A tenth of the space is reserved for other programs.
        let space = stat.f_bavail.saturating_mul(stat.f_frsize) / 10 * 9;
        let default = packed.saturating_mul(DEFAULT_MAX_RATIO).max(DEFAULT_MAX_BYTES);
        Ok(UnpackLimit {
            requested: self.options.max_unpacked.map_or(default, |size| size.0),
            free_space: space,
        })
    }
}

/// Returns true if a member of a compressed file begins with the intact header of an ESE file. Other members continue
/// the previous one, because some programs compress a file in several members.
fn begins_ese_file(member: &[u8]) -> bool {
    DatabaseHeader::read_from_start(member).is_ok()
        || LogHeader::decode(member).is_ok()
        || Checkpoint::decode(member).is_ok()
        || FlushMapHeader::decode(member).is_ok()
}

/// Returns true if a member begins with the second copy of the header of the same file. `content` is the content before
/// the member.
fn is_second_header(content: &[u8], member: &[u8]) -> bool {
    let kind = EseFileKind::detect(content);
    // The first copy may be damaged.
    let may_be = |own: EseFileKind| kind == own || kind == EseFileKind::Unknown;
    let is_shadow = |header: DatabaseHeader| header.page_size.bytes() == content.len();
    may_be(EseFileKind::Database) && DatabaseHeader::decode(member).is_ok_and(is_shadow)
        || may_be(EseFileKind::Checkpoint)
            && content.len() == CHECKPOINT_LEN
            && Checkpoint::decode(member).is_ok()
}

fn several_files_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the compressed file contains several ESE files; unpack them, and specify one of them",
    )
}

impl Packing {
    /// Returns the format that the name of a file indicates.
    fn from_name(path: &Path) -> Option<Packing> {
        let extension = path.extension()?;
        [("zst", Packing::Zstandard), ("gz", Packing::Gzip)]
            .into_iter()
            .find_map(|(name, packing)| extension.eq_ignore_ascii_case(name).then_some(packing))
    }

    fn magic_len(self) -> u64 {
        match self {
            Packing::Zstandard => ZSTANDARD_MAGIC.len() as u64,
            Packing::Gzip => GZIP_MAGIC.len() as u64,
        }
    }

    fn has_magic(self, start: &[u8]) -> bool {
        match self {
            Packing::Zstandard => start == ZSTANDARD_MAGIC || is_skippable(start),
            Packing::Gzip => start == GZIP_MAGIC,
        }
    }
}

fn is_skippable(start: &[u8]) -> bool {
    start
        .split_first()
        .is_some_and(|(first, rest)| first & 0xf0 == SKIPPABLE_MAGIC[0] && rest == &SKIPPABLE_MAGIC[1..])
}

/// Limits on the size of an unpacked file in bytes.
#[derive(Clone, Copy, Debug)]
struct UnpackLimit {
    /// Limit set by the user's option, or its default.
    requested: u64,
    /// Free space on the file system that holds temporary files.
    free_space: u64,
}

impl UnpackLimit {
    fn check(self, len: u64) -> io::Result<()> {
        let what = if len > self.requested {
            let asked = ByteSize(self.requested);
            format!(
                "the unpacked size exceeds {asked}; if this is expected, use --max-unpacked to raise the limit"
            )
        } else if len > self.free_space {
            let (space, shown) = (ByteSize(self.free_space >> 20 << 20), std::env::temp_dir());
            let shown = shown.display();
            format!(
                "the unpacked size exceeds {space}, nine tenths of the free space in {shown}; set TMPDIR to \
                 another directory"
            )
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
    }
}

impl VfsLayer for DecompressingVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if let (OpenMode::Read, Some(offset)) = (mode, self.options.offset) {
            let whole = self.inner.open(path, mode)?;
            let length = self.options.length.map(|length| length.0);
            return Ok(Arc::new(FileRange::new(whole, offset.0, length)?));
        }
        if mode == OpenMode::Read
            && let Some(plain) = self.unpack(path)?
        {
            let inner = self.inner.open(Path::new(&format!("/proc/self/fd/{}", plain.as_raw_fd())), mode)?;
            return Ok(Arc::new(UnpackedFile { inner, path: path.to_owned(), _held: plain.into() }));
        }
        self.inner.open(path, mode)
    }
}

/// The unpacked content, with the path of the compressed file.
struct UnpackedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    /// Keeps the unnamed temporary file alive.
    _held: OwnedFd,
}

impl FileLayer for UnpackedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(all(test, feature = "zst"))]
#[path = "decompressing_vfs_tests.rs"]
mod tests;
