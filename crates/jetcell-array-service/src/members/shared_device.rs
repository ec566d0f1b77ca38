//! Detects members on the same device, because they would fail together.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use jetcell_host::machine::DirectoryStorage;
use serde::{Deserialize, Serialize};

/// Warning about several members on one device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SharedDevice {
    device: String,
    /// Number of members on the device.
    count: usize,
    first: String,
    last: String,
}

impl SharedDevice {
    /// Returns a warning for each device with several members.
    pub(crate) fn find_all(members: &[PathBuf]) -> Vec<SharedDevice> {
        let mut by_device: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in members {
            let Ok(metadata) = std::fs::metadata(path) else { continue };
            let known = DirectoryStorage::examine(path).device.map(|device| device.name);
            let device = known.unwrap_or_else(|| format!("with the number {}", metadata.dev()));
            by_device.entry(device).or_default().push(path.display().to_string());
        }
        let shared = by_device.into_iter().filter(|(_, members)| members.len() > 1);
        let warning = |(device, mut members): (String, Vec<String>)| {
            let (count, first) = (members.len(), members[0].clone());
            SharedDevice { device, count, first, last: members.swap_remove(count - 1) }
        };
        shared.map(warning).collect()
    }
}

impl fmt::Display for SharedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedDevice { device, count, first, last } = self;
        write!(
            f,
            "Warning: {count} members ({first} to {last}) are on one device ({device}); if it fails, all of \
             them fail"
        )
    }
}
