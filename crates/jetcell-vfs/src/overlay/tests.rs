use std::path::Path;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{IoBuffer, SimVfs};

const WHY: IoReason = IoReason::Other;
const NAMES: [&str; 4] = ["/d/a", "/d/b", "/d/c", "/d/e"];

/// Creates a disk with two files, and an overlay on it.
fn overlay() -> (SimVfs, Arc<dyn Vfs>) {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/d")).unwrap();
    disk.put(Path::new("/d/a"), &[1; 8 * BLOCK]);
    disk.put(Path::new("/d/b"), &[2; 3 * BLOCK]);
    let scratch = SimVfs::new();
    scratch.create_directory(Path::new("/s")).unwrap();
    let scratch = scratch.open(Path::new("/s/scratch"), OpenMode::CreateNew).unwrap();
    (disk.clone(), Arc::new(OverlayVfs::new(Arc::new(disk), scratch)))
}

fn content(vfs: &dyn Vfs, path: &Path) -> Option<Vec<u8>> {
    let file = vfs.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes, WHY).unwrap();
    Some(bytes)
}

fn submitted(file: &dyn File, kind: TransferKind, offset: u64, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    let result = Arc::new(Mutex::new(None));
    let set = result.clone();
    let done = Box::new(move |outcome: io::Result<()>, buffer: IoBuffer| {
        *set.lock() = Some(outcome.map(|()| buffer.to_vec()));
    });
    file.submit(vec![Transfer { kind, offset, buffer, reason: WHY, done }]);
    result.lock().take().unwrap()
}

#[test]
fn an_overlay_behaves_like_the_disk_and_leaves_it_unchanged() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (disk, overlay) = overlay();
        let (model, _) = self::overlay();
        let both: [&dyn Vfs; 2] = [&*overlay, &model];
        for step in 0..80 {
            let path = Path::new(NAMES[random.random_range(0..NAMES.len())]);
            let other = Path::new(NAMES[random.random_range(0..NAMES.len())]);
            let offset = random.random_range(0..12) * BLOCK as u64;
            let bytes = vec![step as u8 + 10; random.random_range(1..4) * BLOCK];
            let choice = random.random_range(0..8);
            let outcomes = both.map(|vfs| {
                let file = vfs.open(path, OpenMode::Write);
                match choice {
                    0 => vfs.open(path, OpenMode::CreateNew).map(|_| Vec::new()),
                    1 => vfs.remove(path).map(|()| Vec::new()),
                    2 if path != other => vfs.rename(path, other).map(|()| Vec::new()),
                    3 => file.and_then(|file| file.grow(file.len()?.max(offset))).map(|()| Vec::new()),
                    4 => file.and_then(|file| match file.len()? {
                        len if len > offset => file.truncate(offset).map(|()| Vec::new()),
                        _ => Ok(Vec::new()),
                    }),
                    5 => file.and_then(|file| submitted(&*file, TransferKind::Read, offset, &bytes)),
                    6 => file.and_then(|file| submitted(&*file, TransferKind::Write, offset, &bytes)),
                    _ => file.and_then(|file| file.write_at(offset, &bytes, WHY)).map(|()| Vec::new()),
                }
                .map_err(|error| error.kind())
            });
            assert!(outcomes[0] == outcomes[1], "seed {seed}, step {step}");
            for name in NAMES.map(Path::new) {
                let [found, expected] = both.map(|vfs| (vfs.exists(name).unwrap(), content(vfs, name)));
                assert!(found == expected, "seed {seed}, step {step}: {}", name.display());
            }
            let lists = both.map(|vfs| vfs.list(Path::new("/d")).unwrap());
            assert_eq!(lists[0], lists[1], "seed {seed}, step {step}");
        }
        assert!(content(&disk, Path::new("/d/a")).unwrap() == [1; 8 * BLOCK]);
        assert!(content(&disk, Path::new("/d/b")).unwrap() == [2; 3 * BLOCK]);
        assert_eq!(disk.list(Path::new("/d")).unwrap().len(), 2);
    }
}

#[test]
fn overlay_locks_are_exclusive_and_read_only_files_reject_writes() {
    let (_, overlay) = overlay();
    let lock = overlay.lock(Path::new("/d/a")).unwrap();
    assert_eq!(overlay.lock(Path::new("/d/a")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    overlay.lock(Path::new("/d/a")).unwrap();
    let file = overlay.open(Path::new("/d/a"), OpenMode::Read).unwrap();
    let refused = [file.write_at(0, &[0; BLOCK], WHY), file.grow(1 << 20), file.truncate(0)];
    assert!(refused.iter().all(Result::is_err));
}
