//! Small arrays on the machine's file system, for tests.

use std::path::{Path, PathBuf};

use jetcell_array::RaidLevel;
use jetcell_input::quantity::ByteSize;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{RealOptions, RealVfs};

use crate::environment::ServiceEnvironment;
use crate::lifecycle::NewArray;

/// Size of a member.
pub const MEMBER_SIZE: ByteSize = ByteSize(16 << 20);

pub fn environment() -> ServiceEnvironment {
    let vfs = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    ServiceEnvironment { vfs, show_note: Arc::new(|_| {}) }
}

/// Returns an environment, and the list to which its notes are added.
pub fn environment_with_notes() -> (ServiceEnvironment, Arc<Mutex<Vec<String>>>) {
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let noted = notes.clone();
    let show_note = Arc::new(move |note: &str| noted.lock().push(note.to_string()));
    (ServiceEnvironment { show_note, ..environment() }, notes)
}

/// Creates a RAID 5 array of three members. Each member's name consists of the array's name and the slot number.
pub fn create(parent: &Path, name: &str) -> PathBuf {
    let member = |number: usize| parent.join(format!("{name}{number}"));
    let new = NewArray {
        directory: parent.join(name),
        level: RaidLevel::Raid5,
        members: (0..3).map(member).collect(),
        spares: vec![],
        size: Some(MEMBER_SIZE),
        chunk: ByteSize(64 << 10),
        simulated_drive: None,
        force: false,
    };
    new.create(&environment()).unwrap();
    new.directory
}
