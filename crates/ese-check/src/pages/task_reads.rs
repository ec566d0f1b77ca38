//! Reads of the pages that are checked in one task.

use std::io;
use std::sync::mpsc::{Receiver, channel};

use ese_format::PageNumber;
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use crate::pages::database::ReadableDatabase;
use crate::pages::spare_buffers::SpareBuffers;

/// Maximum total size in bytes of the pages in a task.
const TASK_LEN: usize = 1 << 20;

/// Page reads that have been started for one task.
pub(crate) struct TaskReads {
    pages: Vec<PageNumber>,
    /// Map from each page to the run in which it is read and the offset of the page in that run's buffer.
    page_positions: Vec<(usize, usize)>,
    runs: usize,
    reads: Receiver<(usize, io::Result<()>, IoBuffer)>,
}

/// The pages that have been read for one task.
pub(crate) struct TaskPages {
    page_positions: Vec<(usize, usize)>,
    /// Buffer of each run; `None` if the run could not be read.
    runs: Vec<Option<IoBuffer>>,
    failed: Vec<IoBuffer>,
    page_len: usize,
}

impl TaskReads {
    /// Returns the maximum number of pages in a task.
    pub(crate) fn max_pages(database: &ReadableDatabase) -> usize {
        (TASK_LEN / database.page_size.bytes()).max(1)
    }

    /// Starts reading these pages.
    pub(crate) fn start(database: &ReadableDatabase, pages: Vec<PageNumber>) -> TaskReads {
        let size = database.page_size.bytes();
        let mut sorted: Vec<(PageNumber, usize)> =
            pages.iter().enumerate().map(|(index, page)| (*page, index)).collect();
        sorted.sort_unstable();
        let longest = (SpareBuffers::MAX_LEN / size).max(1);
        let (sender, reads) = channel();
        // Pages beyond the end of the file do not belong to any run.
        let mut places = vec![(usize::MAX, 0); pages.len()];
        let mut batch = Vec::new();
        let held = sorted.iter().take_while(|(page, _)| database.contains_page(*page)).count();
        let held = sorted.get(..held).unwrap_or_default();
        for run in held.chunk_by(|a, b| a.0.plus(1) == b.0).flat_map(|run| run.chunks(longest)) {
            let Some((first, _)) = run.first() else { continue };
            let (offset, len, start) = database.aligned_range(*first, run.len() as u32);
            for (place, (_, index)) in run.iter().enumerate() {
                if let Some(slot) = places.get_mut(*index) {
                    *slot = (batch.len(), start + place * size);
                }
            }
            let (number, sender) = (batch.len(), sender.clone());
            batch.push(Transfer {
                kind: TransferKind::Read,
                offset,
                buffer: database.spare_buffers.take(len),
                reason: IoReason::Verify,
                // The receiver is gone if the check was cancelled.
                done: Box::new(move |result, buffer| drop(sender.send((number, result, buffer)))),
            });
        }
        let runs = batch.len();
        database.file.submit(batch);
        TaskReads { pages, page_positions: places, runs, reads }
    }

    pub(crate) fn pages(&self) -> &[PageNumber] {
        &self.pages
    }

    /// Waits until the reads are complete.
    pub(crate) fn wait(self, database: &ReadableDatabase) -> TaskPages {
        let mut runs = Vec::new();
        runs.resize_with(self.runs, || None);
        let mut failed = Vec::new();
        for (number, result, buffer) in self.reads.iter().take(self.runs) {
            match (result, runs.get_mut(number)) {
                (Ok(()), Some(slot)) => *slot = Some(buffer),
                // A bad sector must not make the neighbouring pages unreadable. The walk reads these pages
                // individually.
                _ => failed.push(buffer),
            }
        }
        TaskPages { page_positions: self.page_positions, runs, failed, page_len: database.page_size.bytes() }
    }
}

impl TaskPages {
    /// Returns the bytes of the page at `index` in the task.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let (run, start) = *self.page_positions.get(index)?;
        self.runs.get_mut(run)?.as_mut()?.get_mut(start..start + self.page_len)
    }

    /// Returns the buffers, so that further reads can reuse them.
    pub(crate) fn into_buffers(self) -> Vec<IoBuffer> {
        self.runs.into_iter().flatten().chain(self.failed).collect()
    }
}
