//! Limits this process with a control group of its own: its memory, page cache included, or the rate of a disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Whether the memory of the process is limited, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MemoryLimitSource {
    /// Limited by a control group to this many bytes.
    ControlGroup(u64),
    /// Not limited, for this reason.
    None(String),
}

/// The control group of this process. When it is dropped, the group is removed and the process has no limit.
pub struct ControlGroup {
    home: PathBuf,
    pub(crate) own: Option<PathBuf>,
    /// The limit that is in force.
    pub limit: MemoryLimitSource,
}

impl ControlGroup {
    /// Limits this process to `bytes`.
    pub fn enter(bytes: u64) -> ControlGroup {
        match v2().or_else(v1) {
            None => ControlGroup::none("this user does not have access to a memory controller"),
            Some((home, file)) => {
                let limit = MemoryLimitSource::ControlGroup(bytes);
                ControlGroup::create(home, &[(file, bytes.to_string())], limit)
                    .unwrap_or_else(|error| ControlGroup::none(&format!("{error:#}")))
            }
        }
    }

    /// Moves this process to a new group below `home` whose files have these values.
    pub(crate) fn create(
        home: PathBuf,
        values: &[(&str, String)],
        limit: MemoryLimitSource,
    ) -> Result<ControlGroup> {
        remove_leftovers(&home);
        let own = home.join(format!("jetcell-bench-{}", std::process::id()));
        fs::create_dir(&own).with_context(|| own.display().to_string())?;
        let group = ControlGroup { home, own: Some(own.clone()), limit };
        let members = ("cgroup.procs", std::process::id().to_string());
        for (file, value) in values.iter().chain([&members]) {
            fs::write(own.join(file), value).with_context(|| own.join(file).display().to_string())?;
        }
        Ok(group)
    }

    /// Leaves the process unlimited, for this reason.
    pub fn none(why: &str) -> ControlGroup {
        ControlGroup { home: PathBuf::new(), own: None, limit: MemoryLimitSource::None(why.to_string()) }
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
    Some((hierarchy("memory")?, "memory.limit_in_bytes"))
}

/// The group of this process in the hierarchy of a controller of version 1.
pub(crate) fn hierarchy(controller: &str) -> Option<PathBuf> {
    let root = Path::new("/sys/fs/cgroup").join(controller);
    let home = root.join(group_of_self(controller)?);
    let home = if home.is_dir() { home } else { root };
    home.is_dir().then_some(home)
}
