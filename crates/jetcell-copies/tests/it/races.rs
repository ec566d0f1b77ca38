//! Races with other processes between two system calls: logs are closed and files are removed.

use std::io;
use std::path::{Path, PathBuf};

use ese_format::Generation;
use jetcell_copies::{
    CopyError, CopyPhase, CopyState, DirectorySource, HistoryRelation, LogHistory, LogSource, LossLimit,
    Refusal, StreamDirectory, activate,
};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{DirectoryLock, FileStem, OpenMode, SimVfs, Vfs, VfsLayer};

use super::active_instance::{ACTIVE, ActiveInstance, COPY, KEEP, logs, seeded};

fn files(disk: &SimVfs, directory: &str) -> Vec<PathBuf> {
    disk.list(Path::new(directory)).unwrap()
}

fn history(disk: &SimVfs, files: &[PathBuf]) -> LogHistory {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    LogHistory::from_files(&vfs, files).unwrap()
}

#[test]
fn closing_the_newest_log_does_not_change_the_history() {
    let disk = SimVfs::new();
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.insert(0..60);
    let before = history(&disk, &files(&disk, ACTIVE));
    let newest = before.newest();
    site.insert(60..200);
    assert!(history(&disk, &files(&disk, ACTIVE)).newest() > newest, "the log was closed since");
    let after = history(&disk, &files(&disk, ACTIVE));
    assert_eq!(before.log_end(newest).unwrap(), after.log_end(newest).unwrap());
    let more = after.newest().0 - newest.0;
    assert_eq!(before.compare(&after).unwrap(), HistoryRelation::Behind(more));
    assert_eq!(after.compare(&before).unwrap(), HistoryRelation::Ahead(more));
    site.close();
}

type Hook = Box<dyn FnMut(&Path) + Send>;

/// Runs a hook directly before a lock is acquired, to simulate another process.
struct LockHookVfs {
    disk: SimVfs,
    hook: Mutex<Option<Hook>>,
}

impl VfsLayer for LockHookVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let hook = self.hook.lock().take();
        if let Some(mut hook) = hook {
            hook(path);
            *self.hook.lock() = Some(hook);
        }
        self.disk.lock(path)
    }
}

#[test]
fn logs_closed_before_the_lockout_are_handed_over() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.insert(20..100);
    let newest = site.instance.core().log().tail().generation;
    let mut site = Some(site);
    let hook: Hook = Box::new(move |_| {
        if let Some(site) = site.take() {
            site.insert(100..300);
            site.close();
        }
    });
    let vfs: Arc<dyn Vfs> = Arc::new(LockHookVfs { disk: disk.clone(), hook: Mutex::new(Some(hook)) });
    let directory = StreamDirectory::new(&vfs, Path::new(ACTIVE), FileStem::E00, Default::default());
    let handover = DirectorySource::new(directory).hand_over("/copy").unwrap();
    let closed = *logs(&disk, ACTIVE).closed().unwrap().last_key_value().unwrap().0;
    assert!(closed > newest, "{closed:?} {newest:?}");
    let known: Vec<Generation> = handover.logs().keys().copied().collect();
    assert!(known.contains(&closed), "{closed:?}: {known:?}");
    for generation in known {
        handover.log(generation).unwrap();
    }
}

/// Simulates another process that removes each file first.
struct ContendedVfs(SimVfs);

impl VfsLayer for ContendedVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.0
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)?;
        Err(io::ErrorKind::NotFound.into())
    }
}

#[test]
fn a_concurrently_removed_file_does_not_stop_a_copy() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(20..300);
    // An interrupted attempt left a part of the next log.
    let next = jetcell_copies::CopyState::read(&disk, Path::new("/copy")).unwrap().unwrap().next;
    let left = logs(&disk, ACTIVE).archived(Generation(next));
    disk.put(&Path::new("/copy/incoming").join(left.file_name().unwrap()), b"part");
    let vfs: Arc<dyn Vfs> = Arc::new(ContendedVfs(disk.clone()));
    let active = StreamDirectory::new(&vfs, Path::new(ACTIVE), FileStem::E00, Default::default());
    let source = Box::new(DirectorySource::new(active));
    let options = super::active_instance::replay_options();
    let mut copy = jetcell_copies::Replicator::open(&vfs, Path::new("/copy"), source, options).unwrap();
    let mut copied = 0;
    for _ in 0..100 {
        let step = copy.step().unwrap();
        assert!(step.waiting.is_none(), "{:?}", step.waiting);
        copied += step.copied;
        if step.is_idle() {
            break;
        }
    }
    assert!(copied > 5);
    assert!(disk.open(&left, OpenMode::Read).is_ok());
    drop(copy);
    site.close();
}

/// A process that is killed while it replaces a state file leaves the new file under another name.
#[test]
fn the_next_owner_removes_unfinished_states() {
    let disk = seeded(20);
    let left = ["copy.json.unfinished", "copy.json.1f-3.unfinished", "checks.json.a-b.unfinished"];
    let put = |name: &str| disk.put(&Path::new("/copy").join(name), b"left");
    let is_there = |name: &str| disk.exists(&Path::new("/copy").join(name)).unwrap();
    let owner = super::active_instance::follow(&disk).unwrap();
    left.iter().for_each(|name| put(name));
    put("letter.unfinished");
    super::active_instance::follow(&disk).map(drop).unwrap_err();
    assert!(left.iter().all(|name| is_there(name)), "the owner may be writing them");
    drop(owner);
    drop(super::active_instance::follow(&disk).unwrap());
    assert!(!left.iter().any(|name| is_there(name)) && is_there("letter.unfinished"));
}

/// Another process activates the copy, and stops before it completes, while this process has released the lock.
#[test]
fn an_activation_does_not_replace_an_interrupted_one() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.insert(20..200);
    super::active_instance::catch_up(&disk).unwrap();
    let activating = CopyPhase::Activating { lost: None, steps_down: false };
    let mut locks = 0;
    let (other, phase) = (disk.clone(), activating.clone());
    let hook = move |path: &Path| {
        locks += u32::from(path.ends_with("copy.lock"));
        if path.ends_with("copy.lock") && locks == 2 {
            let mut state = CopyState::read(&other, Path::new(COPY)).unwrap().unwrap();
            state.phase = phase.clone();
            state.store(&other, Path::new(COPY)).unwrap();
        }
    };
    let vfs: Arc<dyn Vfs> =
        Arc::new(LockHookVfs { disk: disk.clone(), hook: Mutex::new(Some(Box::new(hook))) });
    drop(site);
    for path in files(&disk, ACTIVE) {
        disk.remove(&path).unwrap();
    }
    let source = Box::new(super::active_instance::source(&disk));
    let options = super::active_instance::replay_options();
    let activated = activate(&vfs, Path::new(COPY), source, LossLimit::Any, &options);
    assert!(
        matches!(activated, Err(CopyError::Refused { reason: Refusal::ActivationIncomplete, .. })),
        "{activated:?}"
    );
    assert_eq!(CopyState::read(&disk, Path::new(COPY)).unwrap().unwrap().phase, activating);
}
