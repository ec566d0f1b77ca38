//! A drive with its queue and cache. It has no clock: the caller passes the current time to each call, and reports
//! when an operation has completed.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cache::{CacheParameters, DriveCache};
use crate::drive::{DriveAccess, DriveHead, DriveModel, duration_from_ms};

/// Identifier of a simulated operation, which can consist of several drive accesses.
pub type OperationId = usize;

/// An access in a queue.
#[derive(Clone, Copy, Debug)]
struct QueuedAccess {
    access: DriveAccess,
    operation: OperationId,
    arrived: Duration,
    cylinder: f64,
    is_background: bool,
}

/// A part of a simulated drive that can be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BusyComponent {
    /// Heads and platters, or flash.
    Medium,
    /// Cache and interface.
    Memory,
}

/// An activity that a simulated drive has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartedActivity {
    /// Operation to which the activity belongs. Absent for a drive's background activities.
    pub operation: Option<OperationId>,
    /// Part of the drive that is busy.
    pub part: BusyComponent,
    /// Duration of the activity.
    pub time: Duration,
}

/// Activity counters for a simulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounters {
    /// Number of reads from the medium.
    pub reads: u64,
    /// Number of writes to the medium.
    pub writes: u64,
    /// Number of bytes read from the medium.
    pub read_bytes: u64,
    /// Number of bytes written to the medium.
    pub written_bytes: u64,
    /// Time during which the medium was busy.
    pub busy: Duration,
}

/// State of a drive that is idle, except that it continues to read ahead after the last read.
#[derive(Clone, Copy, Debug)]
struct ReadAheadState {
    /// End of the data that has been read so far. `since` is the time at which the drive reached this end.
    end: u64,
    since: Duration,
    /// Number of bytes that remain to be read ahead.
    left: u64,
}

/// A simulated drive and its access queue. The heads serve accesses in one direction only, and then return to the
/// beginning (C-LOOK elevator).
#[derive(Default)]
pub struct SimulatedDisk {
    head: DriveHead,
    /// Current cylinder of the elevator. `position` is the same location in bytes.
    cylinder: f64,
    position: u64,
    queue: Vec<QueuedAccess>,
    /// Number of medium accesses in flight.
    active: u32,
    cache: DriveCache,
    /// Accesses that are answered from the cache. `is_answering` is set while one of them is in progress.
    cache_answers: VecDeque<QueuedAccess>,
    is_answering: bool,
    /// Flushes that wait until no cached writes are left.
    flushes: VecDeque<OperationId>,
    /// Number of bytes of cached writes that are currently being written to the medium.
    destaging: u64,
    read_ahead: Option<ReadAheadState>,
    /// Counters of this drive.
    pub counters: DiskCounters,
}

impl SimulatedDisk {
    /// Adds an access to the queue.
    pub fn push(
        &mut self,
        drive: &DriveModel,
        now: Duration,
        operation: OperationId,
        access: DriveAccess,
        is_background: bool,
    ) {
        let cylinder = drive.cylinder(access.position);
        let queued = QueuedAccess { access, operation, arrived: now, cylinder, is_background };
        let Some(parameters) = drive.cache() else { return self.queue.push(queued) };
        self.continue_read_ahead(drive, parameters, now);
        let range = access.position..access.position.saturating_add(access.bytes);
        let is_answered = if access.is_write {
            self.accepts_in_cache(parameters, access.bytes)
        } else {
            self.cache.has(&range)
        };
        if !is_answered {
            return self.queue.push(queued);
        }
        if access.is_write {
            self.cache.add_write(range);
        }
        self.cache_answers.push_back(queued);
    }

    /// Adds a flush, which completes once no cached writes are left.
    pub fn flush(&mut self, operation: OperationId) {
        self.flushes.push_back(operation);
    }

    /// Returns true if the cache accepts a write. While a flush is waiting, the cache accepts no writes, so the flush
    /// eventually completes.
    fn accepts_in_cache(&self, parameters: &CacheParameters, bytes: u64) -> bool {
        let held = self.cache.unwritten_bytes() + self.destaging;
        parameters.writes && self.flushes.is_empty() && held + bytes <= parameters.bytes()
    }

