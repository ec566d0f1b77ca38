//! A file whose accesses take as long as those of a drive.

use std::io;

use jetcell_disk_simulation::drive::DriveAccess;
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{File, FileLayer, IoBuffer, IoReason, Transfer, TransferKind};

use crate::drives::{AccessCompletion, DriveId};
use crate::scheduler::DriveScheduler;

pub(crate) struct SimulatedDriveFile {
    inner: Arc<dyn File>,
    machine: Arc<DriveScheduler>,
    id: DriveId,
}

impl SimulatedDriveFile {
    pub fn new(inner: Arc<dyn File>, machine: Arc<DriveScheduler>, id: DriveId) -> SimulatedDriveFile {
        SimulatedDriveFile { inner, machine, id }
    }

    /// Starts an access. Returns a receiver that gets a message when the access completes.
    fn begin(&self, position: u64, bytes: usize, is_write: bool) -> Receiver<()> {
        let (completion, ended) = completion_channel();
        let access = DriveAccess { position, bytes: bytes as u64, is_write };
        self.machine.begin(self.id, vec![(access, completion)]);
        ended
    }

    fn update_size(&self) -> io::Result<()> {
        self.machine.resize(self.id, self.inner.len()?);
        Ok(())
    }
}

/// Returns a completion, and a receiver that gets a message when the completion is called.
fn completion_channel() -> (AccessCompletion, Receiver<()>) {
    let (sender, ended) = channel();
    let tell = move || {
        // Sending fails only if the caller no longer waits for the result.
        let _ = sender.send(());
    };
    (Box::new(tell), ended)
}

impl FileLayer for SimulatedDriveFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        let ended = self.begin(offset, buffer.len(), false);
        let result = self.inner.read_at(offset, buffer, reason);
        let _ = ended.recv();
        result
    }

    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let ended = self.begin(offset, data.len(), true);
        let result = self.inner.write_at(offset, data, reason);
        let _ = ended.recv();
        result
    }

    fn submit(&self, batch: Vec<Transfer>) {
        let (mut below, mut accesses) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for Transfer { kind, offset, buffer, reason, done } in batch {
            let is_write = kind == TransferKind::Write;
            let access = DriveAccess { position: offset, bytes: buffer.len() as u64, is_write };
            let both = Arc::new(TimedTransfer::new(done));
            let of_content = both.clone();
            let transferred = move |result, buffer| of_content.transferred(result, buffer);
            below.push(Transfer { kind, offset, buffer, reason, done: Box::new(transferred) });
            let completion: AccessCompletion = Box::new(move || both.time_elapsed());
            accesses.push((access, completion));
        }
        self.inner.submit(below);
        self.machine.begin(self.id, accesses);
    }

    fn sync(&self, reason: IoReason) -> io::Result<()> {
        let flushed = self.machine.has_flushes().then(|| {
            let (completion, ended) = completion_channel();
            self.machine.flush(self.id, completion);
            ended
        });
        let result = self.inner.sync(reason);
        if let Some(flushed) = flushed {
            let _ = flushed.recv();
        }
        result
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.inner.grow(len)?;
        self.update_size()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)?;
        self.update_size()
    }
}

type TransferCompletion = Box<dyn FnOnce(io::Result<()>, IoBuffer) + Send>;

/// A transfer that completes once its content has been transferred and its model time has elapsed.
struct TimedTransfer(Mutex<TimedTransferState>);

enum TimedTransferState {
    Pending(TransferCompletion),
    Transferred(TransferCompletion, io::Result<()>, IoBuffer),
    TimeElapsed(TransferCompletion),
    Done,
}

impl TimedTransfer {
    fn new(done: TransferCompletion) -> TimedTransfer {
        TimedTransfer(Mutex::new(TimedTransferState::Pending(done)))
    }

    fn transferred(&self, result: io::Result<()>, buffer: IoBuffer) {
        let mut half = self.0.lock();
        match std::mem::replace(&mut *half, TimedTransferState::Done) {
            TimedTransferState::Pending(done) => {
                *half = TimedTransferState::Transferred(done, result, buffer);
            }
            TimedTransferState::TimeElapsed(done) => {
                drop(half);
                done(result, buffer);
            }
            TimedTransferState::Transferred(..) | TimedTransferState::Done => {}
        }
    }

    fn time_elapsed(&self) {
        let mut half = self.0.lock();
        match std::mem::replace(&mut *half, TimedTransferState::Done) {
            TimedTransferState::Pending(done) => *half = TimedTransferState::TimeElapsed(done),
            TimedTransferState::Transferred(done, result, buffer) => {
                drop(half);
                done(result, buffer);
            }
            TimedTransferState::TimeElapsed(_) | TimedTransferState::Done => {}
        }
    }
}
