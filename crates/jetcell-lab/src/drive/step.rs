//! The steps of a drive test, in order.

use jetcell_input::Unit;
use jetcell_workload::measurement::BetterDirection;
use serde::{Deserialize, Serialize};

use super::load::AccessPattern;

/// Transfer size in bytes for steps that read or write the whole target.
const LARGE_TRANSFER_BYTES: u64 = 1 << 20;
const SMALL_TRANSFER_BYTES: u64 = 4096;
/// Queue depth for steps with large transfers, enough to keep the device busy all the time.
const LARGE_DEPTH: usize = 4;
/// Queue depth for mixed steps.
const MIXED_DEPTH: usize = 8;
/// Percentage of reads in mixed steps, as for a mailbox database.
const MIXED_READS_PERCENT: u32 = 65;
/// Size in bytes of the region that a burst reads repeatedly.
const BURST_REGION_BYTES: u64 = 64 << 10;

/// A group of related test steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepGroup {
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
    /// Random transfers, by number of transfers in flight.
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

/// The unit of a test step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepUnit {
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

impl StepUnit {
    /// Returns the unit's name in the stored result.
    pub fn name(self) -> &'static str {
        Unit::from(self).name()
    }

    /// Returns whether higher or lower figures are better.
    pub fn better(self) -> BetterDirection {
        if self == StepUnit::Milliseconds { BetterDirection::Lower } else { BetterDirection::Higher }
    }
}

impl From<StepUnit> for Unit {
    fn from(unit: StepUnit) -> Unit {
        match unit {
            StepUnit::MibPerSecond => Unit::MebibytesPerSecond,
            StepUnit::Iops => Unit::Iops,
            StepUnit::Milliseconds => Unit::Milliseconds,
        }
    }
}

/// A step in a drive test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestStep {
    /// Short machine-readable name, such as `random_read_4k`.
    pub name: String,
    /// Human-readable title.
    pub title: String,
    /// Group of the step.
    pub group: StepGroup,
    /// Unit of the step's result.
    pub unit: StepUnit,
    /// Size of a transfer in bytes.
    pub size: u64,
    /// Number of transfers in flight.
    pub depth: usize,
    /// Percentage of the transfers that are reads.
    pub reads_percent: u32,
}

impl TestStep {
    fn new(name: impl Into<String>, title: impl Into<String>, group: StepGroup, unit: StepUnit) -> TestStep {
        let (name, title) = (name.into(), title.into());
        TestStep { name, title, group, unit, size: SMALL_TRANSFER_BYTES, depth: 1, reads_percent: 100 }
    }

    fn with_transfers(self, size: u64, depth: usize, reads_percent: u32) -> TestStep {
        TestStep { size, depth, reads_percent, ..self }
    }

    /// Returns true if the step writes to the target.
    pub fn writes(&self) -> bool {
        self.reads_percent < 100 || matches!(self.group, StepGroup::ReadAfterWrite | StepGroup::Sync)
    }

    /// Formats the transfer size for display: `512 B`, `64 KiB`.
    pub fn size_text(&self) -> String {
        size_label(self.size)
    }

    pub(super) fn access(&self) -> AccessPattern {
        match self.group {
            StepGroup::Transfer => AccessPattern::OnePass,
            StepGroup::Burst => AccessPattern::SingleOffset,
            StepGroup::FourKib if self.name.starts_with("sequential") => AccessPattern::Sequential,
            _ => AccessPattern::Random,
        }
    }
}

/// Name of the step that measures seek time by distance.
pub(super) const SEEK_CURVE: &str = "seek_curve";

/// Formats a size for display.
fn size_label(size: u64) -> String {
    match size {
        LARGE_TRANSFER_BYTES => "1 MiB".into(),
        size if size < 1024 => format!("{size} B"),
        size => format!("{} KiB", size >> 10),
    }
}

/// Returns true if a step with this name exists for any target.
pub fn is_step(name: &str) -> bool {
    steps(512).iter().any(|step| step.name == name)
}

/// Returns all steps, with random transfers no smaller than `smallest` bytes.
pub(super) fn steps(smallest: u64) -> Vec<TestStep> {
    let kinds = [("read", 100), ("write", 0)];
    let mut all = Vec::new();
    for (kind, percent) in kinds {
        let title = format!("Transfer, {kind}");
        all.push(
            TestStep::new(format!("transfer_{kind}"), title, StepGroup::Transfer, StepUnit::MibPerSecond)
                .with_transfers(LARGE_TRANSFER_BYTES, LARGE_DEPTH, percent),
        );
    }
    all.push(TestStep::new(
        "access_time",
        "Access time, 4 KiB",
        StepGroup::AccessTime,
        StepUnit::Milliseconds,
    ));
    all.push(
        TestStep::new(
            "random_seek",
            format!("Random seek, {}", size_label(smallest)),
            StepGroup::Seek,
            StepUnit::Milliseconds,
        )
        .with_transfers(smallest, 1, 100),
    );
    all.push(TestStep::new(SEEK_CURVE, "Seek by distance, 4 KiB", StepGroup::Seek, StepUnit::Milliseconds));
    for order in ["sequential", "random"] {
        for (kind, percent) in kinds {
            let title = format!("4 KiB {order} {kind}");
            let step = TestStep::new(format!("{order}_{kind}_4k"), title, StepGroup::FourKib, StepUnit::Iops);
            all.push(step.with_transfers(SMALL_TRANSFER_BYTES, 1, percent));
        }
    }
    for (kind, percent) in kinds {
        for size in (9..=20).map(|power| 1_u64 << power).filter(|size| *size >= smallest) {
            let name = if size < 1024 { format!("{size}") } else { format!("{}k", size >> 10) };
            let title = format!("Random {kind}, {}", size_label(size));
            let step = TestStep::new(format!("size_{kind}_{name}"), title, StepGroup::BySize, StepUnit::Iops);
            all.push(step.with_transfers(size, 1, percent));
        }
    }
    for (kind, percent) in kinds {
        for depth in (0..=6).map(|power| 1 << power) {
            let title = format!("4 KiB {kind}, {depth} in flight");
            let step =
                TestStep::new(format!("depth_{kind}_{depth}"), title, StepGroup::QueueDepth, StepUnit::Iops);
            all.push(step.with_transfers(SMALL_TRANSFER_BYTES, depth, percent));
        }
    }
    all.push(
        TestStep::new("burst_read", "Burst, 64 KiB of one place", StepGroup::Burst, StepUnit::MibPerSecond)
            .with_transfers(BURST_REGION_BYTES, 1, 100),
    );
    all.push(TestStep::new(
        "read_after_write",
        "Read after write, 4 KiB",
        StepGroup::ReadAfterWrite,
        StepUnit::Milliseconds,
    ));
    all.push(TestStep::new("sync", "Sync of a 4 KiB write", StepGroup::Sync, StepUnit::Milliseconds));
    for size in [8 << 10, 32 << 10] {
        let title = format!("Mixed {MIXED_READS_PERCENT}:{}, {} KiB", 100 - MIXED_READS_PERCENT, size >> 10);
        let step = TestStep::new(format!("mixed_{}k", size >> 10), title, StepGroup::Mixed, StepUnit::Iops);
        all.push(step.with_transfers(size, MIXED_DEPTH, MIXED_READS_PERCENT));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique_and_descriptive() {
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
