//! A memory limit for this process, page cache included, with a control group of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether memory is limited, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    /// In a control group, to so many bytes.
    ControlGroup(u64),
    /// Not limited, because of this.
    None(String),
}

/// The group this process was put into; removed when it is dropped, after which the process has no limit.
pub struct Group {
    home: PathBuf,
    own: Option<PathBuf>,
    /// What came of it.
    pub limit: Limit,
}

impl Group {
    /// Limits this process.
    pub fn enter(bytes: u64) -> Group {
        match v2().or_else(v1) {
            None => Group::none("no memory controller that this user may use"),
            Some((home, file)) => {
                remove_leftovers(&home);
                let own = home.join(format!("jetcell-bench-{}", std::process::id()));
                let made = fs::create_dir(&own)
                    .and_then(|()| fs::write(own.join(file), bytes.to_string()))
                    .and_then(|()| fs::write(own.join("cgroup.procs"), std::process::id().to_string()));
                match made {
                    Ok(()) => Group { home, own: Some(own), limit: Limit::ControlGroup(bytes) },
                    Err(error) => {
                        let _ = fs::remove_dir(&own);
                        Group::none(&error.to_string())
                    }
                }
            }
        }
    }
}

impl Group {
    /// No limit, because of this.
    pub fn none(why: &str) -> Group {
        Group { home: PathBuf::new(), own: None, limit: Limit::None(why.to_string()) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
            let _ = fs::remove_dir(own);
        }
    }
}

/// Removes groups that killed processes left behind.
fn remove_leftovers(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("jetcell-bench-"))
    {
        // Fails while it has members, as it should.
        let _ = fs::remove_dir(entry.path());
    }
}

/// The group of this process in the hierarchy that the second word of a line of `/proc/self/cgroup` names.
fn group_of_self(controller: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let line = text.lines().find(|line| {
        line.split(':').nth(1).is_some_and(|list| list.split(',').any(|one| one == controller))
    })?;
    let path = line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_string();
    // The process may have been put into its own group already.
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
