//! Computes the state of a disk after a power failure.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::content::SimContent;
use super::state::{DiskState, InterruptedChange, NameChange, SimInode, UnsyncedChange};

/// Size in bytes of a disk's atomic write unit. After a power failure, a sector has either its old or its new
/// content, never a mixture.
pub(super) const SECTOR: u64 = 512;

/// Probabilities, between 0 and 1, of the different kinds of damage that a power failure can cause.
#[derive(Clone, Copy, Debug)]
pub struct CrashOptions {
    /// Probability that an unsynced write is lost.
    pub lose_write: f64,
    /// Probability that an unsynced write stores only a random subset of its sectors.
    pub tear_write: f64,
    /// Probability that either all or none of a file's unsynced writes survive. Such outcomes are common in practice,
    /// but almost impossible if the fate of each write is decided separately.
    pub all_or_nothing: f64,
    /// Probability that an unsynced change to a file's length is lost, together with all later ones.
    pub lose_length: f64,
    /// Probability that an unsynced creation, removal or rename is lost, together with all later ones in the same
    /// directory.
    pub lose_name: f64,
    /// Probability that a surviving unsynced rename leaves the file under both names. All later changes to the
    /// directories involved are then lost. Journaling file systems never do that.
    pub tear_rename: f64,
}

impl Default for CrashOptions {
    fn default() -> CrashOptions {
        CrashOptions {
            lose_write: 0.35,
            tear_write: 0.25,
            all_or_nothing: 0.3,
            lose_length: 0.3,
            lose_name: 0.3,
            tear_rename: 0.0,
        }
    }
}

pub(super) fn crash(state: &DiskState, seed: u64, options: CrashOptions) -> DiskState {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut after = DiskState::clone(state);
    for interrupted in std::mem::take(&mut after.interrupted) {
        match interrupted {
            InterruptedChange::Name(change) => after.unsynced_names.push(change),
            InterruptedChange::File(node, change) => {
                if let Some(node) = after.nodes.get_mut(&node) {
                    if let UnsyncedChange::Write { offset, data } = &change {
                        let end = offset.saturating_add(data.len() as u64);
                        if end > node.current.len() {
                            node.unsynced.push(UnsyncedChange::Length(end));
                        }
                    }
                    node.unsynced.push(change);
                }
            }
        }
    }
    let mut cut: BTreeSet<PathBuf> = BTreeSet::new();
    for change in std::mem::take(&mut after.unsynced_names) {
        let directories = change.directories();
        let lost = directories.iter().any(|directory| cut.contains(*directory));
        if lost || rng.random_bool(options.lose_name) {
            cut.extend(directories.into_iter().map(PathBuf::from));
        } else if let NameChange::Rename { to, node, .. } = &change
            && options.tear_rename > 0.0
            && rng.random_bool(options.tear_rename)
        {
            after.durable_names.insert(to.clone(), *node);
            cut.extend(directories.into_iter().map(PathBuf::from));
        } else {
            change.apply(&mut after.durable_names);
        }
    }
    after.names = after.durable_names.clone();
    for node in after.nodes.values_mut() {
        let content = surviving(node, &mut rng, options);
        *node = SimInode { current: content.clone(), durable: content, ..SimInode::default() };
    }
    after.restarted()
}

fn surviving(node: &mut SimInode, rng: &mut ChaCha8Rng, options: CrashOptions) -> SimContent {
    let mut content = std::mem::take(&mut node.durable);
    if node.unsynced.is_empty() {
        return content;
    }
    let together = rng.random_bool(options.all_or_nothing).then(|| rng.random_bool(0.5));
    let mut lengths_lost = together == Some(false);
    for change in &node.unsynced {
        match change {
            UnsyncedChange::Length(len) => {
                lengths_lost |= together.is_none() && rng.random_bool(options.lose_length);
                if !lengths_lost {
                    content.set_len(*len);
                }
            }
            UnsyncedChange::Write { offset, data } => {
                let luck = match together {
                    Some(true) => 1.0,
                    Some(false) => continue,
                    None => rng.random::<f64>(),
                };
                if luck < options.lose_write {
                    continue;
                }
                let torn = luck < options.lose_write + options.tear_write;
                for (offset, sector) in sectors(*offset, data) {
                    if !torn || rng.random_bool(0.5) {
                        write_within(&mut content, offset, sector);
                    }
                }
            }
        }
    }
    content
}

/// Writes `data` up to the end of the file. Data past the end is lost.
fn write_within(content: &mut SimContent, offset: u64, data: &[u8]) {
    let room = content.len().saturating_sub(offset).min(data.len() as u64) as usize;
    if room > 0 {
        content.write(offset, &data[..room]);
    }
}

fn sectors(mut offset: u64, mut data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let len = (SECTOR - offset % SECTOR).min(data.len() as u64);
        let (sector, rest) = data.split_at(len as usize);
        let piece = (offset, sector);
        (offset, data) = (offset + len, rest);
        Some(piece)
    })
}
