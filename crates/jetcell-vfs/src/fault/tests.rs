//! Faults on a simulated disk.

use std::io;
use std::path::Path;

use jetcell_sync::{Arc, Mutex};
use rustix::io::Errno;

use super::{FaultEffect, FaultTarget, FaultVfs, InjectedFault};
use crate::{CrashOptions, File, IoBuffer, IoReason, OpenMode, SimVfs, Transfer, TransferKind, Vfs};

const LOG: IoReason = IoReason::LogWrite;

fn fixture() -> (FaultVfs, Arc<dyn File>) {
    let vfs = FaultVfs::new(Arc::new(SimVfs::new()));
    let file = vfs.open(Path::new("/a.log"), OpenMode::CreateNew).unwrap();
    file.grow(16384).unwrap();
    (vfs, file)
}

fn bytes(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    file.read_at(0, &mut bytes, IoReason::Verify).unwrap();
    bytes
}

#[test]
fn the_chosen_operation_fails_and_no_other() {
    let (vfs, file) = fixture();
    vfs.inject(
        InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).for_reason(LOG).after_operations(1),
    );
    vfs.inject(InjectedFault::new(FaultTarget::Sync, FaultEffect::IoError).on_path(".edb"));
    let write = |reason| file.write_at(0, &[1; 512], reason).err().and_then(|error| error.raw_os_error());
    let eio = Some(Errno::IO.raw_os_error());
    assert_eq!([IoReason::Other, LOG, LOG, LOG].map(write), [None, None, eio, None]);
    assert!(file.sync(LOG).is_ok() && vfs.fired_count() == 1);
    vfs.inject(InjectedFault::new(FaultTarget::Sync, FaultEffect::IoError).on_path(".log").repeating());
    assert!(file.sync(LOG).is_err() && file.sync(LOG).is_err());
    vfs.clear();
    assert!(file.sync(LOG).is_ok());
}

#[test]
fn writes_and_growth_share_the_space_limit() {
    let (vfs, file) = fixture();
    vfs.inject(InjectedFault::new(FaultTarget::Space, FaultEffect::NoSpace).after_bytes(8192).repeating());
    file.write_at(0, &[1; 4096], LOG).unwrap();
    assert_eq!(file.grow(16384 + 8192).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(0, &[1; 8192], LOG).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 16384);
    file.write_at(0, &[1; 4096], LOG).unwrap();
    let create = || vfs.open(Path::new("/b.log"), OpenMode::CreateNew).map(drop);
    assert_eq!(create().unwrap_err().kind(), io::ErrorKind::StorageFull, "nothing is left");
    vfs.clear();
    vfs.inject(InjectedFault::new(FaultTarget::Space, FaultEffect::NoSpace).after_bytes(4096).repeating());
    assert!(create().is_ok() && file.grow(16384 + 4096).is_ok() && file.grow(16384 + 8192).is_err());
}

#[test]
fn writes_are_torn_or_lost_and_reads_return_wrong_bits() {
    let (vfs, file) = fixture();
    vfs.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::Torn(1024)));
    assert!(file.write_at(0, &[1; 4096], LOG).is_err());
    assert_eq!(bytes(&*file)[1020..1030], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    vfs.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::Lost));
    assert!(file.write_at(0, &[2; 4096], LOG).is_ok());
    assert_eq!(bytes(&*file)[0], 1);
    vfs.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::TornUnnoticed(1000)));
    assert!(file.write_at(0, &[1; 4096], LOG).is_ok());
    assert_eq!(bytes(&*file)[1020..1030], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    vfs.inject(InjectedFault::new(FaultTarget::Read, FaultEffect::FlipBit(17)));
    assert_eq!(bytes(&*file)[..3], [1, 1, 3]);
    assert_eq!(bytes(&*file)[..3], [1, 1, 1]);
}

#[test]
fn falsely_acknowledged_syncs_persist_nothing() {
    let disk = SimVfs::new();
    let vfs = FaultVfs::new(Arc::new(disk.clone()));
    let path = Path::new("/a.log");
    let after = |what| disk.crash(what, lose_everything()).contents(path).map(|bytes| bytes.len());
    let file = vfs.open(path, OpenMode::CreateNew).unwrap();
    file.grow(4096).unwrap();
    vfs.inject(InjectedFault::new(FaultTarget::SyncDirectory, FaultEffect::Lost));
    vfs.inject(InjectedFault::new(FaultTarget::Sync, FaultEffect::Lost).on_path(".log"));
    assert!(vfs.sync_directory(Path::new("/")).is_ok() && after(1).is_none());
    assert!(vfs.sync_directory(Path::new("/")).is_ok());
    assert!(file.sync(LOG).is_ok() && after(2) == Some(0));
    assert!(file.sync(LOG).is_ok() && after(3) == Some(4096));
}

fn lose_everything() -> CrashOptions {
    CrashOptions {
        all_or_nothing: 0.0,
        lose_write: 1.0,
        lose_length: 1.0,
        lose_name: 1.0,
        ..CrashOptions::default()
    }
}

#[test]
fn one_transfer_of_a_batch_fails() {
    let (vfs, file) = fixture();
    vfs.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).after_operations(1));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let transfer = |index: u64| {
        let failed = failed.clone();
        let done = Box::new(move |result: io::Result<()>, buffer: IoBuffer| {
            assert_eq!(buffer.len(), 4096);
            failed.lock().push((index, result.is_err()));
        });
        let buffer = IoBuffer::zeroed(4096);
        Transfer { kind: TransferKind::Write, offset: index * 4096, buffer, reason: LOG, done }
    };
    file.submit((0..3).map(transfer).collect());
    let mut failed = failed.lock();
    failed.sort();
    assert_eq!(*failed, [(0, false), (1, true), (2, false)]);
}

#[test]
fn directory_operations_can_fail() {
    let (vfs, _file) = fixture();
    let (old, new) = (Path::new("/a.log"), Path::new("/b.log"));
    use FaultTarget::{Create, Open, Remove, Rename, SyncDirectory};
    [Create, Open, Remove, Rename, SyncDirectory]
        .into_iter()
        .for_each(|target| vfs.inject(InjectedFault::new(target, FaultEffect::NoSpace)));
    assert!(vfs.open(new, OpenMode::CreateNew).is_err() && vfs.open(old, OpenMode::Read).is_err());
    assert!(vfs.rename(old, new).is_err() && vfs.remove(old).is_err());
    assert!(
        vfs.sync_directory(Path::new("/")).is_err() && vfs.exists(old).unwrap() && !vfs.exists(new).unwrap()
    );
    assert!(vfs.open(old, OpenMode::Read).is_ok() && vfs.fired_count() == 5);
}
