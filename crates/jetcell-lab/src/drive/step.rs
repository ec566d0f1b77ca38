//! The steps of a drive test, in order.

use serde::{Deserialize, Serialize};

use super::load::Access;

/// Transfer size in bytes for steps that read or write the whole target.
const LARGE: u64 = 1 << 20;
const SMALL: u64 = 4096;
/// Queue depth for steps with large transfers, enough to keep the device busy all the time.
const LARGE_DEPTH: usize = 4;
/// Queue depth for mixed steps.
const MIXED_DEPTH: usize = 8;
/// Percentage of reads in mixed steps, as for a mailbox database.
const MIXED_READS: u32 = 65;
/// Size in bytes of the region that a burst reads repeatedly.
const BURST: u64 = 64 << 10;

/// Group of related steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Sequential transfers over the whole target.
    Transfer,
    /// Access time at random offsets.
    AccessTime,
    /// Access time at a known distance from the previous access.
    Seek,
    /// 4 KiB transfers.
    FourKib,
    /// Random transfers, by transfer size.
    BySize,
    /// Random transfers, by number in flight.
    QueueDepth,
    /// Repeated transfers in the same region.
    Burst,
    /// Reads of data that was just written.
    ReadAfterWrite,
    /// Writes followed by a sync.
    Sync,
    /// Mixed reads and writes.
    Mixed,
}

/// Unit of a step's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Mebibytes per second.
    #[serde(rename = "MiB/s")]
    MibPerSecond,
    /// Transfers per second.
    #[serde(rename = "IOPS")]
    Iops,
    /// Mean latency in milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
}

impl Unit {
    /// Returns the unit's name in the stored result.
    pub fn name(self) -> &'static str {
        match self {
            Unit::MibPerSecond => "MiB/s",
            Unit::Iops => "IOPS",
            Unit::Milliseconds => "ms",
        }
    }

    /// Returns true if a smaller figure is better.
    pub fn lower_is_better(self) -> bool {
        self == Unit::Milliseconds
    }
}

/// A step of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Short machine-readable name, such as `random_read_4k`.
    pub name: String,
    /// Human-readable title.
    pub title: String,
    /// Group of the step.
    pub group: Group,
    /// Unit of its figure.
    pub unit: Unit,
    /// Size of a transfer in bytes.
    pub size: u64,
    /// Number of transfers in flight.
    pub depth: usize,
    /// Percentage of the transfers that are reads.
    pub reads_percent: u32,
}

impl Step {
    fn new(name: impl Into<String>, title: impl Into<String>, group: Group, unit: Unit) -> Step {
        let (name, title) = (name.into(), title.into());
        Step { name, title, group, unit, size: SMALL, depth: 1, reads_percent: 100 }
    }

    fn of(self, size: u64, depth: usize, reads_percent: u32) -> Step {
        Step { size, depth, reads_percent, ..self }
    }

    /// Returns true if the step writes to the target.
    pub fn writes(&self) -> bool {
        self.reads_percent < 100 || matches!(self.group, Group::ReadAfterWrite | Group::Sync)
    }

    /// Formats the transfer size for display: `512 B`, `64 KiB`.
    pub fn size_text(&self) -> String {
        shown(self.size)
    }

    pub(super) fn access(&self) -> Access {
        match self.group {
            Group::Transfer => Access::OnePass,
            Group::Burst => Access::OnePlace,
            Group::FourKib if self.name.starts_with("sequential") => Access::Sequential,
            _ => Access::Random,
        }
    }
}

/// Name of the step that measures seek time by distance.
pub(super) const SEEK_CURVE: &str = "seek_curve";

/// Formats a size for display.
fn shown(size: u64) -> String {
    match size {
        LARGE => "1 MiB".into(),
        size if size < 1024 => format!("{size} B"),
        size => format!("{} KiB", size >> 10),
    }
}

/// Returns true if a step with this name exists for any target.
pub fn is_step(name: &str) -> bool {
    steps(512).iter().any(|step| step.name == name)
}

/// Returns all steps, with random transfers no smaller than `smallest` bytes.
pub(super) fn steps(smallest: u64) -> Vec<Step> {
    let kinds = [("read", 100), ("write", 0)];
    let mut all = Vec::new();
    for (kind, percent) in kinds {
        let title = format!("Transfer, {kind}");
        all.push(Step::new(format!("transfer_{kind}"), title, Group::Transfer, Unit::MibPerSecond).of(
            LARGE,
            LARGE_DEPTH,
            percent,
        ));
    }
    all.push(Step::new("access_time", "Access time, 4 KiB", Group::AccessTime, Unit::Milliseconds));
    all.push(
        Step::new(
            "random_seek",
            format!("Random seek, {}", shown(smallest)),
            Group::Seek,
            Unit::Milliseconds,
        )
        .of(smallest, 1, 100),
    );
    all.push(Step::new(SEEK_CURVE, "Seek by distance, 4 KiB", Group::Seek, Unit::Milliseconds));
    for order in ["sequential", "random"] {
        for (kind, percent) in kinds {
            let title = format!("4 KiB {order} {kind}");
            let step = Step::new(format!("{order}_{kind}_4k"), title, Group::FourKib, Unit::Iops);
            all.push(step.of(SMALL, 1, percent));
        }
    }
    for (kind, percent) in kinds {
        for size in (9..=20).map(|power| 1_u64 << power).filter(|size| *size >= smallest) {
            let name = if size < 1024 { format!("{size}") } else { format!("{}k", size >> 10) };
            let title = format!("Random {kind}, {}", shown(size));
            let step = Step::new(format!("size_{kind}_{name}"), title, Group::BySize, Unit::Iops);
            all.push(step.of(size, 1, percent));
        }
    }
    for (kind, percent) in kinds {
        for depth in (0..=6).map(|power| 1 << power) {
            let title = format!("4 KiB {kind}, {depth} in flight");
            let step = Step::new(format!("depth_{kind}_{depth}"), title, Group::QueueDepth, Unit::Iops);
            all.push(step.of(SMALL, depth, percent));
        }
    }
    all.push(
        Step::new("burst_read", "Burst, 64 KiB of one place", Group::Burst, Unit::MibPerSecond)
            .of(BURST, 1, 100),
    );
    all.push(Step::new(
        "read_after_write",
        "Read after write, 4 KiB",
        Group::ReadAfterWrite,
        Unit::Milliseconds,
    ));
    all.push(Step::new("sync", "Sync of a 4 KiB write", Group::Sync, Unit::Milliseconds));
    for size in [8 << 10, 32 << 10] {
        let title = format!("Mixed {MIXED_READS}:{}, {} KiB", 100 - MIXED_READS, size >> 10);
        let step = Step::new(format!("mixed_{}k", size >> 10), title, Group::Mixed, Unit::Iops);
        all.push(step.of(size, MIXED_DEPTH, MIXED_READS));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_is_done() {
        let all = steps(512);
        let mut names: Vec<&str> = all.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|step| step.writes() || !step.name.contains("write")));
        let sizes = |kind: &str| {
            all.iter().filter(|step| step.name.starts_with(kind)).map(|step| step.size).collect::<Vec<_>>()
        };
        assert_eq!(sizes("size_read").first().zip(sizes("size_read").last()), Some((&512, &(1 << 20))));
        assert_eq!(sizes("size_read"), sizes("size_write"));
    }
}
