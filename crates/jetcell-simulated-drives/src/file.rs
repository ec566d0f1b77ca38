//! A file whose accesses take as long as those of a drive.

use std::io;

use jetcell_disk_simulation::drive::Access;
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{File, FileLayer, IoBuffer, IoReason, Transfer, TransferKind};

use crate::drives::{Completion, DriveId};
use crate::machine::Machine;

pub(crate) struct DriveFile {
    inner: Arc<dyn File>,
    machine: Arc<Machine>,
    id: DriveId,
}

impl DriveFile {
    pub fn new(inner: Arc<dyn File>, machine: Arc<Machine>, id: DriveId) -> DriveFile {
        DriveFile { inner, machine, id }
    }

    /// Starts an access. Returns a receiver that gets a message when the access completes.
    fn begin(&self, position: u64, bytes: usize, is_write: bool) -> Receiver<()> {
        let (completion, ended) = told();
        let access = Access { position, bytes: bytes as u64, is_write };
        self.machine.begin(self.id, vec![(access, completion)]);
        ended
    }

    fn resized(&self) -> io::Result<()> {
        self.machine.resize(self.id, self.inner.len()?);
        Ok(())
    }
}

/// Returns a completion, and a receiver that gets a message when the completion is called.
fn told() -> (Completion, Receiver<()>) {
    let (sender, ended) = channel();
    let tell = move || {
        // Sending fails only if the caller no longer waits for the result.
        let _ = sender.send(());
    };
    (Box::new(tell), ended)
}

impl FileLayer for DriveFile {
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
            let access = Access { position: offset, bytes: buffer.len() as u64, is_write };
            let both = Arc::new(Both::new(done));
            let of_content = both.clone();
            let transferred = move |result, buffer| of_content.transferred(result, buffer);
            below.push(Transfer { kind, offset, buffer, reason, done: Box::new(transferred) });
            let completion: Completion = Box::new(move || both.taken());
            accesses.push((access, completion));
        }
        self.inner.submit(below);
        self.machine.begin(self.id, accesses);
    }

    fn sync(&self, reason: IoReason) -> io::Result<()> {
        let flushed = self.machine.has_flushes().then(|| {
            let (completion, ended) = told();
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
        self.resized()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)?;
        self.resized()
    }
}

type Done = Box<dyn FnOnce(io::Result<()>, IoBuffer) + Send>;

/// A transfer that completes once its content has been transferred and its model time has elapsed.
struct Both(Mutex<Half>);

enum Half {
    Neither(Done),
    Transferred(Done, io::Result<()>, IoBuffer),
    Taken(Done),
    Done,
}

impl Both {
    fn new(done: Done) -> Both {
        Both(Mutex::new(Half::Neither(done)))
    }

    fn transferred(&self, result: io::Result<()>, buffer: IoBuffer) {
        let mut half = self.0.lock();
        match std::mem::replace(&mut *half, Half::Done) {
            Half::Neither(done) => *half = Half::Transferred(done, result, buffer),
            Half::Taken(done) => {
                drop(half);
                done(result, buffer);
            }
            Half::Transferred(..) | Half::Done => {}
        }
    }

    fn taken(&self) {
        let mut half = self.0.lock();
        match std::mem::replace(&mut *half, Half::Done) {
            Half::Neither(done) => *half = Half::Taken(done),
            Half::Transferred(done, result, buffer) => {
                drop(half);
                done(result, buffer);
            }
            Half::Taken(_) | Half::Done => {}
        }
    }
}
