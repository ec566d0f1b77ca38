//! A drive with its queue and its memory. It keeps no time: each call gives it the time, and its user says when what it began has ended.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cache::{Cache, CacheParameters};
use crate::drive::{Access, Drive, Head, milliseconds_of};

/// Number of an operation that waits for accesses.
pub type OperationId = usize;

/// An access in a queue.
#[derive(Clone, Copy, Debug)]
struct Queued {
    access: Access,
    operation: OperationId,
    arrived: Duration,
    cylinder: f64,
    is_background: bool,
}

/// The part of a drive that does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Heads and plates, or flash.
    Medium,
    /// Its memory and its interface.
    Memory,
}

/// Something that a drive began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started {
    /// The operation whose access it is; absent for what the drive does of itself.
    pub operation: Option<OperationId>,
    /// The part that is busy.
    pub part: Part,
    /// For how long.
    pub time: Duration,
}

/// What a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounters {
    /// Accesses to the medium.
    pub reads: u64,
    /// The same of writes.
    pub writes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// Time in which the medium worked.
    pub busy: Duration,
}

/// A drive that has nothing to do but read on behind its last read.
#[derive(Clone, Copy, Debug)]
struct ReadingOn {
    /// Up to where it has read, and when.
    end: u64,
    since: Duration,
    /// Bytes that it will still read.
    left: u64,
}

/// A drive with its queue. The heads move in one direction to the next access, and then begin again (elevator, C-LOOK).
#[derive(Default)]
pub struct Disk {
    head: Head,
    /// Where the elevator is, as a cylinder and as a byte.
    cylinder: f64,
    position: u64,
    queue: Vec<Queued>,
    /// Accesses of the medium under way.
    active: u32,
    cache: Cache,
    /// Accesses that the memory answers, and whether it is doing so.
    answers: VecDeque<Queued>,
    is_answering: bool,
    /// Operations that wait until nothing is held back.
    flushes: VecDeque<OperationId>,
    /// Bytes of what is held back that are being written.
    destaging: u64,
    reads_on: Option<ReadingOn>,
    /// What it did.
    pub counters: DiskCounters,
}

impl Disk {
    /// Adds an access to the queue.
    pub fn push(
        &mut self,
        drive: &Drive,
        now: Duration,
        operation: OperationId,
        access: Access,
        is_background: bool,
    ) {
        let cylinder = drive.cylinder(access.position);
        let queued = Queued { access, operation, arrived: now, cylinder, is_background };
        let Some(parameters) = drive.cache() else { return self.queue.push(queued) };
        self.read_on(drive, parameters, now);
        let range = access.position..access.position.saturating_add(access.bytes);
        let is_answered = match access.is_write {
            true => self.holds_back(parameters, access.bytes),
            false => self.cache.has(&range),
        };
        if !is_answered {
            return self.queue.push(queued);
        }
        if access.is_write {
            self.cache.hold(range);
        }
        self.answers.push_back(queued);
    }

    /// Adds an operation that ends when nothing is held back any more.
    pub fn flush(&mut self, operation: OperationId) {
        self.flushes.push_back(operation);
    }

    /// Whether the memory takes a write. While a flush waits it takes none, so that the flush ends.
    fn holds_back(&self, parameters: &CacheParameters, bytes: u64) -> bool {
        let held = self.cache.unwritten_bytes() + self.destaging;
        parameters.writes && self.flushes.is_empty() && held + bytes <= parameters.bytes()
    }

    /// Starts what there is to do, if the drive can. Is called until it returns nothing.
    pub fn start(&mut self, drive: &Drive, now: Duration, patience: Duration) -> Option<Started> {
        if let Some(started) = self.start_answer(drive) {
            return Some(started);
        }
        if self.active >= drive.channels() {
            return None;
        }
        let Some(parameters) = drive.cache() else {
            let next = self.next(now, patience)?;
            return Some(self.start_queued(drive, now, next));
        };
        let is_pressing = !self.flushes.is_empty() || self.cache.unwritten_bytes() > parameters.bytes() / 2;
        let held = self.cache.next_unwritten(self.position);
        let next = match (self.next(now, patience), held) {
            (Some(next), Some(held)) if is_pressing => {
                // The elevator decides.
                let turn = |cylinder: f64| (cylinder < self.cylinder, cylinder);
                match turn(drive.cylinder(held.start)) < turn(self.queue[next].cylinder) {
                    true => Err(held),
                    false => Ok(next),
                }
            }
            (Some(next), _) => Ok(next),
            (None, held) => Err(held?),
        };
        self.reads_on = None;
        let started = match next {
            Ok(next) => self.start_queued(drive, now, next),
            Err(held) => {
                let bytes = held.end - held.start;
                self.cache.forget(&held);
                self.destaging += bytes;
                let access = Access { position: held.start, bytes, is_write: true };
                Started { operation: None, part: Part::Medium, time: self.serve(drive, now, access) }
            }
        };
        Some(started)
    }

