//! Sorts events by time with bounded memory. Events that exceed the memory limit are written to temporary files as
//! sorted runs, which are then merged.
//!
//! ```text
//!  run     event ... event    sorted by time
//!  event   i64 time in ticks | u8[8] stored time | u8 deleted | carved | u32 table | u32, u32 lengths | key | what
//!  carved  u8 confidence, 0 if the row is not carved | u32 page, 0 likewise | u32 offset
//! ```
//!
//! A temporary file has no name, so a crash does not leave any files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use ese_format::PageNumber;

use crate::additional_rows::{CarveConfidence, CarvedOrigin};

/// Maximum number of runs. If there are more, they are merged into one.
const MAX_RUNS: usize = 64;
/// Carving confidences, in the order of the numbers that represent them in a run. The first number is 1.
const CONFIDENCES: [CarveConfidence; 3] =
    [CarveConfidence::Low, CarveConfidence::Medium, CarveConfidence::High];
/// Maximum length of a text in a run. Longer texts are not written.
const MAX_TEXT: u32 = 1 << 24;

/// One line of the time line: a time that a row of a table contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TimelineEvent {
    /// Time in units of 100 nanoseconds since 1970-01-01.
    pub(super) ticks: i64,
    /// Bytes that a `DateTime` column stores for this time.
    pub(super) time: [u8; 8],
    /// True if the row is flagged deleted.
    pub(super) deleted: bool,
    /// Page and origin of a carved row.
    pub(super) carved: Option<(PageNumber, CarvedOrigin)>,
    /// Position in the list of tables.
    pub(super) table: u32,
    /// Key of the row.
    pub(super) key: String,
    /// Meaning of the time, and a description of the row.
    pub(super) what: String,
}

/// Callback that receives the events in order.
type VisitEvent<'v> = &'v mut dyn FnMut(TimelineEvent) -> io::Result<()>;

/// Collects events in any order and returns them sorted. Events with the same time keep their order.
pub(super) struct EventSorter {
    events: Vec<TimelineEvent>,
    /// Total size in bytes of the events in memory.
    bytes: usize,
    /// Value of `bytes` above which the events are written to a run.
    memory: usize,
    runs: Vec<EventRun>,
}

/// A sorted run in a temporary file.
struct EventRun {
    reader: BufReader<File>,
    remaining: u64,
}

impl EventSorter {
    pub(super) fn new(memory: usize) -> EventSorter {
        EventSorter { events: Vec::new(), bytes: 0, memory, runs: Vec::new() }
    }

    pub(super) fn add(&mut self, event: TimelineEvent) -> io::Result<()> {
        self.bytes += size_of::<TimelineEvent>() + event.key.len() + event.what.len();
        self.events.push(event);
        if self.bytes > self.memory { self.spill() } else { Ok(()) }
    }

    /// Calls `visit` with all events in order.
    pub(super) fn drain(mut self, visit: VisitEvent<'_>) -> io::Result<()> {
        if self.runs.is_empty() {
            self.events.sort_by_key(|event| event.ticks);
            return self.events.into_iter().try_for_each(visit);
        }
        self.spill()?;
        merge(self.runs, visit)
    }

    /// Writes the events in memory as a run.
    fn spill(&mut self) -> io::Result<()> {
        self.events.sort_by_key(|event| event.ticks);
        let mut run = RunWriter::new()?;
        self.events.drain(..).try_for_each(|event| run.write(&event))?;
        self.bytes = 0;
        self.runs.push(run.finish()?);
        if self.runs.len() >= MAX_RUNS {
            let mut merged = RunWriter::new()?;
            merge(std::mem::take(&mut self.runs), &mut |event| merged.write(&event))?;
            self.runs.push(merged.finish()?);
        }
        Ok(())
    }
}

/// Calls `visit` with the events of all runs in order.
fn merge(mut runs: Vec<EventRun>, visit: VisitEvent<'_>) -> io::Result<()> {
    let mut heads: Vec<Option<TimelineEvent>> =
        runs.iter_mut().map(EventRun::next).collect::<io::Result<_>>()?;
    // Among events with the same time, those in earlier runs were added first.
    let mut order: BinaryHeap<Reverse<(i64, usize)>> = heads
        .iter()
        .enumerate()
        .filter_map(|(run, head)| Some(Reverse((head.as_ref()?.ticks, run))))
        .collect();
    while let Some(Reverse((_, at))) = order.pop() {
        let Some((run, head)) = runs.get_mut(at).zip(heads.get_mut(at)) else { continue };
        let event = std::mem::replace(head, run.next()?);
        if let Some(next) = head {
            order.push(Reverse((next.ticks, at)));
        }
        event.map_or(Ok(()), &mut *visit)?;
    }
    Ok(())
}

/// Writes one run.
struct RunWriter {
    writer: BufWriter<File>,
    events: u64,
}

impl RunWriter {
    fn new() -> io::Result<RunWriter> {
        let file = tempfile::tempfile().map_err(in_temporary_directory)?;
        Ok(RunWriter { writer: BufWriter::with_capacity(1 << 16, file), events: 0 })
    }

