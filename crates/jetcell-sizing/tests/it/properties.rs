//! Tests of monotonicity: a larger load never needs fewer disks, and each input changes the results in the expected
//! direction.

use jetcell_sizing::units::{DataSize, Share};
use jetcell_sizing::{Config, DiskCatalogue, EXAMPLE, SizingResult, size};
use proptest::prelude::*;

fn example() -> Config {
    Config::read("example", EXAMPLE).unwrap()
}

fn sized(config: &Config) -> SizingResult {
    size(config, &DiskCatalogue::built_in()).unwrap()
}

/// Returns the number of disks in each design, in the order of the configuration.
fn disks(sizing: &SizingResult) -> Vec<(String, f64)> {
    let mut disks: Vec<_> = sizing
        .designs
        .iter()
        .map(|design| (format!("{} {}", design.disk, design.array), design.disks))
        .collect();
    disks.sort_by(|a, b| a.0.cmp(&b.0));
    disks
}

fn never_less(smaller: &Config, larger: &Config) -> Result<(), TestCaseError> {
    let (before, after) = (sized(smaller), sized(larger));
    for (before, after) in disks(&before).iter().zip(disks(&after)) {
        prop_assert!(before.1 <= after.1, "{}: {} to {}", before.0, before.1, after.1);
    }
    for (before, after) in before.server.loads.iter().zip(&after.server.loads) {
        prop_assert!(before.database_reads <= after.database_reads * (1.0 + 1e-12));
        prop_assert!(before.database_writes <= after.database_writes * (1.0 + 1e-12));
        prop_assert!(before.log_writes <= after.log_writes * (1.0 + 1e-12));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_larger_load_never_needs_fewer_disks(
        count in 100u64..50_000,
        messages in 1.0f64..500.0,
        quota in 1u32..50,
        more in 1.0f64..3.0,
        input in 0..8,
    ) {
        let mut smaller = example();
        smaller.mailboxes.count = count;
        smaller.mailboxes.messages_per_day = messages;
        smaller.mailboxes.quota = DataSize::from_gib(f64::from(quota));
        // The number of databases is fixed, because rounding it up would break the property.
        smaller.databases.count = Some(30);
        smaller.databases.restore_volume = false;
        let mut larger = smaller.clone();
        match input {
            0 => larger.mailboxes.count = (count as f64 * more) as u64,
            1 => larger.mailboxes.messages_per_day *= more,
            2 => larger.mailboxes.quota.0 *= more,
            3 => larger.mailboxes.growth.0 *= more,
            4 => larger.mailboxes.retention.0 *= more,
            5 => larger.servers.headroom.0 *= more,
            6 => larger.mailboxes.busier_factor *= more,
            _ => larger.databases.free = Share(smaller.databases.free.0 * more),
        }
        never_less(&smaller, &larger)?;
    }

    #[test]
    fn more_copies_store_more_and_tolerate_more_failures(count in 100u64..50_000) {
        let mut smaller = example();
        smaller.mailboxes.count = count;
        smaller.databases.count = Some(30);
        let mut larger = smaller.clone();
        larger.servers.copies = 3;
        never_less(&smaller, &larger)?;
        prop_assert!(sized(&larger).server.replication_mbit_s >= sized(&smaller).server.replication_mbit_s);
    }

    #[test]
    fn a_better_disk_never_needs_more(better in 1.0f64..4.0, which in 0..3) {
        let config = example();
        let mut catalogue = DiskCatalogue::built_in();
        let mut disk = catalogue.find("7.2k 8TB").unwrap().clone();
        match which {
            0 => disk.random_iops *= better,
            1 => disk.capacity.0 *= better,
            _ => disk.sequential.0 *= better,
        }
        catalogue.add(vec![disk]).unwrap();
        let after = size(&config, &catalogue).unwrap();
        for (before, after) in disks(&sized(&config)).iter().zip(disks(&after)) {
            prop_assert!(before.1 >= after.1);
        }
    }

    #[test]
    fn a_higher_measured_write_ratio_never_needs_fewer_disks(ratio in 0.1f64..6.0, more in 1.0f64..3.0) {
        let mut smaller = example();
        smaller.storage.layouts.truncate(1);
        smaller.storage.layouts[0].write_ratio = Some(ratio);
        let mut larger = smaller.clone();
        larger.storage.layouts[0].write_ratio = Some(ratio * more);
        prop_assert!(sized(&smaller).designs[0].disks <= sized(&larger).designs[0].disks);
    }
}