    /// Starts an answer of the memory, or ends a flush.
    fn start_answer(&mut self, drive: &Drive) -> Option<Started> {
        if self.is_answering {
            return None;
        }
        let started = |operation, milliseconds| Started {
            operation: Some(operation),
            part: Part::Memory,
            time: milliseconds_of(milliseconds),
        };
        let answer = match self.answers.pop_front() {
            Some(queued) => {
                let transfer = drive.cache().map_or(0.0, |cache| cache.interface_ms(queued.access.bytes));
                started(queued.operation, drive.command_ms() + transfer)
            }
            None if self.cache.unwritten_bytes() + self.destaging == 0 => {
                started(self.flushes.pop_front()?, 0.0)
            }
            None => return None,
        };
        self.is_answering = true;
        Some(answer)
    }

    fn start_queued(&mut self, drive: &Drive, now: Duration, place: usize) -> Started {
        let Queued { mut access, operation, .. } = self.queue.swap_remove(place);
        if let Some(parameters) = drive.cache() {
            let range = access.position..access.position.saturating_add(access.bytes);
            if access.is_write {
                self.cache.forget(&range);
            } else {
                // What was read ahead needs no second turn of the plates.
                if let Some(next) = self.head.next_in(&range)
                    && self.cache.has(&(range.start..next))
                {
                    access = Access { position: next, bytes: range.end - next, is_write: false };
                }
                self.cache.note_read(range, parameters.bytes());
            }
        }
        let time = self.serve(drive, now, access);
        if let Some(parameters) = drive.cache().filter(|_| !access.is_write) {
            let end = access.position.saturating_add(access.bytes);
            let left = parameters.read_ahead().min(drive.capacity().saturating_sub(end));
            self.reads_on = (left > 0).then_some(ReadingOn { end, since: now + time, left });
        }
        Started { operation: Some(operation), part: Part::Medium, time }
    }

    fn serve(&mut self, drive: &Drive, now: Duration, access: Access) -> Duration {
        let time = drive.service(&mut self.head, now, access);
        (self.cylinder, self.position) = (drive.cylinder(access.position), access.position);
        self.active += 1;
        self.counters.busy += time / drive.channels();
        if access.is_write {
            self.counters.writes += 1;
            self.counters.written_bytes += access.bytes;
        } else {
            self.counters.reads += 1;
            self.counters.read_bytes += access.bytes;
        }
        time
    }

    /// Notes what the drive has read behind the last read.
    fn read_on(&mut self, drive: &Drive, parameters: &CacheParameters, now: Duration) {
        let Some(ReadingOn { end, since, left }) = self.reads_on.filter(|reading| reading.since < now) else {
            return;
        };
        let share = (now - since).as_secs_f64() * 1e3 / drive.transfer_ms(end, left as f64);
        let read = if share < 1.0 { (left as f64 * share) as u64 / 512 * 512 } else { left };
        if read > 0 {
            self.cache.note_read(end..end + read, parameters.bytes());
            self.head.read_on(drive, end + read);
        }
        let left = left - read;
        self.reads_on = (left > 0).then_some(ReadingOn { end: end + read, since: now, left });
    }

    /// Something that was started has ended.
    pub fn ended(&mut self, started: Started) {
        match started.part {
            Part::Memory => self.is_answering = false,
            Part::Medium => {
                self.active -= 1;
                if started.operation.is_none() {
                    self.destaging = 0;
                }
            }
        }
    }