    /// Starts the next activity if the drive can start one. Must be called repeatedly until it returns `None`.
    pub fn start(
        &mut self,
        drive: &DriveModel,
        now: Duration,
        patience: Duration,
    ) -> Option<StartedActivity> {
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
                // The elevator determines the order.
                let turn = |cylinder: f64| (cylinder < self.cylinder, cylinder);
                if turn(drive.cylinder(held.start)) < turn(self.queue[next].cylinder) {
                    Err(held)
                } else {
                    Ok(next)
                }
            }
            (Some(next), _) => Ok(next),
            (None, held) => Err(held?),
        };
        self.read_ahead = None;
        let started = match next {
            Ok(next) => self.start_queued(drive, now, next),
            Err(held) => {
                let bytes = held.end - held.start;
                self.cache.remove_write(&held);
                self.destaging += bytes;
                let access = DriveAccess { position: held.start, bytes, is_write: true };
                StartedActivity {
                    operation: None,
                    part: BusyComponent::Medium,
                    time: self.serve(drive, now, access),
                }
            }
        };
        Some(started)
    }

    /// Starts an access that is answered from the cache, or completes a flush.
    fn start_answer(&mut self, drive: &DriveModel) -> Option<StartedActivity> {
        if self.is_answering {
            return None;
        }
        let started = |operation, milliseconds| StartedActivity {
            operation: Some(operation),
            part: BusyComponent::Memory,
            time: duration_from_ms(milliseconds),
        };
        let answer = match self.cache_answers.pop_front() {
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

    fn start_queued(&mut self, drive: &DriveModel, now: Duration, place: usize) -> StartedActivity {
        let QueuedAccess { mut access, operation, .. } = self.queue.swap_remove(place);
        if let Some(parameters) = drive.cache() {
            let range = access.position..access.position.saturating_add(access.bytes);
            if access.is_write {
                self.cache.remove_write(&range);
            } else {
                // Data that was read ahead can be returned without waiting for another rotation.
                if let Some(next) = self.head.next_in(&range)
                    && self.cache.has(&(range.start..next))
                {
                    access = DriveAccess { position: next, bytes: range.end - next, is_write: false };
                }
                self.cache.add_read(range, parameters.bytes());
            }
        }
        let time = self.serve(drive, now, access);
        if let Some(parameters) = drive.cache().filter(|_| !access.is_write) {
            let end = access.position.saturating_add(access.bytes);
            let left = parameters.read_ahead().min(drive.capacity().saturating_sub(end));
            self.read_ahead = (left > 0).then_some(ReadAheadState { end, since: now + time, left });
        }
        StartedActivity { operation: Some(operation), part: BusyComponent::Medium, time }
    }

    fn serve(&mut self, drive: &DriveModel, now: Duration, access: DriveAccess) -> Duration {
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

    /// Adds to the cache the data that was read ahead since the last read.
    fn continue_read_ahead(&mut self, drive: &DriveModel, parameters: &CacheParameters, now: Duration) {
        let Some(ReadAheadState { end, since, left }) = self.read_ahead.filter(|reading| reading.since < now)
        else {
            return;
        };
        let share = (now - since).as_secs_f64() * 1e3 / drive.transfer_ms(end, left as f64);
        let read = if share < 1.0 { (left as f64 * share) as u64 / 512 * 512 } else { left };
        if read > 0 {
            self.cache.add_read(end..end + read, parameters.bytes());
            self.head.move_after_read_ahead(drive, end + read);
        }
        let left = left - read;
        self.read_ahead = (left > 0).then_some(ReadAheadState { end: end + read, since: now, left });
    }

    /// Records that an activity has completed.
    pub fn finish(&mut self, started: StartedActivity) {
        match started.part {
            BusyComponent::Memory => self.is_answering = false,
            BusyComponent::Medium => {
                self.active -= 1;
                if started.operation.is_none() {
                    self.destaging = 0;
                }
            }
        }
    }

    /// Returns the index of the next access in the queue. Background accesses wait for host accesses, but no longer
    /// than `patience`.
    fn next(&self, now: Duration, patience: Duration) -> Option<usize> {
        let is_urgent =
            |queued: &QueuedAccess| !queued.is_background || now.saturating_sub(queued.arrived) >= patience;
        let has_urgent = self.queue.iter().any(is_urgent);
        let candidates = self.queue.iter().enumerate().filter(|(_, queued)| !has_urgent || is_urgent(queued));
        // Accesses ahead of the head in its direction come first, followed by the others, starting at the lowest
        // cylinder.
        let key = |queued: &QueuedAccess| (queued.cylinder < self.cylinder, queued.cylinder, queued.arrived);
        let order = |(_, one): &(usize, &QueuedAccess), (_, other): &(usize, &QueuedAccess)| {
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

    fn with_cache(writes: bool) -> DriveModel {
        let DriveModel::Disk(mut disk) = drives().remove("15k-146").unwrap() else { panic!("a disk") };
        let (mb, read_ahead_kb, interface_mb_per_second) = (1.0, 256.0, 400.0);
        disk.cache = Some(CacheParameters { mb, read_ahead_kb, interface_mb_per_second, writes });
        DriveModel::Disk(disk)
    }

    fn read(position: u64) -> DriveAccess {
        DriveAccess { position, bytes: 8192, is_write: false }
    }

    /// Runs a drive until it is idle. Returns the completed operations, with their completion times in milliseconds.
    fn run(disk: &mut SimulatedDisk, drive: &DriveModel, mut now: Duration) -> Vec<(OperationId, f64)> {
        let (mut under_way, mut ended) = (vec![], vec![]);
        loop {
            while let Some(started) = disk.start(drive, now, PATIENCE) {
                under_way.push((now + started.time, started));
            }
            under_way.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
            let Some((end, started)) = under_way.pop() else { return ended };
            now = end;
            disk.finish(started);
            ended.extend(started.operation.map(|operation| (operation, now.as_secs_f64() * 1e3)));
        }
    }

    #[test]
    fn the_elevator_wraps_around_and_host_requests_have_priority() {
        let drive = drives().remove("15k-146").unwrap();
        let mut disk = SimulatedDisk::default();
        let access_at = |gigabytes: u64| DriveAccess {
            position: gigabytes * 1_000_000_000,
            bytes: 4096,
            is_write: false,
        };
        let zero = Duration::ZERO;
        for (operation, place) in [(0, 50), (1, 20), (2, 80), (3, 60)] {
            disk.push(&drive, zero, operation, access_at(place), false);
        }
        disk.push(&drive, zero, 4, access_at(55), true);
        let mut order = vec![];
        disk.cylinder = drive.cylinder(55_000_000_000);
        while let Some(started) = disk.start(&drive, zero, PATIENCE) {
            order.extend(started.operation);
            disk.finish(started);
        }
        assert_eq!(order, [3, 2, 1, 0, 4]);
        disk.push(&drive, zero, 5, access_at(10), true);
        disk.push(&drive, PATIENCE, 6, access_at(90), false);
        // The maximum wait has passed, so the elevator determines the order.
        disk.cylinder = 0.0;
        assert_eq!(disk.start(&drive, PATIENCE, PATIENCE).unwrap().operation, Some(5));
    }

    #[test]
    fn sequential_reads_hit_the_cache_after_enough_idle_time() {
        let drive = with_cache(false);
        let mut disk = SimulatedDisk::default();
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
        // The time for a command, plus the time for 8 KiB on the interface: 0.1 + 0.02 ms.
        let found = time_of((1 << 30) + 8192, 10);
        assert!((found - 0.12048).abs() < 1e-3, "{found}");
        assert!((time_of(1 << 30, 0) - 0.12048).abs() < 1e-3, "data that was read is cached");
        assert!(time_of((1 << 30) + (512 << 10), 100) > 0.2, "the drive reads ahead 256 kB and not more");
        assert!(time_of(5 << 30, 0) > 0.3);
        // Half of this range was read ahead. The rest can be read without waiting for another rotation.
        let found = time_of((5 << 30) + 8192, 0);
        assert!(found < 0.3, "{found}");
    }

    #[test]
    fn cached_writes_complete_immediately_and_a_flush_drains_all() {
        let drive = with_cache(true);
        let mut disk = SimulatedDisk::default();
        for operation in 0..10 {
            let position = (operation as u64 * 7 % 10) << 30;
            let access = DriveAccess { position, bytes: 65536, is_write: true };
            disk.push(&drive, Duration::ZERO, operation, access, false);
        }
        disk.flush(10);
        let late = DriveAccess { position: 11 << 30, bytes: 65536, is_write: true };
        disk.push(&drive, Duration::ZERO, 11, late, false);
        let ended = run(&mut disk, &drive, Duration::ZERO);
        let end_time = |operation| ended.iter().find(|(ended, _)| *ended == operation).unwrap().1;
        // Each answer takes 0.1 ms plus the transfer time of 65536 bytes at 400 MB/s.
        assert!((end_time(9) - 10.0 * 0.26384).abs() < 1e-3, "{ended:?}");
        assert!(end_time(10) > 10.0 && end_time(10) < 80.0, "ten accesses to the platters: {ended:?}");
        assert!(end_time(11) > 0.6, "during a flush, the cache accepts no more writes");
        assert_eq!((disk.counters.writes, disk.counters.written_bytes), (11, 11 * 65536));

        // Writes that do not fit into the cache wait for the platters.
        let mut disk = SimulatedDisk::default();
        for operation in 0..40 {
            let access = DriveAccess { position: (operation as u64 * 3) << 30, bytes: 65536, is_write: true };
            disk.push(&drive, Duration::ZERO, operation, access, false);
        }
        let ended = run(&mut disk, &drive, Duration::ZERO);
        assert_eq!(ended.iter().filter(|(_, end)| *end < 15.0 * 0.264).count() as u64, 15, "{ended:?}");
    }

    #[test]
    fn without_write_cache_writes_reach_platters_and_flushes_return_immediately() {
        let drive = drives().remove("15k-146").unwrap();
        let mut disk = SimulatedDisk::default();
        let access = DriveAccess { is_write: true, ..read(1 << 33) };
        disk.push(&drive, Duration::ZERO, 0, access, false);
        disk.flush(1);
        let ended = run(&mut disk, &drive, Duration::ZERO);
        assert!(ended[0] == (1, 0.0) && ended[1].0 == 0 && ended[1].1 > 0.4, "{ended:?}");
    }
}
