//! Reads files that are compressed with Zstandard as if they were not.

use std::fs::File as RealFile;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_vfs::{File, FileLayer, OpenMode, RealOptions, RealVfs, Vfs, VfsLayer};

/// First bytes of a Zstandard frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Files of the machine; one that ends in `.zst` is unpacked into a temporary file when it is opened for reading.
pub struct Unpacked {
    inner: RealVfs,
}

impl Unpacked {
    /// See [`RealVfs::new`].
    pub fn new(options: RealOptions) -> io::Result<Unpacked> {
        Ok(Unpacked { inner: RealVfs::new(options)? })
    }

    /// The unpacked content in a file without a name; `None` if the file is not compressed.
    fn unpack(path: &Path) -> io::Result<Option<RealFile>> {
        if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst")) {
            return Ok(None);
        }
        // The open of a pipe would wait for its other end.
        if !path.metadata()?.is_file() {
            return Ok(None);
        }
        let mut packed = RealFile::open(path)?;
        let mut magic = Vec::new();
        packed.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if magic != MAGIC {
            return Ok(None);
        }
        packed.rewind()?;
        let mut plain = tempfile::tempfile()?;
        let place = |error: io::Error| {
            let space = std::env::temp_dir();
            io::Error::new(error.kind(), format!("cannot be unpacked to {}: {error}", space.display()))
        };
        zstd::stream::copy_decode(packed, &mut plain).map_err(place)?;
        Ok(Some(plain))
    }
}

impl VfsLayer for Unpacked {
    fn inner(&self) -> &dyn Vfs {
        &self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode == OpenMode::Read
            && let Some(plain) = Unpacked::unpack(path)?
        {
            let inner = self.inner.open(Path::new(&format!("/proc/self/fd/{}", plain.as_raw_fd())), mode)?;
            return Ok(Arc::new(Plain { inner, path: path.to_owned(), _held: plain.into() }));
        }
        self.inner.open(path, mode)
    }
}

/// The unpacked content under the name of the compressed file.
struct Plain {
    inner: Arc<dyn File>,
    path: PathBuf,
    /// The temporary file exists as long as it is open.
    _held: OwnedFd,
}

impl FileLayer for Plain {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::IoReason;

    use super::*;

    #[test]
    fn a_compressed_file_reads_as_its_content_and_other_files_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let packed = zstd::encode_all(content.as_slice(), 3).unwrap();
        let vfs = Unpacked::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        let read = |path: &Path| {
            let file = Vfs::open(&vfs, path, OpenMode::Read)?;
            assert_eq!(file.path(), path);
            let mut bytes = vec![0; file.len()? as usize];
            file.read_at(0, &mut bytes, IoReason::Verify)?;
            io::Result::Ok(bytes)
        };
        assert!(read(&write("a.edb.zst", &packed)).unwrap() == content);
        assert!(read(&write("a.edb", &packed)).unwrap() == packed, "the name says that it is not compressed");
        assert!(read(&write("b.edb.zst", &content)).unwrap() == content, "the content says so");
        let cut = read(&write("c.zst", &packed[..packed.len() / 2])).unwrap_err().to_string();
        assert!(cut.contains("cannot be unpacked"), "{cut}");
        assert!(read(&dir.path().join("none.zst")).is_err());
    }
}