    /// The place in the queue of the next access. Accesses of the background wait for those of the host, as long as their patience
    /// lasts.
    fn next(&self, now: Duration, patience: Duration) -> Option<usize> {
        let is_urgent =
            |queued: &Queued| !queued.is_background || now.saturating_sub(queued.arrived) >= patience;
        let has_urgent = self.queue.iter().any(is_urgent);
        let candidates = self.queue.iter().enumerate().filter(|(_, queued)| !has_urgent || is_urgent(queued));
        // In front of the head in its direction, then from the first cylinder on.
        let key = |queued: &Queued| (queued.cylinder < self.cylinder, queued.cylinder, queued.arrived);
        let order = |(_, one): &(usize, &Queued), (_, other): &(usize, &Queued)| {
            key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
        };
        candidates.min_by(order).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::drives;

    const PATIENCE: Duration = Duration::from_millis(20);

    fn with_cache(writes: bool) -> Drive {
        let Drive::Disk(mut disk) = drives().remove("15k-146").unwrap() else { panic!("a disk") };
        let (mb, read_ahead_kb, interface_mb_per_second) = (1.0, 256.0, 400.0);
        disk.cache = Some(CacheParameters { mb, read_ahead_kb, interface_mb_per_second, writes });
        Drive::Disk(disk)
    }

    fn read(position: u64) -> Access {
        Access { position, bytes: 8192, is_write: false }
    }

    /// The operations that end, with their times in milliseconds, until nothing is left to do.
    fn run(disk: &mut Disk, drive: &Drive, mut now: Duration) -> Vec<(OperationId, f64)> {
        let (mut under_way, mut ended) = (vec![], vec![]);
        loop {
            while let Some(started) = disk.start(drive, now, PATIENCE) {
                under_way.push((now + started.time, started));
            }
            under_way.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
            let Some((end, started)) = under_way.pop() else { return ended };
            now = end;
            disk.ended(started);
            ended.extend(started.operation.map(|operation| (operation, now.as_secs_f64() * 1e3)));
        }
    }

    #[test]
    fn the_elevator_goes_up_and_begins_again_and_the_host_goes_first() {
        let drive = drives().remove("15k-146").unwrap();
        let mut disk = Disk::default();
        let at =
            |gigabytes: u64| Access { position: gigabytes * 1_000_000_000, bytes: 4096, is_write: false };
        let zero = Duration::ZERO;
        for (operation, place) in [(0, 50), (1, 20), (2, 80), (3, 60)] {
            disk.push(&drive, zero, operation, at(place), false);
        }
        disk.push(&drive, zero, 4, at(55), true);
        let mut order = vec![];
        disk.cylinder = drive.cylinder(55_000_000_000);
        while let Some(started) = disk.start(&drive, zero, PATIENCE) {
            order.extend(started.operation);
            disk.ended(started);
        }
        assert_eq!(order, [3, 2, 1, 0, 4]);
        disk.push(&drive, zero, 5, at(10), true);
        disk.push(&drive, PATIENCE, 6, at(90), false);
        // Patience is over: the elevator decides.
        disk.cylinder = 0.0;
        assert_eq!(disk.start(&drive, PATIENCE, PATIENCE).unwrap().operation, Some(5));
    }

    #[test]
    fn reads_behind_the_last_one_come_from_memory_if_the_drive_had_time_to_read_on() {
        let drive = with_cache(false);
        let mut disk = Disk::default();
        let mut now = Duration::ZERO;
        let mut time_of = |position: u64, pause_ms: u64| {
            now += Duration::from_millis(pause_ms);
            disk.push(&drive, now, 0, read(position), false);
            let end = run(&mut disk, &drive, now)[0].1;
            let time = end - now.as_secs_f64() * 1e3;
            now = Duration::from_secs_f64(end / 1e3);
            time
        };
        assert!(time_of(1 << 30, 0) > 0.3, "seek and rotation");
        // A command and 8 KiB on the interface: 0.1 + 0.02 ms.
        let found = time_of((1 << 30) + 8192, 10);
        assert!((found - 0.12048).abs() < 1e-3, "{found}");
        assert!((time_of(1 << 30, 0) - 0.12048).abs() < 1e-3, "what was read is still there");
        assert!(time_of((1 << 30) + (512 << 10), 100) > 0.2, "it reads 256 kB ahead, and no more");
        assert!(time_of(5 << 30, 0) > 0.3);
        // Half of this one was read ahead; the rest needs no second turn.
        let found = time_of((5 << 30) + 8192, 0);
        assert!(found < 0.3, "{found}");
    }

    #[test]
    fn held_writes_are_answered_at_once_and_a_flush_ends_behind_the_last() {
        let drive = with_cache(true);
        let mut disk = Disk::default();
        for operation in 0..10 {
            let position = (operation as u64 * 7 % 10) << 30;
            let access = Access { position, bytes: 65536, is_write: true };
            disk.push(&drive, Duration::ZERO, operation, access, false);
        }
        disk.flush(10);
        let late = Access { position: 11 << 30, bytes: 65536, is_write: true };
        disk.push(&drive, Duration::ZERO, 11, late, false);
        let ended = run(&mut disk, &drive, Duration::ZERO);
        let at = |operation| ended.iter().find(|(ended, _)| *ended == operation).unwrap().1;
        // 0.1 ms and 65536 bytes at 400 MB/s for each answer.
        assert!((at(9) - 10.0 * 0.26384).abs() < 1e-3, "{ended:?}");
        assert!(at(10) > 10.0 && at(10) < 80.0, "ten accesses of the plates: {ended:?}");
        assert!(at(11) > 0.6, "a flush lets no more writes into the memory");
        assert_eq!((disk.counters.writes, disk.counters.written_bytes), (11, 11 * 65536));

        // Without room they wait for the plates.
        let mut disk = Disk::default();
        for operation in 0..40 {
            let access = Access { position: (operation as u64 * 3) << 30, bytes: 65536, is_write: true };
            disk.push(&drive, Duration::ZERO, operation, access, false);
        }
        let ended = run(&mut disk, &drive, Duration::ZERO);
        assert_eq!(ended.iter().filter(|(_, end)| *end < 15.0 * 0.264).count() as u64, 15, "{ended:?}");
    }

    #[test]
    fn without_memory_for_writes_each_is_answered_by_the_plates_and_a_flush_at_once() {
        let drive = drives().remove("15k-146").unwrap();
        let mut disk = Disk::default();
        let access = Access { is_write: true, ..read(1 << 33) };
        disk.push(&drive, Duration::ZERO, 0, access, false);
        disk.flush(1);
        let ended = run(&mut disk, &drive, Duration::ZERO);
        assert!(ended[0] == (1, 0.0) && ended[1].0 == 0 && ended[1].1 > 0.4, "{ended:?}");
    }
}
