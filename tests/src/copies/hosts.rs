//! Three hosts, each with a separate simulated disk, combined into one file system: host 1 is everything below `/1`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jetcell_vfs::{Clock, CrashOptions, DirectoryLock, File, OpenMode, SimClock, SimVfs, Vfs};

/// Number of hosts.
pub const HOSTS: usize = 3;

/// The disks of all hosts. The handle of a host remains valid across its power cuts.
#[derive(Clone)]
pub struct HostDisks {
    disks: Arc<[Mutex<SimVfs>; HOSTS]>,
    clock: Arc<SimClock>,
    /// Number of restarts of each host.
    boots: Arc<[AtomicU64; HOSTS]>,
}

impl HostDisks {
    /// Creates hosts with empty disks.
    pub fn new() -> HostDisks {
        HostDisks {
            disks: Arc::new([(); HOSTS].map(|()| Mutex::new(SimVfs::new()))),
            clock: Arc::default(),
            boots: Arc::default(),
        }
    }

    /// Returns the directory of the store on a host.
    pub fn store(host: usize) -> PathBuf {
        PathBuf::from(format!("/{host}"))
    }

    /// Returns the disk of a host.
    pub fn disk(&self, host: usize) -> SimVfs {
        self.disks[host].lock().expect("no panic").clone()
    }

    fn disk_for(&self, path: &Path) -> SimVfs {
        let host = path.iter().nth(1).and_then(|name| name.to_str()?.parse().ok());
        self.disk(host.filter(|host| *host < HOSTS).unwrap_or(0))
    }

    /// Returns true if a host has power.
    pub fn has_power(&self, host: usize) -> bool {
        self.disk(host).list(Path::new("/")).is_ok()
    }

    /// Returns the number of restarts of a host.
    pub fn boots(&self, host: usize) -> u64 {
        self.boots[host].load(Ordering::Relaxed)
    }

    /// Restarts a host after a power cut or after its processes were killed.
    pub fn restart_host(&self, host: usize, kill: bool, seed: u64) {
        self.boots[host].fetch_add(1, Ordering::Relaxed);
        let mut disk = self.disks[host].lock().expect("no panic");
        *disk = if kill { disk.process_kill() } else { disk.crash(seed, CrashOptions::default()) };
    }
}

impl Default for HostDisks {
    fn default() -> HostDisks {
        HostDisks::new()
    }
}

impl Vfs for HostDisks {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk_for(path).open(path, mode)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk_for(path).exists(path)
    }

    fn is_confined(&self, directory: &Path) -> bool {
        self.disk_for(directory).is_confined(directory)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path).remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk_for(from).rename(from, to)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk_for(directory).sync_directory(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk_for(directory).create_directory(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk_for(directory).list(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.disk_for(path).free_space(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk_for(path).lock(path)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
