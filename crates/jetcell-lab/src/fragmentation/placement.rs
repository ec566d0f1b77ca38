//! Places a file on its device, either in as few fragments as the file system permits or scattered.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use jetcell_vfs::UnfinishedFile;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rustix::fs::{FallocateFlags, fallocate};

/// Default size of a scattered file's fragments, in bytes.
pub const DEFAULT_FRAGMENT_BYTES: u64 = 64 << 10;
/// Size of the copy buffer in bytes.
const COPY_BUFFER_BYTES: usize = 1 << 20;

/// How a file is placed on its device: contiguous or scattered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlacement {
    /// Contiguous, if the file system has enough contiguous space.
    Contiguous,
    /// Fragments of this many bytes, in random order. Space between the fragments is occupied by another file,
    /// which is removed afterwards.
    Scattered(u64),
}

/// Rewrites a file with a different placement. The new file replaces the old one as soon as it is durable.
///
/// # Errors
/// Returns an error if the file cannot be read or there is not enough space for a copy. A scattered copy needs twice
/// the space. On error, the old file is unchanged.
pub fn rewrite_with_placement(path: &Path, placement: FilePlacement) -> io::Result<()> {
    let (from, to) = (File::open(path)?, UnfinishedFile::create(path)?);
    let len = from.metadata()?.len();
    // Until the copy is complete, the space between its extents remains occupied.
    let filler = match placement {
        _ if len == 0 => None,
        FilePlacement::Contiguous => {
            fallocate(to.as_file(), FallocateFlags::empty(), 0, len)?;
            None
        }
        FilePlacement::Scattered(piece) => {
            let filler = UnfinishedFile::create(path)?;
            let mut starts: Vec<u64> = (0..len).step_by(piece.max(4096) as usize).collect();
            // The seed is fixed, so the order is the same in every experiment.
            starts.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
            for (at, start) in (0_u64..).zip(&starts) {
                fallocate(to.as_file(), FallocateFlags::empty(), *start, piece.min(len - start))?;
                fallocate(filler.as_file(), FallocateFlags::empty(), at * piece, piece)?;
            }
            Some(filler)
        }
    };
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    for offset in (0..len).step_by(COPY_BUFFER_BYTES) {
        let part =
            buffer.get_mut(..(len - offset).min(COPY_BUFFER_BYTES as u64) as usize).unwrap_or_default();
        from.read_exact_at(part, offset)?;
        to.as_file().write_all_at(part, offset)?;
    }
    drop(filler);
    to.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{FileMap, Fragmentation};
    use super::*;
    use testkit::{TestRequirement, skip};

    #[test]
    fn a_scattered_file_has_many_fragments_and_the_same_content() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("a.edb");
        let bytes: Vec<u8> = (0..(8 << 20) + 1234_u32).map(|at| (at >> 7) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let pieces = |placement| {
            rewrite_with_placement(&path, placement).unwrap();
            assert!(fs::read(&path).unwrap() == bytes, "{placement:?}");
            FileMap::read(&path).ok().map(|map| Fragmentation::from_map(&map, &[]).pieces)
        };
        let (Some(whole), Some(scattered)) =
            (pieces(FilePlacement::Contiguous), pieces(FilePlacement::Scattered(64 << 10)))
        else {
            return skip(TestRequirement::Kernel, "this file system reports no extents");
        };
        assert!(scattered > 32 && whole * 4 < scattered, "{whole} {scattered}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_failure_leaves_the_file_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.edb");
        fs::write(&path, b"content").unwrap();
        // No file system can allocate this much space for the other file.
        assert!(rewrite_with_placement(&path, FilePlacement::Scattered(u64::MAX)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