    fn write(&mut self, event: &TimelineEvent) -> io::Result<()> {
        self.events += 1;
        self.try_write(event).map_err(in_temporary_directory)
    }

    fn try_write(&mut self, event: &TimelineEvent) -> io::Result<()> {
        let TimelineEvent { ticks, time, deleted, carved, table, key, what } = event;
        let writer = &mut self.writer;
        writer.write_all(&ticks.to_le_bytes())?;
        writer.write_all(time)?;
        writer.write_all(&[u8::from(*deleted)])?;
        let (confidence, page, offset) =
            carved.map_or((0, 0, 0), |(page, CarvedOrigin { offset, confidence })| {
                let known = CONFIDENCES.iter().zip(1u8..).find(|(known, _)| **known == confidence);
                (known.map_or(0, |(_, number)| number), page.get(), offset)
            });
        writer.write_all(&[confidence])?;
        writer.write_all(&page.to_le_bytes())?;
        writer.write_all(&u32::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes())?;
        writer.write_all(&table.to_le_bytes())?;
        for text in [key, what] {
            let len = u32::try_from(text.len()).ok().filter(|len| *len <= MAX_TEXT);
            writer.write_all(&len.ok_or(io::ErrorKind::InvalidInput)?.to_le_bytes())?;
        }
        writer.write_all(key.as_bytes())?;
        writer.write_all(what.as_bytes())
    }

    fn finish(self) -> io::Result<EventRun> {
        let mut file =
            self.writer.into_inner().map_err(|error| in_temporary_directory(error.into_error()))?;
        file.rewind()?;
        Ok(EventRun { reader: BufReader::with_capacity(1 << 16, file), remaining: self.events })
    }
}

impl EventRun {
    fn next(&mut self) -> io::Result<Option<TimelineEvent>> {
        let Some(remaining) = self.remaining.checked_sub(1) else { return Ok(None) };
        self.remaining = remaining;
        let ticks = i64::from_le_bytes(self.array()?);
        let time = self.array()?;
        let [deleted, confidence] = self.array()?;
        let [page, offset] = [self.array()?, self.array()?].map(u32::from_le_bytes);
        let confidence = usize::from(confidence).checked_sub(1).and_then(|number| CONFIDENCES.get(number));
        let carved = confidence.zip(PageNumber::new(page)).map(|(confidence, page)| {
            (page, CarvedOrigin { offset: offset as usize, confidence: *confidence })
        });
        let table = u32::from_le_bytes(self.array()?);
        let [key, what] = [self.array()?, self.array()?].map(u32::from_le_bytes);
        let (key, what) = (self.text(key)?, self.text(what)?);
        Ok(Some(TimelineEvent { ticks, time, deleted: deleted != 0, carved, table, key, what }))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn text(&mut self, len: u32) -> io::Result<String> {
        let mut bytes = vec![0; len.min(MAX_TEXT) as usize];
        self.reader.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

fn in_temporary_directory(error: io::Error) -> io::Error {
    let directory = std::env::temp_dir();
    let what = format!(
        "temporary files in {} cannot be written: {error}; set TMPDIR to another directory",
        directory.display()
    );
    io::Error::new(error.kind(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ticks: i64, number: u32) -> TimelineEvent {
        let (key, what) = (number.to_string(), "x".repeat(number as usize % 50));
        TimelineEvent {
            ticks,
            time: ticks.to_le_bytes(),
            deleted: number.is_multiple_of(3),
            carved: PageNumber::new(number % 4).map(|page| {
                let confidence = CONFIDENCES[page.get() as usize - 1];
                (page, CarvedOrigin { offset: number as usize, confidence })
            }),
            table: number,
            key,
            what,
        }
    }

    /// Sorts with different amounts of memory, which produce no runs, a few runs, and more than the maximum number.
    #[test]
    fn events_are_sorted_in_memory_and_in_runs() {
        let added: Vec<TimelineEvent> = (0..3000u32)
            .map(|number| event(i64::from(number.wrapping_mul(2_654_435_761) % 500) - 250, number))
            .collect();
        let mut expected = added.clone();
        expected.sort_by_key(|event| event.ticks);
        for (memory, runs) in [(1 << 30, 0..1), (100_000, 2..MAX_RUNS), (2000, 1..MAX_RUNS)] {
            let mut sorter = EventSorter::new(memory);
            added.iter().cloned().try_for_each(|event| sorter.add(event)).unwrap();
            assert!(runs.contains(&sorter.runs.len()), "{memory}: {} runs", sorter.runs.len());
            let mut sorted = Vec::new();
            sorter
                .drain(&mut |event| {
                    sorted.push(event);
                    Ok(())
                })
                .unwrap();
            assert!(sorted == expected, "{memory}");
        }
    }

    #[test]
    fn an_error_of_the_visitor_ends_the_merge() {
        let mut sorter = EventSorter::new(1000);
        (0..100).try_for_each(|number| sorter.add(event(1, number))).unwrap();
        let mut visited = 0;
        let result = sorter.drain(&mut |_| {
            visited += 1;
            if visited < 5 { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        });
        assert_eq!((result.unwrap_err().kind(), visited), (io::ErrorKind::StorageFull, 5));
    }
}
