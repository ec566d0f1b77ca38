//! Limits the memory of this process, page cache included, with a control group of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether the memory of the process is limited, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MemoryLimit {
    /// Limited by a control group to this many bytes.
    ControlGroup(u64),
    /// Not limited, for this reason.
    None(String),
}

/// The control group of this process. When it is dropped, the group is removed and the process has no limit.
pub struct ControlGroup {
    home: PathBuf,
    own: Option<PathBuf>,
    /// The limit that is in force.
    pub limit: MemoryLimit,
}

impl ControlGroup {
    /// Limits this process to `bytes`.
    pub fn enter(bytes: u64) -> ControlGroup {
        match v2().or_else(v1) {
            None => ControlGroup::none("no memory controller that this user may use"),
            Some((home, file)) => {
                remove_leftovers(&home);
                let own = home.join(format!("jetcell-bench-{}", std::process::id()));
                let made = fs::create_dir(&own)
                    .and_then(|()| fs::write(own.join(file), bytes.to_string()))
                    .and_then(|()| fs::write(own.join("cgroup.procs"), std::process::id().to_string()));
                match made {
                    Ok(()) => ControlGroup { home, own: Some(own), limit: MemoryLimit::ControlGroup(bytes) },
                    Err(error) => {
                        let _ = fs::remove_dir(&own);
                        ControlGroup::none(&error.to_string())
                    }
                }
            }
        }
    }
}

impl ControlGroup {
    /// Leaves the process unlimited, for this reason.
    pub fn none(why: &str) -> ControlGroup {
        ControlGroup { home: PathBuf::new(), own: None, limit: MemoryLimit::None(why.to_string()) }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
            let _ = fs::remove_dir(own);
        }
    }
}

/// Removes the groups of processes that were killed.
fn remove_leftovers(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("jetcell-bench-"))
    {
        // Fails for a group that has members, as it should.
        let _ = fs::remove_dir(entry.path());
    }
}

/// The group of this process in the hierarchy of a controller, from `/proc/self/cgroup`.
fn group_of_self(controller: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let line = text.lines().find(|line| {
        line.split(':').nth(1).is_some_and(|list| list.split(',').any(|one| one == controller))
    })?;
    let path = line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_string();
    Some(PathBuf::from(path))
}

fn v2() -> Option<(PathBuf, &'static str)> {
    let home = Path::new("/sys/fs/cgroup").join(group_of_self("")?);
    let enabled = fs::read_to_string(home.join("cgroup.subtree_control")).ok()?;
    enabled.split_whitespace().any(|one| one == "memory").then_some((home, "memory.max"))
}

fn v1() -> Option<(PathBuf, &'static str)> {
    let home = Path::new("/sys/fs/cgroup/memory").join(group_of_self("memory")?);
    let home = if home.is_dir() { home } else { PathBuf::from("/sys/fs/cgroup/memory") };
    home.is_dir().then_some((home, "memory.limit_in_bytes"))
}
