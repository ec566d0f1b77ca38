//! A drive in simulated time. Each transfer takes a known time, and a fixed number of transfers are served in
//! parallel.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use jetcell_vfs::{Clock, File, IoBuffer, IoReason, SimClock, Transfer, TransferKind};

pub(crate) struct FakeDrive {
    len: u64,
    latency: Duration,
    /// Number of transfers that are served in parallel.
    channels: usize,
    /// Transfer rates in bytes per second at the start and at the end of the drive. If `None`, a transfer takes no
    /// time beyond the latency.
    rates: Option<(f64, f64)>,
    /// Time for a seek, and additional time per MiB of distance.
    seeks: Option<(Duration, Duration)>,
    sync: Duration,
    fails_after: u64,
    /// Number of transfers that complete before the drive stalls.
    stalls_after: u64,
    forgets: bool,
    keeps_buffers: bool,
    written: Arc<Mutex<Vec<u64>>>,
}

impl FakeDrive {
    pub(crate) fn new(len: u64, latency: Duration, channels: usize) -> FakeDrive {
        let (sync, written) = (Duration::ZERO, Arc::default());
        FakeDrive {
            len,
            latency,
            channels,
            rates: None,
            seeks: None,
            sync,
            fails_after: u64::MAX,
            stalls_after: u64::MAX,
            forgets: false,
            keeps_buffers: false,
            written,
        }
    }

    /// Simulates a spinning disk, whose tracks are fast at the start and slow at the end.
    pub(crate) fn with_rates(self, begin: f64, end: f64) -> FakeDrive {
        FakeDrive { rates: Some((begin, end)), ..self }
    }

    /// Simulates a moving head.
    pub(crate) fn with_seeks(self, settle: Duration, of_mib: Duration) -> FakeDrive {
        FakeDrive { seeks: Some((settle, of_mib)), ..self }
    }

    pub(crate) fn with_sync(self, sync: Duration) -> FakeDrive {
        FakeDrive { sync, ..self }
    }

    /// Makes all transfers after the first `transfers` fail.
    pub(crate) fn failing_after(self, transfers: u64) -> FakeDrive {
        FakeDrive { fails_after: transfers, ..self }
    }

    /// Makes all transfers after the first `transfers` stall. They never complete.
    pub(crate) fn stalling_after(self, transfers: u64) -> FakeDrive {
        FakeDrive { stalls_after: transfers, ..self }
    }

    /// Makes the drive acknowledge writes without storing them.
    pub(crate) fn discarding_writes(self) -> FakeDrive {
        FakeDrive { forgets: true, ..self }
    }

    /// Makes the drive keep the buffers of writes and return newly allocated buffers instead.
    pub(crate) fn retaining_buffers(self) -> FakeDrive {
        FakeDrive { keeps_buffers: true, ..self }
    }

    /// Returns the list that receives the offsets of all writes.
    pub(crate) fn written(&self) -> Arc<Mutex<Vec<u64>>> {
        self.written.clone()
    }

    /// Returns the drive as a file, with its clock.
    pub(crate) fn start(self) -> (Arc<dyn File>, Arc<dyn Clock>) {
        let clock = Arc::new(SimClock::new());
        let (content, head) = (Mutex::new(vec![0; self.len as usize]), Mutex::new(0));
        let drive = Arc::new(FakeDriveState { settings: self, clock: clock.clone(), content, head });
        let (sender, receiver) = mpsc::channel();
        let service = drive.clone();
        std::thread::spawn(move || service.serve(&receiver));
        (Arc::new(FakeDriveFile { drive, sender }), clock)
    }
}

struct FakeDriveState {
    settings: FakeDrive,
    clock: Arc<SimClock>,
    content: Mutex<Vec<u8>>,
    /// Offset at which the last transfer ended.
    head: Mutex<u64>,
}

struct FakeDriveFile {
    drive: Arc<FakeDriveState>,
    sender: mpsc::Sender<Vec<Transfer>>,
}

impl FakeDriveState {
    /// Serves transfers and completes them in order of their completion times, so two runs are identical. Simulated
    /// time advances only here and in calls that wait.
    fn serve(&self, receiver: &mpsc::Receiver<Vec<Transfer>>) {
        let (mut waiting, mut busy) = (VecDeque::new(), Vec::<(Duration, Transfer)>::new());
        let mut served = 0;
        loop {
            if waiting.is_empty() && busy.is_empty() {
                let Ok(batch) = receiver.recv() else { return };
                waiting.extend(batch);
            }
            receiver.try_iter().for_each(|batch| waiting.extend(batch));
            while busy.len() < self.settings.channels {
                let Some(transfer) = waiting.pop_front() else { break };
                let time = self.time_of(transfer.offset, transfer.buffer.len());
                busy.push((self.clock.monotonic() + time, transfer));
            }
            let first = (0..busy.len()).min_by_key(|at| busy[*at].0).unwrap();
            let (end, mut transfer) = busy.remove(first);
            self.clock.advance(end.saturating_sub(self.clock.monotonic()));
            served += 1;
            if served > self.settings.stalls_after {
                continue;
            }
            let result = if served > self.settings.fails_after {
                Err(io::ErrorKind::InvalidData.into())
            } else {
                match transfer.kind {
                    TransferKind::Read => self.read(transfer.offset, &mut transfer.buffer),
                    TransferKind::Write => self.write(transfer.offset, &transfer.buffer),
                }
            };
            if self.settings.keeps_buffers && transfer.kind == TransferKind::Write {
                transfer.buffer = IoBuffer::zeroed(transfer.buffer.len());
            }
            (transfer.done)(result, transfer.buffer);
        }
    }

    fn time_of(&self, offset: u64, len: usize) -> Duration {
        let moved = offset.abs_diff(std::mem::replace(&mut *self.head.lock().unwrap(), offset));
        let seek =
            |(settle, of_mib): (Duration, Duration)| settle + of_mib.mul_f64(moved as f64 / (1 << 20) as f64);
        let latency = self.settings.latency + self.settings.seeks.map_or(Duration::ZERO, seek);
        let Some((begin, end)) = self.settings.rates else { return latency };
        let rate = begin + (end - begin) * offset as f64 / self.settings.len as f64;
        latency + Duration::from_secs_f64(len as f64 / rate)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (content, from) = (self.content.lock().unwrap(), offset as usize);
        buffer.copy_from_slice(content.get(from..from + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.settings.written.lock().unwrap().push(offset);
        if !self.settings.forgets {
            let (mut content, from) = (self.content.lock().unwrap(), offset as usize);
            content
                .get_mut(from..from + data.len())
                .ok_or(io::ErrorKind::UnexpectedEof)?
                .copy_from_slice(data);
        }
        Ok(())
    }
}

impl File for FakeDriveFile {
    fn path(&self) -> &Path {
        Path::new("simulated")
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoReason) -> io::Result<()> {
        self.drive.clock.advance(self.drive.time_of(offset, buffer.len()));
        self.drive.read(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8], _: IoReason) -> io::Result<()> {
        self.drive.clock.advance(self.drive.time_of(offset, data.len()));
        self.drive.write(offset, data)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        self.sender.send(batch).unwrap();
    }
    fn sync(&self, _: IoReason) -> io::Result<()> {
        self.drive.clock.advance(self.drive.settings.sync);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.drive.settings.len)
    }
    fn grow(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
