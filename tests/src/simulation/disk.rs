//! Storage of a simulation: a simulated disk, or an array on its files that has lost members.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_array::{Array, AssembleOptions, CreateArrayOptions, RaidLevel};
use jetcell_luns::{LunVolume, SharedLunVolume, Volume, WriteLogOptions};
use jetcell_vfs::{CrashOptions, IoReason, OpenMode, SimVfs, Vfs};

/// Size of a member in bytes.
const MEMBER: u64 = 96 << 20;
/// Name of the LUN with the files, and its size in blocks. [`LOG`] is the size of the write log in bytes. A small log
/// makes consistency points frequent.
const LUN: (&str, u64) = ("files", 20_000);
const LOG: u64 = 2 << 20;

/// A disk that can lose power, with the files of the engine.
pub(super) struct CrashableDisk {
    sim: SimVfs,
    array: Option<ArrayDisk>,
}

struct ArrayDisk {
    /// Remaining members.
    members: Vec<PathBuf>,
    /// Number of further members that may be lost.
    remaining_member_losses: usize,
    /// True if the files are on a LUN, which never writes in place.
    has_luns: bool,
    files: Volume,
}

impl CrashableDisk {
    /// Creates an empty disk.
    pub fn new() -> CrashableDisk {
        CrashableDisk { sim: SimVfs::new(), array: None }
    }

    /// Creates an array that lacks one of its members. Later power cuts remove further members, as long as the array
    /// tolerates their loss.
    pub fn degraded_array(level: RaidLevel, count: usize, has_luns: bool, seed: u64) -> CrashableDisk {
        let sim = SimVfs::new();
        let mut members: Vec<PathBuf> =
            (0..count).map(|number| format!("/members/m{number:02}").into()).collect();
        for member in &members {
            let file = sim.open(member, OpenMode::CreateNew).expect("the power is on");
            file.grow(MEMBER).and_then(|()| file.sync(IoReason::Other)).expect("the power is on");
        }
        sim.sync_directory(Path::new("/members")).expect("the power is on");
        Array::create(&sim, &members, &CreateArrayOptions::new(level, 99)).expect("the members are new");
        if has_luns {
            let made = LunVolume::create(assembled(&sim, &members), &log(&sim))
                .and_then(|mut luns| luns.create_lun(LUN.0, LUN.1).and_then(|()| luns.close()));
            made.expect("the power is on");
        }
        members.remove(seed as usize % count);
        let files = mount(&sim, &members, has_luns);
        let spare_losses = level.tolerance(count) - 1;
        CrashableDisk {
            sim,
            array: Some(ArrayDisk { members, remaining_member_losses: spare_losses, has_luns, files }),
        }
    }

    /// Returns the files of the engine.
    pub fn files(&self) -> Arc<dyn Vfs> {
        match &self.array {
            Some(array) => Arc::new(array.files.clone()),
            None => Arc::new(self.sim.clone()),
        }
    }

    /// Returns a copy of the disk; `None` for an array, which would repair damage on its members.
    pub fn copy(&self) -> Option<SimVfs> {
        self.array.is_none().then(|| self.sim.clone_disk())
    }

    pub fn operations(&self) -> u64 {
        self.sim.operations()
    }

    pub fn stop_after(&self, operations: u64) {
        self.sim.cut_power_after(operations);
    }

    pub fn has_power(&self) -> bool {
        self.sim.list(Path::new("/")).is_ok()
    }

    /// Returns the disk after the process was killed.
    pub fn process_kill(&self) -> CrashableDisk {
        self.restarted(self.sim.process_kill(), false)
    }

    /// Returns the disk after a power cut. An array may lose another member.
    pub fn crash(&self, seed: u64) -> CrashableDisk {
        self.restarted(self.sim.crash(seed, CrashOptions::default()), seed.is_multiple_of(4))
    }

    fn restarted(&self, sim: SimVfs, loses_member: bool) -> CrashableDisk {
        let array = self.array.as_ref().map(|array| {
            let ArrayDisk { remaining_member_losses: mut spare_losses, has_luns, .. } = *array;
            let mut members = array.members.clone();
            if loses_member && spare_losses > 0 {
                members.remove(0);
                spare_losses -= 1;
            }
            ArrayDisk {
                files: mount(&sim, &members, has_luns),
                members,
                remaining_member_losses: spare_losses,
                has_luns,
            }
        });
        CrashableDisk { sim, array }
    }
}

fn log(sim: &SimVfs) -> WriteLogOptions {
    WriteLogOptions { bytes: LOG, ..WriteLogOptions::new(Arc::new(sim.clone()), "/members/write-log".into()) }
}

fn assembled(sim: &SimVfs, members: &[PathBuf]) -> Array {
    let options = AssembleOptions { force: true, ..AssembleOptions::default() };
    let array = Array::assemble(Arc::new(sim.clone()), members, options);
    array.unwrap_or_else(|error| panic!("the array cannot be assembled: {error}"))
}

fn mount(sim: &SimVfs, members: &[PathBuf], has_luns: bool) -> Volume {
    let (array, clock, root) = (assembled(sim, members), sim.clock(), Path::new("/"));
    let volume = if has_luns {
        LunVolume::start(array, &log(sim))
            .and_then(|luns| Volume::mount_lun(SharedLunVolume::new(luns), LUN.0, clock, root))
    } else {
        Volume::mount(array, clock, root)
    };
    volume.unwrap_or_else(|error| panic!("the files cannot be read: {error}"))
}
