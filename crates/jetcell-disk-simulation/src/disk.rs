//! A drive with its queue.

use std::time::Duration;

use crate::drive::{Access, Drive, Head};

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

/// What a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounters {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub busy: Duration,
}

/// A drive with its queue. The head moves in one direction to the next access, and then begins again (elevator, C-LOOK).
pub struct Disk {
    head: Head,
    cylinder: f64,
    queue: Vec<Queued>,
    /// Accesses under way.
    active: u32,
    pub counters: DiskCounters,
}

impl Disk {
    pub fn new() -> Disk {
        Disk {
            head: Head::default(),
            cylinder: 0.0,
            queue: vec![],
            active: 0,
            counters: DiskCounters::default(),
        }
    }

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
        self.queue.push(Queued { access, operation, arrived: now, cylinder, is_background });
    }

    /// Starts the next access if there is one and the drive can. Returns its operation and how long it takes.
    pub fn start(
        &mut self,
        drive: &Drive,
        now: Duration,
        patience: Duration,
    ) -> Option<(OperationId, Duration)> {
        if self.active >= drive.channels() {
            return None;
        }
        let next = self.next(now, patience)?;
        let Queued { access, operation, cylinder, .. } = self.queue.swap_remove(next);
        let time = drive.service(&mut self.head, now, access);
        self.cylinder = cylinder;
        self.active += 1;
        self.counters.busy += time / drive.channels();
        if access.is_write {
            self.counters.writes += 1;
            self.counters.written_bytes += access.bytes;
        } else {
            self.counters.reads += 1;
            self.counters.read_bytes += access.bytes;
        }
        Some((operation, time))
    }

    /// An access has ended.
    pub fn ended(&mut self) {
        self.active -= 1;
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

    #[test]
    fn the_elevator_goes_up_and_begins_again_and_the_host_goes_first() {
        let drive = drives().remove("15k-146").unwrap();
        let mut disk = Disk::new();
        let at =
            |gigabytes: u64| Access { position: gigabytes * 1_000_000_000, bytes: 4096, is_write: false };
        let (zero, patience) = (Duration::ZERO, Duration::from_millis(20));
        for (operation, place) in [(0, 50), (1, 20), (2, 80), (3, 60)] {
            disk.push(&drive, zero, operation, at(place), false);
        }
        disk.push(&drive, zero, 4, at(55), true);
        let mut order = vec![];
        disk.cylinder = drive.cylinder(55_000_000_000);
        while let Some((operation, _)) = disk.start(&drive, zero, patience) {
            order.push(operation);
            disk.ended();
        }
        assert_eq!(order, [3, 2, 1, 0, 4]);
        disk.push(&drive, zero, 5, at(10), true);
        disk.push(&drive, patience, 6, at(90), false);
        // Patience is over: the elevator decides.
        disk.cylinder = 0.0;
        assert_eq!(disk.start(&drive, patience, patience).unwrap().0, 5);
    }
}
